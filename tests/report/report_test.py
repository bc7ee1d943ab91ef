# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge report`: what is on its pages is what it was given, to the digit; bad input."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import page_sources
import pytest
from pages import Page, numbers_of

from mlbridge import files
from mlbridge.cli import main, train
from mlbridge.elf import code_bytes, executable_bytes
from mlbridge.ratio import Ratio
from mlbridge.recording import Recording
from mlbridge.report import decisions, labels


def page(folder: Path, *sources: str | Path) -> Page:
    """The page of these sources."""
    output = folder / "page.html"
    assert main(["report", *map(str, sources), "-o", str(output)]) == 0
    return Page(output)


def has_all(made: Page, found: Any) -> None:
    """Fails unless each number of a report is on its page."""
    drawn = [number for chart in made.charts.values() for number in numbers_of(chart["data"])]
    assert not set(numbers_of(found)) - {*made.numbers, *drawn}


def test_the_numbers_of_a_demo(tmp_path: Path) -> None:
    found = page_sources.demo(tmp_path / "report.json")
    made = page(tmp_path, tmp_path / "report.json")
    del found["version"]
    has_all(made, found)
    assert made.headings == ["Code size", "Policies side by side", "Time", "Remarks"]
    total = sum(p["oz_text"] for p in found["programs"])
    smaller = sum(p["effort3_text"] for p in found["programs"])
    row = made.row("total")
    assert row[1] == f"{total:,}" and f"{smaller / total:.4f}" in row
    mean = found["over_oz"]["effort3"]
    shown = f"{mean['mean']:.4f} [{mean['low']:.4f}, {mean['high']:.4f}]"
    assert shown in made.row("geometric mean")
    assert shown in made.row("effort 3")


@pytest.mark.parametrize("count", [1, 3])
def test_the_numbers_of_a_validation(count: int, tmp_path: Path) -> None:
    found = page_sources.validation(tmp_path / "r.json", count)
    made = page(tmp_path, tmp_path / "r.json")
    for known in ("version", "confidence", "effort", "repeat"):  # in words, or not shown
        del found[known]
    for one in found["programs"]:
        del one["modules"], one["fallbacks"], one["runs"][0]["code"]
    has_all(made, found)
    assert "phase-ordering: onnx:program.onnx" in made.text and "a note on program" in made.text
    bars = made.values("s1-1")
    alone = {row["name"] for row in bars}
    assert ("src/program/1.o" in alone) == (count == 1)
    assert made.row("program0")[1:3] == ["2,100", f"{found['programs'][0]['policy_bytes']:,}"]


def test_two_policies_side_by_side(tmp_path: Path) -> None:
    first, second = (tmp_path / name / "report.json" for name in ("one", "two"))
    before = []
    for seed, file in enumerate((first, second)):
        file.parent.mkdir()
        found = page_sources.validation(file, 1, seed)
        before.append({o["path"]: o["policy_bytes"] for o in found["programs"][0]["objects"]})
    made = page(tmp_path, first, second)
    expected = Ratio.of(before[1][path] / before[0][path] for path in before[0])
    assert expected
    shown = f"{expected.mean:.4f} [{expected.low:.4f}, {expected.high:.4f}]"
    assert made.row("policy, two / one")[2:] == [shown, "6"]
    assert {row["way"] for row in made.values("s1-1")} == {"policy, one", "policy, two"}


