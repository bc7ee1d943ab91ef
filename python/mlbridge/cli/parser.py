# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `mlbridge`: what each command takes, with an example."""

from __future__ import annotations

import argparse
import functools
from typing import Any, NoReturn

from .common import (
    EXIT_CODES,
    OPTIMIZATIONS,
    UsageError,
    assignment,
    number_from_one,
    seconds,
    version,
)

#: The -O levels that a pass knows.
LEVELS = ("O1", "O2", "O3", "Os", "Oz")
AT = "where: unix:SOCKET, grpc:HOST:PORT, …"
JSON = "print the result as JSON"


class Parser(argparse.ArgumentParser):
    """Says what is wrong on one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


class Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"mlbridge {version()}")
        parser.exit()


def levels(text: str) -> str:
    if not all(level in LEVELS for level in text.split(",")):
        known = ", ".join(LEVELS)
        raise argparse.ArgumentTypeError(f"expected {known}, or several with commas, got '{text}'")
    return text


def duration(text: str) -> str:
    if seconds(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a time such as 5s or 250ms, got '{text}'")
    return text


def limit(text: str) -> tuple[str, int | str]:
    name, value = assignment("NAME=NUMBER", text)
    try:
        return name, value if name == "handshake_time" else number_from_one(value)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{name}: {error}") from None


def dimension(text: str) -> tuple[str, int]:
    name, _, length = text.rpartition("=")
    if not name or not length.isdecimal():
        raise argparse.ArgumentTypeError(f"expected NAME=N, got '{text}'")
    return name, int(length)


def shape(text: str) -> tuple[str, list[int]]:
    name, _, lengths = text.rpartition("=")
    parts = [length for length in lengths.split(",") if length]
    if not name or not all(length.isdecimal() for length in parts):
        raise argparse.ArgumentTypeError(f"expected INPUT=N,N,…, got '{text}'")
    return name, [int(length) for length in parts]


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="mlbridge",
        description="Connects compiler optimizations to machine-learning models.",
        epilog="mlbridge COMMAND --help describes a command, with an example.\n\n" + EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(
        name: str,
        summary: str,
        description: str,
        example: str,
        *,
        module: str = "",
        parents: tuple[Parser, ...] = (),
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=f"{example}\n\n{EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=parents,
        )
        made.set_defaults(module=module or name)
        return made

    path = command(
        "path",
        "print where a compiler plugin is",
        "Prints the file of an optimization's compiler plugin.",
        'example:\n  opt-22 -load-pass-plugin="$(mlbridge path phase-ordering)" -passes=…',
    )
    path.add_argument("optimization", help=", ".join(OPTIMIZATIONS))

    asking = Parser(add_help=False)
    asking.add_argument("optimization", help=", ".join(OPTIMIZATIONS))
    asking.add_argument(
        "--model", metavar="URI", help="the model to ask: onnx:FILE, unix:SOCKET, grpc:HOST:PORT, …"
    )
    asking.add_argument(
        "--max-steps", metavar="N", type=number_from_one, help="the most decisions for a module"
    )
    asking.add_argument(
        "--deadline", metavar="TIME", type=duration, help="the longest wait: 5s, 250ms"
    )
    asking.add_argument(
        "--on-failure",
        choices=["stock", "fail"],
        help="if the model fails: the compiler's own passes and a warning (stock), or an error",
    )
    asking.add_argument("--log", metavar="DIR", help="write the decisions into this folder")
    asking.add_argument(
        "--levels",
        metavar="LIST",
        type=levels,
        help="the -O levels at which it acts: Os,Oz, or O1,O2,O3 as well",
    )
    asking.add_argument("--plugin", metavar="PATH", help="another file of the compiler plugin")
    asking.add_argument(
        "--compiler",
        default="clang-22",
        metavar="COMMAND",
        help="the compiler that is to ask; clang-22 unless given",
    )
    flags = command(
        "flags",
        "print what to add to a compiler's command line",
        "Prints, on one line, what to add to a compiler's command line.",
        """\
Without --model it is the policy for code size that comes with this package. It acts at -Os and -Oz
unless --levels says otherwise. Paths are made absolute, so that a build may change folders. When
this command is missing or fails the shell goes on with the plain compiler: see mlbridge wrapper.

