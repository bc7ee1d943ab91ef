# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An inlining policy as TensorFlow's feature columns make it: Bucketize, then a small network.

policy.py FOLDER writes FOLDER/policy (the SavedModel) and FOLDER/cases.json: inputs, and what
TensorFlow answers. Run by the Python of the environment that mlbridge_tensorflow_aot makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

BOUNDARIES = [0.0, 1.0, 4.0, 16.0, 64.0]
FEATURES, HIDDEN, ACTIONS = 6, 40, 3


class Policy(tf.Module):
    """The network."""

    def __init__(self) -> None:
        super().__init__()
        chance = np.random.default_rng(1)
        self.first = tf.constant(chance.standard_normal((2 * FEATURES, HIDDEN)).astype(np.float32))
        self.second = tf.constant(chance.standard_normal((HIDDEN, ACTIONS)).astype(np.float32))

    @tf.function(
        input_signature=[
            tf.TensorSpec([1, FEATURES], tf.float32, name="features"),
            tf.TensorSpec([], tf.int64, name="step"),
        ]
    )
    def action(self, features: Any, step: Any) -> dict[str, Any]:
        """The action for a call site, and what it was chosen from."""
        return self.decide(tf.raw_ops.Bucketize(input=features, boundaries=BOUNDARIES), step)

    @tf.function(
        input_signature=[
            tf.TensorSpec([1, FEATURES], tf.float32, name="features"),
            tf.TensorSpec([], tf.int64, name="step"),
        ]
    )
    def plain(self, features: Any, step: Any) -> dict[str, Any]:
        """The same in operators that ONNX has."""
        reached = features[..., tf.newaxis] >= tf.constant(BOUNDARIES)
        return self.decide(tf.reduce_sum(tf.cast(reached, tf.int32), -1), step)

    def decide(self, bucket: Any, step: Any) -> dict[str, Any]:
        """What follows the buckets."""
        scaled = tf.cast(bucket, tf.float32) / len(BOUNDARIES)
        hidden = tf.nn.relu(tf.matmul(tf.concat([scaled, scaled * scaled], 1), self.first))
        logits = tf.matmul(hidden, self.second) + tf.cast(step, tf.float32) * [0.0, 0.1, 0.2]
        return {"action": tf.argmax(logits, axis=-1), "logits": logits}

    @tf.function(input_signature=[tf.TensorSpec([None, FEATURES], tf.float32, name="features")])
    def batch(self, features: Any) -> dict[str, Any]:
        """A signature that XLA cannot compile: its shape is not fixed."""
        return {"sum": tf.reduce_sum(features, 1)}


def main() -> None:
    """The command."""
    folder = Path(sys.argv[1])
    policy = Policy()
    signatures = {"action": policy.action, "plain": policy.plain, "batch": policy.batch}
    tf.saved_model.save(policy, str(folder / "policy"), signatures=signatures)
    chance = np.random.default_rng(2)
    cases = []
    for step in range(32):
        features = chance.uniform(-2, 100, (1, FEATURES)).astype(np.float32)
        features[0, 0] = BOUNDARIES[step % len(BOUNDARIES)]
        answer = policy.action(tf.constant(features), tf.constant(step, tf.int64))
        case = {"features": features[0].tolist(), "step": step}
        case["action"] = int(answer["action"][0])
        case["logits"] = answer["logits"].numpy()[0].tolist()
        cases.append(case)
    (folder / "cases.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main()
