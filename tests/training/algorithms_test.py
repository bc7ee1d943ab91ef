# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every algorithm, from modules to what stock clang decides. Nightly: needs build/venv-train."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import below

from mlbridge import Unavailable
from mlbridge.training.run import train
from mlbridge.training.settings import Settings

pytestmark = [pytest.mark.nightly, pytest.mark.training]


def command(algorithm: str, steps: int, module: Path, out: Path, *more: str) -> list[str]:
    train = [sys.executable, "-m", "mlbridge", "train", "phase-ordering", "--corpus", str(module)]
    return [*train, "--algorithm", algorithm, "--steps", str(steps), "-o", str(out), *more]


def trained(algorithm: str, steps: int, module: Path, out: Path, *more: str) -> list[Any]:
    """The rows of progress, without their times."""
    asked = command(algorithm, steps, module, out, *more)
    temporary = out.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    env = dict(os.environ)
    if algorithm == "maskable-ppo":  # paths of Ray's sockets must be short
        env["TMPDIR"] = str(temporary)
    done = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not [*temporary.glob("SB3-*")], "which Stable-Baselines3 would leave there"
    assert "warning" not in done.stderr.lower(), "which nobody who trains can heed"
    rows = [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def decisions(model: str, module: Path, folder: Path) -> tuple[str, bytes]:
    """The remarks and the object of stock clang."""
    flags = [sys.executable, "-m", "mlbridge", "flags", "phase-ordering", "--model", model]
    line = subprocess.run(flags, capture_output=True, text=True, check=True).stdout.split()
    out = folder / "out.o"
    compile_ = ["clang-22", *line, "-Oz", "-Rpass=phase-ordering", "-c", "-o", str(out)]
    source = str(module.with_suffix(".c"))
    done = subprocess.run([*compile_, source], capture_output=True, text=True, check=True)
    return done.stderr, out.read_bytes()


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("maskable-ppo", ["--workers", "2"]),
        ("maskable-ppo", ["--observation", "ir2vec"]),
        ("ppo", ["--workers", "1"]),
        ("appo", ["--workers", "1"]),
        ("dqn", ["--workers", "0"]),
        ("a2c", ["--workers", "0"]),
        ("imitation", ["--set", "episodes=30", "--set", "tries=3"]),
    ],
)
def test_from_modules_to_clang(
    module: Path, tmp_path: Path, algorithm: str, more: list[str]
) -> None:
    rows = trained(algorithm, 600, module, tmp_path / "t", *more)
    assert rows[-1]["steps"] >= 600 and sum(row["episodes"] for row in rows) > 0
    assert sum(row["faults"] for row in rows) == 0
    for name in ("README.md", "curve.png", "policy.onnx", "tensorboard"):
        assert (tmp_path / "t" / name).exists(), name
    policy = tmp_path / "t" / "policy.onnx"
    said, made = decisions(f"onnx:{policy}", module, tmp_path)
    assert "step 0: " in said
    assert decisions(f"native:{policy}", module, tmp_path) == (said, made)


@pytest.mark.parametrize("algorithm", ["maskable-ppo", "ppo", "dqn"])
def test_the_same_seed_gives_the_same_numbers(module: Path, tmp_path: Path, algorithm: str) -> None:
    first = trained(algorithm, 600, module, tmp_path / "a", "--seed", "5")
    assert first == trained(algorithm, 600, module, tmp_path / "b", "--seed", "5")


def test_appos_old_policy_obeys_the_mask() -> None:
    """Without it APPO's learner dies in a thread of its own, of which RLlib says nothing."""
    import numpy as np
    import torch
    from gymnasium import spaces
    from ray.rllib.algorithms.ppo.ppo_catalog import PPOCatalog
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    from mlbridge.training.masking import MaskedAPPO

    module = MaskedAPPO(
        observation_space=spaces.Box(-np.inf, np.inf, (5,), np.float32),
        action_space=spaces.Discrete(3),
        model_config=DefaultModelConfig(),
        catalog_class=PPOCatalog,
    )
    module.make_target_networks()
    [found] = module.forward_target({"obs": torch.tensor([[2.0, 3.0, 1.0, 0.0, 1.0]])}).values()
    assert (found > -1e8).tolist() == [[True, False, True]]


