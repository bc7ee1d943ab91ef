# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the ONNX files with which tests/hostile-models attacks the native engine.

    python tests/golden/hostile/make.py [DEST]

good-*.onnx are right, and are what mutations start from; together they have everything that the
reader knows. bad-*.onnx are wrong or beyond all measure: each has to be refused, at opening or at
the first evaluation, with a message.
"""

from __future__ import annotations

import sys
from pathlib import Path

import good
import graphs
import shapes
import values
from nodes import MODELS

PARTS = (good, graphs, shapes, values)  # each registers its models


def main() -> None:
    """Write them all."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, make in MODELS.items():
        made = make()
        data = made if isinstance(made, bytes) else made.SerializeToString(deterministic=True)
        (folder / f"{name}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()
