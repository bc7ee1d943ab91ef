# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real programs whose unexecuted code is deleted, doubled or put behind traps: they must still do
what they did ("equivalence modulo inputs", Le, Afshari and Su, PLDI 2014).

    emi.py [--first SEED] [--count N] [--programs NAME ...]

Coverage of a program's own test says which blocks never run. Variant N of a program is always the
same. It is compiled by the stock compiler and with an optimization; both must give what the
original gives. The file that shows a fault is kept, found by linking it with the other files'
stock objects.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tally import ROOT, Tally, save
from tqdm import tqdm
from ways import Configuration, ways

from mlbridge.elf import file_executable_bytes

sys.path.insert(0, str(ROOT))
from programs.build import Compiled, compile_program, link_program, run_test
from programs.catalog import Program, ProgramsError, load, select
from programs.fetch import BUILD, fetch, source_tree

SUITE = "emi"
COVERED = ("-O0", "-fcoverage-mapping")
SYNTAX = 60.0  # seconds
#: What becomes of a block that never runs.
MUTATIONS = (
    "{{ }}",
    "{{ __builtin_trap(); }}",
    "{{ __builtin_trap(); {0} }}",
    "{{ {0} {0} }}",
    "{{ volatile int never_ = 0; while (never_) {0} }}",
    "{{ for (int twice_ = 0; twice_ < 2; ++twice_) {0} }}",
)


@dataclass(frozen=True)
class Block:
    """Text from "{" to "}", by offsets."""

    start: int
    end: int


def offsets(text: bytes) -> list[int]:
    """Where each line starts."""
    return [0, *(match.end() for match in re.finditer(rb"\n", text))]


def unexecuted(coverage: dict[str, Any], tree: Path) -> dict[str, list[Block]]:
    """Blocks that no run entered, by the names of their files, from `llvm-cov export`."""
    counts: dict[tuple[str, int, int, int, int], int] = defaultdict(int)
    for part in coverage["data"]:
        for function in part["functions"]:
            for l1, c1, l2, c2, count, file, _, kind in function["regions"]:
                path = tree / function["filenames"][file]
                if kind == 0 and path.suffix == ".c" and tree in path.parents:
                    counts[(str(path.relative_to(tree)), l1, c1, l2, c2)] += count
    found: dict[str, list[Block]] = defaultdict(list)
    for (name, l1, c1, l2, c2), count in sorted(counts.items()):
        if count:
            continue
        text = (tree / name).read_bytes()
        lines = offsets(text)
        block = Block(lines[l1 - 1] + c1 - 1, lines[l2 - 1] + c2 - 1)
        if text[block.start : block.start + 1] == b"{" and text[block.end - 1 : block.end] == b"}":
            found[name].append(block)
    return found


def mutated(text: bytes, blocks: list[Block], drawn: random.Random) -> bytes:
    """Each of these blocks changed, none inside of another that is."""
    made = text
    last = len(text)
    for block in sorted(blocks, key=lambda b: (-b.end, b.start)):
        if block.end > last:
            continue
        last = block.start
        body = text[block.start : block.end]
        # A macro or conditional section that begins in the block must end there too.
        whole = body.count(b"#if") == body.count(b"#endif") and b"#define" not in body
        mutation = drawn.choice(MUTATIONS).encode() if whole else b"{0}"
        changed = mutation.replace(b"{0}", body).replace(b"{{", b"{").replace(b"}}", b"}")
        made = made[: block.start] + changed + made[block.end :]
    return made


class Subject:
    """A program, its coverage, and what its test gives."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.program = program
        self.tree = source_tree(program).resolve()
        raw = folder / "profiles"
        flags = [*COVERED, f"-fprofile-instr-generate={raw}/%m-%p.profraw"]
        objects = compile_program(program, folder / "covered", flags=flags)
        executables = link_program(
            program, objects, folder / "covered-bin", ("clang-22", "-fprofile-instr-generate")
        )
        self.output = run_test(program, folder / "covered-bin", folder / "work")
        merged = folder / "merged.profdata"
        subprocess.run(
            ["llvm-profdata-22", "merge", "-o", merged, *raw.glob("*.profraw")], check=True
        )
        command = ["llvm-cov-22", "export", f"-instr-profile={merged}", str(executables[0])]
        command += [f"-object={path}" for path in executables[1:]]
        done = subprocess.run(command, capture_output=True, check=True)
        self.blocks = unexecuted(json.loads(done.stdout), self.tree)

    def variant(self, seed: int, build: Path) -> int:
        """Writes the program's variant as a source tree below `build`; how many files differ."""
        drawn = random.Random(f"{self.program.name} {seed}")
        tree = source_tree(self.program, build)
        shutil.copytree(self.tree, tree, symlinks=True)
        changed = 0
        for name, blocks in self.blocks.items():
            share = drawn.choice((0.1, 0.4, 0.8))
            for _ in range(6):  # fewer and fewer, if the file can't be compiled
                chosen = [block for block in blocks if drawn.random() < share]
                text = (self.tree / name).read_bytes()
                new = mutated(text, chosen, drawn)
                (tree / name).write_bytes(new)
                if new == text or self.compiles(name, tree):
                    break
                (tree / name).write_bytes(text)
                share /= 3
            changed += (tree / name).read_bytes() != (self.tree / name).read_bytes()
        return changed

    def compiles(self, name: str, tree: Path) -> bool:
        include = [f"-I{self.program.config}"] if self.program.config.is_dir() else []
        flags = ["-std=gnu17", "-w", *include, *self.program.flags, "-fsyntax-only"]
        done = [
            subprocess.run(
                [compiler, *flags, name], cwd=tree, capture_output=True, timeout=SYNTAX, check=False
            ).returncode
            for compiler in ("clang-22", "gcc-12")
        ]
        return done == [0, 0]


