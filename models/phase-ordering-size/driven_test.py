# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training with the compilers as servers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bridge_test import files  # noqa: F401
from corpus import File

pytest.importorskip("torch", reason="PyTorch isn't installed (tools/setup --train)")
pytest.importorskip("mlbridge", reason="the package mlbridge isn't installed")
from bridge import plugin_path
from train_driven import train

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("opt-22") is None, reason="no opt-22"),
    pytest.mark.skipif(not plugin_path().exists(), reason="the phase-ordering plugin isn't built"),
]


def test_workers_that_are_killed_change_nothing(files: list[File], tmp_path: Path) -> None:  # noqa: F811
    runs = [
        train(files, f"unix:{tmp_path}/{n}-{{}}", workers=count, episodes=36, seed=3, kill=kill)
        for n, (count, kill) in enumerate([(1, False), (4, True)])
    ]
    calm, killed = runs
    assert killed["faults"] == killed["restarts"] == 4
    assert killed["begun"] == 40
    assert killed["counted"] == killed["episodes"] == 36
    assert killed["actions"] == calm["actions"], "the same episodes, whoever played them"
    assert killed["curve"] == calm["curve"]
    assert calm["curve"][0]["reward"] > 0