def test_sizes_of_a_build_by_file_and_function(tmp_path: Path) -> None:
    before = page_sources.build(tmp_path / "before", "-O0")
    after = page_sources.build(tmp_path / "after", "-Os")
    made = page(tmp_path, before)
    data = (before / "lib/a.o").read_bytes()
    functions = code_bytes(data)
    assert {"sum", "twice", "more_a"} <= set(functions)
    assert sum(functions.values()) == executable_bytes(data)
    assert made.row("a.o")[1] == f"{executable_bytes(data):,}"
    leaves = {(r["file"], r["function"]): r["bytes"] for r in made.values("s1-1")}
    assert leaves["sub/b.o", "sum"] == functions["sum"]
    both = page(tmp_path, before, after)
    small = code_bytes((after / "lib/a.o").read_bytes())
    row = next(row for row in both.rows if row[:2] == ["a.o", "sum"])
    was, now = functions["sum"], small["sum"]
    assert row[2:] == [f"{was:,}", f"{now:,}", f"{now - was:+,}", f"{now / was:.4f}"]
    gone = next(row for row in both.values("s1-1") if row["function"] == "twice")
    assert (gone["bytes"], gone["before"]) == (0, functions["twice"])


def test_an_executable_has_sizes_too(tmp_path: Path) -> None:
    made = page(tmp_path, sys.executable)
    total = executable_bytes(Path(sys.executable).read_bytes())
    assert made.row("total")[-1] == f"{total:,}"
    assert len(made.values("s1-1")) < 7000 and len(made.html) < 5 << 20


