# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge aot`: an ONNX network as sources, an object file or a shared object."""

from __future__ import annotations

import argparse
import os
import shlex

from .arguments import Parser, number_from_one
from .common import DONE, UsageError


def dimension(text: str) -> tuple[str, int]:
    """The type of --dim."""
    name, _, length = text.rpartition("=")
    if not name or not length.isdecimal():
        raise argparse.ArgumentTypeError(f"expected NAME=N, got '{text}'")
    return name, int(length)


def shape(text: str) -> tuple[str, list[int]]:
    """The type of --shape."""
    name, _, lengths = text.rpartition("=")
    parts = [length for length in lengths.split(",") if length]
    if not name or not all(length.isdecimal() for length in parts):
        raise argparse.ArgumentTypeError(f"expected INPUT=N,N,…, got '{text}'")
    return name, [int(length) for length in parts]


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge aot`."""
    parser.describe(
        """\
Makes an object file of an ONNX network, with a C function and its weights in it, which needs no
library but libc and libm; or a shared object that aot:FILE.so opens. Results are those of native:,
bit by bit, on every CPU.""",
        """\
example:
  mlbridge aot policy.onnx -o policy.o --header policy.h
  mlbridge aot policy.onnx -o policy.so
  mlbridge aot policy.onnx -o policy/         # sources: policy/policy.h, policy/*.cpp
  mlbridge aot other.onnx -o other.weights    # of the same network, for --weights external""",
    )
    parser.add_argument("model", metavar="FILE", help="the network: policy.onnx")
    parser.option(
        "-o FILE",
        "policy.o, policy.so or policy.weights; FOLDER/ writes C++ sources for your own build",
        dest="output",
        required=True,
    )
    parser.option("--header FILE", "write a C header")
    parser.option(
        "--shared", "make a shared object, for aot:FILE.so; implied by an output that ends in .so"
    )
    parser.option("--name NAME", "prefix of the symbols (default: the output's name)")
    parser.option(
        "--weights",
        "external: in a file beside the output, OUTPUT.weights, read at run time",
        choices=["inside", "external"],
        default="inside",
    )
    parser.option("--dim NAME=N ...", "length of a dynamic dimension", type=dimension)
    parser.option(
        "--shape INPUT=N,N ...", "shape of an input whose dimensions have no names", type=shape
    )
    parser.option(
        "--isa LIST",
        "instruction sets to choose from at run time: portable, avx2, avx512, neon "
        "(default: all of the target machine)",
    )
    parser.option("--depfile FILE", "with -o FOLDER/: dependencies for make and Ninja")
    parser.option("--cxx COMMAND", "the C++ compiler (default: $CXX, then c++)")
    parser.option(
        "--memory BYTES",
        "refuse a network whose evaluation takes more memory than this",
        type=number_from_one,
    )


def run(options: argparse.Namespace) -> int:
    """Compile what the options say."""
    from .. import aot

    listed = options.isa.split(",") if options.isa else []
    if unknown := [name for name in listed if name not in aot.INSTRUCTION_SETS]:
        raise UsageError(
            f"--isa: there is no instruction set '{unknown[0]}'; there are "
            f"{', '.join(aot.INSTRUCTION_SETS)}"
        )
    if options.shared and options.output.endswith((".o", ".weights")):
        raise UsageError(f"-o {options.output}: --shared makes a shared object; name it FILE.so")
    aot.compile(
        options.model,
        options.output,
        name=options.name,
        header=options.header,
        shared=options.shared,
        external_weights=options.weights == "external",
        lengths=dict(options.dim),
        shapes=dict(options.shape),
        instruction_sets=listed,
        depfile=options.depfile,
        compiler=shlex.split(options.cxx or os.environ.get("CXX") or "c++"),
        memory=options.memory or 0,
    )
    return DONE
