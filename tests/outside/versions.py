# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random programs (Csmith) and tests of GCC, compiled with a profile of their own run, with and
without versions of hot loops for newer processors, and run here and on emulated processors.

    versions.py [--seed N] [--first N] [--count N | --minutes M] [--report FILE]

A seed always takes the same programs, options and links.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from compare import COMPILING, CSMITH, RUNNING, UNFIT, Verdict, clean, run
from csmith import generate
from gcc_torture import tests
from tally import BAD, Tally, save
from tqdm import tqdm

from mlbridge import files

OPTIMIZATION = "multiversioning"
PLUGIN = files.plugin(OPTIMIZATION)
OPTIONS = """-fPIC -g -fwrapv -fno-strict-aliasing -fno-inline -fstack-protector-strong
 -ffunction-sections -fno-plt -fno-unroll-loops -mtune=znver3 -fno-omit-frame-pointer -fno-common
 -fno-optimize-sibling-calls -funsigned-char -fno-jump-tables -fomit-frame-pointer""".split()
LINKS = {
    link: (f"-flto={link}", "-fuse-ld=lld", *files.linker_words([PLUGIN], OPTIMIZATION))
    for link in ("thin", "full")
}
LINKS[""] = ()
#: Without AVX; with it, but without AVX2; with all of x86-64-v3.
PROCESSORS = ("Nehalem", "SandyBridge", "Haswell")
#: How often as long as elsewhere programs may take on emulated ones.
SLOWER = 20


@dataclass(frozen=True)
class Test:
    number: int
    suite: str
    source: Path | None  #: None for a random program
    options: tuple[str, ...] = ()


def tests_of(seed: int) -> Iterator[Test]:
    """A random program and a test of GCC in turns."""
    torture = (test for test in tests(random.Random(seed)) if test.executed)
    for number, test in enumerate(torture):
        yield Test(2 * number, "csmith", None)
        yield Test(2 * number + 1, test.suite, test.source, test.options)


def source_of(test: Test, seed: int, folder: Path) -> Path:
    """The file of the program."""
    if test.source:
        return test.source
    generate(seed * 1000 + test.number, folder / "program.c")
    return folder / "program.c"


def check(test: Test, seed: int, folder: Path) -> Verdict:
    """What became of a program: `changed` if it has versions, and is right."""
    chance = random.Random(f"{seed} {test.number}")
    source = source_of(test, seed, folder)
    compiler = "clang++-22" if source.suffix in (".C", ".cc", ".cpp") else "clang-22"
    options = [*test.options, *chance.sample(OPTIONS, chance.randint(0, 3))]
    level, link = chance.choice(("-O2", "-O3")), chance.choice(sorted(LINKS))
    counts, profile = folder / "counts", folder / "profile.profdata"

    def built(name: str, *words: str) -> str:
        command: list[str | Path] = [
            compiler,
            "-w",
            level,
            *options,
            *words,
            *CSMITH,
            source,
            "-o",
            folder / name,
        ]
        done = run([*command, "-lm"], folder, COMPILING)
        if done.code is None:  # the machine may have been busy
            done = run([*command, "-lm"], folder, 10 * COMPILING)
        return "" if done.code == 0 else done.said[-500:] or "no end"

    if why := built("counting", f"-fprofile-generate={counts}"):
        return Verdict(UNFIT, why)
    first = run([folder / "counting"], folder, RUNNING)
    raw = sorted(counts.glob("*.profraw"))
    if first.code is None or not raw or (test.source and first.code):
        return Verdict(UNFIT, f"ended with {first.code}")
    run(["llvm-profdata-22", "merge", "-o", profile, *raw], folder, COMPILING)
    usual = [f"-fprofile-use={profile}", *(LINKS[link][:2])]
    if why := built("usual", *usual):
        return Verdict(UNFIT, why)
    words = [f"-fprofile-use={profile}", *files.clang_words(PLUGIN), *LINKS[link]]
    if why := built("made", *words, "-Wno-unused-command-line-argument"):
        return Verdict("crashed", why)
    if ".x86_64_v3" not in run(["nm", folder / "made"], folder, COMPILING).out.decode():
        return Verdict("same")
    for processor in ("", *PROCESSORS):
        emulated = ["qemu-x86_64", "-cpu", processor] if processor else []
        seconds = RUNNING * (SLOWER if processor else 1)
        before, after = (
            run([*emulated, folder / name], folder, many * seconds)
            for name, many in (("usual", 1), ("made", 4))
        )
        if not processor and (before.code, before.out) != (first.code, first.out):
            return Verdict(UNFIT, "not twice the same")
        if before.code is None or (processor and before.out != first.out):
            continue  # the stock compiler's doesn't run there either
        if (before.code, before.out) != (after.code, after.out):
            if not clean(source, folder):
                return Verdict(UNFIT, "its behaviour is undefined")
            where = processor or "here"
            return Verdict(
                "wrong", f"{where}: {after.code}, {after.said}, {level} {link} {options}"
            )
    return Verdict("changed")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--count", type=int, help="of programs; without it and --minutes all")
    parser.add_argument("--minutes", type=float, help="starts no other program after that time")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--report", type=Path, help="file of the counts")
    given = parser.parse_args()
    end = time.monotonic() + given.minutes * 60 if given.minutes else None
    tallies: dict[str, Tally] = {}
    unfit = 0
    stop = None if given.count is None else given.first + given.count
    chosen = itertools.islice(tests_of(given.seed), given.first, stop)

    def one(test: Test) -> tuple[Test, Verdict]:
        with tempfile.TemporaryDirectory() as temporary:
            return test, check(test, given.seed, Path(temporary))

    with (
        ThreadPoolExecutor(given.jobs) as workers,
        tqdm(total=given.count, unit="program", disable=None) as progress,
    ):
        while batch := list(itertools.islice(chosen, 8 * given.jobs)):
            for test, verdict in workers.map(one, batch):
                progress.update()
                if verdict.kind == UNFIT:
                    unfit += 1
                    continue
                tally = tallies.setdefault(test.suite, Tally(test.suite, OPTIMIZATION))
                tally.programs += 1
                tally.changed += verdict.kind in ("changed", *BAD)
                if verdict.kind in BAD:
                    where = ["--seed", str(given.seed), "--first", str(test.number), "--count", "1"]
                    again = shlex.join([sys.executable, str(Path(__file__).resolve()), *where])
                    with tempfile.TemporaryDirectory() as temporary:
                        source = source_of(test, given.seed, Path(temporary))
                        tally.bad(verdict.kind, str(test.number), again, source)
                    print(verdict.why, flush=True)
            if end and time.monotonic() > end:
                break
    print(f"{unfit} programs weren't counted: they take too long, or aren't compiled")
    return 0 if save(list(tallies.values()), given.report) else 1


if __name__ == "__main__":
    sys.exit(main())
