# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge doctor` says what is there, and what to do about what is not."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlbridge import files
from mlbridge.cli.doctor import Missing, round_trip
from mlbridge.optimizations import OPTIMIZATIONS

ABLE_NEEDS = "needs the compiler plugin, the shipped model, clang-22 and onnxruntime"
ABLE = (
    all(
        Path(path).is_file()
        for path in (files.plugin("phase-ordering"), files.shipped_model("phase-ordering-size"))
    )
    and shutil.which("clang-22") is not None
    and importlib.util.find_spec("onnxruntime") is not None
)


def doctor(*arguments: str, **environment: str) -> tuple[int, str]:
    result = subprocess.run(
        [sys.executable, "-m", "mlbridge", "doctor", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.stderr == ""
    return result.returncode, result.stdout


def report(**environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    code, text = doctor("--json", **environment)
    found = json.loads(text)
    assert found["ok"] == (code == 0)
    assert found["ok"] == all(c["ok"] for c in found["checks"] if c["required"])
    for check in found["checks"]:
        assert check["detail"] and check["needed_for"]
        assert bool(check["fix"]) != check["ok"]
        assert not (check["broken"] and check["ok"])
    return code, {check["part"]: check for check in found["checks"]}


def test_what_is_there_is_found() -> None:
    _, checks = report()
    assert checks["library"]["ok"]
    assert checks["serdes bitstream"]["ok"]
    for name in ("json", "protobuf"):
        there = files.find_component("serdes", name) is not None
        assert checks[f"serdes {name}"]["ok"] == there
    assert checks["transport grpc"]["ok"] == (files.find_component("transport", "grpc") is not None)
    for name, one in OPTIMIZATIONS.items():
        for version in one.versions if one.compiler == "llvm" else (22,):
            part = f"plugin {name}" + ("" if version == 22 else f", LLVM {version}")
            assert checks[part]["ok"] == Path(one.file(version)).is_file()
        if one.model is not None:
            opens = checks["engine onnx"]["ok"] or name != "phase-ordering"
            pattern = files.shipped_agents(one.model)
            named = [pattern.replace("{agent}", agent) for agent in one.agents]
            wanted = named or [files.shipped_model(one.model)]
            there = all(Path(file).is_file() for file in wanted)
            assert checks[f"model {one.model}"]["ok"] == (opens and there)


def test_what_is_missing_is_named_with_its_remedy(tmp_path: Path) -> None:
    code, checks = report(PATH=str(tmp_path), MLBRIDGE_ONNXRUNTIME=str(tmp_path))
    assert code == 1
    assert not checks["clang-22"]["ok"] and "apt-get install clang-22" in checks["clang-22"]["fix"]
    assert not checks["engine onnx"]["ok"]
    if files.find_component("engine", "onnx"):
        assert "pip install onnxruntime" in checks["engine onnx"]["fix"]


def test_an_add_on_that_is_not_installed_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "find_component", lambda kind, name: None)
    with pytest.raises(Missing) as caught:
        round_trip("bitstream", "grpc", get=files.extra("grpc"))
    assert caught.value.args == ("libmlbridge-transport-grpc.so is not there", files.extra("grpc"))


def test_what_is_there_and_does_not_work_is_broken(tmp_path: Path) -> None:
    (tmp_path / "libonnxruntime.so.1").write_text("no library")
    _, text = doctor(MLBRIDGE_ONNXRUNTIME=str(tmp_path))
    if files.find_component("engine", "onnx"):
        assert re.search(r"broken   engine onnx .*\n.*\n +to repair it:  pip install", text)
    (tmp_path / "clang-22").symlink_to("/bin/false")
    _, checks = report(PATH=str(tmp_path))
    assert checks["clang compares"]["broken"] or not ABLE
    assert not checks["opt-22"]["broken"]


def test_plain_text(tmp_path: Path) -> None:
    code, text = doctor(PATH=str(tmp_path))
    assert code == 1
    assert "MISSING  clang-22" in text and "to get it:     apt-get install clang-22" in text
    assert re.search(r"absent   opt-22 .*\n +optional, for: the plugins on LLVM IR alone\n", text)
    assert "What is absent is optional" not in text
    assert text.endswith("The default set-up does not work yet; see above.\n")


@pytest.mark.skipif(not ABLE, reason=ABLE_NEEDS)
def test_a_complete_installation_is_found_complete() -> None:
    code, checks = report()
    assert code == 0, [check for check in checks.values() if not check["ok"]]
    assert "compared it with the shipped candidate" in checks["clang compares"]["detail"]


@pytest.mark.skipif(not ABLE, reason=ABLE_NEEDS)
def test_what_is_absent_from_a_complete_installation_is_called_optional(tmp_path: Path) -> None:
    code, text = doctor(MLBRIDGE_ONNXRUNTIME=str(tmp_path))
    assert code == 0
    assert re.search(r"absent   engine onnx .*\n +optional, for: onnx: models in process", text)
    assert re.search(
        r"\nWhat is absent( or broken)? is optional, and nothing else needs it.\n"
        r"Unmodified clang can ask the shipped model.\n$",
        text,
    )


def test_another_distribution_with_the_same_package_is_named(tmp_path: Path) -> None:
    for name in (files.DISTRIBUTION, "mlbridge"):
        folder = tmp_path / f"{name.replace('-', '_')}-9.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    code, checks = report(PYTHONPATH=str(tmp_path), PATH="")
    assert code == 1 and "mlbridge is installed as well as" in checks["distribution"]["detail"]
    assert checks["distribution"]["fix"].startswith("pip uninstall mlbridge ml-compiler-bridge")
    shutil.rmtree(folder)
    assert "distribution" not in report(PYTHONPATH=str(tmp_path), PATH="")[1]


def test_plugins_of_another_version_are_named(tmp_path: Path) -> None:
    name = files.ADD_ONS[0]
    folder = tmp_path / f"{name.replace('-', '_')}-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9\n")
    code, checks = report(PYTHONPATH=str(tmp_path), PATH="")
    assert code == 1 and checks[name]["detail"].startswith("its version is 9, that of ")
    assert checks[name]["fix"].startswith(f"pip install {name}==")
