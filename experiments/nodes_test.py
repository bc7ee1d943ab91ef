# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The model of a cluster: what bounds it, and what losses cost."""

from __future__ import annotations

import pytest

from experiments.nodes import CARD, CORES, simulated


def test_cores_bound_few_nodes_and_the_sender_many() -> None:
    one, again = simulated([(2.0, 0)], 1, dispatch=0.0, count=8 * CORES)
    assert one == pytest.approx(16.0) and again == 0
    ten, _ = simulated([(2.0, 0)], 10, dispatch=0.0, count=80 * CORES)
    assert ten == pytest.approx(16.0)
    sent, _ = simulated([(2.0, int(CARD))], 1000, dispatch=0.5, count=100)
    assert sent == pytest.approx(100 * 1.5 + 2.0)


def test_what_is_lost_runs_again() -> None:
    whole, _ = simulated([(60.0, 0)], 5, dispatch=0.0, count=400)
    losing, again = simulated([(60.0, 0)], 5, dispatch=0.0, count=400, hours=0.5)
    assert again > 0 and losing > whole
    assert simulated([(60.0, 0)], 5, dispatch=0.0, count=400, hours=0.5) == (losing, again)
