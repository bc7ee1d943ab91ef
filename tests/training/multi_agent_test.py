# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Agents of an optimization, from modules to what stock LLVM does with their networks. Nightly:
needs build/venv-train."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from modules import unoptimized
from processes import below

from mlbridge.files import plugin

pytestmark = [pytest.mark.nightly, pytest.mark.training]

VALUES = 22  # more than there are registers


def pressing(of: random.Random, number: int) -> str:
    """A function with more live values in a loop than registers."""
    values = [f"v{i}" for i in range(VALUES)]
    body = "".join(
        f"    {to} = {left} {of.choice('+^*-')} {right} + p[i + {of.randrange(9)}];\n"
        for to in values
        for left, right in [of.sample(values, 2)]
    )
    first = "".join(f"  int {name} = p[{i}];\n" for i, name in enumerate(values))
    last = " ^ ".join(values)
    return (
        f"int f{number}(const int *p, int n) {{\n{first}"
        f"  for (int i = 0; i < n; ++i) {{\n{body}  }}\n  return {last};\n}}\n"
    )


def divisible(of: random.Random, number: int) -> str:
    """A loop with recurrences, and with what can be vectorized beside them."""
    body = "".join(
        f"    a{i}[i] = a{i}[i - 1] * x + b[i];\n"
        if of.random() < 0.5
        else f"    a{i}[i] = b[i] * {of.randrange(2, 9)}.0f + c[i];\n"
        for i in range(of.randrange(2, 5))
    )
    arrays = ", ".join(f"float *restrict a{i}" for i in range(4))
    return (
        f"void f{number}({arrays}, const float *restrict b, const float *restrict c, float x,"
        f" int n) {{\n  for (int i = 1; i < n; ++i) {{\n{body}  }}\n}}\n"
    )


PROGRAMS = {"register-allocation": pressing, "loop-distribution": divisible}
each = pytest.mark.parametrize("name", PROGRAMS)


def made(name: str, folder: Path, files: int = 6) -> Path:
    """A corpus."""
    folder.mkdir()
    for number in range(files):
        of = random.Random(number)
        source = folder / f"{number}.c"
        source.write_text("".join(PROGRAMS[name](of, i) for i in range(4)))
        unoptimized(source, "-O2")
    return folder


def command(name: str, corpus: Path, out: Path, steps: int, *more: str) -> list[str]:
    train = [sys.executable, "-m", "mlbridge", "train", name, "--corpus", str(corpus)]
    small = ["--set", "train_batch_size_per_learner=128", "--set", "imitation_epochs=3"]
    return [*train, *small, "--option", "functions=8", "--steps", str(steps), "-o", str(out), *more]


def rows(out: Path) -> list[Any]:
    return [json.loads(line) for line in (out / "progress.jsonl").read_text().splitlines()]


