# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fixtures of these tests."""

from users import common

__all__ = ["common"]
