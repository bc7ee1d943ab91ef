# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The agents of an optimization by RLlib's multi-agent PPO, which begins with an imitation of the
built-in heuristic."""

from __future__ import annotations

import copy
import logging
import math
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from torch import Tensor

from .._core import Signature
from ..compiler_episode import CompilerEpisode
from ..errors import Error, InvalidArgument
from ..ratio import Ratio
from . import agent_networks as networks
from . import rllib
from .arguments import checked
from .cluster import connect
from .dataset import HEURISTIC, RANDOM, Costs, Part, prepare, reward, rewards
from .optimizations import OPTIMIZATIONS, Optimization

OWN: dict[str, Any] = {"hiddens": [32, 32], "imitation_epochs": 20, "certainty": 0.98}
#: Compilers that fail one after another end the training.
MOST_FAILURES = 20
#: Decisions with which exported networks are compared.
EXAMPLES = 200


class CompilerAgents(MultiAgentEnv):
    """An episode is the compile of a function. Only the agent that decides observes; all that have
    decided get the same reward at the end, less that of the heuristic, so that functions in which
    more can be gained are no noise; `totals` has it whole. A compile that fails, or has more
    choices than fit, is truncated with the reward 0 and `faults`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config`: `optimization`, `functions` with their costs, `rows`, `seed`."""
        super().__init__()
        its = self._its = OPTIMIZATIONS[config["optimization"]]
        self._costs: dict[str, Costs] = config["functions"]
        worker = int(getattr(config, "worker_index", 0))
        self._random = np.random.default_rng((config["seed"], worker))
        self._waiting: list[str] = []
        self._plain = 0.0
        self._most = rows_of(its, config["rows"])
        self.possible_agents = self.agents = list(its.agents)
        self.observation_spaces, self.action_spaces = spaces_of(its, self._most)
        self._compiling = CompilerEpisode(
            lambda module, uri, _: its.command(module, uri), its.agents, self._measured
        )
        self._acting = ""
        self._seen: dict[str, Any] = {}
        self._failed = 0  # compiles of which no episode has come, until the next episode ends
        #: Of the last episode.
        self.totals: dict[str, float] = {}

    def _measured(self, module: str, folder: Path) -> float:
        known, cost = self._costs[module], self._its.cost(folder)
        self._plain = reward(self._its, known.stock, cost)
        return self._plain - reward(self._its, known.stock, known.heuristic)

    def _shown(self, turn: Any) -> dict[str, Any]:
        most, rows = self._most[turn.agent], networks.ROWS[self._its.name][turn.agent]
        if turn.observation["action_mask"].size > most:
            raise InvalidArgument(f"{turn.agent} has more than {most} choices")
        self._acting = turn.agent
        self._seen[turn.agent] = seen = networks.packed(rows, turn.observation, most)
        return {turn.agent: seen}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The next function, in an order that is new in each round."""
        for failed in range(MOST_FAILURES):
            if not self._waiting:
                self._waiting = list(self._random.permutation(list(self._costs)))
            self._seen, self._plain = {}, 0.0
            try:
                return self._shown(self._compiling.reset(str(self._waiting.pop()), 0)), {}
            except Error:
                self._failed += 1
                if failed == MOST_FAILURES - 1:
                    raise
        raise AssertionError

    def step(self, action_dict: dict[str, Any]) -> tuple[Any, Any, Any, Any, Any]:
        """The action of the agent that decides."""
        agent, total, fault = self._acting, 0.0, False
        output = self._its.agents[agent].outputs[0].name
        turn, done = None, False
        try:
            choice = {output: np.int64(action_dict[agent])}
            turn, rewards, done = self._compiling.step(agent, choice)
            if not done:
                goes_on = {"__all__": False}
                return self._shown(turn), {self._acting: 0.0}, goes_on, goes_on, {}
            total = rewards[agent]
        except Error:
            self._compiling.close()
            fault = True
        faults, self._failed = self._failed + fault, 0
        self.totals = {"episodes": 1.0, "rewards": self._plain, "faults": float(faults)}
        seen = self._seen
        given = dict.fromkeys(seen, total)
        ends = [*seen, "__all__"]
        return seen, given, dict.fromkeys(ends, not fault), dict.fromkeys(ends, fault), {}

    def close(self) -> None:
        """Ends the compiler."""
        self._compiling.close()


def rows_of(its: Optimization, most: int) -> dict[str, int]:
    """How many rows an agent's observations have."""
    found = {}
    for name, signature in its.agents.items():
        [mask] = [spec for spec in signature.inputs if spec.name == "action_mask"]
        length = mask.shape[0]
        found[name] = length if length > 0 else min(most, (mask.maximum or (most,))[0])
    return found


def ones(signature: Signature) -> dict[str, Any]:
    """Inputs that an agent might be shown, of two rows where their number isn't fixed."""
    return {
        spec.name: np.ones([length if length > 0 else 2 for length in spec.shape], spec.type)
        for spec in signature.inputs
    }


def spaces_of(its: Optimization, most: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of observations, and of actions."""
    seen, acts = {}, {}
    for name, signature in its.agents.items():
        shape = networks.packed(networks.ROWS[its.name][name], ones(signature), most[name]).shape
        seen[name] = spaces.Box(-np.inf, np.inf, shape, np.float32)
        acts[name] = spaces.Discrete(most[name])
    return seen, acts


class AgentModule(TorchRLModule, ValueFunctionAPI):
    """One agent: a score for each row, and apart from it the value."""

    def setup(self) -> None:
        """Makes the layers."""
        columns = self.observation_space.shape[-1] - 1
        self.scores = networks.Scores(columns, self.model_config["hiddens"])
        self.value = networks.Value(columns, self.model_config["hiddens"])

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.scores(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """Of the states."""
        value: Tensor = self.value(batch[Columns.OBS])
        return value


class _Runner(rllib.KeepsError, MultiAgentEnvRunner):
    pass


class _Ended(RLlibCallback):
    """Collects what the episodes came to."""

    def on_episode_end(self, *, env: Any, env_index: int, metrics_logger: Any, **_: Any) -> None:
        """Of one episode."""
        for key, value in env.envs[env_index].unwrapped.totals.items():
            metrics_logger.log_value(f"{rllib.OURS}{key}", value, reduce="sum")


def configured(settings: Mapping[str, Any]) -> PPOConfig:
    """With the settings, but OWN. RLlib raises TypeError for names that it does not have."""
    config = PPOConfig().training(
        train_batch_size_per_learner=2048, num_epochs=4, lr=3e-4, gamma=1.0, lambda_=1.0,
        clip_param=0.1, grad_clip=1.0, entropy_coeff=0.0,
    )  # fmt: skip
    epochs = settings.get("imitation_epochs", 1)
    if type(epochs) is not int or epochs < 1:
        raise InvalidArgument(f"imitation_epochs is {epochs!r}; expected a number from 1")
    certainty = settings.get("certainty", 0.5)
    if not isinstance(certainty, float) or not 0 < certainty < 1:
        raise InvalidArgument(f"certainty is {certainty!r}; expected a number between 0 and 1")
    if "hiddens" in settings and not settings["hiddens"]:
        raise InvalidArgument("hiddens is []; expected a layer at least, such as [32,32]")
    given = {name: value for name, value in settings.items() if name not in OWN}
    for name, value in given.items():
        if isinstance(getattr(config, name, None), int | float) and isinstance(value, str):
            raise InvalidArgument(f"{name} is {value!r}; expected a number")
    batch = given.get("train_batch_size_per_learner", config.train_batch_size_per_learner)
    return config.training(**{"minibatch_size": min(256, batch), **given})


def _options(
    corpus: str | list[str], part: str = "", functions: int = 64, rows: int = 256
) -> dict[str, Any]:
    """Those of the environment."""
    return {"corpus": corpus, "part": part, "functions": functions, "rows": rows}


class Trainer(rllib.Trainer):
    """The first iteration is the imitation, the others are RLlib's."""

    def __init__(
        self,
        environment: str,
        options: Mapping[str, Any],
        *,
        workers: int,
        seed: int,
        settings: Mapping[str, Any],
        address: str = "",
    ) -> None:
        """As of rllib.Trainer; `environment` is the name of an optimization."""
        checked(_options, options, environment)
        of, self._steps, self._seed = _options(**options), 0, seed
        for name in ("functions", "rows"):
            if of[name] < 2:
                raise InvalidArgument(f"{name} is {of[name]}; expected a number from 2")
        self._own = OWN | {name: settings[name] for name in OWN if name in settings}
        config = configured(settings)
        self._its = its = OPTIMIZATIONS[environment]
        self._begun: dict[str, Any] | None = None  # the imitation, when it is there
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        for library in ("ray", "ray.rllib"):  # errors come as exceptions
            logging.getLogger(library).setLevel(logging.CRITICAL)
        with ExitStack() as started:
            folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="mlbridge-")))
            self.prepared = prepare(
                its, of["corpus"], folder / "functions", part=of["part"],
                functions=of["functions"], rows=of["rows"], seed=seed,
            )  # fmt: skip
            self._most = rows_of(its, of["rows"])
            seen, acts = spaces_of(its, self._most)
            if not ray.is_initialized():
                started.callback(ray.shutdown)
                connect(address, workers + 1)
            modules = {
                name: RLModuleSpec(
                    module_class=AgentModule,
                    observation_space=seen[name],
                    action_space=acts[name],
                    model_config={"hiddens": list(self._own["hiddens"])},
                )
                for name in its.agents
            }
            functions = self.prepared.training.functions
            config = (
                config.environment(
                    CompilerAgents,
                    env_config={
                        "optimization": environment, "functions": functions, "rows": of["rows"],
                        "seed": seed,
                    },
                )
                .env_runners(
                    num_env_runners=workers, env_runner_cls=_Runner,
                    batch_mode="complete_episodes",
                )
                .multi_agent(
                    policies=set(its.agents), policy_mapping_fn=lambda agent, *_, **__: agent
                )
                .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
                .fault_tolerance(restart_failed_env_runners=True)
                .callbacks(_Ended)
                .debugging(seed=seed, log_level="CRITICAL")
            )  # fmt: skip
            self._algo = rllib.watched(config).build_algo()
            started.callback(self._algo.stop)
            self._started = started.pop_all()

    def _learned(self, part: Part, agent: str) -> tuple[Any, Any]:
        rows = networks.ROWS[self._its.name][agent]
        return networks.learned(rows, part.decisions[agent], self._most[agent])

    def iterate(self) -> tuple[int, dict[str, float]]:
        """As of rllib.Trainer; of the imitation `agreement` is the share of decisions of functions
        kept apart that are made as the heuristic does, or of those learned if there are none."""
        if self._begun is not None:
            return super().iterate()
        same = count = 0
        for name in self._its.agents:
            if not self.prepared.training.decisions[name]:
                continue
            scores = self._module(name).scores
            given = self._learned(self.prepared.training, name)
            networks.imitate(scores, *given, self._own["imitation_epochs"], self._seed)
            networks.temper(scores, given[0], self._own["certainty"])
            if self.prepared.apart.decisions[name]:
                given = self._learned(self.prepared.apart, name)
            same += networks.agreement(scores, *given)
            count += len(given[1])
        self._algo.env_runner_group.sync_weights(
            from_worker_or_learner_group=self._algo.learner_group, inference_only=True
        )
        self._begun = self._scores()
        return 0, {"agreement": same / max(1, count)}

    def _module(self, agent: str) -> Any:
        [module] = self._algo.learner_group.foreach_learner(lambda its: its.module[agent])
        return module.get()

    def _scores(self) -> dict[str, Any]:
        return {name: copy.deepcopy(self._module(name).scores) for name in self._its.agents}

    def save(self, folder: Path) -> None:
        """A checkpoint."""
        super().save(folder)
        assert self._begun is not None
        states = {name: network.state_dict() for name, network in self._begun.items()}
        torch.save(states, folder / "imitation.pt")

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        super().load(folder)
        self._begun = self._scores()
        for name, state in torch.load(folder / "imitation.pt", weights_only=True).items():
            self._begun[name].load_state_dict(state)

    def export(self, path: Path, metadata: Mapping[str, str]) -> list[str]:
        """AGENT.onnx for each agent, and the same of the imitation in a folder of its own; lines of
        Markdown with what they and the heuristic cost."""
        uris = {"random": RANDOM, "the heuristic": HEURISTIC}
        for what, place, of in (
            ("its imitation", path / "imitation", self._begun or {}),
            ("after PPO", path, self._scores()),
        ):
            place.mkdir(exist_ok=True)
            for name, network in of.items():
                made = self.prepared.training.decisions[name]
                signature = self._its.agents[name]
                networks.export(
                    network, networks.ROWS[self._its.name][name], signature,
                    [seen for seen, _ in made[:EXAMPLES]] or [ones(signature)],
                    metadata, place / f"{name}.onnx",
                )  # fmt: skip
            uris[what] = f"native:{place.absolute()}/{{agent}}.onnx"
        parts = {"learned": self.prepared.training, "kept apart": self.prepared.apart}
        lines = [
            f"Costs ({self._its.unit}) over those of stock LLVM, function by function: geometric"
            " means, with 95 % intervals if there are several functions.",
            "",
            "| functions | " + " | ".join(uris) + " |",
            "|---|" + "---|" * len(uris),
        ]
        with tempfile.TemporaryDirectory(prefix="mlbridge-") as folder:
            for what, part in parts.items():
                cells = []
                for uri in uris.values():
                    found = rewards(self._its, part, uri, Path(folder))
                    ratio = Ratio.of(math.exp(-its) for its in found)
                    cells.append(str(ratio) if ratio else "none")
                lines.append(f"| {len(part.functions)} {what} | {' | '.join(cells)} |")
        if out := self.prepared.left_out:
            lines += ["", "Left out: " + "; ".join(f"{n} {why}" for why, n in out.items()) + "."]
        return lines