example:
  make CC="clang-22 $(mlbridge flags phase-ordering)\"""",
        parents=(asking,),
    )
    flags.add_argument(
        "--require",
        action="store_true",
        help="open the model now, and have the compiler ask one that is no server; exit with 1 if "
        "that fails. Implies --on-failure fail",
    )
    wrapper = command(
        "wrapper",
        "write a compiler that asks a model",
        """\
Writes a compiler: a script that runs another one with what `mlbridge flags` prints. It fails if
anything that it needs is gone, and unless --on-failure says otherwise if the model does. A model in
a file is tried at once. The script needs neither this command nor Python.""",
        """\
example:
  mlbridge wrapper phase-ordering -o cc
  mlbridge wrapper phase-ordering -o c++ --compiler clang++-22
  make CC=$PWD/cc CXX=$PWD/c++""",
        parents=(asking,),
    )
    wrapper.add_argument("-o", dest="output", metavar="FILE", required=True, help="the script")

    doctor = command(
        "doctor",
        "check what is installed and what is missing",
        """\
Checks what is installed and says what to run to get what is missing. Ends with 0 if unmodified
clang can ask the shipped model.""",
        "example:\n  mlbridge doctor --json",
    )
    doctor.add_argument("--json", action="store_true", help=JSON)

    serve = command(
        "serve",
        "serve a model from a file to compilers",
        """\
Serves a model to compilers until Ctrl-C or SIGTERM. Prints `ready URI` once they can connect, and
what was done at the end.""",
        """\
MODEL is
  FILE.onnx         answered by ONNX Runtime as in process; its inputs and outputs are the signature
  FILE.pt           TorchScript (state --signature), or a program saved by torch.export
  MODULE:NAME       a Python policy(observation, context), or a function without arguments that
  FILE.py:NAME      makes one, or a torch.nn.Module and its Signature

With --batch, an ONNX network or exported program takes the requests along the dynamic dimension
with which all its inputs and outputs begin; a torch.nn.Module and a Python policy get one more
dimension, in front.

example:
  mlbridge serve policy.onnx --at unix:/tmp/policy.sock --batch 64 --max-wait 1ms""",
    )
    serve.add_argument("model", metavar="MODEL", help="what to serve; see below")
    serve.add_argument(
        "--batch",
        metavar="N",
        type=number_from_one,
        help="answer up to N waiting requests in one call",
    )
    serve.add_argument(
        "--max-wait",
        metavar="TIME",
        type=seconds,
        help="how long the first of a batch waits for more: 1ms",
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
        type=functools.partial(assignment, "NAME=MODEL"),
        action="append",
        default=[],
        help="answer compilers that state this agent with another model; may be repeated",
    )
    serve.add_argument(
        "--limit",
        metavar="NAME=NUMBER",
        type=limit,
        action="append",
        default=[],
        help="a limit of docs/serving.md, such as max_connections=2000; several times",
    )

    record = command(
        "record",
        "keep what compilers ask a model and what it answers",
        """\
Serves another model to compilers and keeps what is asked, answered and rewarded in a new file,
until Ctrl-C or SIGTERM. Prints `ready URI` once compilers can connect.""",
        "example:\n  mlbridge record session.mlbrec --model onnx:policy.onnx --at unix:/tmp/s.sock",
    )
    record.add_argument(
        "--model", metavar="URI", required=True, help="who answers: unix:SOCKET, onnx:FILE, …"
    )
    replay = command(
        "replay",
        "answer compilers from a recording",
        """\
Serves what is in a file of `mlbridge record`, until Ctrl-C or SIGTERM: equal inputs get the answer
that was recorded, at the same episode, context and step where there are several. Anything else
fails.""",
        "example:\n  mlbridge replay session.mlbrec --at unix:/tmp/s.sock",
        module="record",
    )
    for recording in (record, replay):
        recording.add_argument("file", metavar="FILE", help="the recording: session.mlbrec")
    for server in (serve, record, replay):
        server.add_argument("--at", metavar="URI", required=True, help=AT)
        server.add_argument("--json", action="store_true", help="print what was done as JSON")

    inspect = command(
        "inspect",
        "show what a model is and what runs it",
        """\
Shows what a model is: inputs and outputs, metadata, operators, parameters, the multiply-adds of one
evaluation, which engines run it (and if not why), and what a compiler would contain that has it
built in. MODEL is an .onnx or .ort file, a shared object of `mlbridge compile`, the folder of a
TensorFlow SavedModel, or a URI: of a server, signature and metadata.""",
        "example:\n  mlbridge inspect policy.onnx\n  mlbridge inspect unix:/tmp/policy.sock",
    )
    inspect.add_argument("model", metavar="MODEL", help="a file, a SavedModel's folder, or a URI")
    inspect.add_argument(
        "--options", metavar="TEXT", default="", help="of the onnx: URI, such as custom_ops=LIB"
    )
    inspect.add_argument("--json", action="store_true", help=JSON)

    compiling = command(
        "compile",
        "make an object file of an ONNX network",
        """\
Makes an object file of an ONNX network, with a C function and its weights in it, which needs no
library but libc and libm; or a shared object that aot:FILE.so opens. Results are those of native:,
bit by bit, on every CPU.""",
        """\
example:
  mlbridge compile policy.onnx -o policy.o --header policy.h
  mlbridge compile policy.onnx -o policy.so
  mlbridge compile policy.onnx -o policy/         # sources: policy/policy.h, policy/*.cpp
  mlbridge compile other.onnx -o other.weights    # of the same network, for --weights external""",
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
        "--dim",
        metavar="NAME=N",
        type=dimension,
        action="append",
        default=[],
        help="length of a dynamic dimension",
    )
    compiling.add_argument(
        "--shape",
        metavar="INPUT=N,N",
        type=shape,
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
    compiling.add_argument(
        "--memory",
        metavar="BYTES",
        type=number_from_one,
        help="refuse a network whose evaluation takes more memory than this",
    )

    stats = command(
        "stats",
        "ask a running server what it has done",
        "Asks a running server what it has done so far, for all compilers together.",
        "example:\n  mlbridge stats unix:/tmp/policy.sock --json",
    )
    stats.add_argument("uri", metavar="URI", help=AT.replace("where", "where it listens"))
    stats.add_argument("--json", action="store_true", help=JSON)
    return top
