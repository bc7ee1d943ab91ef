# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The package of 2024 and this one have names that differ in upper case alone."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version


def refuse_the_published() -> None:
    """Whoever mixes them up would get the other's behaviour: they are not used side by side."""
    if os.environ.get("MLBRIDGE_COMPAT_BESIDE"):
        return
    try:
        theirs = version("compilerinterface")
    except PackageNotFoundError:
        return
    raise ImportError(
        f"mlbridge-compat takes the place of compilerinterface {theirs}, which is installed as "
        "well: pip uninstall compilerinterface, or set MLBRIDGE_COMPAT_BESIDE=1 to use both"
    )
