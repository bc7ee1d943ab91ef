# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""RLlib's algorithms, on this machine or a Ray cluster."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import ray
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.appo.torch.appo_torch_learner import APPOTorchLearner
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from torch import Tensor, nn

from .. import cluster
from ..cluster import connect
from ..errors import Error, InvalidArgument, PolicyFailed, Unavailable
from ..trials import Needs
from .arguments import one_line
from .environment import VectorTrainer, make, needs_of
from .masking import MaskedAPPO, MaskedDQN, MaskedPPO
from .settings import Settings

MASKED = {"ppo": MaskedPPO, "a2c": MaskedPPO, "appo": MaskedAPPO, "dqn": MaskedDQN}
OURS = "mlbridge_"
PATIENCE = 180.0  # seconds, if no env runner answers
RESUME = "--resume goes on from the last checkpoint"


class _Learner(APPOTorchLearner):
    """Raises what ends APPO's thread of updates; RLlib's waits for that thread for ever."""

    _died: BaseException | None = None

    def build(self) -> None:
        """Starts the thread."""
        super().build()
        hook = threading.excepthook

        def ended(failure: Any) -> None:
            if failure.thread is self._learner_thread:
                self._died = failure.exc_value
                self._agg_event.set()  # for which `update` may be waiting
            else:
                hook(failure)

        threading.excepthook = ended

    def update(self, *given: Any, **named: Any) -> Any:
        """Gives the thread a batch."""
        losses = super().update(*given, **named)
        if self._died is not None:
            raise self._died
        return losses


class KeepsError:
    """An env runner that keeps the error of its environment. RLlib's own ends with the error, and
    is started again for ever."""

    error: Error | None = None

    def apply(self, func: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Runs whatever RLlib has it do."""
        try:
            return func(self, *given, **named)
        except Exception as error:
            why = error.__cause__ or error  # RLlib's own says nothing of a step
            self.error = why if isinstance(why, Error) else PolicyFailed(ending("env runner", why))
            raise


class _Runner(KeepsError, SingleAgentEnvRunner):
    pass


def ending(who: str, error: BaseException) -> str:
    """The message of a training that ends with an error of RLlib."""
    error = getattr(error, "cause", error)  # Ray's errors have the traceback of another process
    why = f"{type(error).__name__}: {one_line(error)}"[:1000]
    return f"the {who} has ended: {why}; {RESUME}"


class _Watched:
    """An algorithm of RLlib that ends if all its env runners are gone for good."""

    _alone: float | None = None  # the time since which none has answered

    def restore_env_runners(self, env_runner_group: Any) -> list[int]:
        """Called before each step; the env runners that answer again, of which some only failed."""
        group, rllibs = env_runner_group, cast(Any, super())
        restored: list[int] = rllibs.restore_env_runners(group)
        if restored:
            for error in group.foreach_env_runner(
                lambda runner: runner.error, remote_worker_ids=restored, local_env_runner=False
            ):
                if error is not None:
                    raise error
        if group.num_healthy_remote_env_runners() or not group.num_remote_env_runners():
            self._alone = None
        elif self._alone is None:
            self._alone = time.monotonic()
        elif time.monotonic() > self._alone + PATIENCE:
            raise Unavailable(f"no env runner has answered for {PATIENCE:g} s; {RESUME}")
        else:
            time.sleep(0.5)
        return restored


def watched(config: AlgorithmConfig) -> AlgorithmConfig:
    """Makes the algorithm a _Watched one."""
    rllibs = config.algo_class
    config.algo_class = type(rllibs.__name__, (_Watched, rllibs), {})
    return config


class _Ended(RLlibCallback):
    """Collects the totals of episodes."""

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **_: Any) -> None:
        """Adds those of one episode."""
        for key, value in episode.get_infos(-1)["totals"].items():
            metrics_logger.log_value(f"{OURS}{key}", value, reduce="sum")


def config_of(algorithm: str) -> AlgorithmConfig:
    """The algorithm's defaults. A2C is PPO that uses a batch once, whole and unclipped."""
    if algorithm == "ppo":
        return PPOConfig().training(
            train_batch_size_per_learner=512, minibatch_size=128, num_epochs=8, lr=3e-4,
            entropy_coeff=0.01,
        )  # fmt: skip
    if algorithm == "a2c":
        return PPOConfig().training(
            train_batch_size_per_learner=128, minibatch_size=128, num_epochs=1, lr=7e-4,
            clip_param=1e9, vf_clip_param=1e9, use_kl_loss=False, entropy_coeff=0.01,
        )  # fmt: skip
    if algorithm == "appo":
        appo = APPOConfig().training(train_batch_size_per_learner=512, lr=3e-4)
        # This process samples too, if all env runners are being started again.
        appo.env_runners(create_env_on_local_worker=True)
        return appo.learners(learner_class=_Learner)
    dqn = DQNConfig().training(
        lr=5e-4, double_q=True, dueling=True, n_step=1, train_batch_size_per_learner=64,
        num_steps_sampled_before_learning_starts=500, target_network_update_freq=500,
        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 50_000},
        epsilon=[(0, 1.0), (10_000, 0.05)],
    )  # fmt: skip
    dqn.env_runners(rollout_fragment_length=4)  # steps between two updates
    return dqn.reporting(min_sample_timesteps_per_iteration=500)


