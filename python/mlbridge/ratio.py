# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Geometric means of ratios with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

CONFIDENCE = 0.95
_ROUNDS, _DRAWN = 100, 100  # means of drawn samples: so many rounds, so many in each


@dataclass(frozen=True)
class Ratio:
    """A geometric mean of ratios and its 95 % confidence interval, by the bootstrap: that of the
    means of 10 000 samples of as many ratios, drawn with replacement.

    The interval of fewer than two ratios is (0, inf): nothing is known.
    """

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, ratios: Iterable[float]) -> Ratio | None:
        """The ratio of positive numbers; None if there are none. The same numbers always give the
        same interval."""
        logs = [math.log(ratio) for ratio in ratios]
        if not logs:
            return None
        low, high = _interval(logs) if len(logs) > 1 else (-math.inf, math.inf)
        return cls(math.exp(fmean(logs)), math.exp(low), math.exp(high), len(logs))

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Ratio:
        """What as_json() gave. LookupError or TypeError for something else."""
        low, high = found["low"], found["high"]
        known = low is not None and high is not None
        ends = (float(low), float(high)) if known else (0.0, math.inf)
        return cls(float(found["mean"]), *ends, int(found["count"]))

    def as_json(self) -> dict[str, float | None]:
        """The four numbers; an unknown interval is null."""
        known = self.count > 1
        low, high = (self.low, self.high) if known else (None, None)
        return {"mean": self.mean, "low": low, "high": high, "count": self.count}

    def __str__(self) -> str:
        interval = f" [{self.low:.3f}, {self.high:.3f}]" if self.count > 1 else ""
        return f"{self.mean:.3f}{interval}"


def _interval(values: list[float]) -> tuple[float, float]:
    import numpy as np

    random = np.random.default_rng(0)
    size = (_DRAWN, len(values))
    means = [random.choice(values, size).mean(1) for _ in range(_ROUNDS)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)
