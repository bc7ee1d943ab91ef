# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a good client notices of a hostile one; writes build/bench/attacks.json.

run.py [--seconds S] [TRANSPORT…] [ATTACK…]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "tests/attacks")]

from attacks import ATTACKS  # noqa: E402
from shared import report  # noqa: E402
from target import Target, outcome, target  # noqa: E402

TRANSPORTS = ("unix", "grpc", "shm")
QUIET = 2000
PATIENCE = 20  # an attacker that hasn't finished by then is killed


def asked(at: Target) -> float:
    """Milliseconds of one round."""
    begin = time.perf_counter()
    at.ask()
    return 1e3 * (time.perf_counter() - begin)


def measured(transport: str, name: str, seconds: float) -> dict[str, Any]:
    """One attack on a server of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        target(transport, ATTACKS[name][1], Path(folder)) as at,
    ):
        for _ in range(QUIET // 4):
            at.ask()
        before = [asked(at) for _ in range(QUIET)]
        at.forget_peak()
        memory = at.memory()
        attacker = at.attack(name, seconds=seconds, nice=19)
        during = []
        survived = True
        try:
            end = time.monotonic() + seconds + PATIENCE
            while attacker.poll() is None and time.monotonic() < end:
                during.append(asked(at))
            if attacker.poll() is not None:
                outcome(attacker)
            at.ask()
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            print(f"{transport} {name}: {error}")
            survived = False
        finally:
            attacker.kill()
            attacker.wait()
        peak = at.memory()
        return {
            "attack": name,
            "transport": transport,
            "p50_ms_before": round(statistics.median(before), 4),
            "p50_ms_during": round(statistics.median(during), 4) if during else None,
            "rss_mb_before": round(memory, 1),
            "rss_mb_peak": round(peak, 1),
            "survived": survived and at.process.poll() is None,
        }


def main() -> int:
    """Exit status 1 if one harmed the others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("names", nargs="*", metavar="TRANSPORT|ATTACK")
    options = parser.parse_args()
    transports = [t for t in TRANSPORTS if t in options.names] or list(TRANSPORTS)
    attacks = [a for a in ATTACKS if a in options.names] or list(ATTACKS)
    rows = []
    harmed = 0
    for transport in transports:
        for name in attacks:
            row = measured(transport, name, options.seconds)
            rows.append(row)
            during = row["p50_ms_during"]
            good = (
                row["survived"]
                and during is not None
                and during <= max(3 * row["p50_ms_before"], 1)
                and row["rss_mb_peak"] - row["rss_mb_before"] <= 256
            )
            harmed += not good
            print(("  " if good else "! ") + json.dumps(row), flush=True)
    report(
        "attacks",
        rows,
        "Hostile peers",
        "A well-behaved client of a Python server goes on asking while another client attacks it"
        " (`tests/attacks/attacks.py`). Medians of the good client's round trips, and memory of"
        " the server's process.",
        rows,
    )
    print(f"{len(rows)} attacks, {harmed} harmed others")
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
