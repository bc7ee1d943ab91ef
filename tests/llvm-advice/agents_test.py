# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents, asked in every way: the same decisions, and the same objects to the byte.

A small program by one of the runners; for `make nightly` ten real ones by all of them.
build/test/agents.json says what was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agents import RUNNERS, answering
from building import run
from compiler import loading
from once import SharedBuild
from same_decisions import REAL, compare, digest, kept, real
from sampling import SAMPLED_RUNNER, nightly

import mlbridge

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "test" / "agents.json"
LLVM = ROOT / "compilers" / "llvm"
#: The level of each, and a small program.
SITES = {
    "register-allocation": ("-O2", LLVM / "register-allocation/test/inputs/mixed.c"),
    "loop-distribution": ("-O3", LLVM / "loop-distribution/test/inputs/kernels.c"),
}


#: By agent and function, in a fixed order of those with the same name.
Decisions = dict[str, list[list[int]]]
#: The digest of the objects of each program, and the decisions.
Made = dict[str, tuple[str, Decisions]]


def recorded(folder: Path) -> Decisions:
    found: Decisions = {}
    for path in folder.glob("*.mlbrec"):
        for episode in mlbridge.Recording(path).episodes():
            taken = [int(np.ravel(v)[0]) for a in episode.actions for v in a.values()]
            found.setdefault(f"{episode.agent} {episode.unit}", []).append(taken)
    return {who: sorted(filter(None, them)) for who, them in found.items() if any(them)}


def programs(site: str, are_real: bool) -> dict[str, Callable[[Sequence[str], Path], list[bytes]]]:
    level, source = SITES[site]

    def small(compiler: Sequence[str], folder: Path) -> list[bytes]:
        made = folder / "made.o"
        run(*compiler, level, "-w", "-c", source, "-o", made)
        return [made.read_bytes()]

    if not are_real:
        return {source.name: small}
    return {
        name: lambda compiler, folder, name=name: real(name, compiler, folder, level)  # type: ignore[misc]
        for name in REAL
    }


def made_by(runner: str, site: str, are_real: bool, folder: Path) -> Made:
    made: Made = {}
    with answering(runner, ROOT / "models" / site, folder) as uri:
        for program, build in programs(site, are_real).items():
            place = folder / "made" / program
            log = place / "log"
            log.mkdir(parents=True)
            more: dict[str, Any] = {"on_failure": "fail", "deadline": "60s"}
            model = "; ".join(f"{one}?record={log}" for one in uri.split("; "))
            asked = loading(site, model=model, **more)
            made[program] = digest(build(["clang-22", *asked], place)), recorded(log)
    return made


def reference(site: str, are_real: bool, shared_build: SharedBuild) -> Made:
    """What the networks decide when the plugin reads their files."""
    return kept(
        shared_build,
        f"reference-{site}-{are_real}",
        lambda folder: made_by("native", site, are_real, folder),
    )


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
    decided = sum(
        len(one) for _, decisions in made.values() for d in decisions.values() for one in d
    )
    compare(RESULT, site, runner, made, expected, decided)
