# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge wrapper`: writes a compiler that asks a model, or fails."""

from __future__ import annotations

import argparse
import os
import re
import shlex

from .. import files
from .common import DONE, CommandError
from .flags import SCHEMES, attempt, compiler_of, model_of, path_of, unescaped, words

SCRIPT = """\
#!/bin/sh
# Written by `mlbridge wrapper`: asks a model, and fails if anything that it needs is gone.
for needed in {needed}; do
  if [ ! -e "$needed" ]; then
    echo "$0: $needed is gone; write this compiler again with mlbridge wrapper" >&2
    exit 1
  fi
done
exec {command} "$@"
"""


def run(options: argparse.Namespace) -> int:
    """Write the script that the options ask for, once its compiler has asked the model."""
    compiler = compiler_of(options)
    options.on_failure = options.on_failure or "fail"
    plugin = path_of(options.optimization, options.plugin)
    uri = model_of(options, files.find_onnx_runtime())
    attempt(options, plugin, uri)
    needed = shlex.join([compiler, plugin, *needs(uri)])
    command = shlex.join([compiler, *words(options, plugin, uri)])
    text = SCRIPT.format(needed=needed, command=command)
    try:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
            os.chmod(file.fileno(), os.fstat(file.fileno()).st_mode | 0o111)
    except OSError as error:
        raise CommandError(f"-o {options.output}: {error.strerror}") from None
    return DONE


def needs(uri: str) -> list[str]:
    """The files without which nothing asks this model."""
    match = re.fullmatch(r"([^:]*):([^?]*)(.*)", uri)
    assert match is not None
    scheme, place = match[1], unescaped(match[2])
    options = dict(option.partition("=")[::2] for option in match[3].split("?"))
    found = []
    if scheme == "replay" or (SCHEMES.get(scheme) == "model" and "/" in place):
        found.append(place)
    parts = [("engine", scheme), ("transport", scheme), ("serdes", options.get("serdes", ""))]
    found += [path for kind, name in parts if (path := files.find_component(kind, name))]
    if "runtime" in options:
        found.append(unescaped(options["runtime"]))
    return found
