# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the processes of a round trip run, what they ask, and how they are timed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from policy import SIZES, SMALL, weights

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import Asker, server

# How long two processes are warmed up, until the kernel has placed them.
PLACING_SECONDS = 0.3


def onnxruntime_library() -> Path:
    """ONNX Runtime, as its Python package has it."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    [library] = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    return library


def free_place() -> str:
    """An address that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"127.0.0.1:{probe.getsockname()[1]}"


def onnx_models(folder: Path) -> tuple[list[Path], Path]:
    """The networks of the sweep, one a size, and the small one."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def save(name: str, nodes: list[Any], size: int, out: Any, constants: list[Any]) -> Path:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, size])
        graph = helper.make_graph(nodes, name, [x], [out], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        return path

    layer = weights()
    scalar = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])
    sweep = [
        save(
            f"sweep-{size}",
            [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)],
            size,
            scalar,
            [numpy_helper.from_array(layer[:size].reshape(1, -1), "w")],
        )
        for size in SIZES
    ]
    index = helper.make_tensor_value_info("y", TensorProto.INT64, [1])
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=0)
    return sweep, save("small", [node], SMALL, index, [])


class Setting:
    """Where things are, and how processes are placed."""

    def __init__(self, build: Path, *, pinned: bool) -> None:
        """`pinned`: everything on one core."""
        self.programs = build / "bench"
        self.pinned = pinned
        self.cores = os.sched_getaffinity(0)
        self.env = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join([str(build / "bench"), os.environ.get("PYTHONPATH", "")]),
            MLBRIDGE_COMPONENT_PATH=str(build / "lib/mlbridge"),
            MLBRIDGE_ONNXRUNTIME=str(onnxruntime_library()),
            OMP_NUM_THREADS="1",
            OPENBLAS_NUM_THREADS="1",
        )

    def asker(self, stack: ExitStack, program: str, *arguments: str | Path) -> Asker:
        """Start a client."""
        return Asker(stack, [self.programs / program, *arguments], self.env, max(self.cores))

    def server(self, stack: ExitStack, script: Path, *arguments: str | Path, waits: bool) -> int:
        """Start a server, on the client's core if pinned, otherwise on another; its process id."""
        core = max(self.cores) if self.pinned else min(self.cores)
        pin = f"import os,sys,runpy;os.sched_setaffinity(0,{{{core}}});"
        pin += "sys.argv=sys.argv[1:];sys.path.insert(0,os.path.dirname(sys.argv[0]));"
        command = ["-c", pin + "runpy.run_path(sys.argv[0],run_name='__main__')"]
        return stack.enter_context(server([*command, script, *arguments], self.env, waits=waits))

    def release(self, *processes: int) -> None:
        """Let them run where they like, unless pinned.

        The core that a process starts on is luck, and it often stays there. So both pairs start on
        two cores.
        """
        if self.pinned:
            return
        for process in processes:
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), self.cores)


Times = list[list[float]]


def measure(askers: Sequence[Asker], passes: int, rounds: int, warm_up_seconds: float = 0) -> Times:
    """Nanoseconds of a pass of each, ours and the floors, in so many rounds after a warm-up."""
    for asker in askers:
        spent = asker.nanoseconds(passes)
        while spent < warm_up_seconds * 1e9:
            spent += asker.nanoseconds(passes)
    times: Times = [[] for _ in askers]
    for number in range(rounds):
        places = range(len(askers))
        for which in places if number % 2 else reversed(places):
            times[which].append(askers[which].nanoseconds(passes) / passes)
    return times
