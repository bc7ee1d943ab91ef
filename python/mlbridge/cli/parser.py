# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of `mlbridge`: what each command takes, with an example."""

from __future__ import annotations

import argparse
import functools
from typing import Any, NoReturn

from .advice_parser import advising, answering
from .common import (
    EXIT_CODES,
    JSON,
    OPTIMIZATIONS,
    UsageError,
    assignment,
    duration,
    number_from_one,
    seconds,
    version,
)
from .corpus_parser import corpora

MOST_EFFORT = 100
#: The -O levels that a pass knows.
LEVELS = ("O1", "O2", "O3", "Os", "Oz")
AT = "where: unix:SOCKET, grpc:HOST:PORT, …"
LLVM_VERSION = "the LLVM version of the compiler (default: 22)"


class Parser(argparse.ArgumentParser):
    """Says what is wrong on one line."""

    #: Whether what follows -- is a command line, `build`. (argparse mixes it with the options.)
    takes_command = False
    _mixing = False

    def __init__(self, **named: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **named)

    def option(self, usage: str, text: str, **rest: Any) -> None:
        """Adds what `usage` shows: "--json", "--batch N", or "--agent NAME=MODEL ..."."""
        flag, *value = usage.split()
        if value:
            rest["metavar"] = value[0]
        elif "choices" not in rest:
            rest["action"] = "store_true"
        if value[1:]:
            rest.update(action="append", default=[])
        self.add_argument(flag, help=text, **rest)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._mixing:  # argparse itself
            return super().parse_known_args(args, namespace)
        command: list[str] = []
        if self.takes_command and "--" in args:
            at = args.index("--")
            args, command = args[:at], args[at + 1 :]
        if self._subparsers is not None:
            found, rest = super().parse_known_args(args, namespace)
        else:  # options may stand before, between and after what is positional
            self._mixing = True
            try:
                found, rest = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._mixing = False
        if self.takes_command:
            found.build = command
        if rest:
            own = "; a command that has options of its own follows --" * self.takes_command
            self.error(f"unrecognized arguments: {' '.join(rest)}{own}")
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


