# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The observations and actions of an agent as Gymnasium's spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .._core import Signature, TensorSpec
from ..errors import InvalidArgument, Mismatch, Unsupported

#: An observation: a member of a Dict space.
Seen = dict[str, NDArray[Any]]
MASK = "action_mask"


class Layout:
    """The spaces of a signature, and the last observation as a member of them.

    Each input is an entry of a Dict, but text and those named in `aside`, which go to `info`.
    Numbers are a Box of their type, bools and `action_mask` a MultiBinary (int8). A Dynamic
    dimension is padded with zeros up to its declared maximum, or that of `bounds`, {INPUT: SHAPE};
    its lengths are the entry INPUT.shape. An output of one int64 is a Discrete, as large as
    `action_mask` or as `choices` says (a number, or {OUTPUT: number or space}); several are a
    MultiDiscrete, floats a Box. Several outputs are a Dict.
    """

    def __init__(
        self,
        signature: Signature,
        bounds: Mapping[str, Sequence[int]] | None = None,
        choices: int | Mapping[str, Any] | None = None,
        aside: Sequence[str] = (),
    ) -> None:
        self.signature = signature
        self._shapes: dict[str, tuple[int, ...]] = {}
        entries: dict[str, spaces.Space[Any]] = {}
        self._entries = entries
        for spec in signature.inputs:
            if spec.type == "string" or spec.name in aside:
                continue
            shape = self._shapes[spec.name] = _padded_shape(spec, (bounds or {}).get(spec.name))
            if spec.name == MASK or spec.type == "bool":
                entries[spec.name] = spaces.MultiBinary(shape or (1,))
            else:
                entries[spec.name] = _box(spec.type, shape)
            if -1 in spec.shape:
                most = np.array(shape, np.int64)
                entries[spec.name + ".shape"] = spaces.Box(0 * most, most, dtype=np.int64)
        self.observation_space: Any = spaces.Dict(entries)
        actions = {spec.name: self._action_space(spec, choices) for spec in signature.outputs}
        self._only = next(iter(actions)) if len(actions) == 1 else None
        self.action_space: spaces.Space[Any] = (
            actions[self._only] if self._only else spaces.Dict(actions)
        )
        #: So many refused actions in a row are enough.
        self.patience = int(getattr(self.action_space, "n", 1))
        self.forget()

    def _action_space(self, spec: TensorSpec, choices: int | Mapping[str, Any] | None) -> Any:
        stated = choices.get(spec.name) if isinstance(choices, Mapping) else choices
        if isinstance(stated, spaces.Space):
            return stated
        if -1 in spec.shape or spec.type == "string":
            raise Unsupported(f"the action '{spec.name}' is a {spec}; no space has such members")
        if spec.type.startswith("float"):
            return _box(spec.type, tuple(spec.shape))
        mask = self._shapes.get(MASK)
        if stated is None and mask is not None:
            stated = mask[-1] if mask else 1
        if stated is None:
            raise InvalidArgument(
                f"nothing says how many choices the action '{spec.name}' has;"
                f" pass choices={{'{spec.name}': N}}"
            )
        count = int(np.prod(spec.shape, dtype=np.int64))
        return spaces.Discrete(stated) if count == 1 else spaces.MultiDiscrete([stated] * count)

    def forget(self) -> None:
        """Forget the last observation, before an episode."""
        self._seen: Seen = {
            name: np.zeros(space.shape or (), space.dtype) for name, space in self._entries.items()
        }
        self._texts: dict[str, Any] = {}
        self._refusals = 0

    def member(self, observation: Mapping[str, Any]) -> Seen:
        """The observation as a new member of the space; the one before if it is empty."""
        if observation:
            texts = observation.keys() - self._shapes.keys()
            self._texts = {name: np.asarray(observation[name]).tolist() for name in sorted(texts)}
            self._refusals = 0
            for name, most in self._shapes.items():
                array = np.asarray(observation[name])
                if array.ndim != len(most) or any(map(int.__gt__, array.shape, most)):
                    raise Mismatch(
                        f"'{name}' has the shape {list(array.shape)}, more than {list(most)};"
                        f" pass larger bounds"
                    )
                value = np.zeros(most, self._seen[name].dtype)
                value[tuple(map(slice, array.shape))] = array
                self._seen[name] = value.reshape(self._seen[name].shape)
                if f"{name}.shape" in self._seen:
                    self._seen[f"{name}.shape"] = np.array(array.shape, np.int64)
        return {name: value.copy() for name, value in self._seen.items()}

    def info(self) -> dict[str, Any]:
        """The texts of the last observation, and its mask."""
        return self._texts | ({MASK: self._seen[MASK].copy()} if MASK in self._seen else {})

    def value(self, action: Any) -> dict[str, NDArray[Any]]:
        """The action as a driver takes it. Raises InvalidArgument if it is not in the space."""
        if not self.action_space.contains(action):
            raise InvalidArgument(f"the action {action!r} is not in {self.action_space}")
        outputs = {self._only: action} if self._only else action
        return {
            spec.name: np.asarray(outputs[spec.name], spec.type).reshape(spec.shape)
            for spec in self.signature.outputs
        }

    def refused(self, action: Any) -> int | None:
        """The number of forbidden actions in a row if the mask forbids this one; else None."""
        discrete = isinstance(self.action_space, spaces.Discrete) and MASK in self._seen
        if not discrete or self._seen[MASK][int(action)]:
            return None
        self._refusals += 1
        return self._refusals

    def action(self, saved: Any) -> Any:
        """The member of the action space that JSON held."""
        return _member(self.action_space, saved)


def _padded_shape(spec: TensorSpec, bound: Sequence[int] | None) -> tuple[int, ...]:
    stated: list[Any] = list(bound or spec.maximum or [0] * len(spec.shape))
    if len(stated) != len(spec.shape):
        raise InvalidArgument(f"the bounds of '{spec.name}' are {stated}, and it is a {spec}")
    shape = [(most or -1) if n == -1 else n for n, most in zip(spec.shape, stated, strict=True)]
    if -1 in shape:
        raise InvalidArgument(
            f"'{spec.name}' is a {spec}, which has no maximum;"
            f" pass bounds={{'{spec.name}': {[64 if n == -1 else n for n in shape]}}}"
        )
    return tuple(shape)


def _box(kind: str, shape: tuple[int, ...]) -> spaces.Box:
    dtype: Any = np.dtype(kind)
    if dtype.kind == "f":
        return spaces.Box(-np.inf, np.inf, shape, dtype.type)
    limits = np.iinfo(dtype)
    return spaces.Box(limits.min, limits.max, shape, dtype.type)


def _member(space: spaces.Space[Any], saved: Any) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _member(space[name], value) for name, value in saved.items()}
    return saved if isinstance(space, spaces.Discrete) else np.array(saved, space.dtype)
