# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler flags that ask a model for the order of passes, from the `mlbridge` command."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from programs.catalog import ROOT, ProgramsError
from programs.fetch import run

MODEL = ROOT / "models" / "phase-ordering-size" / "policy.onnx"
LOG = "/log-folder-of-one-build"  # stands for the --log folder until a build begins


#: The candidates of this source tree, which `make build` has installed.
CANDIDATES = MODEL.with_name("candidates.json")
LINK_CANDIDATES = MODEL.with_name("link-candidates.json")


def candidate_flags(effort: int) -> list[str]:
    """The flags that compare the candidates of this source tree with -Oz."""
    return plugin_flags(f"candidates:{CANDIDATES}", "--effort", str(effort))


def link_flags(lto: str, effort: int) -> list[str]:
    """The flags of compilations and links that compare this source tree's candidates for links."""
    uri = f"candidates:{LINK_CANDIDATES}"
    return plugin_flags(uri, "--effort", str(effort), "--lto", lto)


def plugin_flags(uri: str, *options: str) -> list[str]:
    """What `mlbridge flags` with these options adds to ask the model at `uri`."""
    tool = Path(sys.executable).with_name("mlbridge")
    command = [str(tool), "flags", "phase-ordering", "--model", uri, *options]
    command += ["--deadline", "60s"]  # a busy machine is no failure of the model
    if not tool.is_file():
        raise ProgramsError(f"{tool} is missing; run `make build`")
    ran = run(command, ROOT, 60)
    if ran.code != 0:
        raise ProgramsError(f"{shlex.join(command)} failed:\n{ran.stderr.text.strip()}")
    return shlex.split(ran.stdout.text)


def compiled(model: Path, output: Path) -> Path:
    """The model as a shared object of `mlbridge aot`."""
    command = [sys.executable, "-m", "mlbridge", "aot", str(model), "--shared"]
    ran = run([*command, "-o", str(output)], ROOT, 600)
    if ran.code != 0:
        raise ProgramsError(f"the model cannot be compiled:\n{ran.stderr.text.strip()}")
    return output
