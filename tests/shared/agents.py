# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents with a network each, asked in every way."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compiler import serving

import mlbridge

#: Where a server listens, in a folder.
SERVERS = {"unix": "unix:{}/s", "pipe": "pipe:{}/p/", "shm": "shm:{}/m", "grpc": "grpc:localhost:0"}
RUNNERS = ("native", "onnx", "aot", *SERVERS)


@contextlib.contextmanager
def answering(runner: str, networks: Path, folder: Path) -> Iterator[str]:
    """The URI of the agents that are in that folder, AGENT.onnx, while this lasts. Ahead of time
    are those whose inputs have fixed shapes; the others are native."""
    if runner in ("native", "onnx"):
        yield f"{runner}:{networks}/{{agent}}.onnx"
        return
    names = [path.stem for path in networks.glob("*.onnx")]
    agents = {name: mlbridge.open(f"native:{networks}/{name}.onnx") for name in names}
    inputs = {
        name: [spec.name for spec in agent.signature.inputs] for name, agent in agents.items()
    }
    if runner == "aot":
        compiled = [
            name
            for name, agent in agents.items()
            if all(min(spec.shape, default=1) > 0 for spec in agent.signature.inputs)
        ]
        for name in compiled:
            command = [sys.executable, "-m", "mlbridge", "aot", str(networks / f"{name}.onnx")]
            subprocess.run([*command, "-o", str(folder / f"{name}.so")], check=True, timeout=300)
        yield "; ".join(
            [f"{name}=aot:{folder}/{name}.so" for name in compiled]
            + [f"*=native:{networks}/{{agent}}.onnx"]
        )
        return

    def policy(observation: Any, context: mlbridge.CallContext) -> Any:
        asked = {name: observation[name] for name in inputs[context.agent]}
        return agents[context.agent].evaluate_scalar(**asked)

    with serving(policy, folder, place=SERVERS[runner]) as uri:
        yield uri
