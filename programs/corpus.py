# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The catalog's programs as a corpus, build/programs/corpus, whose parts are the sets.

    python3 -m programs.corpus training validation

`mlbridge corpus show build/programs/corpus` lists it. Modules keep the bytes of code of their
object at -Oz.
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
from programs.catalog import SETS, ProgramsError, load, select
from programs.fetch import BUILD, fetch, fetched_version, source_tree


def make(name: str, jobs: int = 2) -> corpus.Corpus:
    """The modules of the set `name`; what is missing is fetched and compiled."""
    if name not in SETS:
        raise ProgramsError(f"no set called {name}; sets: {', '.join(SETS)}")
    folder = BUILD / "corpus"
    there = corpus.open(folder).parts if corpus.is_corpus(folder) else {}
    programs = select(load(), [name])
    missing = [program for program in programs if program.name not in there]
    fetch(missing, BUILD)
    try:
        for program in tqdm(missing, desc=f"{name} corpus", unit="program", file=sys.stderr):
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
            corpus.assign(folder, {program.name: name})
        return corpus.open(folder).part(name)
    except Error as error:
        raise ProgramsError(str(error)) from error


def extracted(name: str, jobs: int = 2) -> list[tuple[corpus.Module, Path]]:
    """The modules of a set with their bitcode, which is named by its hash."""
    made = make(name, jobs)
    return [(module, made.extract(module, BUILD / "modules")) for module in made]


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="programs.corpus", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("sets", nargs="*", help="sets (default: training validation)")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    try:
        for name in options.sets or ["training", "validation"]:
            made = make(name, options.jobs)
            programs = len({module.program for module in made})
            total = sum(module.oz_code_bytes or 0 for module in made)
            print(f"{name}: {programs} programs, {len(made)} modules, {total} bytes at -Oz")
    except ProgramsError as error:
        print(f"corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
