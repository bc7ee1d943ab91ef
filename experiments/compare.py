# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the shipped candidates gain on the catalog's programs, compiled from source.

    python3 -m experiments.compare test-A --effort 1 3 10 -o build/test-A.json
    python3 -m experiments.compare demo --effort 1 3 --runs 9
    python3 -m experiments.compare demo --effort 1 3 10 --shares
    python3 -m experiments.compare demo --linked --way "threshold=-mllvm -inline-threshold=0"
    python3 -m experiments.compare demo --level O2 --spills --way "o=-mllvm -split-spill-mode=size"
    python3 -m experiments.compare zlib --level O2 --way "same=" --emulator "qemu-aarch64 -L DIR" \
        --compiler "clang-22 --target=aarch64-linux-gnu"

Every program is compiled at -Oz, at -Oz with LLVM's machine outliner, and with each effort; with
--linked also with -ffunction-sections, and linked with --gc-sections. Programs with a test run it,
and must give what the -Oz build gives; --runs times the catalog's `work`, in turns. --shares builds
once more with logs of where time goes. With --way, -Oz, or another --level, is compared with these
flags added to it in place of the efforts, all compiled with -ffunction-sections; --spills also
compares the allocator's weighted spills, reloads and copies (each program's plus one, so that there
is a ratio), which --chart FILE.svg draws for each function. Ratios are geometric means over
programs, with the 95 % interval of a bootstrap over programs (10 000 samples). The file
records all of it, with the versions of compiler and candidates. Exits with 1 if an effort gives an
object more executable bytes than -Oz, a compiler falls back, or an output differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from result_tables import section, table
from tqdm import tqdm

from mlbridge import files
from mlbridge.elf import executable_bytes, file_executable_bytes
from mlbridge.ratio import Ratio
from mlbridge.spills import RECORD, SUFFIX, spill_costs
from programs import work
from programs.build import Compiled, compile_program, fallback_warnings, link_program, run_test
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch, fetched_version, run, source_tree
from programs.plugin import CANDIDATES, candidate_flags

SECTIONS = ("-ffunction-sections", "-fPIC")
OUTLINER = ("-mllvm", "-enable-machine-outliner=always")
LINK_TIMEOUT = 120.0


@dataclass
class Build:
    """A program compiled one way. `linked` are bytes after --gc-sections, or None."""

    sizes: dict[str, int]
    wall_seconds: float
    cpu_seconds: float
    linked: int | None = None
    #: The cost of each function, by file and name.
    spill_costs: dict[str, float] | None = None
    digests: dict[str, str] = field(default_factory=dict)
    fallbacks: list[str] = field(default_factory=list)
    output: bytes | None = None
    run_seconds: list[float] = field(default_factory=list)
    #: Seconds of a processor in the compiler's own passes, in measuring their code, in candidates'
    #: passes, and in measuring theirs.
    shares: dict[str, float] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def spill_cost(self) -> float | None:
        return None if self.spill_costs is None else sum(self.spill_costs.values())


def ways(options: argparse.Namespace) -> dict[str, list[str]]:
    """The flags of each way to compile."""
    if options.way:
        level = f"-{options.level}"
        always = [level, *SECTIONS, *(RECORD if options.spills else ())]
        named = {level: "", **dict(options.way)}
        return {name: [*always, *shlex.split(more)] for name, more in named.items()}
    compared = {f"effort {n}": ["-Oz", *candidate_flags(n)] for n in options.effort}
    return {"-Oz": ["-Oz"], "outliner": ["-Oz", *OUTLINER], **compared}


