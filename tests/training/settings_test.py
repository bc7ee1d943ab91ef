# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings that no training has, in Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlbridge import InvalidArgument
from mlbridge.cli import main
from mlbridge.optimizations import OPTIMIZATIONS
from mlbridge.training.settings import Settings

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"steps": "abc"}, "steps is 'abc'"),
    ({"steps": True}, "steps is True"),
    ({"workers": "2"}, "workers is '2'"),
    ({"workers": -1}, "workers is -1"),
    ({"seed": -1}, "seed is -1"),
    ({"environment": 5}, "environment is 5"),
    ({"algorithm": []}, r"algorithm is \[\]"),
    ({"algorithm": "genetic"}, "algorithm is 'genetic'"),
    (
        {"environment": "register-allocation", "algorithm": "dqn"},
        "algorithm is 'dqn'; expected one of ppo",
    ),
    ({"options": []}, r"options is \[\]"),
    ({"options": None}, "options is None"),
    ({"settings": 5}, "settings is 5"),
    ({"settings": {"hiddens": 64}}, "hiddens is 64"),
    ({"settings": {"hiddens": [64, 0]}}, r"hiddens is \[64, 0\]"),
    ({"settings": {"activation": "gelu"}}, "activation is 'gelu'; expected relu or tanh"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_ones(
    wrong: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"environment": "phase-ordering", **wrong}
    with pytest.raises(InvalidArgument, match=message):
        Settings(**asked)
    file, out = tmp_path / "c.json", tmp_path / "out"
    file.write_text(json.dumps(asked))
    assert main(["train", "--config", str(file), "--corpus", "x.bc", "-o", str(out)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("mlbridge train: ") and message.replace("\\", "") in line
    assert not out.exists()


@pytest.mark.parametrize("flag", ["--seed", "--workers"])
def test_a_negative_number(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "unix:x", "-o", "t", flag, "-1"]) == 2
    assert f"{flag[2:]} is -1" in capsys.readouterr().err


def test_the_trainer_has_the_agents_that_descriptions_name() -> None:
    from mlbridge.training.optimizations import TRAINED

    described = {one.name: one.agents for one in OPTIMIZATIONS.values() if one.trained}
    several = {name: agents for name, agents in described.items() if agents}
    assert {name: tuple(one.agents) for name, one in TRAINED.items()} == several
