# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""RLlib's default networks with the action mask obeyed: forbidden actions are never taken and never
the best ones of a next state.

The mask is the end of the observation (AsVector); the networks do not see it.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from ray.rllib.algorithms.appo.torch.default_appo_torch_rl_module import DefaultAPPOTorchRLModule
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS
from torch import Tensor

OBS, LOGITS = "obs", "action_dist_inputs"
FORBIDDEN = -1.0e9
Batch = dict[str, Any]


class _Masked:
    """Takes the mask from observations before the networks see them."""

    def __init__(self, *, observation_space: Any, action_space: Any, **options: Any) -> None:
        self._choices = int(action_space.n)
        seen = observation_space.low[: -self._choices], observation_space.high[: -self._choices]
        options |= {"observation_space": spaces.Box(*seen), "action_space": action_space}
        super().__init__(**options)

    def _split(self, batch: Batch) -> tuple[Batch, Tensor]:
        vector = batch[OBS]
        mask = vector[..., -self._choices :] > 0
        mask = mask | ~mask.any(-1, keepdim=True)  # in a state with nothing left to decide
        return {**batch, OBS: vector[..., : -self._choices]}, mask


class _MaskedPolicy(_Masked):
    def _forward(self, batch: Batch, **options: Any) -> Batch:
        return self._masked("_forward", batch, **options)

    def _forward_train(self, batch: Batch, **options: Any) -> Batch:
        return self._masked("_forward_train", batch, **options)

    def _masked(self, forward: str, batch: Batch, **options: Any) -> Batch:
        inner, mask = self._split(batch)
        results: Batch = getattr(super(), forward)(inner, **options)
        for key in results.keys() & {LOGITS, TARGET_NETWORK_ACTION_DIST_INPUTS}:
            results[key] = torch.where(mask, results[key], FORBIDDEN)
        return results

    def compute_values(self, batch: Batch, embeddings: Any = None) -> Any:
        values: Any = super()
        return values.compute_values(self._split(batch)[0], embeddings)


class MaskedPPO(_MaskedPolicy, DefaultPPOTorchRLModule):
    """The network of PPO and A2C."""


class MaskedAPPO(_MaskedPolicy, DefaultAPPOTorchRLModule):
    """The network of APPO."""

    def forward_target(self, batch: Batch) -> Batch:
        """The logits of the policy before the last updates."""
        return self._masked("forward_target", batch)


class MaskedDQN(_Masked, DefaultDQNTorchRLModule):
    """The network of DQN."""

    def _qf_forward_helper(self, batch: Batch, encoder: Any, head: Any) -> Batch:
        inner, mask = self._split(batch)
        results: Batch = super()._qf_forward_helper(inner, encoder, head)
        # RLlib draws random actions from what is not -inf.
        results["qf_preds"] = torch.where(mask, results["qf_preds"], -torch.inf)
        return results
