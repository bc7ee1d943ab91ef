# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies from files of PyTorch, and its modules as policies."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._core import Signature, TensorSpec
from .errors import InvalidArgument, InvalidModel, NotFound, Unsupported
from .loaded_model import Dims, Evaluate, LoadedModel, existing_file, network
from .reading import shortly


def is_torch_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def load_torch(path: str | os.PathLike[str], signature: Signature | None = None) -> LoadedModel:
    """A TorchScript file, or a program that torch.export.save wrote.

    TorchScript needs a signature; an exported program has its own, unless `signature` is given.
    """
    path = existing_file(path, "a TorchScript or torch.export file")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except Exception as error:  # zipfile raises anything for a damaged archive
        why = shortly(error)
        raise InvalidModel(f"{path}: neither TorchScript nor torch.export: {why}") from None
    exported = any(
        member.endswith(("archive_format", "serialized_exported_program.json"))
        for member in members
    )
    if not exported and not any("/code/" in member for member in members):
        raise InvalidModel(
            f"{path}: neither TorchScript nor torch.export; for pickled weights name a function "
            "that makes the module: FILE.py:FUNCTION"
        )
    try:
        import torch
    except ImportError as error:
        raise NotFound(f"{path}: needs PyTorch: pip install torch ({error})") from None
    try:
        if not exported:
            script: Any = torch.jit
            module = script.load(path, map_location="cpu").eval()
        else:
            program = torch.export.load(path)
            module = program.module()
    except Exception as error:
        raise InvalidModel(f"{path}: {' '.join(str(error).split())}") from None
    if signature is not None:
        return network(path, torch_evaluate(path, module, signature), signature, {})
    if not exported:
        raise InvalidArgument(f"{path} is TorchScript, which has no signature: pass one")
    return _program_model(path, program, module)


def _program_model(path: str, program: Any, module: Any) -> LoadedModel:
    nodes = {node.name: node for node in program.graph.nodes}
    dims: list[dict[str, Dims]] = []
    specs: list[list[TensorSpec]] = []
    inputs, outputs = program.graph_signature.user_inputs, program.graph_signature.user_outputs
    shown = ["output"] if len(outputs) == 1 else [f"output{k}" for k in range(len(outputs))]
    for names in (dict(zip(inputs, inputs, strict=True)), dict(zip(shown, outputs, strict=True))):
        dims.append({})
        specs.append([])
        for show, name in names.items():
            value: Any = nodes[name].meta["val"] if name in nodes else None
            if not hasattr(value, "dtype"):
                raise Unsupported(f"{path}: '{name}' is not a tensor; pass a signature")
            shape = [n if isinstance(n, int) else str(n) for n in value.shape]
            dtype = str(value.dtype).removeprefix("torch.")
            dims[-1][show] = shape
            specs[-1].append(
                TensorSpec(show, dtype, [n if isinstance(n, int) else -1 for n in shape])
            )
    signature = Signature(*specs)
    return network(path, torch_evaluate(path, module, signature), signature, {}, dims)


def torch_evaluate(path: str, module: Any, signature: Signature) -> Evaluate:
    """Inputs in the order of the signature; with batches each has one dimension more, in front."""
    import torch

    texts = [spec.name for spec in (*signature.inputs, *signature.outputs) if spec.type == "string"]
    if texts:
        raise Unsupported(f"{path}: '{texts[0]}' is a string, which torch tensors cannot hold")
    inputs = [spec.name for spec in signature.inputs]
    outputs = [spec.name for spec in signature.outputs]

    def evaluate(feed: Mapping[str, Any]) -> Mapping[str, Any]:
        with torch.inference_mode():
            # Arrays of a server are read-only, which tensors cannot be.
            answer = module(*(torch.from_numpy(np.array(feed[name])) for name in inputs))
        if not isinstance(answer, Mapping):
            values = answer if isinstance(answer, (tuple, list)) else (answer,)
            if len(values) != len(outputs):
                raise ValueError(f"the module gave {len(values)} values for {len(outputs)} outputs")
            answer = dict(zip(outputs, values, strict=True))
        return {
            name: value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value
            for name, value in answer.items()
        }

    return evaluate
