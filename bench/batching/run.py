# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What batching gains one server of many compilers, beside what it gains a bare server.

    run.py [--rounds N] [--sets N] [--clients N …] [--build FOLDER]

Each round asks, in turns, a PyTorch network behind a server that answers compilers one by one, one
behind a server that batches, and the same two behind bare sockets. Each set starts new processes,
because where they run matters as much as what they do. build/bench/batching.json has medians:
requests a second, both gains, and their ratio.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import ROOT, Asker, parser, report, server

HERE = Path(__file__).resolve().parent
EXAMPLES = 512
REQUESTS = 4000  # of all clients, in a round
KINDS = ("bare_one", "bare_batch", "one", "batch")


def measure(build: Path, clients: int, rounds: int) -> list[dict[str, float]]:
    """Requests a second of all four ways, of each round."""
    import torch
    from server import INPUTS, network

    examples = torch.randn(EXAMPLES, INPUTS)
    requests = REQUESTS // clients
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder, ExitStack() as stack:
        expected = Path(folder) / "expected"
        expected.write_bytes(torch.cat((examples, network()(examples)), 1).numpy().tobytes())
        clients_of = {}
        for kind in KINDS:
            uri = f"{'bare' if kind.startswith('bare') else 'unix'}:{folder}/{kind}"
            stack.enter_context(server([HERE / "server.py", kind.removeprefix("bare_"), uri]))
            client = build / "bench/batching-client"
            clients_of[kind] = Asker(stack, [client, uri, str(clients), expected])
            clients_of[kind].nanoseconds(requests)
        return [
            {
                kind: clients * requests / (asker.nanoseconds(requests) / 1e9)
                for kind, asker in clients_of.items()
            }
            for _ in range(rounds)
        ]


def median(rounds: list[dict[str, float]], top: str, below: str = "") -> float:
    """The median of a rate, or of one over another in the same round."""
    return statistics.median(r[top] / (r[below] if below else 1) for r in rounds)


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--sets", type=int, default=5)
    arguments.add_argument(
        "--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="how many there are"
    )
    options = arguments.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.path.insert(0, str(ROOT / "tools"))
        import train_venv

        train_venv.prepare()
        os.execv(train_venv.PYTHON, [str(train_venv.PYTHON), *sys.argv])
    rows = []
    total = len(options.clients) * options.sets
    with tqdm(total=total, desc="batching", unit="set") as progress:
        for clients in options.clients:
            rounds: list[dict[str, float]] = []
            for _ in range(options.sets):
                rounds += measure(options.build, clients, options.rounds)
                progress.update()
            bare = median(rounds, "bare_batch", "bare_one")
            served = median(rounds, "batch", "one")
            rows.append(
                {
                    "clients": clients,
                    **{f"{kind}_per_second": round(median(rounds, kind)) for kind in KINDS},
                    "bare_gain": round(bare, 3),
                    "server_gain": round(served, 3),
                    "ratio": round(served / bare, 3),
                }
            )
    report(
        "batching",
        rows,
        "One server, many compilers",
        "Requests a second to one server over unix, each client sending its next request once it"
        " has its answer. The policy is a 300-256-128-15 network in PyTorch on one thread, called"
        " for each request or for a batch of the requests that are waiting. The baseline is the"
        " same policy behind plain sockets. Medians of alternating rounds; a gain is the median"
        " over the rounds. With 8 clients the ratio of the gains is to be at least 0.6.",
        [{key.removesuffix("_per_second"): row[key] for key in row} for row in rows],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
