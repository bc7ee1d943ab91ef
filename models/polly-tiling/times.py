# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times of kernels with several tile sizes: each compiled once for each way by the plugin itself,
which asks a server here; those of which the code is the same are timed once.

What was made and measured lies in a folder for each kernel, and is not made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

import mlbridge
from mlbridge.outputs import write_whole

BENCH = Path(__file__).resolve().parents[2] / "experiments" / "polly"
LOOPS, COLUMNS = 8, 9
SIGNATURE = mlbridge.Signature(
    [mlbridge.TensorSpec("loops", "float32", [LOOPS, COLUMNS])],
    [mlbridge.TensorSpec("sizes", "int64", [LOOPS])],
)
#: Without Polly, and with its own sizes; no model is asked.
PLAIN, DEFAULT = "-O3", "-polly"
#: What the plugin is answered; the last of several sizes is also that of further loops.
OFF = "1"
VECTORS = (
    OFF, "8", "16", "32", "64", "128", "4096", "8,64", "64,8", "32,256,32", "1,64,256", "4096,32",
)  # fmt: skip
#: Seconds of the processor; if Polly takes longer to compile a kernel, it is skipped.
LONGEST = 2
POLLY = ("-mllvm", "-polly")
USUAL = ("-O3",)


def sizes(vector: str) -> list[int]:
    given = [int(size) for size in vector.split(",")]
    return given + [given[-1]] * (LOOPS - len(given))


def asking(plugin: str | Path, model: str) -> list[str]:
    """Flags of a clang that fails unless it can ask."""
    words = [f"-fpass-plugin={plugin}", "-mllvm", f"-polly-tiling-model={model}"]
    words += ["-mllvm", "-polly-tiling-on-failure=fail"]
    return [*POLLY, *(part for word in words for part in ("-Xclang", word))]


class Server:
    """Answers the same to all, and notes what it was told."""

    def __init__(self, folder: str) -> None:
        self.answer = sizes(OFF)
        self.seen: list[list[list[float]]] = []
        self.uri = f"unix:{folder}/s"
        self.server = mlbridge.Server(self.uri, SIGNATURE)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(self.policy,))
        self.thread.start()

    def policy(self, observation: Any, _: mlbridge.CallContext) -> list[int]:
        self.seen.append(np.array(observation["loops"]).tolist())
        return self.answer

    def close(self) -> None:
        self.server.stop()
        self.thread.join()
        self.server.close()


@contextlib.contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="tiles-") as folder:
        made = Server(folder)
        try:
            yield made
        finally:
            made.close()


@dataclass(frozen=True)
class Kernel:
    """Its source, and the folder for what is made of it."""

    name: str
    source: str
    folder: Path

    @property
    def made(self) -> dict[str, Any]:
        """`rows` that the plugin has asked about, and the program of each of the `ways`."""
        made: dict[str, Any] = self._read("made.json", {"rows": None, "ways": {}})
        return made

    @property
    def times(self) -> dict[str, list[float]]:
        """Nanoseconds of each program in each round."""
        times: dict[str, list[float]] = self._read("times.json", {})
        return times

    def _read(self, name: str, otherwise: Any) -> Any:
        path = self.folder / name
        return json.loads(path.read_text()) if path.is_file() else otherwise

    def write(self, name: str, found: Any) -> None:
        write_whole(self.folder / name, json.dumps(found).encode())

    def spent(self, way: str) -> np.ndarray[Any, Any]:
        """Nanoseconds of the program of a way in each round."""
        return np.array(self.times[self.made["ways"][way]])

    def renew(self) -> None:
        """Drop what was made of another source."""
        kept = self.folder / "kernel.c"
        if kept.is_file() and kept.read_text() == self.source:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        kept.write_text(self.source)


def build(
    kernel: Kernel,
    ways: Mapping[str, Sequence[str]],
    flags: Sequence[str],
    asked: Server,
    main: Path,
) -> None:
    """Build the program of each way, named after its code. `ways` are flags; those with a "{uri}"
    are asked for the sizes that are their name."""
    kernel.renew()
    made = kernel.made
    if made.get("skipped"):
        return
    for way, more in ways.items():
        if way in made["ways"]:
            continue
        if any("{uri}" in flag for flag in more):
            asked.answer = sizes(way)
        asked.seen.clear()
        line = [flag.replace("{uri}", asked.uri) for flag in more]
        made_object = kernel.folder / "kernel.o"
        limit = ["prlimit", f"--cpu={LONGEST}"] if way == DEFAULT else []
        compiled = subprocess.run(
            [*limit, "clang-22", *flags, "-w", f"-I{BENCH}", *line, "-c", "kernel.c",
             "-o", made_object],
            cwd=kernel.folder, stderr=subprocess.DEVNULL if limit else None, check=False,
        )  # fmt: skip
        if compiled.returncode and limit:
            kernel.write("made.json", {"rows": None, "ways": {}, "skipped": True})
            return
        compiled.check_returncode()
        if asked.seen:
            made["rows"] = asked.seen[0]
        name = hashlib.sha256(made_object.read_bytes()).hexdigest()[:16]
        program = kernel.folder / name
        if not program.is_file():
            subprocess.run(["clang-22", made_object, main, "-o", program, "-lm"], check=True)
        made["ways"][way] = name
    kernel.write("made.json", made)


def build_all(
    kernels: Sequence[Kernel], ways: Mapping[str, Sequence[str]], flags: Sequence[str], jobs: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        main = Path(folder) / "main.o"
        subprocess.run(["clang-22", "-O2", "-c", BENCH / "main.c", "-o", main], check=True)
        left = iter(tqdm(kernels, desc="compiling"))
        lock = threading.Lock()

        def work(_: int) -> None:
            with server() as asked:
                while True:
                    with lock:
                        kernel = next(left, None)
                    if kernel is None:
                        return
                    build(kernel, ways, flags, asked, main)

        with ThreadPool(jobs) as pool:
            pool.map(work, range(jobs))


def measure(
    kernels: Mapping[Kernel, Sequence[str]], rounds: int, milliseconds: int, seconds: float
) -> bool:
    """Time each kernel in turn for as many rounds as it lacks, in which the programs of these ways
    take turns. False if the time was over before."""
    end = time.monotonic() + seconds
    for kernel, ways in tqdm(kernels.items(), desc="measuring"):
        programs = sorted({kernel.made["ways"][way] for way in ways})
        times = kernel.times
        while len(programs) > 1 and any(len(times.get(p, ())) < rounds for p in programs):
            if time.monotonic() > end:
                return False
            printed = {}
            for program in programs:
                done = subprocess.run(
                    [kernel.folder / program, str(milliseconds)],
                    capture_output=True, text=True, check=True, timeout=300,
                )  # fmt: skip
                printed[program], spent = done.stdout.split()
                times.setdefault(program, []).append(float(spent))
            if len(set(printed.values())) > 1:
                raise RuntimeError(f"{kernel.name}: the programs compute different results")
            kernel.write("times.json", times)
    return True


def usual_ways(plugin: str | Path) -> dict[str, list[str]]:
    asked = asking(plugin, "{uri}")
    return {PLAIN: [], DEFAULT: list(POLLY), **dict.fromkeys(VECTORS, asked)}
