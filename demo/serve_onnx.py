# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Serve an ONNX model to compilers: the same file that they could open in process.

    python3 demo/serve_onnx.py models/phase-ordering-size/policy.onnx unix:/tmp/policy.sock

Prints its address when compilers can connect, then serves until Ctrl-C. Needs mlbridge, NumPy and
ONNX Runtime's Python package; PyTorch is not involved.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# Asked before it starts, ONNX Runtime doesn't report home.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

import mlbridge

# ONNX Runtime's names of the element types that NumPy names otherwise.
_DTYPES = {"float": "float32", "double": "float64"}


def signature_of(session: Any) -> mlbridge.Signature:
    """The network's own inputs and outputs; a named dimension may change from call to call."""

    def specs(nodes: list[Any]) -> list[mlbridge.TensorSpec]:
        found: list[mlbridge.TensorSpec] = []
        for node in nodes:
            kind = node.type.removeprefix("tensor(").removesuffix(")")
            shape = [length if isinstance(length, int) else -1 for length in node.shape]
            found.append(mlbridge.TensorSpec(node.name, _DTYPES.get(kind, kind), shape))
        return found

    return mlbridge.Signature(specs(session.get_inputs()), specs(session.get_outputs()))


def open_session(path: str) -> Any:
    """A session with the options that mlbridge's onnx engine uses in process.

    Other options choose other kernels, whose last bits differ, and so would decisions.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def policy_of(session: Any) -> Callable[[Mapping[str, Any], mlbridge.Context], Mapping[str, Any]]:
    """The network as a policy: observation in, all outputs by name out."""
    inputs = [node.name for node in session.get_inputs()]
    outputs = [node.name for node in session.get_outputs()]

    def policy(
        observation: Mapping[str, Any], context: mlbridge.Context
    ) -> Mapping[str, np.ndarray[Any, Any]]:
        feed = {name: observation[name] for name in inputs}
        return dict(zip(outputs, session.run(outputs, feed), strict=True))

    return policy


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="serve_onnx.py", description=about)
    parser.add_argument("model", help="an .onnx file")
    parser.add_argument("uri", help="where to listen: unix:PATH, pipe:BASE or pipe:DIR/")
    options = parser.parse_args(arguments)
    try:
        session = open_session(options.model)
        statistics = mlbridge.serve(
            policy_of(session),
            options.uri,
            signature_of(session),
            session.get_modelmeta().custom_metadata_map,
            ready=lambda server: print(server.address, flush=True),
        )
    except (mlbridge.Error, OSError) as error:
        print(f"serve_onnx: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # ONNX Runtime's own exceptions share no base class
        print(f"serve_onnx: {options.model}: {error}", file=sys.stderr)
        return 1
    counts = {
        name: getattr(statistics, name)
        for name in ("connections", "requests", "replies", "errors", "refused")
    }
    print(json.dumps(counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
