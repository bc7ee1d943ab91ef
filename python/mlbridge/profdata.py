# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instrumented builds whose functions count how often they run, and the counts of a profile."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import InvalidArgument, NotFound
from .process_runner import Ran, run
from .reading import shortly

#: What clang compiles with, besides -O2: the functions are counted before any is inlined, the entry
#: of each is counted, and the counts are in the file at once, whichever way the program ends.
COMPILE_FLAGS = (
    "-fprofile-generate",
    "-fprofile-continuous",
    "-mllvm",
    "-disable-preinline",
    "-mllvm",
    "-disable-vp",
    "-mllvm",
    "-pgo-instrument-entry",
    "-mllvm",
    "-do-counter-promotion=false",
)
#: What clang links with.
LINK_FLAGS = ("-fprofile-generate",)
#: The value of LLVM_PROFILE_FILE, in a folder: one file for each executable, in which all its
#: processes count together (%m), while they run (%c).
RAW_FILE = "%m%c.profraw"
_TIMEOUT = 600.0
#: LLVM may copy a function for a constant argument before any is counted.
_CLONE = re.compile(r"\.specialized\.\d+$")
_KEEP = 1 << 31  # bytes of a profile as text


class Counts(NamedTuple):
    """The counts of a function.

    A function that was linked and never ran has zeros. If a profile has several functions of one
    name, these are the sums and the maximum over them, and so they are for a function and what LLVM
    has made of it for constant arguments.
    """

    #: Times that it was called; None if the program was not instrumented to count that.
    entry: int | None
    #: The sum of its counters.
    sum: int
    #: Its largest counter.
    max: int

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        known = self.entry is not None and other.entry is not None
        entry = (self.entry or 0) + (other.entry or 0) if known else None
        return Counts(entry, self.sum + other.sum, max(self.max, other.max))


Key = tuple[str | None, str]


def counts(profile: str | os.PathLike[str], tool: str = "llvm-profdata-22") -> dict[Key, Counts]:
    """The counts of an indexed profile, or of a raw one, by file and linkage name.

    The file, as the compiler was given it, is that of a static function; other functions have None.
    Raises NotFound if the file or the tool isn't there, and InvalidArgument for what is no profile
    of instrumented code.
    """
    return _parsed(_profdata(["merge", "--text", "-o", "-", _given(profile)], tool), str(profile))


def merge(
    raw: Iterable[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    tool: str = "llvm-profdata-22",
) -> None:
    """Join raw profiles into an indexed one. NotFound, InvalidArgument."""
    files = [_given(file) for file in raw]
    if not files:
        raise InvalidArgument("no profile was written; did an instrumented program run?")
    _profdata(["merge", "-o", str(Path(output).absolute()), *files], tool)


def without_unused(
    profile: str | os.PathLike[str],
    output: str | os.PathLike[str],
    tool: str = "llvm-profdata-22",
) -> None:
    """Copy a profile without the functions that never ran, so that clang knows nothing of them,
    instead of that they are cold. NotFound, InvalidArgument."""
    ran = _profdata(["merge", "--text", "-o", "-", _given(profile)], tool)
    text = ran.stdout.head.decode(errors="surrogateescape")
    head = [line for line in text.partition("# Func Hash:")[0].splitlines() if line[:1] == ":"]
    kept = [lines for lines in _records(text) if any(map(int, lines[3 : 3 + int(lines[2])]))]
    with tempfile.TemporaryDirectory(prefix="mlbridge-profile-") as folder:
        shorter = Path(folder, "profile.proftext")
        blocks = ("\n".join(lines) for lines in ([*head, ""], *kept))
        shorter.write_text("\n".join(f"{block}\n" for block in blocks), errors="surrogateescape")
        _profdata(["merge", "-o", str(Path(output).absolute()), str(shorter)], tool)


def _given(profile: str | os.PathLike[str]) -> str:
    """The path, which can't be taken for an option."""
    path = Path(profile).absolute()
    if not path.is_file():
        raise NotFound(f"{profile} is not there, or no file; expected a profile")
    if not path.stat().st_size:
        raise InvalidArgument(f"{profile} is empty; the program was ended before it began to count")
    return str(path)


def _profdata(arguments: list[str], tool: str) -> Ran:
    try:
        ran = run([tool, *arguments], timeout=_TIMEOUT, keep=_KEEP)
    except NotFound as error:
        raise NotFound(f"{error}; llvm-profdata-22 is in Debian's llvm-22") from None
    if ran.code:
        raise InvalidArgument(f"{Path(tool).name} ended with {ran.code}: {ran.reason}")
    return ran


def _records(text: str) -> Iterator[list[str]]:
    """The lines of each function, without comments."""
    for record in text.split("\n\n"):
        lines = [line for line in record.splitlines() if line and not line.startswith("#")]
        while lines and lines[0].startswith(":"):
            del lines[0]
        if lines:
            yield lines


def _parsed(ran: Ran, shown: str) -> dict[Key, Counts]:
    text = ran.stdout.head.decode(errors="surrogateescape")
    head = set(re.findall("^:(.+)", text.partition("# Func Hash:")[0], re.MULTILINE))
    entry_first = "ir" not in head or "entry_first" in head
    found: dict[Key, Counts] = {}
    for lines in _records(text):
        try:
            name, _, size = lines[:3]
            values = [int(line) for line in lines[3 : 3 + int(size)]]
            if len(values) != int(size) or not values:
                raise ValueError("a record without its counters")
        except ValueError as error:
            raise InvalidArgument(f"{shown}: {lines[0]}: {shortly(error)}") from None
        file, separator, function = name.rpartition(";")
        function = _CLONE.sub("", function)
        made = Counts(values[0] if entry_first else None, sum(values), max(values))
        key = (file if separator else None, function)
        found[key] = found[key].plus(made) if key in found else made
    return found


def must_have_runtime(compiler: str = "clang-22") -> None:
    """NotFound if the compiler can't link instrumented programs: says what to install."""
    ran = run([compiler, "-###", "-fprofile-generate", "program.o"], timeout=_TIMEOUT)
    for library in re.findall(r'"([^"]*libclang_rt\.profile[^"]*)"', ran.stderr.text):
        if not Path(library).is_file():
            raise NotFound(f"{library} is not there: apt-get install libclang-rt-22-dev")
