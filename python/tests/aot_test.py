# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks compiled ahead of time: equal to native: bit by bit, from C, from threads, refused."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from once import SharedBuild
from sampling import nightly

import mlbridge
from mlbridge import _core
from mlbridge.cli import main
from serving import at_once

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

pytestmark = pytest.mark.skipif(
    not hasattr(_core, "_generate") or not shutil.which(os.environ.get("CXX", "c++")),
    reason="needs the native engine and a C++ compiler",
)

METADATA = 'a "b"\n\\c??= é NAME @'


def save(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, tuple[Any, ...]],
    outputs: dict[str, tuple[Any, ...]],
    weights: dict[str, np.ndarray[Any, Any]],
) -> Path:
    def infos(specs: dict[str, tuple[Any, ...]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, kind, list(shape))
            for name, (kind, *shape) in specs.items()
        ]

    graph = helper.make_graph(
        nodes,
        "graph",
        infos(inputs),
        infos(outputs),
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    model.metadata_props.add(key="actions", value=METADATA)
    onnx.save(model, path)
    return path


def perceptron(path: Path, *sizes: int, seed: int = 1, batch: int | str = 1) -> Path:
    source = np.random.default_rng(seed)
    nodes, weights, x = [], {}, "x"
    for i, (k, n) in enumerate(itertools.pairwise(sizes)):
        weights[f"w{i}"] = (source.standard_normal((k, n)) / k**0.5).astype(np.float32)
        weights[f"b{i}"] = source.standard_normal(n).astype(np.float32)
        last = i == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], ["y" if last else f"h{i}"]))
        if not last:
            x = f"a{i}"
            nodes.append(helper.make_node(("Relu", "Tanh", "Sigmoid")[i % 3], [f"h{i}"], [x]))
    kind = onnx.TensorProto.FLOAT
    return save(
        path, nodes, {"x": (kind, batch, sizes[0])}, {"y": (kind, batch, sizes[-1])}, weights
    )


def lookup(path: Path) -> Path:
    """An index from outside, and several types."""
    nodes = [
        helper.make_node("Gather", ["table", "index"], ["row"]),
        helper.make_node("Softmax", ["row"], ["share"]),
        helper.make_node("ArgMax", ["share"], ["best"], axis=1, keepdims=0),
    ]
    table = np.random.default_rng(3).standard_normal((5, 7)).astype(np.float32)
    proto = onnx.TensorProto
    return save(
        path,
        nodes,
        {"index": (proto.INT64, 3)},
        {"share": (proto.FLOAT, 3, 7), "best": (proto.INT64, 3)},
        {"table": table},
    )


def test_the_outputs_suffix_says_what_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = perceptron(tmp_path / "m.onnx", 4, 3, 2)
    shared = compiled(model, tmp_path / "m.so")
    assert mlbridge.open(f"aot:{shared}").evaluate(x=np.zeros((1, 4), np.float32))["y"].shape
    assert main(["aot", str(model), "--shared", "-o", str(tmp_path / "m.o")]) == 2
    assert "m.o: --shared makes a shared object" in capsys.readouterr().err
    assert not (tmp_path / "m.o").exists()


def loop(path: Path) -> Path:
    """Adds x until the sum is 4 or more, seven times at most."""
    info, proto = helper.make_tensor_value_info, onnx.TensorProto
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("ReduceSum", ["next"], ["total"], keepdims=0),
            helper.make_node("Less", ["total", "limit"], ["go"]),
        ],
        "body",
        [
            info("i", proto.INT64, []),
            info("condition", proto.BOOL, []),
            info("state", proto.FLOAT, [3]),
        ],
        [info("go", proto.BOOL, []), info("next", proto.FLOAT, [3])],
    )
    constants = {"most": np.int64(7), "limit": np.float32(4), "start": np.zeros(3, np.float32)}
    return save(
        path,
        [helper.make_node("Loop", ["most", "", "start"], ["y"], body=body)],
        {"x": (proto.FLOAT, 3)},
        {"y": (proto.FLOAT, 3)},
        {name: np.asarray(value) for name, value in constants.items()},
    )


