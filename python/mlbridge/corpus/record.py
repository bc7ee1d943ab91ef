# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Keeps the bitcode of a compilation by clang, before any pass has run.

The compiler wrappers of `mlbridge corpus add` run this file before each real compilation:

    python -I -S record.py INCOMING COMPILER ARGUMENT...

While `mlbridge corpus profile` runs, they run the real compilation by it, with further flags:

    python -I -S record.py --instrument FOLDER COMPILER ARGUMENT...

Whatever goes wrong here is a line in INCOMING/problems, a file that is no module of C or C++ one in
INCOMING/left-out, and the build goes on. Only the standard library is imported, and little of it,
since this starts once for each file.
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
from itertools import pairwise

#: Seconds that one compilation may take.
LIMIT = 600
LANGUAGES = {
    **dict.fromkeys(("c", "cpp-output"), "c"),
    **dict.fromkeys(("c++", "c++-cpp-output", "c++-module", "c++-module-cpp-output", "pcm"), "c++"),
}
SUFFIXES = (
    *(".c", ".i", ".cc", ".cp", ".cxx", ".cpp", ".c++", ".C", ".CC", ".CPP", ".CXX", ".C++", ".ii"),
    *(".cppm", ".ccm", ".cxxm", ".c++m", ".iim", ".pcm"),
)
FORTRAN = (
    *(".f", ".for", ".ftn", ".fpp", ".f77", ".f90", ".f95", ".f03", ".f08"),
    *(".F", ".FOR", ".FTN", ".FPP", ".F77", ".F90", ".F95", ".F03", ".F08"),
)
#: Files that aren't kept, by the driver's name for their language, or by their suffix.
OTHERS = {
    **dict.fromkeys(("assembler", "assembler-with-cpp", ".s", ".S", ".sx"), "assembler"),
    **dict.fromkeys(("f77", "f95", "f77-cpp-input", "f95-cpp-input"), "Fortran"),
    **dict.fromkeys(FORTRAN, "Fortran"),
    **dict.fromkeys(("objective-c", "objective-c-cpp-output", ".m", ".mi"), "Objective-C"),
    **dict.fromkeys(("objective-c++", "objective-c++-cpp-output", ".mm", ".M"), "Objective-C++"),
    **dict.fromkeys(("cuda", "cuda-cpp-output", ".cu", ".cui"), "CUDA"),
    **dict.fromkeys(("hip", "hip-cpp-output", ".hip"), "HIP"),
    **dict.fromkeys(("cl", "clcpp", ".cl", ".clcpp"), "OpenCL"),
    **dict.fromkeys(("ir", ".bc", ".ll"), "LLVM IR"),
    **dict.fromkeys(("c-header", "c++-header", "c++-system-header"), "a header"),
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".H", ".h++"), "a header"),
    **dict.fromkeys((".adb", ".ads"), "Ada"),
    ".d": "D",
    ".rs": "Rust",
    ".swift": "Swift",
}
#: The reasons why commands of the front end make no code.
NO_CODE = {
    "-E": "only preprocessed",
    "-Eonly": "only preprocessed",
    "-fsyntax-only": "only checked",
    "-analyze": "only checked",
    "-emit-pch": "a precompiled header",
    "-emit-header-unit": "a header unit",
    "-emit-module": "a module's interface",
    "-emit-module-interface": "a module's interface",
    "-emit-reduced-module-interface": "a module's interface",
}
TRIAL = "an attempt of a configuration"
#: Files that configure scripts, CMake, Meson, SCons, waf and distutils try out, not the program.
#: (CMake has a target's own generated sources in CMakeFiles/NAME.dir.)
TRIED = re.compile(
    r"(^|/)((conftest|_configtest)\.\w+$|CMakeFiles/(?!([^/]+/)*[^/]+\.dir(/|$))|CMakeTmp(/|$)"
    r"|meson-private(/|$)|\.sconf_temp/|\.conf_check_\w+(/|$))"
)
TRIED_ANYWHERE = re.compile(r"/share/cmake(-[\d.]+)?/Modules/|^/dev/null$")
# Errors of the driver about options that it does not take.
ERROR = re.compile(r"(?m)^\S*clang\S*: error: (.*)$")
UNKNOWN = re.compile(
    r"unknown argument:? '([^']+)'|unsupported option '([^']+)'"
    r"|unsupported argument '[^']*' to option '([^']+)'|unsupported value '[^']*' in '([^']+)'"
)
#: The most times that options are left out which the driver names; it names all of a kind at once.
MOST_TRIES = 10
# Options of GCC that clang takes for its own, with other files.
OF_GCC = re.compile(r"-f(plugin(-arg-\S+?)?|profile-use|auto-profile|branch-probabilities)(=.*)?")
# Options whose value is the next word.
WITH_VALUE = re.compile(
    r"-(o|x|D|U|I|L|T|u|z|e|F|arch|target|include(-pch)?|imacros|isystem|idirafter|iquote|isysroot"
    r"|iprefix|iwithprefix|M[FTQ]|Xclang|Xlinker|Xassembler|Xpreprocessor|mllvm|dumpdir)"
    r"|--(param|sysroot|target|serialize-diagnostics)"
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
    r"|fmodule-output(=.*)?|fno-validate-pch"
    r"|module-file-deps|(debug-info-kind|debugger-tuning|dwarf-\w+|f(debug|coverage)-compilation-dir"
    r"|ftime-trace|stats-file|fpass-plugin|flto|fembed-bitcode)(=.*)?)"
)
# The output of -###: a line for each command, with each word in quotes.
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
COMMAND_LINE = re.compile(r'^( "(?:[^"\\]|\\.)*")+$', re.DOTALL | re.MULTILINE)
# Variables by which the compiler would write something twice.
VARIABLES = ("DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CC_PRINT_OPTIONS", "CC_LOG_DIAGNOSTICS")


