# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Complete binary trees of one depth, in NumPy and as a part of a network.

`inputs` and `limits` [trees, 2^depth - 1] are what the nodes compare, level by level. The left
child follows where an input is at most the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def leaves(x: Any, inputs: Any, limits: Any, depth: int) -> Any:
    """The number of the leaf that each row of x reaches in each tree, [rows, trees]."""
    bits = x[:, np.asarray(inputs)] > np.asarray(limits, np.float32)
    at = np.zeros(bits.shape[:2], int)
    for level in range(depth):
        bit = np.take_along_axis(bits, (at + (1 << level) - 1)[..., None], axis=2)[..., 0]
        at = 2 * at + bit
    return at


def descent(depth: int) -> str:
    """Lines of a graph that compute these numbers from x [inputs], as at_{depth - 1} [trees, 1].
    They need the int64 constant `two` and those of constants()."""
    levels = "".join(
        f"""
  child_{level} = Add (at_{level - 1}, level_{level})
  bit_{level} = GatherElements <axis = 1> (bits, child_{level})
  twice_{level} = Mul (at_{level - 1}, two)
  at_{level} = Add (twice_{level}, bit_{level})"""
        for level in range(1, depth)
    )
    return f"""
  compared = Gather <axis = 0> (x, inputs)
  is_greater = Greater (compared, limits)
  bits = Cast <to = 7> (is_greater)
  at_0 = GatherElements <axis = 1> (bits, root){levels}"""


def constants(inputs: Any, limits: Any, depth: int) -> dict[str, Any]:
    """The constants of descent()."""
    return {
        "inputs": np.array(inputs),
        "limits": np.array(limits, np.float32),
        "root": np.zeros((len(inputs), 1), np.int64),
        **{f"level_{level}": np.int64((1 << level) - 1) for level in range(1, depth)},
    }
