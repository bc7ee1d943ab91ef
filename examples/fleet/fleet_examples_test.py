# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""systemd takes the unit and Kubernetes the manifests, and the command has what they state."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mlbridge.cli import main

HERE = Path(__file__).resolve().parent
UNIT = HERE / "mlbridge-serve@.service"
MANIFESTS = HERE / "kubernetes.yaml"


def documents() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="it isn't installed")
    return list(yaml.safe_load_all(MANIFESTS.read_text()))


def verified(unit: Path) -> str:
    """What systemd says against a unit; empty if it takes it."""
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    about = [line for line in done.stderr.splitlines() if unit.name.partition("@")[0] in line]
    return "\n".join(about) if done.returncode or about else ""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd isn't installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "mlbridge"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = UNIT.read_text().replace("/usr/bin/mlbridge", str(program))
    instance = tmp_path / "mlbridge-serve@50051.service"
    instance.write_text(text)
    assert not verified(instance)
    instance.write_text(text.replace("KillMode=mixed", "KillMode=gently"))
    assert "kill mode" in verified(instance), "a mistake is found"


def test_kubernetes_takes_the_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="it isn't installed")
    for version in ("1.27", "1.32"):
        for document in documents():
            validate.validate(document, version, strict=True)
    wrong = documents()[1]
    wrong["spec"]["replicas"] = "three"
    with pytest.raises(validate.ValidationError):
        validate.validate(wrong, "1.32", strict=True)


def test_what_is_cut_off_is_cut_off_after_draining() -> None:
    pod = documents()[1]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    (drain,) = (word for word in container["command"] if word.startswith("--drain="))
    pause = container["lifecycle"]["preStop"]["exec"]["command"][1]
    assert int(pause) + seconds(drain) < pod["terminationGracePeriodSeconds"]
    stop = re.search(r"TimeoutStopSec=(\d+)s", UNIT.read_text())
    drained = re.search(r"--drain=\d+s", UNIT.read_text())
    assert stop and drained and seconds(drained[0]) < int(stop[1])


def seconds(option: str) -> int:
    return int(option.removeprefix("--drain=").removesuffix("s"))


def test_the_commands_have_options_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    described = capsys.readouterr().out
    words = documents()[1]["spec"]["template"]["spec"]["containers"][0]["command"]
    for text in (" ".join(words), UNIT.read_text()):
        for option in re.findall(r"(--[a-z-]+)=", text):
            assert option in described, option
