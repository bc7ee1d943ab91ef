# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which options of LLVM are tried next: Optuna's tree-structured Parzen estimator (TPE) draws them.

The method is that of Bergstra et al., Algorithms for Hyper-Parameter Optimization, NIPS 2011, with
the options drawn together. What paid on other programs is tried first.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Iterable
from typing import Any

from ..errors import NotFound
from ..files import extra
from .options import OPTIONS, Options

#: As bad as twice the time.
_NO_GOOD = 2.0


class Draws:
    """Options to try, one set after the other. What is told in the same order draws the same."""

    def __init__(self, first: Iterable[Options] = ()) -> None:
        """`first` are drawn before others. NotFound without Optuna."""
        try:
            import optuna
        except ImportError as error:
            raise NotFound(f"a search needs Optuna: {extra('specialize')} ({error})") from None
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(seed=0, multivariate=True, constant_liar=True)
        self._study = optuna.create_study(direction="minimize", sampler=sampler)
        self._asked: deque[Any] = deque()
        self._failed = optuna.trial.TrialState.FAIL
        for options in first:
            set_ = {name: OPTIONS[name].index(value) + 1 for name, value in options}
            self._study.enqueue_trial(dict.fromkeys(OPTIONS, 0) | set_)

    def ask(self) -> Options:
        """The next set; empty for none. More may be asked for before the first is told."""
        trial = self._study.ask()
        self._asked.append(trial)
        drawn = {name: trial.suggest_int(name, 0, len(OPTIONS[name])) for name in OPTIONS}
        return tuple((name, OPTIONS[name][at - 1]) for name, at in drawn.items() if at)

    def lose(self) -> None:
        """What was asked for first and not told yet can't be tried, for no fault of its own."""
        self._study.tell(self._asked.popleft(), state=self._failed)

    def tell(self, ratio: float | None) -> None:
        """The time of what was asked for first and not told yet, over that without options; None if
        it is no good, which is avoided from then on."""
        self._study.tell(self._asked.popleft(), math.log(ratio or _NO_GOOD))
