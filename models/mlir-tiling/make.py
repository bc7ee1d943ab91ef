# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes policy.onnx, the best way for all operations (measure.py):

    models/mlir-tiling/make.py [FILE]

Parallel loops stay whole and reductions have tiles of 32 iterations, but for windows, such as those
of convolutions, which stay whole. Everything is vectorized.
"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_text import network

HERE = Path(__file__).resolve().parent
GRAPH = """
"mlir-tiling" (float[10, 8] loops) => (int64[10] sizes, int64 vectorize)
<int64 trips_at = {0}, int64 parallel_at = {1}, int64 along_at = {2}, int64 window_at = {6},
 float one = {1}, float whole = {1073741824}, float reduction = {32}, int64 yes = {1}> {
  trips = Gather <axis = 1> (loops, trips_at)
  parallel = Gather <axis = 1> (loops, parallel_at)
  along = Gather <axis = 1> (loops, along_at)
  window = Gather <axis = 1> (loops, window_at)
  parallel_or_along = Max (parallel, along)
  kept = Max (parallel_or_along, window)
  is_kept = Cast <to = 9> (kept)
  size = Where (is_kept, whole, reduction)
  iterations = Max (trips, one)
  least = Min (size, iterations)
  sizes = Cast <to = 7> (least)
  vectorize = Identity (yes)
}"""


def main() -> int:
    to = Path(sys.argv[1]) if sys.argv[1:] else HERE / "policy.onnx"
    onnx.save(network(GRAPH), to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
