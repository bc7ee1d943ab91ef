# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a policy that needs no run could gain at most: the program's own entry counts, known.

    python3 -m experiments.speed_foresight md4c expat -o build/experiments/foresight.json

A policy that predicts how often each function is called can at best be right. So each program is
compiled with the entry counts of its own runs, and LLVM's estimates inside of functions: a file at
a time, at -O3. It is timed on these very runs beside plain -O3, and beside the whole profile.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.specialize import profiled, runs_of
from mlbridge import clock, profdata
from mlbridge.errors import Error
from mlbridge.outputs import write_whole
from mlbridge.ratio import Ratio
from mlbridge.specializing.choosing import combined
from mlbridge.specializing.recipes import Recipe
from programs import work
from programs.build import Compiled, compile_program, link_program
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch

_DEFINE = re.compile(r'^define .*?@("[^"]+"|[\w.$-]+)\(.*\{$')
_FLAGS = re.compile(r"^!llvm\.module\.flags = !\{(.*)\}$")
_CUTOFFS = re.compile(r"^(\d+) blocks \(.*\) with count >= (\d+) account for ([\d.]+)%", re.M)
_MAXIMA = ("Maximum function count", "Maximum internal block count")
#: The first number of the metadata that is added.
_FIRST = 900000


class Summary:
    """The distribution of a profile's counts, as LLVM keeps it in a module."""

    def __init__(self, profile: Path) -> None:
        command = ["llvm-profdata-22", "show", "--detailed-summary", str(profile)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout

        def number(title: str) -> int:
            return int(re.search(rf"^{title}: (\d+)", text, re.M)[1])  # type: ignore[index]

        self._fields = {
            "TotalCount": number("Total count"),
            "MaxCount": max(map(number, _MAXIMA)),
            "MaxInternalCount": number("Maximum internal block count"),
            "MaxFunctionCount": number("Maximum function count"),
            "NumCounts": number("Total number of blocks"),
            "NumFunctions": number("Total functions"),
        }
        self._cutoffs = [
            (round(float(percent) * 10000), int(count), int(blocks))
            for blocks, count, percent in _CUTOFFS.findall(text)
        ]
        if not self._cutoffs:
            raise ProgramsError(f"{profile}: a summary without cutoffs: {text[:200]}")

    def metadata(self, first: int) -> list[str]:
        """Lines of LLVM's assembly; the first one is a module flag."""
        fields = ['!{!"ProfileFormat", !"InstrProf"}']
        fields += [f'!{{!"{name}", i64 {value}}}' for name, value in self._fields.items()]
        cutoffs = [f"!{{i32 {c}, i64 {least}, i32 {n}}}" for c, least, n in self._cutoffs]
        number = first + 2
        lines = []
        for text in cutoffs:
            lines.append(f"!{number} = {text}")
            number += 1
        listed = ", ".join(f"!{first + 2 + i}" for i in range(len(cutoffs)))
        lines.append(f"!{number} = !{{{listed}}}")
        fields.append(f'!{{!"DetailedSummary", !{number}}}')
        start = number + 1
        lines += [f"!{start + i} = {text}" for i, text in enumerate(fields)]
        listed = ", ".join(f"!{start + i}" for i in range(len(fields)))
        return [
            f'!{first} = !{{i32 1, !"ProfileSummary", !{first + 1}}}',
            f"!{first + 1} = !{{{listed}}}",
            *lines,
        ]


def with_entry_counts(
    text: str, source: str, counts: Mapping[profdata.Key, Any], summary: Summary
) -> str:
    """LLVM's assembly of a file, in which each function has its count."""
    added: list[str] = []
    number = _FIRST

    def lines() -> Iterator[str]:
        nonlocal number
        for line in text.splitlines():
            define, flags = _DEFINE.match(line), _FLAGS.match(line)
            if define:
                name = define[1].strip('"')
                local = re.match(r"define (internal|private) ", line)
                known = counts.get((Path(source).name if local else None, name))
                if known is not None and known.entry is not None:
                    added.append(f'!{number} = !{{!"function_entry_count", i64 {known.entry}}}')
                    line = f"{line[:-1]}!prof !{number} {{"
                    number += 1
            elif flags:
                line = f"!llvm.module.flags = !{{{flags[1]}, !{_FIRST + 50000}}}"
            yield line

    return "\n".join([*lines(), *added, *summary.metadata(_FIRST + 50000)]) + "\n"


class Foresight:
    """A program, built in several ways."""

    def __init__(self, program: Program, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._runs, _ = runs_of(program)
        profile = profiled(program, folder, self._runs)
        self._build("plain", ("-O3",))
        self._build("profile", ("-O3", *Recipe(True, False, "").words(str(profile))))
        self._build_by_counts("entries", profile)

    def _build(self, name: str, words: tuple[str, ...]) -> None:
        compiled = compile_program(
            self._program, self._folder / f"{name}-objects", flags=words, drivers=True
        )
        self._link(name, compiled, words)

    def _link(self, name: str, compiled: list[Compiled], words: tuple[str, ...]) -> None:
        target = self._folder / name / "mlbridge-bin"
        link_program(self._program, compiled, target, ("clang-22", *words))

    def _build_by_counts(self, name: str, profile: Path) -> None:
        counts, summary = profdata.counts(profile), Summary(profile)
        assembly = compile_program(
            self._program,
            self._folder / f"{name}-assembly",
            flags=("-O3", "-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes"),
            suffix=".ll",
            drivers=True,
        )
        compiled = []
        for one in assembly:
            text = with_entry_counts(one.object.read_text(), one.source, counts, summary)
            one.object.write_text(text)
            target = one.object.with_suffix(".o")
            codegen = [w for w in self._program.flags if w.startswith(("-f", "-m"))]
            command = ["clang-22", "-O3", *codegen, "-Wno-everything", "-c", str(one.object)]
            done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True)
            if done.returncode:
                raise ProgramsError(f"{self._program.name}: {one.source}: {done.stderr[-2000:]}")
            compiled.append(Compiled(one.source, target, one.ran))
        self._link(name, compiled, ("-O3",))

    def times(self, seconds: float) -> dict[str, Ratio]:
        """The times over plain -O3's, on the runs."""
        names = ("plain", "entries", "profile")
        found: dict[str, list[Ratio]] = {name: [] for name in names[1:]}
        for run in self._runs:
            works = [
                clock.Work(name, (clock.Command.of(run),), self._folder / name, outputs=())
                for name in names
            ]
            timing = clock.compare(works[0], works[1:], budget=seconds)
            if timing.differences:
                raise ProgramsError(f"{self._program.name}: {timing.differences}")
            for name, ratio in timing.ratios.items():
                found[name].append(ratio)
        return {name: r for name, ratios in found.items() if (r := combined(ratios))}


def means_of(found: Mapping[str, Any]) -> dict[str, str]:
    """Geometric means over programs."""
    return {
        name: str(Ratio.of(one[name]["mean"] for one in found.values()))
        for name in ("entries", "profile")
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.speed_foresight", description=about)
    parser.add_argument("names", nargs="+", help="sets or programs")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each command")
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", required=True)
    options = parser.parse_args(arguments)
    programs = fetch(select(load(), options.names))
    work.write(BUILD / "work")
    found: dict[str, Any] = {}
    for program in tqdm(programs, unit="program", file=sys.stderr):
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=f".{program.name}-") as folder:
            try:
                times = Foresight(program, Path(folder)).times(options.seconds)
            except (Error, ProgramsError) as error:
                tqdm.write(f"{program.name}: {error}")
                continue
        found[program.name] = {name: ratio.as_json() for name, ratio in times.items()}
        tqdm.write(f"{program.name}: {', '.join(f'{n} {r}' for n, r in times.items())}")
        made = {"programs": found, "means": means_of(found)}
        write_whole(options.output, json.dumps(made, indent=1).encode() + b"\n")
    if found:
        print(means_of(found))
    return 0 if len(found) == len(programs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
