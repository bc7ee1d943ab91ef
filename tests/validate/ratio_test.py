# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Means of ratios and their intervals."""

from __future__ import annotations

import math
import random
from statistics import NormalDist, fmean

import pytest

from mlbridge.ratio import Ratio


def test_a_ratio_and_its_interval() -> None:
    assert Ratio.of([]) is None
    alone = Ratio.of([0.5])
    assert alone == Ratio(0.5, 0.0, math.inf, 1) and str(alone) == "0.500"
    assert alone.as_json() == {"mean": 0.5, "low": None, "high": None, "count": 1}
    two = Ratio.of([math.exp(-1), math.exp(1)])
    assert two is not None and two.mean == pytest.approx(1)
    assert (math.log(two.low), math.log(two.high)) == pytest.approx((-1, 1)), "as wide as both"
    steady = Ratio.of([0.9] * 4)
    assert steady is not None and str(steady) == "0.900 [0.900, 0.900]"


def test_the_interval_is_that_of_the_mean_and_always_the_same() -> None:
    drawn = random.Random(1)
    logs = [drawn.gauss(0.1, 0.2) for _ in range(400)]
    ratio = Ratio.of(map(math.exp, logs))
    assert ratio is not None and ratio == Ratio.of(map(math.exp, logs))
    half = NormalDist().inv_cdf(0.975) * 0.2 / math.sqrt(400)
    assert math.log(ratio.mean) == pytest.approx(fmean(logs))
    assert math.log(ratio.high / ratio.mean) == pytest.approx(half, rel=0.1)
    assert math.log(ratio.mean / ratio.low) == pytest.approx(half, rel=0.1)
