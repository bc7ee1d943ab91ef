# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turn the programs of a set into bitcode that stock opt-22 and clang-22 optimize later.

    python3 -m programs.corpus training validation

Each C file becomes build/programs/corpus/SET/PROGRAM/FILE.bc, as clang's -Oz front end leaves it:
no pass has run, functions carry minsize and optsize. SET/index.json lists them with the bytes of
executable sections of the plain -Oz object, made from the C file and, as a check, from the bitcode.
Files without code are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from mlbridge.elf import file_executable_bytes
from programs.build import COMPILE_TIMEOUT, compile_program, output_name
from programs.catalog import SETS, Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch, fetched_version, run

BITCODE_FLAGS = ("-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm")


@dataclass(frozen=True)
class Entry:
    """One unoptimized module and the executable bytes that plain -Oz makes of it.

    In the index, `bitcode` is relative to its folder.
    """

    program: str
    version: str
    source: str
    bitcode: str
    oz_text: int

    @property
    def name(self) -> str:
        """Tells files of all programs apart."""
        return f"{self.program}/{self.source}"


def bitcode_to_object(bitcode: Path, target: Path, flags: Sequence[str] = ()) -> int:
    """Compile bitcode at -Oz; the bytes of executable sections of the object."""
    command = ["clang-22", "-Oz", "-x", "ir", "-c", str(bitcode), "-o", str(target), *flags]
    ran = run(command, bitcode.parent, COMPILE_TIMEOUT)
    if ran.code != 0:
        raise ProgramsError(f"{bitcode}: the compiler ended with {ran.code}\n{ran.said[-2000:]}")
    return file_executable_bytes(target)


def add_program(program: Program, folder: Path, jobs: int) -> list[Entry]:
    """Write the bitcode of one fetched program under `folder`; raises if a size isn't kept."""
    place = folder / program.name
    plain = compile_program(program, place, jobs=jobs, build=BUILD)
    bitcode = compile_program(
        program, place, flags=BITCODE_FLAGS, jobs=jobs, build=BUILD, suffix=".bc"
    )
    version = fetched_version(program, BUILD)

    def check(pair: tuple[str, Path, Path]) -> Entry | None:
        source, object_file, bitcode_file = pair
        expected = file_executable_bytes(object_file)
        got = bitcode_to_object(bitcode_file, object_file)
        object_file.unlink()
        if got != expected:
            raise ProgramsError(
                f"{program.name}: {source}: {expected} bytes of code from C, {got} from bitcode"
            )
        if expected == 0:
            bitcode_file.unlink()
            return None
        relative = f"{program.name}/{output_name(source, '.bc')}"
        return Entry(program.name, version, source, relative, expected)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        pairs = [(p.source, p.object, b.object) for p, b in zip(plain, bitcode, strict=True)]
        return [entry for entry in pool.map(check, pairs) if entry]


def make(name: str, jobs: int = 2) -> list[Entry]:
    """Make what is missing of the corpus of the set `name`; returns its index."""
    if name not in SETS:
        raise ProgramsError(f"no set called {name}; sets: {', '.join(SETS)}")
    folder = BUILD / "corpus" / name
    index = folder / "index.json"
    programs = select(load(), [name])
    known: dict[str, list[Entry]] = {}
    if index.is_file():
        for item in json.loads(index.read_text()):
            known.setdefault(item["program"], []).append(Entry(**item))
    if list(known) == [program.name for program in programs]:
        return [entry for entries in known.values() for entry in entries]
    fetch(programs, BUILD)
    missing = [program for program in programs if program.name not in known]
    for program in tqdm(missing, desc=f"{name} corpus", unit="program", file=sys.stderr):
        known[program.name] = add_program(program, folder, jobs=jobs)
    entries = [entry for program in programs for entry in known[program.name]]
    temporary = index.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps([asdict(entry) for entry in entries], indent=1) + "\n")
    temporary.replace(index)
    return entries


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
            entries = make(name, options.jobs)
            programs = len({entry.program for entry in entries})
            total = sum(entry.oz_text for entry in entries)
            print(f"{name}: {programs} programs, {len(entries)} files, {total} bytes at -Oz")
    except ProgramsError as error:
        print(f"corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
