# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hostile peers, shortly: others get their answers, the offender is closed, told why and counted.

bench/attacks measures the same attacks at length.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attacks import ATTACKS
from sampling import nightly
from target import Target, outcome, target

LIMIT_EXCEEDED = 13
TRANSPORTS = ("unix", "shm", "grpc")
#: These wait until the server loses patience; `make test` has each over one transport.
PATIENT = ("half-handshakes", "pings-unread", "statistics-unread")
CASES = [
    nightly(transport, name) if name in PATIENT and transport != "unix" else (transport, name)
    for transport in TRANSPORTS
    for name in sorted(ATTACKS)
]


@pytest.fixture(scope="module")
def targets(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, str], Target]]:
    """One server of each kind and transport, for all attacks."""
    made: dict[tuple[str, str], Target] = {}
    with contextlib.ExitStack() as stack:

        def find(transport: str, kind: str) -> Target:
            if (transport, kind) not in made:
                folder: Path = tmp_path_factory.mktemp("attack")
                made[transport, kind] = stack.enter_context(target(transport, kind, folder))
            return made[transport, kind]

        yield find


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("transport", "name"), CASES)
def test_others_are_served(
    targets: Callable[[str, str], Target], transport: str, name: str
) -> None:
    _, kind, is_closed = ATTACKS[name]
    at = targets(transport, kind)
    before = at.statistics()
    for _ in range(10):
        at.ask()
    attacker = at.attack(name, size=1 if is_closed and name != "half-handshakes" else 0.05)
    asked = 0
    while attacker.poll() is None or asked < 10:
        at.ask()  # asserts that the answer is right
        asked += 1
    became = outcome(attacker)
    at.ask()
    after = at.statistics()
    counted = after["over-limit"] - before["over-limit"]
    if is_closed:
        assert counted > 0, (became, after)
        assert became["closed"] > 0 or "unread" in name, became  # who doesn't read learns it late
    else:
        assert counted == 0 and became["closed"] == 0, (became, after)
    # Who is closed for what it sent is told so; who doesn't read can't be.
    if is_closed and "unread" not in name and name != "half-handshakes":
        assert became["told"].get(str(LIMIT_EXCEEDED), 0) > 0, became
    if kind == "model":
        assert after["replies"] - before["replies"] >= asked
    assert at.process.poll() is None
    # What was kept for the attacker is given back once the server has seen that it is gone: what is
    # left is the good client's.
    until = time.monotonic() + 60
    while after["bytes-kept"] >= 4_000_000 and time.monotonic() < until:
        at.ask()
        after = at.statistics()
    assert after["bytes-kept"] < 4_000_000, after
