# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`make paper`: steps that were done aren't done again, and the page has what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.paper import lines, page, run
from programs.catalog import ROOT

SECONDS = {"1": 8.0, "2": 4.0}
WAYS = {"environment": 4.0, page.ENDING: 3.0, "onnx": 2.0, "native": 1.0}
PARTS = {
    "stock": {"whole": 1.0, "asking": 0.0},
    page.RLLIB: {"whole": 6.0, "asking": 0.9},
    "grpc": {"whole": 3.0, "asking": 0.3},
    "onnx": {"whole": 1.5, "asking": 0.03},
    "native": {"whole": 1.5, "asking": 0.01},
}
FOUND: dict[str, Any] = {
    "deployment": {
        "modules": 2,
        "steps": 30,
        "ways": [
            {"way": "stock -Oz", "seconds": 0.5},
            {"way": "a process each", "seconds": 9.0},
            {"way": "onnx", "seconds": 1.5},
            {"way": "native", "seconds": 1.0},
        ],
        "programs": {"one": WAYS, "other": WAYS},
    },
    "threads": {"programs": {"one": 3}, "seconds": {"stock": SECONDS, "inliner": SECONDS}},
    "allocation": {"one": {"files": 2, **PARTS}},
    "clients": [{"client": "C++", "runner": "pipe, json", "ms": 100.0}],
    "lines": {"a pass": 3},
    "characteristics": {
        "tests": {"a_test.py": "3 passed"},
        "rows": [
            {
                "characteristic": "serializes by itself",
                "published": ["yes", "yes", "–", "–"],
                "runners": {
                    name: {"said": "yes", "test": "a_test.py", "holds": name != "aot"}
                    for name in ("grpc", "local", "onnx", "native", "aot")
                },
            }
        ],
    },
}


def reports(found: dict[str, Any]) -> dict[str, Any]:
    about = {
        "commit": "abc",
        "when": "2026-01-02",
        "machine": "a machine",
        "load": 1.5,
        "command": "python3 x",
    }
    return {name: {**about, "seconds": 90, "found": one} for name, one in found.items()}


def test_the_page_has_ratios_beside_the_published_and_says_what_is_missing(tmp_path: Path) -> None:
    target = tmp_path / "evaluation.md"
    page.write(target, reports(FOUND))
    text = " ".join(target.read_text().split())
    assert "| a process each | 9 | 1.00 × | 1.00 × | 1.00 × |" in text
    assert "| onnx | 1.5 | 6.00 × | 5.11 × | 9.46 × |" in text
    assert "| inliner | 8 | 4 | 2.00 × |" in text
    assert "takes 30.0 times as long as asking the same networks by ONNX Runtime" in text
    assert "31.5 ×" in text  # the published sweep over ours
    assert "| link, one thread over two: inliner | 1.19 × | 2.00 × |" in text
    assert (
        "| register allocation, RLlib over gRPC over native in process: asking | – | 90.00 × |"
        in text
    )
    assert "2.0 to 2.0 times as fast as the environment with a reward at each step" in text
    assert "1.5 to 1.5, mean 1.5, with one at the end" in text
    assert "**not shown** (yes)" in text
    assert (
        "Measured 2026-01-02 at `abc` on a machine, in 2 min with a load of 1.5: `python3 x`."
        in text
    )
    assert "Not measured: `make paper ARGS='--only training-time'`." in text
    for name in ("figure-6", "figure-5c"):
        assert (tmp_path / f"evaluation-{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(evaluation-{name}.png)" in text


def test_a_report_of_an_earlier_form_does_not_end_the_page(tmp_path: Path) -> None:
    target = tmp_path / "evaluation.md"
    page.write(target, reports({"workers": {"1": {"episodes": 3}}, "lines": {"a pass": 3}}))
    text = target.read_text()
    assert "no 'seconds an episode': `make paper ARGS='--only workers'`" in text
    assert "| a pass |" in text


def test_a_step_is_done_once_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "commit", lambda: "abc")
    (lines_step,) = (step for step in run.STEPS if step.name == "lines")
    monkeypatch.setattr(run, "STEPS", (lines_step,))
    target = tmp_path / "page.md"
    assert run.main(["--page", str(target)]) == 0
    kept = tmp_path / "lines.json"
    report = json.loads(kept.read_text())
    assert report["command"].startswith("python3 -m experiments.paper.lines")
    assert report["found"] == {name: lines.counted(*of) for name, of in sources()}
    assert "| phase ordering (POSET-RL's) | 3 |" in " ".join(target.read_text().split())

    kept.write_text(json.dumps({**report, "seconds": 1234}))
    assert run.main(["--page", str(target)]) == 0
    assert json.loads(kept.read_text())["seconds"] == 1234
    monkeypatch.setattr(run, "commit", lambda: "another")
    assert run.main(["--page", str(target)]) == 0
    assert json.loads(kept.read_text())["seconds"] != 1234


def sources() -> list[tuple[str, tuple[str, str]]]:
    return [
        (name, ((ROOT / source).read_text(), mark)) for name, (source, mark) in lines.PASSES.items()
    ]


def test_a_step_that_fails_is_said_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    bad = run.Step("lines", 1, ("-c", "raise SystemExit('no compiler')"))
    monkeypatch.setattr(run, "STEPS", (bad,))
    assert run.main(["--page", str(tmp_path / "page.md")]) == 1
    assert "lines: ended with 1: no compiler" in capsys.readouterr().err
    assert not (tmp_path / "lines.json").exists()


def test_lines_are_counted_between_all_marks_without_comments() -> None:
    text = "a\n  // [pass]\n  b;\n\n  // why\n  c;\n  // [/pass]\nd\n// [pass]\ne;\n// [/pass]\n"
    assert lines.counted(text, "pass") == 3
    with pytest.raises(ValueError, match="no lines are marked"):
        lines.counted(text, "other")