def code(name: str, module: Path, model: str, folder: Path) -> str:
    """What stock LLVM makes of the module with the model; it must not fail."""
    asked = [f"-{name}-model={model}", f"-{name}-on-failure=fail", "-o", "-"]
    if name == "register-allocation":
        tool = ["llc-22", "-O2", "-load", plugin(name), *asked]
    else:
        passes = "loop-simplify,lcssa,loop(loop-rotate),mlbridge-loop-distribution"
        tool = ["opt-22", "-S", "-load-pass-plugin", plugin(name), f"-passes={passes}", *asked]
    optimized = folder / "optimized.bc"
    pipeline = ["opt-22", "-passes=default<O1>", "-disable-loop-unrolling", str(module)]
    subprocess.run([*pipeline, "-o", str(optimized)], check=True)
    done = subprocess.run([*tool, str(optimized)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "warning" not in done.stderr
    return done.stdout


@each
def test_the_imitation_decides_as_the_heuristic(name: str, tmp_path: Path) -> None:
    import torch

    from mlbridge.training import agent_networks as networks
    from mlbridge.training.dataset import prepare
    from mlbridge.training.optimizations import TRAINED

    torch.manual_seed(0)
    corpus = made(name, tmp_path / "corpus", 6 if name == "register-allocation" else 24)
    prepared = prepare(TRAINED[name], str(corpus), tmp_path / "functions", functions=80)
    same = count = 0
    for agent in TRAINED[name].agents:
        rows = networks.ROWS[name][agent]
        given, apart = (
            networks.learned(rows, part.decisions[agent], 256)
            for part in (prepared.training, prepared.apart)
        )
        if len(given[1]) and len(apart[1]):
            scores = networks.Scores(given[0].shape[-1] - 1, [32, 32])
            networks.imitate(scores, *given, epochs=10, seed=0)
            same += networks.agreement(scores, *apart)
            count += len(apart[1])
    assert count > 50 and same / count > 0.95


@each
def test_from_modules_to_stock_llvm(name: str, tmp_path: Path) -> None:
    corpus, out = made(name, tmp_path / "corpus"), tmp_path / "out"
    subprocess.run(command(name, corpus, out, 200, "--workers", "1"), check=True)
    found = rows(out)
    assert found[0]["steps"] == 0 and found[0]["agreement"] > 0.5
    assert found[-1]["steps"] >= 200 and found[-1]["reward"] is not None
    assert sum(row["faults"] for row in found) == 0
    assert "| after PPO |" in (out / "README.md").read_text()
    assert (out / "curve.png").exists()
    module = corpus / "0.bc"
    made_by = {
        engine: code(name, module, f"{engine}:{out}/{{agent}}.onnx", tmp_path)
        for engine in ("native", "onnx")
    }
    assert made_by["native"] == made_by["onnx"]
    assert code(name, module, f"native:{out}/imitation/{{agent}}.onnx", tmp_path)
    more = found[-1]["steps"] + 1
    subprocess.run(command(name, corpus, out, more, "--workers", "1", "--resume"), check=True)
    assert [row["iteration"] for row in rows(out)] == list(range(1, len(rows(out)) + 1))
    assert rows(out)[: len(found)] == found and rows(out)[-1]["steps"] >= more


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Any]:
    """A training of register allocation, when its first episodes have been played."""
    corpus = made("register-allocation", tmp_path / "corpus")
    asked = command("register-allocation", corpus, tmp_path / "out", 1500, "--workers", "1")
    with subprocess.Popen(
        asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        while not process.stdout.readline().startswith("iteration 2, "):
            assert process.poll() is None
        yield process
        process.kill()


def test_a_worker_that_is_killed_does_not_end_the_training(training: Any, tmp_path: Path) -> None:
    while not (found := below(training.pid, "llc-22")):
        assert training.poll() is None
    os.kill(found[0][1], signal.SIGKILL)
    ended(training, tmp_path / "out")


def test_compilers_that_are_killed_are_counted(training: Any, tmp_path: Path) -> None:
    """Some of them, as RLlib drops an episode when it updates."""
    killed: set[int] = set()
    while len(killed) < 5:
        assert training.poll() is None
        for compiler, _ in below(training.pid, "llc-22"):
            if compiler not in killed:
                os.kill(compiler, signal.SIGKILL)
                killed.add(compiler)
    ended(training, tmp_path / "out")
    assert 1 <= sum(row["faults"] for row in rows(tmp_path / "out")) <= 5


def ended(training: Any, out: Path) -> None:
    """As it should."""
    _, said = training.communicate(timeout=600)
    assert training.returncode == 0, said[-3000:]
    assert rows(out)[-1]["steps"] >= 1500
    assert (out / "node.onnx").exists()


def test_a_corpus_without_decisions(tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text("int f(int x) { return x; }\n")
    (tmp_path / "damaged.bc").write_text("garbage")
    unoptimized(source)
    asked = command("loop-distribution", tmp_path, tmp_path / "out", 100)
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "there is no function in which the agents of loop-distribution decide" in said
    assert "1 modules: PolicyFailed" in said


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--set", "imitation_epochs=0"], "imitation_epochs is 0; expected a number from 1"),
        (["--set", "hiddens=[]"], "hiddens is []; expected a layer at least"),
        (["--set", "lr=abc"], "lr is 'abc'; expected a number"),
        (["--set", "nosuch=1"], "nosuch"),
        (["--option", "functions=0"], "functions is 0; expected a number from 2"),
        (["--option", "nosuch=1"], "register-allocation has no 'nosuch'; it has corpus, part,"),
    ],
)
def test_what_it_does_not_take(asked: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [*command("register-allocation", tmp_path, out, 100), *asked],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert message in done.stderr.splitlines()[-1]
