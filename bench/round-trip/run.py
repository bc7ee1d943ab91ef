# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures round trips beside their floors, in turn, and writes build/bench/round-trip.json.

    run.py [--rounds N] [--build FOLDER] [--only SUBSTRING]

A round is a sweep (100 queries: 500, 1000 … 50 000 floats to one) and many small queries (16
floats to one int64), each by the library and by its floors, in an order that changes from round to
round. The floors over pipe and unix wait as the library does, yielding before they sleep, or block
at once. The report has medians. "pinned" means that both processes run on one core.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

from setting import PLACING_SECONDS, Setting, Times, free_place, measure, onnx_models
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from shared import REPORTS, ROOT, over, parser, report  # noqa: E402

SMALL_QUERIES = 3000
SWEEPS = 20
JSON_SWEEPS = 3  # each takes as long
ROUNDS_OF_A_PAIR = 3
# Two processes that may run anywhere have two speeds: on one core, or on two. So medians need many
# pairs, warmed up until the kernel has placed them.
FREE_PAIRS = 15


def medians(times: Sequence[Times]) -> list[float]:
    """Medians of ours and of the floors, over all rounds."""
    return [statistics.median(chain(*of_one)) for of_one in zip(*times, strict=True)]


def _rounds_of_pairs(rounds: int, *, pinned: bool, is_slow: bool) -> list[int]:
    """How many rounds each pair of processes runs."""
    if not pinned:
        return [1 if is_slow else ROUNDS_OF_A_PAIR] * max(FREE_PAIRS, rounds)
    full, rest = divmod(rounds, ROUNDS_OF_A_PAIR)
    return [ROUNDS_OF_A_PAIR] * full + [rest] * (rest > 0)


def channel(setting: Setting, folder: Path, kind: str, serdes: str, rounds: int, bar: Any) -> Any:
    """One transport with one serdes, in fresh processes every few rounds."""
    wire = "json" if serdes == "json" else "raw"
    found: dict[str, list[float]] = {}
    sweeps = JSON_SWEEPS if serdes == "json" else SWEEPS
    for which, passes in (("sweep", sweeps), ("small", SMALL_QUERIES)):
        times = []
        is_slow = serdes == "json" and which == "sweep"
        counts = _rounds_of_pairs(rounds, pinned=setting.pinned, is_slow=is_slow)
        for number, count in enumerate(counts):
            with ExitStack() as stack:
                path = folder / f"{which}-{kind}-{serdes}-{setting.pinned}-{number}"
                address = f"grpc:{free_place()}" if kind == "grpc" else f"{kind}:{path}"
                here = setting.server(stack, HERE / "server.py", which, address, waits=False)
                ours = setting.asker(
                    stack, "round-trip-client", which, f"{address}?serdes={serdes}&wait=60s"
                )
                askers, servers = [ours], [here]
                script = ROOT / "bench/floor/server.py"
                for ways in ([], ["blocks"]) if kind in ("pipe", "unix") else ([],):
                    low, floor_client = f"{path}-floor{len(askers)}", ["floor-channel", which]
                    if kind == "grpc":
                        low, floor_client = free_place(), ["floor-grpc", which]
                    else:
                        floor_client += [kind, wire]
                    servers.append(
                        setting.server(stack, script, which, kind, wire, low, *ways, waits=True)
                    )
                    askers.append(setting.asker(stack, *floor_client, low, *ways))
                setting.release(*servers, *(asker.process.pid for asker in askers))
                warm_up = 0 if setting.pinned else PLACING_SECONDS
                times.append(measure(askers, passes, count, warm_up))
            bar.update(rounds / len(counts))
        found[which] = medians(times)
    return result(kind, serdes, setting.pinned, found)


