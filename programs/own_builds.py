# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build programs by their own build systems, with and without the model, and run their checks.

    python3 -m programs.own_builds [--kill-server | --transports] [NAME ...]

Each is configured, made in parallel and checked twice, with CFLAGS=-Oz: with CC=clang-22, and
with CC="clang-22 $(mlbridge flags phase-ordering ...)". With --kill-server the second build asks a
Python server that is killed once some files are compiled; the build must be complete and pass, the
other files be plain -Oz. Writes build/programs/own-builds/report.json. Exits with 1 if a build or
check fails, no decision was made, or the code is more than 3 % larger in geometric mean.

With --transports one program (zstd unless named) is built in turns with the model in every
compiler's own process, and in one server that all compilers ask over each transport. Decisions and
objects must be the same. Writes served.json, whose seconds are medians.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib

from demo.server import ModelServer
from mlbridge.elf import executable_bytes
from programs.catalog import HERE, Program, ProgramsError
from programs.fetch import BUILD, fetch, run, source_tree
from programs.plugin import LOG, MODEL, Decisions, plugin_flags, read_decisions

OUTPUT = BUILD / "own-builds"
MOST_GROWTH = 1.03
TRANSPORTS = ("unix", "shm", "pipe", "grpc")
MOST_TIME = {"unix": 1.5, "shm": 1.5}  # over the time in process
ROUNDS = 3
LOGGED = ("--log", LOG)
_TIMEOUT = 900
_ELF64 = b"\x7fELF\x02\x01"


@dataclass(frozen=True)
class OwnBuild:
    """One entry of own_builds.toml, where the keys are explained."""

    name: str
    package: str
    expect: tuple[str, ...]
    make: tuple[str, ...]
    check: tuple[str, ...]
    configure: tuple[str, ...] = ()
    cflags: tuple[str, ...] = ()

    def program(self) -> Program:
        """As what it is fetched."""
        return Program(self.name, "other", "own build", self.package, self.expect)


@dataclass(frozen=True)
class Outcome:
    """What one build gave."""

    objects: dict[str, bytes]
    decisions: Decisions
    seconds: float

    @property
    def text(self) -> int:
        """Bytes of executable sections of all objects."""
        return sum(executable_bytes(data, name) for name, data in self.objects.items())


def load_builds(path: Path = HERE / "own_builds.toml") -> list[OwnBuild]:
    """All entries."""
    with path.open("rb") as file:
        entries: list[dict[str, Any]] = tomllib.load(file).get("build", [])
    lists = ("expect", "make", "check", "configure", "cflags")
    builds: list[OwnBuild] = []
    for entry in entries:
        try:
            builds.append(OwnBuild(**entry | {k: tuple(entry[k]) for k in lists if k in entry}))
        except TypeError as error:
            raise ProgramsError(f"{path}: {entry.get('name', 'an entry')}: {error}") from error
    return builds


def objects_in(tree: Path) -> dict[str, bytes]:
    """Every relocatable object below `tree`."""
    found = {str(path.relative_to(tree)): path for path in sorted(tree.rglob("*.o"))}
    contents = {name: path.read_bytes() for name, path in found.items() if path.is_file()}
    return {name: data for name, data in contents.items() if data.startswith(_ELF64)}


def _step(what: str, command: Sequence[str], tree: Path, env: dict[str, str], log: Path) -> None:
    ran = run(command, tree, _TIMEOUT, env=env)
    with log.open("ab") as out:
        out.write(f"$ {shlex.join(command)}\n".encode() + ran.stdout + ran.stderr)
    if ran.code != 0:
        lines = log.read_text(errors="replace").splitlines()[-25:]
        raise ProgramsError(f"{what} ended with {ran.code}; {log} ends:\n" + "\n".join(lines))


