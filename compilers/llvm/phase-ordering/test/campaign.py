# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run every group of a list of actions in random orders, looking for crashes or miscompiles.

    python3 compilers/llvm/phase-ordering/test/campaign.py crashes [--orders 4]
    python3 compilers/llvm/phase-ordering/test/campaign.py outputs [--orders 4] [PROGRAM ...]

No fallback catches a crash of the compiler or wrong code, so a list ships only after campaigns
without any. `crashes` takes each module of training and validation through random
permutations of the whole list, in pieces, with the verifier at the end of each piece and code
generation at the end of the order. `outputs` compiles the programs that have a test of their own,
at a random -O level, and compares what they print. Prints failures as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[3]))

from programs.build import compile_program, link_program, run_test  # noqa: E402
from programs.catalog import Program, ProgramsError, load, select  # noqa: E402
from programs.corpus import extracted  # noqa: E402
from programs.fetch import BUILD, fetch, run  # noqa: E402
from programs.plugin import plugin_flags  # noqa: E402

PIECE = 12
TIMEOUT = 300.0
LEVELS = ("O1", "O2", "O3", "Os", "Oz")


def must(*command: str) -> None:
    ran = run(command, BUILD, TIMEOUT)
    if ran.code != 0:
        raise ProgramsError(f"exit {ran.code}: {ran.stderr.text[-600:]}")


def crashes(bitcode: Path, order: list[int], actions: list[dict[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        current = str(bitcode)
        for start in range(0, len(order), PIECE):
            passes = ",".join(actions[i]["passes"] for i in order[start : start + PIECE])
            target = f"{folder}/{start}.bc"
            # A list that starts with a function pass would be read as a function pipeline.
            must("opt-22", f"-passes=verify,{passes},verify", current, "-o", target)
            current = target
        must("llc-22", "-filetype=obj", current, "-o", f"{folder}/a.o")


def output_of(program: Program, *flags: str) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled = compile_program(program, folder / "objects", flags=flags)
        link_program(program, compiled, folder / "linked")
        return run_test(program, folder / "linked", folder / "work")


def outputs(program: Program, order: list[int], level: str) -> None:
    model = f"function:sequence?actions={','.join(map(str, order))}"
    options = ["--max-steps", "1000", "--on-failure", "fail", "--levels", ",".join(LEVELS)]
    if output_of(program, f"-{level}", *plugin_flags(model, *options)) != output_of(program, "-Oz"):
        raise ProgramsError(f"other output at -{level}")


def failure(subject: Path | Program, number: int, options: argparse.Namespace) -> str:
    """What one order did wrong, as JSON; empty if nothing."""
    name = subject.name if isinstance(subject, Program) else str(subject)
    actions = json.loads(options.actions.read_text())["actions"]
    numbers = random.Random(f"{options.seed} {name} {number}")
    order = numbers.sample(range(len(actions)), len(actions))
    try:
        if isinstance(subject, Program):
            outputs(subject, order, numbers.choice(LEVELS))
        else:
            crashes(subject, order, actions)
    except ProgramsError as error:
        return json.dumps({"subject": name, "order": order, "said": str(error)[-600:]})
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("crashes", "outputs"))
    parser.add_argument("--actions", type=Path, default=HERE.parent / "actions.json")
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    subjects: list[Path] | list[Program]
    if options.kind == "crashes":
        subjects = [path for part in ("training", "validation") for _, path in extracted(part)]
    else:
        subjects = fetch([p for p in select(load(), options.names) if p.test])
    with ThreadPoolExecutor(options.jobs) as pool:
        tries = product(subjects, range(options.orders))
        said = list(pool.map(lambda one: failure(one[0], one[1], options), tries))
    bad = list(filter(None, said))
    print("\n".join([*bad, f"{len(said)} orders, {len(bad)} failures"]))
    return 1 if bad or not said else 0


if __name__ == "__main__":
    sys.exit(main())
