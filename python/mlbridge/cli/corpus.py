# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge corpus`: collects the bitcode of whole programs, lists it and divides it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import corpus
from ..errors import Error
from .arguments import JSON, Parser, assignment, number_from_one, positive_seconds
from .common import (
    DONE,
    FAILED,
    INTERRUPTED,
    CommandError,
    Interrupted,
    UsageError,
    printable,
    table,
)

#: Problems that are printed one by one.
SHOWN = 10
#: Columns of tables that are no numbers.
TEXTS = ("name", "program", "version", "part", "languages")


def add_arguments(parser: Parser) -> None:
    """The commands of `mlbridge corpus`, and their options."""
    parser.describe(
        "Collects the unoptimized bitcode of whole programs (docs/corpora.md).",
        "example:\n  mlbridge corpus add mine -- make CC=clang-22",
    )
    parts = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)
    name = Parser(add_help=False)
    name.add_argument("name", metavar="NAME", help="a corpus: a name, or a path with a slash")

    def command(
        function: Callable[[argparse.Namespace], int],
        summary: str,
        *texts: str,
        parents: Sequence[Parser] = (name,),
    ) -> Parser:
        part: Parser = parts.add_parser(function.__name__, help=summary, parents=parents)
        part.describe(*texts)
        part.set_defaults(function=function)
        return part

    add_parser = command(
        add,
        "add the modules of a program",
        """\
Adds the modules that clang compiles in a build: COMMAND runs as it is, with clang-22 as its CC and
CXX, and with compilers that keep what they compile first in its PATH. What is there already, also
of another program, is not added again. After an interruption the same command goes on.""",
        """\
If COMMAND fails, its exit code is this command's.

example:
  mlbridge corpus add mine -- make -j2 CC=clang-22
  mlbridge corpus add mine --compile-commands build/compile_commands.json""",
    )
    add_parser.takes_command = True
    add_parser.usage = "mlbridge corpus add [OPTION ...] NAME [-- COMMAND ...]"
    source = add_parser.add_mutually_exclusive_group()
    for flag, value, text in (
        ("--compile-commands", "FILE", "compile again what a compile_commands.json lists"),
        ("--debian", "PACKAGE", "build a Debian source package: NAME or NAME=VERSION"),
        ("--pypi", "NAME", "build a source distribution from PyPI: NAME or NAME==VERSION"),
    ):
        source.add_argument(flag, metavar=value, help=text)
    source.add_argument(
        "--embedded",
        metavar="FILE",
        nargs="+",
        help="take the bitcode in objects of clang -Xclang -fembed-bitcode=all",
    )
    source.add_argument(
        "--parquet",
        metavar="FILE",
        nargs="+",
        help="take the rows of Parquet files in the format of ComPile",
    )
    rows = add_parser.add_argument_group("rows of Parquet files")
    rows.add_argument(
        "--in-place", action="store_true", help="keep where they are, and not their bitcode"
    )
    rows.add_argument("--language", metavar="LIST", help="only these: c,c++,rust,swift,julia")
    rows.add_argument(
        "--license", metavar="SPDX", action="append", default=[],
        help="only with this expression, exactly; may be repeated",
    )  # fmt: skip
    rows.add_argument("--target", metavar="LIST", help="only triples that begin so: x86_64,aarch64")
    for flag, text in (
        ("--smallest", "only modules with so many bytes of bitcode or more"),
        ("--largest", "only modules with at most so many bytes of bitcode"),
        ("--limit", "only so many, the first ones"),
    ):
        rows.add_argument(flag, metavar="N", type=number_from_one, help=text)
    add_parser.option(
        "--program NAME", "what the program is called (default: the folder, the package)"
    )
    add_parser.option("--version TEXT", "the version of the program", default="")
    add_parser.option("--measure", "also compile each module at -Oz, and keep its bytes of code")
    add_parser.option("--jobs N", "how many to compile at once", type=number_from_one, default=2)
    add_parser.option(
        "--ray ADDRESS",
        "a Ray cluster that is running, whose nodes describe and --measure the modules; clang's "
        "front end runs here, where the headers are",
    )

    list_parser = command(
        list,
        "list the corpora and their sizes",
        """\
Lists the corpora that are known by their name: those in $MLBRIDGE_CORPORA, or else in
~/.local/share/mlbridge/corpora.""",
        "example:\n  mlbridge corpus list",
        parents=(),
    )
    show_parser = command(
        show,
        "show the programs of a corpus, or a module",
        "Shows the programs of a corpus, or what is known of a module.",
        "example:\n  mlbridge corpus show mine\n  mlbridge corpus show mine 1f0c3a --extract .",
    )
    show_parser.add_argument("which", metavar="MODULE", nargs="?", help="a hash, or PROGRAM/SOURCE")
    show_parser.option("--extract DIR", "write the module's bitcode into this folder")
    split_parser = command(
        split,
        "divide the programs of a corpus into parts",
        """\
Divides the programs, never the modules of one, into parts, and keeps that in the corpus. The same
programs, parts and seed always give the same split. Run it again after programs were added; those
that have a part keep it.""",
        "example:\n  mlbridge corpus split mine --seed 1 --parts training=8,validation=1,test=1",
    )
    split_parser.option("--seed N", "any number", type=int, required=True)
    split_parser.option("--parts LIST", "NAME=SHARE,…", type=shares, required=True)
    profile_parser = command(
        profile,
        "count how often the functions of a program run",
        """\
Builds a copy of this folder with counters in every function, runs each command in it, and keeps the
counts of the program's functions in the corpus, for each command apart. The program must be in the
corpus. Commands are run without a shell.""",
        """\
A program that is ended, by a signal or after --timeout, has its counts until then.

example:
  mlbridge corpus profile mine --run big='./prog big.txt' --run 'small=./prog -x small.txt' \\
    -- make CC=clang-22""",
    )
    profile_parser.takes_command = True
    profile_parser.usage = (
        "mlbridge corpus profile [OPTION ...] NAME --run WORKLOAD=COMMAND ... -- COMMAND ..."
    )
    profile_parser.option("--run WORKLOAD=COMMAND ...", "run this, and call it so", type=workload)
    profile_parser.option(
        "--build COMMAND", "what builds the program, instead of after --", dest="build_words"
    )
    profile_parser.option("--program NAME", "how the corpus calls it (default: the folder)")
    profile_parser.option(
        "--timeout TIME",
        "the most for each command: 90s (default: 10m)",
        type=positive_seconds,
        default=600.0,
    )
    for part in (add_parser, list_parser, show_parser, split_parser, profile_parser):
        part.option("--json", JSON)


