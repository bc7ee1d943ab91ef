# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the demo counts, reports and refuses, on results made here."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import demo.run
from demo import report as reporting
from demo.agreement import Unscored, agreements, first_difference, gap_of, scored
from demo.measure import Build, Result, build_program
from demo.report import SizeTable, print_agreements, print_times, report
from mlbridge.process_runner import Output, Ran
from programs.build import Compiled, fallback_warnings
from programs.catalog import Program
from programs.linked import Linked

PROGRAM = Program("small", "demo", "parser", "small-src", ("*.c",))


def build(text: int, *actions: int) -> Build:
    decided = {"a.c": list(actions)} if actions else None
    objects = {"a.c": b"object"}
    sizes = {"a.c": text}
    return Build(text, 2.0, objects, len(actions), sizes, [], b"output", actions=decided)


def result(oz: int = 1000, onnx: int = 900) -> Result:
    asked = {name: build(onnx, 5, 1, 4, 48) for name in ("onnx", "server", "native")}
    compared = {"effort1": build(oz - 20), "effort3": build(oz - 30)}
    sizes = {"-Oz": oz, "-flto=full": oz - 10, "outliner": oz - 20, "effort 1": oz - 100}
    linked = {way: Linked(size, 1.0) for way, size in (sizes | {"effort 3": oz - 200}).items()}
    return Result(PROGRAM, {"oz": build(oz), "o2": build(1500), **asked, **compared}, linked)


def failures(results: list[Result], model: Path = Path("no.onnx")) -> list[str]:
    return reporting.failures(results, agreements(results, model))


def test_report_has_the_agreed_keys_and_the_geometric_mean() -> None:
    results = [result(1000, 500), result(1000, 2000)]
    made = report(results, agreements(results, Path("no.onnx")))
    assert made["geomean_onnx_over_oz"] == pytest.approx(1.0)
    keys = {"programs", "geomean_onnx_over_oz", "over_oz", "linked_over_oz", "engines", "left_out"}
    assert set(made) == {"format", "version", *keys}
    mean = made["over_oz"]["effort3"]
    assert mean["mean"] == pytest.approx(0.97) and mean["low"] <= 0.97 <= mean["high"]
    assert made["linked_over_oz"]["effort 3"]["mean"] == pytest.approx(0.8)
    assert made["engines"][1] == {
        "engine": "native",
        "programs": ["small", "small"],
        "decisions": 8,
        "same": 8,
        "near_ties": [],
        "different": [],
        "objects": 2,
        "objects_different": [],
    }
    assert made["programs"][0] == {
        "name": "small",
        "oz_text": 1000,
        "o2_text": 1500,
        "onnx_text": 500,
        "server_text": 500,
        "effort1_text": 980,
        "effort3_text": 970,
        "oz_seconds": 2.0,
        "onnx_seconds": 2.0,
        "server_seconds": 2.0,
        "effort1_seconds": 2.0,
        "effort3_seconds": 2.0,
        "decisions": 4,
        "linked": {"-Oz": 1000, "-flto": 990, "smallest": 900, "effort 3": 800},
        "output_identical": True,
        "objects_identical": True,
    }


def test_a_good_run_has_no_failures() -> None:
    assert failures([result()]) == []
    assert failures([result(1000, 1000)]) == []


def spoil_output(made: Result) -> None:
    made.builds["server"].output = b"other"


def spoil_test(made: Result) -> None:
    made.builds["o2"].output = None
    made.builds["o2"].failure = "ended with -11"


def spoil_objects(made: Result) -> None:
    made.builds["server"].objects = {"a.c": b"another object"}


def spoil_decisions(made: Result) -> None:
    made.builds["server"].decisions = 0


def spoil_model(made: Result) -> None:
    made.builds["onnx"].fallbacks = ["a.c: warning: no server [-Wbackend-plugin]"]


def spoil_size(made: Result) -> None:
    made.builds["onnx"].text = 1001


def spoil_effort(made: Result) -> None:
    made.builds["effort1"].sizes = {"a.c": 1001}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_output, "small server: its output differs"),
        (spoil_test, "small o2: ended with -11"),
        (spoil_objects, r"server decided as onnx, but the object differs: small, a\.c"),
        (spoil_decisions, "small server: the model made no decision"),
        (spoil_model, "small onnx: fell back: a.c: warning: no server"),
        (spoil_effort, r"small effort1: a\.c has more executable bytes than at -Oz"),
        (spoil_size, r"1\.0010 x -Oz"),
    ],
)
def test_everything_that_must_not_be_is_named(
    spoil: Callable[[Result], None], message: str
) -> None:
    made = result()
    spoil(made)
    (found,) = failures([made])
    assert re.search(message, found)


def test_the_report_says_what_differs() -> None:
    made = result()
    spoil_output(made)
    spoil_objects(made)
    (line,) = report([made], [])["programs"]
    assert not line["output_identical"]
    assert not line["objects_identical"]


def test_fallback_warnings_are_found(tmp_path: Path) -> None:
    text = b"x.c:1:1: remark: inlined\nwarning: model unavailable [-Wbackend-plugin]\n1 warning\n"
    errors = Output()
    errors.add(text)
    compiled = [Compiled("x.c", tmp_path / "x.o", Ran(0, Output(), errors, 0.0))]
    assert fallback_warnings(compiled) == ["x.c: warning: model unavailable [-Wbackend-plugin]"]


