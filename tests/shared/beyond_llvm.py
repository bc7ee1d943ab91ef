# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One network behind every runner, for compilers that are not LLVM's, and what they decided."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from building import ROOT, run
from onnx import TensorProto, helper, numpy_helper
from reports import add_row

import mlbridge

#: In which ONNX Runtime is found.
ENVIRONMENT = {"MLBRIDGE_ONNXRUNTIME": str(Path(onnxruntime.__file__).parent / "capi")} | dict(
    os.environ
)
REPORT = ROOT / "build" / "test" / "beyond-llvm.json"
TRANSPORTS = {
    "unix": "unix:{}/s",
    "shm": "shm:{}/s",
    "pipe": "pipe:{}/p/",
    "grpc": "grpc:localhost:0",
}
RUNNERS = ["native", "onnx", "aot", *TRANSPORTS]
#: The signature of choose_tiles.c.
TILES = mlbridge.Signature(
    [mlbridge.TensorSpec("loops", "float32", [8, 9])], [mlbridge.TensorSpec("sizes", "int64", [8])]
)


@contextlib.contextmanager
def asked(runner: str, network: Path, folder: Path) -> Iterator[str]:
    """The URI by which this runner is asked the ONNX file; `folder` is for what that needs."""
    if runner in ("native", "onnx"):
        yield f"{runner}:{network}"
    elif runner == "aot":
        shared = folder / f"{network.stem}.so"
        run(sys.executable, "-m", "mlbridge", "aot", network, "--shared", "-o", shared)
        yield f"aot:{shared}"
    else:
        (folder / "p").mkdir(exist_ok=True)
        at = TRANSPORTS[runner].format(folder)
        command = [sys.executable, "-m", "mlbridge", "serve", str(network), "--at", at]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                ready, _, uri = server.stdout.readline().strip().partition(" ")
                assert ready == "ready", command
                yield uri
            finally:
                server.terminate()
                server.communicate(timeout=60)


def record(site: str, runner: str, programs: int, decisions: int, identical: bool) -> None:
    """A row of build/test/beyond-llvm.json, instead of an earlier one of this site and runner."""
    row = {
        "site": site,
        "runner": runner,
        "programs": programs,
        "decisions": decisions,
        "identical": identical,
    }
    add_row(REPORT, row, "site", "runner")


def tiles_network(path: Path, seed: int = 0, rows: int = 8) -> Path:
    """For choose_tiles.c: sizes from 1 to 65 by a random sum of the columns."""
    weights = np.random.default_rng(seed).integers(1, 9, (9, 1)).astype(np.float32)
    tensor, node = helper.make_tensor_value_info, helper.make_node
    constants = {
        "weights": weights,
        "flat": np.array([-1]),
        "one": np.float32(1),
        "period": np.float32(65),
    }
    graph = helper.make_graph(
        [
            node("MatMul", ["loops", "weights"], ["sum"]),
            node("Reshape", ["sum", "flat"], ["row"]),
            node("Mod", ["row", "period"], ["rest"], fmod=1),
            node("Add", ["rest", "one"], ["size"]),
            node("Cast", ["size"], ["sizes"], to=TensorProto.INT64),
        ],
        "tiles",
        [tensor("loops", TensorProto.FLOAT, [rows, 9])],
        [tensor("sizes", TensorProto.INT64, [rows])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path
