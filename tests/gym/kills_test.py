# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many episodes while compilers are killed: each accounted for, none wrong, none costs memory.

A sample here; 10 000 episodes in `make nightly`.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
from sampling import nightly

from mlbridge.gym import PhaseOrdering

SEQUENCES = 20
EVERY = 50


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def episode(env: PhaseOrdering, number: int, kill_at: int | None) -> tuple[int, str]:
    """Plays one of SEQUENCES episodes; the bytes that it came to, and what went wrong."""
    seed = number % SEQUENCES
    generator = random.Random(seed)
    module = env._session.units[seed % len(env._session.units)]
    _, info = env.reset(options={"unit": module, "seed": seed})
    for step in range(100):
        if step == kill_at:
            process = env.process
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
        allowed = info["action_mask"].nonzero()[0]
        _, _, terminated, truncated, info = env.step(int(generator.choice(list(allowed))))
        if terminated or truncated:
            return info["code_bytes"][0], info.get("fault", "")
    raise AssertionError("an episode without end")


@pytest.mark.parametrize("episodes", [150, nightly(10_000)])
def test_every_episode_is_accounted_for(corpus: Path, episodes: int) -> None:
    env = PhaseOrdering(corpus, max_steps=6)
    expected = [episode(env, number, None)[0] for number in range(SEQUENCES)]
    faults, after_1000 = 0, 0.0
    for number in range(episodes):
        kill_at = random.Random(number).randrange(6) if number % EVERY == EVERY - 1 else None
        size, fault = episode(env, number, kill_at)
        if fault:
            faults += 1
            assert kill_at is not None, f"episode {number}: {fault}"
        else:
            assert size == expected[number % SEQUENCES], f"episode {number}"
        if number == 1000:
            after_1000 = resident_megabytes()
    env.close()
    # An episode may stop before the step at which its compiler is killed.
    assert episodes // EVERY * 0.3 <= faults <= episodes // EVERY
    if after_1000:
        assert resident_megabytes() - after_1000 <= 20
