# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `make demo` runs: real programs built with and without the model."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))  # for result_tables
