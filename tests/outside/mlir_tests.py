# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR's own tests with linalg tiled: nothing crashes, what is made is valid and is still lowered,
and programs print what they did.

    mlir_tests.py [--seed N] [--minutes M] [--only NAME ...] [--models URI ...]

The suite `mlir-tests` is every test file that stock mlir-opt reads, in the parts that the file is
split into. The suite `mlir-integration` is the tests that run on this CPU: their RUN lines, with
and without tiling in front of each mlir-opt. --only keeps the files whose path has one of the
names. What stock tools refuse isn't counted.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from sources import llvm_tests
from tally import Tally, save
from tqdm import tqdm

from mlbridge import files

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from mlir_runs import PLUGIN, documented_passes, tiling

OPTIMIZATION = "mlir-tiling"
SPLIT = "// -----"
#: Printed between parts, so that what becomes of each is known.
BETWEEN = "//MLBRIDGE-NEXT-PART//"
BATCH = 40
SECONDS = 60.0
LIBRARIES = Path("/usr/lib/llvm-22/lib")
REMARKS = ("--remarks-filter=mlbridge-tiling", "--remark-format=emitRemark")
DECIDED, LEFT = "[Passed] Decided", "[Missed] Left"
#: Not on this machine's CPU: other processors, other programs.
ELSEWHERE = ("/GPU/", "/ArmSVE/", "/ArmSME/", "/AMX/", "/python/", "/CUDA/", "/Inputs/")
ADDRESS = re.compile(r"0x[0-9a-f]+")
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)")


#: Lowering that was part of other passes in LLVM 19.
FINISHING = ("--convert-cf-to-llvm", "--convert-arith-to-llvm", "--reconcile-unrealized-casts")
ERASE = "-test-transform-dialect-erase-schedule"


@dataclass(frozen=True)
class Stage:
    command: list[str]
    env: dict[str, str]


#: Most tests give lengths to functions; in these, they are known.
INLINE = Stage(["mlir-opt-22", "--inline", "--canonicalize"], {})
#: Without the schedules that a test has for others of its RUN lines.
WITHOUT_SCHEDULE = Stage(["mlir-opt-22", ERASE], {})
UNTILED = (INLINE, WITHOUT_SCHEDULE)


@dataclass(frozen=True)
class Done:
    code: int  #: -1: it didn't end in time
    out: str
    err: str

    @property
    def crashed(self) -> bool:
        return self.code < 0 or self.code >= 128 or "PLEASE submit a bug report" in self.err


