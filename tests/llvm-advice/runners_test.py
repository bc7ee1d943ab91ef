# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One policy, asked in every way: the same decisions, and the same objects to the byte.

Two small programs by one of the runners; for `make nightly` ten real ones by all of them.
build/test/llvm-advice.json says what was compared.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import linked
import pytest
from advised import MAIN
from advising import PROGRAM, evicting_network
from beyond_llvm import asked
from building import run
from compiler import loading
from once import SharedBuild
from same_decisions import REAL, compare, digest, kept, real
from sampling import SAMPLED_RUNNER, nightly

import mlbridge
from mlbridge.llvm_channel.log import TrainingLog

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "test" / "llvm-advice.json"
SITES = {"inliner": "inlining_decision", "regalloc-eviction": "index_to_evict"}
RUNNERS = ("native", "channel", "onnx", "aot", "unix", "pipe", "grpc", "tfaot")
#: Compiles a program with this compiler: its objects.
Build = Callable[[Sequence[str], Path], list[bytes]]
#: For each file, what was decided in it.
Decisions = list[list[int]]
#: The digest of the objects of each program, and the decisions.
Made = dict[str, tuple[str, Decisions]]


def small(source: Path, compiler: Sequence[str], folder: Path) -> list[bytes]:
    target = folder / "object.o"
    run(*compiler, "-Oz", "-c", source, "-o", target)
    return [target.read_bytes()]


def programs(folder: Path, are_real: bool) -> dict[str, Build]:
    if are_real:
        return {name: lambda c, f, name=name: real(name, c, f) for name in REAL}  # type: ignore[misc]
    plus = folder / "main.cpp"
    plus.write_text(MAIN)
    return {
        path.name: lambda c, f, path=path: small(path, c, f)  # type: ignore[misc]
        for path in (PROGRAM, plus)
    }


def policy_of(site: str, folder: Path) -> Path:
    if site == "inliner":
        return ROOT / "models" / "inliner-size" / "policy.onnx"
    path = folder / "policy.onnx"
    evicting_network(path)
    return path


@contextlib.contextmanager
def answering(runner: str, policy: Path, folder: Path) -> Iterator[str]:
    """The URI of the policy, while this lasts."""
    if runner == "tfaot":
        linked.build(folder)
        yield linked.uri("inliner" if policy.parent.name == "inliner-size" else "regalloc-eviction")
    else:
        with asked(runner, policy, folder) as uri:
            yield uri


def recorded(folder: Path, name: str) -> Decisions:
    """The decisions of each compiler, in a fixed order."""
    found: Decisions = []
    for path in folder.iterdir():
        if path.suffix == ".mlbrec":
            rows = [int(a[name][0]) for e in mlbridge.Recording(path).episodes() for a in e.actions]
        else:
            contexts = TrainingLog(path).contexts()
            rows = [int(o[name][0]) for one in contexts for o in one.observations]
        if rows:
            found.append(rows)
    return sorted(found)


def made_by(runner: str, site: str, are_real: bool, folder: Path) -> Made:
    policy = policy_of(site, folder)
    made: Made = {}
    with contextlib.ExitStack() as stack:
        uri = ""
        if runner != "channel":
            uri = stack.enter_context(answering(runner, policy, folder))
        for program, build in programs(folder, are_real).items():
            place = folder / "made" / program
            log = place / "log"
            log.mkdir(parents=True)
            clang = "clang++-22" if program.endswith(".cpp") else "clang-22"
            if runner == "channel":
                command = [sys.executable, "-m", "mlbridge", "run", "--log", str(log)]
                compiler = [*command, "--advise", f"{site}=native:{policy}", "--", clang]
            else:
                more: dict[str, Any] = {"levels": "Oz", "log": str(log), "deadline": "60s"}
                own = linked.plugin(site, folder) if runner == "tfaot" else None
                compiler = [clang, *loading(site, own=own, model=uri, **more)]
            made[program] = digest(build(compiler, place)), recorded(log, SITES[site])
    return made


def reference(site: str, are_real: bool, shared_build: SharedBuild) -> Made:
    """What the policy decides when the plugin reads its file."""

    def make(folder: Path) -> Made:
        made = made_by("native", site, are_real, folder)
        plain = {
            name: digest(build(["clang-22"], folder))
            for name, build in programs(folder, are_real).items()
        }
        assert any(made[name][0] != plain[name] for name in made), "a policy of use"
        return made

    return kept(shared_build, f"reference-{site}-{are_real}", make)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("site", "runner", "are_real"),
    [
        *((site, SAMPLED_RUNNER[site], False) for site in SITES),
        *(nightly(site, runner, True) for site in SITES for runner in RUNNERS),
    ],
)
def test_every_runner_decides_alike(
    site: str, runner: str, are_real: bool, shared_build: SharedBuild, tmp_path: Path
) -> None:
    expected = reference(site, are_real, shared_build)
    made = made_by(runner, site, are_real, tmp_path)
    decided = sum(len(of_file) for _, decisions in made.values() for of_file in decisions)
    compare(RESULT, site, runner, made, expected, decided)
