# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge inspect`, on the golden models and on ones made here."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlbridge
from mlbridge.cli import main
from mlbridge.inspection import inspect
from serving import SMALL, running

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "onnx"


def look(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    assert main(["inspect", "--json", *map(str, arguments)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def floats(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def weights(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def save(path: Path, nodes: list[Any], inputs: Any, outputs: Any, tensors: Any) -> Path:
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_an_onnx_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = look(capsys, GOLDEN / "linear.onnx")
    assert found["format"] == "ONNX"
    assert found["signature"] == "(x: float32[1, 4]) -> (y: float32[1, 1])"
    assert found["metadata"]["unit"] == "µs"
    assert found["operators"] == {"Gemm": 1}
    assert (found["parameters"], found["parameter_bytes"]) == (5, 20)
    assert found["multiply_adds"] == 4
    assert found["opsets"] == {"ai.onnx": 17}
    assert found["engines"]["onnx"]["runs"] is True
    assert found["engines"]["native"] == {"runs": True, "why": "", "missing": []}
    assert found["workspace_bytes"] is not None


def test_the_options_change_the_signature(capsys: pytest.CaptureFixture[str]) -> None:
    options = "rename=features:x,score:y&choose=argmax"
    found = look(capsys, GOLDEN / "linear.onnx", "--options", options)
    assert found["signature"] == (
        "(features: float32[1, 4]) -> (action: int64[1], score: float32[1, 1])"
    )
    of_uri = look(capsys, f"onnx:{GOLDEN}/linear.onnx?rename=n:x", "--options", "choose=argmax")
    assert of_uri["signature"].startswith("(n: float32[1, 4]) -> (action: int64[1]")
    found = look(capsys, GOLDEN / "linear.onnx", "--options", "rename=features:z")
    assert found["engines"]["onnx"]["runs"] is False
    assert "no input or output 'z'" in found["engines"]["onnx"]["why"]


def test_uris_of_files_are_their_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = look(capsys, GOLDEN / "linear.onnx")
    assert look(capsys, f"onnx:{GOLDEN}/linear.onnx") == file
    assert look(capsys, f"native:{GOLDEN}/linear.onnx?deadline=5s")["operators"] == {"Gemm": 1}
    (tmp_path / "a b.onnx").write_bytes((GOLDEN / "linear.onnx").read_bytes())
    assert look(capsys, f"onnx:{tmp_path}/a%20b.onnx")["signature"] == file["signature"]
    chosen = look(capsys, f"native:{GOLDEN}/linear.onnx?choose=argmax")
    assert chosen["signature"].endswith("-> (action: int64[1], y: float32[1, 1])")
    for uri, why in (("native:no.onnx", "no.onnx"), ("onxn:a", "did you mean 'onnx'")):
        assert main(["inspect", uri]) == 1
        assert why in capsys.readouterr().err


def test_the_uri_of_a_server(capsys: pytest.CaptureFixture[str], address: str) -> None:
    with running(lambda o, c: 1, address, SMALL):
        found = look(capsys, address)
        assert found["signature"] == str(SMALL) and found["file_bytes"] is None
        assert main(["inspect", address]) == 0
        out = capsys.readouterr().out
    assert f"model          {address}\n" in out and f"signature      {SMALL}\n" in out
    assert main(["inspect", address]) == 1
    assert "no server there" in capsys.readouterr().err


def test_the_text_has_what_the_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(GOLDEN / "linear.onnx")]) == 0
    out = capsys.readouterr().out
    for part in ("Gemm 1", "5 (20 bytes)", "4 per evaluation", "onnx:          runs", "unit = µs"):
        assert part in out


def test_a_network_with_layers_and_a_batch(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = save(
        tmp_path / "mlp.onnx",
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "v"], ["m"]),
            helper.make_node("Add", ["m", "c"], ["y"]),
        ],
        [floats("x", 4, 300)],
        [floats("y", 4, 15)],
        [weights("w", 256, 300), weights("b", 256), weights("v", 256, 15), weights("c", 15)],
    )
    found = look(capsys, path)
    assert found["multiply_adds"] == 4 * (300 * 256 + 256 * 15)
    assert found["parameters"] == 300 * 256 + 256 + 256 * 15 + 15


def test_recurrences_are_counted_and_what_native_cannot_plan_is_not(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lstm = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8)
    inputs, outputs = [floats("x", 50, 1, 4)], [floats("y", 50, 1, 1, 8)]
    tensors = [weights("w", 1, 32, 4), weights("r", 1, 32, 8)]
    found = look(capsys, save(tmp_path / "lstm.onnx", [lstm], inputs, outputs, tensors))
    assert found["multiply_adds"] == 50 * 32 * (4 + 8)
    other = helper.make_node("Teleport", ["x"], ["z"], domain="nowhere")
    outputs.append(floats("z", 50, 1, 4))
    found = look(capsys, save(tmp_path / "both.onnx", [lstm, other], inputs, outputs, tensors))
    assert found["multiply_adds"] is None
    assert found["signature"] == (
        "(x: float32[50, 1, 4]) -> (y: float32[50, 1, 1, 8], z: float32[50, 1, 4])"
    )
    assert found["parameters"] == 32 * 4 + 32 * 8


def test_changing_dimensions_strings_and_external_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = look(capsys, GOLDEN / "words.onnx")
    assert found["signature"].startswith("(many: string[?], pair: string[2], word: string) -> ")
    found = look(capsys, GOLDEN / "external-data.onnx")
    assert found["external_files"] == ["external-data.bin"]


def test_onnx_runtimes_own_format(capsys: pytest.CaptureFixture[str]) -> None:
    found = look(capsys, GOLDEN / "linear.ort")
    assert found["format"] == "ONNX Runtime"
    assert found["signature"] == "(x: float32[1, 4]) -> (y: float32[1, 1])"
    assert found["metadata"]["unit"] == "µs"
    assert found["engines"]["onnx"]["runs"] is True


def test_an_engine_that_cannot_run_it_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    found = look(capsys, GOLDEN / "unknown-operator.onnx")
    assert found["operators"] == {"nowhere::Teleport": 1}
    assert found["engines"]["onnx"]["runs"] is False
    assert "Teleport" in found["engines"]["onnx"]["why"]
    native = found["engines"]["native"]
    assert not native["runs"] and "Teleport" in native["why"]
    assert any("Teleport" in operator for operator in native["missing"])


def test_a_saved_model_is_read_by_tensorflow(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    assert main(["inspect", str(tmp_path)]) == 1
    assert "pip install tensorflow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: p.mkdir(), "saved_model.pb"),
        (lambda p: p.write_bytes(b""), "is empty"),
        (lambda p: p.write_text("no model at all"), "model"),
        (lambda p: None, "No such file"),
    ],
)
def test_what_is_no_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, make: Any, says: str
) -> None:
    make(tmp_path / "x")
    assert main(["inspect", str(tmp_path / "x")]) == 1
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("name", ["policy.onnx", "linear.ort"])
def test_damaged_files_are_errors_and_never_crashes(name: str, tmp_path: Path) -> None:
    whole = (GOLDEN / name).read_bytes()
    chance = random.Random(1)
    path = tmp_path / "damaged"
    for _ in range(300):
        damaged = bytearray(whole[: chance.randrange(8, len(whole) + 1)])
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            inspect(path)
        except mlbridge.Error as error:
            assert str(path) in str(error)


def test_metadata_moves_no_cursor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>\nf (float[1] x) => (float[1] y) { y = Neg (x) }'
    )
    onnx.helper.set_model_props(model, {"author": "\x1b[2Jgone"})
    onnx.save(model, tmp_path / "model.onnx")
    assert main(["inspect", str(tmp_path / "model.onnx")]) == 0
    assert "author = \\x1b[2Jgone" in capsys.readouterr().out
