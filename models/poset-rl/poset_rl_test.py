# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The policy decides inside stock clang as everywhere; its lists of groups are what they say."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import onnx
import pytest
from compiler import printed_flags
from modules import SUM, unoptimized

from mlbridge.gym import PhaseOrdering
from mlbridge.training.settings import Settings

HERE = Path(__file__).resolve().parent
POLICY = HERE / "policy.onnx"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("poset-rl") / "sum.c"
    file.write_text(SUM)
    return file


def compiled(model: str, source: Path) -> tuple[list[str], bytes]:
    """The groups that were run, and the object."""
    line = printed_flags("phase-ordering", "--model", model)
    made = source.with_suffix(".o")
    command = ["clang-22", *line, "-Oz", "-Werror=backend-plugin"]
    command += ["-Rpass=phase-ordering", "-c", str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = [text.partition("step ")[2] for text in done.stderr.splitlines() if "step " in text]
    return [text.split()[1] for text in said], made.read_bytes()


def test_an_episode_runs_each_group_once(source: Path) -> None:
    groups, made = compiled(f"native:{POLICY}", source)
    listed = json.loads((HERE / "actions-34.json").read_text())["actions"]
    assert sorted(groups) == sorted(group["name"] for group in listed)
    assert compiled(f"onnx:{POLICY}", source) == (groups, made)


def test_the_model_carries_its_list() -> None:
    stated = {p.key: p.value for p in onnx.load(str(POLICY)).metadata_props}
    assert json.loads(stated["phase-ordering.actions"]) == json.loads(
        (HERE / "actions-34.json").read_text()
    )
    assert stated["phase-ordering.observation"] == "ir2vec-flow-aware-1"


@pytest.mark.parametrize("name", ["double-dqn", "ppo"])
def test_the_settings_make_an_environment(name: str, source: Path) -> None:
    settings = Settings(**json.loads((HERE / f"{name}.json").read_text()))
    options = dict(settings.options) | {"actions": HERE / settings.options["actions"]}
    env = PhaseOrdering(unoptimized(source), **options)
    _, info = env.reset(seed=1)
    assert info["cycles"] > 0 and not info["action_mask"][-1], "no early stop"
    env.close()


@pytest.mark.parametrize("count", [15, 34])
def test_the_lists(count: int) -> None:
    listed = json.loads((HERE / f"actions-{count}.json").read_text())
    assert len(listed["actions"]) == listed["max_steps"] == count and listed["stop"] is False
    for group in listed["actions"]:
        assert "attributor" not in group["passes"] and "instcombine," not in group["passes"]
