# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A network of the benchmark as TensorFlow compiles it, linked into the asking program.

tensorflow_networks.py states it in TensorFlow, with the weights of the ONNX file; answers are held
to those of ONNX Runtime by the client, as all engines' are. What TensorFlow has compiled is kept in
its folder (MLBRIDGE_TENSORFLOW_FOLDER, else build/tensorflow) as long as nothing of it changes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "cmake/tensorflow_aot.py"
EXPORT = HERE / "tensorflow_networks.py"
FOLDER = Path(os.environ.get("MLBRIDGE_TENSORFLOW_FOLDER") or ROOT / "build/tensorflow").absolute()


class LeftOutError(Exception):
    """Why there is no such program."""


@dataclass(frozen=True)
class Compiled:
    """What a program is linked with to have the network as tfaot:NAME."""

    name: str
    objects: tuple[Path, ...]


def run(*command: str | Path, env: Mapping[str, str] = os.environ) -> str:
    """What a program prints. Errors: LeftOutError."""
    env = {**env, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        list(map(str, command)), env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise LeftOutError(f"{Path(command[0]).name}: {lines[-1]}")
    return done.stdout


def cpu() -> str:
    """What this machine's processor is to LLVM, coarsely."""
    flags = Path("/proc/cpuinfo").read_text()
    for flag, name in (("avx512vl", "skylake-avx512"), ("avx2", "haswell")):
        if flag in flags:
            return name
    return "x86-64" if platform.machine() == "x86_64" else "generic"


def key(model: Path) -> str:
    """Changes with all that the result depends on."""
    headers = sorted((ROOT / "include/mlbridge").glob("*.h"))
    parts = [path.read_bytes() for path in (model, EXPORT, TOOL, *headers)]
    parts += [cpu().encode(), run("g++", "--version").encode()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def compiled(model: Path, say: Callable[[str], None]) -> Compiled:
    """Compiles the network, or finds it compiled. Errors: LeftOutError."""
    name = "Network_" + model.stem.replace("-", "_")
    out = FOLDER / "bench" / f"{model.stem}-{key(model)[:16]}"
    engine, library, done = out / "engine.o", out / f"lib{name}_tfaot.a", out / "done"
    if not done.exists():
        say(f"{model.stem}: TensorFlow compiles it, once")
        start = time.monotonic()
        python = run(sys.executable, TOOL, "--set-up", FOLDER).strip()
        out.mkdir(parents=True, exist_ok=True)
        graph = onnx.load(model).graph
        weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
        np.savez(out / "weights.npz", allow_pickle=False, **weights)
        inputs = ",".join(value.name for value in graph.input)
        run(python, EXPORT, model.stem, out / "weights.npz", out / "saved", inputs)
        run(
            *(sys.executable, TOOL, "--saved-model", out / "saved", "--signature", "y"),
            *("--name", name, "--cpu", cpu(), "--triple", f"{platform.machine()}-pc-linux"),
            *("--folder", FOLDER, "--out", out, "--cxx", "g++", "--ar", "ar"),
        )
        run(
            *("g++", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-c"),
            *(f"-I{ROOT / 'include'}", "-isystem", FOLDER / "include"),
            *("-isystem", out / "include", out / f"{name}_engine.cpp", "-o", engine),
        )
        done.touch()
        say(f"{model.stem}: TensorFlow took {time.monotonic() - start:.0f} s")
    return Compiled(name, (engine, library))


def linked_client(build: Path, folder: Path, network: Compiled) -> tuple[str, Path]:
    """The URI, and the program that has the network. Errors: LeftOutError."""
    client, program = folder / "client.o", folder / network.name
    if not client.exists():
        include = f"-I{ROOT / 'include'}"
        run("g++", "-std=c++17", "-O2", include, "-c", HERE / "client.cpp", "-o", client)
    library = build / "src/libmlbridge.a"
    run("g++", client, *network.objects, library, "-ldl", "-pthread", "-o", program)
    return f"tfaot:{network.name}", program
