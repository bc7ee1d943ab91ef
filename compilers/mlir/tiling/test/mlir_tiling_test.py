# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock mlir-opt-22 with the plugin: whatever a model chooses, programs compute what they did, and
a model that fails changes nothing."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from beyond_llvm import ENVIRONMENT, RUNNERS, asked, record
from building import attempt, run
from compiler import serving
from linalg_programs import OPERATIONS, Operation, drawn
from mlir_runs import PLUGIN, README, executed, lowered, optimize, tiling
from onnx import TensorProto, helper, numpy_helper
from sampling import nightly, runners_of

import mlbridge
from mlbridge.cli import main

HERE = Path(__file__).parent
LOOPS, COLUMNS = 10, 8
PROGRAMS, FEW = 26, 3
SIGNATURE = mlbridge.Signature(
    [
        mlbridge.TensorSpec("loops", "float32", [LOOPS, COLUMNS]),
        mlbridge.TensorSpec("operation", "float32", [16]),
    ],
    [mlbridge.TensorSpec("sizes", "int64", [LOOPS]), mlbridge.TensorSpec("vectorize", "int64")],
)
WHOLE = [1 << 40] * LOOPS
PRODUCT = """
func.func @product(%a: {0}<20x30xf32>, %b: {0}<30x40xf32>, %c: {0}<20x40xf32>){1} {{
  {2}linalg.matmul ins(%a, %b : {0}<20x30xf32>, {0}<30x40xf32>) outs(%c : {0}<20x40xf32>){1}
  return{3}
}}
"""
MEMREFS = PRODUCT.format("memref", "", "", "")
TENSORS = PRODUCT.format("tensor", " -> tensor<20x40xf32>", "%d = ", " %d : tensor<20x40xf32>")
#: What ends when it is asked a second time.
KILLED = """
import os, sys, mlbridge
spec = mlbridge.TensorSpec
signature = mlbridge.Signature(
    [spec("loops", "float32", [10, 8]), spec("operation", "float32", [16])],
    [spec("sizes", "int64", [10]), spec("vectorize", "int64")],
)
asked = 0

def policy(observation, context):
    global asked
    asked += 1
    if asked == 2:
        os.kill(os.getpid(), 9)
    return {"sizes": [8] * 10, "vectorize": 1}

with mlbridge.Server("unix:" + sys.argv[1], signature) as server:
    print("ready", flush=True)
    server.serve_forever(policy)
"""
Answer = Mapping[str, Any]


def answer(*sizes: int, vectorize: int = 0) -> Answer:
    return {"sizes": [*sizes, *WHOLE][:LOOPS], "vectorize": vectorize}


