# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Policies with the signatures and the preprocessing of MLGO's, with random weights.

mlgo_policies.py FOLDER CASES writes FOLDER/inliner and FOLDER/regalloc-eviction (SavedModels),
and beside each NAME.npz: CASES random inputs, TensorFlow's decisions, and how much the best choice
is ahead of the second. FOLDER/other has a feature that LLVM has not. The preprocessing is that of
compiler_opt/rl/feature_ops.py and rl/regalloc/config.py in google/ml-compiler-opt: quantiles by
Bucketize, x, x*x, sqrt(x) and the z-score, an embedding of the stages. TensorFlow runs it.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

sys.path.insert(0, sys.argv[3])
OPTIMIZATIONS: Any = importlib.import_module("saved_model").OPTIMIZATIONS
INLINER = OPTIMIZATIONS["inliner"].inputs
EVICTION = OPTIMIZATIONS["regalloc-eviction"].inputs
QUANTILES = 200


def normalized(values: Any, quantile: Any) -> Any:
    """Features of one input, in a last dimension of their own."""
    values = tf.expand_dims(values, -1)
    bucket = tf.raw_ops.Bucketize(input=values, boundaries=[float(q) for q in quantile])
    x = tf.cast(bucket, tf.float32) / len(quantile)
    z = (tf.cast(values, tf.float32) - np.mean(quantile)) / (np.std(quantile) + 1e-8)
    return tf.concat([x, x * x, tf.sqrt(x), z], axis=-1)


class Network:
    """Dense layers with ReLU between them."""

    def __init__(self, chance: Any, sizes: list[int]) -> None:
        self.layers = [
            (
                tf.constant((chance.standard_normal(pair) / np.sqrt(pair[0])).astype(np.float32)),
                tf.constant(chance.standard_normal(pair[1]).astype(np.float32) / 10),
            )
            for pair in itertools.pairwise(sizes)
        ]

    def __call__(self, x: Any) -> Any:
        for number, (weights, bias) in enumerate(self.layers):
            x = tf.nn.relu(x) if number else x
            x = tf.tensordot(x, weights, 1) + bias
        return x


def spec(name: str, kind: str, shape: tuple[int, ...]) -> Any:
    return tf.TensorSpec(shape, getattr(tf, kind), name=name)


#: What TF-Agents adds, with a batch of one.
ADDED = [spec("discount", "float32", (1,)), spec("reward", "float32", (1,))]
ADDED.append(spec("step_type", "int32", (1,)))


class Inliner(tf.Module):
    """MLGO's inliner: 40-40-20, two logits. `inlining_default` is not used."""

    def __init__(self, extra: bool = False) -> None:
        super().__init__()
        chance = np.random.default_rng(1)
        # Most are skewed, with the same boundary several times, as the published ones.
        self.quantiles = {
            name: np.sort(np.floor(chance.exponential(30, QUANTILES) - 5)) for name in INLINER
        }
        names = [name for name in INLINER if name != "inlining_default"]
        self.network = Network(chance, [4 * len(names), 40, 40, 20, 2])
        inputs = [spec(name, *of) for name, of in INLINER.items()]
        if extra:
            inputs += [spec("is_recursive", "int64", (1,)), spec("callsite_depth", "int64", (1,))]

        def logits(given: dict[str, Any]) -> Any:
            parts = [normalized(given[name], self.quantiles[name]) for name in names]
            more = [tf.cast(v, tf.float32) for n, v in given.items() if n == "is_recursive"]
            made = self.network(tf.concat(parts, axis=-1))
            return made + tf.expand_dims(more[0], -1) if more else made

        def action(*given: Any) -> dict[str, Any]:
            by = {s.name: value for s, value in zip([*inputs, *ADDED], given, strict=True)}
            made = logits(by)
            # TF-Agents masks by the kind of the step, which never changes the decision here.
            made = tf.where(by["step_type"][:, None] > 7, -made, made)
            return {"inlining_decision": tf.argmax(made, axis=-1)}

        self.logits = logits
        self.action = tf.function(action, input_signature=[*inputs, *ADDED])


