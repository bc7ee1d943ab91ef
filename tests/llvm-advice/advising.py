# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilers, policies and networks for the tests of LLVM's advisors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from building import attempt, run
from onnx import TensorProto, helper, save
from sampling import LLVMS

PROGRAM = Path(__file__).parent / "program.c"
#: Seconds after which something hangs.
HANGS = 120

#: What the tests ask; each trap is one of these.
POLICIES = """
import os, time
import numpy as np

def inline(features, context):
    return int(features["callsite_cost"][0] < -36)

def evict(features, context):
    return int(features["mask"].argmax())

def priority(features, context):
    return float(features["li_size"][0])

def raises(features, context):
    raise ValueError("no idea")

def text(features, context):
    return "yes"

def two(features, context):
    return [0, 1]

def big(features, context):
    return 33

def negative(features, context):
    return -1

def masked(features, context):
    return int(features["mask"].argmin())

def nan(features, context):
    return float("nan")

def endless(features, context):
    while True:
        pass

def ends(features, context):
    os._exit(0)

def killed(features, context):
    os.kill(os.getpid(), 9)

def silent(features, context):
    if "ASKED" in os.environ:
        os.close(os.open(os.environ["ASKED"], os.O_WRONLY))
    time.sleep(3600)
"""


_EXPECTED: list[str] = []
BOTH = pytest.mark.parametrize("version", LLVMS)


@dataclass
class Ran:
    """A `mlbridge run` that has ended."""

    code: int
    said: str
    sites: dict[str, dict[str, Any]]


@dataclass
class Place:
    """A folder with the policies, in which compilers are run."""

    folder: Path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "mlbridge", "run", *words]

    def run(self, *words: str) -> Ran:
        report = self.folder / "report.json"
        done = self.call(*self.command("--json", str(report), *words))
        sites = json.loads(report.read_text())["sites"] if report.exists() else {}
        return Ran(done.returncode, done.stderr, sites)

    def call(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return attempt(*words, cwd=self.folder, env=self.env, timeout=HANGS)

    def must(self, *words: str | Path) -> str:
        return run(*words, cwd=self.folder, env=self.env, timeout=HANGS)

    @property
    def env(self) -> dict[str, str]:
        # The channels of a run are in a folder of its own, which must not stay.
        (self.folder / "tmp").mkdir(exist_ok=True)
        return dict(os.environ, TMPDIR=str(self.folder / "tmp"))

    @property
    def left(self) -> list[str]:
        return [path.name for path in (self.folder / "tmp").glob("mlbridge-*")]

    def expected(self) -> str:
        """What the program prints, compiled without any optimization."""
        if not _EXPECTED:
            self.must("clang-22", "-O0", PROGRAM, "-o", "plain")
            _EXPECTED.append(self.must("./plain"))
        return _EXPECTED[0]

    def module(self, version: int) -> str:
        """The program before the inliner."""
        name = f"program-{version}.bc"
        front_end = ["-O2", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
        self.must(f"clang-{version}", *front_end, PROGRAM, "-o", name)
        return name


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "policy.py").write_text(POLICIES)
    return Place(tmp_path)


def network(path: Path, name: str, inputs: dict[str, list[int]], nodes: list[Any]) -> None:
    """An ONNX file with int64 inputs of these shapes, and the output `name`: int64[1]."""
    given = [helper.make_tensor_value_info(k, TensorProto.INT64, v) for k, v in inputs.items()]
    gives = [helper.make_tensor_value_info(name, TensorProto.INT64, [1])]
    limit = helper.make_tensor("limit", TensorProto.INT64, [1], [-36])
    graph = helper.make_graph(nodes, "policy", given, gives, [limit])
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))


def inlining_network(path: Path, *others: str) -> None:
    """Decides like `inline`, and wants these features too."""
    nodes = [
        helper.make_node("Less", ["callsite_cost", "limit"], ["cheap"]),
        helper.make_node("Cast", ["cheap"], ["inlining_decision"], to=TensorProto.INT64),
    ]
    network(path, "inlining_decision", {k: [1] for k in ("callsite_cost", *others)}, nodes)


def evicting_network(path: Path) -> None:
    """Decides like `evict`."""
    nodes = [helper.make_node("ArgMax", ["mask"], ["index_to_evict"], axis=1, keepdims=0)]
    network(path, "index_to_evict", {"mask": [1, 33]}, nodes)
