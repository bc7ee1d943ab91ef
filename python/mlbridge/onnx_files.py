# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies from ONNX files, which Python's ONNX Runtime evaluates."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._core import (
    Signature,
    TensorSpec,
    _empty_input,
    _guard_failure,
    _onnx_facts,
    _plain_message,
    _shape_probe,
    _shape_probe_name,
)
from .errors import InvalidModel, NotFound, PolicyFailed, Unsupported
from .loaded_model import LoadedModel, existing_file, network

# ONNX Runtime's names of the element types that NumPy names otherwise.
_DTYPES: dict[str, Any] = {"float": "float32", "double": "float64", "string": str}
_ELEMENTS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {
    "float16",
    "float32",
    "float64",
    "bool",
}


# It turns Transpose before MatMul into FusedMatMul, which is wrong before a vector: onnx/model.cpp.
_WRONG_OPTIMIZER = "MatmulTransposeFusion"
_STATE_SHAPES = (
    "state it when you export the model, or add it with onnx.shape_inference.infer_shapes"
)


def load_onnx(path: str | os.PathLike[str]) -> LoadedModel:
    """An ONNX file, with the options that the onnx engine uses in process: the same answers.

    The file's inputs and outputs are the signature, its metadata properties the metadata. Outputs
    that are no tensors are left out. Batches need a dynamic first dimension in all of them; in a
    batch the last bits may differ.
    """
    path = existing_file(path, "an ONNX file")
    # ONNX Runtime doesn't report home if it is told so before it starts.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    facts = _onnx_facts(path)
    if facts["instead"]:
        raise InvalidModel(f"{path} is {facts['instead']}")
    try:
        import onnxruntime
    except ImportError as error:
        raise NotFound(f"{path}: needs ONNX Runtime: pip install onnxruntime ({error})") from None
    never_empty = facts["never_empty"]
    try:
        session = _onnx_session(path, facts["guarded"] or path, facts["prepack"])
    except Exception as error:  # ONNX Runtime's own exceptions share no base class
        text = str(error)
        if facts["guarded"] and _keeps_weights_elsewhere(text):
            # ONNX Runtime before 1.21 finds them only beside a path.
            session, never_empty = _onnx_session(path, path, facts["prepack"]), True
        else:
            text = _plain_message(text)
            if "IR version" in text or ("opset" in text and "under development" in text):
                text += (
                    f"; install a newer ONNX Runtime than {onnxruntime.__version__}, "
                    "or export the model with an older opset and ir_version"
                )
            raise InvalidModel(f"{path}: not an ONNX model: {text}") from None
    inputs, outputs = session.get_inputs(), session.get_outputs()
    for node in inputs:
        if node.name in facts["shapeless_inputs"]:
            raise Unsupported(f"{path}: input '{node.name}' has no shape; {_STATE_SHAPES}")
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    defaults = facts["defaults"] or ",".join(
        node.name for node in session.get_overridable_initializers()
    )
    if defaults:
        metadata["onnx.defaults"] = defaults
    outputs, left_out = _tensors(path, outputs)
    metadata.update(left_out)
    _check_ranks(path, facts, [node for node in outputs if not node.shape])
    names = [node.name for node in outputs]

    def evaluate(feed: Mapping[str, Any]) -> Mapping[str, Any]:
        given = {node.name: feed[node.name] for node in inputs}
        if never_empty:
            _refuse_empty(given)
        try:
            values = session.run(names, given)
        except Exception as error:
            if guarded := _guard_failure(str(error)):
                raise PolicyFailed(guarded) from None
            raise PolicyFailed(_plain_message(str(error))) from error
        return dict(zip(names, values, strict=True))

    return network(
        path,
        evaluate,
        Signature(_onnx_specs(path, inputs), _onnx_specs(path, outputs)),
        metadata,
        [{node.name: node.shape for node in nodes} for nodes in (inputs, outputs)],
        stateless=True,
    )


def _onnx_session(path: str, model: str | bytes, prepack: bool, optimize: bool = True) -> Any:
    """A session on a file, or on bytes in its place."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "0" if prepack else "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.log_severity_level = 4  # errors are raised, not printed
    if isinstance(model, bytes):
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(Path(path).parent)
        )
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=[_WRONG_OPTIMIZER]
    )


def _keeps_weights_elsewhere(failure: str) -> bool:
    return "external" in failure.lower()


def _tensors(path: str, outputs: Sequence[Any]) -> tuple[list[Any], dict[str, str]]:
    """The outputs that a signature may have, and metadata with the reasons why others may not."""
    kept, left_out = [], {}
    for node in outputs:
        try:
            _onnx_specs(path, [node])
            kept.append(node)
        except Unsupported as error:
            left_out["onnx.left_out." + node.name] = str(error).removeprefix(f"{path}: ")
    if not kept and left_out:
        raise Unsupported(f"{path}: {next(iter(left_out.values()))}")
    return kept, left_out


def _check_ranks(path: str, facts: Mapping[str, Any], scalars: Sequence[Any]) -> None:
    """ONNX Runtime gives outputs of unknown rank as scalars."""
    doubtful = [node.name for node in scalars if node.name in facts["shapeless_outputs"]]
    if not doubtful:
        return
    shapes: dict[str, Any] = {}
    try:
        probed = Path(path).read_bytes() + _shape_probe(doubtful)
        session = _onnx_session(path, probed, facts["prepack"], optimize=False)
        shapes = {node.name: node.shape for node in session.get_outputs()}
    except Exception:  # nothing is known of them then
        pass
    for name in doubtful:
        if shapes.get(_shape_probe_name(name)) != [0]:
            raise Unsupported(f"{path}: output '{name}' has no shape; {_STATE_SHAPES}")


def _refuse_empty(feed: Mapping[str, Any]) -> None:
    for name, value in feed.items():
        if np.size(value) == 0:
            raise PolicyFailed(_empty_input(name))


def _onnx_specs(path: str, nodes: Sequence[Any]) -> list[TensorSpec]:
    specs: list[TensorSpec] = []
    for node in nodes:
        match = re.fullmatch(r"tensor\((\w+)\)", node.type)
        dtype: Any = match and (_DTYPES.get(match[1]) or match[1])
        if node.type.startswith("seq(map("):
            raise Unsupported(
                f"{path}: output '{node.name}' is a sequence of maps; export the classifier with "
                "zipmap=False"
            )
        if dtype is not str and dtype not in _ELEMENTS:
            raise Unsupported(f"{path}: '{node.name}' is a {node.type}, which is not supported")
        shape = [length if isinstance(length, int) else -1 for length in node.shape]
        specs.append(TensorSpec(node.name, dtype, shape))
    return specs
