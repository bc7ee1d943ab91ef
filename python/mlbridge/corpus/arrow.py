# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Apache Arrow, which only corpora need."""

from __future__ import annotations

from typing import Any

from ..errors import NotFound
from ..files import extra


def arrow() -> Any:
    """pyarrow with pyarrow.parquet, which only this part of the package needs."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise NotFound(f"corpora need pyarrow: {extra('corpus')} ({error})") from None
    return pyarrow
