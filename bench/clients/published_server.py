# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model's side of the sweep with the Python classes of the release of 2024:

    published_server.py MODULE json|bytes BASENAME

MODULE is the package published in 2024, compilerinterface, or ours, CompilerInterface.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "round-trip"))
from policy import STEP, weights

module, data_format, basename = sys.argv[1:]
CI = importlib.import_module(module)
WEIGHTS = weights()
LAYERS = [WEIGHTS[: STEP * i] for i in range(len(WEIGHTS) // STEP + 1)]
interface = CI.PipeCompilerInterface(data_format, basename)
print("ready", flush=True)
interface.reset_pipes()
while True:
    try:
        request = interface.evaluate()
    except (EOFError, StopIteration, ValueError):  # the compiler is done
        break
    x = np.asarray(request["x"] if data_format == "json" else list(request[0]), np.float32)
    interface.populate_buffer(float(x.dot(LAYERS[x.size // STEP])))
