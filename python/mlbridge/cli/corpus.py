# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge corpus`: collects the bitcode of whole programs, lists it and divides it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import corpus
from ..errors import Error
from .common import DONE, FAILED, CommandError, UsageError

#: Problems that are printed one by one.
SHOWN = 10


def add(options: argparse.Namespace) -> int:
    """Add the modules of a program."""
    from ..corpus import adding, packages

    sources = ("compile_commands", "embedded", "debian", "pypi")
    given = [name for name in sources if getattr(options, name) is not None]
    if len(given) + bool(options.build) != 1:
        raise UsageError(
            "expected either a build after --, or one of --compile-commands, --embedded, --debian, "
            "--pypi; see mlbridge corpus add --help"
        )
    program, version = options.program, options.version
    here = program or os.path.basename(os.getcwd()) or "program"
    finishing = {"jobs": options.jobs, "measure": options.measure, "progress": not options.json}
    code, called = DONE, here
    try:
        place = corpus.place_of(options.name)
        there = corpus.is_corpus(place)
        if options.build:
            code, added, _ = adding.build(place, options.build, here, version, **finishing)
        elif options.compile_commands is not None:
            file = Path(options.compile_commands)
            added = adding.compile_commands(place, file, here, version, **finishing)
        elif options.embedded is not None:
            files = map(Path, options.embedded)
            added = adding.embedded(place, files, here, version, **finishing)
        else:
            debian = options.debian is not None
            made = packages.debian if debian else packages.pypi
            package = options.debian if debian else options.pypi
            called = program or package.partition("=")[0]
            added = made(place, package, program or "", **finishing)
    except Error as error:
        raise CommandError(str(error)) from error
    except KeyboardInterrupt:
        said = "interrupted; the next addition takes what was compiled"
        print(f"mlbridge corpus: {said}", file=sys.stderr)
        return 128 + signal.SIGINT
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
    up_to_date = not added.problems and there and any(m.program == called for m in opened(place))
    if up_to_date:
        return DONE
    raise CommandError(f"nothing of {called} was recorded: {advice(added, options)}")


def say(text: str) -> None:
    print(f"mlbridge corpus: {printable(text)}", file=sys.stderr)


def remarks(added: Any) -> Iterator[str]:
    """What else there is to say of an addition, a line each."""
    by: dict[str, Any] = {}
    for line in added.left_out:
        file, _, why = line.rpartition(": ")
        by.setdefault(why, []).append(file)
    for why, files in by.items():
        names = [*dict.fromkeys(files)]
        some = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        yield f"left out: {len(files)} × {why} ({some})"
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
    """What to do if nothing was recorded."""
    if added.problems:
        return "what was seen could not be; see above"
    if added.empty:
        return "no module has a function"
    if added.left_out:
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
            found = opened(name)
        except CommandError as error:  # the others can be listed
            print(f"mlbridge corpus: {error}", file=sys.stderr)
            code = FAILED
            continue
        rows.append({"name": name, **summary(found), "path": str(found.path)})
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        table(["name", "programs", "modules", "bitcode_bytes", "disk_bytes"], rows)
    return code


def opened(name: str | Path) -> corpus.Corpus:
    try:
        return corpus.open(name)
    except Error as error:
        raise CommandError(str(error)) from error


def summary(found: corpus.Corpus) -> dict[str, Any]:
    """What a corpus has, in numbers."""
    return {
        "programs": len({m.program for m in found}),
        "modules": len(found),
        "bitcode_bytes": sum(m.bytes for m in found),
        "disk_bytes": sum(p.stat().st_size for p in found.path.rglob("*.parquet")),
    }


def show(options: argparse.Namespace) -> int:
    """Show programs, or a module."""
    found = opened(options.name)
    if options.which is None:
        if options.extract:
            raise UsageError("--extract needs a MODULE")
        rows = [asdict(m) for m in found]
        if options.json:
            print(json.dumps({**summary(found), "parts": found.parts, "modules": rows}, indent=1))
        else:
            table(["program", "version", "part", "modules", "languages", "bitcode_bytes"],
                  programs(found))  # fmt: skip
        return DONE
    try:
        module = found.find(options.which)
        shown = {**asdict(module), "part": found.parts.get(module.program)}
        if options.extract:
            shown["extracted"] = str(found.extract(module, options.extract))
    except Error as error:
        raise CommandError(str(error)) from error
    if options.json:
        print(json.dumps(shown, indent=1))
    else:
        for name, value in shown.items():
            text = " ".join(value) if isinstance(value, tuple) else str(value)
            if value not in (None, "", ()):
                print(f"{name:14} {printable(text)}")
    return DONE


def programs(found: corpus.Corpus) -> Any:
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
    try:
        made = opened(options.name).split(options.parts, options.seed)
    except Error as error:
        raise CommandError(str(error)) from error
    counts = Counter(made.parts[p] for p in {m.program for m in made})
    rows = [
        {
            "part": name,
            "programs": counts[name],
            "modules": len(made.part(name)) if counts[name] else 0,
        }
        for name in options.parts
    ]
    if options.json:
        print(json.dumps({"parts": rows, "programs": made.parts}, indent=1))
    else:
        table(["part", "programs", "modules"], rows)
    return DONE


def printable(text: str) -> str:
    """Without what would move a terminal's cursor."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def table(columns: Any, rows: Any) -> None:
    """Print rows below their columns; numbers stand at the right."""
    cells = [[name.replace("_", " ") for name in columns]]
    cells += [[printable(str(row[name])) for name in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = [
            cell.rjust(width)
            if name.endswith(("s", "bytes")) and name != "languages"
            else cell.ljust(width)
            for name, cell, width in zip(columns, line, widths, strict=True)
        ]
        print("  ".join(padded).rstrip())
