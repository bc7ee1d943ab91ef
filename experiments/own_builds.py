# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Build programs by their own build systems, with and without the model, and run their checks.

    python3 -m experiments.own_builds [--kill-server | --transports | --flags=FLAGS] [NAME ...]

Each is what `mlbridge validate` does, with CFLAGS=-Oz, made in parallel. Writes its report,
build/programs/own-builds/report.json. Exits with 1 if a build or check fails, no decision was made,
or the code is more than 3 % larger in geometric mean.

With --kill-server the second build asks a Python server that is killed once some files are
compiled; the build must be complete and pass its check, the other files be plain -Oz.

With --flags these are added to the compilers in place of the model's; objects must change, and the
checks pass.

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
import statistics
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomllib
from result_tables import section

from mlbridge.cli.validate import show
from mlbridge.decisions import read_decisions
from mlbridge.errors import Error
from mlbridge.validation import validate
from mlbridge.workspace import PLAIN, Built, Variant, Workspace
from mlbridge.workspace import Program as Tree
from programs.catalog import Program, ProgramsError
from programs.fetch import BUILD, fetch, source_tree
from programs.plugin import MODEL, plugin_flags
from programs.server import ModelServer

LISTED = Path(__file__).with_name("own_builds.toml")
OUTPUT = BUILD / "own-builds"
MOST_GROWTH = 1.03
TRANSPORTS = ("unix", "shm", "pipe", "grpc")
MOST_TIME = {"unix": 1.5, "shm": 1.5}  # over the time in process
ROUNDS = 3
_TIMEOUT = 900


@dataclass(frozen=True)
class OwnBuild:
    """One entry of own_builds.toml, where the keys are explained."""

    name: str
    package: str
    expect: list[str]
    make: str
    check: str
    configure: str = ""
    cflags: str = ""

    def program(self) -> Program:
        """As what it is fetched."""
        return Program(self.name, "other", "own build", self.package, tuple(self.expect))

    def tree(self) -> Tree:
        """As what it is built; what the check prints is not compared."""
        return Tree(
            name=self.name,
            tree=source_tree(self.program()),
            build=self.make,
            prepare=self.configure,
            runs=(f"({self.check}) > check.log 2>&1 || {{ tail -n 25 check.log; false; }}",),
            cflags=f"-Oz {self.cflags}".strip(),
        )

    def trial(self) -> Workspace:
        """A folder to build it in."""
        return Workspace(self.tree(), OUTPUT / self.name, timeout=_TIMEOUT)


def load_builds(path: Path = LISTED) -> list[OwnBuild]:
    """All entries."""
    with path.open("rb") as file:
        entries: list[dict[str, Any]] = tomllib.load(file).get("build", [])
    builds: list[OwnBuild] = []
    for entry in entries:
        try:
            builds.append(OwnBuild(**entry))
        except TypeError as error:
            raise ProgramsError(f"{path}: {entry.get('name', 'an entry')}: {error}") from error
    return builds


def asking(uri: str, name: str = "policy", **rest: Any) -> Variant:
    """Compilers that ask the model at `uri`."""
    return Variant(name, lambda logs: nullcontext(plugin_flags(uri, "--log", str(logs))), **rest)


def served(transport: str) -> Variant:
    """Compilers that ask a server of their build."""

    @contextmanager
    def flags(logs: Path) -> Iterator[Sequence[str]]:
        with ModelServer(MODEL, OUTPUT / "server.log", transport) as server:
            yield plugin_flags(server.uri, "--log", str(logs))

    return Variant(transport, flags)


def build_all(entries: Sequence[OwnBuild]) -> list[str]:
    """All builds; prints a table, writes the report, returns what went wrong."""
    report = validate(
        [entry.tree() for entry in entries],
        asking(f"onnx:{MODEL}"),
        OUTPUT / "validate",
        repeat=1,
        timeout=_TIMEOUT,
        progress=lambda text: print(text, flush=True),
    )
    show(report)
    (OUTPUT / "report.json").write_text(json.dumps(report.as_json(), indent=1) + "\n")
    wrong = report.problems
    wrong += [
        f"{one.program.name}: its check ended with {ran.code} both ways"
        for one in report.programs
        for ran in one.runs
        if ran.code
    ]
    if report.size and report.size.mean > MOST_GROWTH:
        wrong.append(f"{report.size.mean:.4f} x -Oz in geometric mean, expected <= {MOST_GROWTH}")
    return wrong