def network(path: Path, seed: int | None = None, rows: int = LOOPS, **fixed: Any) -> Path:
    """Sizes from 1 to 40 by a random sum of the columns, vectors for two of three operations; or
    what is fixed."""
    weights = np.random.default_rng(seed).integers(1, 9, (COLUMNS, 1)).astype(np.float32)
    tensor, node = helper.make_tensor_value_info, helper.make_node
    constants = {
        "weights": weights,
        "flat": np.array([-1]),
        "one": np.float32(1),
        "period": np.float32(40),
        "three": np.float32(3),
        **{f"fixed_{name}": np.array(value, np.int64) for name, value in fixed.items()},
    }
    nodes = [
        node("MatMul", ["loops", "weights"], ["sum"]),
        node("Reshape", ["sum", "flat"], ["row"]),
        node("Abs", ["row"], ["positive"]),
        node("Mod", ["positive", "period"], ["rest"], fmod=1),
        node("Add", ["rest", "one"], ["size"]),
        node("Cast", ["size"], ["sizes"], to=TensorProto.INT64),
        node("ReduceSum", ["positive"], ["all"], keepdims=0),
        node("Mod", ["all", "three"], ["third"], fmod=1),
        node("Cast", ["third"], ["few"], to=TensorProto.BOOL),
        node("Cast", ["few"], ["vectorize"], to=TensorProto.INT64),
    ]
    if fixed:
        nodes = [node("Identity", [f"fixed_{name}"], [name]) for name in fixed]
    graph = helper.make_graph(
        nodes,
        "tiling",
        [tensor("loops", TensorProto.FLOAT, [rows, COLUMNS])],
        [tensor("sizes", TensorProto.INT64, [rows]), tensor("vectorize", TensorProto.INT64, [])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


def stock(text: str) -> str:
    """As mlir-opt prints it."""
    done = optimize(text, "")
    assert done.returncode == 0, done.stderr
    return done.stdout


def tiled(text: str, remarks: bool = False, **options: str | int) -> tuple[str, str]:
    """The module after the plugin's pass, and what was said."""
    flags = ["--remarks-filter=mlbridge-tiling", "--remark-format=emitRemark"] if remarks else []
    done = optimize(text, tiling(options), *flags, "--mlir-print-op-on-diagnostic=false")
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def decisions(said: str) -> list[str]:
    return re.findall(r'Remark="(.*)"', said)


def of_each(count: int, first: int = 0) -> list[Operation]:
    """So many programs, of each operation about as many."""
    names = sorted(OPERATIONS)
    return [drawn(first + at, 48, names[at % len(names)]) for at in range(count)]


#: What a copy would come from.
BUFFERS = "one-shot-bufferize{bufferize-function-boundaries function-boundary-type-conversion="
BUFFERS += "identity-layout-map},cse,canonicalize"


def test_tensors_become_buffers_without_copies(tmp_path: Path) -> None:
    uri = f"native:{network(tmp_path / 'tiles.onnx', sizes=[7, 5, 9] * 3 + [8], vectorize=1)}"
    for program in of_each(len(OPERATIONS), 200):
        text = replace(program, tensors=True).kernel()
        done = optimize(text, f"{tiling({'model': uri, 'on_failure': 'fail'})},{BUFFERS}")
        assert done.returncode == 0 and "vector.transfer_read" in done.stdout, program
        assert "memref.alloc" not in done.stdout and "memref.copy" not in done.stdout, program


def same_results(folder: Path, programs: list[Operation], first: int) -> int:
    made = 0
    for seed, program in enumerate(programs, first):
        text = program.program()
        uri = f"native:{network(folder / 'tiles.onnx', seed)}"
        options = {"model": uri, "on_failure": "fail"}
        assert executed(lowered(text, options)) == executed(lowered(text)), (seed, program)
        module, said = tiled(text, remarks=True, **options)
        assert decisions(said), (seed, program)
        assert "not vectorized" not in said, (seed, program, said)
        made += len(decisions(said))
        assert ", vectorized" not in said or "vector.transfer_read" in module, (seed, program)
    return made


@pytest.mark.parametrize(("count", "every"), [(len(OPERATIONS), 2), nightly(PROGRAMS, 1)])
def test_generated_programs_compute_the_same(tmp_path: Path, count: int, every: int) -> None:
    programs = of_each(count)[::every]
    made = same_results(tmp_path, programs, 0)
    record("mlir", "native", len(programs), made, True)


def same_decisions(folder: Path, runner: str, programs: list[Operation]) -> int:
    path, made = network(folder / "tiles.onnx", 7), 0
    with asked(runner, path, folder) as uri:
        for program in programs:
            text = program.program()
            expected = tiled(text, True, model=f"native:{path}", on_failure="fail")
            assert tiled(text, True, model=uri, on_failure="fail") == expected
            made += len(decisions(expected[1]))
    assert made >= len(programs)
    return made


@pytest.mark.parametrize(
    ("runner", "count"), runners_of("mlir-tiling", RUNNERS[1:], few=FEW, many=PROGRAMS)
)
def test_every_runner_decides_the_same(tmp_path: Path, runner: str, count: int) -> None:
    made = same_decisions(tmp_path, runner, of_each(count))
    record("mlir", runner, count, made, True)


@pytest.mark.nightly
def test_many_programs_compute_the_same(tmp_path: Path) -> None:
    made = same_results(tmp_path, of_each(260, 1000), 1000)
    record("mlir, many programs", "native", 260, made, True)


@pytest.mark.parametrize("text", [MEMREFS, TENSORS])
def test_what_a_model_sees_and_decides(tmp_path: Path, text: str) -> None:
    seen: list[Any] = []
    places: list[str] = []
    answers = iter([answer(4, 8, 5), answer(), answer(1 << 62, 8), answer(4, 8, 5, vectorize=1)])

    def policy(observation: Any, context: mlbridge.CallContext) -> Answer:
        seen.append({name: np.array(value) for name, value in observation.items()})
        places.append(context.unit)
        return next(answers)

    with serving(policy, tmp_path, SIGNATURE) as uri:
        options: dict[str, str | int] = {"model": uri, "on_failure": "fail"}
        module, said = tiled(text, True, **options)
        assert decisions(said) == ["linalg.matmul: tiles of 4x8x5"]
        assert module.count("scf.for") == 3 and "linalg.matmul" in module
        module, said = tiled(text, True, **options)
        left = "linalg.matmul is left as it is: the model chose whole loops, and no vectors"
        assert decisions(said) == [left]
        assert module == stock(text)
        module, said = tiled(text, True, **options)
        assert decisions(said) == ["linalg.matmul: tiles of 20x8x30"]
        assert module.count("scf.for") == 1
        module, said = tiled(text, True, **options)
        assert decisions(said) == ["linalg.matmul: tiles of 4x8x5, vectorized"]
        assert "linalg." not in module and "vector.fma" in module
    assert places == ["<stdin>:product:linalg.matmul"] * 4
    loops = dict(zip(listed("loops"), seen[0]["loops"].T, strict=True))
    assert loops["trips"][:4].tolist() == [20, 40, 30, 0]
    assert loops["parallel"][:3].tolist() == [1, 1, 0]
    assert loops["along"][:3].tolist() == [0, 1, 0]
    assert loops["registers"][:3].tolist() == [4, 16, 6]
    assert not seen[0]["loops"][3:].any()
    whole = dict(zip(listed("operation"), seen[0]["operation"], strict=True))
    assert (whole["loops"], whole["iterations"], whole["element-bits"]) == (3, 24000, 32)
    assert (whole["is-float"], whole["multiply-add"], whole["windows"]) == (1, 1, 0)
    assert whole["input-bytes"] == 4 * (20 * 30 + 30 * 40) and whole["output-bytes"] == 3200
    assert whole["on-tensors"] == (text == TENSORS)
    assert (whole["l1-bytes"], whole["vector-bits"], whole["lanes"]) == (32768, 256, 8)


def listed(table: str) -> list[str]:
    """The names that the README has for this input."""
    part = README.read_text().partition(f"### `{table}`")[2].partition("###")[0]
    return re.findall(r"^\| \d+ \| `([\w-]+)` \|", part, re.M)


def test_the_machine_is_that_of_the_options(tmp_path: Path) -> None:
    seen: list[list[float]] = []

    def policy(observation: Any, context: mlbridge.CallContext) -> Answer:
        seen.append(np.array(observation["operation"]).tolist())
        return answer(vectorize=1)

    with serving(policy, tmp_path, SIGNATURE) as uri:
        machine: dict[str, str | int] = {
            "l1-bytes": 1000,
            "l2-bytes": 2000,
            "l3-bytes": 3000,
            "vector-bits": 512,
        }
        wide, _ = tiled(MEMREFS, False, model=uri, **machine)
        narrow, _ = tiled(MEMREFS, model=uri, vector_bits=128)
    assert seen[0][-5:] == [1000, 2000, 3000, 512, 16]
    assert "vector<32xf32>" in wide and "vector<8xf32>" in narrow


WRONG: dict[str, Answer] = {
    "sizes: 0 for loop 1": answer(4, 0, 4),
    "sizes: -3 for loop 0": answer(-3, 4, 4),
    "vectorize: 2; expected 0 or 1": answer(4, 4, 4, vectorize=2),
    "vectorize: -1; expected 0 or 1": answer(4, 4, 4, vectorize=-1),
}


@pytest.mark.parametrize("says", WRONG)
def test_answers_that_cannot_be_used(tmp_path: Path, says: str) -> None:
    twice = MEMREFS + MEMREFS.replace("@product", "@again")
    with serving(lambda *_: WRONG[says], tmp_path, SIGNATURE) as uri:
        module, said = tiled(twice, model=uri)
        assert (
            said.count("warning: ") == 1
            and says in said
            and "<stdin>:product:linalg.matmul" in said
        )
        assert module == stock(twice)
        done = optimize(twice, tiling({"model": uri, "on_failure": "fail"}))
        assert done.returncode != 0 and done.stderr.count("error: ") == 1 and says in done.stderr


def test_a_size_of_a_loop_that_is_not_there_is_ignored(tmp_path: Path) -> None:
    sizes = [4, 4, 4, 0, -1, *[0] * 5]
    with serving(lambda *_: {"sizes": sizes, "vectorize": 0}, tmp_path, SIGNATURE) as uri:
        module, said = tiled(MEMREFS, model=uri, on_failure="fail")
    assert not said and module.count("scf.for") == 3


def test_models_that_cannot_be_asked(tmp_path: Path) -> None:
    (tmp_path / "damaged.onnx").write_bytes(b"\x08")
    small = network(tmp_path / "small.onnx", rows=4)
    bad = {
        f"native:{small}": "mismatch: ",
        f"native:{tmp_path}/damaged.onnx": "damaged.onnx",
        f"unix:{tmp_path}/nobody": "no server there",
        "native:/nowhere.onnx": "/nowhere.onnx",
        "function:none": "no function is registered",
        "no-uri": "no scheme",
    }
    for uri, says in bad.items():
        module, said = tiled(MEMREFS, model=uri)
        assert said.count("warning: ") == 1 and says in said, (uri, said)
        assert module == stock(MEMREFS)
        done = optimize(MEMREFS, tiling({"model": uri, "on_failure": "fail"}))
        assert done.returncode != 0 and "error: " in done.stderr and says in done.stderr


def test_a_server_that_ends_in_the_middle(tmp_path: Path) -> None:
    """What it was asked about before is as it said; the rest stays."""
    text = MEMREFS + MEMREFS.replace("@product", "@again")
    command = [sys.executable, "-c", KILLED, f"{tmp_path}/s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline() == "ready\n"
        module, said = tiled(text, model=f"unix:{tmp_path}/s", deadline="20s")
        server.wait(timeout=60)
    assert said.count("warning: ") == 1 and "<stdin>:again:linalg.matmul" in said
    assert module.count("linalg.matmul") == 1
    assert module.index("vector.fma") < module.index("linalg.matmul")


def test_a_server_that_is_slow(tmp_path: Path) -> None:
    asked_again = threading.Event()

    def policy(observation: Any, context: mlbridge.CallContext) -> Answer:
        asked_again.wait(60)
        return answer(4, 4, 4)

    with serving(policy, tmp_path, SIGNATURE) as uri:
        module, said = tiled(MEMREFS, model=uri, deadline="50ms")
        asked_again.set()
    assert said.count("warning: ") == 1 and "deadline exceeded" in said
    assert module == stock(MEMREFS)


NOT_ASKED = {
    "": "func.func @f(%x: i32) -> i32 {\n  return %x : i32\n}\n",
    "elementwise": "func.func @f(%a: memref<8xf32>, %b: memref<8xf32>) {\n"
    "  linalg.exp ins(%a : memref<8xf32>) outs(%b : memref<8xf32>)\n  return\n}\n",
    "linalg.matmul is left as it is: the length of a loop is not known": MEMREFS.replace(
        "20x", "?x"
    ),
    "linalg.matmul is left as it is: it has nothing to do": MEMREFS.replace("20x", "0x"),
    "linalg.matmul is left as it is: an output may also be another operand": (
        "func.func @f(%a: memref<8x8xf32>) {\n  %b = memref.cast %a : memref<8x8xf32> to "
        "memref<8x8xf32, strided<[8, 1], offset: 0>>\n  linalg.matmul ins(%a, %a : "
        "memref<8x8xf32>, memref<8x8xf32>) outs(%b : memref<8x8xf32, strided<[8, 1], "
        "offset: 0>>)\n  return\n}\n"
    ),
}


@pytest.mark.parametrize("says", NOT_ASKED)
def test_what_is_not_asked_about(says: str) -> None:
    module, said = tiled(NOT_ASKED[says], True, model="unix:nobody", on_failure="fail")
    assert module == stock(NOT_ASKED[says])
    assert decisions(said) == ([says] if " is left " in says else [])


def test_a_tile_of_a_whole_loop_of_one_iteration(tmp_path: Path) -> None:
    text = MEMREFS.replace("20x30", "1x1").replace("30x40", "1x1").replace("20x40", "1x1")
    uri = f"native:{network(tmp_path / 'one.onnx', sizes=[1] * LOOPS, vectorize=1)}"
    module, said = tiled(text, True, model=uri, on_failure="fail")
    assert decisions(said) == ["linalg.matmul is left as it is: it has one iteration"]
    assert module == stock(text)


def test_tiles_of_too_many_kinds_are_not_vectorized(tmp_path: Path) -> None:
    text = (
        "func.func @f(%a: memref<3x9x9x5xf32>, %b: memref<5x5x5x7xf32>, %c: memref<3x5x5x7xf32>) {"
        "\n  linalg.conv_2d_nhwc_hwcf ins(%a, %b : memref<3x9x9x5xf32>, memref<5x5x5x7xf32>) "
        "outs(%c : memref<3x5x5x7xf32>)\n  return\n}\n"
    )
    uri = f"native:{network(tmp_path / 'two.onnx', sizes=[2] * LOOPS, vectorize=1)}"
    module, said = tiled(text, True, model=uri, on_failure="fail")
    assert "not vectorized: there would be 128 kinds of tiles" in said
    assert module.count("scf.for") == 7 and "vector." not in module


def test_options_that_are_wrong() -> None:
    wrong: dict[str, dict[str, str | int]] = {
        "no model was given": {},
        "deadline: expected a time": {"model": "function:x", "deadline": "soon"},
        "on-failure: expected stock or fail, got 'cry'": {
            "model": "function:x",
            "on_failure": "cry",
        },
        "float-sums: expected reassociate or in-order, got 'fast'": {
            "model": "function:x",
            "float_sums": "fast",
        },
        "l1-bytes: expected a number above 0": {"model": "function:x", "l1-bytes": 0},
        "vector-bits: expected a power of two": {"model": "function:x", "vector-bits": 100},
        "no such option levels": {"model": "function:x", "levels": "O2"},
    }
    for says, options in wrong.items():
        done = optimize(MEMREFS, tiling(options))
        assert done.returncode != 0 and says in done.stderr, done.stderr


def test_another_mlir_does_not_take_the_plugin(tmp_path: Path) -> None:
    """It says so, and goes on without."""
    source = "void LLVMGetVersion(unsigned *a, unsigned *b, unsigned *c) { *a = 23; *b = 1; }\n"
    (tmp_path / "other.c").write_text(source)
    run("cc", "-shared", "-fPIC", "-w", tmp_path / "other.c", "-o", tmp_path / "other.so")
    done = subprocess.run(
        ["mlir-opt-22", f"--load-pass-plugin={PLUGIN}", "-"],
        input=MEMREFS,
        env={**ENVIRONMENT, "LD_PRELOAD": str(tmp_path / "other.so")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.count("Failed to load passes") == 1 and done.stdout == stock(MEMREFS)


def test_the_documented_command(tmp_path: Path) -> None:
    """As a shell runs it, and what it makes runs."""
    network(tmp_path / "tiles.onnx", sizes=[32] * LOOPS, vectorize=1)
    text = README.read_text()
    found = re.search(r"^```sh test=check\n(cat > product.*?)^```", text, re.M | re.S)
    assert found is not None
    done = subprocess.run(
        ["bash", "-euc", found[1]],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}:{ENVIRONMENT['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "llvm.func @product" in done.stdout and "llvm.intr.fmuladd" in done.stdout


def words(line: str) -> list[str]:
    """As a shell takes $(mlbridge flags …)."""
    return line.split()


def test_flags_and_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["path", "mlir-tiling"]) == 0
    assert capsys.readouterr().out.strip() == PLUGIN
    path = network(tmp_path / "tiles.onnx", sizes=[8] * LOOPS, vectorize=0)
    for model in ([], ["--model", f"native:{path}"]):
        assert main(["flags", "mlir-tiling", *model, "--log", str(tmp_path / "log")]) == 0
        line = capsys.readouterr().out
        done = attempt("mlir-opt-22", *words(line), "-", input=MEMREFS, env=ENVIRONMENT)
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert done.stdout != stock(MEMREFS)
    assert len(list((tmp_path / "log").iterdir())) == 2
    many = ["--model", f"native:{path}", "--require", "--deadline", "2s"]
    assert main(["flags", "mlir-tiling", *many]) == 0
    said = capsys.readouterr()
    assert "is quoted for make and for eval" in said.err
    done = attempt("mlir-opt-22", *shlex.split(said.out), "-", input=MEMREFS, env=ENVIRONMENT)
    assert done.returncode == 0 and done.stdout.count("scf.for") == 3, done.stderr


def test_flags_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = network(tmp_path / "other.onnx", rows=4)
    wrong = {
        "--levels is not for mlir-tiling": ["mlir-tiling", "--levels", "O2"],
        "mlir-tiling is for MLIR, and inliner not": ["inliner", "mlir-tiling"],
        "--effort is for": ["mlir-tiling", "--effort", "1"],
        "can't ask the model": ["mlir-tiling", "--model", f"native:{other}", "--require"],
    }
    for says, options in wrong.items():
        assert main(["flags", *options]) == (1 if "model" in says else 2)
        assert says in capsys.readouterr().err


def test_a_wrapper(tmp_path: Path) -> None:
    path = network(tmp_path / "tiles.onnx", sizes=[8] * LOOPS, vectorize=0)
    options = ["--model", f"native:{path}", "-o", str(tmp_path / "tile")]
    assert main(["wrapper", "mlir-tiling", *options]) == 0
    done = attempt(tmp_path / "tile", "-", input=MEMREFS)
    assert done.returncode == 0 and done.stdout.count("scf.for") == 3, done.stderr
    path.unlink()
    assert attempt(tmp_path / "tile", "-", input=MEMREFS).returncode != 0
