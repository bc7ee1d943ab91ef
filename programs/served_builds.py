# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One server for a whole parallel build, over each transport, beside the model in process.

    python -m programs.served_builds [--program zstd] [--jobs 8] [--rounds 3]

Builds a program by its own build system with the shipped policy: in every compiler's own process,
and in one server that all compilers ask. Decisions and objects must be the same. Written to
build/programs/own-builds/served.json; seconds are medians of builds in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from demo.server import ModelServer
from programs.catalog import ProgramsError
from programs.fetch import fetch
from programs.own_builds import OUTPUT, Outcome, OwnBuild, build, load_builds
from programs.plugin import MODEL, plugin_flags

TRANSPORTS = ("unix", "shm", "pipe", "grpc")
MOST_TIME = {"unix": 1.5, "shm": 1.5}


def actions_in(folder: Path) -> dict[str, list[list[int]]]:
    """What was decided for the modules of each name."""
    decided: dict[str, list[list[int]]] = {}
    for log in folder.glob("*.jsonl"):
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        # The rest of the name is a digest, of the folder among others.
        name = log.name.rpartition("-")[0]
        decided.setdefault(name, []).append([e["action"] for e in entries if "action" in e])
    return {name: sorted(modules) for name, modules in decided.items()}


def once(entry: OwnBuild, way: str, jobs: int) -> tuple[Outcome, dict[str, list[list[int]]]]:
    """Build with the model in process, or behind a server on a transport."""
    served = way in TRANSPORTS
    OUTPUT.mkdir(parents=True, exist_ok=True)
    server = ModelServer(MODEL, OUTPUT / "server.log", way) if served else nullcontext()
    with server as running:
        uri = running.uri if isinstance(running, ModelServer) else f"onnx:{MODEL}"
        outcome = build(entry, way, plugin_flags(uri), jobs)
    return outcome, actions_in(OUTPUT / entry.name / way / "decisions")


def compare(entry: OwnBuild, jobs: int, rounds: int) -> tuple[list[str], list[dict[str, Any]]]:
    """All ways in turns: what is wrong, and a row for each."""
    wrong: list[str] = []
    seconds: dict[str, list[float]] = {}
    rows: dict[str, dict[str, Any]] = {}
    for number in range(rounds):
        expected, decided = once(entry, "onnx", jobs)
        seconds.setdefault("onnx", []).append(expected.seconds)
        for way in TRANSPORTS:
            outcome, actions = once(entry, way, jobs)
            seconds.setdefault(way, []).append(outcome.seconds)
            other = [name for name in decided if decided[name] != actions.get(name)]
            objects = [
                name for name, data in expected.objects.items() if outcome.objects.get(name) != data
            ]
            rows[way] = {
                "transport": way,
                "modules": sum(map(len, actions.values())),
                "decisions": outcome.decisions.made,
                "fallbacks": outcome.decisions.failed,
                "decided_differently": len(other),
                "objects_different": len(objects),
            }
            if other or objects or outcome.decisions.failed or set(actions) != set(decided):
                wrong.append(f"{entry.name} over {way}, round {number}: {rows[way]} {other[:3]}")
    base = statistics.median(seconds["onnx"])
    for way in TRANSPORTS:
        rows[way]["seconds"] = round(statistics.median(seconds[way]), 2)
        rows[way]["in_process_seconds"] = round(base, 2)
        rows[way]["ratio"] = round(statistics.median(seconds[way]) / base, 3)
        if rows[way]["ratio"] > MOST_TIME.get(way, 1e9):
            wrong.append(f"{entry.name} over {way}: {rows[way]['ratio']} x the time in process")
    return wrong, list(rows.values())


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="programs.served_builds", description=about)
    parser.add_argument("--program", default="zstd", help="one of own_builds.toml")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    try:
        entries = {entry.name: entry for entry in load_builds()}
        if options.program not in entries:
            raise ProgramsError(f"not in own_builds.toml: {options.program}")
        entry = entries[options.program]
        fetch([entry.program()])
        wrong, rows = compare(entry, options.jobs, options.rounds)
    except ProgramsError as error:
        wrong, rows = [str(error)], []
    for row in rows:
        print(
            f"{row['transport']:5s} {row['modules']:4d} modules {row['decisions']:5d} decisions,"
            f" {row['decided_differently']} decided differently, {row['objects_different']} objects"
            f" different, {row['seconds']:.1f} s, {row['ratio']:.2f} x in process"
        )
    if rows:
        report = {"program": options.program, "jobs": options.jobs, "builds": rows}
        (OUTPUT / "served.json").write_text(json.dumps(report, indent=1) + "\n")
    for text in wrong:
        print(f"served_builds: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