def cpu() -> float:
    """Seconds of a processor that children which have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(
    program: Program,
    flags: Sequence[str],
    folder: Path,
    jobs: int,
    root: Path = BUILD,
    *,
    linked: bool = False,
    compiler: Sequence[str] = ("clang-22",),
    emulator: Sequence[str] = (),
) -> Build:
    """Compile it, link, run its test; its sources lie in `root`. `linked`: these objects have a
    section for each function, so that they say what --gc-sections leaves."""
    began, spent = time.perf_counter(), cpu()
    compiled = compile_program(program, folder / "objects", compiler, flags, jobs, root)
    wall, used = time.perf_counter() - began, cpu() - spent
    made = Build({i.source: file_executable_bytes(i.object) for i in compiled}, wall, used)
    made.fallbacks = fallback_warnings(compiled)
    if set(RECORD) <= set(flags):
        made.spill_costs = {
            f"{item.source}:{function}": cost
            for item in compiled
            for function, cost in spill_costs(item.object.with_suffix(SUFFIX)).items()
        }
    for item in compiled:
        made.digests[item.source] = hashlib.sha256(item.object.read_bytes()).hexdigest()
    if linked:
        made.linked = linked_size(program, compiled, folder)
    if program.test:
        link_program(program, compiled, folder / "bin", compiler)
        made.output = run_test(program, folder / "bin", folder / "work", root, emulator)
    return made


def linked_bytes(
    program: Program, flags: Sequence[str], folder: Path, jobs: int, root: Path = BUILD
) -> int:
    """Executable bytes of what is linked with --gc-sections from functions in their own sections.

    Each object with a main() becomes a program, with what it needs of the others; without any, all
    become a shared library. Symbols of other libraries stay unresolved.
    """
    flags = [*flags, *SECTIONS]
    compiled = compile_program(program, folder / "sections", flags=flags, jobs=jobs, build=root)
    return linked_size(program, compiled, folder)


def linked_size(program: Program, compiled: Sequence[Compiled], folder: Path) -> int:
    main = [item for item in compiled if defines_main(item)]
    others = [str(item.object) for item in compiled if item not in main]
    archive = folder / "others.a"
    archive.unlink(missing_ok=True)
    must(["llvm-ar-22", "rcs", str(archive), *others], folder)
    link = ["clang++-22", "-Wl,--gc-sections,--unresolved-symbols=ignore-all"]
    link += ["-Wl,-z,muldefs", "-o", str(folder / "linked")]
    total = 0
    for inputs in [[str(item.object), str(archive)] for item in main] or [["-shared", *others]]:
        must([*link, *inputs], folder)
        total += executable_bytes((folder / "linked").read_bytes(), program.name)
    return total


def defines_main(item: Compiled) -> bool:
    command = ["llvm-nm-22", "--defined-only", "--extern-only", "--format=just-symbols"]
    return "main" in must([*command, str(item.object)], item.object.parent).split()


def shares(logs: Path) -> dict[str, float]:
    """Sums over the trials of a build."""
    total = dict.fromkeys(("passes", "measuring", "candidates' passes", "measuring them"), 0.0)
    for path in logs.glob("*.trials.json"):
        log = json.loads(path.read_text())
        for name, key in (("passes", "pass_seconds"), ("measuring", "measuring_seconds")):
            total[name] += log[f"stock_{key}"]
        for trial in log["trials"]:
            total["candidates' passes"] += trial.get("pass_seconds", 0.0)
            total["measuring them"] += trial.get("measuring_seconds", 0.0)
    return total


def must(command: Sequence[str], folder: Path) -> str:
    ran = run(command, folder, LINK_TIMEOUT)
    if ran.code != 0:
        raise ProgramsError(
            f"{' '.join(command)[:200]} ended with {ran.code}\n{ran.stderr.text[-2000:]}"
        )
    return ran.stdout.head.decode(errors="replace")


def time_work(
    program: Program, builds: dict[str, Build], folder: Path, runs: int, root: Path = BUILD
) -> None:
    """Each build's work `runs` times, in turns that begin with another build each."""
    work.write(root / "work")
    busy = replace(program, test=program.work)
    names = list(builds)
    for number in range(runs):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            began = time.perf_counter()
            run_test(busy, folder / name / "bin", folder / name / "work", root)
            builds[name].run_seconds.append(time.perf_counter() - began)


def sampled(program: Program, count: int, root: Path = BUILD) -> Program:
    """With at most `count` of its files, drawn by its name; then it has no test."""
    files = sorted(program.sources(source_tree(program, root)))
    if len(files) <= count:
        return program
    drawn = random.Random(program.name).sample(files, count)
    return replace(program, files=tuple(drawn), test=(), workloads=(), executables=())


def compare(program: Program, options: argparse.Namespace, root: Path = BUILD) -> dict[str, Build]:
    """All ways of one program."""
    folder = root / "compared" / program.name
    builds: dict[str, Build] = {}
    for name, flags in ways(options).items():
        once = options.linked and bool(options.way)
        builds[name] = build(
            program,
            flags,
            folder / name,
            options.jobs,
            root,
            linked=once,
            compiler=shlex.split(options.compiler),
            emulator=shlex.split(options.emulator),
        )
        if options.linked and not once:
            linked = linked_bytes(program, flags, folder / name, options.jobs, root)
            builds[name].linked = linked
        if options.shares and name.startswith("effort"):
            logs = folder / name / "logs"
            shutil.rmtree(logs, ignore_errors=True)
            logged = [*flags, *files.llvm_words(f"-phase-ordering-log={logs}")]
            place = folder / name / "logged"
            compile_program(program, place, flags=logged, jobs=options.jobs, build=root)
            builds[name].shares = shares(logs)
    if options.runs and program.work:
        time_work(program, builds, folder, options.runs, root)
    return builds