def shares(text: str) -> dict[str, float]:
    """The type of --parts."""
    parts: dict[str, float] = {}
    for part in text.split(","):
        name, value = assignment("NAME=SHARE,…", part)
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0 < share < float("inf") or name in parts:
            raise argparse.ArgumentTypeError(f"expected another name and a share, got '{part}'")
        parts[name] = share
    return parts


def workload(text: str) -> tuple[str, str]:
    """The type of --run."""
    return assignment("WORKLOAD=COMMAND", text)


def add(options: argparse.Namespace) -> int:
    """Add the modules of a program."""
    from ..corpus import adding, packages

    sources = ("compile_commands", "embedded", "debian", "pypi", "parquet")
    given = [name for name in sources if getattr(options, name) is not None]
    if len(given) + bool(options.build) != 1:
        raise UsageError(
            "expected either a build after --, or one of --compile-commands, --embedded, --debian, "
            "--pypi, --parquet; see mlbridge corpus add --help"
        )
    of_rows = ("in_place", "language", "license", "target", "smallest", "largest", "limit")
    stated = [name for name in of_rows if getattr(options, name)]
    if stated and options.parquet is None:
        raise UsageError(f"--{stated[0].replace('_', '-')} is for --parquet")
    if options.parquet is not None and (options.program or options.version):
        raise UsageError("--program and --version are not for --parquet: rows name their packages")
    if options.parquet is not None and options.ray:
        raise UsageError("--ray is not for --parquet, whose rows are read here")
    program, version = options.program, options.version
    here = program or os.path.basename(os.getcwd()) or "program"
    finishing = {
        "jobs": options.jobs,
        "measure": options.measure,
        "progress": not options.json,
        "cluster": options.ray or "",
        "warned": say,
    }
    code, called = DONE, here
    place = corpus.place_of(options.name)
    there = corpus.is_corpus(place)
    try:
        if options.build:
            code, added, _ = adding.build(place, options.build, here, version, **finishing)
        elif options.compile_commands is not None:
            file = Path(options.compile_commands)
            added = adding.compile_commands(place, file, here, version, **finishing)
        elif options.embedded is not None:
            files = map(Path, options.embedded)
            added = adding.embedded(place, files, here, version, **finishing)
        elif options.parquet is not None:
            called = "the files"
            added = _parquet(place, options)
        else:
            debian = options.debian is not None
            collect = packages.debian if debian else packages.pypi
            package = options.debian if debian else options.pypi
            called = program or package.partition("=")[0]
            added = collect(place, package, program or "", **finishing)
    except KeyboardInterrupt:
        say("interrupted; the next addition takes what was compiled")
        return INTERRUPTED
    for problem in added.problems[:SHOWN]:
        say(f"not recorded: {problem}")
    if len(added.problems) > SHOWN:
        say(f"… {len(added.problems)} in all")
    for line in remarks(added):
        say(line)
    if options.json:
        print(json.dumps(asdict(added), indent=1))
    else:
        print(
            f"{options.name}: {added.new} modules added, {added.known} were there, {added.empty} "
            f"have no code, {len(added.problems)} not recorded"
        )
    if code:  # a signal, as shells say it
        return 128 - code if code < 0 else code
    if added.recorded:
        return DONE
    up_to_date = (
        options.parquet is None
        and not added.problems
        and there
        and any(m.program == called for m in corpus.open(place))
    )
    if up_to_date:
        return DONE
    raise CommandError(f"nothing of {called} was recorded: {advice(added, options)}")