def in_process(setting: Setting, folder: Path, rounds: int, bar: Any) -> Any:
    """The onnx engine."""
    library = setting.env["MLBRIDGE_ONNXRUNTIME"]
    sweep, small = onnx_models(folder)
    found: dict[str, list[float]] = {}
    for which, passes, models in (("sweep", SWEEPS, sweep), ("small", 20 * SMALL_QUERIES, [small])):
        with ExitStack() as stack:
            uris = [f"onnx:{model}" for model in models]
            ours = setting.asker(stack, "round-trip-client", which, *uris)
            floor = setting.asker(stack, "floor-onnx", library, which, *models)
            found[which] = medians([measure([ours, floor], passes, rounds)])
            bar.update(rounds)
    return result("onnx", "none", setting.pinned, found)


def result(runner: str, serdes: str, pinned: bool, found: dict[str, list[float]]) -> Any:
    """A row of the report."""
    row = {
        "runner": runner,
        "serdes": serdes,
        "pinned": pinned,
        "sweep_ms": round(found["sweep"][0] / 1e6, 4),
        "small_us": round(found["small"][0] / 1e3, 3),
        "floor_sweep_ms": round(found["sweep"][1] / 1e6, 4),
        "floor_small_us": round(found["small"][1] / 1e3, 3),
    }
    if len(found["small"]) > 2:
        row["blocking_floor_sweep_ms"] = round(found["sweep"][2] / 1e6, 4)
        row["blocking_floor_small_us"] = round(found["small"][2] / 1e3, 3)
    return row


def shown(row: Any) -> Any:
    """For people, with ratios."""
    line: dict[str, Any] = {"runner": f"{row['runner']}, {row['serdes']}"}
    line["processes"] = "one core" if row["pinned"] else "free"
    for name, key in (("sweep", "sweep_ms"), ("small", "small_us")):
        ours, floor = row[key], row[f"floor_{key}"]
        unit = "ms" if name == "sweep" else "µs"
        line |= {f"{name} {unit}": ours, f"{name} floor": floor}
        line[f"{name} ratio"] = over(ours, floor)
        line[f"{name} blocking floor"] = row.get(f"blocking_floor_{key}")
    return line


def save(rows: list[Any]) -> None:
    """Writes the report, in which rows of other settings stay as they were measured."""

    def setting(row: Any) -> tuple[Any, ...]:
        return row["runner"], row["serdes"], row["pinned"]

    measured = {setting(row) for row in rows}
    out = REPORTS / "round-trip.json"
    before = json.loads(out.read_text()) if out.exists() else []
    found = [row for row in before if setting(row) not in measured] + rows
    report(
        "round-trip",
        found,
        "Round trips",
        "*Sweep*: 100 queries of 500, 1000 … 50 000 floats each, one fully connected layer to one"
        " float. *Small*: 16 floats to one int64. The floor is a hand-written program that doesn't"
        " use MLBridge, and waits as MLBridge does: it yields the processor for a moment before it"
        " sleeps, and over shm: it spins before that. The blocking floor sleeps at once. All are"
        " measured alternately.",
        [shown(row) for row in found],
    )


def main() -> int:
    """Measure everything."""
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=11, help="counted rounds, at least 5")
    options.add_argument(
        "--only",
        default="",
        help="settings whose name has this text in it; the report keeps its rows of the others",
    )
    arguments = options.parse_args()
    cases = [
        (pinned, kind, serdes)
        for pinned in (False, True)
        for kind, serdes in (
            ("pipe", "bitstream"),
            ("unix", "bitstream"),
            ("shm", "bitstream"),
            ("grpc", "bitstream"),
            ("unix", "protobuf"),
            ("grpc", "protobuf"),
            ("pipe", "json"),
            ("unix", "json"),
            ("onnx", "none"),
        )
        if arguments.only in f"{kind}-{serdes}-{'pinned' if pinned else 'free'}"
    ]
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as name,
        tqdm(total=2 * arguments.rounds * len(cases), desc="round trips", unit="round") as bar,
    ):
        for pinned, kind, serdes in cases:
            setting = Setting(arguments.build, pinned=pinned)
            bar.set_postfix_str(f"{kind} {serdes}{' pinned' if pinned else ''}")
            if kind == "onnx":
                rows.append(in_process(setting, Path(name), arguments.rounds, bar))
            else:
                rows.append(channel(setting, Path(name), kind, serdes, arguments.rounds, bar))
    save(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
