# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sweep of the round trip from compilers and through other interfaces; writes
build/bench/clients.json.

    run.py [--rounds N] [--build FOLDER]

100 queries of 500, 1000 … 50 000 floats each, one fully connected layer to one float (Section 5.3
of the CC 2024 paper), asked by a program in C++, by one in C through the C interface, by a pass of
stock mlir-opt-22, and by the classes of 2024: compat's in C++, the published package in Python.
Processes run where they like. Figures are medians of rounds in which all clients of a runner take
turns.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROUND_TRIP = HERE.parent / "round-trip"
sys.path[:0] = [str(HERE.parent), str(ROUND_TRIP)]

from setting import PLACING_SECONDS, Setting, free_place, measure, onnx_models  # noqa: E402
from shared import Asker, parser, report  # noqa: E402
from tqdm import tqdm  # noqa: E402

from mlbridge import aot  # noqa: E402

CLIENTS = ("C++", "C", "mlir-opt")
#: Sweeps of a round: JSON's take a tenth of a second each.
SWEEPS, JSON_SWEEPS = 10, 2
IN_PROCESS = ("onnx", "native", "aot")
SERVED = {
    "shm, bitstream": ("shm", "bitstream"),
    "unix, bitstream": ("unix", "bitstream"),
    "pipe, bitstream": ("pipe", "bitstream"),
    "pipe, json": ("pipe", "json"),
    "grpc, protobuf": ("grpc", "protobuf"),
    "grpc, bitstream": ("grpc", "bitstream"),
}


class Clients:
    """Starts whatever asks."""

    def __init__(self, setting: Setting, folder: Path, build: Path) -> None:
        self.setting, self.folder = setting, folder
        self.plugin = build / "lib/mlbridge/bench-sweep.so"
        self.module = folder / "empty.mlir"
        self.module.write_text("module {}\n")

    def started(self, client: str, uris: list[str], stack: ExitStack) -> Asker:
        if client == "C++":
            return self.setting.asker(stack, "round-trip-client", "sweep", *uris)
        if client == "C":
            return self.setting.asker(stack, "sweep-c-client", *uris)
        passes = ["--pass-pipeline=builtin.module(bench-sweep)", str(self.module)]
        command = ["mlir-opt-22", f"--load-pass-plugin={self.plugin}", *passes]
        env = {**self.setting.env, "BENCH_URIS": " ".join(uris)}
        return Asker(stack, command, env, max(self.setting.cores))


def compiled(models: list[Path], folder: Path, cores: int) -> list[str]:
    """The models ahead of time, as shared objects."""

    def one(model: Path) -> str:
        made = folder / f"{model.stem}.so"
        aot.compile(str(model), str(made))
        return f"aot:{made}"

    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(one, models))


def taken(askers: dict[str, Asker], passes: int, rounds: int, runner: str) -> list[dict[str, Any]]:
    times = measure(list(askers.values()), passes, rounds, PLACING_SECONDS)
    return [
        {"client": client, "runner": runner, "ms": round(statistics.median(of_one) / 1e6, 3)}
        for client, of_one in zip(askers, times, strict=True)
    ]


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=7)
    options = arguments.parse_args()
    rows: list[dict[str, Any]] = []
    total = len(IN_PROCESS) + len(SERVED) + 2
    with (
        tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as name,
        tqdm(total=total, desc="clients", unit="runner") as bar,
    ):
        folder = Path(name)
        setting = Setting(options.build, pinned=False)
        clients = Clients(setting, folder, options.build)
        models, _ = onnx_models(folder)
        for engine in IN_PROCESS:
            bar.set_postfix_str(engine)
            uris = [f"{engine}:{model}" for model in models]
            if engine == "aot":
                uris = compiled(models, folder, len(setting.cores))
            with ExitStack() as stack:
                askers = {c: clients.started(c, uris, stack) for c in CLIENTS}
                rows += taken(askers, SWEEPS, options.rounds, engine)
            bar.update()
        for runner, (kind, serdes) in SERVED.items():
            bar.set_postfix_str(runner)
            passes = JSON_SWEEPS if serdes == "json" else SWEEPS
            askers = {}
            servers: list[int] = []
            with ExitStack() as stack:
                for client in CLIENTS:
                    place = f"{kind}:{folder}/{len(servers)}-{kind}-{serdes}"
                    address = f"grpc:{free_place()}" if kind == "grpc" else place
                    server = setting.server(
                        stack, ROUND_TRIP / "server.py", "sweep", address, waits=False
                    )
                    servers.append(server)
                    uri = f"{address}?serdes={serdes}&wait=60s"
                    askers[client] = clients.started(client, [uri], stack)
                setting.release(*servers, *(asker.process.pid for asker in askers.values()))
                rows += taken(askers, passes, options.rounds, runner)
            bar.update()
        for serdes, passes in (("bytes", SWEEPS), ("json", JSON_SWEEPS)):
            runner = f"pipe, {'bitstream' if serdes == 'bytes' else 'json'}"
            bar.set_postfix_str(f"{runner}, as published in 2024")
            with ExitStack() as stack:
                base = str(folder / f"published-{serdes}")
                words = ["compilerinterface", serdes, base]
                server = setting.server(stack, HERE / "published_server.py", *words, waits=True)
                asker = setting.asker(stack, "sweep-published-client", serdes, base)
                setting.release(server, asker.process.pid)
                rows += taken({"2024's classes": asker}, passes, options.rounds, runner)
            bar.update()
    across: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = across.setdefault(row["runner"], {"runner": row["runner"]})
        line[row["client"]] = row["ms"]
    heads = ("runner", *CLIENTS, "2024's classes")
    report(
        "clients",
        rows,
        "Round trips from compilers",
        "Milliseconds of the sweep of 100 queries: from a program in C++, from one in C, from a"
        " pass of mlir-opt-22, and by the classes of 2024, compat in C++ and compilerinterface in"
        " Python.",
        [{head: line.get(head) for head in heads} for line in across.values()],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