def build(
    entry: OwnBuild,
    way: str,
    flags: Sequence[str],
    jobs: int,
    configured: Callable[[], None] = lambda: None,
) -> Outcome:
    """Configure, make and check one program in a fresh copy of its source.

    `configured` is called when make is about to begin.
    """
    folder = OUTPUT / entry.name / way
    if folder.exists():
        shutil.rmtree(folder)
    tree, log, logs = folder / "tree", folder / "log", folder / "decisions"
    shutil.copytree(source_tree(entry.program()), tree, symlinks=True)
    logs.mkdir()
    # Not quoted: configure scripts split $CC at blanks and take quotes for characters.
    added = " ".join(flag.replace(LOG, str(logs)) for flag in flags)
    # Debug information must not tell the ways apart.
    added = f"-ffile-prefix-map={tree}=/source {added}"
    words = {
        "cc": f"clang-22 {added}".strip(),
        "cxx": f"clang++-22 {added}".strip(),
        "cflags": " ".join(("-Oz", *entry.cflags)),
        "jobs": str(jobs),
    }
    env = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    env |= {"CC": words["cc"], "CXX": words["cxx"], "LC_ALL": "C"}
    env |= {"CFLAGS": words["cflags"], "CXXFLAGS": words["cflags"]}

    def filled(command: Sequence[str]) -> list[str]:
        return [word.format(**words) for word in command]

    start = time.monotonic()
    if entry.configure:
        _step(f"{entry.name} {way}: configure", filled(entry.configure), tree, env, log)
        for leftover in logs.iterdir():  # what configure compiled to try things out
            leftover.unlink()
    configured()
    _step(f"{entry.name} {way}: make", filled(entry.make), tree, env, log)
    outcome = Outcome(objects_in(tree), read_decisions(logs), time.monotonic() - start)
    _step(f"{entry.name} {way}: check", filled(entry.check), tree, env, log)
    if not outcome.objects:
        raise ProgramsError(f"{entry.name} {way}: the build left no object")
    return outcome


def build_with_killed_server(entry: OwnBuild, jobs: int, after: int = 3) -> Outcome:
    """As build(), asking a server that dies once `after` files have been decided."""
    # The logs of an earlier run would be taken for this one's.
    shutil.rmtree(OUTPUT / entry.name / "killed", ignore_errors=True)
    with ModelServer(MODEL, OUTPUT / "server.log") as server:
        done = threading.Event()
        logs = OUTPUT / entry.name / "killed" / "decisions"

        def kill() -> None:
            while not done.wait(0.02):
                if len(list(logs.glob("*.jsonl"))) >= after:
                    server.process.kill()
                    return

        killer = threading.Thread(target=kill, daemon=True)
        flags = plugin_flags(server.uri, *LOGGED)
        try:
            outcome = build(entry, "killed", flags, jobs, killer.start)
        finally:
            done.set()
        if server.process.poll() is None:
            raise ProgramsError(f"{entry.name}: fewer than {after} files were decided")
    return outcome


def compare(entry: OwnBuild, way: str, plain: Outcome, asked: Outcome) -> list[str]:
    """What is wrong with the build that asked the model."""
    wrong: list[str] = []
    if set(plain.objects) != set(asked.objects):
        differing = ", ".join(sorted(set(plain.objects) ^ set(asked.objects)))
        wrong.append(f"{entry.name} {way}: not the same objects: {differing}")
    if asked.decisions.made == 0:
        wrong.append(f"{entry.name} {way}: the model made no decision")
    if way == "model" and asked.decisions.failed:
        wrong.append(f"{entry.name} {way}: {asked.decisions.failed} compilers fell back")
    if way == "killed":
        if asked.decisions.failed == 0:
            wrong.append(f"{entry.name} {way}: the server died, yet no compiler fell back")
        other = [name for name, data in asked.objects.items() if data != plain.objects.get(name)]
        if len(other) > asked.decisions.finished:
            wrong.append(
                f"{entry.name} {way}: the model decided {asked.decisions.finished} modules, but"
                f" these objects are not plain -Oz: {', '.join(other)}"
            )
    return wrong


