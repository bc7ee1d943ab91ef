# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Evaluations in process, each engine beside two floors; writes build/bench/in-process.json.

    run.py [--rounds N] [--build FOLDER] [--model PART] [--engine NAME]...

The floors are a prebound session of ONNX Runtime's C API (the better of weights packed or not) and
the matrix products alone (the better of OpenBLAS and loops of our own). All are asked in turns, on
one core, each in three processes, and answers are checked before and after. The report has medians
of the processes' medians. Beside aot: is the same network's C function, called without the library.
Start-up is from opening to the first answer, in new processes. Resident memory is what these have
more than a process that asks a function of the program.
The report also says which of the project's limits hold.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from networks import NETWORKS, write
from sizes import NAME, Sizes, kilobytes
from tfaot import Compiled, LeftOutError, compiled, linked_client, run
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from shared import ROOT, Asker, over, parser, report  # noqa: E402

ENGINES = ("onnx", "native", "aot", "tfaot")
C_FUNCTION = "aot's C function"
ROUND_NS = 3e6  # a turn takes about that long
PROCESSES = 3  # of each program: where their memory lies changes times by a tenth
STARTS = 15
THREAD_MS = 150
THREAD_PAIRS = 5
THREADED = "300-256-128-15"


def passes_of_a_turn(asker: Asker) -> int:
    """So many that a turn takes about ROUND_NS."""
    passes = 1
    while (took := asker.nanoseconds(passes)) < ROUND_NS / 2:
        passes = max(2 * passes, int(passes * ROUND_NS / max(took, 1) / 4))
    return passes


@functools.cache
def say_left_out(engine: str, why: str) -> None:
    """Once, however many models it is true of."""
    tqdm.write(f"{engine} is left out: {why}")


@dataclass(frozen=True)
class Place:
    """Where programs and files are."""

    build: Path
    folder: Path
    env: dict[str, str]
    library: Path
    linked: dict[str, Path] = field(default_factory=dict)
    """Programs of the schemes whose models are linked in."""
    tensorflow: dict[str, Compiled] = field(default_factory=dict)

    def client(self, uri: str) -> Path:
        return self.linked.get(uri.split(":")[0], self.build / "bench/in-process-client")

    def uri(self, engine: str, model: Path) -> str | None:
        """The URI of a model for an engine; None if there is none, or not for this model."""
        try:
            if engine == "tfaot":
                network = self.tensorflow[model.stem] = compiled(model, tqdm.write)
                uri, self.linked["tfaot"] = linked_client(self.build, self.folder, network)
                return uri
            uri = f"{engine}:{self.shared(model) if engine == 'aot' else model}"
            self.run("start", uri)
        except LeftOutError as error:
            say_left_out(engine, str(error).replace(model.stem, "MODEL"))
            return None
        return uri

    def objects(self, engine: str, model: Path) -> tuple[Path, ...]:
        """What a plugin links in to have the network, besides the library."""
        if engine == "tfaot":
            return self.tensorflow[model.stem].objects
        return (model.with_suffix(".o"),) if engine == "aot" else ()

    def compile(self, model: Path, *options: str | Path) -> None:
        """Ahead of time. Errors: LeftOutError."""
        run(sys.executable, "-m", "mlbridge", "aot", model, *options, env=self.env)

    def shared(self, model: Path) -> Path:
        """Compiled to a shared object, unless it is there. Errors: LeftOutError."""
        out = model.with_suffix(".so")
        if not out.exists():
            self.compile(model, "--shared", "-o", out)
        return out

    def c_function(self, model: Path) -> Path:
        """A program with the compiled network in it, which calls its C function."""
        folder = self.folder / f"{model.stem}-c"
        folder.mkdir()
        network, program = folder / "network.o", folder / "compiled-function"
        self.compile(model, "-o", network, "--header", folder / "network.h", "--name", "network")
        flags = ["-O2", "-std=c++17", f"-I{folder}", f"-I{ROOT / 'include'}"]
        run("g++", *flags, HERE / "compiled_function.cpp", network, "-o", program)
        return program

    def run(self, mode: str, uri: str, *arguments: str | Path) -> str:
        """What the model's client prints. Errors: LeftOutError."""
        return run(self.client(uri), *mode.split(), uri, *arguments, env=self.env)


