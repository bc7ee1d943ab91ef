# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What policies and candidates gain on real programs."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))  # for result_tables
