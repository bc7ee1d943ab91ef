# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measurement of errors: formulas against math, and a few operators against bounds."""

from __future__ import annotations

import math

import formulas
import numpy as np
import pytest
import reals


def test_erf_is_that_of_math() -> None:
    x = np.array([0.0, 1e-9, 0.5, 1.2, 1.49, 1.51, 3, -0.7, -5, 20, -20], np.longdouble)
    for of, expected in ((formulas.erf, math.erf), (formulas.erfc, math.erfc)):
        np.testing.assert_allclose(
            of(x).astype(float), [expected(float(v)) for v in x], rtol=4e-16, atol=0
        )


def test_an_error_is_in_units_of_the_last_place() -> None:
    case = next(c for c in reals.Maker("float32").elementwise() if c.name == "Neg")
    truth = case.truth.astype(np.float32)
    assert reals.errors(truth, case)[0].max() == 0
    with np.errstate(over="ignore"):
        above = np.nextafter(truth, np.float32(np.inf))
    ulps, odd = reals.errors(above, case)
    assert np.median(ulps) == 1 and odd == 0
    assert reals.errors(np.where(truth == 0.5, np.nan, truth), case)[1] >= 1


@pytest.mark.parametrize("dtype", reals.TYPES)
def test_errors_are_small(dtype: str) -> None:
    bounds = {"Exp": 1.2, "Log": 0.6, "Add": 0.5, "Tanh": 2.0, "Sum": 1.0, "Resize": 2.5}
    cases = [c for c in reals.Maker(dtype).all() if c.name in bounds]
    rows = reals.measured(cases)
    assert {row["operator"] for row in rows} == set(bounds)
    assert not reals.far(rows)
    assert all(row["native_max"] <= bounds[row["operator"]] for row in rows)
    assert len(reals.table(rows)) == len(bounds)
