# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of the round trip, the same in the server and in its floor; see expected.h."""

from __future__ import annotations

import numpy as np

LARGEST, STEP, SMALL = 50_000, 500, 16
SIZES = range(STEP, LARGEST + 1, STEP)


def weights() -> np.ndarray:
    """The fully connected layer, for any number of inputs up to the largest."""
    return (((np.arange(LARGEST) * 7) % 13 - 5) / 64).astype(np.float32)