def _parquet(place: Path, options: argparse.Namespace) -> Any:
    from ..corpus import parquet_adding

    def words(text: str | None) -> tuple[str, ...]:
        return tuple(word.strip() for word in (text or "").split(",") if word.strip())

    selection = corpus.Selection(
        languages=words(options.language),
        smallest=options.smallest or 0,
        largest=options.largest,
        licenses=tuple(options.license),
        limit=options.limit,
    )
    return parquet_adding.parquet(
        place, options.parquet, selection,
        targets=words(options.target), in_place=options.in_place,
        jobs=options.jobs, measure=options.measure, progress=not options.json,
    )  # fmt: skip


def say(text: str) -> None:
    """Print a remark on stderr."""
    print(f"mlbridge corpus: {printable(text)}", file=sys.stderr)


def remarks(added: Any) -> Iterator[str]:
    """The remarks on an addition, a line each."""
    by: dict[str, Any] = {}
    for line in added.left_out:
        file, _, why = line.rpartition(": ")
        by.setdefault(why, []).append(file)
    for why, files in by.items():
        names = [*dict.fromkeys(files)]
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        yield f"left out: {len(files)} × {why} ({some})"
    for why, rows in sorted(added.rows.items()):
        yield f"rows left out: {rows} × {why}"
    if added.without:
        options = ", ".join(added.without)
        yield f"compiled without options that clang does not have: {options}"
    others = {level: n for level, n in sorted(added.levels.items()) if level != "Oz"}
    if others:
        levels = ", ".join(f"{n} at -{level}" for level, n in others.items())
        yield (
            f"not compiled at -Oz: {levels}. -Oz marks functions in another way, so a policy that "
            "learns from these looks better in training than it is at -Oz; for code size, build "
            "with -Oz (often CFLAGS=-Oz CXXFLAGS=-Oz)"
        )


def advice(added: Any, options: argparse.Namespace) -> str:
    """The likely reason why nothing was recorded."""
    if added.problems:
        return "what was seen could not be; see above"
    if added.empty:
        return "no module has a function"
    if added.left_out or options.parquet is not None:
        return "all that was seen is left out; see above"
    if options.compile_commands is not None or options.embedded is not None:
        return "the files name no compilation of C or C++"
    return (
        "no compilation by clang was seen. Pass CC=clang-22 and CXX=clang++-22 to the build; a "
        "compiler that is called by its path is not seen, and a build that is up to date "
        "compiles nothing"
    )


def list(options: argparse.Namespace) -> int:
    """List the corpora."""
    rows, code = [], DONE
    for name in corpus.names():
        try:
            found = corpus.open(name)
        except Error as error:  # the others can be listed
            print(f"mlbridge corpus: {error}", file=sys.stderr)
            code = FAILED
            continue
        rows.append({"name": name, **summary(found), "path": str(found.path)})
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        print_rows(["name", "programs", "modules", "bitcode_bytes", "disk_bytes"], rows)
    return code


