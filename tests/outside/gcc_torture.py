# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of GCC's own testsuite (gcc.c-torture, gcc.dg/vect, g++.dg/torture), compiled by the stock
compiler and with each optimization, and run if they are programs.

    gcc_torture.py [--seed N] [--count N | --minutes M] [--only OPTIMIZATION ...] [--report FILE]

A seed always takes the same files, options and levels. What is wrong is reduced.
"""

from __future__ import annotations

import argparse
import random
import re
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from compare import COMPILING, MEMORY, RUNNING, UNFIT, Verdict, again, compare, run
from reduce import quoted, reduce
from sources import gcc_tests
from tally import BAD, Tally, save
from tqdm import tqdm
from ways import Configuration, ways

#: For each suite, whether all files are programs (None: those that say so), and its own options.
SUITES: dict[str, tuple[bool | None, str]] = {
    "gcc.c-torture/execute": (True, ""),
    "gcc.c-torture/compile": (False, ""),
    "gcc.dg/vect": (None, "-ftree-vectorize -fno-vect-cost-model -fno-common"),
    "g++.dg/torture": (None, ""),
}
#: Options of gcc.dg/vect by a file's name, as its vect.exp has them.
NAMED = {
    "fast-math-": "-ffast-math",
    "no-math-errno-": "-fno-math-errno",
    "wrapv-": "-fwrapv",
    "trapv-": "-ftrapv",
}
#: Options that a file may get, at random.
OPTIONS = """-fPIC -fPIE -g -fno-strict-aliasing -fwrapv -ftrapv -mcmodel=medium -mcmodel=large
 -fstack-protector-strong -fno-omit-frame-pointer -ffast-math -fno-builtin -march=x86-64-v3
 -mno-red-zone -fno-common -ffunction-sections -fcf-protection=full -funsigned-char
 -fno-optimize-sibling-calls -fno-jump-tables -fno-plt -fno-inline -fno-unroll-loops
 -fno-delete-null-pointer-checks -ffp-contract=off -falign-functions=64 -fno-math-errno
 -frounding-math -fexceptions -fno-asynchronous-unwind-tables -fopenmp-simd
 -fno-semantic-interposition -fomit-frame-pointer -mtune=znver3 -fno-unit-at-a-time
 -fno-trapping-math -fdata-sections -fno-vectorize""".split()
GCC_OPTIONS = """-fnon-call-exceptions -fsignaling-nans -fno-ipa-cp -fno-tree-vectorize -fno-ipa-icf
 -fno-toplevel-reorder -flto -fno-ipa-ra -fno-tree-pre -fstack-clash-protection
 -fsanitize=undefined -fexcess-precision=standard -fno-inline-small-functions -fno-ipa-sra
 -fselective-scheduling2 -fno-tree-vrp -fcompare-debug""".split()
#: Options of a test that take the level away, write other files, or need other inputs.
DROPPED = re.compile(r"-(O.*|S|E|c|fdump.*|fopt-info.*|save-temps.*|flto.*|fplugin.*|w|W.*|ggdb.*)")
LEVELS = ("O0", "O1", "O2", "O3", "Os")
REDUCING = 300.0  # seconds
REDUCED = 3  # no more than that many


@dataclass(frozen=True)
class Test:
    suite: str
    source: Path
    executed: bool
    options: tuple[str, ...]


def option_words(text: str, suite: str, name: str) -> list[str]:
    """The options of dg-options and dg-additional-options that concern this machine."""
    words = shlex.split(SUITES[suite][1])
    if suite == "gcc.dg/vect":
        for start, more in NAMED.items():
            words += more.split() if name.startswith(start) else []
    for kind, options, selector in re.findall(
        r"dg-(additional-)?options\s+\"([^\"]*)\"\s*(.*?)\}\s*(?:\*/|$)", text, re.MULTILINE
    ):
        if "target" in selector and "x86_64-*-*" not in selector:
            continue
        if not kind and suite != "gcc.dg/vect":
            words = []
        words += options.split()
    return [word for word in words if not DROPPED.fullmatch(word)]


def read(suite: str, source: Path) -> Test | None:
    """None if GCC's testsuite leaves the file out here, or it is no program of its own."""
    text = source.read_text(errors="replace")
    skipped = re.search(r"dg-skip-if\s+\"[^\"]*\"\s*\{\s*(\*-\*-\*|x86_64-\*-\*)\s*\}\s*\}", text)
    if skipped or "dg-additional-sources" in text or "dg-error" in text:
        return None
    kind = re.search(r"dg-do\s+(\w+)", text)
    executed = SUITES[suite][0]
    if executed is None:
        executed = bool(re.search(r"\bmain\s*\(", text)) and (
            kind[1] == "run" if kind else suite == "gcc.dg/vect"
        )
    words = option_words(text, suite, source.name)
    if re.search(r'#\s*include\s*"', text):  # also of a copy, elsewhere
        words.append(f"-I{source.parent}")
    return Test(suite, source, executed, tuple(words))


