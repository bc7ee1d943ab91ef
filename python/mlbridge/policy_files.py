# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies from files: ONNX, PyTorch, or a Python function by its name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ._core import (
    Context,
    Signature,
    Statistics,
    TensorSpec,
    _empty_input,
    _guard_failure,
    _onnx_facts,
    _shape_probe,
    _shape_probe_name,
)
from .errors import InvalidArgument, InvalidModel, Mismatch, NotFound, PolicyFailed, Unsupported
from .reading import shortly
from .server import BatchPolicy, Policy, Server

# Names of the lengths of each dimension, or the lengths; None is a dimension without a name.
_Dims = Sequence[int | str | None]
_Evaluate = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_TORCH_FILES = (".pt", ".pt2", ".pth", ".ts")


@dataclass(frozen=True)
class LoadedModel:
    """A policy to serve, with its signature and metadata for compilers."""

    name: str
    policy: Policy
    #: The policy for many requests in one call; if it is None, `unbatchable` says why.
    batch_policy: BatchPolicy | None = None
    signature: Signature | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    unbatchable: str = ""

    def serve(
        self,
        uri: str,
        *,
        batch: int | None = None,
        max_wait: float = 0.0,
        pad: float | None = None,
        agents: Mapping[str, LoadedModel] | None = None,
        ready: Callable[[Server], None] | None = None,
        **limits: Any,
    ) -> Statistics:
        """Serve it until Ctrl-C or stop().

        With `batch`, up to that many requests go into one call; `max_wait` and `pad` are those of
        Server.serve_batches. Compilers that state an agent named in `agents` are answered by that
        model. `ready` is called with the Server once compilers can connect.
        """
        models = {"": self, **(agents or {})}
        if agents and self.signature is None:
            raise InvalidArgument(f"{self.name} has no signature: pass one, which agents share")
        for name, model in models.items():
            if model.signature != self.signature:
                raise Mismatch(
                    f"agent '{name}': {model.name} has the signature {model.signature}, "
                    f"{self.name} has {self.signature}; one server has one signature"
                )
            if batch is not None and model.batch_policy is None:
                raise Unsupported(f"{model.name} cannot take batches: {model.unbatchable}")
        if batch is None and (pad is not None or max_wait):
            raise InvalidArgument("pad and max_wait are for batches; pass batch=N too")
        with Server(uri, self.signature, self.metadata, **limits) as server:
            if ready is not None:
                ready(server)
            if batch is None:
                return server.serve_forever(_by_agent(models))
            return server.serve_batches(
                _rows_by_agent(models, self.signature), max_batch=batch, max_wait=max_wait, pad=pad
            )


def _by_agent(models: Mapping[str, LoadedModel]) -> Policy:
    default = models[""].policy
    if len(models) == 1:
        return default
    policies = {name: model.policy for name, model in models.items()}
    return lambda observation, context: policies.get(context.agent, default)(observation, context)


def _rows_by_agent(models: Mapping[str, LoadedModel], signature: Signature | None) -> BatchPolicy:
    policies = {name: model.batch_policy for name, model in models.items() if model.batch_policy}
    if len(policies) == 1 or signature is None:
        return policies[""]
    first = signature.outputs[0].name

    def policy(observations: Mapping[str, Any], contexts: Sequence[Context]) -> Any:
        groups: dict[str, list[int]] = {}
        for row, context in enumerate(contexts):
            groups.setdefault(context.agent if context.agent in policies else "", []).append(row)
        results: dict[str, list[Any]] = {}
        for agent, rows in groups.items():
            part = {name: array[rows] for name, array in observations.items()}
            answer = policies[agent](part, [contexts[row] for row in rows])
            if not isinstance(answer, Mapping):
                answer = {first: answer}  # of the only output
            for name, values in answer.items():
                for row, value in zip(rows, values, strict=True):
                    results.setdefault(name, [None] * len(contexts))[row] = value
        return results

    return policy


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


def _file(path: str | os.PathLike[str], expected: str) -> str:
    path = os.fspath(path)
    if not Path(path).is_file():
        problem = "is a folder" if Path(path).is_dir() else "is not there"
        raise NotFound(f"{path} {problem}; expected {expected}")
    return path


