# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""RLlib's multi-agent PPO for the agents of an optimization, which begins with an imitation of the
built-in heuristic."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from torch import Tensor

from .._core import Signature
from ..compiler_episode import CompilerEpisode
from ..driving import Turn
from ..errors import Error, InvalidArgument
from ..gym.rllib import TurnsEnv
from ..ratio import Ratio
from ..trials import Needs
from . import agent_networks as networks
from . import rllib
from .arguments import checked
from .dataset import HEURISTIC, RANDOM, Costs, Part, prepare, reward, rewards
from .optimizations import TRAINED, TrainedAgents
from .settings import Settings

OWN: dict[str, Any] = {"hiddens": [32, 32], "imitation_epochs": 20, "certainty": 0.98}
#: Compilers that fail one after another end the training.
MOST_FAILURES = 20
#: Decisions with which exported networks are compared.
EXAMPLES = 200


class FunctionsEnv(TurnsEnv):
    """The episodes of Functions for RLlib."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config`: that of Functions."""
        super().__init__(Functions(config))


class Functions:
    """Episodes of the agents: each is the compile of a function. All agents that have decided get
    the same reward at the end, less that of the heuristic, so that functions in which more can be
    gained are no noise; `totals` has it whole. A compile that fails, or has more choices than fit,
    is truncated with the reward 0 and `faults`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """`config`: `optimization`, `functions` with their costs, `rows`, `seed`, and perhaps the
        `content` of their files, for machines that don't have them."""
        optimization = self._optimization = TRAINED[config["optimization"]]
        self._costs: dict[str, Costs] = config["functions"]
        self._written: tempfile.TemporaryDirectory[str] | None = None
        if content := config.get("content"):
            self._costs = self._there(content)
        worker = int(getattr(config, "worker_index", 0))
        self._random = np.random.default_rng((config["seed"], worker))
        self._waiting: list[str] = []
        self._reward = 0.0  # of the episode, whole
        self._most = rows_of(optimization, config["rows"])
        self.names = list(optimization.agents)
        self.observation_spaces, self.action_spaces = spaces_of(optimization, self._most)
        self._episode = CompilerEpisode(
            lambda module, uri, _: optimization.command(module, uri),
            optimization.agents,
            self._measured,
        )
        self.acting, self.done, self.truncated = "", True, False
        self.rewards: dict[str, float] = {}
        self._seen: dict[str, Any] = {}
        self._failed = 0  # compiles of which no episode has come, until the next episode ends
        #: The figures of the last episode.
        self.totals: dict[str, float] = {}

    def _there(self, content: Mapping[str, bytes]) -> dict[str, Costs]:
        """The functions in files of this machine, in the same order."""
        if all(Path(name).is_file() for name in self._costs):
            return self._costs
        self._written = tempfile.TemporaryDirectory(prefix="mlbridge-")
        found = {}
        for number, (name, costs) in enumerate(self._costs.items()):
            file = Path(self._written.name) / f"{number}{Path(name).suffix}"
            file.write_bytes(content[name])
            found[str(file)] = costs
        return found

    def _measured(self, module: str, folder: Path) -> float:
        known, cost = self._costs[module], self._optimization.cost(folder)
        self._reward = reward(self._optimization, known.stock, cost)
        return self._reward - reward(self._optimization, known.stock, known.heuristic)

    def _show(self, turn: Turn) -> None:
        name, mask = turn.agent, turn.observation["action_mask"]
        if mask.size > self._most[name]:
            raise InvalidArgument(f"{name} has more than {self._most[name]} choices")
        rows = networks.ROWS[self._optimization.name][name]
        self._seen[name] = networks.packed(rows, dict(turn.observation), self._most[name])
        self.acting = name

    def reset(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """Begins an episode of the next function, in an order that is new in each round."""
        for failed in range(MOST_FAILURES):
            if not self._waiting:
                self._waiting = list(self._random.permutation(list(self._costs)))
            self._seen, self._reward = {}, 0.0
            self.done = self.truncated = False
            try:
                self._show(self._episode.reset(str(self._waiting.pop()), 0))
                return
            except Error:
                self._failed += 1
                if failed == MOST_FAILURES - 1:
                    raise

    def step(self, action: Any) -> None:
        """Takes the action of the agent that decides."""
        output = self._optimization.agents[self.acting].outputs[0].name
        self.rewards = {}
        try:
            choice = {output: np.int64(action)}
            turn, rewards, self.done = self._episode.step(self.acting, choice)
            if not self.done:
                self._show(turn)
                return
            self.rewards = dict.fromkeys(self._seen, rewards[self.acting])
        except Error:
            self._episode.close()
            self.done = self.truncated = True
        faults, self._failed = self._failed + self.truncated, 0
        self.totals = {"episodes": 1.0, "rewards": self._reward, "faults": float(faults)}

    def observe(self, agent: str) -> Any:
        """The last observation of an agent."""
        return self._seen[agent]

    def observers(self) -> Collection[str]:
        """The agents that have decided."""
        return self._seen

    def info(self, agent: str) -> dict[str, Any]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """Ends the compiler."""
        self._episode.close()
        if self._written:
            self._written.cleanup()


def rows_of(optimization: TrainedAgents, most: int) -> dict[str, int]:
    """The number of rows that each agent's observations have."""
    rows = {}
    for name, signature in optimization.agents.items():
        [mask] = [spec for spec in signature.inputs if spec.name == "action_mask"]
        length = mask.shape[0]
        rows[name] = length if length > 0 else min(most, (mask.maximum or (most,))[0])
    return rows


def ones(signature: Signature) -> dict[str, Any]:
    """Inputs that an agent might be shown, of two rows where their number isn't fixed."""
    return {
        spec.name: np.ones([length if length > 0 else 2 for length in spec.shape], spec.type)
        for spec in signature.inputs
    }


def spaces_of(
    optimization: TrainedAgents, most: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spaces of the agents' observations, and of their actions."""
    seen, acts = {}, {}
    for name, signature in optimization.agents.items():
        rows = networks.ROWS[optimization.name][name]
        shape = networks.packed(rows, ones(signature), most[name]).shape
        seen[name] = spaces.Box(-np.inf, np.inf, shape, np.float32)
        acts[name] = spaces.Discrete(most[name])
    return seen, acts


class AgentModule(TorchRLModule, ValueFunctionAPI):
    """The network of an agent: a score for each row, and apart from it the value."""

    def setup(self) -> None:
        """Makes the layers."""
        columns = self.observation_space.shape[-1] - 1
        self.scores = networks.Scores(columns, self.model_config["hiddens"])
        self.value = networks.Value(columns, self.model_config["hiddens"])

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.scores(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """The value of each state of the batch."""
        value: Tensor = self.value(batch[Columns.OBS])
        return value


class _Runner(rllib.KeepsError, MultiAgentEnvRunner):
    pass


class _Ended(RLlibCallback):
    """Collects the totals of episodes."""

    def on_episode_end(self, *, env: Any, env_index: int, metrics_logger: Any, **_: Any) -> None:
        """Adds those of one episode."""
        for key, value in env.envs[env_index].unwrapped.turns.totals.items():
            metrics_logger.log_value(f"{rllib.OURS}{key}", value, reduce="sum")


def configured(stated: Settings) -> PPOConfig:
    """PPO with the settings, but OWN. RLlib raises TypeError for names that it does not have."""
    settings = stated.settings
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
    """The options of the environment, with their defaults."""
    return {"corpus": corpus, "part": part, "functions": functions, "rows": rows}


def needs_of(optimization: TrainedAgents) -> Needs:
    """What a node must have for its environments."""
    programs = ("opt-22", "llc-22", "llvm-mca-22")
    return Needs(programs=programs, plugins=(optimization.name,))


class Trainer(rllib.Iterations):
    """The first iteration is the imitation, the others are RLlib's."""

    def __init__(self, settings: Settings, address: str = "") -> None:
        """`settings.environment` is the name of an optimization."""
        checked(_options, settings.options, settings.environment)
        options, self._seed = _options(**settings.options), settings.seed
        for name in ("functions", "rows"):
            if options[name] < 2:
                raise InvalidArgument(f"{name} is {options[name]}; expected a number from 2")
        given = settings.settings
        self._own = OWN | {name: given[name] for name in OWN if name in given}
        config = configured(settings)
        self._optimization = optimization = TRAINED[settings.environment]
        self._imitation: dict[str, Any] | None = None  # the networks after it
        torch.manual_seed(settings.seed)
        torch.set_num_threads(1)
        with ExitStack() as started:
            folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="mlbridge-")))
            self.prepared = prepare(
                optimization, options["corpus"], folder / "functions", part=options["part"],
                functions=options["functions"], rows=options["rows"], seed=settings.seed,
            )  # fmt: skip
            self._most = rows_of(optimization, options["rows"])
            seen, acts = spaces_of(optimization, self._most)
            rllib.start_ray(started, settings, address, needs_of(optimization))
            modules = {
                name: RLModuleSpec(
                    module_class=AgentModule,
                    observation_space=seen[name],
                    action_space=acts[name],
                    model_config={"hiddens": list(self._own["hiddens"])},
                )
                for name in optimization.agents
            }
            functions = {
                "optimization": settings.environment,
                "functions": self.prepared.training.functions,
                "rows": options["rows"],
                "seed": settings.seed,
            }
            if address:  # whose nodes do not have the files
                listed = self.prepared.training.functions
                functions["content"] = {name: Path(name).read_bytes() for name in listed}
            config = (
                config.environment(FunctionsEnv, env_config=functions)
                .env_runners(env_runner_cls=_Runner, batch_mode="complete_episodes")
                .multi_agent(
                    policies=set(optimization.agents),
                    policy_mapping_fn=lambda agent, *_, **__: agent,
                )
                .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=modules))
            )
            self._build(started, config, settings, _Ended)

    def _learned(self, part: Part, agent: str) -> tuple[Any, Any]:
        rows = networks.ROWS[self._optimization.name][agent]
        return networks.learned(rows, part.decisions[agent], self._most[agent])

    def iterate(self) -> tuple[int, dict[str, float]]:
        """Trains for an iteration. `agreement` of the imitation is the share of the heuristic's
        decisions that it makes in functions kept apart, or in those learned if there are none."""
        if self._imitation is not None:
            return super().iterate()
        same = count = 0
        for name in self._optimization.agents:
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
        self._imitation = self._scores()
        return 0, {"agreement": same / max(1, count)}

    def _module(self, agent: str) -> Any:
        [module] = self._algo.learner_group.foreach_learner(lambda learner: learner.module[agent])
        return module.get()

    def _scores(self) -> dict[str, Any]:
        return {
            name: copy.deepcopy(self._module(name).scores) for name in self._optimization.agents
        }

    def save(self, folder: Path) -> None:
        """Writes a checkpoint."""
        super().save(folder)
        assert self._imitation is not None
        states = {name: network.state_dict() for name, network in self._imitation.items()}
        torch.save(states, folder / "imitation.pt")

    def load(self, folder: Path) -> None:
        """Goes on from a checkpoint."""
        super().load(folder)
        self._imitation = self._scores()
        for name, state in torch.load(folder / "imitation.pt", weights_only=True).items():
            self._imitation[name].load_state_dict(state)

    def export(self, path: Path, metadata: Mapping[str, str]) -> tuple[Path, list[str]]:
        """Writes AGENT.onnx for each agent, and those of the imitation into a folder of their own;
        the card has the costs of both and of the heuristic."""
        uris = {"random": RANDOM, "the heuristic": HEURISTIC}
        for when, place, trained in (
            ("its imitation", path / "imitation", self._imitation or {}),
            ("after PPO", path, self._scores()),
        ):
            place.mkdir(exist_ok=True)
            for name, network in trained.items():
                decisions = self.prepared.training.decisions[name]
                signature = self._optimization.agents[name]
                networks.export(
                    network, networks.ROWS[self._optimization.name][name], signature,
                    [seen for seen, _ in decisions[:EXAMPLES]] or [ones(signature)],
                    metadata, place / f"{name}.onnx",
                )  # fmt: skip
            uris[when] = f"native:{place.absolute()}/{{agent}}.onnx"
        parts = {"learned": self.prepared.training, "kept apart": self.prepared.apart}
        lines = [
            f"Costs ({self._optimization.unit}) over those of stock LLVM, function by function:"
            " geometric means, with 95 % intervals if there are several functions.",
            "",
            "| functions | " + " | ".join(uris) + " |",
            "|---|" + "---|" * len(uris),
        ]
        with tempfile.TemporaryDirectory(prefix="mlbridge-") as folder:
            for what, part in parts.items():
                cells = []
                for uri in uris.values():
                    gains = rewards(self._optimization, part, uri, Path(folder))
                    ratio = Ratio.of(math.exp(-gain) for gain in gains)
                    cells.append(str(ratio) if ratio else "none")
                lines.append(f"| {len(part.functions)} {what} | {' | '.join(cells)} |")
        if out := self.prepared.left_out:
            lines += ["", "Left out: " + "; ".join(f"{n} {why}" for why, n in out.items()) + "."]
        return path / "{agent}.onnx", lines