def test_tables_and_chart(tmp_path: Path) -> None:
    good, bad = result(), result(1000, 1100)
    spoil_output(bad)
    spoil_objects(bad)
    lines: list[str] = []
    table = SizeTable(lines.append)
    table.add("small", [good])
    assert lines[-1].split() == "small 1 1000 1.500 0.900 0.900 0.980 0.970 4 ok".split()
    table.add("smaller", [bad])
    assert lines[-1].endswith(" 4 output differs, objects differ")
    table.end([good, bad])
    assert lines[-1].split()[:5] == ["all", "2", "2000", "1.500", "0.995"]
    print_times([good, bad], lines.append)
    assert "all 4.00 1.00 1.00 1.00 1.00".split() in [line.split() for line in lines]
    assert lines[-1].startswith("effort 3 0.970 [0.9")
    assert max(len(line) for line in lines if "differ" not in line) <= 80
    demo.run.draw(report([good], []), [good], tmp_path, whole=False)
    assert [file.name for file in tmp_path.iterdir()] == ["chart.png"]
    reporting.draw_linked([good], tmp_path / "linked.png")
    for name in ("chart.png", "linked.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_program_that_fails_its_test_is_a_result_not_an_accident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "source"
    tree.mkdir()
    (tree / "main.c").write_text("int main(void) { return CODE; }\n")
    program = dataclasses.replace(PROGRAM, test=(("small",),))
    monkeypatch.setattr("programs.build.source_tree", lambda *_: tree)
    good = build_program(program, ["-DCODE=0"], tmp_path / "good")
    assert good.output and not good.failure and good.text > 0
    bad = build_program(program, ["-DCODE=3"], tmp_path / "bad")
    assert bad.output is None
    assert "ended with 3, expected 0" in bad.failure


def test_a_missing_model_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.run.main(["--model", str(tmp_path / "no.onnx")]) == 1
    assert "no.onnx" in capsys.readouterr().err


def test_every_difference_is_counted_once_for_a_module() -> None:
    assert first_difference((1, 2, 3), (1, 2, 3)) is None
    assert first_difference((1, 2, 3), (1, 9, 3)) == 1
    assert first_difference((1, 2), (1, 2, 3)) == 2
    assert gap_of(np.array([[0.5, -4.0, 2.0, 1.0]], np.float32)) == 0.5


def policy(path: Path, scores: dict[int, float]) -> Path:
    """A model for the plugin that always likes the same actions, in this order."""
    actions = 49
    liked = np.full(actions, -1.0, np.float32)
    liked[list(scores)] = list(scores.values())
    half, never = np.array([0.5], np.float32), np.array([-1e30], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Greater", ["action_mask", "half"], ["allowed"]),
            helper.make_node("Where", ["allowed", "liked", "never"], ["ranked"]),
            helper.make_node("ArgMax", ["ranked"], ["action"], axis=0, keepdims=1),
        ],
        "liked",
        [helper.make_tensor_value_info("action_mask", TensorProto.FLOAT, [actions])],
        [helper.make_tensor_value_info("action", TensorProto.INT64, [1])],
        [
            numpy_helper.from_array(half, "half"),
            numpy_helper.from_array(liked, "liked"),
            numpy_helper.from_array(never, "never"),
        ],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def test_a_network_without_an_arg_max_has_no_scores(tmp_path: Path) -> None:
    made = onnx.load(policy(tmp_path / "a.onnx", {}))
    assert scored(made)[1] == "ranked"
    made.graph.node[2].op_type = "TopK"
    with pytest.raises(Unscored):
        scored(made)


@pytest.mark.parametrize(("second", "is_tie"), [(0.99999, True), (0.9, False)])
def test_a_near_tie_is_told_from_another_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: float, is_tie: bool
) -> None:
    tree = tmp_path / "source"
    tree.mkdir()
    (tree / "main.c").write_text("int main(int n, char **v) { return n + !v == 7; }\n")
    program = dataclasses.replace(PROGRAM, test=(("small",),))
    for module in ("build", "catalog"):
        monkeypatch.setattr(f"programs.{module}.source_tree", lambda *_: tree, raising=False)
    expected = policy(tmp_path / "expected.onnx", {30: 1.0, 5: second})
    other = policy(tmp_path / "other.onnx", {30: second, 5: 1.0})
    uris = {"onnx": f"onnx:{expected}", "server": f"native:{expected}", "native": f"native:{other}"}
    builds = {
        way: build_program(program, flags, tmp_path / way)
        for way, flags in demo.run.configurations(uris).items()
    }
    found = agreements([Result(program, builds)], expected)
    same, different = found
    assert (same.engine, same.decisions, same.same) == ("server", 12, 12)
    assert (same.objects, same.other_objects, same.differences) == (1, [], [])
    (one,) = different.differences
    assert (one.source, one.step, one.expected, one.chosen) == ("main.c", 0, 30, 5)
    assert one.is_near_tie() == is_tie and one.gap == pytest.approx(1 - second, rel=0.1)
    wrong = [
        text
        for text in failures([Result(program, builds)], expected)
        if "decided differently" in text
    ]
    assert len(wrong) == (0 if is_tie else 1)
    lines: list[str] = []
    print_agreements(found, lines.append)
    said = any("near-tie, native: small, main.c, step 0: 5" in line for line in lines)
    assert said == is_tie
