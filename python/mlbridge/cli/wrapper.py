# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge wrapper`: a script that is a compiler which asks a model."""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from .. import files
from ..outputs import must_begin_with, write_whole
from ..specializing.recipes import plugin
from .arguments import Parser
from .command_line import words
from .common import DONE, CommandError, must_be_writable
from .models import needed_files
from .probe import compiler_file, must_ask
from .request import add_asking, decisions_of, request_of

SCRIPT = """\
#!/bin/sh
# Written by `mlbridge wrapper`: fails if anything that it needs is gone.
for needed in {needed}; do
  if [ ! -e "$needed" ]; then
    echo "$0: $needed is gone; write this compiler again with mlbridge wrapper" >&2
    exit 1
  fi
done
{refusal}exec {command} "$@"
"""
_HEAD = SCRIPT.partition(":")[0].encode()
#: The recipe is in the script, the profile is not.
SAME = """\
if [ "$(sha256sum < {file})" != "{digest}  -" ]; then
  echo "$0: "{file}" has changed; write this compiler again with mlbridge wrapper" >&2
  exit 1
fi
"""
#: Before clang is started: with this option it loads no plugin, so it would silently ask nobody.
NO_INDEX = """\
for argument; do
  case "$argument" in
  -fthinlto-index=/dev/null) ;;
  -fthinlto-index=*)
    echo "$0: $argument: {what}" >&2
    {then}
    ;;
  esac
done
"""
NO_PLUGIN = "clang loads no plugin in the backends of distributed ThinLTO, so no model is asked"


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge wrapper`."""
    parser.describe(
        """\
Writes a script that runs a compiler with what `mlbridge flags` prints. The script fails if a file
that it needs is gone and, unless --on-failure says otherwise, if the model fails. A model in a file
is tried before the script is written. The script needs neither this command nor Python.""",
        """\
example:
  mlbridge wrapper phase-ordering -o cc
  mlbridge wrapper phase-ordering -o c++ --compiler clang++-22
  make CC=$PWD/cc CXX=$PWD/c++""",
    )
    add_asking(parser)
    parser.option("-o FILE", "the script", dest="output", required=True)


def run(options: argparse.Namespace) -> int:
    """Write the script, once its compiler has asked the model."""
    must_be_writable(o=options.output)
    must_begin_with(options.output, _HEAD, "script of `mlbridge wrapper`")
    if decisions := decisions_of(options):
        stated = options.compiler or decisions.command
        found = shutil.which(stated)
        if found is None:
            raise CommandError(f"{stated} is not on PATH")
        found = os.path.abspath(found)
        needed = [found, decisions.path, *[plugin()] * decisions.recipe.versions]
        digest = hashlib.sha256(Path(decisions.path).read_bytes()).hexdigest()
        same = SAME.format(file=shlex.quote(decisions.path), digest=digest)
        write(options.output, needed, [found, *decisions.words()], same)
        return DONE
    request = request_of(options, files.find_onnx_runtime())
    request = request._replace(on_failure=request.on_failure or "fail")
    compiler = compiler_file(request)
    must_ask(request)
    needed = [compiler, *filter(None, [request.vocabulary])]
    needed += [query.plugin for query in request.queries]
    needed += [
        file for query in request.queries for uri in query.uris for file in needed_files(uri)
    ]
    fails = request.on_failure == "fail"
    refusal = NO_INDEX.format(
        what=NO_PLUGIN if fails else f"warning: {NO_PLUGIN}", then="exit 1" if fails else "break"
    )
    write(
        options.output,
        needed,
        [compiler, *words(request)],
        refusal if request.kind == "llvm" else "",
    )
    return DONE


def write(place: str, needed: Sequence[str], command: Sequence[str], refusal: str = "") -> None:
    """Write the script of a command, which needs these files."""
    text = SCRIPT.format(
        needed=shlex.join(dict.fromkeys(needed)), command=shlex.join(command), refusal=refusal
    )
    write_whole(place, os.fsencode(text), executable=True)
