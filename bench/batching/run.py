# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What batching gains one server of many compilers, beside what it gains a bare server.

    run.py [--rounds N] [--sets N] [--clients N …] [--build FOLDER]

In each round, in turns: a network in PyTorch behind a server that answers compilers one by one, and
one that batches; and the same behind bare sockets (bare_server.py). Each set has processes of its
own, whose place on the machine matters as much as what they do. Written to
build/bench/batching.json: requests a second and both gains (medians), and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tqdm import tqdm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = 512
REQUESTS = 4000  # of all clients, in a round
KINDS = ("bare_one", "bare_batch", "one", "batch")


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


def measure(build: Path, clients: int, rounds: int) -> list[dict[str, float]]:
    """Requests a second of all four ways, of each round."""
    import torch
    from network import INPUTS, network

    examples = torch.randn(EXAMPLES, INPUTS)
    requests = REQUESTS // clients
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder, ExitStack() as stack:
        expected = Path(folder) / "expected"
        expected.write_bytes(torch.cat((examples, network()(examples)), 1).numpy().tobytes())
        asks = {}
        for kind in KINDS:
            place = f"{folder}/{kind}"
            bare, how = kind.startswith("bare"), kind.removeprefix("bare_")
            program = HERE / ("bare_server.py" if bare else "server.py")
            lines([sys.executable, program, how, place if bare else f"unix:{place}"], stack)
            uri = f"{'bare' if bare else 'unix'}:{place}"
            client = build / "bench/batching-client"
            asks[kind] = lines([client, uri, str(clients), expected], stack)
            asks[kind](str(requests))
        return [
            {
                kind: clients * requests / (float(ask(str(requests))) / 1e9)
                for kind, ask in asks.items()
            }
            for _ in range(rounds)
        ]


def median(rounds: list[dict[str, float]], top: str, below: str = "") -> float:
    """Of a rate, or of one over another in the same round."""
    return statistics.median(r[top] / (r[below] if below else 1) for r in rounds)


def main() -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sets", type=int, default=5)
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
    total = len(options.clients) * options.sets
    with tqdm(total=total, desc="batching", unit="set") as progress:
        for clients in options.clients:
            rounds: list[dict[str, float]] = []
            for _ in range(options.sets):
                rounds += measure(options.build, clients, options.rounds)
                progress.update()
            bare, served = (
                median(rounds, "bare_batch", "bare_one"),
                median(rounds, "batch", "one"),
            )
            report.append(
                {
                    "clients": clients,
                    **{f"{kind}_per_second": round(median(rounds, kind)) for kind in KINDS},
                    "bare_gain": round(bare, 3),
                    "server_gain": round(served, 3),
                    "ratio": round(served / bare, 3),
                }
            )
    out = ROOT / "build/bench/batching.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=1) + "\n")
    print("requests a second; with 8 clients the ratio of the gains is to be at least 0.6")
    print(f"{'clients':>8}{'bare':>10}{'batches':>10}{'gain':>7}", end="")
    print(f"{'server':>10}{'batches':>10}{'gain':>7}{'ratio':>8}")
    for row in report:
        print(f"{row['clients']:8}", end="")
        print(f"{row['bare_one_per_second']:10}{row['bare_batch_per_second']:10}", end="")
        print(f"{row['bare_gain']:7.2f}{row['one_per_second']:10}", end="")
        print(f"{row['batch_per_second']:10}{row['server_gain']:7.2f}{row['ratio']:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
