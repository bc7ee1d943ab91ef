# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge specialize` gains on programs of the catalog, confirmed on inputs of their own.

    python3 -m experiments.specialize lzip brotli -o build/experiments/specialize.json

The runs are commands of the program's workloads that read generated files and write to standard
output; those that confirm are the same on another edition of these files (programs/work.py), which
neither the profile nor the choice has seen. Programs are built by make at -O3, with clang's own
linker for the build's own recipe. What was chosen is also compared with the same profile and
ThinLTO, which people would use by hand. FILE has all of it as JSON, beside a table in Markdown.
Programs that FILE has aren't specialized again.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from result_tables import section, table
from tqdm import tqdm

from mlbridge import profdata
from mlbridge.errors import Error
from mlbridge.outputs import write_whole
from mlbridge.ratio import Ratio
from mlbridge.specializing.choosing import combined
from mlbridge.specializing.recipes import LEVERS, Recipe, instrumented
from mlbridge.specializing.search import specialize
from mlbridge.specializing.specialization import Settings, Specialization
from mlbridge.workspace import Program as Built
from mlbridge.workspace import Variant, Workspace
from programs import work
from programs.build import (
    command_of,
    compile_command,
    compile_program,
    files_of_executable,
    link_program,
    output_name,
)
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch, source_tree

MAKEFILE = "mlbridge-specialize.mk"
MOST_RUNS = 4
FRESH = "fresh-work"
TIMEOUT = 600.0
_FILE = re.compile(r"[a-z]+\.[a-z]\w+")


def tree_of(program: Program, folder: Path, build: Path = BUILD) -> Path:
    """A source tree of the program with a makefile, in a folder."""
    source = source_tree(program, build)
    tree = folder / program.name
    shutil.copytree(source, tree, symlinks=True)
    sources = [*program.sources(source), *program.drivers]
    objects = {one: f"mlbridge-objects/{output_name(one, '.o')}" for one in sources}
    executables = program.executables or ((program.name, tuple(sources)),)
    names = [f"mlbridge-bin/{name}" for name, _ in executables]
    text = [f"all: {' '.join(names)}", "\tmkdir -p mlbridge-objects mlbridge-bin"]
    for name, files in executables:
        parts = " ".join(objects[one] for one in files_of_executable(files, sources))
        text.append(f"mlbridge-bin/{name}: {parts} | folders")
        text.append(f"\t$(CC) $(CFLAGS) {parts} {shlex.join(program.libs)} -o $@")
    for one, target in objects.items():
        command = compile_command(program, one, ("clang",), ())[1:]
        # The shell sees what make has left of it.
        line = shlex.join(command).replace("$", "$$").replace("#", "\\#")
        text.append(f"{target}: | folders")
        text.append(f"\t$(CC) $(CFLAGS) {line} -o $@")
    text += ["folders:", "\tmkdir -p mlbridge-objects mlbridge-bin", ".PHONY: all folders"]
    (tree / MAKEFILE).write_text("\n".join(text) + "\n")
    return tree


def runs_of(program: Program, build: Path = BUILD) -> tuple[list[str], list[str]]:
    """Commands for the shell: that decide, and the same on fresh inputs. ProgramsError if there are
    none."""
    found: dict[str, str] = {}
    for _, lines in program.workloads:
        alone = [line for line in lines if is_alone(line)]
        if alone:
            run = shell_of(program, alone[0], build)
            inputs = str((build / "work").resolve())
            found[run] = run.replace(inputs, str((build / FRESH).resolve()))
    if not found:
        raise ProgramsError(f"{program.name}: no workload is one command with generated inputs")
    return list(found)[:MOST_RUNS], list(found.values())[:MOST_RUNS]


def outputs_of(runs: Iterable[str]) -> list[str]:
    """The files that commands write: words such as `sound.wv`."""
    words = {word for run in runs for word in shlex.split(run) if _FILE.fullmatch(word)}
    return sorted(words)


def profiled(program: Program, folder: Path, runs: Iterable[str], more: Sequence[str] = ()) -> Path:
    """The merged profile of commands of the program, built with counters at -O3, and more flags, in
    a folder. It counts how often each function is entered."""
    raw, profile = folder / "raw", folder / "profile.profdata"
    words = ("-O3", *instrumented(str(raw), continuous=False), "-mllvm", "-pgo-instrument-entry")
    words = (*words, *more)
    compiled = compile_program(program, folder / "counting-objects", flags=words, drivers=True)
    link_program(program, compiled, folder / "counting/mlbridge-bin", ("clang-22", *words))
    for run in runs:
        subprocess.run(run, shell=True, cwd=folder / "counting", check=False, capture_output=True)
    profdata.merge(sorted(raw.glob("*.profraw")), profile)
    return profile


def is_alone(line: Sequence[str]) -> bool:
    """Whether a command reads generated files and writes to standard output."""
    text = " ".join(line)
    return "{work}/" in text and "scratch" not in text and not any(w[:1] == ">" for w in line)


def shell_of(program: Program, line: Sequence[str], build: Path) -> str:
    """A command of the catalog as one for the shell, in the built tree."""
    found = command_of(program, line, build)
    tree = str(source_tree(program, build).resolve())
    words = [f"mlbridge-bin/{found.words[0]}", *(w.replace(tree, ".") for w in found.words[1:])]
    text = shlex.join(words)
    if found.variables:
        text = " ".join(f"{n}={shlex.quote(v.replace(tree, '.'))}" for n, v in found.variables)
        text += f" {shlex.join(words)}"
    return f"{text} < {shlex.quote(found.stdin)}" if found.stdin else text


