# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The catalog's programs as a corpus, build/programs/corpus, whose parts are the sets.

    python3 -m programs.corpus training validation
    python3 -m programs.corpus --check lzip demo

`mlbridge corpus show build/programs/corpus` lists it. Modules keep the bytes of code of their
object at -Oz. --check says how they differ from those in pinned.txt, and what code sets share of
the sources that have been fetched; --pin writes them into pinned.txt.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

from mlbridge import corpus
from mlbridge.corpus import adding
from mlbridge.errors import Error
from programs.build import compile_command
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch, fetched_version, source_tree
from programs.pins import DIGITS, PINNED, Pin, Pins, copies, difference, read, write


def make(name: str, jobs: int = 2) -> corpus.Corpus:
    """The modules of a set or a program; what is missing is fetched and compiled."""
    folder = BUILD / "corpus"
    there = corpus.open(folder).parts if corpus.is_corpus(folder) else {}
    programs = select(load(), [name])
    missing = [program for program in programs if program.name not in there]
    fetch(missing, BUILD)
    try:
        for program in tqdm(missing, desc=f"corpus of {name}", unit="program", file=sys.stderr):
            tree = source_tree(program, BUILD)
            commands = [compile_command(program, source) for source in program.sources(tree)]
            added = adding.compile_all(
                folder,
                [(str(tree), command) for command in commands],
                program.name,
                fetched_version(program, BUILD),
                root=str(tree),
                jobs=jobs,
                measure=True,
            )
            if added.problems:
                raise ProgramsError(f"{program.name}: {added.problems[0]}")
            corpus.assign(folder, {program.name: program.set})
        made = corpus.open(folder)
        names = {program.name for program in programs}
        return corpus.Corpus(folder, [m for m in made if m.program in names], made.parts)
    except Error as error:
        raise ProgramsError(str(error)) from error


def extracted(name: str, jobs: int = 2) -> list[tuple[corpus.Module, Path]]:
    """The modules of a set or a program with their bitcode, which is named by its hash."""
    made = make(name, jobs)
    return [(module, made.extract(module, BUILD / "modules")) for module in made]


def pins(program: Program, made: corpus.Corpus) -> Pins:
    """A fetched program as pinned.txt has it."""
    tree = source_tree(program, BUILD)
    modules = (
        Pin(module.hash[:DIGITS], (tree / module.source).stat().st_size, module.source)
        for module in made
        if module.program == program.name
    )
    return Pins(fetched_version(program, BUILD), tuple(sorted(modules, key=lambda p: p.source)))


def check(found: dict[str, Pins]) -> list[str]:
    """How programs differ from pinned.txt; files in different sets that share code."""
    pinned = read(PINNED)
    differences = {name: difference(pinned.get(name), pins) for name, pins in found.items()}
    said = [f"{name}: {text}" for name, text in differences.items() if text]
    return said + copies(load(), pinned | found, BUILD)


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="programs.corpus", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="sets or programs (default: training validation)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="compare with pinned.txt")
    parser.add_argument("--pin", action="store_true", help="write them into pinned.txt")
    options = parser.parse_args(arguments)
    try:
        found: dict[str, Pins] = {}
        for name in options.names or ["training", "validation"]:
            made = make(name, options.jobs)
            found |= {p.name: pins(p, made) for p in select(load(), [name])}
            programs = len({module.program for module in made})
            total = sum(module.oz_code_bytes or 0 for module in made)
            print(f"{name}: {programs} programs, {len(made)} modules, {total} bytes at -Oz")
        if options.pin:
            pinned = read(PINNED) | found
            write({p.name: pinned[p.name] for p in load() if p.name in pinned}, PINNED)
        if options.check and (said := check(found)):
            raise ProgramsError("\n".join(said))
    except ProgramsError as error:
        print(f"corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