def tests(chance: random.Random) -> Iterator[Test]:
    """Files of all suites in turns, each in an order by chance."""
    tree = gcc_tests()
    orders = []
    for suite in SUITES:
        # Tests of the folder "builtins" are of several files.
        sources = [
            path
            for path in sorted((tree / suite).rglob("*.[cC]"))
            if "builtins" not in path.parts and "testsuite" in path.parts
        ]
        assert sources, f"{tree / suite} has no tests: delete {tree.parents[1]} to fetch it again"
        chance.shuffle(sources)
        orders.append((suite, sources))
    for number in range(max(len(sources) for _, sources in orders)):
        for suite, sources in orders:
            if number < len(sources) and (test := read(suite, sources[number])):
                yield test


def draw(chance: random.Random, gcc: bool) -> list[str]:
    known = OPTIONS + (GCC_OPTIONS if gcc else [])
    return chance.sample(known, chance.choice([0, 1, 1, 2, 2, 3, 4]))


def sound(way: Configuration, source: Path, options: list[str], folder: Path) -> bool:
    """Whether the stock compiler's program is right at each level: otherwise a difference is not
    the optimization's, as with -ffast-math."""
    for level in LEVELS:
        compiler = way.cxx if source.suffix == ".C" else way.c
        program = folder / f"sound-{level}"
        command: list[str | Path] = [
            compiler,
            "-w",
            f"-{level}",
            *options,
            source.name,
            "-o",
            program,
            "-lm",
        ]
        if run(command, source.parent, COMPILING).code != 0:
            return False
        if run([program], folder, RUNNING, MEMORY).code != 0:
            return False
    return True


def judge(test: Test, way: Configuration, level: str, options: list[str]) -> Verdict:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        verdict = compare(way, level, test.source, options, folder, test.executed, succeeds=True)
        if verdict.kind == "wrong" and not sound(way, test.source, options, folder):
            return Verdict(UNFIT, "the stock compiler's program isn't right at each level")
        return verdict


@dataclass(frozen=True)
class Judged:
    test: Test
    way: Configuration
    level: str
    options: tuple[str, ...]
    verdict: Verdict


def judge_all(test: Test, all_ways: list[Configuration], chance: random.Random) -> list[Judged]:
    """A file in each way, at one of its levels; with the same options, of which GCC knows more."""
    given = {gcc: [*test.options, *draw(chance, gcc)] for gcc in (False, True)}
    found = []
    for way in all_ways:
        level, options = chance.choice(way.levels), given[way.gcc]
        found.append(Judged(test, way, level, tuple(options), judge(test, way, level, options)))
    return found


def in_turn(
    chosen: Iterable[Test], all_ways: list[Configuration], seed: int, jobs: int
) -> Iterator[Judged]:
    """Takes the next file when a job is free, so that a campaign can end at any time."""
    with ThreadPoolExecutor(jobs) as workers:
        waiting: set[Future[list[Judged]]] = set()
        for number, test in enumerate(chosen):
            chance = random.Random(f"{seed} {number}")
            waiting.add(workers.submit(judge_all, test, all_ways, chance))
            if len(waiting) > jobs:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for finished in done:
                    yield from finished.result()
        for finished in waiting:
            yield from finished.result()


class Campaign:
    """Counts, keeps and reduces."""

    def __init__(self, seed: int, optimizations: Iterable[str]) -> None:
        names = dict.fromkeys(optimizations)
        self.tallies = {(suite, name): Tally(suite, name) for suite in SUITES for name in names}
        self.seed = seed
        self.unfit: Counter[str] = Counter()
        self.reduced = 0

    def take(self, found: Judged) -> None:
        kind, suite = found.verdict.kind, found.test.suite
        if kind == UNFIT:
            self.unfit[suite] += 1
            return
        tally = self.tallies[suite, found.way.optimization]
        tally.programs += 1
        tally.changed += kind in ("changed", *BAD)
        tally.refused += kind == "refused"
        if kind not in BAD:
            return
        source = found.test.source
        command = again(found.way, self.seed % 100, found.level, found.options)
        folder = tally.bad(kind, f"{found.way.name}-{source.name}", command, source)
        print(found.verdict.why, flush=True)
        if self.reduced < REDUCED:
            self.reduced += 1
            small = reduce(source, quoted(command, f"--expect={kind}"), folder, REDUCING)
            print(f"reduced: {command.format(small)}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="of files; without it and --minutes all")
    parser.add_argument("--minutes", type=float, help="starts no other file after that time")
    parser.add_argument("--only", nargs="+", metavar="OPTIMIZATION[/WAY]")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, help="file of the counts")
    arguments = parser.parse_args()
    all_ways = ways(arguments.seed % 100, only=arguments.only or ())
    if not all_ways:
        parser.error(f"--only {' '.join(arguments.only)}: no optimization has these names")
    campaign = Campaign(arguments.seed, (way.optimization for way in all_ways))
    end = time.monotonic() + arguments.minutes * 60 if arguments.minutes else None

    def chosen() -> Iterator[Test]:
        for number, test in enumerate(tests(random.Random(arguments.seed))):
            if number == arguments.count or (end and time.monotonic() > end):
                return
            yield test

    total = arguments.count * len(all_ways) if arguments.count else None
    judged = in_turn(chosen(), all_ways, arguments.seed, arguments.jobs)
    for found in tqdm(judged, total=total, unit="compilation", disable=None):
        campaign.take(found)
    for suite, count in campaign.unfit.items():
        print(f"{suite}: {count} weren't counted, which are no good without an optimization either")
    return 0 if save([t for t in campaign.tallies.values() if t.programs], arguments.report) else 1


if __name__ == "__main__":
    sys.exit(main())
