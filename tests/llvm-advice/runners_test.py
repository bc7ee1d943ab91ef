# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One policy, asked in every way: the same decisions, and the same objects to the byte.

Two small programs; with MLBRIDGE_LONG_TESTS ten real ones. build/test/llvm-advice.json says what
was compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import advised
import linked
import pytest
from advising import PROGRAM, evicting_network

import mlbridge
from mlbridge.loading import load
from mlbridge.training_log import TrainingLog

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "test" / "llvm-advice.json"
REAL = "zlib bzip2 lz4 lua jansson cjson pugixml jsoncpp tinyxml2 double-conversion".split()
LONG = bool(os.environ.get("MLBRIDGE_LONG_TESTS"))
SITES = ("inliner", "regalloc-eviction")
#: Where a server listens, in a folder.
SERVERS = {"unix": "unix:{}/s", "pipe": "pipe:{}/p/", "grpc": "grpc:localhost:0"}
RUNNERS = ("channel", "onnx", "native", "aot", *SERVERS, *(["tfaot"] if LONG else []))
#: Compiles a program with this compiler: its objects.
Build = Callable[[Sequence[str], Path], list[bytes]]
#: For each file, what was decided in it.
Decisions = list[list[int]]


def small(source: Path, compiler: Sequence[str], folder: Path) -> list[bytes]:
    target = folder / "object.o"
    advised.run(*compiler, "-Oz", "-c", source, "-o", target)
    return [target.read_bytes()]


def real(name: str, compiler: Sequence[str], folder: Path, level: str = "-Oz") -> list[bytes]:
    from programs.build import compile_program
    from programs.catalog import load as catalog
    from programs.catalog import select
    from programs.fetch import fetch

    (program,) = fetch(select(catalog(), [name]))
    made = compile_program(program, folder / "objects", compiler, (level,))
    return [item.object.read_bytes() for item in made]


def programs(folder: Path) -> dict[str, Build]:
    if LONG:
        return {name: lambda c, f, name=name: real(name, c, f) for name in REAL}  # type: ignore[misc]
    plus = folder / "main.cpp"
    plus.write_text(advised.MAIN)
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
    if runner in ("onnx", "native"):
        yield f"{runner}:{policy}"
    elif runner == "tfaot":
        linked.build(folder)
        yield linked.uri("inliner" if policy.parent.name == "inliner-size" else "regalloc-eviction")
    elif runner == "aot":
        made = folder / "policy.so"
        command = [sys.executable, "-m", "mlbridge", "compile", str(policy), "-o", str(made)]
        subprocess.run(command, check=True, timeout=300)
        yield f"aot:{made}"
    else:
        served = load(str(policy))
        ready = threading.Event()
        place: list[mlbridge.Server] = []

        def listening(server: mlbridge.Server) -> None:
            place.append(server)
            ready.set()

        at = SERVERS[runner].format(folder)
        thread = threading.Thread(target=served.serve, args=(at,), kwargs={"ready": listening})
        thread.start()
        assert ready.wait(60)
        try:
            yield place[0].address
        finally:
            place[0].stop()
            thread.join(60)


def recorded(folder: Path, name: str) -> Decisions:
    """Of each compiler, in a fixed order."""
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


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("site", SITES)
def test_every_runner_decides_alike(site: str, tmp_path: Path) -> None:
    policy = policy_of(site, tmp_path)
    name = {"inliner": "inlining_decision", "regalloc-eviction": "index_to_evict"}[site]
    results = []
    reference: dict[str, tuple[list[bytes], Decisions]] = {}
    for runner in RUNNERS:
        decided, identical = 0, True
        folder = tmp_path / runner
        folder.mkdir()
        with contextlib.ExitStack() as stack:
            uri = (
                ""
                if runner == "channel"
                else stack.enter_context(answering(runner, policy, folder))
            )
            for program, build in programs(tmp_path).items():
                place = folder / program
                log = place / "log"
                log.mkdir(parents=True)
                clang = "clang++-22" if program.endswith(".cpp") else "clang-22"
                if runner == "channel":
                    command = [sys.executable, "-m", "mlbridge", "run", "--log", str(log)]
                    compiler = [*command, "--advise", f"{site}=native:{policy}", "--", clang]
                else:
                    more = {"levels": "Oz", "log": str(log), "deadline": "60s"}
                    own = linked.plugin(site, folder) if runner == "tfaot" else None
                    compiler = [clang, *advised.options(site, uri, 22, own, **more)]
                made = build(compiler, place), recorded(log, name)
                decided += sum(map(len, made[1]))
                identical &= made == reference.setdefault(program, made)
        results.append(
            {
                "site": site,
                "runner": runner,
                "programs": list(reference),
                "decisions": decided,
                "identical": identical,
            }
        )
    plain = {name: build(["clang-22"], tmp_path) for name, build in programs(tmp_path).items()}
    assert any(objects != plain[name] for name, (objects, _) in reference.items()), (
        "a policy of use"
    )
    keep(site, results)
    assert all(one["decisions"] for one in results)
    assert all(one["identical"] for one in results), results


def keep(site: str, results: list[dict[str, object]]) -> None:
    """In the file, beside those of the other site."""
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(RESULT.read_text()) if RESULT.exists() else []
    RESULT.write_text(
        json.dumps([one for one in before if one["site"] != site] + results, indent=1) + "\n"
    )
