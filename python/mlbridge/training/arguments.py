# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of the names and values that users give, before anything is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..errors import Error, InvalidArgument

#: The activations of networks: their names here, and in torch.nn.
ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh"}


def checked(call: Callable[..., Any], given: Mapping[str, Any], what: str) -> None:
    """InvalidArgument if `call` has no such parameters, or of other types; `what` is its name."""
    names = [name for name in signature(call).parameters if name != "self"]
    hints = get_type_hints(call)
    for name, value in given.items():
        if name not in names:
            raise InvalidArgument(f"{what} has no '{name}'; it has {', '.join(names)}")
        kinds = get_args(hints[name]) if is_union(hints[name]) else (hints[name],)
        types = tuple(t for t in (get_origin(k) or k for k in kinds) if isinstance(t, type))
        if types and not isinstance(value, (*types, int) if float in types else types):
            expected = " or ".join(t.__name__.replace("NoneType", "null") for t in types)
            raise InvalidArgument(f"{name} of {what} is {value!r}; expected {expected}")


def is_union(hint: Any) -> bool:
    """True if several types are possible."""
    return get_origin(hint) in (Union, UnionType)


def one_line(error: BaseException) -> str:
    """The message of an exception."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def named(what: str) -> Iterator[None]:
    """Errors of libraries that reject their arguments become InvalidArgument, in their words."""
    try:
        yield
    except Error:
        raise
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidArgument(f"{what}: {one_line(error)}") from error
