# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes policy.onnx, the rule of README.md as a network: models/gcc-settings/make.py [FILE]"""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from onnx_text import network

HERE = Path(__file__).resolve().parent
#: The settings in the order of the answer, as the plugin knows them.
SETTINGS = ["stock", "size", "speed", "inline-less", "inline-more", "unroll", "keep-loops"]
GRAPH = """
"gcc-settings" (float[25] features) => (int64 setting)
<int64 loops_at = {14}, int64 callers_at = {20}, float one = {1}> {
  loops = Gather <axis = 0> (features, loops_at)
  callers = Gather <axis = 0> (features, callers_at)
  either = Max (loops, callers)
  neither = Less (either, one)
  setting = Cast <to = 7> (neither)
}"""


def main() -> int:
    to = Path(sys.argv[1]) if sys.argv[1:] else HERE / "policy.onnx"
    onnx.save(network(GRAPH, metadata={"settings": ",".join(SETTINGS)}), to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
