# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents, asked in every way: the same decisions, and the same objects to the byte.

A small program; with MLBRIDGE_LONG_TESTS ten real ones. build/test/agents.json says what was
compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import advised
import numpy as np
import pytest
from agents import RUNNERS, answering
from runners_test import REAL, real

import mlbridge

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "test" / "agents.json"
LLVM = ROOT / "compilers" / "llvm"
LONG = bool(os.environ.get("MLBRIDGE_LONG_TESTS"))
#: The level of each, and a small program.
SITES = {
    "register-allocation": ("-O2", LLVM / "register-allocation/test/inputs/mixed.c"),
    "loop-distribution": ("-O3", LLVM / "loop-distribution/test/inputs/kernels.c"),
}


Decisions = dict[tuple[str, str], list[list[int]]]


def recorded(folder: Path) -> Decisions:
    """By agent and function, in a fixed order of those with the same name."""
    found: Decisions = {}
    for path in folder.glob("*.mlbrec"):
        for episode in mlbridge.Recording(path).episodes():
            taken = [int(np.ravel(v)[0]) for a in episode.actions for v in a.values()]
            found.setdefault((episode.agent, episode.context), []).append(taken)
    return {who: sorted(filter(None, them)) for who, them in found.items() if any(them)}


def programs(site: str) -> dict[str, Callable[[Sequence[str], Path], list[bytes]]]:
    level, source = SITES[site]

    def small(compiler: Sequence[str], folder: Path) -> list[bytes]:
        made = folder / "made.o"
        advised.run(*compiler, level, "-w", "-c", source, "-o", made)
        return [made.read_bytes()]

    if not LONG:
        return {source.name: small}
    return {
        name: lambda compiler, folder, name=name: real(name, compiler, folder, level)  # type: ignore[misc]
        for name in REAL
    }


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("site", SITES)
def test_every_runner_decides_alike(site: str, tmp_path: Path) -> None:
    reference: dict[str, tuple[list[bytes], Decisions]] = {}
    results = []
    for runner in RUNNERS:
        folder = tmp_path / runner
        folder.mkdir()
        decided, identical = 0, True
        with answering(runner, ROOT / "models" / site, folder) as uri:
            for program, build in programs(site).items():
                place = folder / program
                log = place / "log"
                log.mkdir(parents=True)
                more: dict[str, Any] = {"on_failure": "fail", "deadline": "60s"}
                model = "; ".join(f"{one}?record={log}" for one in uri.split("; "))
                asked = advised.options(site, model, **more)
                made = build(["clang-22", *asked], place), recorded(log)
                decided += sum(len(its) for them in made[1].values() for its in them)
                identical &= made == reference.setdefault(program, made)
        names = list(reference)
        results.append(
            {
                "site": site,
                "runner": runner,
                "programs": names,
                "decisions": decided,
                "identical": identical,
            }
        )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(RESULT.read_text()) if RESULT.exists() else []
    others = [one for one in before if one["site"] != site]
    RESULT.write_text(json.dumps(others + results, indent=1) + "\n")
    assert all(one["decisions"] and one["identical"] for one in results), results
