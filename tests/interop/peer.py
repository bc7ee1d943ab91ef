# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One side of a conversation, in Python: peer.py serve|ask|environment|drive URI; see peer.cpp."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import mlbridge

ROUNDS, STEPS = 6, 5
TYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bool", "string"),
)
TENSORS = [
    *(mlbridge.TensorSpec(name, "str" if name == "string" else name, [2, 3]) for name in TYPES),
    mlbridge.TensorSpec("rows", "float32", [None, 2], [64, None]),
    mlbridge.TensorSpec("words", "str", [None]),
]
EVERYTHING = mlbridge.Signature(TENSORS, TENSORS)


def value(dtype: np.dtype[Any], kind: int, k: int) -> Any:
    """What stands at an element."""
    if dtype == np.bool_:
        return kind % 2 == 1
    if dtype.kind == "f":
        first = np.nan if k == 2 else k + 1
        limits = np.finfo(dtype)
        return (first, limits.max, limits.min, np.inf, -np.inf, 0.1)[kind]
    whole = np.iinfo(dtype)
    return (k + 1, whole.max, whole.min, 7, 9, 100)[kind]


def filled(index: int, round_: int) -> Any:
    """Tensor `index` as it is sent in a round."""
    spec = TENSORS[index]
    shape = [round_ % 4 if length == -1 else length for length in spec.shape]
    count = int(np.prod(shape))
    if spec.type == "string":
        words = [f"s{round_}.{k} ü€" for k in range(count)]
        return np.array(words, dtype=object).reshape(shape)
    kinds = [(round_ + 2 * index + k) % 6 for k in range(count)]
    values = [value(spec.dtype, kind, k) for k, kind in enumerate(kinds)]
    return np.array(values, spec.dtype).reshape(shape)


def turned(array: Any) -> Any:
    """The elements in the opposite order."""
    return np.asarray(array).reshape(-1)[::-1].reshape(array.shape)


def is_turned(index: int, got: Any, round_: int) -> bool:
    """Whether this is what became of a round, turned round by the other side."""
    expected = turned(filled(index, round_))
    if got.shape != expected.shape:
        return False
    if got.dtype == object:
        return list(got.reshape(-1)) == list(expected.reshape(-1))
    return bool(got.dtype == expected.dtype and got.tobytes() == expected.tobytes())


def ready(server: mlbridge.Server) -> None:
    """Say where it listens."""
    print("ready", server.address, flush=True)


def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> dict[str, Any]:
    """Every input turned round."""
    if context.unit == "fail":
        raise RuntimeError("as it was asked to")
    return {name: turned(array) for name, array in observation.items()}


class Mirror:
    """Shows the last action turned round, at first what the seed says."""

    def reset(self, unit: str, seed: int) -> Mapping[str, Any]:
        """What the seed says."""
        if unit == "fail":
            raise RuntimeError("as it was asked to")
        self.steps = 0
        return {spec.name: turned(filled(i, seed)) for i, spec in enumerate(TENSORS)}

    def step(self, action: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, float, bool]:
        """The action turned round."""
        self.steps += 1
        shown = {name: turned(array) for name, array in action.items()}
        return shown, 0.5 * self.steps, self.steps == STEPS


def ask(uri: str) -> str:
    """The compiler's side."""
    model = mlbridge.Model.open(uri)
    if model.metadata != {"who": "interop"}:
        return "wrong metadata"
    model.bind(EVERYTHING)
    runner = model.new_runner()
    for round_ in range(ROUNDS):
        sent = {spec.name: filled(i, round_) for i, spec in enumerate(TENSORS)}
        answer = runner.evaluate(**sent)
        for i, spec in enumerate(TENSORS):
            if not is_turned(i, answer[spec.name], round_):
                return f"wrong output '{spec.name}' of round {round_}: {answer[spec.name]}"
    other = model.new_runner(unit="fail")
    try:
        other.evaluate(**{spec.name: filled(i, 1) for i, spec in enumerate(TENSORS)})
    except mlbridge.PolicyFailed:
        return "passed"
    return "wrong: no error"


def drive(uri: str) -> str:
    """The model's side, of an environment."""
    with mlbridge.drive(uri) as driver:
        if driver.signature != EVERYTHING or driver.metadata != {"who": "interop"}:
            return "wrong signature or metadata"
        for episode in range(2):
            observation = driver.reset(f"module {episode}", seed=episode)
            for step in range(STEPS):
                for i, spec in enumerate(TENSORS):
                    if not is_turned(i, observation[spec.name], episode + step):
                        return f"wrong observation '{spec.name}' of step {step}"
                action = {
                    spec.name: filled(i, episode + step + 1) for i, spec in enumerate(TENSORS)
                }
                observation, reward, done = driver.step(action)
                if reward != 0.5 * (step + 1):
                    return "wrong reward"
            if not done:
                return "wrong end of the episode"
        try:
            driver.reset("fail")
        except mlbridge.PolicyFailed as error:
            return "passed" if "as it was asked to" in str(error) else f"wrong error: {error}"
        return "wrong: no error"


def main(role: str, uri: str) -> int:
    """Play a role."""
    try:
        if role == "serve":
            mlbridge.serve(policy, uri, EVERYTHING, {"who": "interop"}, ready=ready)
            return 0
        if role == "environment":
            mlbridge.serve_environment(Mirror(), uri, EVERYTHING, {"who": "interop"}, ready=ready)
            return 0
        said = {"ask": ask, "drive": drive}[role](f"{uri}{'&' if '?' in uri else '?'}wait=20s")
    except mlbridge.Error as error:
        print("error", type(error).__name__, error)
        return 3
    print(said)
    return 0 if said == "passed" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
