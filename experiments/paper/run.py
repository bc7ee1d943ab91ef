# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Redoes the evaluation of the paper: every table and figure of Sections 5 and 6, on open programs.

    python3 -m experiments.paper.run [--only STEP]... [--short] [--again] [--page FILE]

Each step is a command whose report, with the command, commit and machine, is kept in
build/paper/STEP.json. A step whose report is of this commit and length isn't run again, so that
what was interrupted goes on; --again runs it in any case. At the end docs/evaluation.md and its
charts are made of all reports that are there. --short is for tests: small inputs, one round, and
without --page no page. Exits with 1 if a step failed; the others are run nevertheless.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tqdm import tqdm

from experiments.paper import page
from mlbridge.outputs import write_whole
from programs.catalog import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import train_venv
from processor import processor

FOLDER = ROOT / "build/paper"
#: A program of the catalog that is small, for --short.
SMALL = "lhasa"


@dataclass(frozen=True)
class Step:
    """What measures. `report` is what it writes; {out} in its words is a file in build/paper."""

    name: str
    minutes: int  # on two cores, about
    command: tuple[str, ...]
    short: tuple[str, ...] = field(default=())  # instead of the words after the module or script
    report: str = "{out}"
    trains: bool = False  # with PyTorch and Ray


def module(name: str, *words: str) -> tuple[str, ...]:
    return ("-m", f"experiments.paper.{name}", *words, "-o", "{out}")


SMALL_SET = ("--set", SMALL)
STEPS = (
    Step("lines", 1, module("lines"), module("lines")),
    Step(
        "clients",
        8,
        ("bench/clients/run.py",),
        ("bench/clients/run.py", "--rounds", "1"),
        "build/bench/clients.json",
    ),
    Step(
        "waits",
        4,
        ("bench/ask/run.py", "--only", "GCC", "--only", "MLIR", "--only", "Polly"),
        ("bench/ask/run.py", "--only", "MLIR", "--rounds", "1"),
        "build/bench/ask-partial.json",
    ),
    Step(
        "deployment",
        17,
        ("experiments/deployment/run.py",),
        (
            *("experiments/deployment/run.py", *SMALL_SET),
            *("--modules", "2", "--sizes", "2", "--rounds", "1"),
        ),
        "build/experiments/deployment.json",
    ),
    Step(
        "threads",
        17,
        module("threads"),
        module("threads", *SMALL_SET, "--programs", "1", "--threads", "1", "2", "--rounds", "1"),
    ),
    Step(
        "allocation",
        8,
        module("allocation"),
        module(
            *("allocation", *SMALL_SET, "--files", "2", "--rounds", "1"),
            *("--learned", SMALL, "--modules", "4"),
        ),
        trains=True,
    ),
    Step(
        "footprint",
        3,
        ("bench/footprint/run.py",),
        ("bench/footprint/run.py",),
        "build/bench/footprint.json",
    ),
    Step("characteristics", 3, module("characteristics"), module("characteristics")),
    Step(
        "training-time",
        4,
        module("training_time"),
        module("training_time", *SMALL_SET, "--steps", "30", "--modules", "2"),
    ),
    Step(
        "workers",
        7,
        module("workers"),
        module("workers", *SMALL_SET, "--workers", "1", "--steps", "3000"),
        trains=True,
    ),
    Step(
        "algorithms",
        15,
        module("algorithms"),
        module("algorithms", *SMALL_SET, "--trials", "1", "--steps", "600"),
        trains=True,
    ),
)


def commit() -> str:
    """The commit of the tree, with a mark if something that is tracked differs."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def kept(step: Step, as_of: str, *, short: bool) -> dict[str, Any] | None:
    """The report of an earlier run that needs no other."""
    path = FOLDER / f"{step.name}.json"
    if not path.exists():
        return None
    report: dict[str, Any] = json.loads(path.read_text())
    same = report["commit"] == as_of and report["short"] == short
    return report if same else None


def run(step: Step, as_of: str, *, short: bool) -> str:
    """Runs a step and keeps its report; why it failed, or nothing."""
    out = FOLDER / "found" / f"{step.name}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    words = [word.format(out=out) for word in (step.short if short else step.command)]
    python = train_venv.PYTHON if step.trains else Path(sys.executable)
    report = out if step.report == "{out}" else ROOT / step.report
    log = FOLDER / f"{step.name}.log"
    began = time.monotonic()
    with log.open("wb") as to:
        done = subprocess.run(
            [python, *words], cwd=ROOT, stdout=to, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-3:]
        return f"{step.name}: ended with {done.returncode}: {' / '.join(last)} ({log})"
    shown = " ".join(str(word) for word in words).replace(str(ROOT) + "/", "")
    kept = {
        "step": step.name,
        "command": f"python3 {shown}",
        "commit": as_of,
        "short": short,
        "when": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "seconds": round(time.monotonic() - began),
        "machine": processor(),
        "load": round(os.getloadavg()[1], 1),
        "found": json.loads(report.read_text()),
    }
    write_whole(FOLDER / f"{step.name}.json", json.dumps(kept, indent=1).encode() + b"\n")
    return ""


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    names = [step.name for step in STEPS]
    parser.add_argument("--only", action="append", choices=names, metavar="STEP", help=str(names))
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", type=Path, metavar="FILE", help="default: docs/evaluation.md")
    options = parser.parse_args(arguments)
    wanted = [step for step in STEPS if not options.only or step.name in options.only]
    as_of, failed = commit(), []
    todo = [step for step in wanted if options.again or not kept(step, as_of, short=options.short)]
    if any(step.trains for step in todo):
        train_venv.prepare()
    minutes = sum(1 if options.short else step.minutes for step in todo)
    with tqdm(total=minutes, desc="evaluation", unit="min", file=sys.stderr) as bar:
        for step in todo:
            bar.set_postfix_str(step.name)
            if why := run(step, as_of, short=options.short):
                failed.append(why)
                tqdm.write(why, file=sys.stderr)
            bar.update(1 if options.short else step.minutes)
    target = options.page or (None if options.short else ROOT / "docs/evaluation.md")
    if target:
        reports = {
            step.name: json.loads(path.read_text())
            for step in STEPS
            if (path := FOLDER / f"{step.name}.json").exists()
        }
        page.write(target, reports)
        print(f"{target}: of {len(reports)} of {len(STEPS)} steps")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