def speeds(
    place: Place,
    name: str,
    model: Path,
    examples: Path,
    uris: dict[str, str],
    rounds: int,
    bar: Any,
) -> dict[str, float]:
    """Microseconds of an evaluation: of engines, and of both floors."""
    core = max(os.sched_getaffinity(0))
    floor_onnx = place.build / "bench/floor-onnx"
    floor_kernels = place.build / "bench/in-process-floor-kernels"
    commands: dict[str, list[str | Path]] = {
        engine: [place.client(uri), "ask", uri, examples] for engine, uri in uris.items()
    }
    if "aot" in uris:
        commands[C_FUNCTION] = [place.c_function(model), examples]
    if floor_onnx.exists():
        for kind in ("packed", "plain"):
            commands[f"ort {kind}"] = [floor_onnx, place.library, kind, model, examples]
    if floor_kernels.exists():
        for kind in ("blas", "loops"):
            commands[f"kernel {kind}"] = [floor_kernels, kind, name]
    times: dict[str, list[list[float]]] = {which: [] for which in commands}
    with ExitStack() as stack:
        askers = []
        for _ in range(PROCESSES):
            for which, command in commands.items():
                times[which].append([])
                asker = Asker(stack, command, place.env, core)
                askers.append((asker, passes_of_a_turn(asker), times[which][-1]))
        for number in range(rounds):
            for asker, passes, into in askers if number % 2 else reversed(askers):
                into.append(asker.nanoseconds(passes) / passes)
            bar.update()
    found = {
        which: round(statistics.median(map(statistics.median, processes)) / 1e3, 4)
        for which, processes in times.items()
    }
    for floor in ("ort", "kernel"):
        kinds = [value for which, value in found.items() if which.startswith(f"{floor} ")]
        if kinds:
            found[floor] = min(kinds)
    return found