# ONNX


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
    path = _file(path, "an ONNX file")
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
        text = " ".join(str(error).split())
        if facts["guarded"] and _keeps_weights_elsewhere(text):
            # ONNX Runtime before 1.21 finds them only beside a path.
            session, never_empty = _onnx_session(path, path, facts["prepack"]), True
        else:
            text = re.sub("/onnxruntime_src/.*(?=Unsupported model IR version)", "", text)
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
            raise
        return dict(zip(names, values, strict=True))

    return _network(
        path,
        evaluate,
        Signature(_onnx_specs(path, inputs), _onnx_specs(path, outputs)),
        metadata,
        [{node.name: node.shape for node in nodes} for nodes in (inputs, outputs)],
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
        model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=[_WRONG_OPTIMIZER],
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


def _network(
    name: str,
    evaluate: _Evaluate,
    signature: Signature,
    metadata: Mapping[str, str],
    dims: Sequence[Mapping[str, _Dims]] = (),
) -> LoadedModel:
    """A model that takes batches along the first dimension of `dims`, or one more in front."""

    def policy(observation: Mapping[str, Any], _: Any) -> Mapping[str, Any]:
        return evaluate(observation)

    unbatchable = _no_common_first_dimension(*dims) if dims else ""
    batches = _laid_in_a_row(evaluate, *dims) if dims and not unbatchable else policy
    batch_policy = None if unbatchable else batches
    return LoadedModel(name, policy, batch_policy, signature, metadata, unbatchable)


def _no_common_first_dimension(inputs: Mapping[str, _Dims], outputs: Mapping[str, _Dims]) -> str:
    """The reason why requests cannot be laid one after another; empty if they can."""
    names = set()
    for name, dims in (*inputs.items(), *outputs.items()):
        if not dims or isinstance(dims[0], int):
            shape = ", ".join("?" if length is None else str(length) for length in dims)
            return f"'{name}' [{shape}] does not begin with a dynamic dimension; export it with one"
        names.add(dims[0])
    names.discard(None)
    if len(names) > 1:
        return f"the first dimensions differ: {', '.join(map(str, sorted(names, key=str)))}"
    return ""


def _laid_in_a_row(
    evaluate: _Evaluate, inputs: Mapping[str, _Dims], outputs: Mapping[str, _Dims]
) -> BatchPolicy:
    """Uses the first dimension of a network for the rows of several requests."""

    def policy(observations: Mapping[str, Any], contexts: Sequence[Context]) -> Any:
        rows = len(contexts)
        given = {name: observations[name] for name in inputs}
        feed = {n: v.reshape(rows * v.shape[1], *v.shape[2:]) for n, v in given.items()}
        total = len(next(iter(feed.values())))
        answer = evaluate(feed)
        results: dict[str, Any] = {}
        for name, dims in outputs.items():
            value = np.asarray(answer[name])
            if value.shape[:1] != (total,):
                raise ValueError(f"output '{name}' has {value.shape[:1]} rows for {total} of input")
            results[name] = value = value.reshape(rows, total // rows, *value.shape[1:])
            if len(observations) > len(inputs):  # padded
                results[name] = [
                    value[row][_unpadded(observations, row, inputs, dims)] for row in range(rows)
                ]
        return results

    return policy


def _unpadded(
    observations: Mapping[str, Any], row: int, inputs: Mapping[str, _Dims], dims: _Dims
) -> tuple[slice, ...]:
    """The part of an output that belongs to a request whose inputs were padded."""
    lengths: dict[int | str | None, int] = {}
    first = None
    for name, names in inputs.items():
        shape = observations.get(name + ".shape")
        if shape is not None:
            lengths.update(zip(names, map(int, shape[row]), strict=True))
            first = int(shape[row][0])
    rest = (slice(lengths.get(n) if isinstance(n, str) else None) for n in dims[1:])
    return (slice(first), *rest)


# Python


def load_python(place: str, name: str, signature: Signature | None = None) -> LoadedModel:
    """The policy `name` of a module or a file.

    It is a policy, or makes one if it can be called without arguments: a policy, a torch.nn.Module,
    or one of them and its Signature. Compilers get its attributes `signature` and `metadata`, or
    else those of the module. For batches it is called as a BatchPolicy.
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
    if not _is_torch_module(named) and _takes_nothing(named):
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
    signature = signature or stated
    if _is_torch_module(policy):
        if signature is None:
            raise InvalidArgument(f"{text} is a torch module and needs a signature: pass one")
        policy.eval()
        return _network(text, _torch_evaluate(text, policy, signature), signature, metadata)
    return LoadedModel(text, policy, policy, signature, metadata)


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


# PyTorch


def _is_torch_module(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def load_torch(path: str | os.PathLike[str], signature: Signature | None = None) -> LoadedModel:
    """A TorchScript file, or a program that torch.export.save wrote.

    TorchScript needs a signature; an exported program has its own, unless `signature` is given.
    """
    path = _file(path, "a TorchScript or torch.export file")
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
        return _network(path, _torch_evaluate(path, module, signature), signature, {})
    if not exported:
        raise InvalidArgument(f"{path} is TorchScript, which has no signature: pass one")
    return _program_model(path, program, module)


def _program_model(path: str, program: Any, module: Any) -> LoadedModel:
    nodes = {node.name: node for node in program.graph.nodes}
    dims: list[dict[str, _Dims]] = []
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
    return _network(path, _torch_evaluate(path, module, signature), signature, {}, dims)


def _torch_evaluate(path: str, module: Any, signature: Signature) -> _Evaluate:
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


# Signatures


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