def answer(
    subject: Subject, objects: list[Compiled], way: Configuration, build: Path, name: str
) -> bytes:
    """What the program's test gives, or why it fails."""
    try:
        link_program(subject.program, objects, build / name, (way.c,))
        return run_test(subject.program, build / name, build / f"{name}-work")
    except ProgramsError as error:
        return f"fails: {error}".encode()


def difference(subject: Subject, given: bytes) -> str:
    """The first line that differs from what the original gives."""
    pairs = zip_longest(given.splitlines(), subject.output.splitlines(), fillvalue=b"nothing")
    first, expected = next((pair for pair in pairs if pair[0] != pair[1]), (b"", b""))
    text = f"{first[:200]!r} instead of {expected[:200]!r}"
    return text.replace("{", "{{").replace("}", "}}")


def check(subject: Subject, seed: int, way: Configuration, tally: Tally, build: Path) -> None:
    """Compiles and runs a variant, and counts what came of it."""
    program = subject.program
    level = random.Random(f"level {seed}").choice(way.levels)
    again = f"{sys.executable} {Path(__file__).resolve()} --first {seed} --count 1"
    again += f" --programs {program.name} --way {way.optimization}/{way.name}"
    stock = compile_program(program, build / "stock", (way.c,), [f"-{level}", "-w"], build=build)
    if answer(subject, stock, way, build, "stock-bin") != subject.output:
        return  # what never ran in one run does in another
    tally.programs += 1
    try:
        flags = [f"-{level}", "-w", "-Wbackend-plugin", *way.flags]
        made = compile_program(
            program, build / "made", (way.c,), flags[:2] + flags[3:] if way.gcc else flags,
            build=build,
        )  # fmt: skip
    except ProgramsError as error:
        tally.bad("crashed", f"{program.name}-{seed}-{way.name}", f"{again}  # {error}")
        return
    pairs = list(zip(stock, made, strict=True))
    if all(a.object.read_bytes() == b.object.read_bytes() for a, b in pairs):
        return
    tally.changed += 1
    for a, b in pairs:
        if way.never_larger and file_executable_bytes(b.object) > file_executable_bytes(a.object):
            source = source_tree(program, build) / a.source
            tally.bad("larger", f"{program.name}-{seed}-{way.name}", again, source)
    wrong = answer(subject, made, way, build, "made-bin")
    if wrong == subject.output:
        return
    # On a machine that is busy, a test may take too long once.
    again_wrong = answer(subject, made, way, build, "made-bin")
    if again_wrong == subject.output or answer(subject, stock, way, build, "stock-bin") != (
        subject.output
    ):
        print(f"not counted, as it didn't happen again: {again}: {difference(subject, wrong)}")
        return
    culprits = [
        b.source
        for b in made
        if answer(subject, [b if a.source == b.source else a for a in stock], way, build, "mixed")
        != subject.output
    ]
    files = [source_tree(program, build) / name for name in culprits]
    where = ", ".join(culprits) or "several files together"
    said = f"{again}  # in {where}: {difference(subject, again_wrong)}"
    tally.bad("wrong", f"{program.name}-{seed}-{way.name}", said, *files)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=4, help="variants of each program")
    parser.add_argument("--programs", nargs="+", default=["demo"])
    parser.add_argument(
        "--way", metavar="OPTIMIZATION/NAME", help="instead of one for each variant"
    )
    parser.add_argument("--report", type=Path, help="file of the counts")
    arguments = parser.parse_args()
    tallies: dict[str, Tally] = {}
    variants = files = 0
    programs = fetch([p for p in select(load(), arguments.programs) if p.test])
    bar = tqdm(total=len(programs) * arguments.count, unit="variant", disable=None)
    for number, program in enumerate(programs):
        with tempfile.TemporaryDirectory() as temporary:
            subject = Subject(program, Path(temporary))
            for seed in range(arguments.first, arguments.first + arguments.count):
                known = ways(seed % 100, links=False)
                way = known[(seed * 7 + number) % len(known)]
                if arguments.way:
                    way = next(w for w in known if f"{w.optimization}/{w.name}" == arguments.way)
                tally = tallies.setdefault(way.optimization, Tally(SUITE, way.optimization))
                build = Path(temporary) / f"variant-{seed}"
                (build / "source").mkdir(parents=True)
                files += subject.variant(seed, build)
                variants += 1
                check(subject, seed, way, tally, build)
                shutil.rmtree(build)
                bar.update()
    bar.close()
    print(f"{variants} variants, {files} changed files; programs are read from {BUILD}")
    return 0 if save([t for t in tallies.values() if t.programs], arguments.report) else 1


if __name__ == "__main__":
    sys.exit(main())
