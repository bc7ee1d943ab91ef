# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks of the benchmark in TensorFlow; run by the Python that has it.

    tensorflow_networks.py MODEL WEIGHTS.npz FOLDER

Weights are the initializers of the ONNX file, by name. Each network is stated in the form that
XLA's compiler makes the fastest code of: a recurrence as a loop around one product, as Keras states
it, and MLGO's features by Bucketize, as its own policies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Weights = dict[str, Any]
Function = Callable[..., Any]


def dense(x: Any, weights: Weights, first: int, count: int) -> Any:
    """Layers as PyTorch lays them out, Relu between them."""
    for i in range(count):
        rows, bias = weights[f"w{first + 2 * i}"], weights[f"w{first + 2 * i + 1}"]
        x = tf.matmul(x, tf.constant(np.ascontiguousarray(rows.T))) + tf.constant(bias)
        x = tf.nn.relu(x) if i < count - 1 else x
    return x


def perceptron(weights: Weights) -> tuple[list[Any], Function]:
    spec = tf.TensorSpec([1, weights["w0"].shape[1]], tf.float32, name="x")
    return [spec], lambda x: dense(x, weights, 0, len(weights) // 2)


def lstm(weights: Weights) -> tuple[list[Any], Function]:
    into, back = (np.ascontiguousarray(weights[name][0].T) for name in ("w0", "w1"))
    width = back.shape[0]
    bias = weights["w2"][0].reshape(2, -1).sum(0)

    def run(x: Any) -> Any:
        steps = x.shape[0]
        gates = tf.matmul(tf.reshape(x, [steps, -1]), tf.constant(into)) + tf.constant(bias)
        recurrent = tf.constant(back)

        def step(i: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
            a = tf.slice(gates, [i, 0], [1, 4 * width]) + tf.matmul(h, recurrent)
            take, give, keep, new = tf.split(a, 4, axis=1)
            c = tf.sigmoid(keep) * c + tf.sigmoid(take) * tf.tanh(new)
            return i + 1, tf.sigmoid(give) * tf.tanh(c), c

        zeros = tf.zeros([1, width])
        _, h, _ = tf.while_loop(
            lambda i, h, c: i < steps, step, (0, zeros, zeros), maximum_iterations=steps
        )
        return tf.reshape(h, [1, 1, width])

    return [tf.TensorSpec([50, 1, 100], tf.float32, name="x")], run


def ggnn(weights: Weights) -> tuple[list[Any], Function]:
    nodes, edges, steps = 60, 180, 5
    width = weights["w0"].shape[0]

    def run(h: Any, source: Any, target: Any) -> Any:
        message, into, back, bias = (tf.constant(weights[f"w{i}"]) for i in range(4))
        for _ in range(steps):
            sent = tf.gather(tf.matmul(h, message), source)
            into_nodes = tf.constant([nodes, width], tf.int64)
            heard = tf.scatter_nd(target[:, tf.newaxis], sent, into_nodes)
            a_reset, a_update, a_new = tf.split(tf.matmul(heard, into) + bias, 3, axis=1)
            b_reset, b_update, b_new = tf.split(tf.matmul(h, back), 3, axis=1)
            reset, update = tf.sigmoid(a_reset + b_reset), tf.sigmoid(a_update + b_update)
            h = update * h + (1 - update) * tf.tanh(a_new + reset * b_new)
        return dense(tf.reduce_sum(h, 0, keepdims=True), weights, 8, 1)

    specs = [tf.TensorSpec([nodes, width], tf.float32, name="nodes")]
    specs += [tf.TensorSpec([edges], tf.int64, name=name) for name in ("source", "target")]
    return specs, run


def inliner(weights: Weights) -> tuple[list[Any], Function]:
    bounds = weights["w1"]
    count = (len(weights) - 4) // 2

    def run(*features: Any) -> Any:
        above = [
            tf.raw_ops.Bucketize(input=tf.cast(feature, tf.float32), boundaries=row.tolist())
            for feature, row in zip(features, bounds, strict=True)
        ]
        x = tf.cast(tf.stack(above, axis=1), tf.float32) / bounds.shape[1]
        return dense(tf.concat([x, x * x], 1), weights, 4, count)

    names = sys.argv[4].split(",")
    return [tf.TensorSpec([1], tf.int64, name=name) for name in names], run


NETWORKS: dict[str, Callable[[Weights], tuple[list[Any], Function]]] = {
    "lstm": lstm,
    "ggnn": ggnn,
    "inliner": inliner,
}


def main() -> None:
    name, weights, folder = sys.argv[1:4]
    specs, run = NETWORKS.get(name, perceptron)(dict(np.load(weights)))

    def y(*inputs: Any) -> Any:
        return {"y": run(*inputs)}

    signature = tf.function(y, input_signature=specs)
    tf.saved_model.save(tf.Module(), folder, signatures={"y": signature})


if __name__ == "__main__":
    main()