def build_all(entries: Sequence[OwnBuild], kill: bool, jobs: int) -> list[str]:
    """All builds; prints a line for each, writes the report, returns what went wrong."""
    wrong: list[str] = []
    ratios: list[float] = []
    rows: list[dict[str, Any]] = []
    way = "killed" if kill else "model"
    for entry in entries:
        plain = build(entry, "oz", (), jobs)
        asked = (
            build_with_killed_server(entry, jobs)
            if kill
            else build(entry, "model", plugin_flags(f"onnx:{MODEL}", *LOGGED), jobs)
        )
        wrong += compare(entry, way, plain, asked)
        ratios.append(asked.text / plain.text)
        rows.append(
            {
                "name": entry.name,
                "objects": len(plain.objects),
                "oz_text": plain.text,
                f"{way}_text": asked.text,
                "oz_seconds": round(plain.seconds, 1),
                f"{way}_seconds": round(asked.seconds, 1),
                "decisions": asked.decisions.made,
                "fallbacks": asked.decisions.failed,
            }
        )
        print(
            f"{entry.name:8s} {len(plain.objects):4d} objects {plain.text:8d} bytes at -Oz,"
            f" {ratios[-1]:.3f} x with the model, {asked.decisions.made} decisions,"
            f" {asked.decisions.failed} fallbacks, {plain.seconds:.0f} s and {asked.seconds:.0f} s,"
            " checks passed",
            flush=True,
        )
    mean = statistics.geometric_mean(ratios)
    print(f"geometric mean {mean:.4f} x -Oz")
    if mean > MOST_GROWTH:
        wrong.append(f"{mean:.4f} x -Oz in geometric mean, expected <= {MOST_GROWTH}")
    report = {"way": way, "builds": rows, "geomean_over_oz": mean}
    name = "report-killed.json" if kill else "report.json"
    (OUTPUT / name).write_text(json.dumps(report, indent=1) + "\n")
    return wrong


def compare_transports(entry: OwnBuild, jobs: int) -> list[str]:
    """All ways of asking in turns; prints and writes a row for each, returns what went wrong."""
    wrong: list[str] = []
    seconds: dict[str, list[float]] = {way: [] for way in ("onnx", *TRANSPORTS)}
    rows: dict[str, dict[str, Any]] = {}
    for number in range(ROUNDS):
        expected = build(entry, "onnx", plugin_flags(f"onnx:{MODEL}", *LOGGED), jobs)
        seconds["onnx"].append(expected.seconds)
        decided = expected.decisions.actions
        for way in TRANSPORTS:
            with ModelServer(MODEL, OUTPUT / "server.log", way) as server:
                outcome = build(entry, way, plugin_flags(server.uri, *LOGGED), jobs)
            seconds[way].append(outcome.seconds)
            actions, objects = outcome.decisions.actions, outcome.objects
            row: dict[str, Any] = {
                "transport": way,
                "modules": sum(map(len, actions.values())),
                "decisions": outcome.decisions.made,
                "fallbacks": outcome.decisions.failed,
                "decided_differently": sum(decided[s] != actions.get(s) for s in decided),
                "objects_different": sum(d != objects.get(o) for o, d in expected.objects.items()),
            }
            if any(list(row.values())[3:]) or set(actions) != set(decided):
                wrong.append(f"{entry.name} over {way}, round {number}: {row}")
            rows[way] = row
    base = statistics.median(seconds["onnx"])
    for way, row in rows.items():
        median = statistics.median(seconds[way])
        row["seconds"], row["in_process_seconds"] = round(median, 2), round(base, 2)
        row["ratio"] = round(median / base, 3)
        if row["ratio"] > MOST_TIME.get(way, math.inf):
            wrong.append(f"{entry.name} over {way}: {row['ratio']} x the time in process")
        print(", ".join(f"{key}: {value}" for key, value in row.items()))
    report = {"program": entry.name, "jobs": jobs, "builds": list(rows.values())}
    (OUTPUT / "served.json").write_text(json.dumps(report, indent=1) + "\n")
    return wrong


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="programs.own_builds", description=about)
    parser.add_argument("names", nargs="*", help="only these (default: all of own_builds.toml)")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--kill-server", action="store_true")
    way.add_argument("--transports", action="store_true")
    parser.add_argument("--jobs", type=int, help="default: all cores; with --transports 8")
    options = parser.parse_args(arguments)
    names = options.names or (["zstd"] if options.transports else [])
    jobs = options.jobs or (8 if options.transports else os.cpu_count() or 1)
    try:
        entries = load_builds()
        unknown = set(names) - {entry.name for entry in entries}
        if unknown:
            raise ProgramsError(f"not in own_builds.toml: {', '.join(sorted(unknown))}")
        chosen = [entry for entry in entries if not names or entry.name in names]
        fetch([entry.program() for entry in chosen])
        OUTPUT.mkdir(parents=True, exist_ok=True)
        if options.transports:
            wrong = compare_transports(chosen[0], jobs)
        else:
            wrong = build_all(chosen, options.kill_server, jobs)
    except ProgramsError as error:
        wrong = [str(error)]
    for text in wrong:
        print(f"own_builds: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
