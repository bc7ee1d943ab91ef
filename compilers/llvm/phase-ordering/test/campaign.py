# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run every group of a list of actions over a corpus, in random orders, looking for crashes.

    python3 compilers/llvm/phase-ordering/test/campaign.py build/programs/corpus --orders 4

No fallback catches a crash of the compiler, so a list ships only after a campaign without one. Each
file goes through `orders` random permutations of the whole list, in pieces, with the verifier at
the end of each piece and code generation at the end of the order. Prints failures as JSON lines.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PIECE = 12
TIMEOUT = 300.0


def run(command: list[str]) -> str:
    """Empty if the command succeeded, else what it said last."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return f"no end after {TIMEOUT:.0f} s"
    return "" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-600:]}"


def try_file(bitcode: Path, actions: list[dict[str, str]], orders: int, seed: int) -> list[str]:
    """One JSON line for each order that failed."""
    failures: list[str] = []
    random_numbers = random.Random(f"{seed} {bitcode.name}")
    for _ in range(orders):
        order = random_numbers.sample(range(len(actions)), len(actions))
        with tempfile.TemporaryDirectory() as folder:
            current = bitcode
            said = ""
            piece: list[int] = []
            for start in range(0, len(order), PIECE):
                piece = order[start : start + PIECE]
                target = Path(folder) / f"{start}.bc"
                passes = ",".join(actions[i]["passes"] for i in piece)
                # A list that starts with a function pass would be read as a function pipeline.
                text = f"verify,{passes},verify"
                said = run(["opt-22", f"-passes={text}", str(current), "-o", str(target)])
                if said:
                    break
                current = target
            if not said:
                piece = order
                said = run(["llc-22", "-filetype=obj", str(current), "-o", f"{folder}/a.o"])
            if said:
                failures.append(json.dumps({"file": str(bitcode), "order": piece, "said": said}))
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--actions", type=Path, default=HERE.parent / "actions.json")
    parser.add_argument("--orders", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    actions = json.loads(arguments.actions.read_text())["actions"]
    files = sorted(arguments.corpus.rglob("*.bc"))
    bad = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(try_file, f, actions, arguments.orders, arguments.seed) for f in files]
        for job in jobs:
            for line in job.result():
                bad += 1
                print(line, flush=True)
    print(f"{len(files)} files, {len(files) * arguments.orders} orders, {bad} failures")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main())
