# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures what asking a model costs at LLVM's own questions; writes build/bench/llvm-advice.json.

    run.py [--rounds N] [--files N] [--largest] [--jobs 1 2 4 8] [--site inliner]

Files of the validation corpus, or with --largest its largest, are compiled at -Oz in turns: by
plain clang; with LLVM's interactive channel, whose answers are in a file (the floor: LLVM computes
the features, and nobody decides); with the same policy in process, in servers, and behind the
channel. Each with as many compilers at once as --jobs says. Reported are the median wall time of
all files, and its ratio to the floor of the same round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import ROOT, parser, report, sample

sys.path.insert(0, str(ROOT / "tests" / "shared"))
sys.path.insert(0, str(ROOT / "tests" / "llvm-advice"))

import linked
from advising import evicting_network
from compiler import loading

import mlbridge
from mlbridge.cli.run import flags

ASKED = ("inliner", "regalloc-eviction")
OUTPUTS = {"inliner": "inlining_decision", "regalloc-eviction": "index_to_evict"}
MLBRIDGE = [sys.executable, "-m", "mlbridge"]
#: The largest ratio in process, with one compiler at a time.
LIMIT = 1.05
#: Makes the command that compiles a file into an object.
Compiling = Callable[[Path, Path], list[str]]


def clang(file: Path, target: Path, *more: str) -> list[str]:
    command = ["clang-22", "-Oz", "-Wno-override-module", "-x", "ir", "-c", str(file)]
    return [*command, "-o", str(target), *more]


def policy_of(site: str, folder: Path) -> Path:
    if site == "inliner":
        return ROOT / "models" / "inliner-size" / "policy.onnx"
    path = folder / f"{site}.onnx"
    evicting_network(path)
    return path


def replies(site: str, policy: Path, files: list[Path], folder: Path) -> None:
    """Writes what the policy answers for each file, as LLVM reads it."""
    for file in files:
        log = folder / f"{site}-{file.stem}"
        log.mkdir()
        asked = loading(site, model=f"native:{policy}", log=log, levels="Oz")
        subprocess.run(clang(file, log / "o.o", *asked), check=True)
        answers = [
            action[OUTPUTS[site]][0]
            for path in log.glob("*.mlbrec")
            for episode in mlbridge.Recording(path).episodes()
            for action in episode.actions
        ]
        (folder / f"{site}-{file.stem}.in").write_bytes(np.array(answers, "<i8").tobytes())


def ways(site: str, policy: Path, folder: Path, stack: ExitStack) -> dict[str, Compiling]:
    library = folder / f"{site}.so"
    subprocess.run([*MLBRIDGE, "aot", str(policy), "-o", str(library)], check=True)
    uris = {"onnx": f"onnx:{policy}", "native": f"native:{policy}", "aot": f"aot:{library}"}
    places = {"unix": f"unix:{folder}/{site}.sock", "pipe": f"pipe:{folder}/{site}-pipes/"}
    for name, place in {**places, "grpc": "grpc:localhost:0"}.items():
        command = [*MLBRIDGE, "serve", str(policy), "--at", place]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(server.wait)
        stack.callback(server.terminate)
        assert server.stdout is not None
        uris[name] = server.stdout.readline().removeprefix("ready ").strip()

    def canned(file: Path, target: Path) -> list[str]:
        return clang(
            file, target, *flags({site: str(folder / f"{site}-{file.stem}")}, "clang", 22, [])
        )

    def asking(uri: str, own: Path | None = None) -> Compiling:
        line = loading(site, own=own, model=uri, levels="Oz", on_failure="fail")
        return lambda file, target: clang(file, target, *line)

    def channel(file: Path, target: Path) -> list[str]:
        run = [*MLBRIDGE, "run", "--advise", f"{site}={policy}", "--on-failure", "fail", "--"]
        return [*run, *clang(file, target)]

    asked = {name: asking(uri) for name, uri in uris.items()}
    if linked.TENSORFLOW.is_dir():
        tensorflow = folder / "tensorflow"
        if not tensorflow.is_dir():
            tensorflow.mkdir()
            linked.build(tensorflow)
        asked["tfaot"] = asking(linked.uri(site), linked.plugin(site, tensorflow))
    else:
        print(f"no tfaot: TensorFlow is not in {linked.TENSORFLOW}", file=sys.stderr)
    return {"plain": clang, "canned": canned, **asked, "channel": channel}


def seconds(way: Compiling, files: list[Path], jobs: int, folder: Path) -> float:
    """The time that all files take."""

    def one(file: Path) -> None:
        subprocess.run(way(file, folder / f"{file.stem}.o"), check=True, capture_output=True)

    began = time.perf_counter()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, files))
    return time.perf_counter() - began


def measured(
    site: str, files: list[Path], jobs: list[int], rounds: int, folder: Path
) -> list[dict[str, Any]]:
    policy = policy_of(site, folder)
    replies(site, policy, files, folder)
    rows = []
    with ExitStack() as stack:
        all_ways = ways(site, policy, folder, stack)
        for number in jobs:
            times: dict[str, list[float]] = {name: [] for name in all_ways}
            for at in range(rounds):
                for name in list(all_ways)[:: 1 if at % 2 else -1]:
                    times[name].append(seconds(all_ways[name], files, number, folder))
            for name, spent in times.items():
                ratios = [a / b for a, b in zip(spent, times["canned"], strict=True)]
                rows.append(
                    {
                        "site": site,
                        "jobs": number,
                        "runner": name,
                        "seconds": round(statistics.median(spent), 3),
                        "over_canned": round(statistics.median(ratios), 3),
                    }
                )
    return rows


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--files", type=int, default=12)
    options.add_argument("--largest", action="store_true", help="instead of a sample")
    options.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4, 8])
    options.add_argument("--site", choices=ASKED, nargs="+", default=list(ASKED))
    arguments = options.parse_args()
    files = sample(arguments.files, largest=arguments.largest)
    found = []
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place, prefix="mlbridge-bench-") as folder:
        for site in arguments.site:
            found += measured(site, files, arguments.jobs, arguments.rounds, Path(folder))
    report(
        "llvm-advice",
        found,
        "The questions of LLVM's own advisors",
        "Seconds to compile all files, beside LLVM's interactive channel whose answers are in a"
        " file, so that LLVM computes the features and nobody decides (the floor).",
        found,
    )
    slow = [
        row
        for row in found
        if row["runner"] in ("native", "aot") and row["jobs"] == 1 and row["over_canned"] > LIMIT
    ]
    for row in slow:
        print(
            f"{row['site']}: {row['runner']} takes {row['over_canned']} x the floor, over {LIMIT}"
        )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
