# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asking a model as a compiler would, and Python callables as models in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from ._core import Model, Runner, Signature, _from_function, _inferring_runner, _register_function
from .errors import InvalidArgument
from .server import Policy

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_P = TypeVar("_P", bound=Policy)


def open(
    uri: str,
    signature: Signature | None = None,
    *,
    output: DTypeLike | None = None,
    deadline: float | str | timedelta | None = None,
    agent: str = "",
    episode: str = "",
    unit: str = "",
) -> Runner:
    """Open any model ("onnx:policy.onnx", "unix:/run/policy.sock", …) for one thread.

    Without `signature` the model's own is used. For a server that takes any signature, pass one, or
    pass the type of the single `output`: the inputs are then those of the first evaluation.
    `deadline` bounds opening and every evaluation: seconds, a timedelta or text like "250ms"; 5
    seconds unless given, and 0 waits for nothing. Options of the URI win over the arguments.
    """
    model = Model.open(uri, deadline=deadline, agent=agent, episode=episode, unit=unit)
    wanted = signature or model.model_signature
    if wanted is None:
        if output is None:
            raise InvalidArgument(f"{uri} takes any signature: pass signature= or output=")
        return _inferring_runner(model, output)
    model.bind(wanted)
    return model.new_runner()


def from_function(
    policy: Policy, signature: Signature | None = None, metadata: Mapping[str, str] | None = None
) -> Model:
    """A Model that calls `policy(observation, context)` in this process.

    It is called on whatever thread evaluates, with copies of the inputs. An exception becomes
    PolicyFailed with its type and text.
    """
    return _from_function(policy, signature, metadata or {})


def function(
    name: str, signature: Signature | None = None, metadata: Mapping[str, str] | None = None
) -> Callable[[_P], _P]:
    """Decorator: make a policy the model "function:NAME" for the rest of this process."""

    def register(policy: _P) -> _P:
        _register_function(name, policy, signature, metadata or {})
        return policy

    return register