def starts(place: Place, uris: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Milliseconds to the first answer, and the megabytes that the process has more than one that
    asks a function."""
    without = "without"
    found: dict[str, list[tuple[float, float]]] = {engine: [] for engine in (*uris, without)}
    for _ in range(STARTS):
        for engine, uri in (*uris.items(), (without, "function:none")):
            took, resident = map(float, place.run("start", uri).split())
            found[engine].append((took, resident / 1024))
    times = {engine: statistics.median(t for t, _ in all_) for engine, all_ in found.items()}
    sizes = {engine: statistics.median(m for _, m in all_) for engine, all_ in found.items()}
    return {engine: (times[engine], sizes[engine] - sizes[without]) for engine in uris}


def two_threads(place: Place, uri: str, examples: Path) -> float:
    """Evaluations of two threads with one Model over those with a Model each; best of some."""
    best = {"one": 0.0, "two": 0.0}
    for _ in range(THREAD_PAIRS):
        for which in best:
            found = place.run(f"threads {which}", uri, examples, str(THREAD_MS))
            best[which] = max(best[which], float(found))
    return best["one"] / best["two"]


def measure(
    place: Place, options: argparse.Namespace
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    rows: list[dict[str, Any]] = []
    threads: dict[str, float] = {}
    sizes = Sizes(place.build, place.folder)
    names = [name for name in NETWORKS if options.model in name]
    written = {name: write(name, place.folder) for name in names}
    if "aot" in (options.engine or ENGINES):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for model, *_ in written.values():
                pool.submit(place.shared, model)
                pool.submit(place.compile, model, "-o", model.with_suffix(".o"), "--name", NAME)
    with tqdm(total=len(names) * options.rounds, desc="in process", unit="round") as bar:
        for name in names:
            bar.set_postfix_str(name)
            model, examples, weights = written[name]
            uris = {engine: place.uri(engine, model) for engine in options.engine or ENGINES}
            there = {engine: uri for engine, uri in uris.items() if uri}
            found = speeds(place, name, model, examples, there, options.rounds, bar)
            started = starts(place, there)
            for engine, uri in there.items():
                rows.append(
                    {
                        "model": name,
                        "engine": engine,
                        "us": found[engine],
                        "floor_ort_us": found.get("ort"),
                        "floor_kernel_us": found.get("kernel"),
                        "startup_ms": round(started[engine][0], 4),
                        "rss_mb": round(started[engine][1], 3),
                        "binary_kb": round(sizes.of(engine, *place.objects(engine, model)), 1),
                        "weights_mb": round(weights / 2**20, 3),
                    }
                )
                if engine == "aot":
                    rows[-1]["c_function_us"] = found[C_FUNCTION]
                if name == THREADED:
                    threads[engine] = round(two_threads(place, uri, examples), 3)
    return rows, threads


def limits(rows: list[dict[str, Any]], threads: dict[str, float]) -> list[dict[str, Any]]:
    """What the project promises, what was measured, and whether that holds."""
    by = {(row["model"], row["engine"]): row for row in rows}
    models = list(dict.fromkeys(row["model"] for row in rows))
    found: list[dict[str, Any]] = []

    def limit(what: str, value: float | None, most: float, *, least: bool = False) -> None:
        if value is not None:
            holds = value >= most if least else value <= most
            found.append({"what": what, "value": round(value, 3), "limit": most, "holds": holds})

    def ratio(model: str, engine: str, other: str) -> float | None:
        row = by.get((model, engine), {})
        against = row.get(other) or by.get((model, other), {}).get("us")
        return row["us"] / against if row and against else None

    for model in models:
        limit(f"{model}: onnx over a prebound session", ratio(model, "onnx", "floor_ort_us"), 1.1)
        over = ratio(model, "native", "floor_ort_us")
        limit(f"{model}: native over a prebound session", over, 1.1)
        limit(f"{model}: aot over native", ratio(model, "aot", "native"), 1.1)
        ours = [r for r in (ratio(model, e, "tfaot") for e in ("native", "aot")) if r]
        limit(f"{model}: the better of ours over tfaot", min(ours, default=None), 1.1)
    for model in ("50000-1", "300-256-128-15"):
        limit(f"{model}: native over the kernels", ratio(model, "native", "floor_kernel_us"), 1.5)
    limit("16-8-2: native, µs", by.get(("16-8-2", "native"), {}).get("us"), 0.3)
    through_c = by.get(("16-8-2", "aot"), {}).get("c_function_us")
    limit("16-8-2: aot through its C function, µs", through_c, 0.1)
    all_ = [r for r in (ratio(m, "native", "floor_ort_us") for m in models) if r]
    if all_:
        mean = math.exp(statistics.fmean(map(math.log, all_)))
        limit("native over prebound sessions, geometric mean", mean, 1.0)
    start = by.get(("inliner", "native"))
    if start:
        limit("inliner: native's start-up, ms", start["startup_ms"], 1.0)
        beyond = start["rss_mb"] - start["weights_mb"]
        limit("inliner: native's memory beyond weights, MB", beyond, 1.0)
        limit("native: KB added to a plugin", start["binary_kb"], 400)
    limit("native: two threads, one Model over two", threads.get("native"), 0.9, least=True)
    return found


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For people, with ratios."""
    lines = []
    for row in rows:
        session, kernels = row["floor_ort_us"], row["floor_kernel_us"]
        line = {"model": row["model"], "engine": row["engine"], "µs": row["us"]}
        line |= {"session µs": session, "over session": over(row["us"], session)}
        line |= {"kernels µs": kernels, "over kernels": over(row["us"], kernels)}
        line |= {"start ms": row["startup_ms"], "MB": row["rss_mb"], "KB": row["binary_kb"]}
        lines.append(line)
        if "c_function_us" in row:
            alone = {"model": row["model"], "engine": "aot, its C function"}
            lines.append(alone | {"µs": row["c_function_us"]})
    return lines


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--model", default="", help="models with this in their name")
    arguments.add_argument("--engine", action="append", choices=ENGINES)
    options = arguments.parse_args()
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    [library] = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    env = dict(
        os.environ,
        MLBRIDGE_COMPONENT_PATH=str(options.build / "lib/mlbridge"),
        MLBRIDGE_ONNXRUNTIME=str(library),
        OPENBLAS_NUM_THREADS="1",
    )
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder:
        place = Place(options.build, Path(folder), env, library)
        rows, threads = measure(place, options)
        runtime_kb = round(kilobytes(library, place.folder / "onnxruntime.so"), 1)
    stated = limits(rows, threads)
    broken = [row for row in stated if not row["holds"]]
    report(
        "in-process-partial" if options.model or options.engine else "in-process",
        {
            "evaluations": rows,
            "two_threads": threads,
            "onnxruntime_kb": runtime_kb,
            "limits": stated,
        },
        "Evaluations in process",
        "One thread, medians. *Session*: ONNX Runtime's C API alone, everything bound beforehand."
        " *Kernels*: the matrix products alone, by OpenBLAS or loops for this processor, whichever"
        " is faster. *Start*: from opening to the first answer in a fresh process, and the memory"
        " that this added, weights included. *KB*: what engine and network add to a stripped"
        " plugin, including the weights if they are part of it. For onnx it is the component"
        f" without ONNX Runtime's library ({runtime_kb:.0f} KB).",
        shown(rows),
        f"{len(stated) - len(broken)} of the {len(stated)} limits that the project states for these"
        " figures hold.",
        broken,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
