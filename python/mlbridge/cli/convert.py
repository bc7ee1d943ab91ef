# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge convert`: an ONNX file of a policy of LLVM's MLGO."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .. import saved_model
from .arguments import Parser
from .common import DONE, CommandError

#: Seconds that TensorFlow may take.
LIMIT = 3600.0


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge convert`."""
    parser.describe(
        """\
Makes an ONNX file, which clang 22 asks through onnx: or native:, of a SavedModel of TensorFlow
as LLVM's MLGO trains and releases it. A model with features that LLVM 22 hasn't is refused.""",
        """\
Needs a Python that has TensorFlow and tf2onnx (docs/tensorflow.md), which may be another one.

example:
  mlbridge convert inlining-Oz/ --for inliner -o policy.onnx --python tf/bin/python
  clang-22 $(mlbridge flags inliner --model native:policy.onnx) -Oz -c FILE.c""",
    )
    parser.add_argument("model", metavar="FOLDER", help="the SavedModel")
    parser.option(
        "--for OPTIMIZATION",
        "what asks it: " + ", ".join(saved_model.OPTIMIZATIONS),
        dest="optimization",
        choices=[*saved_model.OPTIMIZATIONS],
        required=True,
    )
    parser.option("-o FILE", "the ONNX file", dest="output", required=True)
    parser.option("--signature NAME", "of the SavedModel (default: action)", default="action")
    parser.option("--python FILE", "the Python with TensorFlow (default: this one)")


def run(options: argparse.Namespace) -> int:
    """Convert a policy, and say what runs it."""
    from ..inspection import inspect
    from ..process_runner import run as run_process

    command = [options.python or sys.executable, os.path.abspath(saved_model.__file__)]
    command += ["--for", options.optimization, "--signature", options.signature]
    output = Path(options.output).absolute()
    done = run_process([*command, "-o", str(output), "--", options.model], timeout=LIMIT)
    if done.code:
        said = done.stderr.text.strip()
        raise CommandError(said or f"{command[0]} ended with {done.code}")
    made = json.loads(done.stdout.text.splitlines()[-1])
    report = inspect(output)
    print(f"{options.output}: {len(made['inputs'])} inputs; without {', '.join(made['left_out'])}")
    for scheme in ("onnx", "native"):
        support = report.engines[scheme]
        print(f"{scheme + ':':8}{'runs it' if support.runs else support.why}")
    return DONE
