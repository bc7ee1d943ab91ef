# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts what a fuzzer did, from its log: damaged models by the engine, damaged frames by the
serdes, with AddressSanitizer.

    damaged.py LOG FUZZER EXIT_CODE [--artifacts FOLDER]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tally import Tally, save

#: Suite, and what was fuzzed.
FUZZERS = {"native_fuzz": ("damaged-models", "native"), "serdes_fuzz": ("damaged-frames", "serdes")}


def counted(log: str, fuzzer: str, exit_code: int, artifacts: Path) -> Tally:
    tally = Tally(*FUZZERS[fuzzer])
    units = re.findall(r"stat::number_of_executed_units:\s*(\d+)", log)
    tally.programs = int(units[-1]) if units else 0
    if exit_code:
        found = sorted(artifacts.glob(f"{fuzzer}-*"), key=lambda path: path.stat().st_mtime)[-1:]
        tally.programs = max(tally.programs, 1)
        tally.bad("crashed", "input", f"build/cmake/fuzz/fuzz/{fuzzer} {{0}}" if found else fuzzer,
                  *found)  # fmt: skip
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("fuzzer", choices=FUZZERS)
    parser.add_argument("exit_code", type=int)
    parser.add_argument("--artifacts", type=Path, default=Path())
    parser.add_argument("--report", type=Path, help="file of the counts")
    options = parser.parse_args()
    text = options.log.read_text(errors="replace")
    tally = counted(text, options.fuzzer, options.exit_code, options.artifacts)
    return 0 if save([tally], options.report) else 1


if __name__ == "__main__":
    sys.exit(main())
