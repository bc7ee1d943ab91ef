# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chooses candidates for links: measured on programs' merged modules, the best few together.

    python3 -m experiments.link_candidates [--choose 10] [--pool FILE] [--target TRIPLE] [-o FILE]
        [SET|NAME ...]

Each program is compiled and linked with -flto once, and the plugin tries every candidate of the
pool in that link. The first is the one that gains most, each further one gains most beside those
before it. What was measured is kept in build/link-candidates/, a file for each program, so that an
interrupted run goes on where it was; another target has a folder of its own. Remove the folder
after the pool or the plugin has changed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from tqdm import tqdm

from mlbridge import candidates
from mlbridge.candidates import Candidate, Measured
from mlbridge.outputs import write_whole
from programs.build import compile_program
from programs.catalog import ROOT, Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch
from programs.linked import is_library, link
from programs.plugin import LINK_CANDIDATES, plugin_flags

KEPT = ROOT / "build" / "link-candidates"  # and a folder for each other target
#: Programs that aren't huge, of which the catalog knows executables: eight in C, eight in C++.
LEARNED = """box2d ed giflib libebml md4c picosat re2 tinyscheme tinyxml tinyxml2 tre yajl yaml-cpp
 zopfli fmt cadical""".split()


def measure(
    program: Program, pool: Path, folder: Path, jobs: int, root: Path = BUILD, target: str = ""
) -> list[Measured]:
    """Sizes of the modules of a program's links; its sources lie in `root`."""
    listed = candidates.read(pool)
    log = folder / "log"
    shutil.rmtree(log, ignore_errors=True)
    cross = [f"--target={target}"] if target else []
    asked = ["--effort", str(len(listed)), "--lto", "full", "--log", str(log)]
    flags = plugin_flags(f"candidates:{pool}", *asked)
    always = ["-Oz", *cross, *(["-fPIC"] if is_library(program) else [])]
    compiled = compile_program(
        program, folder / "objects", flags=[*always, *flags], jobs=jobs, build=root, drivers=True
    )
    link(program, compiled, folder / "bin", [*cross, *flags])
    keys = {one.name: one.key for one in listed}
    found = []
    for path in sorted(log.glob("*.trials.json")):
        trials = json.loads(path.read_text())
        sizes = {keys[one["name"]]: one.get("bytes") for one in trials["trials"]}
        found.append(Measured(program.name, trials["stock_bytes"], sizes))
    return found


def kept(program: Program, pool: Path, jobs: int, target: str) -> list[Measured]:
    """The same, from an earlier run if there was one."""
    path = KEPT / target / f"{program.name}.json"
    if not path.is_file():
        folder = BUILD / "linked" / target / program.name / "pool"
        found = measure(program, pool, folder, jobs, target=target)
        rows = [{"program": m.program, "stock": m.stock, "sizes": m.sizes} for m in found]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(rows).encode())
    return [Measured(**row) for row in json.loads(path.read_text())]


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.link_candidates", description=about)
    parser.add_argument("names", nargs="*", help="sets or programs (default: some of training)")
    pool = LINK_CANDIDATES.with_name("link-pool.json")
    parser.add_argument("--pool", type=Path, default=pool, help="the candidates to choose from")
    parser.add_argument("--target", default="", metavar="TRIPLE", help="default: this machine")
    parser.add_argument("--choose", type=int, default=10, metavar="N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="the list")
    options = parser.parse_args(arguments)
    try:
        measured: dict[str, Measured] = {}
        programs = fetch(select(load(), options.names or LEARNED))
        for program in tqdm(programs, unit="program", file=sys.stderr):
            for number, one in enumerate(
                kept(program, options.pool.resolve(), options.jobs, options.target)
            ):
                measured[f"{program.name} {number}"] = one
    except ProgramsError as error:
        print(f"link_candidates: {error}", file=sys.stderr)
        return 1
    tried = {key for one in measured.values() for key in one.sizes}
    listed = [one for one in candidates.read(options.pool) if one.key in tried]
    chosen: list[Candidate] = candidates.choose(measured, listed, options.choose)
    for count, candidate in enumerate(chosen, 1):
        gains = [candidates.gain(measured, some) for some in ([candidate], chosen[:count])]
        print(f"{count:2d} {candidate.name:28s} alone {gains[0]}, with those before it {gains[1]}")
    if options.output:
        write_whole(options.output, candidates.text(chosen).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
