# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX Runtime as a judge of quantized models.

By default its products of bytes saturate on x86-64 CPUs without VNNI (its page "Quantize ONNX
models", on reduce_range), so that it is no judge there. An option makes them exact.
"""

from __future__ import annotations

import onnxruntime
from processor import multiplies_bytes_exactly


def exact_options() -> onnxruntime.SessionOptions:
    """Options of a session whose products of bytes are exact, also on other CPUs (QLinearMatMul's
    are not)."""
    options = onnxruntime.SessionOptions()
    if not multiplies_bytes_exactly():  # else it makes nodes for which there is no kernel
        options.add_session_config_entry("session.x64quantprecision", "1")
    return options
