# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cost of a register allocation, by the remarks that LLVM's allocator writes."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

#: Options of clang; the record is beside the object, with this suffix.
RECORD = ("-fsave-optimization-record", "-foptimization-record-passes=regalloc")
SUFFIX = ".opt.yaml"

_FUNCTION = re.compile(r"^Function:\s+'?([^'\n]+)'?$", re.MULTILINE)
_COST = re.compile(r"- Total(?:Folded)?(?:Spills|Reloads|Copies)Cost:\s+'?([-+.\de]+)'?")


def spill_costs(record: Path) -> dict[str, float]:
    """Spills, reloads and copies executed for each call of a function, by LLVM's block frequencies.

    `record` is written by clang with RECORD, or by llc with -pass-remarks-output=FILE
    -pass-remarks-filter=regalloc. Functions without any are left out. What the allocator computes
    again instead of reloading costs nothing here.
    """
    costs: defaultdict[str, float] = defaultdict(float)
    for remark in record.read_text().split("--- !"):
        name = _FUNCTION.search(remark)
        if name and "\nName:            SpillReloadCopies\n" in remark:
            costs[name[1]] += sum(map(float, _COST.findall(remark)))
    return dict(costs)
