# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What batching gains one server of many compilers, beside what it gains bare PyTorch.

    run.py [--rounds N] [--clients N] [--build FOLDER]

In each round, in turns: PyTorch alone on one observation after another and on batches; and the same
network behind a server that answers 8 compilers one by one, and one that batches. Written to
build/bench/batching.json: requests a second (medians), both gains, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tqdm import tqdm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = 512
REQUESTS = 400


def lines(command: list[str | Path], stack: ExitStack) -> Callable[[str], str]:
    """A process that says "ready" and then answers lines."""
    process = stack.enter_context(
        subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    )
    stack.callback(process.terminate)
    assert process.stdin and process.stdout
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{command[0]} did not start")
    given, taken = process.stdin, process.stdout

    def ask(line: str) -> str:
        given.write(line + "\n")
        given.flush()
        return taken.readline()

    return ask


def measure(build: Path, clients: int, rounds: int) -> dict[str, float]:
    """Requests a second of all four ways."""
    import torch
    from network import INPUTS, network

    evaluate = network()
    examples = torch.randn(EXAMPLES, INPUTS)
    rates: dict[str, list[float]] = {"bare_one": [], "bare_batch": [], "one": [], "batch": []}

    def bare(size: int) -> float:
        start = time.perf_counter()
        for first in range(0, EXAMPLES, size):
            evaluate(examples[first : first + size])
        return EXAMPLES / (time.perf_counter() - start)

    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder, ExitStack() as stack:
        expected = Path(folder) / "expected"
        expected.write_bytes(torch.cat((examples, evaluate(examples)), 1).numpy().tobytes())
        asks = {}
        for kind in ("one", "batch"):
            uri = f"unix:{folder}/{kind}"
            lines([sys.executable, HERE / "server.py", kind, uri], stack)
            asks[kind] = lines(
                [build / "bench/batching-client", uri, str(clients), expected], stack
            )
            asks[kind](str(REQUESTS))
        for _ in tqdm(range(rounds), desc="batching", unit="round"):
            rates["bare_one"].append(bare(1))
            rates["bare_batch"].append(bare(clients))
            for kind, ask in asks.items():
                rates[kind].append(clients * REQUESTS / (float(ask(str(REQUESTS))) / 1e9))
    return {kind: statistics.median(found) for kind, found in rates.items()}


def main() -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="how many there are"
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build/cmake/bench")
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        subprocess.run([ROOT / "tools/setup", "--train"], check=True)
        os.execv(sys.executable, [sys.executable, *sys.argv])
    report = []
    for clients in options.clients:
        rates = measure(options.build, clients, options.rounds)
        bare = rates["bare_batch"] / rates["bare_one"]
        served = rates["batch"] / rates["one"]
        report.append(
            {
                "clients": clients,
                **{f"{kind}_per_second": round(rate) for kind, rate in rates.items()},
                "bare_gain": round(bare, 3),
                "server_gain": round(served, 3),
                "ratio": round(served / bare, 3),
            }
        )
    out = ROOT / "build/bench/batching.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")
    print("requests a second; with 8 clients the ratio of the gains is to be at least 0.6")
    print(f"{'clients':>8}{'PyTorch':>10}{'batches':>10}{'gain':>7}", end="")
    print(f"{'server':>10}{'batches':>10}{'gain':>7}{'ratio':>8}")
    for row in report:
        print(f"{row['clients']:8}", end="")
        print(f"{row['bare_one_per_second']:10}{row['bare_batch_per_second']:10}", end="")
        print(f"{row['bare_gain']:7.2f}{row['one_per_second']:10}", end="")
        print(f"{row['batch_per_second']:10}{row['server_gain']:7.2f}{row['ratio']:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