def problems(name: str, builds: dict[str, Build], *, never_larger: bool = True) -> list[str]:
    """What must not be."""
    usual, plain = next(iter(builds.items()))
    found = []
    for way, made in builds.items():
        found += [f"{name} {way}: fell back: {text}" for text in made.fallbacks]
        if made.output != plain.output:
            found.append(f"{name} {way}: its output differs from the {usual} build's")
        if never_larger and way.startswith("effort"):
            found += [
                f"{name} {way}: {source} is larger than at -Oz ({size} > {plain.sizes[source]})"
                for source, size in made.sizes.items()
                if size > plain.sizes[source]
            ]
    return found


def summary(found: dict[str, dict[str, Build]]) -> dict[str, dict[str, Any]]:
    """For each way: what it is beside the first, over all programs; files by how they compare."""
    made: dict[str, dict[str, Any]] = {}
    for way in next(iter(found.values())):
        pairs = [(builds[way], next(iter(builds.values()))) for builds in found.values()]
        values: dict[str, Callable[[Build], float]] = {
            "bytes": lambda b: b.bytes,
            "linked": lambda b: b.linked or 0,
            "spills": lambda b: 0 if b.spill_cost is None else b.spill_cost + 1,
            "wall": lambda b: b.wall_seconds,
            "cpu": lambda b: b.cpu_seconds,
            "run": lambda b: median(b.run_seconds) if b.run_seconds else 0,
        }
        row: dict[str, Any] = {}
        for name, value in values.items():
            if ratio := Ratio.of(value(a) / value(b) for a, b in pairs if value(a) and value(b)):
                row[name] = ratio.as_json()
        files = [(a.sizes[s], b.sizes[s]) for a, b in pairs for s in a.sizes]
        row["smaller"] = sum(size < plain for size, plain in files)
        row["equal"] = sum(size == plain for size, plain in files)
        row["larger"] = sum(size > plain for size, plain in files)
        row["same_file"] = sum(a.digests[s] == b.digests[s] for a, b in pairs for s in a.sizes)
        if times := [a.shares for a, _ in pairs if a.shares]:
            row["shares"] = {key: sum(one[key] for one in times) for key in times[0]}
            row["shares"]["all"] = sum(a.cpu_seconds for a, _ in pairs)
        if "outliner" in next(iter(found.values())):
            beside = [builds[way].bytes / builds["outliner"].bytes for builds in found.values()]
            if ratio := Ratio.of(beside):
                row["over_outliner"] = ratio.as_json()
        made[way] = row
    return made


def shown(row: dict[str, Any], name: str) -> str | None:
    ratio = row.get(name)
    if ratio is None:
        return None
    interval = "" if ratio["low"] is None else f" [{ratio['low']:.3f}, {ratio['high']:.3f}]"
    return f"{ratio['mean']:.3f}{interval}"