def specialized(program: Program, folder: Path, asked: dict[str, Any]) -> Any:
    """What was found, as JSON has it."""
    runs, fresh = runs_of(program)
    settings = Settings(
        tree=tree_of(program, folder),
        build=f"make -f {MAKEFILE} -j2",
        runs=tuple(runs),
        outputs=tuple(outputs_of(runs)),
        confirm_runs=tuple(fresh),
        seconds=asked["seconds"],
        timeout=TIMEOUT,
        levers=tuple(asked["levers"]),
        budget=asked["budget"],
    )
    found = specialize(
        settings, folder / "decisions", folder / "work", shown=lambda text: tqdm.write(f"  {text}")
    )
    over = over_by_hand(found, folder / "work" / "trees")
    return found.as_json() | {"over by hand": over and over.as_json()}


def over_by_hand(found: Specialization, trees: Path) -> Ratio | None:
    """The time over that of the same profile and ThinLTO, on fresh inputs; None without that."""
    by_hand, chosen = Recipe(True, link="thin").name, found.chosen.name
    if by_hand in found.problems or not (trees / by_hand).is_dir():
        return None
    if chosen == by_hand:
        return Ratio(1.0, 1.0, 1.0, 1)
    asked = found.settings
    workspace = Workspace(Built("program", asked.tree, asked.build, linked=True), trees)
    variants = [Variant(name, lambda _: nullcontext(())) for name in (by_hand, chosen)]
    timings = [workspace.time(variants, run, 2 * asked.seconds) for run in asked.confirm_runs]
    if any(timing.differences for timing in timings):
        return None
    return combined([timing.ratios[chosen] for timing in timings])


def rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A program each: what was chosen, and what it gave on fresh inputs."""
    made = []
    for name, one in found.items():
        chosen = recipe_name(one)
        confirmed = one["confirmed"].get(chosen) or {}
        time = confirmed.get("time")
        shown = f"{time['mean']:.3f} [{time['low']:.3f}, {time['high']:.3f}]" if time else "1"
        raced = one["raced"].get(chosen) or {}
        seen = raced["time"]["mean"] if raced.get("time") else None
        over = one["over by hand"]
        made.append(
            {
                "program": name,
                "chosen": chosen,
                "bytes": f"{confirmed['bytes']:.3f}" if confirmed.get("bytes") else "1",
                "time, the profiled inputs": f"{seen:.3f}" if seen else "1",
                "time, fresh inputs": shown,
                "over profile and ThinLTO": str(Ratio.from_json(over)) if over else "-",
                "left out": "; ".join(one["problems"]) or "-",
            }
        )
    return made


def recipe_name(one: dict[str, Any]) -> str:
    """The name of the chosen recipe."""
    return Recipe.of(one["recipe"]).name


def means(found: dict[str, Any]) -> dict[str, str]:
    """Geometric means over programs; one that stays as it is counts as 1."""
    times, sizes, over = [], [], []
    for one in found.values():
        confirmed = one["confirmed"].get(recipe_name(one))
        times.append(confirmed["time"]["mean"] if confirmed else 1.0)
        sizes.append((confirmed["bytes"] or 1.0) if confirmed else 1.0)
        if one["over by hand"]:
            over.append(one["over by hand"]["mean"])
    return {
        "time": str(Ratio.of(times)),
        "bytes": str(Ratio.of(sizes)),
        "over by hand": str(Ratio.of(over)),
    }


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.specialize", description=about)
    parser.add_argument("names", nargs="+", help="sets or programs")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="to confirm a recipe and command"
    )
    parser.add_argument("--budget", type=float, default=0.0, help="seconds of a search for options")
    parser.add_argument("--without", action="append", default=[], choices=LEVERS)
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="what was found")
    options = parser.parse_args(arguments)
    levers = [one for one in LEVERS if one not in options.without]
    settings = {"seconds": options.seconds, "levers": levers, "budget": options.budget}
    found: dict[str, Any] = {}
    if options.output and options.output.exists():
        kept = json.loads(options.output.read_text())
        if kept["settings"] != settings:
            print(f"specialize: {options.output} has other settings", file=sys.stderr)
            return 1
        found = kept["programs"]
    failed = []
    try:
        programs = fetch(select(load(), options.names))
    except ProgramsError as error:
        print(f"specialize: {error}", file=sys.stderr)
        return 1
    work.write(BUILD / "work")
    work.write(BUILD / FRESH, edition=1)
    for program in tqdm(programs, unit="program", file=sys.stderr):
        if program.name in found:
            continue
        tqdm.write(program.name)
        with tempfile.TemporaryDirectory(dir=BUILD, prefix=f".{program.name}-") as folder:
            try:
                found[program.name] = specialized(program, Path(folder), settings)
            except (Error, ProgramsError) as error:
                failed.append(f"{program.name}: {error}")
                tqdm.write(f"  {failed[-1]}")
                continue
        if options.output:
            made = {"settings": settings, "programs": found, "means": means(found)}
            write_whole(options.output, json.dumps(made, indent=1).encode() + b"\n")
            text = ", ".join(f"{name} {mean}" for name, mean in made["means"].items())
            text = f"Geometric means: {text}."
            section(options.output, "Specialized programs", text, rows(found))
    if found:
        print(table(rows(found)))
        print(means(found))
    for text in failed:
        print(f"specialize: {text}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
