# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile whole programs with groups in random orders and compare what they print, for miscompiles.

    PYTHONPATH=. python3 compilers/llvm/phase-ordering/test/outputs_campaign.py PLUGIN --rounds 5

Programs, their sources and their own tests are those of programs/catalog.toml that have a test.
Each round takes another order, as long as the list, for each program, at a random -O level.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from programs.build import compile_program, link_program, run_test
from programs.catalog import Program, ProgramsError, load
from programs.fetch import BUILD, fetch

HERE = Path(__file__).resolve().parent


def output_of(program: Program, flags: tuple[str, ...], folder: Path, jobs: int) -> bytes:
    compiled = compile_program(program, folder / "objects", flags=flags, jobs=jobs)
    link_program(program, compiled, folder / "linked")
    return run_test(program, folder / "linked", folder / "work")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugin", type=Path)
    parser.add_argument("--actions", type=Path, default=HERE.parent / "actions.json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    count = len(json.loads(arguments.actions.read_text())["actions"])
    programs = [p for p in load() if p.test and (not arguments.names or p.name in arguments.names)]
    fetch(programs, BUILD)
    numbers = random.Random(arguments.seed)
    bad = 0
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            expected = output_of(program, ("-Oz",), Path(folder), arguments.jobs)
        for _ in range(arguments.rounds):
            order = ",".join(map(str, numbers.sample(range(count), count)))
            level = numbers.choice(("-O1", "-O2", "-O3", "-Os", "-Oz"))
            flags = [level, "-Xclang", f"-fpass-plugin={arguments.plugin.resolve()}"]
            for option in (
                f"model=function:sequence?actions={order}",
                "max-steps=1000",
                "on-failure=fail",
                "levels=O1,O2,O3,Os,Oz",
            ):
                flags += ["-Xclang", "-mllvm", "-Xclang", f"-phase-ordering-{option}"]
            said = ""
            with tempfile.TemporaryDirectory() as folder:
                try:
                    if output_of(program, tuple(flags), Path(folder), arguments.jobs) != expected:
                        said = "other output"
                except ProgramsError as error:
                    said = str(error)[-600:]
            if said:
                bad += 1
                found = {"program": program.name, "level": level, "order": order, "said": said}
                print(json.dumps(found), flush=True)
        print(f"{program.name}: {arguments.rounds} orders", flush=True)
    print(f"{len(programs)} programs, {arguments.rounds} orders each, {bad} failures")
    return 1 if bad or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