def configured(settings: Settings) -> AlgorithmConfig:
    """The algorithm with its settings. RLlib raises TypeError for names that it does not have."""
    algorithm, others = settings.algorithm, dict(settings.settings)
    config = config_of(algorithm)
    shape = {f"fcnet_{k}": others.pop(k) for k in ("hiddens", "activation") if k in others}
    for name, value in others.items():
        if isinstance(getattr(config, name, None), int | float) and isinstance(value, str):
            raise InvalidArgument(f"{name} of {algorithm} is {value!r}; expected a number")
    return config.training(**others).rl_module(model_config=DefaultModelConfig(**shape))


class _Values(nn.Module):
    """The logits of a policy, or the advantages of DQN."""

    def __init__(self, module: Any, algorithm: str) -> None:
        super().__init__()
        self.module, self.is_dqn = module, algorithm == "dqn"

    def forward(self, vector: Tensor) -> Tensor:
        if self.is_dqn:  # the advantages alone: all choices share the value of the state
            values: Tensor = self.module.af(self.module.encoder({"obs": vector})["encoder_out"])
        else:
            encoded = self.module.encoder({"obs": vector})["encoder_out"]["actor"]
            values = self.module.pi(encoded)
        return values


def start_ray(started: ExitStack, settings: Settings, address: str, needs: Needs) -> None:
    """Connects to the cluster at `address`, or starts Ray here, which `started` ends. Unavailable
    if a node of the cluster lacks what its environments need."""
    for library in ("ray", "ray.rllib"):  # errors come as exceptions
        logging.getLogger(library).setLevel(logging.CRITICAL)
    if not ray.is_initialized():
        started.callback(ray.shutdown)
        connect(address, settings.workers + 1)
    if address:
        cluster.check(needs)


class Iterations:
    """One iteration is one of RLlib's. Env runners that die are started again."""

    _algo: Any
    _started: ExitStack  # everything that close() ends
    _steps = 0

    def _build(
        self, started: ExitStack, config: AlgorithmConfig, settings: Settings, ended: Any
    ) -> None:
        """`ended`: the callback that collects totals."""
        config = (
            config.env_runners(num_env_runners=settings.workers)
            .fault_tolerance(restart_failed_env_runners=True)
            .callbacks(ended)
            .debugging(seed=settings.seed, log_level="CRITICAL")
        )
        self._algo = watched(config).build_algo()
        started.callback(self._algo.stop)
        self._started = started.pop_all()

    def iterate(self) -> tuple[int, dict[str, float]]:
        """Trains for an iteration. Raises errors of an environment, and PolicyFailed or Unavailable
        if a part of RLlib has ended."""
        before = self._steps
        while self._steps == before:  # all env runners may have been killed
            try:
                result = self._algo.train()
            except Error:
                raise
            except Exception as error:
                raise PolicyFailed(ending("learner", error)) from error
            self._steps = int(result.get("num_env_steps_sampled_lifetime", 0))
        totals: dict[str, float] = {}
        for key, value in result["env_runners"].items():
            if key.startswith(OURS) and not math.isnan(value):  # NaN if no episode ended
                totals[key.removeprefix(OURS)] = float(value)
        return self._steps, totals

    def save(self, folder: Path) -> None:
        """Writes a checkpoint."""
        self._algo.save_to_path(folder.resolve())

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        self._algo.restore_from_path(folder.resolve())

    def close(self) -> None:
        """Ends the compilers, and Ray if it was started here."""
        self._started.close()


class Trainer(Iterations, VectorTrainer):
    """RLlib's algorithms on environments with one agent."""

    def __init__(self, settings: Settings, address: str = "") -> None:
        """`settings.workers`: remote env runners; 0 keeps all in this process, which the same seed
        then makes reproducible. `address`: that of a Ray cluster."""
        config = configured(settings)
        environment, options = settings.environment, settings.options
        with ExitStack() as started:
            VectorTrainer.__init__(self, settings, masked=True)
            started.callback(self.example.close)
            start_ray(started, settings, address, needs_of(settings))
            ray.tune.register_env(
                "mlbridge", lambda config: make(environment, {**options, **config}, masked=True)
            )
            config = config.environment("mlbridge").env_runners(env_runner_cls=_Runner)
            if self.example.has_mask:
                module = RLModuleSpec(module_class=MASKED[settings.algorithm])
                config = config.rl_module(rl_module_spec=module)
            self._build(started, config, settings, _Ended)
        buffer = getattr(self._algo, "local_replay_buffer", None)
        if buffer is not None:
            buffer.rng = np.random.default_rng(settings.seed)  # RLlib does not seed it

    def network(self) -> nn.Module:
        """The layers of the policy, or of DQN's advantages."""
        return _Values(self._algo.get_module(), self._settings.algorithm)
