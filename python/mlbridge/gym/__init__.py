# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environments in compilers as Gymnasium, PettingZoo and RLlib know them (docs/gymnasium.md).

`make(URI)` takes any environment with one agent that a compiler serves; `aec`, `parallel` and
`rllib` one with several. `gymnasium.make("mlbridge/PhaseOrdering-v0", corpus=…)` starts its own.
Needs `pip install '.[gym]'` in the source tree, and `rllib` Ray.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register

from .compiler import CompilerEnv, make
from .layout import Layout
from .phase_ordering import PhaseOrdering
from .vector import CompilerVectorEnv

if TYPE_CHECKING:
    from .pettingzoo import CompilerAEC, CompilerParallel
    from .rllib import CompilerMultiAgent

__all__ = [
    "CompilerEnv",
    "CompilerVectorEnv",
    "Layout",
    "PhaseOrdering",
    "aec",
    "make",
    "parallel",
    "rllib",
]


def phase_ordering_vector(num_envs: int = 1, **options: Any) -> CompilerVectorEnv:
    """`num_envs` environments of phase ordering, for gymnasium.make_vec, with the same options."""
    return CompilerVectorEnv([lambda: PhaseOrdering(**options)] * num_envs)


register(
    "mlbridge/PhaseOrdering-v0",
    entry_point="mlbridge.gym.phase_ordering:PhaseOrdering",
    vector_entry_point="mlbridge.gym:phase_ordering_vector",
)


def aec(uri: str, **options: Any) -> CompilerAEC:
    """The environment at `uri` as PettingZoo's AECEnv; options are those of Agents."""
    from .pettingzoo import CompilerAEC

    return CompilerAEC(uri, **options)


def parallel(uri: str, **options: Any) -> CompilerParallel:
    """The environment at `uri` as PettingZoo's ParallelEnv; options are those of Agents."""
    from .pettingzoo import CompilerParallel

    return CompilerParallel(uri, **options)


def rllib(uri: str, **options: Any) -> CompilerMultiAgent:
    """The environment at `uri` as RLlib's MultiAgentEnv; options are those of Agents."""
    from .rllib import CompilerMultiAgent

    return CompilerMultiAgent({"uri": uri, **options})
