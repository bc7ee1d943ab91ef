# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A network of the benchmark as TensorFlow compiles it, linked into the asking program.

Fully connected ones only: their layers are written in TensorFlow again, with the same weights.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOL = ROOT / "cmake/tensorflow_aot.py"
FOLDER = ROOT / "build/tensorflow"

# Run by the Python that has TensorFlow: weights.npz to a SavedModel.
EXPORT = """
import sys
import numpy as np
import tensorflow as tf
layers = np.load(sys.argv[1])
count = len(layers.files) // 2
class Network(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([1, layers["w0"].shape[0]], tf.float32, name="x")])
    def y(self, x):
        for i in range(count):
            x = tf.matmul(x, tf.constant(layers[f"w{i}"])) + tf.constant(layers[f"b{i}"])
            x = tf.nn.relu(x) if i < count - 1 else x
        return {"y": x}
network = Network()
tf.saved_model.save(network, sys.argv[2], signatures={"y": network.y})
"""


class LeftOutError(Exception):
    """Why there is no such program."""


def run(*command: str | Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise LeftOutError(f"{Path(command[0]).name}: {lines[-1]}")
    return done.stdout


def layers(model: Path) -> dict[str, Any]:
    """Weights and biases; LeftOutError if there is anything but Gemm, and Relu between them."""
    graph = onnx.load(model).graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    kinds = [node.op_type for node in graph.node]
    dense = [node for node in graph.node if node.op_type == "Gemm"]
    if kinds != ["Gemm", "Relu"] * (len(dense) - 1) + ["Gemm", "Identity"]:
        raise LeftOutError("not made of fully connected layers")
    found = {}
    for i, node in enumerate(dense):
        found[f"w{i}"] = np.ascontiguousarray(weights[node.input[1]].T)
        found[f"b{i}"] = weights[node.input[2]]
    return found


def cpu() -> str:
    """What this machine's processor is to LLVM, coarsely."""
    flags = Path("/proc/cpuinfo").read_text()
    for flag, name in (("avx512f", "skylake-avx512"), ("avx2", "haswell")):
        if flag in flags:
            return name
    return "x86-64" if platform.machine() == "x86_64" else "generic"


def linked_client(build: Path, folder: Path, model: Path) -> tuple[str, Path]:
    """The URI, and the program that has the network. Errors: LeftOutError."""
    weights = layers(model)
    python = run(sys.executable, TOOL, "--set-up", FOLDER).strip()
    name = "Network_" + model.stem.replace("-", "_")
    out = folder / name
    out.mkdir()
    np.savez(out / "weights.npz", **weights)
    run(python, "-c", EXPORT, out / "weights.npz", out / "saved")
    run(
        *(sys.executable, TOOL, "--saved-model", out / "saved", "--signature", "y"),
        *("--name", name, "--cpu", cpu(), "--triple", f"{platform.machine()}-pc-linux"),
        *("--folder", FOLDER, "--out", out, "--cxx", "g++", "--ar", "ar"),
    )
    program = out / "client"
    run(
        *("g++", "-std=c++17", "-O2", f"-I{ROOT / 'include'}", "-isystem", FOLDER / "include"),
        *("-isystem", out / "include", HERE / "client.cpp", out / f"{name}_engine.cpp"),
        *(out / f"lib{name}_tfaot.a", build / "src/libmlbridge.a", "-ldl", "-pthread"),
        *("-o", program),
    )
    return f"tfaot:{name}", program