def run(*command: str | Path, text: str = "", env: Mapping[str, str] | None = None) -> Done:
    try:
        done = subprocess.run(
            list(map(str, command)),
            input=text,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=SECONDS,
            env={**os.environ, **(env or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Done(-1, "", f"no end in {SECONDS:.0f} s")
    return Done(done.returncode, done.stdout, done.stderr)


def tile_options(model: str) -> tuple[str, ...]:
    told = {"model": model, "deadline": "60s", "on-failure": "fail"}
    return (f"--load-pass-plugin={PLUGIN}", f"--pass-pipeline=builtin.module({tiling(told)})")


def models(seed: int) -> dict[str, str]:
    """By name: what decides."""
    return {
        "shipped": f"native:{files.shipped_model('mlir-tiling')}",
        "small": "function:constant?size=2&vectorize=0",
        "random": f"function:random?seed={seed}",
        "random-2": f"function:random?seed={seed + 1}",
    }


def optimized(parts: Sequence[str], *options: str) -> Iterator[Done]:
    """mlir-opt on each, many in a process; after a failure, in ever smaller ones."""
    if not parts:
        return
    common = ("--allow-unregistered-dialect", "--mlir-print-op-on-diagnostic=false")
    if len(parts) == 1:
        yield run("mlir-opt-22", *common, *options, "-", text=parts[0])
        return
    splitting = (f"--split-input-file={SPLIT}", f"--output-split-marker={BETWEEN}")
    done = run("mlir-opt-22", *common, *splitting, *options, "-", text=f"\n{SPLIT}\n".join(parts))
    made = done.out.split(f"{BETWEEN}\n")
    if done.code == 0 and len(made) == len(parts):
        # Remarks name lines of the whole; those of a part are in it.
        ends, line = [], 0
        for part in parts:
            line += part.count("\n") + 2
            ends.append(line)
        said: list[list[str]] = [[] for _ in parts]
        for text in done.err.splitlines():
            at = re.match(r"<stdin>:(\d+):", text) or re.match(
                r"within split at <stdin>:(\d+)", text
            )
            if at:
                where = int(at[1])
                said[next((i for i, end in enumerate(ends) if where <= end), 0)].append(text)
        for out, err in zip(made, said, strict=True):
            yield Done(0, out, "\n".join(err))
        return
    half = len(parts) // 2
    yield from optimized(parts[:half], *options)
    yield from optimized(parts[half:], *options)


@dataclass(frozen=True)
class Part:
    name: str
    text: str
    printed: str = ""  #: by stock mlir-opt


def in_batches(parts: Sequence[str], what: str, *options: str) -> list[Done]:
    """What mlir-opt makes of each."""
    batches = [parts[at : at + BATCH] for at in range(0, len(parts), BATCH)]
    made: list[Done] = []
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        every = pool.map(lambda batch: list(optimized(batch, *options)), batches)
        for done in tqdm(every, total=len(batches), desc=what, disable=None):
            made += done
    return made


def parts_of(paths: Sequence[Path], tree: Path) -> list[Part]:
    """What stock mlir-opt reads of the files; tests expect errors of the rest."""
    found = []
    for path in paths:
        text = path.read_text(errors="surrogateescape")
        for at, part in enumerate(re.split(rf"^{SPLIT}.*$", text, flags=re.M)):
            if part.strip() and "expected-error" not in part:
                found.append(Part(f"{path.relative_to(tree)}#{at}", part))
    read = in_batches([part.text for part in found], "reading")
    return [
        Part(part.name, part.text, done.out)
        for part, done in zip(found, read, strict=True)
        if done.code == 0
    ]


def kept(tally: Tally, kind: str, part: Part, model: str, options: Sequence[str], why: str) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "input.mlir"
        file.write_text(part.text, errors="surrogateescape")
        command = shlex.join(["mlir-opt-22", "--allow-unregistered-dialect", *options])
        command = command.replace("{", "{{").replace("}", "}}") + " {0}"
        folder = tally.bad(kind, f"{part.name}-{model}", command, file)
        (folder / "why").write_text(why + "\n", errors="surrogateescape")


def every_file(tally: Tally, parts: Sequence[Part], asked: Mapping[str, str]) -> None:
    """Tiles the parts by each model, and lowers what was tiled as README.md says."""
    lowering = f"--pass-pipeline=builtin.module({documented_passes()})"
    relevant = [part for part in parts if "linalg." in part.text]
    lowered: dict[str, bool] = {}
    for at, (name, model) in enumerate(asked.items()):
        # What has no linalg is the same whatever a model says.
        chosen = list(parts) if at == 0 else relevant
        options = tile_options(model)
        made = in_batches([part.text for part in chosen], name, *options, *REMARKS)
        changed = []
        for part, done in zip(chosen, made, strict=True):
            tally.programs += 1
            if done.code != 0:
                kind = "crashed" if done.crashed else "wrong"
                kept(tally, kind, part, name, options, done.err)
                continue
            tally.refused += LEFT in done.err and DECIDED not in done.err
            if done.out != part.printed:
                changed.append((part, done.out))
        tally.changed += len(changed)
        unknown = [part for part, _ in changed if part.name not in lowered]
        for part, done in zip(
            unknown, in_batches([part.text for part in unknown], "lowering", lowering), strict=True
        ):
            lowered[part.name] = done.code == 0
        tiled = in_batches([text for _, text in changed], f"lowering {name}", lowering)
        for (part, _), done in zip(changed, tiled, strict=True):
            if lowered[part.name] and done.code != 0:
                both = options[0], f"{options[1][:-1]},{documented_passes()})"
                kept(tally, "wrong", part, name, both, done.err)


def run_lines(text: str) -> Iterator[str]:
    """A test's commands, with what it defines put in."""
    lines: list[str] = []
    for kind, rest in re.findall(r"^\s*//\s*(RUN|DEFINE|REDEFINE):(.*)$", text, re.M):
        if lines and lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1] + rest
        else:
            lines.append(f"{kind} {rest}")
        lines[-1] = lines[-1].rstrip()
    defined: dict[str, str] = {}
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind != "RUN":
            name, _, value = rest.partition("=")
            defined[name.strip()] = value.strip()
            continue
        for _ in range(8):
            for name, value in defined.items():
                rest = rest.replace(name, value)
        yield rest.strip()


def stages(line: str, path: Path, tree: Path) -> list[Stage] | None:
    """mlir-opt, as often as a test has it, and mlir-runner; nothing if there are other tools."""
    for name in ("c_runner_utils", "runner_utils", "async_runtime", "float16_utils"):
        line = line.replace(f"%mlir_{name}", str(LIBRARIES / f"libmlir_{name}.so"))
    line = line.replace("%mlir_src_dir", str(tree / "mlir")).replace("%shlibext", ".so")
    line = line.replace("%mlir_lib_dir", str(LIBRARIES)).replace("%s", str(path))
    # What LLVM 19's tests have and LLVM 22 doesn't need.
    line = re.sub(r"\s-+finalizing-bufferize\b", "", line)
    if "%" in line or "2>" in line:
        return None
    found = []
    for part in line.split("|"):
        try:
            words = shlex.split(part)
        except ValueError:
            return None
        env = {}
        if words[:1] == ["env"]:
            words = words[1:]
        while words and re.match(r"\w+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = value
        if words[:1] == ["FileCheck"]:
            break
        tools = {"mlir-opt": "mlir-opt-22"}
        tools |= dict.fromkeys(("mlir-cpu-runner", "mlir-runner"), "mlir-runner-22")
        if not words or words[0] not in tools:
            return None
        found.append(Stage([tools[words[0]], *words[1:]], env))
    names = [stage.command[0] for stage in found]
    if len(found) < 2 or names != ["mlir-opt-22"] * (len(found) - 1) + ["mlir-runner-22"]:
        return None
    found[-2].command.extend(FINISHING)
    if ERASE in line and "-transform-interpreter" not in line:
        found.insert(0, WITHOUT_SCHEDULE)
    return found


def alike(one: str, other: str) -> bool:
    """The same, or the same numbers but for how sums were rounded."""
    if one == other:
        return True
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    return all(
        a == b or math.isclose(float(a), float(b), rel_tol=1e-4, abs_tol=1e-5)
        for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    )


@dataclass
class Outcome:
    kind: str
    text: str = ""  #: what was printed, or why not
    own: bool = True  #: lowered by the test's own passes


def executed(line: Sequence[Stage], text: str, path: Path, model: str | None = None) -> Outcome:
    """What the commands make of it, with tiling in front of each mlir-opt if there is a model;
    nothing more is run if that changes nothing."""
    decided = left = False
    for at, stage in enumerate(line):
        optimizes = stage.command[0] == "mlir-opt-22"
        if model is not None and optimizes and stage not in UNTILED:
            done = run("mlir-opt-22", *tile_options(model), *REMARKS, "-", text=text)
            if done.code != 0:
                return Outcome("crashed" if done.crashed else "invalid", done.err)
            decided |= DECIDED in done.err
            left |= LEFT in done.err
            text = done.out
            if not decided and all(s.command[0] != "mlir-opt-22" for s in line[at + 1 :]):
                return Outcome("refused" if left else "unchanged")
        command = [word for word in stage.command if word != str(path)]
        done = run(*command, "-", text=text, env=stage.env)
        if done.code != 0:
            return Outcome("fails", f"{shlex.join(command)}\n{done.err}")
        text = done.out
    return Outcome("done", ADDRESS.sub("0x0", text))


def compared(line: Sequence[Stage], path: Path, model: str, stock: str) -> Outcome:
    text = path.read_text(errors="surrogateescape")
    made = executed(line, text, path, model)
    if made.kind in ("refused", "unchanged"):
        return made
    own = made.kind == "done"
    if made.kind == "fails":
        # Its passes may know nothing of loops or vectors; those of README.md do.
        lower = documented_passes().replace("buffer-deallocation-pipeline,", "")  # tests free
        passes = f"--pass-pipeline=builtin.module({lower})"
        first = [stage for stage in line[:-1] if stage in UNTILED]
        by_these = executed(
            [*first, Stage(["mlir-opt-22", passes], {}), line[-1]], text, path, model
        )
        made = by_these if by_these.kind == "done" else made
    if made.kind != "done":
        return Outcome("crashed" if made.kind == "crashed" else "wrong", made.text, own)
    if made.text == stock:
        return Outcome("same", own=own)
    if alike(made.text, stock):
        return Outcome("rounded", own=own)
    return Outcome("wrong", f"untiled:\n{stock}\ntiled:\n{made.text}", own)


@dataclass
class Counts:
    tests: int = 0
    tiled: int = 0
    same: int = 0
    rounded: int = 0
    own_passes: int = 0  #: of the tiled ones, those that each time were lowered by their own passes


def integration(
    tally: Tally, paths: Sequence[Path], tree: Path, asked: Mapping[str, str], until: float
) -> dict[str, Counts]:
    """Tests of sparse tensors apart from others."""

    def one(path: Path) -> list[tuple[str, str, Outcome]]:
        text = path.read_text(errors="surrogateescape")
        found = []
        for at, line in enumerate(run_lines(text)):
            commands = stages(line, path, tree)
            if commands is None or time.monotonic() > until:
                continue
            if "linalg" not in text and "tosa" not in text:
                continue
            stock = executed(commands, text, path)
            if stock.kind != "done":
                continue
            inlined = executed([INLINE, *commands], text, path)
            if inlined.kind == "done" and alike(inlined.text, stock.text):
                commands = [INLINE, *commands]
            for name, model in asked.items():
                outcome = compared(commands, path, model, stock.text)
                if outcome.kind == "wrong":
                    again = executed(commands, text, path)
                    if not alike(again.text, stock.text):
                        continue  # it prints something else each time
                found.append((f"{path.relative_to(tree)}#{at}", name, outcome))
        return found

    counts: dict[str, Counts] = {}
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, outcomes in zip(
            paths, tqdm(pool.map(one, paths), total=len(paths), desc="running", disable=None),
            strict=True,
        ):  # fmt: skip
            kind = "sparse" if "SparseTensor" in path.parts else "dense"
            count = counts.setdefault(kind, Counts())
            kinds = {outcome.kind for _, _, outcome in outcomes}
            changed = [o for _, _, o in outcomes if o.kind not in ("unchanged", "refused")]
            count.tests += bool(outcomes)
            count.tiled += bool(changed)
            count.same += bool(changed) and not kinds & {"wrong", "crashed", "rounded"}
            count.rounded += "rounded" in kinds and not kinds & {"wrong", "crashed"}
            count.own_passes += bool(changed) and all(o.own for o in changed)
            for name, model, outcome in outcomes:
                tally.programs += 1
                tally.changed += outcome.kind not in ("unchanged", "refused")
                tally.refused += outcome.kind == "refused"
                if outcome.kind in ("wrong", "crashed"):
                    again = f"{sys.executable} {Path(__file__).resolve()} --only {path.stem}.mlir"
                    again += f" --models {model}={asked[model]}".replace("{", "{{")
                    folder = tally.bad(outcome.kind, f"{name}-{model}", again, path)
                    (folder / "why").write_text(outcome.text + "\n", errors="surrogateescape")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=10, help="no test is begun afterwards")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--models", nargs="+", metavar="NAME=URI")
    arguments = parser.parse_args()
    asked = models(arguments.seed)
    if arguments.models:
        asked = dict(pair.split("=", 1) for pair in arguments.models)
    until = time.monotonic() + 60 * arguments.minutes
    tree = llvm_tests()
    paths = sorted((tree / "mlir" / "test").rglob("*.mlir"))
    if arguments.only:
        paths = [p for p in paths if any(name in str(p) for name in arguments.only)]
    random.Random(arguments.seed).shuffle(paths)
    tallies = [Tally("mlir-tests", OPTIMIZATION), Tally("mlir-integration", OPTIMIZATION)]
    every_file(tallies[0], parts_of(paths, tree), asked)
    here = [
        path
        for path in paths
        if {"Integration", "mlir-cpu-runner", "mlir-runner"} & set(path.parts)
        and not any(name in str(path) for name in ELSEWHERE)
    ]
    counts = integration(tallies[1], here, tree, asked, until)
    for kind, count in sorted(counts.items()):
        print(f"{kind} integration tests: {count}")
    good = save([tally for tally in tallies if tally.programs])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
