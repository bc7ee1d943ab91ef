# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every fault at every place of a conversation: advice is right, or there is a clear error.

A proxy stands between the two sides on each transport. It cuts, stalls and splits at every byte,
drops, doubles and reorders every frame, and changes every byte of every header; `make test` takes
some of the bytes, `make nightly` all. What came of it is in faults.json, in build/test or
build/nightly; only faults that were seen to take effect are counted.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from reports import update
from result_tables import section
from sampling import nightly

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "build" / "cmake" / "dev"
SAMPLE = 11  # every which byte is taken; it has no factor in common with the headers' 40 bytes
TRANSPORTS = ("pipe", "unix", "shm", "grpc")
COUNTS = ("injected", "correct_advice", "clear_error", "wrong_advice", "hang", "crash")
SECONDS = 600


def campaign(transport: str, every: int, folder: Path) -> dict[str, Any]:
    """What the program says of one transport; its own end by a signal is a crash."""
    program = os.environ.get("MLBRIDGE_FAULT_CAMPAIGN", str(DEV / "tests" / "fault-campaign"))
    try:
        done = subprocess.run(
            [program, str(every), str(folder), transport],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={"MLBRIDGE_COMPONENT_PATH": str(DEV / "lib" / "mlbridge"), **os.environ},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"hang": 1, "said": f"did not end within {SECONDS} s"}
    if done.returncode < 0:
        return {"crash": 1, "said": f"ended by signal {-done.returncode}: {done.stderr}"}
    if done.returncode != 0:
        return {"said": done.stderr}
    return dict(json.loads(done.stdout))


def keep(transport: str, every: int, found: dict[str, Any]) -> None:
    """In the file, with the sums over the transports that are there."""

    def change(before: dict[str, Any] | None) -> dict[str, Any]:
        transports = {**(before or {}).get("transports", {}), transport: found}
        sums = {key: sum(one.get(key, 0) for one in transports.values()) for key in COUNTS}
        return {**sums, "transports": transports}

    report = ROOT / "build" / ("nightly" if every == 1 else "test") / "faults.json"

    def tell(sums: dict[str, Any]) -> None:
        section(
            report,
            "Interoperability and fault injection (`make test`, `make nightly`)",
            "{injected} faults that took effect: {correct_advice} times the right advice,"
            " {clear_error} times a clear error, {wrong_advice} times wrong advice, {hang} hangs,"
            " {crash} crashes.".format(**sums),
        )

    update(report, change, tell)


@pytest.mark.timeout(SECONDS * 4)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("every", [SAMPLE, nightly(1)])
def test_no_fault_misleads(transport: str, every: int, tmp_path: Path) -> None:
    report = campaign(transport, every, tmp_path)
    keep(transport, every, report)
    assert report.get("said") is None, report["said"]
    assert report["wrong_advice"] == 0
    assert report["hang"] == 0
    assert report["unclear"] == 0
    assert report["injected"] > 4000 // every
    assert report["without_effect"] < 0.01 * report["injected"]
    assert report["injected"] == report["correct_advice"] + report["clear_error"]
    # Each kind was there, and a split harms nobody.
    kinds = {name.split()[1]: count for name, count in report["kinds"].items()}
    assert set(kinds) == {"cut", "stall", "split", "drop", "duplicate", "swap", "header"}
    assert report["correct_advice"] >= kinds["split"] * 0.9
