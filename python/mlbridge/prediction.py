# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a network, trees or neighbours choose candidates better than one list for all modules.

Whole programs are left out in turn: for those of a fold, the portfolio is chosen, and predictors
of each candidate's log size ratio are trained, on the programs of the other folds. The predictors
rank the portfolio's members by what they expect of a module (Liang et al., "Learning Compiler Pass
Orders using Coreset and Normalized Value Prediction", ICML 2023). Needs scikit-learn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .candidates import Candidate, Measured, choose, ratios
from .errors import InvalidArgument, NotFound
from .files import extra
from .measuring import Ratio

Matrix = npt.NDArray[np.float64]
#: Takes features and targets of training modules, and features of others; their expected targets.
Predictor = Callable[[Matrix, Matrix, Matrix], Matrix]

EFFORTS = (1, 3, 10)
_FOLDS = 10
#: The longest list that is ranked: a longer one than is tried, so that there is a choice.
_RANKED = 12


@dataclass(frozen=True)
class Result:
    """Of a way to choose: bytes over the stock pipeline's, and over the portfolio's, by effort."""

    name: str
    gains: Mapping[int, Ratio]
    against_portfolio: Mapping[int, Ratio]


def cross_validate(
    measured: Mapping[str, Measured],
    listed: Sequence[Candidate],
    *,
    continuing: int = 0,
    seed: int = 0,
) -> list[Result]:
    """The portfolio first, then each predictor. The same seed gives the same numbers.

    Raises NotFound without scikit-learn, InvalidArgument if the modules were measured without the
    same features, or are of fewer than two programs.
    """
    modules = [key for key, its in sorted(measured.items()) if its.stock.bytes]
    programs = sorted({measured[key].program for key in modules})
    if len(programs) < 2:
        raise InvalidArgument("a prediction needs the modules of two programs or more")
    if len({len(measured[key].features) for key in modules}) != 1:
        raise InvalidArgument("modules were measured with different features; measure them again")
    rng = np.random.default_rng(seed)
    fold = {str(p): i % _FOLDS for i, p in enumerate(rng.permutation(programs))}
    orders: dict[str, dict[str, Sequence[Candidate]]] = {"portfolio": {}}
    for number in sorted(set(fold.values())):
        known = {k: measured[k] for k in modules if fold[measured[k].program] != number}
        asked = [k for k in modules if fold[measured[k].program] == number]
        portfolio = choose(known, listed, _RANKED, continuing=continuing)
        orders["portfolio"] |= dict.fromkeys(asked, portfolio)
        for name, expected in _predict(known, asked, measured, portfolio, seed).items():
            for key, row in zip(asked, expected, strict=True):
                ranked = [portfolio[i] for i in np.argsort(row, kind="stable")]
                orders.setdefault(name, {})[key] = _cheap_first(ranked, continuing)
    made = {
        name: {n: ratios(measured, {k: o[:n] for k, o in its.items()}) for n in EFFORTS}
        for name, its in orders.items()
    }
    return [
        Result(
            name,
            {n: _ratio(its[n].values()) for n in EFFORTS},
            {n: _ratio(its[n][p] / made["portfolio"][n][p] for p in its[n]) for n in EFFORTS},
        )
        for name, its in made.items()
    ]


def _ratio(values: Any) -> Ratio:
    found = Ratio.of(values)
    assert found is not None
    return found


def _cheap_first(ranked: Sequence[Candidate], continuing: int) -> Sequence[Candidate]:
    """The best `continuing` of those that continue the stock pipeline, then the others."""
    first = [c for c in ranked if c.after_stock][:continuing]
    return [*first, *(c for c in ranked if c not in first)]


def _predict(
    known: Mapping[str, Measured],
    asked: Sequence[str],
    measured: Mapping[str, Measured],
    portfolio: Sequence[Candidate],
    seed: int,
) -> dict[str, Matrix]:
    """What each predictor expects of the members for the asked modules, a row each."""
    inputs = _scaled([measured[k].features for k in known], [measured[k].features for k in asked])
    targets = np.array([[_log_ratio(its, c) for c in portfolio] for its in known.values()])
    return {name: fit(inputs[0], targets, inputs[1]) for name, fit in _predictors(seed).items()}


def _log_ratio(its: Measured, candidate: Candidate) -> float:
    made = its.costs.get(candidate.key)
    return (
        0.0
        if made is None
        else float(np.clip(math.log(max(made.bytes, 1) / its.stock.bytes), -0.5, 0.3))
    )


def _scaled(known: Sequence[Sequence[float]], asked: Sequence[Sequence[float]]) -> list[Matrix]:
    logs = [np.sign(x) * np.log1p(np.abs(x)) for x in (np.array(known), np.array(asked))]
    middle, spread = logs[0].mean(axis=0), logs[0].std(axis=0) + 1e-6
    return [np.clip((x - middle) / spread, -4, 4) for x in logs]


def _predictors(seed: int) -> dict[str, Predictor]:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.neighbors import KNeighborsRegressor
        from sklearn.neural_network import MLPRegressor
    except ImportError:
        raise NotFound(f"a prediction needs scikit-learn: {extra('train')}") from None

    def neighbours(known: Matrix, targets: Matrix, asked: Matrix) -> Matrix:
        model = KNeighborsRegressor(min(12, len(known)), weights="distance")
        return np.asarray(model.fit(known, targets).predict(asked))

    def trees(known: Matrix, targets: Matrix, asked: Matrix) -> Matrix:
        columns = []
        for column in targets.T:
            model = HistGradientBoostingRegressor(
                max_iter=50, learning_rate=0.08, max_leaf_nodes=6, random_state=seed
            )
            columns.append(model.fit(known, column).predict(asked))
        return np.stack(columns, axis=1)

    def network(known: Matrix, targets: Matrix, asked: Matrix) -> Matrix:
        scale = 1 / max(float(targets.std()), 1e-6)
        said = [
            MLPRegressor(
                hidden_layer_sizes=(48,),
                alpha=3.0,
                max_iter=300,
                early_stopping=True,
                random_state=seed + i,
            )
            .fit(known, targets * scale)
            .predict(asked)
            / scale
            for i in range(4)
        ]
        return np.asarray(np.mean(said, axis=0))

    return {"nearest neighbours": neighbours, "boosted trees": trees, "networks": network}