def summary(found: corpus.Corpus) -> dict[str, Any]:
    """The numbers of a corpus."""
    return {
        "programs": len({m.program for m in found}),
        "modules": len(found),
        "bitcode_bytes": sum(m.bytes for m in found),
        "disk_bytes": sum(p.stat().st_size for p in found.path.rglob("*.parquet")),
    }


def show(options: argparse.Namespace) -> int:
    """Show programs, or a module."""
    from ..corpus import profiles

    found = corpus.open(options.name)
    if options.which is None:
        if options.extract:
            raise UsageError("--extract needs a MODULE")
        rows = [asdict(m) for m in found]
        if options.json:
            shown_too = {"parts": found.parts, "profiles": profiles.programs(found)}
            print(json.dumps({**summary(found), **shown_too, "modules": rows}, indent=1))
        else:
            print_rows(["program", "version", "part", "modules", "languages", "bitcode_bytes"],
                  programs(found))  # fmt: skip
            for program, workloads in profiles.programs(found).items():
                print(f"{printable(program)} was profiled: {printable(', '.join(workloads))}")
        return DONE
    module = found.find(options.which)
    shown = {**asdict(module), "part": found.parts.get(module.program)}
    for origin in found.origins_of([module]):
        shown |= {f"row_{name}" if name in ("row", "size") else name: value
                  for name, value in origin._asdict().items() if name != "module"}  # fmt: skip
    if options.extract:
        shown["extracted"] = str(found.extract(module, options.extract))
    if options.json:
        print(json.dumps(shown, indent=1))
    else:
        for name, value in shown.items():
            text = " ".join(value) if isinstance(value, tuple) else str(value)
            if value not in (None, "", ()):
                print(f"{name:14} {printable(text)}")
    return DONE


def programs(found: corpus.Corpus) -> Any:
    """A row of numbers for each program."""
    by: dict[str, Any] = {}
    for m in found:
        by.setdefault(m.program, []).append(m)
    for program, modules in by.items():
        yield {
            "program": program,
            "version": modules[-1].version,
            "part": found.parts.get(program, ""),
            "modules": len(modules),
            "languages": " ".join(
                f"{n} {c}" for n, c in Counter(m.language for m in modules).items()
            ),
            "bitcode_bytes": sum(m.bytes for m in modules),
        }


def split(options: argparse.Namespace) -> int:
    """Divide a corpus into parts."""
    divided = corpus.open(options.name).split(options.parts, options.seed)
    counts = Counter(divided.parts[p] for p in {m.program for m in divided})
    rows = [
        {
            "part": name,
            "programs": counts[name],
            "modules": len(divided.part(name)) if counts[name] else 0,
        }
        for name in options.parts
    ]
    if options.json:
        print(json.dumps({"parts": rows, "programs": divided.parts}, indent=1))
    else:
        print_rows(["part", "programs", "modules"], rows)
    return DONE


def profile(options: argparse.Namespace) -> int:
    """Count how often the functions of a program run."""
    from ..corpus import profiles

    if bool(options.build) == bool(options.build_words):
        raise UsageError("expected a build, either after -- or with --build; such as -- make")
    if not options.run:
        raise UsageError("expected a command to run: --run WORKLOAD=COMMAND")
    names = Counter(name for name, _ in options.run)
    if twice := [name for name, count in names.items() if count > 1]:
        raise UsageError(f"--run: several workloads are called {', '.join(twice)}")
    try:
        build = options.build or shlex.split(options.build_words)
    except ValueError as error:  # a quotation that does not end
        raise UsageError(f"--build: {error}") from None
    try:
        done = profiles.profile(
            corpus.open(options.name),
            build,
            dict(options.run),
            options.program or os.path.basename(os.getcwd()) or "program",
            timeout=options.timeout,
            quiet=options.json,
        )
    except KeyboardInterrupt:
        raise Interrupted("interrupted; nothing is kept") from None
    for line in done.remarks:
        say(line)
    if options.json:
        print(json.dumps(asdict(done), indent=1))
    else:
        rows = [
            {
                **asdict(one),
                "exit": "-" if one.code is None else one.code,
                "seconds": f"{one.seconds:.2f}",
            }
            for one in done.workloads
        ]
        columns = ["name", "exit", "seconds", "ran", "never_ran", "unknown"]
        print_rows(columns, rows)
    return DONE


def print_rows(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the rows below their columns."""
    head = [name.replace("_", " ") for name in columns]
    table(head, ([row[name] for name in columns] for row in rows), left=TEXTS)
