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


def recorded(folder: Path) -> dict[tuple[str, str], list[int]]:
    """Of each agent, and each place where it was asked."""
    found: dict[tuple[str, str], list[int]] = {}
    for path in folder.glob("*.mlbrec"):
        for episode in mlbridge.Recording(path).episodes():
            made = [int(np.ravel(v)[0]) for a in episode.actions for v in a.values()]
            found.setdefault((episode.agent, episode.context), []).extend(made)
    return {place: made for place, made in found.items() if made}


def programs(site: str) -> dict[str, Callable[[Sequence[str], Path], list[bytes]]]:
    level, source = SITES[site]

    def small(compiler: Sequence[str], folder: Path) -> list[bytes]:
        made = folder / "made.o"
        advised.run(*compiler, level, "-w", "-c", source, "-o", made)
        return [made.read_bytes()]

    if not LONG:
        return {source.name: small}
    return {
        name: lambda compiler, folder, name=name: real(name, [*compiler, level], folder)  # type: ignore[misc]
        for name in REAL
    }


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("site", SITES)
def test_every_runner_decides_alike(site: str, tmp_path: Path) -> None:
    reference: dict[str, tuple[list[bytes], dict[tuple[str, str], list[int]]]] = {}
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
                more = {"on_failure": "fail", "deadline": "60s"}
                recording = ";".join(f"{one}?record={log}" for one in uri.split(";"))
                asked = advised.options(site, recording, **more)
                made = build(["clang-22", *asked], place), recorded(log)
                decided += sum(map(len, made[1].values()))
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