def effort(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_EFFORT:
        raise argparse.ArgumentTypeError(f"expected 0 to {MOST_EFFORT}, got '{text}'")
    return int(text)


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


def training_value(text: str) -> tuple[str, Any]:
    from .train import value

    return value(text)


def search_range(text: str) -> tuple[str, str]:
    return assignment("NAME=RANGE", text)


def parser() -> Parser:
    top = Parser(
        prog="mlbridge",
        description="Connects compiler optimizations to machine-learning models.",
        epilog="mlbridge COMMAND --help describes a command, with an example.\n\n" + EXIT_CODES,
    )
    top.add_argument("--version", action=Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(
        runs: str,
        summary: str,
        description: str,
        example: str,
        parents: tuple[Parser, ...] = (),
        under: Any = commands,
    ) -> Parser:
        """The command of `runs`: a module with the function run, or MODULE:COMMAND."""
        module, _, function = runs.partition(":")
        made: Parser = under.add_parser(
            function or module,
            help=summary,
            description=description,
            epilog=f"{example}\n\n{EXIT_CODES}",
            parents=parents,
        )
        made.set_defaults(module=module, function=function or "run")
        return made

    path = command(
        "flags:path",
        "print where a compiler plugin is",
        "Prints the file of an optimization's compiler plugin.",
        'example:\n  opt-22 -load-pass-plugin="$(mlbridge path phase-ordering)" -passes=…',
    )
    path.add_argument("optimization", help=", ".join(OPTIMIZATIONS))
    path.option("--llvm N", LLVM_VERSION, type=int, default=22, choices=(22, 19))

    model = Parser(add_help=False)
    model.add_argument(
        "optimizations",
        nargs="+",
        metavar="optimization",
        help=f"one or several of {', '.join(OPTIMIZATIONS)}",
    )
    model.option(
        "--model URI ...",
        "the model to ask: onnx:FILE, unix:SOCKET, grpc:HOST:PORT, …; OPTIMIZATION=URI for one of "
        "several optimizations",
    )
    model.option(
        "--missing",
        "inputs of the model that LLVM's features lack: an error (refuse, the default), or zero",
        choices=["refuse", "zero"],
    )
    model.option("--llvm N", LLVM_VERSION, type=int, default=22, choices=(22, 19))
    model.option(
        "--vocabulary FILE", "for embeddings, of `mlbridge vocabulary` (default: built in)"
    )
    model.option(
        "--effort N",
        "compare N ways with what the compiler itself does, and keep the best: of the passes for a "
        "file that of the smallest code, of a function's register allocations that of the least "
        "spills, reloads and copies (default: 1, for eviction 3, and 0 with a --model of one's "
        "own); 0: believe the model",
        type=effort,
    )
    model.option("--max-steps N", "the most decisions per module", type=number_from_one)
    model.option("--deadline TIME", "the longest wait: 5s, 250ms", type=duration)
    model.option("--plugin PATH", "a compiler plugin other than the installed one")
    model.option(
        "--compiler COMMAND",
        "the compiler that asks (default: clang-22 or -19; gcc-12; mlir-opt-22)",
    )
    asking = Parser(add_help=False, parents=[model])
    asking.option(
        "--on-failure",
        "if the model fails: the compiler's own passes and a warning (stock), or an error",
        choices=["stock", "fail"],
    )
    asking.option(
        "--log DIR",
        "record what models are asked and answer, and how candidates did, in this folder",
    )
    asking.option(
        "--levels LIST",
        "the -O levels at which it asks: Oz, O2, … (default: Os,Oz; in register allocation all; of "
        "loops O2,O3, of Polly also O1; of GCC O2,O3,Os)",
        type=levels,
    )
    flags = command(
        "flags",
        "print what to add to a compiler's command line",
        "Prints, on one line, what to add to a compiler's command line.",
        """\
Without --model, phase ordering compares the compiler's own passes with the best candidate that
comes with this package, and gives no object more executable bytes; the others ask the policies that
come with it. Those of the register allocator act at all levels, loop-distribution at -O2 and -O3,
polly-tiling, which turns Polly on, also at -O1, the others at -Os and -Oz, unless --levels says
otherwise.
gcc-settings is for gcc-12 and g++-12, and acts at -O2, -O3 and -Os. mlir-tiling is for mlir-opt-22;
several options need eval, as there are blanks between them. Paths are made absolute, so that a
build may change folders. If this command is missing or fails, the shell silently runs the compiler
without a model; to fail instead, use mlbridge wrapper.

example:
  make CC="clang-22 $(mlbridge flags phase-ordering)\"""",
        parents=(asking,),
    )
    flags.option(
        "--require",
        "open the model now and, unless it is a server, have the compiler ask it once; exit with 1 "
        "if that fails. Implies --on-failure fail",
    )
    wrapper = command(
        "flags:wrapper",
        "write a compiler that asks a model",
        """\
Writes a script that runs a compiler with what `mlbridge flags` prints. The script fails if a file
that it needs is gone and, unless --on-failure says otherwise, if the model fails. A model in a file
is tried before the script is written. The script needs neither this command nor Python.""",
        """\
example:
  mlbridge wrapper phase-ordering -o cc
  mlbridge wrapper phase-ordering -o c++ --compiler clang++-22
  make CC=$PWD/cc CXX=$PWD/c++""",
        parents=(asking,),
    )
    wrapper.option("-o FILE", "the script", dest="output", required=True)

    validate = command(
        "validate",
        "compare builds with and without a model",
        """\
Builds a source tree with a plain compiler and with one that asks a model, in copies of the tree and
in turns; runs commands in both; compares outputs, executable bytes of the object files, compile
time and run time and, for register allocation, what is spilled, with 95 % confidence intervals.
Exits with 1 if a build or command fails, if an output differs, or if the model is not asked or
fails.""",
        """\
COMMAND builds a tree. It is told the compiler by $CC and $CXX, and the level by $CFLAGS and
$CXXFLAGS. One word is run by the shell: -- 'make CC="$CC"'. Without options of its own it needs no
--. There is nothing to compare of mlir-tiling, which is for mlir-opt.

example:
  mlbridge validate phase-ordering --run './prog < input' --json report.json -- make -j2
  mlbridge validate phase-ordering --tree a --tree b --prepare ./configure -- make
  mlbridge validate register-allocation --level O3 --run ./bench -- make""",
        parents=(model,),
    )
    validate.takes_command = True
    validate.usage = "mlbridge validate optimization [...] [OPTION ...] -- COMMAND ..."
    validate.option("--tree DIR ...", "a source tree (default: .); each is built the same way")
    validate.option("--prepare COMMAND", "run before the build, not measured: ./configure")
    validate.option(
        "--level",
        "the -O level (default: Oz; O2 for register allocation and GCC, O3 for loops and Polly)",
        choices=LEVELS,
    )
    validate.option("--run COMMAND ...", "run in each built tree, its output compared")
    validate.option("--output FILE ...", "a file that the commands write, to be compared")
    validate.option(
        "--repeat N", "build and run so often (default: 3)", type=number_from_one, default=3
    )
    validate.option(
        "--timeout TIME",
        "the most for a build or command: 90s (default: 10m)",
        type=lambda text: seconds(duration(text)),
        default=600.0,
    )
    validate.option("--work DIR", "keep the copies here (default: a temporary folder, removed)")
    validate.option("--json FILE", "write a report")
    validate.option("--chart FILE", "draw a chart: chart.png, chart.svg (needs matplotlib)")

    doctor = command(
        "doctor",
        "check what is installed and what is missing",
        """\
Checks what is installed and says what to run to get what is missing. Exits with 0 if unmodified
clang can ask the shipped model.""",
        "example:\n  mlbridge doctor --json",
    )
    doctor.option("--json", JSON)

    serve = command(
        "serve",
        "serve a model from a file to compilers",
        """\
Serves a model to compilers until Ctrl-C or SIGTERM. Prints `ready URI` once they can connect, and
its statistics at the end.""",
        """\
MODEL is
  FILE.onnx         answered by ONNX Runtime as in process; its inputs and outputs are the signature
  FILE.pt           TorchScript (state --signature), or a program saved by torch.export
  MODULE:NAME       a Python policy(observation, context), or a function without arguments that
  FILE.py:NAME      makes one, or a torch.nn.Module and its Signature
  URI               of another model, only at llvm-interactive:BASE

With --batch, the requests to an ONNX network or exported program are concatenated along the dynamic
first dimension that all its inputs and outputs must have; a torch.nn.Module and a Python policy get
an additional leading dimension.

example:
  mlbridge serve policy.onnx --at unix:/tmp/policy.sock --batch 64 --max-wait 1ms""",
    )
    serve.add_argument("model", metavar="MODEL", help="what to serve; see below")
    serve.option("--batch N", "answer up to N waiting requests in one call", type=number_from_one)
    serve.option(
        "--max-wait TIME", "how long the first request of a batch waits for more: 1ms", type=seconds
    )
    serve.option("--pad X", "pad shorter inputs of a batch with X", type=float)
    serve.option("--signature TEXT", "such as '(x: float32[4]) -> (action: int64)'")
    serve.option(
        "--agent NAME=MODEL ...",
        "answer compilers that state this agent with another model; may be repeated",
        type=functools.partial(assignment, "NAME=MODEL"),
    )
    serve.option(
        "--limit NAME=NUMBER ...",
        "a limit of docs/serving.md, such as max_connections=2000; may be repeated",
        type=limit,
    )

    record = command(
        "serve:record",
        "keep what compilers ask a model and what it answers",
        """\
Serves another model to compilers and keeps what is asked, answered and rewarded in a new file,
until Ctrl-C or SIGTERM. Prints `ready URI` once compilers can connect.""",
        "example:\n  mlbridge record session.mlbrec --model onnx:policy.onnx --at unix:/tmp/s.sock",
    )
    record.option("--model URI", "who answers: unix:SOCKET, onnx:FILE, …", required=True)
    replay = command(
        "serve:replay",
        "answer compilers from a recording",
        """\
Serves what is in a file of `mlbridge record`, until Ctrl-C or SIGTERM: a request with the same
inputs gets the recorded answer; if there are several, the one at the same episode, context and
step. Any other request fails.""",
        "example:\n  mlbridge replay session.mlbrec --at unix:/tmp/s.sock",
    )
    for recording in (record, replay):
        recording.add_argument("file", metavar="FILE", help="the recording: session.mlbrec")
    answering(serve.add_argument_group("at llvm-interactive:BASE (docs/llvm-advice.md)"))
    advising(command)
    for server in (serve, record, replay):
        server.option("--at URI", AT, required=True)
        server.option("--json", "print the final statistics as JSON")

    inspect = command(
        "inspect",
        "show what a model is and what runs it",
        """\
Shows what a model is: inputs and outputs, metadata, operators, parameters, the multiply-adds of one
evaluation, which engines run it (and if not why), and what a compiler would contain that has it
built in. MODEL is an .onnx or .ort file, a shared object of `mlbridge compile`, the folder of a
TensorFlow SavedModel, or a URI (of a server only the signature and metadata are shown).""",
        "example:\n  mlbridge inspect policy.onnx\n  mlbridge inspect unix:/tmp/policy.sock",
    )
    inspect.add_argument("model", metavar="MODEL", help="a file, a SavedModel's folder, or a URI")
    inspect.option("--options TEXT", "options of the onnx: URI, such as custom_ops=LIB", default="")
    inspect.option("--json", JSON)

    compiling = command(
        "compile",
        "compile an ONNX network to an object file",
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
    compiling.option(
        "-o FILE",
        "policy.o, policy.so or policy.weights; FOLDER/ writes C++ sources for your own build",
        dest="output",
        required=True,
    )
    compiling.option("--header FILE", "write a C header")
    compiling.option(
        "--shared", "make a shared object, for aot:FILE.so; implied by an output that ends in .so"
    )
    compiling.option("--name NAME", "prefix of the symbols (default: the output's name)")
    compiling.option(
        "--weights",
        "external: in a file beside the output, OUTPUT.weights, read at run time",
        choices=["inside", "external"],
        default="inside",
    )
    compiling.option("--dim NAME=N ...", "length of a dynamic dimension", type=dimension)
    compiling.option(
        "--shape INPUT=N,N ...", "shape of an input whose dimensions have no names", type=shape
    )
    compiling.option(
        "--isa LIST",
        "instruction sets to choose from at run time: portable, avx2, avx512, neon "
        "(default: all of the target machine)",
    )
    compiling.option("--depfile FILE", "with -o FOLDER/: dependencies for make and Ninja")
    compiling.option("--cxx COMMAND", "the C++ compiler (default: $CXX, then c++)")
    compiling.option(
        "--memory BYTES",
        "refuse a network whose evaluation takes more memory than this",
        type=number_from_one,
    )

    train = command(
        "train",
        "train a policy with the compiler as the environment",
        """\
Trains a policy in the folder DIR: settings.json, progress.jsonl, checkpoints, TensorBoard's events,
curve.png, README.md and in the end policy.onnx, which every runner takes. ENV is `phase-ordering`,
which starts stock opt-22, `register-allocation` or `loop-distribution`, which have a network for
each agent, or the URI of an environment with one agent. After a kill, --resume loses at most the
iteration that was running. Needs what pip install '.[train]' installs in MLBridge's
source tree.""",
        """\
example:
  mlbridge train phase-ordering --corpus modules/ --algorithm maskable-ppo -o policy/
  mlbridge train phase-ordering --corpus modules/ --algorithm dqn --set lr=0.001 -o policy/
  mlbridge train --config models/poset-rl/double-dqn.json --corpus modules/ -o policy/""",
    )
    training_options(train)
    train.option(
        "--workers N", "processes with a compiler each, besides this one (default: 0)", type=int
    )

    tune = command(
        "tune",
        "train several policies with drawn settings",
        """\
Searches for good settings by Ray Tune: each trial is a training in DIR/trials, and those whose
reward is behind are ended early (ASHA). DIR/best.json has the trials, best first, DIR/policy.onnx
the best policy. Needs what pip install '.[train]' installs in MLBridge's
source tree.""",
        """\
example:
  mlbridge tune phase-ordering --corpus modules/ --search lr=1e-5..1e-2 --trials 8 -o tuned/""",
    )
    training_options(tune)
    tune.option(
        "--search NAME=RANGE ...",
        "a setting to draw: LOW..HIGH (whole numbers: 1..5), or choices A,B,C; also of `algorithm` "
        "and `seed`",
        type=search_range,
    )
    tune.option("--trials N", "(default: 8)", type=number_from_one, default=8)
    tune.option("--at-once N", "trials (default: 1)", type=number_from_one, default=1)
    corpora(commands, command)

    vocabulary = command(
        "vocabulary",
        "train a vocabulary for embeddings",
        """\
Trains the seed vectors from which LLVM's IR2Vec makes embeddings: llvm-ir2vec states what stands
beside what in the modules and in what opt makes of them, and TransE finds the vectors. With
--machine, of the machine code that llc makes of them for x86-64 and AArch64. CORPUS is a corpus, or
modules, or folders of them (docs/embeddings.md).""",
        """\
example:
  mlbridge vocabulary mine --part training -o v.json
  mlbridge train phase-ordering --corpus mine --observation ir2vec --vocabulary v.json -o p/""",
    )
    vocabulary.add_argument("corpus", metavar="CORPUS", nargs="+", help="what to learn from")
    vocabulary.option("-o FILE", "the vocabulary, as JSON", dest="output", required=True)
    vocabulary.option("--part NAME", "of the corpus", default="")
    vocabulary.option("--machine", "of machine code, for register allocation")
    vocabulary.option(
        "--dimensions N", "default: 300, of machine code 100", type=number_from_one, default=None
    )
    for name, preset in (("epochs", 1000), ("jobs", 2)):
        vocabulary.option(f"--{name} N", f"default: {preset}", type=number_from_one, default=preset)
    vocabulary.option("--seed N", "the same vocabulary again (default: 0)", type=int, default=0)

    candidates = command(
        "candidates",
        "measure and choose what --effort compares",
        """\
Compiles the modules of a corpus with each candidate of a list, and says how much smaller the code
is if the best is kept: geometric means of the programs, with 95 % intervals.""",
        """\
example:
  mlbridge candidates pool.json mine --part training --sizes sizes.jsonl --choose 10 -o best.json
  mlbridge candidates best.json mine --part validation --sizes sizes.jsonl
  clang-22 $(mlbridge flags phase-ordering --model candidates:best.json --effort 3) -Oz -c f.c""",
    )
    candidates.add_argument("list", metavar="LIST", help="the candidates, as JSON")
    candidates.add_argument("corpus", metavar="CORPUS", help="of `mlbridge corpus`")
    candidates.option("--sizes FILE", "keeps what was measured", required=True)
    candidates.option("--part NAME", "of the corpus", default="")
    candidates.option(
        "--modules N",
        "at most so many of each program (default: all)",
        type=number_from_one,
        default=1 << 30,
    )
    candidates.option("--choose N", "the N that gain most together", type=number_from_one)
    candidates.option(
        "--continuing N",
        "the first N of these are cheap ones, that continue the stock pipeline (default: 0)",
        type=number_from_one,
        default=0,
    )
    candidates.option(
        "--search N",
        "also try N new candidates that descend from the best ones, by evolution",
        type=number_from_one,
    )
    candidates.option("--seed N", "of the search: another one tries others", type=int, default=0)
    candidates.option("-o FILE", "the list as it is printed", dest="output")
    candidates.option("--jobs N", "default: 2", type=number_from_one, default=2)

    stats = command(
        "serve:stats",
        "ask a running server what it has done",
        "Asks a running server what it has done so far, for all compilers together.",
        "example:\n  mlbridge stats unix:/tmp/policy.sock --json",
    )
    stats.add_argument("uri", metavar="URI", help=AT.replace("where", "where it listens"))
    stats.option("--json", JSON)
    return top


def training_options(train: Parser) -> None:
    """Of `mlbridge train` and `mlbridge tune`."""
    train.add_argument(
        "environment",
        metavar="ENV",
        nargs="?",
        help="phase-ordering, register-allocation, loop-distribution, or a URI (also in FILE)",
    )
    train.option(
        "--config FILE",
        "defaults for all that follows, as JSON: the settings.json of a training, or one of "
        "models/poset-rl; its paths start at its folder",
    )
    train.option("-o DIR", "the folder of the training", dest="output", required=True)
    train.option(
        "--corpus CORPUS ...",
        "a corpus (--option part=training: a part of it), modules, or a folder of them; may be "
        "repeated for modules",
    )
    train.option(
        "--observation",
        "of phase-ordering: counts of its instructions (default), or its embedding by LLVM's "
        "IR2Vec, flow-aware or symbolic",
        choices=["counts", "ir2vec", "ir2vec-symbolic"],
    )
    train.option("--vocabulary FILE", "of `mlbridge vocabulary`, instead of the shipped one")
    train.option(
        "--algorithm",
        "maskable-ppo is Stable-Baselines3's, imitation learns from a teacher (--set teacher=FILE: "
        "a recording), and neither needs Ray; the others are RLlib's, where a2c is ppo with its "
        "settings (default: ppo)",
        choices=["ppo", "appo", "dqn", "a2c", "maskable-ppo", "imitation"],
    )
    train.option("--steps N", "of the environment, in all (default: 20000)", type=number_from_one)
    train.option("--seed N", "the same numbers again, without workers (default: 0)", type=int)
    train.option("--resume", "go on with the training in DIR")
    train.option("--ray ADDRESS", "a Ray cluster that is running (default: started here)")
    train.option(
        "--option NAME=VALUE ...",
        "of the environment, such as max_steps=20; may be repeated",
        type=training_value,
    )
    train.option(
        "--set NAME=VALUE ...",
        "of the algorithm, such as lr=0.001; may be repeated",
        type=training_value,
    )
