# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is found out about a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Support:
    """Whether an engine runs a model, and if not why."""

    runs: bool
    why: str = ""
    missing: list[str] = field(default_factory=list)
    """Operators that it lacks."""


@dataclass
class Report:
    """A model, as far as its file says; None is what is not known."""

    path: str
    format: str
    file_bytes: int | None
    """None of what is not in a file."""
    signature: str | None = None
    """Of a SavedModel with several, the one that was asked for or is usual."""
    signatures: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)
    operators: Counter[str] = field(default_factory=Counter)
    parameters: int | None = None
    parameter_bytes: int | None = None
    external_files: list[str] = field(default_factory=list)
    multiply_adds: int | None = None
    """Of matrix products, convolutions and recurrences in one evaluation; dimensions that change
    count as 1, the bodies of loops once."""
    multiply_adds_exact: bool = True
    """False if the shape of something is not known, so that there may be more."""
    workspace_bytes: int | None = None
    """What each runner of the native engine needs besides inputs and outputs."""
    engines: dict[str, Support] = field(default_factory=dict)
    embedded: str = ""
    """What a compiler that has this model in it would contain."""

    def as_json(self) -> dict[str, Any]:
        """For json.dumps."""
        found = asdict(self)
        found["operators"] = dict(sorted(self.operators.items()))
        return found