class Unrecorded(Exception):
    """The reason why there is no bitcode of a compilation."""


class Seen:
    """The results of a command line but for its bitcode, a line each."""

    def __init__(self) -> None:
        self.recorded = 0
        self.problems: list[str] = []
        self.left_out: list[str] = []  #: no module of C or C++, and why
        self.without: list[str] = []  #: options that clang does not have

    def files(self) -> dict[str, list[str]]:
        """The lines by the names of the files in which an addition has them."""
        return {"problems": self.problems, "left-out": self.left_out, "without": self.without}


def expanded(arguments: Iterable[str], folder: str) -> Iterator[str]:
    """The arguments with the contents of response files (@FILE)."""
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


def inputs(arguments: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The files that are to be compiled, each with the language that -x gives it, else ""."""
    for _, file, language in numbered_inputs(arguments):
        yield file, language


def numbered_inputs(arguments: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Like inputs(), each with its place among the arguments."""
    language, before = "", ""
    for number, argument in enumerate(arguments):
        if before == "-x":
            language = "" if argument == "none" else argument
        elif WITH_VALUE.fullmatch(before):
            pass
        elif argument.startswith("-x") and len(argument) > 2:
            language = "" if argument == "-xnone" else argument[2:]
        elif argument == "-" or (
            not argument.startswith("-")
            and (language or os.path.splitext(argument)[1] in (*SUFFIXES, *OTHERS))
        ):
            yield number, argument, language
        # A value isn't taken for an option in turn.
        before = "" if WITH_VALUE.fullmatch(before) else argument


def front_ends(compiler: str, arguments: Sequence[str], folder: str) -> tuple[list[list[str]], str]:
    """The commands of clang's front end (cc1) for a command line, and the driver's other output."""
    output = run([compiler, "-###", *arguments], folder).stderr.decode(errors="surrogateescape")
    found = []
    for line in COMMAND_LINE.finditer(output):
        words = [re.sub(r"(?s)\\(.)", r"\1", word) for word in WORD.findall(line[0])]
        if words[1:2] == ["-cc1"] and "-x" in words:
            found.append(words)
    return found, COMMAND_LINE.sub("", output)


def understood(
    compiler: str, arguments: list[str], folder: str, foreign: bool, seen: Seen
) -> tuple[list[list[str]], list[str], list[str]]:
    """The commands of the front end, the driver's arguments that lead to them, and its errors.
    Arguments of a foreign compiler that clang does not have are left out."""
    given = list(arguments)
    if foreign:
        given = [a for a in given if not OF_GCC.fullmatch(a)]
        seen.without += [a for a in arguments if OF_GCC.fullmatch(a)]
    for _ in range(MOST_TRIES):
        commands, output = front_ends(compiler, given, folder)
        errors = ERROR.findall(output)
        unknown = [
            next(filter(None, found)) for error in errors for found in UNKNOWN.findall(error)
        ]
        gone = {
            a
            for a in given
            if a in unknown or a.startswith(tuple(u for u in unknown if u[-1] == "="))
        }
        if not foreign or not gone:
            break
        seen.without += [a for a in given if a in gone]
        given = [a for a in given if a not in gone]
    return commands, given, errors


def without_pch(words: Sequence[str], folder: str, changed: bool) -> list[str]:
    """The front end's command with the header itself instead of the precompiled one, which would
    have to be there, be clang-22's, and have the same level."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word != "-include-pch":
            kept.append(word)
            continue
        place = next(rest, "")
        header = re.sub(r"\.(pch|gch)$", "", place)
        if header == place or not os.path.isfile(os.path.join(folder, header)):
            kept += [word, place, *(["-fno-validate-pch"] if changed else [])]
        elif ("-include", header) not in pairwise(words):
            kept += ["-include", header]
    return kept


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


def is_tried(place: str, folder: str, root: str) -> bool:
    """True for a file that a configuration tries out, in this folder."""
    inside = (os.path.relpath(path, root) for path in (place, folder))
    return bool(TRIED_ANYWHERE.search(place)) or any(TRIED.search(path) for path in inside)


def left_out(file: str, language: str, folder: str, root: str) -> str:
    """The reason why an input is no module, as far as its name tells; else ""."""
    if file == "-":
        return "standard input"
    if is_tried(os.path.normpath(os.path.join(folder, file)), folder, root):
        return TRIAL
    return OTHERS.get(language or os.path.splitext(file)[1], "")


def record(
    incoming: str,
    compiler: str,
    arguments: Sequence[str],
    folder: str,
    prefix: str = "",
    foreign: bool = False,
) -> Seen:
    """Put the bitcode of each translation unit of a command line into the folder `incoming`.

    The driver says how it would compile them; its front end does that again, for bitcode. Names
    begin with `prefix`, which orders them. `foreign`: the command line is another compiler's.
    Raises Unrecorded or OSError if nothing can be said of it.
    """
    seen = Seen()
    given: list[str] = []
    for argument in expanded(arguments, folder):
        if not STEPS.fullmatch(argument) or given[-1:] == ["-Xclang"]:
            given.append(argument)
    files = list(inputs(given))
    with open(os.path.join(incoming, "program.json")) as program:
        root = json.load(program)["root"]
    if not files and (absent := [a for a in given if a.startswith("@")]):
        raise Unrecorded(f"{absent[0]}: there is no such file")
    whys = [left_out(file, language, folder, root) for file, language in files]
    if all(whys):  # also linking, and questions to the compiler about itself
        seen.left_out += [f"{file}: {why}" for (file, _), why in zip(files, whys, strict=True)]
        return seen
    seen.left_out += [  # for which the front end isn't called
        f"{file}: {why}"
        for (file, _), why in zip(files, whys, strict=True)
        if why and os.path.splitext(file)[1] in (".s", *FORTRAN)
    ]
    commands, given, errors = understood(compiler, given, folder, foreign, seen)
    changed = bool(commands) and not any(
        word.startswith("-O") and word != "-O0" for word in commands[0]
    )
    if changed:
        again = ["-Oz", *without_level(given)]
        commands, _ = front_ends(compiler, again, folder)
    prefix = prefix or f"{time.time_ns()}-{os.getpid()}"
    for number, words in enumerate(commands):
        name = os.path.join(incoming, f"{prefix}-{number}")
        try:
            if why := unit(without_pch(words, folder, changed), given, folder, root, name):
                seen.left_out.append(f"{words[-1]}: {why}")
            else:
                seen.recorded += 1
        except Unrecorded as error:
            seen.problems.append(str(error))
    first = next((file for file, _ in files), "")
    for message in errors:
        is_named = "'" in message and first in message
        seen.problems.append(message if is_named else f"{first}: {message}")
    if not commands and not errors:
        seen.left_out.append(f"{first}: nothing is compiled")
    return seen


def unit(words: Sequence[str], given: Sequence[str], folder: str, root: str, name: str) -> str:
    """Keep the module that a command of the front end compiles, in files that begin with `name`. If
    it is no module, returns the reason; raises Unrecorded."""
    source, kind = words[-1], words[words.index("-x") + 1]
    place = os.path.normpath(os.path.join(folder, source))
    if is_tried(place, folder, root):
        return TRIAL
    if kind in OTHERS:
        return OTHERS[kind]
    for word in words:
        if word in NO_CODE:
            return NO_CODE[word]
    if source == "-":
        return "standard input"
    if kind not in LANGUAGES:
        return f"the language {kind}"
    if not {"-emit-obj", "-S", "-emit-llvm-bc", "-emit-llvm"} & set(words):
        return "no code is made of it"
    target = name + ".part"
    options = ["-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes", "-w"]
    options.append(f"-fmacro-prefix-map={root}/=")
    validated = ["-fno-validate-pch"] if "-fno-validate-pch" in words else []
    done = run([*cc1(words, options), *validated, "-o", target, source], folder)
    if done.returncode:
        errors = done.stderr.decode(errors="replace").splitlines()
        why = next((line for line in errors if "error:" in line), f"exit {done.returncode}")
        raise Unrecorded(f"{source}: {why}")
    entry = {
        "source": os.path.relpath(place, root),
        "language": LANGUAGES[kind],
        "flags": without_places(given, source),
        "target": words[words.index("-triple") + 1],
    }
    os.rename(target, name + ".bc")
    with open(target, "w") as text:
        json.dump(entry, text)
    os.rename(target, name + ".json")  # last: what has it is complete
    return ""


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


#: Files of a folder for an instrumented build: flags, one a line, and the sources that were seen.
FLAGS, COMPILED = "flags", "compiled"


def instrumented(arguments: Sequence[str], flags: Sequence[str], folder: str) -> list[str]:
    """The arguments with `flags`. Sources become absolute, as the names of static functions in a
    profile have the path, and the compiler may run in several folders."""
    words = list(arguments)
    for number, file, language in numbered_inputs(arguments):
        if file != "-" and (language or os.path.splitext(file)[1]) in (*LANGUAGES, *SUFFIXES):
            words[number] = os.path.normpath(os.path.join(folder, file))
    prefix = [] if words == list(arguments) else [f"-fmacro-prefix-map={folder}/="]
    return ["--start-no-unused-arguments", *flags, *prefix, "--end-no-unused-arguments", *words]


def instrument(folder: str, compiler: str, arguments: Sequence[str]) -> int:
    """Become the compiler, with counters in every function."""
    with open(os.path.join(folder, FLAGS)) as file:
        flags = file.read().splitlines()
    with open(os.path.join(folder, COMPILED), "a", errors="replace") as file:
        file.write("".join(f"{source!r}\n" for source, _ in inputs(arguments)))
    os.execv(compiler, [compiler, *instrumented(arguments, flags, os.getcwd())])


def main(arguments: list[str]) -> int:
    if arguments[0] == "--instrument":
        return instrument(arguments[1], arguments[2], arguments[3:])
    incoming, compiler, *rest = arguments
    try:
        seen = record(incoming, compiler, rest, os.getcwd())
    except Exception as error:  # whatever it is, the build's compilation must not go missing
        seen = Seen()
        seen.problems.append(f"{shlex.join(rest)[:300]}: {error or type(error).__name__}")
    for name, lines in seen.files().items():
        if lines:
            with open(os.path.join(incoming, name), "a", errors="replace") as file:
                file.write("".join(" ".join(line.split()) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
