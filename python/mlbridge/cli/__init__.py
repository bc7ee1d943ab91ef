# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `mlbridge` command. Each command imports what it needs only when it runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

DESCRIPTION = "Connects compiler optimizations to machine-learning models."

FLAGS_EPILOG = """\
example:
  make CC="clang-22 $(mlbridge flags phase-ordering)"

Without --model it is the policy for code size that comes with this package. It acts at -Os and -Oz
unless --levels says otherwise. Paths are made absolute, so that a build may change folders. When
this command is missing or fails the shell goes on with the plain compiler: see mlbridge wrapper."""

WRAPPER_DESCRIPTION = """\
Writes a compiler: a script that runs another one with what `mlbridge flags` prints. It fails if
anything that it needs is gone, and unless --on-failure says otherwise if the model does. A model in
a file is tried at once. The script needs neither this command nor Python."""

WRAPPER_EPILOG = """\
example:
  mlbridge wrapper phase-ordering -o cc
  mlbridge wrapper phase-ordering -o c++ --compiler clang++-22
  make CC=$PWD/cc CXX=$PWD/c++"""

DOCTOR_DESCRIPTION = """\
Checks what is installed and says what to run to get what is missing. Exits with 0 if unmodified
clang can ask the shipped model, with 1 otherwise."""


SERVE_DESCRIPTION = """\
Serves a model to compilers until Ctrl-C or SIGTERM. Prints `ready URI` once they can connect, and
what was done at the end."""

SERVE_EPILOG = """\
MODEL is
  FILE.onnx         answered by ONNX Runtime as in process; its inputs and outputs are the signature
  FILE.pt           TorchScript (state --signature), or a program saved by torch.export
  MODULE:NAME       a Python policy(observation, context), or a function without arguments that
  FILE.py:NAME      makes one, or a torch.nn.Module and its Signature

With --batch, an ONNX network or exported program takes the requests along the dynamic dimension
with which all its inputs and outputs begin; a torch.nn.Module and a Python policy get one more
dimension, in front.

example:
  mlbridge serve policy.onnx --at unix:/tmp/policy.sock --batch 64 --max-wait 1ms"""


RECORD_DESCRIPTION = """\
Serves another model to compilers and keeps what is asked, answered and rewarded in a new file,
until Ctrl-C or SIGTERM. Prints `ready URI` once compilers can connect."""

REPLAY_DESCRIPTION = """\
Serves what is in a file of `mlbridge record`, until Ctrl-C or SIGTERM: equal inputs get the answer
that was recorded, at the same episode, context and step where there are several. Anything else
fails."""


INSPECT_DESCRIPTION = """\
Shows what a model is: inputs and outputs, metadata, operators, parameters, the multiply-adds of one
evaluation, which engines run it (and if not why), and what a compiler would contain that has it
built in. MODEL is an .onnx or .ort file, a shared object of `mlbridge compile`, the folder of a
TensorFlow SavedModel, or a URI: of a server, signature and metadata."""


COMPILE_DESCRIPTION = """\
Makes an object file of an ONNX network, with a C function and its weights in it, which needs no
library but libc and libm; or a shared object that aot:FILE.so opens. Results are those of native:,
bit by bit, on every CPU."""

COMPILE_EPILOG = """\
example:
  mlbridge compile policy.onnx -o policy.o --header policy.h
  mlbridge compile policy.onnx -o policy.so
  mlbridge compile policy.onnx -o policy/         # sources: policy/policy.h, policy/*.cpp
  mlbridge compile other.onnx -o other.weights    # of the same network, for --weights external"""


