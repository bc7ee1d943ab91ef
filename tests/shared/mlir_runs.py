# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock mlir-opt-22 and mlir-runner-22, with the passes of compilers/mlir/tiling/README.md."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from beyond_llvm import ENVIRONMENT
from building import ROOT, attempt

from mlbridge import files

PLUGIN = files.plugin("mlir-tiling")
README = ROOT / "compilers" / "mlir" / "tiling" / "README.md"
LIBRARIES = [
    f"/usr/lib/llvm-22/lib/libmlir_{name}_utils.so" for name in ("c_runner", "runner", "float16")
]


def documented_passes() -> str:
    """From linalg to LLVM's dialect, the same with and without the plugin."""
    found = re.search(r'^LOWER="(.*?)"$', README.read_text(), re.M | re.S)
    assert found is not None
    return re.sub(r"\\\n\s*", "", found[1])


def tiling(options: Mapping[str, str | int]) -> str:
    """The plugin's pass."""
    told = " ".join(f"{name.replace('_', '-')}={value}" for name, value in options.items())
    return f"mlbridge-tiling{{{told}}}"


def optimize(text: str, passes: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Passes of a module; those of the plugin are known."""
    command = ["mlir-opt-22", f"--load-pass-plugin={PLUGIN}", *flags]
    return attempt(
        *command, f"--pass-pipeline=builtin.module({passes})", "-", input=text, env=ENVIRONMENT
    )


def lowered(text: str, options: Mapping[str, str | int] | None = None, *flags: str) -> str:
    """A module for `executed`; tiled with these options of the plugin, if there are any."""
    passes = [tiling(options)] if options is not None else []
    done = optimize(text, ",".join([*passes, documented_passes()]), *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


def executed(text: str) -> str:
    """What main prints, optimized as by -O3 for this machine."""
    done = attempt(
        *("mlir-runner-22", "-O3", "-e", "main", "--entry-point-result=void"),
        f"--shared-libs={','.join(LIBRARIES)}",
        "-",
        input=text,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