def branch(path: Path) -> Path:
    """Squares of numbers with a positive sum, exponentials of others."""
    info, proto = helper.make_tensor_value_info, onnx.TensorProto
    squares = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["a"])], "then", [], [info("a", proto.FLOAT, [3])]
    )
    powers = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["b"])], "else", [], [info("b", proto.FLOAT, [3])]
    )
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node("If", ["positive"], ["y"], then_branch=squares, else_branch=powers),
    ]
    specs = {"x": (proto.FLOAT, 3)}, {"y": (proto.FLOAT, 3)}
    return save(path, nodes, *specs, {"zero": np.zeros((), np.float32)})


def scan(path: Path) -> Path:
    """Running sums of rows, and their tanh."""
    info, proto = helper.make_tensor_value_info, onnx.TensorProto
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "row"], ["next"]),
            helper.make_node("Tanh", ["next"], ["kept"]),
        ],
        "body",
        [info("sum", proto.FLOAT, [3]), info("row", proto.FLOAT, [3])],
        [info("next", proto.FLOAT, [3]), info("kept", proto.FLOAT, [3])],
    )
    return save(
        path,
        [helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)],
        {"x": (proto.FLOAT, 4, 3)},
        {"last": (proto.FLOAT, 3), "y": (proto.FLOAT, 4, 3)},
        {"start": np.zeros(3, np.float32)},
    )


def compiled(model: Path, output: Path, *options: str, isa: str = "portable") -> Path:
    """Compiles for one instruction set, which is quicker; "" stands for all."""
    more = ["--isa", isa] if isa and output.suffix != ".weights" else []
    assert main(["aot", str(model), "-o", str(output), *options, *more]) == 0
    return output


@pytest.fixture(scope="module")
def small(shared_build: SharedBuild) -> Path:
    def make(folder: Path) -> None:
        model = perceptron(folder / "small.onnx", 16, 8, 2)
        compiled(model, folder / "small.so", "--shared", isa="")

    return shared_build("small-network", make)


# The engines read which instruction set to use when the first model of a process is opened.
COMPARE = """
import os, sys
import numpy as np
import mlbridge
onnx, so, *sets = sys.argv[1:]

def compare():
    native, aot = mlbridge.open("native:" + onnx), mlbridge.open("aot:" + so)
    assert str(native.signature) == str(aot.signature)
    source = np.random.default_rng(0)
    for _ in range(20):
        inputs = {}
        for spec in native.signature.inputs:
            if spec.type == "int64":
                inputs[spec.name] = source.integers(-5, 5, spec.shape)
            else:
                inputs[spec.name] = source.standard_normal(spec.shape).astype(np.float32)
        ours, theirs = aot.evaluate(**inputs), native.evaluate(**inputs)
        for name in theirs:
            assert ours[name].tobytes() == theirs[name].tobytes(), name

for isa in sets:
    os.environ["MLBRIDGE_NATIVE_ISA"] = isa
    if (child := os.fork()) == 0:
        compare()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, isa
"""


def buckets(path: Path) -> Path:
    """The number of boundaries that each number has reached, and others by another comparison."""
    proto = onnx.TensorProto
    nodes = [
        helper.make_node("GreaterOrEqual", ["x", "bounds"], ["reached"]),
        helper.make_node("Cast", ["reached"], ["ones"], to=proto.FLOAT),
        helper.make_node("ReduceSum", ["ones", "axis"], ["count"], keepdims=0),
        helper.make_node("Less", ["bounds", "x"], ["below"]),
        helper.make_node("Equal", ["x", "turned"], ["same"]),
        helper.make_node("Transpose", ["x"], ["turned"]),
    ]
    nodes[4:] = reversed(nodes[4:])
    bounds = np.sort(np.random.default_rng(5).standard_normal((5, 37)).astype(np.float32))
    return save(
        path,
        nodes,
        {"x": (proto.FLOAT, 5, 1)},
        {"count": (proto.FLOAT, 5), "below": (proto.BOOL, 5, 37), "same": (proto.BOOL, 5, 5)},
        {"bounds": bounds, "axis": np.array([1])},
    )


