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
LOG = "{log}"


def plugin_flags(uri: str) -> list[str]:
    """What `mlbridge flags` adds to ask the model at `uri`; "{log}" stands for a log folder."""
    tool = Path(sys.executable).with_name("mlbridge")
    placeholder = "/log-folder-of-one-build"
    command = [str(tool), "flags", "phase-ordering", "--model", uri, "--log", placeholder]
    command += ["--deadline", "60s"]  # a busy machine is no failure of the model
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise ProgramsError(f"{tool} is missing ({error.strerror}); run `make build`") from error
    if done.returncode != 0:
        raise ProgramsError(f"{shlex.join(command)} failed:\n{done.stderr.strip()}")
    flags = [flag.replace(placeholder, LOG) for flag in shlex.split(done.stdout)]
    if not any(LOG in flag for flag in flags):
        raise ProgramsError(f"{shlex.join(command)} printed no log folder: {done.stdout.strip()}")
    return flags


@dataclass(frozen=True)
class Decisions:
    """What the logs of a build say: groups chosen, modules decided, modules that fell back."""

    made: int = 0
    finished: int = 0
    failed: int = 0
    #: Of each source file, in order; of one that was compiled several times, the last log's.
    actions: dict[str, tuple[int, ...]] = field(default_factory=dict, compare=False)


def read_decisions(folder: Path) -> Decisions:
    """The logs that the compiler plugin wrote into `folder`."""
    made = finished = failed = 0
    actions: dict[str, tuple[int, ...]] = {}
    for log in sorted(folder.glob("*.jsonl")):
        source = ""
        for number, line in enumerate(log.read_text().splitlines(), 1):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError as error:
                raise ProgramsError(f"{log}:{number}: not a decision log: {error}") from error
            if "source" in entry:
                source = entry["source"]
                actions[source] = ()
            if "action" in entry:
                made += 1
                actions[source] = (*actions.get(source, ()), entry["action"])
            if "outcome" in entry:
                failed += entry["outcome"] == "failed"
                finished += entry["outcome"] != "failed"
    return Decisions(made, finished, failed, actions)
