# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge path`: where a compiler plugin is, or the file for CMake."""

from __future__ import annotations

import argparse
import os

from .. import files
from ..optimizations import OPTIMIZATIONS
from ..specializing.recipes import PLUGIN, plugin
from .arguments import Parser
from .common import DONE, CommandError, UsageError
from .request import LLVM_VERSION, plugin_file


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge path`."""
    parser.describe(
        "Prints the file of an optimization's compiler plugin, or of mlbridge_optimize for CMake.",
        'example:\n  opt-22 -load-pass-plugin="$(mlbridge path phase-ordering)" -passes=…',
    )
    parser.add_argument("optimization", help=f"{', '.join(OPTIMIZATIONS)}, {PLUGIN}; or cmake")
    parser.option("--llvm N", LLVM_VERSION, type=int, default=22, choices=(22, 19))


def run(options: argparse.Namespace) -> int:
    """Print where the plugin is."""
    if options.optimization == "cmake":
        print(files.cmake_module())
        return DONE
    if options.optimization == PLUGIN:  # asks no model, so it is no optimization of these
        if options.llvm != 22:
            raise UsageError(f"{PLUGIN} has no plugin for LLVM {options.llvm}; it has one for 22")
        if not os.path.isfile(plugin()):
            raise CommandError(
                f"the compiler plugin is not there ({plugin()}): {files.extra('clang22')}"
            )
        print(plugin())
        return DONE
    print(plugin_file(options.optimization, llvm=options.llvm))
    return DONE
