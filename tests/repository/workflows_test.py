# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The workflows that a fork on GitHub runs: they are valid, and do what .ci/run and the Makefile
do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(path.name for path in FOLDER.iterdir())
CI = ROOT / ".ci" / "run"


def jobs(name: str) -> dict[str, Any]:
    loaded = YAML(typ="safe").load(FOLDER / name)
    return dict(loaded["jobs"])


def commands(name: str) -> Iterator[str]:
    for job in jobs(name).values():
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)


def targets(script: str) -> set[str]:
    return set(re.findall(r"(?m)(?:^|exec |&& )make ([\w-]+)", script))


def test_there_are_workflows() -> None:
    assert {"ci.yml", "packages.yml"} <= set(WORKFLOWS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_it_is_a_workflow_of_github(name: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema"]
    done = subprocess.run(
        [*command, "vendor.github-workflows", FOLDER / name],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ci_runs_what_ci_runs_everywhere() -> None:
    assert ".ci/run" in commands("ci.yml")
    assert os.access(CI, os.X_OK) and targets(CI.read_text()) == {"test"}
    needed = jobs("ci.yml")["packages"]
    assert needed == {"needs": "test", "uses": "./.github/workflows/packages.yml"}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_what_it_runs_is_there(name: str) -> None:
    (phony,) = re.findall(r"(?m)^\.PHONY: (.*)$", (ROOT / "Makefile").read_text())
    for command in commands(name):
        done = subprocess.run(["bash", "-n"], input=command, text=True, check=False, timeout=10)
        assert done.returncode == 0, command
        assert targets(command) <= set(phony.split()), command


@pytest.mark.parametrize("name", WORKFLOWS)
def test_it_publishes_nothing(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert "secrets" not in text and "permissions:\n  contents: read\n" in text
    assert ": write" not in text


@pytest.mark.parametrize("name", WORKFLOWS)
def test_it_runs_on_the_oldest_debian(name: str) -> None:
    images = {job["container"] for job in jobs(name).values() if "container" in job}
    assert images == {"debian:12"}
