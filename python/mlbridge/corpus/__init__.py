# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Corpora: the unoptimized bitcode of whole programs, to train and to measure on (docs/corpora.md).

`open(NAME)` reads one; `mlbridge corpus add` makes them. Needs `pip install '.[corpus]'` in the
source tree.
"""

from __future__ import annotations

from .adding import Added, compile_bitcode
from .parquet_files import Damage, Row, Selection, stream
from .store import (
    Corpus,
    FunctionCounts,
    Module,
    Origin,
    assign,
    home,
    is_corpus,
    names,
    open,
    place_of,
)

__all__ = [
    "Added",
    "Corpus",
    "Damage",
    "FunctionCounts",
    "Module",
    "Origin",
    "Row",
    "Selection",
    "assign",
    "compile_bitcode",
    "home",
    "is_corpus",
    "names",
    "open",
    "place_of",
    "stream",
]