def test_killed_and_resumed(module: Path, tmp_path: Path) -> None:
    asked = command("ppo", 1100, module, tmp_path / "t")
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline().startswith("iteration 1, ")
        os.kill(process.pid, signal.SIGKILL)
    rows = trained("ppo", 1100, module, tmp_path / "t", "--resume")
    assert [row["iteration"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["steps"] >= 1100


def workers_of(trainer: int) -> list[int]:
    """The processes below it that have started an opt."""
    return sorted({parent for _, parent in below(trainer, "opt-22")} - {trainer})


@pytest.mark.parametrize(
    ("algorithm", "workers"),
    [("ppo", 1), ("appo", 1), ("maskable-ppo", 2)],
    ids=["ray", "ray-with-a-learner", "forkserver"],
)
def test_a_worker_that_is_killed(
    module: Path, tmp_path: Path, algorithm: str, workers: int
) -> None:
    asked = command(algorithm, 4000, module, tmp_path / "t", "--workers", str(workers))
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        while not process.stdout.readline().startswith("iteration 1, "):
            assert process.poll() is None
        os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
        _, said = process.communicate(timeout=600)
    if algorithm != "maskable-ppo":
        assert process.returncode == 0, said[-3000:]
        rows = (tmp_path / "t" / "progress.jsonl").read_text()
        assert "NaN" not in rows
    else:
        assert process.returncode == 1
        assert said.splitlines()[-1].endswith("--resume goes on from the last checkpoint")
        trained(algorithm, 4000, module, tmp_path / "t", "--workers", "2", "--resume")


# A training whose learner fails in its second update, in whatever process that is.
FAILING = """
import sys
from mlbridge.cli import main
from mlbridge.training import rllib
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner

def failing(learner):
    class Failing(learner):
        updates = 0

        def compute_losses(self, **given):
            self.updates += 1
            if self.updates == 2:
                raise ValueError("the logits\\nare NaN")
            return super().compute_losses(**given)

    return Failing

found = rllib.config_of
rllib.config_of = lambda name: found(name).learners(
    learner_class=failing(rllib._Learner if name == "appo" else PPOTorchLearner)
)
sys.exit(main())
"""


@pytest.mark.parametrize("algorithm", ["appo", "ppo"])
def test_a_learner_that_fails(module: Path, tmp_path: Path, algorithm: str) -> None:
    _, _, _, *asked = command(algorithm, 5000, module, tmp_path / "t")
    done = subprocess.run(
        [sys.executable, "-c", FAILING, *asked], capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "mlbridge train: the learner has ended: ValueError: the logits are NaN; --resume goes on"
        " from the last checkpoint"
    ]


# A training that soon gives up env runners that do not answer.
IMPATIENT = """
import sys
from mlbridge.cli import main
from mlbridge.training import rllib

rllib.PATIENCE = 3.0
sys.exit(main())
"""


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_env_runners_that_cannot_be_started_again(
    module: Path, tmp_path: Path, algorithm: str
) -> None:
    corpus = tmp_path / "corpus"
    shutil.copytree(module.parent, corpus)
    _, _, _, *asked = command(algorithm, 9000, corpus, tmp_path / "t", "--workers", "1")
    with subprocess.Popen(
        [sys.executable, "-c", IMPATIENT, *asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stdout.readline().startswith("iteration 1, ")
        shutil.rmtree(corpus)
        os.kill(workers_of(process.pid)[-1], signal.SIGKILL)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert said.splitlines()[-1] == (
        "mlbridge train: no env runner has answered for 3 s; --resume goes on from the last"
        " checkpoint"
    )


@pytest.mark.parametrize("algorithm", ["ppo", "appo", "dqn", "maskable-ppo"])
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_corpus_of_damaged_modules(tmp_path: Path, algorithm: str, workers: str) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.bc").write_text("garbage")
    asked = command(algorithm, 600, tmp_path, tmp_path / "t", "--workers", workers)
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    ours = [line for line in done.stderr.splitlines() if "core_worker.cc" not in line]
    *left_out, last = ours
    assert re.fullmatch(r"mlbridge train: /.*\.bc: opt-22: .*: expected top-level entity.*", last)
    assert all(line.startswith("left out from now on: /") for line in left_out)


def served(uri: str, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, Path(__file__).with_name("unsound.py"), uri, *more])


@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "maskable-ppo", "imitation"])
@pytest.mark.parametrize("what", ["reward", "observation"])
def test_what_is_not_finite_is_a_fault(tmp_path: Path, algorithm: str, what: str) -> None:
    uri = f"unix:{tmp_path}/e.sock"
    train = [sys.executable, "-m", "mlbridge", "train", uri, "--algorithm", algorithm]
    with served(uri, what) as environment:
        done = subprocess.run(
            [*train, "--steps", "100", "-o", str(tmp_path / "t")], capture_output=True, check=False
        )
        environment.kill()
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in (tmp_path / "t" / "progress.jsonl").open()]
    assert sum(row["faults"] for row in rows) == sum(row["episodes"] for row in rows) > 0
    assert {row["reward"] for row in rows} == {0}


