# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The error of each operator of floating point; writes build/bench/errors.json.

    run.py [--operator NAME]...

docs/accuracy.md says what is measured, and has the table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reals import TYPES, Maker, far, measured, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from shared import parser, report


def main() -> int:
    """Measure, write, print."""
    arguments = parser(__doc__)
    arguments.add_argument("--operator", action="append", default=[])
    options = arguments.parse_args()
    cases = (case for dtype in TYPES for case in Maker(dtype).all())
    rows = measured(c for c in cases if not options.operator or c.name in options.operator)
    above = far(rows)
    report(
        "errors-partial" if options.operator else "errors",
        {"rows": rows, "far": above},
        "Errors in floating point",
        "Greatest (and mean) error in units in the last place",
        table(rows),
        f"Far above ONNX Runtime's error: {', '.join(above) or 'none'}.",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
