# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program of two files, and how it is specialized."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlbridge.clock import Timing
from mlbridge.ratio import Ratio
from mlbridge.specializing.recipes import Recipe
from mlbridge.specializing.search import specialize
from mlbridge.specializing.specialization import Settings, Specialization

MAIN = """
#include <stdio.h>
#include <string.h>
int count(const char *text, int letter);
int main(int argc, char **argv) {
  int sum = 0;
  for (int i = 0; i < 2000; ++i)
    sum += count(argv[1], 'a' + i % 26);
  printf("%d\\n", sum);
  return argc != 2;
}
"""
COUNT = """
static int same(int a, int b) { return a == b; }
int count(const char *text, int letter) {
  int found = 0;
  for (; *text; ++text)
    found += same(*text, letter);
  return found;
}
int unused(int x) { return x * 3; }
"""
MAKE = """
app: main.o src/count.o
\t$(CC) $(CFLAGS) -o $@ main.o src/count.o
%.o: %.c
\t$(CC) $(CFLAGS) -c -o $@ $<
"""
RUN, OTHER = "./app bananas", "./app cabbages"


ALIGNED = Recipe(True, link="full", options=(("align-all-functions", "6"),))


def settings(tree: Path, **more: Any) -> Settings:
    usual: dict[str, Any] = {"build": "make -j2", "runs": (RUN,), "confirm_runs": (OTHER,)}
    usual["objective"] = "time"  # small programs grow
    return Settings(tree=tree, **usual | more)


def specialized(tree: Path, **more: Any) -> Specialization:
    place = tree.parent
    return specialize(settings(tree, **more), place / "app.decisions", place / "work", keep=False)


def made_with(decisions: Path, tree: Path, jobs: int = 2) -> bytes:
    """The program of a build with what `mlbridge flags` prints."""
    command = [sys.executable, "-m", "mlbridge", "flags", "--decisions", str(decisions)]
    flags = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    make = ["make", "-B", f"-j{jobs}", f"CC=clang-22 {flags}", "CFLAGS=-O3"]
    done = subprocess.run(make, cwd=tree, check=True, capture_output=True, text=True)
    assert "warning" not in done.stderr, done.stderr
    return (tree / "app").read_bytes()


def broken_compiler(folder: Path, cases: str) -> str:
    """A clang that changes its command line as the shell's `case` says."""
    broken = folder / "clang-broken"
    broken.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\nexec clang-22 "$@"\n')
    broken.chmod(0o755)
    (folder / "clang++-broken").symlink_to(broken)
    return str(broken)


def timing(names: Sequence[str], times: Mapping[str, float]) -> Timing:
    """Times as exact as a clock's would be on an ideal machine."""
    ratios = {}
    for name in names[1:]:
        mean = times.get(name, 1.0)
        ratios[name] = Ratio(mean, mean * 0.99, mean * 1.01, 50)
    return Timing(names[0], ratios, Ratio(1.0, 0.99, 1.01, 50), dict.fromkeys(names, 0.01))