@pytest.mark.parametrize(
    ("algorithm", "setting", "message"),
    [
        ("ppo", "nosuch=1", "nosuch"),
        ("dqn", "lr=abc", "lr of dqn is 'abc'; expected a number"),
        ("maskable-ppo", "n_steps=abc", "n_steps of maskable-ppo is 'abc'; expected int"),
        ("maskable-ppo", "learning_rate=-1", "Invalid learning rate: -1"),
        ("imitation", "tries=0", "tries is 0; expected a number from 1"),
        ("imitation", "lr=abc", "lr is 'abc'; expected a number"),
    ],
)
def test_settings_that_an_algorithm_does_not_take(
    module: Path, tmp_path: Path, algorithm: str, setting: str, message: str
) -> None:
    asked = command(algorithm, 100, module, tmp_path, "--set", setting)
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert message in done.stderr.splitlines()[-1]


def test_a_cluster_that_is_not_there(module: Path, tmp_path: Path) -> None:
    settings = Settings("phase-ordering", options={"corpus": str(module)})
    with pytest.raises(Unavailable, match=r"no Ray cluster answers at 127\.0\.0\.1:9"):
        train(settings, tmp_path, address="127.0.0.1:9")


def test_a_machine_that_disappears(module: Path, tmp_path: Path) -> None:
    """Three raylets, one of which is killed in the middle."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        others = [cluster.add_node(**node) for _ in range(2)]
        cluster.wait_for_nodes()
        asked = command("ppo", 2500, module, tmp_path / "t", "--workers", "2")
        asked += ["--ray", cluster.address]
        with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline().startswith("iteration 1, ")
            cluster.remove_node(others[0], allow_graceful=False)
            process.communicate(timeout=600)
        assert process.returncode == 0
        assert (tmp_path / "t" / "policy.onnx").exists()
    finally:
        cluster.shutdown()


def test_stable_baselines3s_own_check(module: Path) -> None:
    from stable_baselines3.common.env_checker import check_env

    from mlbridge.training.environment import make

    env = make("phase-ordering", {"corpus": str(module)})
    check_env(env)
    env.close()


def test_stable_baselines3_makes_environments_by_name(module: Path) -> None:
    from stable_baselines3.common.env_util import make_vec_env

    import mlbridge.gym  # noqa: F401 - registers it

    environments = make_vec_env(
        "mlbridge/PhaseOrdering-v0", n_envs=2, env_kwargs={"corpus": str(module)}
    )
    assert len(environments.reset()["features"]) == 2
    environments.close()


@pytest.fixture
def unroller() -> Iterator[Any]:
    """Two agents in a hierarchy, which RLlib drives."""
    from mlbridge.gym.rllib import CompilerMultiAgent

    served = Path(__file__).parents[1] / "gym" / "served.py"

    def start(address: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, served, "unroller", address])

    env = CompilerMultiAgent({"start": start, "choices": {"select": 3, "unroll": 2}})
    yield env
    env.close()


def test_rllibs_own_check(unroller: Any, caplog: pytest.LogCaptureFixture) -> None:
    from ray.rllib.utils.pre_checks.env import check_multiagent_environments

    check_multiagent_environments(unroller)
    assert not caplog.records, "it only warns of some mistakes"


def test_several_agents_for_rllib(unroller: Any) -> None:
    env = unroller
    seen, _ = env.reset(seed=1, options={"seed": 5})
    turns, totals, over = [], dict.fromkeys(env.possible_agents, 0.0), False
    while not over:
        [agent] = seen
        assert env.observation_spaces[agent].contains(seen[agent])
        turns.append(agent)
        action = int(seen[agent]["action_mask"][1]) if agent == "unroll" else 0
        seen, rewards, terminated, truncated, _ = env.step({agent: action})
        for name, reward in rewards.items():
            totals[name] += reward
        over = terminated["__all__"] or truncated["__all__"]
    assert turns == ["select", "unroll"] * 3
    assert totals == {"select": -3.0, "unroll": 2.0}