def table_of(made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each way, with the columns that any has."""
    usual = next(iter(made))
    columns = ["bytes", "linked", "spills", "over_outliner", "cpu", "wall", "run"]
    columns = [name for name in columns if any(name in row for row in made.values())]
    counts = ("smaller", "equal", "larger")
    return [
        {f"over {usual}": way}
        | {name.replace("_", " "): shown(row, name) for name in columns}
        | {name: row[name] for name in counts}
        for way, row in made.items()
    ]


def spent(made: dict[str, dict[str, Any]]) -> str:
    """Where compile time went, a line for each way that has logs of it."""
    lines = []
    for way, row in made.items():
        if seconds := dict(row.get("shares", ())):
            total = seconds.pop("all")
            parts = ", ".join(f"{name} {part / total:.0%}" for name, part in seconds.items())
            lines.append(f"{way}: of {total:.0f} s of a processor, {parts}")
    return "\n".join(lines)


def draw(found: dict[str, dict[str, Build]], file: Path) -> None:
    """Each function's cost of spills by the first way, and by the others."""
    from matplotlib.figure import Figure

    usual, *ways = next(iter(found.values()))
    figure = Figure(figsize=(5 * len(ways), 5), layout="constrained")
    for axes, way in zip(figure.subplots(1, len(ways), squeeze=False)[0], ways, strict=True):
        pairs = [
            (before.get(function, 0.0), after.get(function, 0.0))
            for builds in found.values()
            for before, after in [(builds[usual].spill_costs or {}, builds[way].spill_costs or {})]
            for function in sorted(before.keys() | after.keys())
        ]
        less, more = (sum(sign * b < sign * a for a, b in pairs) for sign in (1, -1))
        most = max((max(pair) for pair in pairs), default=1.0)
        axes.plot([0, most], [0, most], color="grey", linewidth=0.8)
        axes.scatter(*zip(*pairs, strict=True) if pairs else ([], []), s=4, alpha=0.5)
        axes.set(xscale="symlog", yscale="symlog", xlabel=usual, ylabel=way)
        axes.set_title(f"{len(pairs)} functions: {less} cost less, {more} more")
    figure.suptitle("spills, reloads and copies executed for each call of a function")
    figure.savefig(file)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="experiments.compare", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="sets or programs (default: demo)")
    parser.add_argument("--effort", type=int, nargs="+", default=[1, 3])
    parser.add_argument(
        "--way",
        type=lambda text: tuple(text.split("=", 1)),
        metavar="NAME=FLAGS",
        action="append",
        default=[],
        help="flags to add to --level",
    )
    parser.add_argument("--level", choices=["O1", "O2", "O3", "Os", "Oz"], default="Oz")
    parser.add_argument("--spills", action="store_true", help="also the cost of spills")
    parser.add_argument(
        "--chart", type=Path, metavar="FILE", help="of each function's, as an image"
    )
    parser.add_argument("--linked", action="store_true", help="also link with --gc-sections")
    parser.add_argument("--shares", action="store_true", help="where compile time goes")
    parser.add_argument("--runs", type=int, default=0, help="time the programs' work so often")
    parser.add_argument("--compiler", default="clang-22", help="with flags for linking as well")
    parser.add_argument("--emulator", default="", metavar="COMMAND", help="what runs programs")
    parser.add_argument("--files", type=int, help="of each program only so many, drawn, not linked")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="what was found")
    options = parser.parse_args(arguments)
    if not all(len(way) == 2 and all(way) for way in options.way):
        parser.error("--way: expected NAME=FLAGS")
    if not options.way and (options.spills or options.level != "Oz"):
        parser.error("--spills and --level need a --way")
    if options.chart and not options.spills:
        parser.error("--chart needs --spills")
    if options.emulator and (options.linked or options.runs):
        parser.error("--emulator goes with neither --linked nor --runs")
    found: dict[str, dict[str, Build]] = {}
    wrong: list[str] = []
    try:
        programs = fetch(select(load(), options.names or ["demo"]))
        for program in tqdm(programs, unit="program", file=sys.stderr):
            some = sampled(program, options.files) if options.files else program
            found[program.name] = compare(some, options)
            wrong += problems(program.name, found[program.name], never_larger=not options.way)
    except ProgramsError as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    made = summary(found)
    print(table(table_of(made)), spent(made), sep="\n\n")
    if options.chart:
        draw(found, options.chart)
    if options.output:
        record = {
            "programs": {
                name: {
                    "version": fetched_version(program, BUILD),
                    **{
                        way: {
                            "bytes": one.bytes,
                            "linked": one.linked,
                            "spill_cost": one.spill_cost,
                            "wall_seconds": round(one.wall_seconds, 3),
                            "cpu_seconds": round(one.cpu_seconds, 3),
                            "run_seconds": [round(s, 4) for s in one.run_seconds],
                        }
                        for way, one in found[name].items()
                    },
                }
                for name, program in ((p.name, p) for p in programs)
            },
            f"over_{options.level.lower()}": made,
            "problems": wrong,
            **(
                {"ways": dict(options.way)}
                if options.way
                else {"candidates": hashlib.sha256(CANDIDATES.read_bytes()).hexdigest()}
            ),
            "compiler": must(["clang-22", "--version"], BUILD).splitlines()[0],
            "jobs": options.jobs,
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        files = sum(made[next(iter(made))][count] for count in ("smaller", "equal", "larger"))
        section(
            options.output,
            f"Candidates on {options.output.stem} (`experiments/compare.py`)",
            f"{len(programs)} programs, {files} files, compiled from source with {options.jobs}"
            " jobs. Ratios are geometric means over programs, with the 95 % interval of a bootstrap"
            " over programs. *linked*: with -ffunction-sections and --gc-sections on both sides;"
            " *cpu*, *wall*: of compiling; *run*: of their `work` in the catalog; then files by"
            " their bytes.",
            table_of(made),
            spent(made),
        )
    for text in wrong:
        print(f"compare: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