def test_functions_at_one_address_count_once(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text(
        'int f(void) { return 3; }\nint g(void) __attribute__((alias("f")));\n'
        "int h(void) { return 4; }\n"
    )
    file = tmp_path / "a.o"
    assert os.system(f"cc -O1 -c {source} -o {file}") == 0
    found = code_bytes(file.read_bytes())
    assert "h" in found and len({"f", "g"} & set(found)) == 1
    assert sum(found.values()) == executable_bytes(file.read_bytes())


def test_the_decisions_of_a_recording(tmp_path: Path) -> None:
    file = page_sources.recorded(tmp_path / "r.mlbrec")
    made = page(tmp_path, file)
    episodes = list(Recording(file).episodes())
    assert "20 decisions, 0 failed requests, 4 episodes (4 OK), 3 units." in made.text
    scores = [float(a["logits"].max()) for one in episodes for a in one.actions]
    assert [row["score"] for row in made.values("s1-3")] == scores
    assert [row["ms"] for row in made.values("s1-4")] == [
        1e3 * w for e in episodes for w in e.waits
    ]
    assert sum(row["count"] for row in made.values("s1-5")) == 20
    chosen = Counter(f"{e.agent}: {a['logits'].argmax()}" for e in episodes for a in e.actions)
    for choice, count in chosen.items():
        assert made.row(choice)[1] == str(count)
    rewards = sum(one.reward_sums[k] for one in episodes for k in range(1, 5))
    assert rewards in made.numbers and "f.c 0" in made.text


def test_a_recording_that_is_cut_off_or_empty(tmp_path: Path) -> None:
    file = page_sources.recorded(tmp_path / "r.mlbrec")
    data = file.read_bytes()
    file.write_bytes(data[:-20])
    made = page(tmp_path, file)
    assert "r.mlbrec: at byte" in made.text and "20 decisions" in made.text
    file = page_sources.recorded(tmp_path / "nothing.mlbrec", 0)
    assert "0 decisions, 0 failed requests, 0 episodes" in page(tmp_path, file).text


def test_many_decisions_are_sampled_and_the_totals_exact(tmp_path: Path) -> None:
    file = page_sources.recorded(tmp_path / "r.mlbrec", 200, 50)
    made = page(tmp_path, file)
    drawn = made.values("s1-2")
    assert (
        len(drawn) <= decisions.MOST_POINTS and f"{len(drawn):,} of 10,000 are drawn" in made.text
    )
    assert sum(row["count"] for row in made.values("s1-5")) == 10_000
    assert made.row("all")[1] == "10,000" and "9,000 more rows are not shown" in made.text
    assert len(made.html) < 4 << 20


def test_a_folder_of_logs(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    page_sources.candidates(logs)
    for name in ("1-0", "2-0"):
        page_sources.recorded(logs / f"{name}.mlbrec")
    made = page(tmp_path, logs)
    assert made.headings == ["Decisions", "Candidates"]
    assert "40 decisions" in made.text and "2 recordings of function:f.c" in made.text
    assert made.row("f.c1") == ["f.c1", "100", "85", "0.8500", "first", "3"]
    assert made.row("total") == ["total", "300", "266", f"{266 / 300:.4f}", "–", "9"]
    assert made.row("third") == ["third", "3", "0", "0"]


def test_a_training_beside_other_policies(tmp_path: Path) -> None:
    rows = page_sources.training(tmp_path / "training")
    made = page(tmp_path, tmp_path / "training")
    has_all(made, rows)
    assert [row["value"] for row in made.values("s1-1")] == [
        row["reward"] for row in rows if row["reward"] is not None
    ]
    beside = made.charts["s1-1"]["layer"][1]["data"]["values"]
    assert {row["policy"]: row["at"] for row in beside} == {"random": 0.0123, "-Oz": 0.2}
    assert made.row("random")[-2] == "1.2500" or "1.2500" in made.row("random")
    with (tmp_path / "training/progress.jsonl").open("a") as file:
        file.write('{"iteration": 6, "ste')  # a kill
    assert (
        "the last line of progress.jsonl is cut off" in page(tmp_path, tmp_path / "training").text
    )


def test_several_trainings_and_a_search(tmp_path: Path) -> None:
    for number in range(3):
        page_sources.training(tmp_path / f"search/trials/trial-{number}", 4 + number)
    made = page(tmp_path, tmp_path / "search")
    assert {row["name"] for row in made.values("s1-1")} == {"trial-0", "trial-1", "trial-2"}
    two = page(tmp_path, *(tmp_path / f"search/trials/trial-{n}" for n in range(2)))
    assert {row["name"] for row in two.values("s1-1")} == {"trial-0", "trial-1"}


def test_a_training_leaves_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_sources.training(tmp_path / "training")
    said: list[str] = []
    train.page(str(tmp_path / "training"), said.append)
    assert "maskable-ppo" in Page(tmp_path / "training/report.html").text and said == []
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    sys.modules["mlbridge.report.page"].library.cache_clear()
    train.page(str(tmp_path / "training"), said.append)
    assert f"report.html: charts need {files.extra('report')}" in said[0]


def test_names_are_only_text(tmp_path: Path) -> None:
    """`Page` fails for elements and attributes that have no place on a page."""
    page_sources.validation(tmp_path / "r.json", 2, name=page_sources.NASTY)
    page_sources.recorded(tmp_path / "r.mlbrec", name=page_sources.NASTY)
    page_sources.candidates(tmp_path / "logs", page_sources.NASTY)
    page_sources.training(tmp_path / "training", name=page_sources.NASTY)
    sources = [tmp_path / name for name in ("r.json", "r.mlbrec", "logs", "training")]
    output = tmp_path / "page.html"
    words = ["--title", f"\ud800 {page_sources.NASTY}", "-o", str(output)]
    assert main(["report", *map(str, sources), *words]) == 0
    made = Page(output)
    assert made.html.count("<script") == made.html.count("</script>") == len(made.charts) + 2
    assert page_sources.NASTY in made.text and "\\xd800" in made.text
    assert made.html.count("alert(1)") >= 10


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("none.json", None, "there is no such file or folder; expected the report.json of"),
        ("empty", b"", "got an empty file"),
        ("text", b"Dear all", "got something else"),
        ("other.json", b'{"a": 1}', "no report of `mlbridge validate` or `make demo`"),
        ("cut.json", b'{"format": "mlbridge-val', "not JSON"),
        (
            "later.json",
            b'{"format": "mlbridge-validation", "version": 2}',
            "a report of version 2; this mlbridge knows 1",
        ),
        ("damaged.json", b'{"format": "mlbridge-demo", "version": 1}', "'programs' is missing"),
        (
            "object.o",
            b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00" + bytes(6),
            "object.o: 24 bytes",
        ),
        ("header.mlbrec", b"MLBREC1\n", "the recording has no valid header"),
        ("progress.jsonl", b'{"steps": 1}\n{"steps": "x"}\n{}\n', "progress.jsonl, line 2: cannot"),
        ("x.trials.json", b"[]", "no log of candidates"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    name: str, data: bytes | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    output = tmp_path / "page.html"
    assert main(["report", str(tmp_path / name), "-o", str(output)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("mlbridge report: ") and says in err and err.count("\n") == 1
    assert not output.exists()


def test_what_is_no_page_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "true"
    shutil.copy("/bin/true", program)
    before = program.read_bytes()
    assert main(["report", str(program), "-o", str(program)]) == 1
    assert "is there, and no page" in capsys.readouterr().err and program.read_bytes() == before
    output = tmp_path / "page.html"
    output.touch()
    for _ in range(2):
        assert main(["report", str(program), "-o", str(output)]) == 0


def test_a_folder_with_nothing_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("text")
    assert main(["report", str(tmp_path / "notes")]) == 1
    assert "got a folder without any of these" in capsys.readouterr().err


def test_a_page_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page_sources.demo(tmp_path / "report.json")
    folder = tmp_path / "out"
    folder.mkdir()
    words = ["report", str(tmp_path / "report.json"), "-o"]
    assert main([*words, "/no/such/folder/page.html"]) == 1
    assert "-o: /no/such/folder/page.html can't be written" in capsys.readouterr().err
    assert main([*words, str(folder)]) == 1
    assert "Is a directory" in capsys.readouterr().err

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    (folder / "page.html").write_text("<!doctype html>the one before")
    monkeypatch.setattr(os, "write", full)
    assert main([*words, str(folder / "page.html")]) == 1
    monkeypatch.undo()
    assert "No space left on device" in capsys.readouterr().err
    assert [file.read_text() for file in folder.iterdir()] == ["<!doctype html>the one before"]


def test_without_the_package_that_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page_sources.demo(tmp_path / "report.json")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    sys.modules["mlbridge.report.page"].library.cache_clear()
    assert main(["report", str(tmp_path / "report.json"), "-o", str(tmp_path / "p.html")]) == 1
    assert f"charts need {files.extra('report')}" in capsys.readouterr().err


def test_labels_are_what_differs() -> None:
    assert labels(["/a/b/report.json"]) == ["report.json"]
    assert labels(["/a/one/report.json", "/a/two/x/report.json"]) == ["one", "two/x"]
    assert labels(["/a/x.json", "/a/y.json"]) == ["x.json", "y.json"]
    assert labels(["/a/x", "/a/x"]) == ["x", "x"]


def test_the_folder_of_a_validation_has_its_builds(tmp_path: Path) -> None:
    work = tmp_path / "work/0-sums"
    page_sources.build(work / "baseline", "-O0")
    page_sources.build(work / "policy", "-Os")
    page_sources.candidates(work / "policy.decisions")
    made = page(tmp_path, tmp_path / "work")
    assert made.headings == ["Where the bytes are", "Candidates"]
    assert {row["program"] for row in made.values("s1-1")} == {"sums"}


def test_the_page_can_go_to_a_pipe(tmp_path: Path, capfdbinary: Any) -> None:
    page_sources.demo(tmp_path / "report.json")
    assert main(["report", str(tmp_path / "report.json"), "-o", "/dev/stdout"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"<!DOCTYPE html>")


def test_json_has_no_number_that_it_lacks(tmp_path: Path) -> None:
    rows = page_sources.training(tmp_path / "t")
    rows[0]["reward"] = 1e308
    rows[1]["reward"] = -1e308
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "t/progress.jsonl").write_text(text)
    page(tmp_path, tmp_path / "t")
