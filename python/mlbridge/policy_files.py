# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies by the names that `mlbridge serve` takes: files, or functions of Python."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ._core import Signature, TensorSpec
from .errors import InvalidArgument, InvalidModel, Mismatch, NotFound
from .loaded_model import LoadedModel, network
from .onnx_files import load_onnx
from .reading import shortly
from .torch_files import is_torch_module, load_torch, torch_evaluate

_TORCH_FILES = (".pt", ".pt2", ".pth", ".ts")


def load(text: str, signature: Signature | None = None) -> LoadedModel:
    """The policy that `mlbridge serve` takes: FILE.onnx, FILE.pt, MODULE:NAME or FILE.py:NAME."""
    text = text.removeprefix("onnx:")
    place, colon, name = text.rpartition(":")
    if Path(text).suffix in _TORCH_FILES:
        return load_torch(text, signature)
    if colon and not Path(text).exists():
        return load_python(place, name, signature)
    if Path(text).suffix == ".py":
        raise InvalidArgument(f"{text}: expected the name of a function too: {text}:FUNCTION")
    model = load_onnx(text)
    if signature is not None and signature != model.signature:
        raise Mismatch(f"{text}: the model has {model.signature}, not {signature}")
    return model


def load_python(place: str, name: str, signature: Signature | None = None) -> LoadedModel:
    """The policy `name` of a module or a file.

    It is a policy, or makes one if it can be called without arguments: a policy, a torch.nn.Module,
    or one of them and its Signature. Compilers get its attributes `signature` and `metadata`, or
    else those of the module; with `stateless = True` it says that it keeps nothing between two
    questions. For batches it is called as a BatchPolicy.
    """
    text = f"{place}:{name}"
    module = _import(place)
    named: Any = module
    try:
        for part in name.split("."):
            named = getattr(named, part)
    except AttributeError:
        raise NotFound(f"{place} has no '{name}'") from None
    if not callable(named):
        raise InvalidArgument(f"{text} is a {type(named).__name__}; expected a function")
    policy = named
    if not is_torch_module(named) and _takes_nothing(named):
        policy = named()
        if isinstance(policy, tuple) and len(policy) == 2 and isinstance(policy[1], Signature):
            policy, signature = policy[0], signature or policy[1]
        if not callable(policy):
            raise InvalidArgument(f"{text}() gave a {type(policy).__name__}; expected a policy")
    holders = (policy, named, module)
    stated = next(
        (s for h in holders if isinstance(s := getattr(h, "signature", None), Signature)), None
    )
    metadata = next(
        (m for h in holders if isinstance(m := getattr(h, "metadata", None), Mapping)), {}
    )
    stateless = any(getattr(h, "stateless", False) is True for h in holders)
    signature = signature or stated
    if is_torch_module(policy):
        if signature is None:
            raise InvalidArgument(f"{text} is a torch module and needs a signature: pass one")
        policy.eval()
        evaluate = torch_evaluate(text, policy, signature)
        return network(text, evaluate, signature, metadata, stateless=stateless)
    return LoadedModel(text, policy, policy, signature, metadata, stateless=stateless)


def _import(place: str) -> ModuleType:
    if not place.endswith(".py"):
        if str(Path.cwd()) not in sys.path and "" not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not (place + ".").startswith(error.name + "."):
                raise  # it is there, and needs another
            raise NotFound(
                f"there is no Python module '{place}'; expected FILE.onnx, FILE.pt, "
                "MODULE:FUNCTION or FILE.py:FUNCTION"
            ) from None
    path = Path(place).resolve()
    if not path.is_file():
        raise NotFound(f"{place} is not there; expected a Python file")
    sys.path.insert(0, str(path.parent))  # as `python FILE` does
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidModel(
            f"{place}: {_where(path, error)}{type(error).__name__}: {shortly(error)}"
        ) from error
    return module


def _where(path: Path, error: BaseException) -> str:
    """The last line of a file that an exception has come through: "line 3: "."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"line {lines[-1]}: " if lines else ""


def _takes_nothing(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return not any(p.kind in variable or p.default is p.empty for p in parameters)


def parse_signature(text: str) -> Signature:
    """The signature that is printed as `text`: "(x: float32[?, 4]) -> (action: int64)"."""
    match = re.fullmatch(r"\s*\((.*)\)\s*->\s*\((.*)\)\s*", text, re.DOTALL)
    if match is None:
        raise InvalidArgument(
            f"'{text}' is not a signature such as '(x: float32[4]) -> (action: int64)'"
        )
    return Signature(_parse_specs(match[1]), _parse_specs(match[2]))


def _parse_specs(text: str) -> list[TensorSpec]:
    specs: list[TensorSpec] = []
    for part in re.split(r",(?![^\[]*\])", text) if text.strip() else []:
        match = re.fullmatch(r"\s*(.+?)\s*:\s*(\w+)\s*(?:\[([^\]]*)\])?\s*", part, re.DOTALL)
        if match is None:
            raise InvalidArgument(f"'{part.strip()}' is not a tensor such as 'x: float32[4]'")
        shape: list[int] = []
        maximum: list[int | None] = []
        for length in match[3].split(",") if match[3] and match[3].strip() else []:
            parts = re.fullmatch(r"\s*(?:(\d{1,18})|(?:\?|-1)(?:\s*<=\s*(\d{1,18}))?)\s*", length)
            if parts is None:
                raise InvalidArgument(f"'{part.strip()}': '{length.strip()}' is no length or '?'")
            shape.append(-1 if parts[1] is None else int(parts[1]))
            maximum.append(None if parts[2] is None else int(parts[2]))
        dtype: Any = str if match[2] == "string" else match[2]
        try:
            bounds = maximum if any(m is not None for m in maximum) else None
            specs.append(TensorSpec(match[1], dtype, shape, bounds))
        except TypeError as error:
            raise InvalidArgument(f"'{part.strip()}': {error}") from None
    return specs
