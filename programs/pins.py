# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pinned.txt, which says by hash what modules the catalog's programs have; code that sets share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from programs.catalog import HERE, Program, ProgramsError
from programs.fetch import BUILD, source_tree

PINNED = HERE / "pinned.txt"
DIGITS = 16  #: of the 40 of a hash
SHOWN = 5
TITLE = """\
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What `python3 -m programs.corpus --pin` made on Debian 12 with clang-22 22.1.8.
# PROGRAM: SOURCE PACKAGE VERSION
#  for each module: first digits of its hash, bytes of its source, source
"""
#: Files of two sets are copies if they share this many lines, and this part of the shorter one's.
SAME_LINES, SAME_PART = 16, 0.25
#: A line that is in more files is a habit.
HABIT = 30
_PROGRAM = re.compile(r"(\S+): (.+)")
_MODULE = re.compile(rf" ([0-9a-f]{{{DIGITS}}}) (\d+) (.+)")
_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(rb"\s+")


@dataclass(frozen=True)
class Pin:
    """A module."""

    hash: str  #: its first digits
    size: int  #: bytes of the source
    source: str


@dataclass(frozen=True)
class Pins:
    """A program."""

    version: str  #: source package and upstream version
    modules: tuple[Pin, ...]


def read(path: Path = PINNED) -> dict[str, Pins]:
    """What is pinned, by the program's name."""
    found: dict[str, tuple[str, list[Pin]]] = {}
    modules: list[Pin] | None = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("#"):
            continue
        if match := _PROGRAM.fullmatch(line):
            _, modules = found[match[1]] = (match[2], [])
        elif (match := _MODULE.fullmatch(line)) and modules is not None:
            modules.append(Pin(match[1], int(match[2]), match[3]))
        else:
            raise ProgramsError(f"{path}:{number}: expected a program or its module, got {line!r}")
    return {name: Pins(version, tuple(pins)) for name, (version, pins) in found.items()}


def write(pinned: Mapping[str, Pins], path: Path) -> None:
    """Write what `read` reads."""
    lines = [TITLE]
    for name, pins in pinned.items():
        lines.append(f"{name}: {pins.version}\n")
        lines += [f" {pin.hash} {pin.size} {pin.source}\n" for pin in pins.modules]
    path.write_text("".join(lines))


def difference(pinned: Pins | None, found: Pins) -> str:
    """How a program that was made here differs from what is pinned; empty if it does not."""
    if pinned is None:
        return "is not pinned"
    wanted, made = set(pinned.modules), set(found.modules)
    said = []
    if pinned.version != found.version:
        said.append(f"{pinned.version} is pinned, {found.version} is here")
    before = {pin.source: pin for pin in wanted - made}
    after = {pin.source: pin for pin in made - wanted}
    kinds: dict[str, list[str]] = defaultdict(list)
    for source in sorted(before.keys() | after.keys()):
        if source not in after:
            kinds["missing"].append(source)
        elif source not in before:
            kinds["not pinned"].append(source)
        elif before[source].size != after[source].size:
            kinds["of another source"].append(source)
        else:
            kinds["of the same source with other headers, flags or compiler"].append(source)
    for kind, sources in kinds.items():
        rest = f" and {len(sources) - SHOWN} more" if len(sources) > SHOWN else ""
        said.append(f"{len(sources)} modules {kind}: {', '.join(sources[:SHOWN])}{rest}")
    return "; ".join(said)


def _lines(file: Path) -> set[bytes]:
    """The lines of a source that say something: no comments, directives, short ones."""
    lines = (_SPACE.sub(b"", line) for line in _COMMENT.sub(b"", file.read_bytes()).splitlines())
    return {line for line in lines if len(line) >= 12 and not line.startswith((b"#", b"using"))}


def copies(
    programs: Collection[Program], pinned: Mapping[str, Pins], build: Path = BUILD
) -> list[str]:
    """Pairs of files in programs of different sets that share code, as text.

    Looks at the sources of pinned modules that have been fetched.
    """
    files = [
        (program, pin.source)
        for program in programs
        if program.name in pinned
        for pin in pinned[program.name].modules
        if (source_tree(program, build) / pin.source).is_file()
    ]
    where: dict[int, list[int]] = defaultdict(list)  # by line; the lines themselves are many
    counts = []
    for number, (program, source) in enumerate(files):
        lines = _lines(source_tree(program, build) / source)
        counts.append(len(lines))
        for line in lines:
            where[hash(line)].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for numbers in where.values():
        if len(numbers) <= HABIT:
            for a, b in combinations(numbers, 2):
                if files[a][0].set != files[b][0].set:
                    shared[a, b] += 1
    return [
        f"{lines} lines in {' and '.join(f'{p.set} {p.name}/{source}' for p, source in pair)}"
        for (a, b), lines in shared.most_common()
        if lines >= max(SAME_LINES, SAME_PART * min(counts[a], counts[b]))
        for pair in [(files[a], files[b])]
    ]