class CommandError(Exception):
    """What was asked for cannot be done; the text goes to the user."""


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(prog="mlbridge", description=DESCRIPTION)
    top.add_argument("--version", action="store_true", help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    path = commands.add_parser(
        "path",
        help="print where a compiler plugin is",
        description="Prints the file of an optimization's compiler plugin.",
    )
    path.add_argument("optimization", help="phase-ordering")

    flags = argparse.ArgumentParser(add_help=False)
    flags.add_argument("optimization", help="phase-ordering")
    flags.add_argument(
        "--model", metavar="URI", help="the model to ask: onnx:FILE, unix:SOCKET, grpc:HOST:PORT, …"
    )
    flags.add_argument("--max-steps", metavar="N", help="the most decisions for a module")
    flags.add_argument("--deadline", metavar="TIME", help="the longest wait: 5s, 250ms")
    flags.add_argument(
        "--on-failure",
        choices=["stock", "fail"],
        help="if the model fails: the compiler's own passes and a warning (stock), or an error",
    )
    flags.add_argument("--log", metavar="DIR", help="write the decisions into this folder")
    flags.add_argument(
        "--levels",
        metavar="LIST",
        help="the -O levels at which it acts: Os,Oz, or O1,O2,O3 as well",
    )
    flags.add_argument("--plugin", metavar="PATH", help="another file of the compiler plugin")
    printing = commands.add_parser(
        "flags",
        help="print what to add to a compiler's command line",
        description="Prints, on one line, what to add to a compiler's command line.",
        epilog=FLAGS_EPILOG,
        formatter_class=raw,
        parents=[flags],
    )
    printing.add_argument(
        "--require",
        action="store_true",
        help="open the model now, and exit with 1 if it can't be (names that only the plugin "
        "knows, such as function:, are left to it); implies --on-failure fail",
    )
    wrapper = commands.add_parser(
        "wrapper",
        help="write a compiler that asks a model",
        description=WRAPPER_DESCRIPTION,
        epilog=WRAPPER_EPILOG,
        formatter_class=raw,
        parents=[flags],
    )
    wrapper.add_argument("-o", dest="output", metavar="FILE", required=True, help="the script")
    wrapper.add_argument(
        "--compiler", default="clang-22", metavar="COMMAND", help="clang-22 unless given"
    )

    doctor = commands.add_parser(
        "doctor",
        help="check what is installed and what is missing",
        description=DOCTOR_DESCRIPTION,
        formatter_class=raw,
    )
    doctor.add_argument("--json", action="store_true", help="print the result as JSON")

    serve = commands.add_parser(
        "serve",
        help="serve a model from a file to compilers",
        description=SERVE_DESCRIPTION,
        epilog=SERVE_EPILOG,
        formatter_class=raw,
    )
    serve.add_argument("model", metavar="MODEL", help="what to serve; see below")
    serve.add_argument(
        "--at", metavar="URI", required=True, help="where: unix:SOCKET, grpc:HOST:PORT, …"
    )
    serve.add_argument("--batch", metavar="N", help="answer up to N waiting requests in one call")
    serve.add_argument(
        "--max-wait", metavar="TIME", help="how long the first of a batch waits for more: 1ms"
    )
    serve.add_argument(
        "--pad", metavar="X", type=float, help="fill shorter inputs of a batch up with X"
    )
    serve.add_argument(
        "--signature", metavar="TEXT", help="such as '(x: float32[4]) -> (action: int64)'"
    )
    serve.add_argument(
        "--agent",
        metavar="NAME=MODEL",
        action="append",
        default=[],
        help="answer compilers that state this agent with another model; may be repeated",
    )
    serve.add_argument(
        "--limit",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="a limit of docs/serving.md, such as max_connections=2000; several times",
    )
    serve.add_argument("--json", action="store_true", help="print what was done as JSON")

    record = commands.add_parser(
        "record",
        help="keep what compilers ask a model and what it answers",
        description=RECORD_DESCRIPTION,
        formatter_class=raw,
    )
    record.add_argument(
        "--model", metavar="URI", required=True, help="who answers: unix:SOCKET, onnx:FILE, …"
    )
    replay = commands.add_parser(
        "replay",
        help="answer compilers from a recording",
        description=REPLAY_DESCRIPTION,
        formatter_class=raw,
    )
    for command in (record, replay):
        command.add_argument("file", metavar="FILE", help="the recording: session.mlbrec")
        command.add_argument(
            "--at", metavar="URI", required=True, help="where: unix:SOCKET, grpc:HOST:PORT, …"
        )
        command.add_argument("--json", action="store_true", help="print what was done as JSON")

    inspect = commands.add_parser(
        "inspect",
        help="show what a model is and what runs it",
        description=INSPECT_DESCRIPTION,
        formatter_class=raw,
    )
    inspect.add_argument("model", metavar="MODEL", help="a file, a SavedModel's folder, or a URI")
    inspect.add_argument(
        "--options", metavar="TEXT", default="", help="of the onnx: URI, such as custom_ops=LIB"
    )
    inspect.add_argument("--json", action="store_true", help="print the result as JSON")

    compiling = commands.add_parser(
        "compile",
        help="make an object file of an ONNX network",
        description=COMPILE_DESCRIPTION,
        epilog=COMPILE_EPILOG,
        formatter_class=raw,
    )
    compiling.add_argument("model", metavar="FILE", help="the network: policy.onnx")
    compiling.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        required=True,
        help="policy.o, or .so, or .weights; FOLDER/: C++ for a build of your own",
    )
    compiling.add_argument("--header", metavar="FILE", help="write a C header")
    compiling.add_argument(
        "--shared",
        action="store_true",
        help="a shared object, for aot:FILE.so; said by an output that ends in .so as well",
    )
    compiling.add_argument("--name", help="what symbols begin with; otherwise the output's name")
    compiling.add_argument(
        "--weights",
        choices=["inside", "external"],
        default="inside",
        help="external: in a file beside the output, OUTPUT.weights, read at run time",
    )
    compiling.add_argument(
        "--dim", metavar="NAME=N", action="append", default=[], help="length of a dynamic dimension"
    )
    compiling.add_argument(
        "--shape",
        metavar="INPUT=N,N",
        action="append",
        default=[],
        help="shape of an input whose dimensions have no names",
    )
    compiling.add_argument(
        "--isa",
        metavar="LIST",
        help="instruction sets to choose from at run time: portable, avx2, avx512, neon; otherwise "
        "all of the machine",
    )
    compiling.add_argument(
        "--depfile", metavar="FILE", help="with -o FOLDER/: what it was made of, for make and Ninja"
    )
    compiling.add_argument("--cxx", metavar="COMMAND", help="the C++ compiler; otherwise $CXX, c++")

    stats = commands.add_parser(
        "stats",
        help="ask a running server what it has done",
        description="Asks a running server what it has done so far, for all compilers together.",
    )
    stats.add_argument(
        "uri", metavar="URI", help="where it listens: unix:SOCKET, grpc:HOST:PORT, …"
    )
    stats.add_argument("--json", action="store_true", help="print the result as JSON")
    return top


def version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("mlbridge")
    except PackageNotFoundError:  # run from a build tree
        from .. import __version__

        return __version__


def main(arguments: Sequence[str] | None = None) -> int:
    top = parser()
    options = top.parse_args(arguments)
    try:
        if options.version:
            print(f"mlbridge {version()}")
            return 0
        if options.command == "flags":
            from .flags import flags_line

            print(flags_line(options))
            return 0
        if options.command == "path":
            from .flags import path_of

            print(path_of(options.optimization))
            return 0
        if options.command == "wrapper":
            from .wrapper import write

            write(options)
            return 0
        if options.command == "doctor":
            from .doctor import run

            return run(as_json=options.json)
        if options.command == "serve":
            from .serve import run as serve

            return serve(options)
        if options.command in ("record", "replay"):
            from .record import run as record

            return record(options)
        if options.command == "inspect":
            from .inspect import show as show_model

            show_model(options.model, options=options.options, as_json=options.json)
            return 0
        if options.command == "compile":
            from .compile import run as compile_model

            return compile_model(options)
        if options.command == "stats":
            from .stats import show

            show(options.uri, as_json=options.json)
            return 0
    except CommandError as error:
        print(f"mlbridge {options.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    top.print_help()
    return 2
