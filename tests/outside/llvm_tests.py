# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""LLVM's own tests as inputs: llc allocates the registers of llvm/test/CodeGen by models, opt
optimizes llvm/test/Transforms and Verifier by models, and LLVM's verifiers look at the result.

    tests/outside/llvm_tests.py [--first SEED] [--minutes M] [--files N] [--jobs N]

What stock llc or opt refuses is no input. Files are in an order by the seed, those of both tools by
turns, until there are as many or the time is over. Counts are in build/nightly/outside.json.
"""

from __future__ import annotations

import argparse
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent))
from reduce import reduce
from sources import llvm_tests
from tally import Tally, save
from ways import Configuration, way

TARGETS = "X86 AArch64 RISCV ARM PowerPC SystemZ Mips LoongArch WebAssembly".split()
SECONDS = 60
#: Seconds in which one finding is made smaller.
REDUCING = 300.0
#: What a RUN line of llc says of the machine.
MACHINE = re.compile(
    r"-{1,2}(?:mtriple|march|mcpu|mattr|relocation-model|code-model|float-abi|target-abi)[= ]\S+"
    r"|-O[0-3]\b|-frame-pointer=\S+"
)
#: What a finding's error output has.
FAULT = "LLVM ERROR|PLEASE submit|Bad machine code|[Bb]roken|crashed|ended too early"
#: A plugin says so where it leaves code alone, as far as remarks are asked for.
LEFT = re.compile(r"\bleft to (?:the|LLVM)")
#: After such a call LLVM writes `mov x29, x29` as a marker, which reads x29 even where nothing has
#: defined it. The verifier refuses this as soon as an allocator, LLVM's own as well, gives x29 to a
#: value that lives after the call only.
READS_X29 = "clang.arc.attachedcall"
#: The way of its own that each tool is run in, and the level.
LLC = (
    ("register-allocation", "shipped"),
    ("register-allocation", "effort-0"),
    ("register-allocation", "random"),
    ("regalloc-eviction", "shipped"),
    ("regalloc-eviction", "effort-0"),
)
OPT = (
    ("phase-ordering", "shipped", "Oz"),
    ("phase-ordering", "policy", "Oz"),
    ("inliner", "shipped", "Oz"),
    ("loop-distribution", "random", "O3"),
    ("polly-tiling", "shipped", "O3"),
)


@dataclass(frozen=True)
class Case:
    """A command that is run without and with a plugin; {0} stands for its input."""

    suite: str
    optimization: str
    name: str
    source: Path
    stock: str
    asked: str


@dataclass(frozen=True)
class Verdict:
    case: Case
    kind: str  #: none (stock fails), same, changed, refused, wrong or crashed
    said: str = ""


def told(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """The plugins and LLVM's options in what `mlbridge flags` prints for clang."""
    words = [word for word in flags if word not in ("-Xclang", "-mllvm")]
    loads = "-fpass-plugin="
    plugins = [word.removeprefix(loads) for word in words if word.startswith(loads)]
    return plugins, [word for word in words if not word.startswith((loads, "--", "-W"))]


def machine(text: str) -> str:
    """The options of the first RUN line of llc that say for which machine."""
    lines = re.findall(r"RUN:(.*)", re.sub(r"\\\n.*?RUN:", " ", text))
    first = next((line for line in lines if re.search(r"\bllc\b", line)), "")
    found = [match[0].replace(" ", "=") for match in MACHINE.finditer(first.partition("|")[0])]
    return literal([word for word in dict.fromkeys(found) if "%" not in word])


def literal(words: Sequence[str]) -> str:
    """A command line whose braces are no places for files."""
    return shlex.join(words).replace("{", "{{").replace("}", "}}")


def run(command: str) -> tuple[int, str]:
    """Code and error output, -1 if it takes too long."""
    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"more than {SECONDS} s"
    return done.returncode, done.stderr.decode(errors="replace")


def verdict_of(case: Case, stock: bytes, folder: Path) -> Verdict:
    made = folder / "made"
    made.unlink(missing_ok=True)
    command = case.asked.format(shlex.quote(str(case.source)))
    code, said = run(f"{command} -o {made}")
    if code:
        broken = re.search(r"Bad machine code|[Bb]roken (?:module|function)", said)
        return Verdict(case, "wrong" if broken else "crashed", said)
    if re.search(r"warning: (?:[\w-]+: )?.*(?:ended too early|crashed)", said):
        return Verdict(case, "crashed", said)
    if made.read_bytes() != stock:
        return Verdict(case, "changed", said)
    return Verdict(case, "refused" if LEFT.search(said) else "same", said)


