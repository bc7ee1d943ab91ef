# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A policy to serve, and the batches of a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ._core import CallContext, Signature, Statistics
from .errors import InvalidArgument, Mismatch, NotFound, Unsupported
from .server import BatchPolicy, Policy, Server

# Names of the lengths of each dimension, or the lengths; None is a dimension without a name.
Dims = Sequence[int | str | None]
Evaluate = Callable[[Mapping[str, Any]], Mapping[str, Any]]


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
    #: Whether an answer depends on its request alone.
    stateless: bool = False

    def serve(
        self,
        uri: str,
        *,
        batch: int | None = None,
        max_wait: float = 0.0,
        pad: float | None = None,
        agents: Mapping[str, LoadedModel] | None = None,
        stateless: bool | None = None,
        ready: Callable[[Server], None] | None = None,
        **limits: Any,
    ) -> Statistics:
        """Serve it until Ctrl-C or stop().

        With `batch`, up to that many requests go into one call; `max_wait` and `pad` are those of
        Server.serve_batches. Compilers that state an agent named in `agents` are answered by that
        model. `stateless` is that of Server; unless given, whether all these models are.
        `ready` is called with the Server once compilers can connect.
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
        if stateless is None:
            stateless = all(model.stateless for model in models.values())
        with Server(uri, self.signature, self.metadata, stateless=stateless, **limits) as server:
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

    def policy(observations: Mapping[str, Any], contexts: Sequence[CallContext]) -> Any:
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


def network(
    name: str,
    evaluate: Evaluate,
    signature: Signature,
    metadata: Mapping[str, str],
    dims: Sequence[Mapping[str, Dims]] = (),
    *,
    stateless: bool = False,
) -> LoadedModel:
    """A model that takes batches along the first dimension of `dims`, or one more in front."""

    def policy(observation: Mapping[str, Any], _: Any) -> Mapping[str, Any]:
        return evaluate(observation)

    unbatchable = _no_common_first_dimension(*dims) if dims else ""
    batches = _laid_in_a_row(evaluate, *dims) if dims and not unbatchable else policy
    batch_policy = None if unbatchable else batches
    return LoadedModel(name, policy, batch_policy, signature, metadata, unbatchable, stateless)


def _no_common_first_dimension(inputs: Mapping[str, Dims], outputs: Mapping[str, Dims]) -> str:
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
    evaluate: Evaluate, inputs: Mapping[str, Dims], outputs: Mapping[str, Dims]
) -> BatchPolicy:
    """Uses the first dimension of a network for the rows of several requests."""

    def policy(observations: Mapping[str, Any], contexts: Sequence[CallContext]) -> Any:
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
    observations: Mapping[str, Any], row: int, inputs: Mapping[str, Dims], dims: Dims
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


def existing_file(path: str | os.PathLike[str], expected: str) -> str:
    path = os.fspath(path)
    if not Path(path).is_file():
        problem = "is a folder" if Path(path).is_dir() else "is not there"
        raise NotFound(f"{path} {problem}; expected {expected}")
    return path
