# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler interfaces have in common."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

from .SerDes import SerDes

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


def default_deadline() -> float:
    """Seconds: MLBRIDGE_COMPAT_DEADLINE ("500ms", "10m", or plain seconds), or 600."""
    text = os.environ.get("MLBRIDGE_COMPAT_DEADLINE", "")
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        return float(number) * UNITS[text[len(number) :] or "s"]
    except (ValueError, KeyError):
        return 600.0


class BaseCompilerInterface(ABC):
    """Keeps the advice until it is sent."""

    def __init__(self, data_format: str | None = None) -> None:
        self.serdes_obj = SerDes(data_format)

    def populate_buffer(self, data: Any) -> None:
        """Serializes the advice; the next evaluate() sends it."""
        self.serdes_obj.serializeData(data)

    @abstractmethod
    def evaluate(self, mode: str | None = None) -> Any:
        """Sends the advice, if there is one, and returns the compiler's next request."""
