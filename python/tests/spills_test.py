# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Spills by LLVM's remarks."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mlbridge.spills import RECORD, SUFFIX, spill_costs

#: More sums are live in the loop than there are registers.
SUMS = range(20)
SOURCE = f"""
void sums(const double *x, int n, double *out) {{
  double {", ".join(f"s{i} = 0" for i in SUMS)};
  for (int i = 0; i < n; ++i) {{
    {" ".join(f"s{i} += x[i * 20 + {i}] * {i + 2};" for i in SUMS)}
  }}
  {" ".join(f"out[{i}] = s{i};" for i in SUMS)}
}}
int none(int x) {{ return x + 1; }}
"""


def costs(folder: Path, source: str) -> dict[str, float]:
    (folder / "f.c").write_text(source)
    command = ["clang-22", "-O2", "-fno-vectorize", "-fno-slp-vectorize", *RECORD]
    subprocess.run([*command, "-c", folder / "f.c", "-o", folder / "f.o"], check=True)
    return spill_costs(folder / f"f{SUFFIX}")


def test_costs_are_of_functions(tmp_path: Path) -> None:
    found = costs(tmp_path, SOURCE)
    assert set(found) == {"sums"} and found["sums"] > len(SUMS)


def test_a_file_without_spills(tmp_path: Path) -> None:
    assert costs(tmp_path, "int none(int x) { return x + 1; }") == {}