class Eviction(tf.Module):
    """MLGO's eviction: a score for each position, the greatest of those that may be chosen."""

    def __init__(self) -> None:
        super().__init__()
        chance = np.random.default_rng(2)
        self.plain = ("is_hint", "is_local", "is_free")
        self.stages = ("max_stage", "min_stage")
        rest = [n for n in EVICTION if n not in (*self.plain, *self.stages, "mask", "nr_urgent")]
        self.quantiles = {n: np.sort(chance.random(QUANTILES) ** 3) for n in rest}
        self.embedding = tf.constant(chance.standard_normal((7, 4)).astype(np.float32))
        width = len(self.plain) + 4 * len(self.stages) + 4 * len(rest)
        self.network = Network(chance, [width, 64, 32, 1])
        inputs = [spec(name, *of) for name, of in EVICTION.items()]

        def logits(given: dict[str, Any]) -> Any:
            parts = [tf.cast(tf.expand_dims(given[n], -1), tf.float32) for n in self.plain]
            parts += [tf.gather(self.embedding, given[n]) for n in self.stages]
            for name in rest:
                values = given[name]
                if name == "progress":
                    values = tf.tile(tf.expand_dims(values, -1), [1, 33])
                parts.append(normalized(values, self.quantiles[name]))
            scores = tf.squeeze(self.network(tf.concat(parts, axis=-1)), -1)
            return tf.where(given["mask"] > 0, scores, scores.dtype.min)

        def action(*given: Any) -> dict[str, Any]:
            by = {s.name: value for s, value in zip([*inputs, *ADDED], given, strict=True)}
            return {"index_to_evict": tf.argmax(logits(by), axis=-1)}

        self.logits = logits
        self.action = tf.function(action, input_signature=[*inputs, *ADDED])


def inliner_case(chance: Any) -> dict[str, Any]:
    return {n: np.floor(chance.exponential(40, 1) - 8).astype(np.int64) for n in INLINER}


def eviction_case(chance: Any) -> dict[str, Any]:
    case: dict[str, Any] = {
        n: chance.random(s).astype(np.float32) for n, (_, s) in EVICTION.items()
    }
    for name in ("mask", "is_hint", "is_local", "is_free"):
        case[name] = chance.integers(0, 2, (1, 33))
    for name in ("max_stage", "min_stage"):
        case[name] = chance.integers(0, 7, (1, 33))
    case["mask"][0, chance.integers(33)] = 1
    # A live range that must not be spilled.
    case["use_def_density"][0, chance.integers(33)] = np.nan if chance.random() < 0.1 else 0.5
    return case


def write(folder: Path, name: str, policy: Any, draw: Any, count: int) -> None:
    tf.saved_model.save(policy, str(folder / name), signatures={"action": policy.action})
    chance = np.random.default_rng(7)
    cases = [draw(chance) for _ in range(count)]
    together = {key: np.stack([case[key] for case in cases]) for key in cases[0]}
    saved = tf.saved_model.load(str(folder / name)).signatures["action"]
    zeros = {"discount": tf.zeros(1), "reward": tf.zeros(1), "step_type": tf.zeros(1, tf.int32)}
    decided, ahead = [], []
    evaluate = tf.function(policy.logits)
    for case in cases:
        given = {key: tf.constant(value) for key, value in case.items()}
        (answer,) = saved(**given, **zeros).values()
        decided.append(answer.numpy())
        top = np.sort(evaluate(given).numpy().ravel())
        ahead.append(top[-1] - top[-2])
    arrays: dict[str, Any] = {"decided": np.stack(decided), "ahead": np.array(ahead), **together}
    np.savez(folder / f"{name}.npz", **arrays)


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    write(folder, "inliner", Inliner(), inliner_case, count)
    write(folder, "regalloc-eviction", Eviction(), eviction_case, count)
    other = Inliner(extra=True)
    tf.saved_model.save(other, str(folder / "other"), signatures={"action": other.action})


main()
