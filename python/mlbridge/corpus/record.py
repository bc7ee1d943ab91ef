# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps the bitcode of a compilation by clang, before any pass has run.

The compiler wrappers of `mlbridge corpus add` run this file before each real compilation:

    python -I -S record.py INCOMING COMPILER ARGUMENT...

Whatever goes wrong here is a line in INCOMING/problems, and the build goes on. Only the standard
library is imported, and little of it, since this starts once for each file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence

#: Seconds that one compilation may take.
LIMIT = 600
LANGUAGES = {"c": "c", "cpp-output": "c", "c++": "c++", "c++-cpp-output": "c++"}
SUFFIXES = (".c", ".i", ".cc", ".cp", ".cxx", ".cpp", ".c++", ".C", ".CC", ".CPP", ".ii")
#: What configure scripts, CMake and Meson try out; not a part of the program.
TRIED = re.compile(
    r"(^|/)(conftest\.\w+$|(CMakeFiles/[\d.]+|CMakeTmp|CMakeScratch|meson-private)/)"
)
# Arguments of the driver that change in how many steps it compiles, or only what is left over.
STEPS = re.compile(r"-(save-temps|fembed-bitcode|flto|fno-integrated-cc1|no-integrated-cpp)\b.*")
# Arguments of the driver that say where things go, not how the code is compiled.
PLACES = ("-o", "-MF", "-MT", "-MQ", "--serialize-diagnostics")
WITHOUT = re.compile(r"-(c|S|M\w*|pipe|v)")
# Arguments of cc1 that write further files, and those that describe the source to debuggers: they
# would make modules several times as large, and tell them apart by the folder they were built in.
CC1_PAIRS = re.compile(
    r"-(o|M[TQ]|dependency-file|split-dwarf-(file|output)|serialize-diagnostic-file|dumpdir"
    r"|opt-record-(file|passes|format)|stack-usage-file|diagnostic-log-file|header-include-file)"
)
CC1_SINGLE = re.compile(
    r"-(emit-obj|S|emit-llvm(-bc|-uselists)?|disable-llvm-passes|M\w|sys-header-deps|O0"
    r"|module-file-deps|(debug-info-kind|debugger-tuning|dwarf-\w+|f(debug|coverage)-compilation-dir"
    r"|ftime-trace|stats-file|fpass-plugin|flto|fembed-bitcode)(=.*)?)"
)
# What -### prints: a line for each command, with each word in quotes.
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
COMMAND_LINE = re.compile(r'^( "(?:[^"\\]|\\.)*")+$', re.DOTALL | re.MULTILINE)
# Variables by which the compiler would write something twice.
VARIABLES = ("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CC_PRINT_OPTIONS", "CC_LOG_DIAGNOSTICS")


class Unrecorded(Exception):
    """Why there is no bitcode of a compilation."""


def expanded(arguments: Iterable[str], folder: str) -> Iterator[str]:
    """With the contents of response files (@FILE)."""
    for argument in arguments:
        path = os.path.join(folder, argument[1:])
        if argument.startswith("@") and os.path.isfile(path):
            with open(path, errors="surrogateescape") as file:
                yield from expanded(shlex.split(file.read()), folder)
        else:
            yield argument


def without_places(arguments: Sequence[str], source: str) -> list[str]:
    """The driver's arguments that say how the code is compiled."""
    rest = iter(arguments)
    kept = []
    for argument in rest:
        if argument in PLACES:
            next(rest, None)
        elif argument != source and not WITHOUT.fullmatch(argument):
            kept.append(argument)
    return kept


def front_ends(compiler: str, arguments: Sequence[str], folder: str) -> Iterator[list[str]]:
    """The commands of clang's front end (cc1) that compile C and C++ to code."""
    said = run([compiler, "-###", *arguments], folder).stderr.decode(errors="surrogateescape")
    for line in COMMAND_LINE.finditer(said):
        words = [re.sub(r"(?s)\\(.)", r"\1", word) for word in WORD.findall(line[0])]
        compiles = words[1:2] == ["-cc1"] and {"-emit-obj", "-S", "-emit-llvm-bc"} & set(words)
        if compiles and words[words.index("-x") + 1] in LANGUAGES and words[-1] != "-":
            yield words


def run(command: Sequence[str], folder: str) -> subprocess.CompletedProcess[bytes]:
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    env.setdefault("SOURCE_DATE_EPOCH", "0")  # __DATE__ would be another one each time
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unrecorded(str(error)) from None


def record(
    incoming: str, compiler: str, arguments: Sequence[str], folder: str, prefix: str = ""
) -> None:
    """Put the bitcode of each translation unit of a command line into the folder `incoming`.

    The driver says how it would compile them; its front end does that again, for bitcode. Names
    begin with `prefix`, which orders them. Raises Unrecorded or OSError.
    """
    given: list[str] = []
    for argument in expanded(arguments, folder):
        if not STEPS.fullmatch(argument) or given[-1:] == ["-Xclang"]:
            given.append(argument)
    if "-x" not in given and not any(a.endswith(SUFFIXES) for a in given):
        return  # linking
    with open(os.path.join(incoming, "program.json")) as file:
        root = json.load(file)["root"]
    commands = list(front_ends(compiler, given, folder))
    if commands and not any(word.startswith("-O") and word != "-O0" for word in commands[0]):
        commands = list(front_ends(compiler, ["-Oz", *without_level(given)], folder))
    prefix = prefix or f"{time.time_ns()}-{os.getpid()}"
    for number, words in enumerate(commands):
        source = words[-1]
        place = os.path.normpath(os.path.join(folder, source))
        if TRIED.search(place):
            continue
        name = os.path.join(incoming, f"{prefix}-{number}")
        target = name + ".part"
        options = ["-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes", "-w"]
        options.append(f"-fmacro-prefix-map={root}/=")
        done = run([*cc1(words, options), "-o", target, source], folder)
        if done.returncode:
            said = done.stderr.decode(errors="replace").splitlines()
            why = next((line for line in said if "error:" in line), f"exit {done.returncode}")
            raise Unrecorded(f"{source}: {why}")
        entry = {
            "source": os.path.relpath(place, root),
            "language": LANGUAGES[words[words.index("-x") + 1]],
            "flags": without_places(given, source),
            "target": words[words.index("-triple") + 1],
        }
        os.rename(target, name + ".bc")
        with open(target, "w") as text:
            json.dump(entry, text)
        os.rename(target, name + ".json")  # last: what has it is complete


def without_level(arguments: Iterable[str]) -> list[str]:
    return [a for a in arguments if not re.fullmatch(r"-O\w*", a)]


def cc1(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """The command of the front end with `options`, without its output and source."""
    rest = iter(words[:-1])
    kept = []
    for word in rest:
        if CC1_PAIRS.fullmatch(word):
            next(rest, None)
        elif not CC1_SINGLE.fullmatch(word):
            kept.append(word)
    return [*kept, *options]


def main(arguments: list[str]) -> int:
    incoming, compiler, *rest = arguments
    try:
        record(incoming, compiler, rest, os.getcwd())
    except (Unrecorded, OSError, ValueError, KeyError) as error:
        with open(os.path.join(incoming, "problems"), "a", errors="replace") as problems:
            problems.write(" ".join(str(error).split()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