NETWORKS = {"buckets": buckets, "lookup": lookup, "loop": loop, "branch": branch, "scan": scan}


@pytest.mark.parametrize(
    "network",
    [
        *("70-50-40-17", "buckets", "loop"),
        *map(nightly, ("16-8-2", "300-1", "lookup", "branch", "scan")),
    ],
)
def test_results_are_those_of_native_on_every_instruction_set(network: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    if network in NETWORKS:
        NETWORKS[network](path)
    else:
        perceptron(path, *map(int, network.split("-")))
    shared = compiled(path, tmp_path / "m.so", "--shared", isa="")
    sets = ("portable", "avx2", "avx512", "neon")
    subprocess.run([sys.executable, "-c", COMPARE, path, shared, *sets], check=True)


def test_metadata_and_signature_come_along(small: Path) -> None:
    model = mlbridge.Model.open(f"aot:{small}/small.so")
    assert model.metadata["actions"] == METADATA
    assert str(model.model_signature) == "(x: float32[1, 16]) -> (y: float32[1, 2])"


def test_threads_share_one_model(small: Path) -> None:
    model = mlbridge.open(f"aot:{small}/small.so").model
    wrong = []
    done = []

    def ask(seed: int) -> None:
        runner = model.new_runner()
        native = mlbridge.open(f"native:{small}/small.onnx")
        source = np.random.default_rng(seed)
        for _ in range(200):
            x = source.standard_normal((1, 16)).astype(np.float32)
            if runner.evaluate(x=x)["y"].tobytes() != native.evaluate(x=x)["y"].tobytes():
                wrong.append(seed)
        done.append(seed)

    at_once(ask, 4)
    assert not wrong
    assert len(done) == 4


PROGRAM = """
#include "policy.h"
#include <stdio.h>

int main(void) {
  policy *one = policy_create(), *two = policy_create();
  if (!one || !two || policy_init(NULL) || policy_context_size() % 64)
    return 1;
  for (int i = 0; i < POLICY_INPUT_X_SIZE; ++i)
    policy_input_x(one)[i] = 0.25f * (float)(i - 7);
  if (policy_run(one) || policy_run(two))
    return 2;
  if (policy_input(one, POLICY_INPUTS) || policy_output(one, POLICY_OUTPUTS))
    return 3;
  printf("%a %a %a\\n", policy_output_y(one)[0], policy_output_y(one)[1], policy_output_y(two)[0]);
  policy_destroy(one);
  policy_destroy(two);
  policy_destroy(NULL);
  return 0;
}
"""


def run_c(folder: Path, program: str, *arguments: Path) -> str:
    (folder / "main.c").write_text(program)
    compiler = os.environ.get("CC", "cc")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    objects = ["main.c", "policy.o", "-lm", "-o", "main"]
    subprocess.run([compiler, *flags, *objects], cwd=folder, check=True)
    return subprocess.run(
        [folder / "main", *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_plain_c_needs_only_libc(tmp_path: Path) -> None:
    model = perceptron(tmp_path / "policy.onnx", 16, 8, 2)
    compiled(model, tmp_path / "policy.o", "--header", str(tmp_path / "policy.h"))
    printed = [float.fromhex(word) for word in run_c(tmp_path, PROGRAM).split()]
    native = mlbridge.open(f"native:{model}")
    x = (0.25 * (np.arange(16) - 7)).astype(np.float32).reshape(1, 16)
    assert printed[:2] == native.evaluate(x=x)["y"][0].tolist()
    zero = native.evaluate(x=np.zeros((1, 16), np.float32))["y"][0]
    assert printed[2] == zero[0]
    needed = subprocess.run(
        ["readelf", "-d", tmp_path / "main"], capture_output=True, text=True, check=True
    ).stdout
    libraries = [line for line in needed.splitlines() if "NEEDED" in line]
    assert all("libc.so" in line or "libm.so" in line for line in libraries), needed


EXTERNAL = """
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  char *weights = aligned_alloc(64, 1 << 20);
  FILE *file = fopen(argv[argc - 1], "rb");
  size_t size = fread(weights, 1, 1 << 20, file);
  fclose(file);
  if (policy_create(weights, size - 1) || policy_create(weights + 4, size))
    return 1;
  if (policy_create(NULL, size))
    return 1;
  policy *p = policy_create(weights, size);
  if (!p || policy_run(p))
    return 2;
  printf("%a\\n", policy_output_y(p)[0]);
  weights[9] ^= 1;
  return policy_create(weights, size) ? 3 : 0;
}
"""


def test_weights_of_the_same_network_take_each_others_place(tmp_path: Path) -> None:
    first = perceptron(tmp_path / "first.onnx", 16, 8, 2)
    second = perceptron(tmp_path / "second.onnx", 16, 8, 2, seed=2)
    other = perceptron(tmp_path / "other.onnx", 16, 9, 2)
    shared = compiled(first, tmp_path / "policy.so", "--shared", "--weights", "external")
    new = compiled(second, tmp_path / "second.weights")
    wrong = compiled(other, tmp_path / "other.weights")
    x = np.ones((1, 16), np.float32)
    for model, weights in ((first, tmp_path / "policy.weights"), (second, new)):
        ours = mlbridge.open(f"aot:{shared}?weights={weights}").evaluate(x=x)["y"]
        assert ours.tobytes() == mlbridge.open(f"native:{model}").evaluate(x=x)["y"].tobytes()
    with pytest.raises(mlbridge.Error, match="needs its weights"):
        mlbridge.open(f"aot:{shared}")
    with pytest.raises(mlbridge.Error, match="a different network"):
        mlbridge.open(f"aot:{shared}?weights={wrong}")
    new.write_bytes(new.read_bytes()[:-1])
    with pytest.raises(mlbridge.Error, match="bytes"):
        mlbridge.open(f"aot:{shared}?weights={new}")

    compiled(
        first, tmp_path / "policy.o", "--weights", "external", "--header", f"{tmp_path}/policy.h"
    )
    printed = run_c(tmp_path, EXTERNAL, tmp_path / "policy.weights")
    zero = mlbridge.open(f"native:{first}").evaluate(x=np.zeros((1, 16), np.float32))["y"]
    assert float.fromhex(printed) == zero[0][0]


def test_an_index_out_of_range_is_an_error_of_its_node(tmp_path: Path) -> None:
    shared = compiled(lookup(tmp_path / "m.onnx"), tmp_path / "m.so", "--shared")
    runner = mlbridge.open(f"aot:{shared}")
    with pytest.raises(mlbridge.Error, match=r"Gather.*out of range"):
        runner.evaluate(index=[0, 5, 1])
    assert runner.evaluate(index=[0, 4, -5])["best"].shape == (3,)


def test_dynamic_dimensions_get_a_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = perceptron(tmp_path / "m.onnx", 6, 3, batch="batch")
    so = tmp_path / "m.so"
    arguments = ["aot", str(model), "--shared", "-o", str(so)]
    assert main(arguments) == 1
    assert "--dim batch=N" in capsys.readouterr().err
    assert main([*arguments, "--dim", "rows=2", "--dim", "batch=2"]) == 1
    assert "rows" in capsys.readouterr().err
    compiled(model, so, "--shared", "--dim", "batch=4")
    assert str(mlbridge.open(f"aot:{so}").signature) == "(x: float32[4, 6]) -> (y: float32[4, 3])"
    compiled(model, so, "--shared", "--shape", "x=2,6")
    assert mlbridge.open(f"aot:{so}").evaluate(x=np.ones((2, 6), np.float32))["y"].shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--name", "not a name"], "identifier"),
        (["--name", "if"], "'if' is a keyword of C"),
        (["--isa", "sse9"], "no instruction set"),
        (["--shape", "z=1,2"], r"no input 'z' in \(x: float32"),
        (["--shape", "x=3,16"], "does not fit"),
        (["--dim", "batch"], "NAME=N"),
        (["--cxx", "no-such-compiler"], "no C\\+\\+ compiler"),
    ],
)
def test_wrong_arguments_are_refused(
    small: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = small / "refused.o"
    assert main(["aot", f"{small}/small.onnx", "-o", str(output), *arguments]) in (1, 2)
    message = capsys.readouterr().err
    assert message.startswith("mlbridge aot: ")
    assert re.search(complaint, message), message
    assert not output.exists()


@pytest.mark.parametrize(
    "name",
    [
        *("inputs", "upper_UPPER", "FILE"),
        *map(nightly, ("model", "evaluate", "memory", "POLICY_NAME")),
    ],
)
def test_names_of_the_source_may_be_those_of_networks(name: str, tmp_path: Path) -> None:
    library = tmp_path / f"{name}.so"
    network = lookup(tmp_path / f"{name}.onnx")
    compiled(network, library, "--shared")
    assert mlbridge.open(f"aot:{library}").evaluate(index=[0, 1, 2])["best"].shape == (3,)


@pytest.mark.parametrize(
    ("output", "header", "over"),
    [
        ("p.weights", "", "the model"),
        ("link.o", "", "the model"),
        ("q.o", "p.weights", "the model"),
        ("q.o", "q.o", "another output"),
    ],
)
def test_nothing_is_written_over_the_model_or_another_output(
    output: str, header: str, over: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = lookup(tmp_path / "p.weights")
    (tmp_path / "link.o").symlink_to(model)
    before = model.read_bytes()
    command = ["aot", str(model), "-o", str(tmp_path / output)]
    command += ["--header", str(tmp_path / header)] if header else []
    assert main(command) == 1
    assert f"would be written over {over}" in capsys.readouterr().err
    assert model.read_bytes() == before and not (tmp_path / "q.o").exists()


@pytest.mark.parametrize("scheme", ["native", "unix", "onnx"])
@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("chose=argmax", "did you mean 'choose'"),
        ("deadlin=5s", "did you mean 'deadline'"),
        ("mask=m", "goes with choose=argmax"),
    ],
)
def test_options_of_every_model_are_known_to_each(
    scheme: str, option: str, complaint: str, tmp_path: Path
) -> None:
    place = tmp_path / "s" if scheme == "unix" else lookup(tmp_path / "m.onnx")
    with pytest.raises(mlbridge.InvalidArgument, match=complaint):
        mlbridge.Model.open(f"{scheme}:{place}?{option}")


def test_what_is_no_compiled_network_is_refused(small: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("no object")
    cut = tmp_path / "cut.so"
    cut.write_bytes((small / "small.so").read_bytes()[:1000])
    for place, complaint in (
        (text, "not a shared object"),
        (cut, "not a shared object"),
        (tmp_path / "missing.so", "missing.so"),
        ("unregistered", "no compiled network is registered"),
        (_core.__file__, "not a compiled network"),
        (f"{small}/small.so?weights=x", "remove the option weights"),
        (f"{small}/small.so?threads=2", "has no option 'threads'"),
    ):
        with pytest.raises(mlbridge.Error, match=complaint):
            mlbridge.open(f"aot:{place}")


def test_a_replaced_file_is_another_model(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.so"
    shutil.copy(small / "small.so", path)
    first = mlbridge.open(f"aot:{path}")
    x = np.ones((1, 16), np.float32)
    before = first.evaluate(x=x)["y"].copy()
    compiled(perceptron(tmp_path / "m.onnx", 16, 8, 2, seed=9), path, "--shared")
    second = mlbridge.open(f"aot:{path}")
    assert second.evaluate(x=x)["y"].tobytes() != before.tobytes()
    assert first.evaluate(x=x)["y"].tobytes() == before.tobytes()