def build_with_killed_server(entry: OwnBuild, after: int = 3) -> list[str]:
    """Build it asking a server that dies once `after` files have been decided, or half of a small
    program's; what is wrong."""
    trial = entry.trial()
    plain = trial.build(PLAIN)
    after = max(1, min(after, len(plain.objects) // 2))
    with ModelServer(MODEL, OUTPUT / "server.log") as server:
        done = threading.Event()

        def kill() -> None:
            while not done.wait(0.02):
                with suppress(Error):  # of a recording that is just being made
                    if read_decisions(trial.folder / "decisions").finished >= after:
                        server.process.kill()
                        return

        killer = threading.Thread(target=kill, daemon=True)
        way = asking(server.uri, "killed", begin=killer.start)
        try:
            asked = trial.build(way)
        finally:
            done.set()
        if server.process.poll() is None:
            raise ProgramsError(f"{entry.name}: fewer than {after} files were decided")
        wrong = compare(plain, asked)
        for one in (PLAIN, way):
            ran, _ = trial.run(one, entry.tree().runs[0])
            if ran.code:
                wrong.append(f"{one.name}: its check ended with {ran.code}:\n{ran.stdout.text}")
    decisions = asked.decisions
    print(
        f"{entry.name:8s} {len(plain.objects):4d} objects, {decisions.finished} decided,"
        f" {decisions.failed} fallbacks",
        flush=True,
    )
    return [f"{entry.name}: {text}" for text in wrong]


def build_with_flags(entry: OwnBuild, flags: Sequence[str]) -> list[str]:
    """Build it with compilers that have these flags as well; what is wrong."""
    trial = entry.trial()
    plain = trial.build(PLAIN)
    way = Variant("flags", lambda _: nullcontext(flags))
    made = trial.build(way)
    ran, _ = trial.run(way, entry.tree().runs[0])
    wrong = [] if ran.code == 0 else [f"its check ended with {ran.code}:\n{ran.stdout.text}"]
    changed = len(plain.different(made))
    if not changed or plain.objects.keys() != made.objects.keys():
        wrong.append("no object has changed, or they are not the same ones")
    print(f"{entry.name:8s} {len(plain.objects):4d} objects, {changed} changed", flush=True)
    return [f"{entry.name}: {text}" for text in wrong]


def compare(plain: Built, asked: Built) -> list[str]:
    """What is wrong with a build whose server was killed."""
    wrong: list[str] = []
    if differing := plain.objects.keys() ^ asked.objects.keys():
        wrong.append(f"not the same objects: {', '.join(sorted(differing))}")
    if asked.decisions.made == 0:
        wrong.append("the model made no decision")
    if asked.decisions.failed == 0:
        wrong.append("the server died, yet no compiler fell back")
    other = plain.different(asked)
    if len(other) > asked.decisions.finished:
        wrong.append(
            f"the model decided {asked.decisions.finished} modules, but these objects are not"
            f" plain -Oz: {', '.join(other)}"
        )
    return wrong


def compare_transports(entry: OwnBuild, jobs: int) -> list[str]:
    """All ways of asking in turns; prints and writes a row for each, returns what went wrong."""
    trial = entry.trial()
    ways = (asking(f"onnx:{MODEL}", "onnx"), *map(served, TRANSPORTS))
    wrong: list[str] = []
    seconds: dict[str, list[float]] = {way.name: [] for way in ways}
    rows: dict[str, dict[str, Any]] = {}
    for number in range(ROUNDS):
        expected = trial.build(ways[0], keep=False)
        seconds["onnx"].append(expected.seconds)
        decided = expected.decisions.actions
        for way in ways[1:]:
            outcome = trial.build(way, keep=False)
            seconds[way.name].append(outcome.seconds)
            actions = outcome.decisions.actions
            row: dict[str, Any] = {
                "transport": way.name,
                "modules": sum(map(len, actions.values())),
                "decisions": outcome.decisions.made,
                "fallbacks": outcome.decisions.failed,
                "decided_differently": sum(decided[s] != actions.get(s) for s in decided),
                "objects_different": sum(
                    one != outcome.objects.get(path) for path, one in expected.objects.items()
                ),
            }
            if any(list(row.values())[3:]) or set(actions) != set(decided):
                wrong.append(f"{entry.name} over {way.name}, round {number}: {row}")
            rows[way.name] = row
    base = statistics.median(seconds["onnx"])
    for name, row in rows.items():
        median = statistics.median(seconds[name])
        row["seconds"], row["in_process_seconds"] = round(median, 2), round(base, 2)
        row["ratio"] = round(median / base, 3)
        if row["ratio"] > MOST_TIME.get(name, math.inf):
            wrong.append(f"{entry.name} over {name}: {row['ratio']} x the time in process")
    report = {"program": entry.name, "jobs": jobs, "builds": list(rows.values())}
    path = OUTPUT / "served.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    text = section(
        path,
        "A parallel build with one server (`python3 -m experiments.own_builds --transports`)",
        f"{entry.name}, `make -j{jobs}`, all compilers asking one server.",
        list(rows.values()),
    )
    print(text)
    return wrong


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.own_builds", description=about)
    parser.add_argument("names", nargs="*", help="only these (default: all of own_builds.toml)")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--kill-server", action="store_true")
    way.add_argument("--transports", action="store_true")
    way.add_argument("--flags", help="of the compiler")
    parser.add_argument("--jobs", type=int, help="default: all cores; with --transports 8")
    options = parser.parse_args(arguments)
    names = options.names or (["zstd"] if options.transports else [])
    jobs = options.jobs or (8 if options.transports else os.cpu_count() or 1)
    os.environ["JOBS"] = str(jobs)
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
        elif options.flags:
            flags = shlex.split(options.flags)
            wrong = [text for entry in chosen for text in build_with_flags(entry, flags)]
        elif options.kill_server:
            wrong = [text for entry in chosen for text in build_with_killed_server(entry)]
        else:
            wrong = build_all(chosen)
    except (ProgramsError, Error) as error:
        wrong = [str(error)]
    for text in wrong:
        print(f"own_builds: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