def verdicts(cases: Sequence[Case]) -> list[Verdict]:
    """Verdicts on cases with one input; none if the stock compiler refuses it."""
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        plain: dict[str, bytes | None] = {}
        for case in cases:
            if case.stock not in plain:
                stock = folder / f"stock-{len(plain)}"
                code, _ = run(f"{case.stock.format(shlex.quote(str(case.source)))} -o {stock}")
                plain[case.stock] = stock.read_bytes() if code == 0 and stock.is_file() else None
            if (expected := plain[case.stock]) is not None:
                found.append(verdict_of(case, expected, folder))
    return found


def codegen(source: Path, ways: Sequence[Configuration]) -> list[Case]:
    """By llc, for the machine of its first RUN line."""
    text = source.read_text()
    if READS_X29 in text:
        return []
    stock = f"llc-22 -filetype=obj -verify-machineinstrs {machine(text)} {{0}}"
    cases = []
    for each in ways:
        (plugin,), options = told(each.flags)
        remarks = f"-pass-remarks-missed={each.optimization}"
        line = literal(["llc-22", "-load", plugin, *options, remarks])
        cases.append(
            Case("llvm/test/CodeGen", each.optimization, each.name, source, stock,
                 line + stock.removeprefix("llc-22"))
        )  # fmt: skip
    return cases


def transforms(source: Path, ways: Sequence[tuple[Configuration, str]]) -> list[Case]:
    """By opt, at each way's level."""
    cases = []
    for each, level in ways:
        (plugin,), options = told(each.flags)
        polly = [option for option in options if option == "-polly"]
        stock = literal(["opt-22", f"-passes=default<{level}>", "-verify-each", *polly])
        own = [option for option in options if option not in polly]
        more = ["-load-pass-plugin", plugin, *own, f"-pass-remarks-missed={each.optimization}"]
        asked = f"{stock} {literal(more)} {{0}}"
        cases.append(
            Case("llvm/test/Transforms", each.optimization, each.name, source, f"{stock} {{0}}",
                 asked)
        )  # fmt: skip
    return cases


def inputs(seed: int) -> Iterator[list[Case]]:
    """The cases of each file, by turns of llc and opt."""
    tests = llvm_tests() / "llvm" / "test"
    by_llc = [way(optimization, name, seed) for optimization, name in LLC]
    by_opt = [(way(optimization, name, seed), level) for optimization, name, level in OPT]
    order = random.Random(seed)

    def shuffled(*folders: Path) -> list[Path]:
        files = sorted(path for folder in folders for path in folder.rglob("*.ll"))
        order.shuffle(files)
        return files

    # Most of the targets whose registers agents allocate, and as many of each other one.
    targets = [iter(shuffled(tests / "CodeGen" / name)) for name in TARGETS]
    turns = [*targets[:2], *targets[:2], *targets]
    machines = (next(files, None) for _ in range(10_000) for files in turns)
    others = shuffled(tests / "Transforms", tests / "Verifier")
    for path, optimized in zip_longest((file for file in machines if file), others):
        if path:
            yield codegen(path, by_llc)
        if optimized:
            yield transforms(optimized, by_opt)


def found(tally: Tally, verdict: Verdict) -> None:
    """Counts it; a finding is kept and made smaller."""
    tally.programs += 1
    if verdict.kind in ("changed", "refused"):
        setattr(tally, verdict.kind, getattr(tally, verdict.kind) + 1)
    if verdict.kind not in ("wrong", "crashed"):
        return
    case = verdict.case
    name = f"{case.source.parent.name}-{case.source.name}-{case.name}"
    command = f"{case.asked} -o /dev/null"
    folder = tally.bad(verdict.kind, name, command, case.source)
    (folder / "said").write_text(verdict.said)
    if not any(line for line in verdict.said.splitlines() if "more than" in line):
        # What fails by the plugin alone.
        grep = f"grep -qE '{FAULT}'"
        test = f"sh -c {shlex.quote(f'{case.stock} -o /dev/null && {command} 2>&1 | {grep}')}"
        reduce(folder / case.source.name, test, folder, REDUCING)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--files", type=int, help="no more than these")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    for tool in ("llc-22", "opt-22"):
        if shutil.which(tool) is None:
            parser.error(f"there is no {tool}; install llvm-22")
    tallies: dict[tuple[str, str], Tally] = {}
    end = time.monotonic() + 60 * arguments.minutes
    every = inputs(arguments.first)
    done = 0
    with (
        ThreadPoolExecutor(arguments.jobs) as pool,
        tqdm(total=arguments.files, unit="file", mininterval=5) as progress,
    ):
        while time.monotonic() < end and (arguments.files is None or done < arguments.files):
            some = [case for _, case in zip(range(4 * arguments.jobs), every, strict=False)]
            if not some:
                break
            for verdicts_of_file in pool.map(verdicts, some):
                for verdict in verdicts_of_file:
                    key = (verdict.case.suite, verdict.case.optimization)
                    found(tallies.setdefault(key, Tally(*key)), verdict)
            done += len(some)
            progress.update(len(some))
    return 0 if save(list(tallies.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
