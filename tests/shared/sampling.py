# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which cases of large test matrices `make test` runs; `make nightly` runs them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from descriptions import DESCRIPTIONS

#: The runner that `make test` compares with the reference, of each optimization (as its
#: optimization.toml says) and example. Each runner occurs.
SAMPLED_RUNNER = {
    **{name: keys["tests"]["runner"] for name, keys in DESCRIPTIONS.items() if "tests" in keys},
    "sqlite": "native",  # its reference is computed by NumPy
    "choose_tiles": "aot",
}
NIGHTLY = pytest.mark.nightly
#: The older LLVM. `make test` has one test of each plugin with it.
LLVM_19 = pytest.param(19, marks=[NIGHTLY, pytest.mark.llvm19])
LLVMS = (22, LLVM_19)


def nightly(*values: Any, **options: Any) -> Any:
    """Parameters of a test that only `make nightly` runs."""
    return pytest.param(*values, marks=NIGHTLY, **options)


def runners_of(optimization: str, runners: Iterable[str], few: int, many: int) -> list[Any]:
    """Parameters runner and count: one runner with few programs, and for `make nightly` all runners
    with many."""
    given = list(runners)
    assert SAMPLED_RUNNER[optimization] in given
    return [(SAMPLED_RUNNER[optimization], few), *(nightly(runner, many) for runner in given)]
