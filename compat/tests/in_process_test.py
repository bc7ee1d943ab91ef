# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models in the compiler's own process, and runners and SerDes of the user's own."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest
from building import DEV, run
from sampling import NIGHTLY, nightly


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    folder = tmp_path_factory.mktemp("networks")
    paths = []
    for name, weight in (("first", 1.0), ("second", -1.0)):
        matrix = numpy_helper.from_array(np.eye(3, dtype=np.float32) * weight, "w")
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["obs", "w"], ["output"])],
            name,
            [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 3])],
            [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 3])],
            [matrix],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        paths.append(path)
    return paths[0], paths[1]


def output(*command: str | Path) -> str:
    done = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ, MLBRIDGE_COMPONENT_PATH=str(DEV / "lib" / "mlbridge")),
    )
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


@pytest.mark.parametrize("engine", ["", "native:"])
def test_agents_take_turns(programs: Path, networks: tuple[Path, Path], engine: str) -> None:
    agents = [f"{engine}{path}" for path in networks]
    # [1, 5, 2] -> [1, -5, 2] -> [1, 5, 2] -> [1, -5, 2] -> [1, 5, 2]
    want = "select:1 colour:1 select:1 colour:1 0 ok\n"
    assert output(programs / "listing3", *agents) == want * 2


def test_an_agent_without_a_file(programs: Path, networks: tuple[Path, Path]) -> None:
    lines = output(programs / "listing3", networks[0], "/nowhere/p.onnx").splitlines()
    assert len(lines) == 2
    assert re.match(r"select:1 -1 not found: agent 'colour', step 1: .*/nowhere/p.onnx", lines[0])


def test_a_single_agent_of_c(programs: Path, networks: tuple[Path, Path]) -> None:
    assert output(programs / "single_agent", networks[0]) == "2 \n"
    assert output(programs / "single_agent", networks[1]) == "1 \n"
    assert output(programs / "single_agent", "/nowhere/p.onnx").startswith("-1 not found: ")


def test_copies_of_agents_and_networks(programs: Path, networks: tuple[Path, Path]) -> None:
    want = "2 1 2 1 0.5 -1 2 0.500000,-1.000000 1,-2,3\n"
    assert output(programs / "copies", *networks) == want


def test_agents_of_c(programs: Path, networks: tuple[Path, Path]) -> None:
    want = "select:1 colour:1 select:1 colour:1 1 \n"
    assert output(programs / "agents", *networks) == want
    assert "agent 'colour', step 1" in output(programs / "agents", networks[0], "/nowhere/p.onnx")


def test_a_compiled_tensorflow_model(programs: Path) -> None:
    lines = output(programs / "tf_aot").splitlines()
    assert lines[0] == "10 ok"
    assert lines[1].startswith("-1 invalid argument: feature 'weights' has 16 bytes")
    assert lines[2].startswith("-1 mismatch: ")
    assert lines[3] == "00"


def test_a_runner_of_ones_own(programs: Path) -> None:
    lines = output(programs / "slides_extension").splitlines()
    assert lines[0] == f"{len('depth 3;hot yes;')} ok"
    assert lines[1].startswith("-1 unsupported: ") and "'list'" in lines[1]


def test_a_serdes_of_ones_own_over_a_pipe(programs: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    for end in ("in", "out"):
        os.mkfifo(f"{pipe}.{end}")
    seen = b""

    def model() -> None:
        nonlocal seen
        with open(f"{pipe}.in", "wb", buffering=0) as to, open(f"{pipe}.out", "rb") as source:
            seen = source.read(int.from_bytes(source.read(8), "little"))
            to.write((2).to_bytes(8, "little") + b"23")

    thread = threading.Thread(target=model)
    thread.start()
    assert output(programs / "slides_extension", pipe).splitlines()[-1] == "23 ok"
    thread.join()
    assert seen == b"depth 3;hot yes;"


def test_recorded_files_stand_for_pipes(programs: Path, tmp_path: Path) -> None:
    base = tmp_path / "file"
    replies = [b'{"out": 4}', b'{"out": 9}', b'{"out": -1}']
    data = b"".join(len(r).to_bytes(8, "little") + r for r in replies)
    base.with_suffix(".in").write_bytes(data)
    assert output(programs / "episode", "json", base) == "4 9 ok\n"
    assert base.with_suffix(".out").stat().st_size > 3 * 300


def compile_headers(prefix: Path, source: Path, headers: list[str], *options: str) -> None:
    """Without exceptions and RTTI."""
    source.write_text("".join(f'#include "{header}"\n' for header in headers))
    warnings = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    include = [f"-I{prefix}/include", f"-I{prefix}/include/mlbridge-compat"]
    run("g++", *warnings, "-fno-exceptions", "-fno-rtti", *include, *options, source)


def headers_of(prefix: Path) -> list[str]:
    folder = prefix / "include" / "mlbridge-compat"
    found = sorted(str(h.relative_to(folder)) for h in folder.rglob("*.h"))
    assert len(found) > 20
    return found


@NIGHTLY
def test_each_header_alone(prefix: Path, tmp_path: Path) -> None:
    for header in headers_of(prefix):
        compile_headers(prefix, tmp_path / "all.cpp", [header, header])


@pytest.mark.parametrize("llvms_first", [False, nightly(True)])
def test_headers_beside_llvms_of_like_names(
    prefix: Path, tmp_path: Path, llvms_first: bool
) -> None:
    ours = [header for header in headers_of(prefix) if "/C/" not in header]
    llvm = ["llvm/Analysis/MLModelRunner.h", "llvm/Analysis/TensorSpec.h", "llvm/Support/JSON.h"]
    order = llvm + ours if llvms_first else ours + llvm
    of_llvm = ("-isystem", "/usr/include/llvm-22", "-isystem", "/usr/include/llvm-c-22")
    compile_headers(prefix, tmp_path / "all.cpp", order, *of_llvm)


REPLACED = """
#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/Utils/JSON.h"
#include "SerDes/TensorSpec.h"
#include "SerDes/protobufSerDes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/TensorSpec.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/raw_ostream.h"
#include <google/protobuf/repeated_field.h>
using namespace google::protobuf;
MLBridge::ProtobufSerDes serdes;
RepeatedField<int> field;
llvm::SmallVector<float, 4> values;
#define NAME(TYPE, NAME) #NAME,
const char *names[] = {SUPPORTED_TENSOR_TYPES(NAME)};
void print(llvm::LLVMContext &, const MLBridge::TensorSpec &spec) {
  llvm::json::OStream out(llvm::errs());
  out.rawValue(spec.toJSON());
  llvm::json::Value value(spec.toJSON());
}
"""


def test_what_to_write_instead(prefix: Path, tmp_path: Path) -> None:
    """The replacements of compat/README.md."""
    source = tmp_path / "replaced.cpp"
    source.write_text(REPLACED)
    options = ["-std=c++17", "-fsyntax-only", f"-I{prefix}/include"]
    options += [f"-I{prefix}/include/mlbridge-compat", "-isystem", "/usr/include/llvm-22"]
    run("g++", *options, "-isystem", "/usr/include/llvm-c-22", source)


@pytest.mark.parametrize("standard", ["c11", "c17"])
def test_the_c_headers_are_c(prefix: Path, tmp_path: Path, standard: str) -> None:
    for header in ("ONNXModelRunner", "PipeModelRunner"):
        source = tmp_path / f"{header}.c"
        source.write_text(
            f"#include <MLModelRunner/C/{header}.h>\nint main(void) {{ return 0; }}\n"
        )
        options = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
        run("gcc", *options, f"-I{prefix}/include/mlbridge-compat", source)
