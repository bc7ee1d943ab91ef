# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policies of runners_test.py in TensorFlow.

policies.py TABLE.json FOLDER writes FOLDER/policies (a SavedModel). Run by the Python of the
environment that mlbridge_tensorflow_aot makes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf


def tensor(name: str, *shape: int) -> Any:
    return tf.TensorSpec(shape, tf.int64, name=name)


class Policies(tf.Module):
    """Both."""

    def __init__(self, table: dict[str, Any]) -> None:
        super().__init__()
        self.users = tf.constant(table["users"], tf.int64)
        self.limits = tf.constant(table["limits"], tf.int64)

    @tf.function(
        input_signature=[
            tensor("cost_estimate", 1),
            tensor("callee_users", 1),
            tensor("is_multiple_blocks", 1),
            tensor("inlining_default", 1),
        ]
    )
    def inline(
        self, cost_estimate: Any, callee_users: Any, is_multiple_blocks: Any, inlining_default: Any
    ) -> dict[str, Any]:
        """The table of models/inliner-size."""
        column = tf.reduce_sum(tf.cast(callee_users >= self.users, tf.int64))
        below = cost_estimate < self.limits[is_multiple_blocks[0], column]
        decided = tf.where(cost_estimate < 5, (inlining_default == 1) & below, below)
        return {"inlining_decision": tf.cast(decided, tf.int64)}

    @tf.function(input_signature=[tensor("mask", 1, 33)])
    def evict(self, mask: Any) -> dict[str, Any]:
        """The first that may be evicted."""
        return {"index_to_evict": tf.argmax(mask, axis=1)}


def main() -> None:
    made = Policies(json.loads(Path(sys.argv[1]).read_text()))
    signatures = {"inline": made.inline, "evict": made.evict}
    tf.saved_model.save(made, str(Path(sys.argv[2]) / "policies"), signatures=signatures)


if __name__ == "__main__":
    main()
