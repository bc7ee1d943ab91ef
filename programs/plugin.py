# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler flags that ask a model for the order of passes, from the `mlbridge` command."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from programs.catalog import ROOT, ProgramsError

MODEL = ROOT / "models" / "phase-ordering-size" / "policy.onnx"
LOG = "/log-folder-of-one-build"  # stands for the --log folder until a build begins


def plugin_flags(uri: str, *options: str) -> list[str]:
    """What `mlbridge flags` with these options adds to ask the model at `uri`."""
    tool = Path(sys.executable).with_name("mlbridge")
    command = [str(tool), "flags", "phase-ordering", "--model", uri, *options]
    command += ["--deadline", "60s"]  # a busy machine is no failure of the model
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise ProgramsError(f"{tool} is missing ({error.strerror}); run `make build`") from error
    if done.returncode != 0:
        raise ProgramsError(f"{shlex.join(command)} failed:\n{done.stderr.strip()}")
    return shlex.split(done.stdout)


def compiled(model: Path, output: Path) -> Path:
    """The model as a shared object of `mlbridge compile`."""
    command = [sys.executable, "-m", "mlbridge", "compile", str(model), "--shared"]
    done = subprocess.run(
        [*command, "-o", str(output)], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        raise ProgramsError(f"the model cannot be compiled:\n{done.stderr.strip()}")
    return output


@dataclass(frozen=True)
class Decisions:
    """What the logs of a build say: groups chosen, modules decided, modules that fell back."""

    made: int = 0
    finished: int = 0
    failed: int = 0
    #: For each source file, what was chosen each time that it was compiled, sorted.
    actions: dict[str, list[list[int]]] = field(default_factory=dict, compare=False)


def read_decisions(folder: Path) -> Decisions:
    """The logs that the compiler plugin wrote into `folder`."""
    made = finished = failed = 0
    actions: dict[str, list[list[int]]] = {}
    for log in sorted(folder.glob("*.jsonl")):
        chosen: list[int] = []
        for number, line in enumerate(log.read_text().splitlines(), 1):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise ProgramsError(f"{log}:{number}: not a decision log: {error}") from error
            if "source" in entry:
                actions.setdefault(entry["source"], []).append(chosen)
            if "action" in entry:
                chosen.append(entry["action"])
            if "outcome" in entry:
                failed += entry["outcome"] == "failed"
                finished += entry["outcome"] != "failed"
        made += len(chosen)
    for modules in actions.values():
        modules.sort()
    return Decisions(made, finished, failed, actions)
