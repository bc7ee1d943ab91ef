# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Campaigns over the tests of others see what is wrong, keep it, and make it small."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import compare
import damaged
import emi
import tally
import unchanged
from reduce import reduce
from ways import Configuration

from mlbridge.process_runner import Output, Ran
from programs.build import Compiled
from programs.catalog import load, select

HERE = Path(__file__).resolve().parent
PROGRAM = """
#include <stdio.h>
int unused(int x) { return x + 1; }
int twice(int x) { return 2 * x; }
#ifndef ANSWER
#define ANSWER 0
#endif
int main(void) { printf("%d\\n", twice(20) + ANSWER); return ANSWER; }
"""


def verdict(folder: Path, *flags: str, text: str = PROGRAM, never_larger: bool = False) -> str:
    source = folder / "program.c"
    source.write_text(text)
    work = folder / "work"
    work.mkdir()
    way = Configuration("planted", "fault", ("O2",), flags, never_larger=never_larger)
    return compare.compare(way, "O2", source, [], work).kind


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ((), "same"),
        (("-O1", "-fno-inline"), "changed"),
        (("-DANSWER=2",), "wrong"),
        (("-Dmain=start",), "wrong"),
        (("-no-such-option",), "crashed"),
    ],
)
def test_each_fault_is_seen(tmp_path: Path, flags: tuple[str, ...], kind: str) -> None:
    assert verdict(tmp_path, *flags) == kind


def test_larger_code_is_one_only_where_smaller_is_promised(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    grown = ("-falign-functions=4096",)
    assert verdict(tmp_path / "a", *grown) == "changed"
    assert verdict(tmp_path / "b", *grown, never_larger=True) == "larger"


@pytest.mark.parametrize(
    "text",
    [
        "int main(void) { return 0 }",
        "int main(void) { for (;;) __asm__ volatile(\"\"); }",
        "#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf(\"%d\", getpid()); }",
    ],
    ids=["refused", "endless", "never twice the same"],
)  # fmt: skip
def test_a_program_without_a_result_of_its_own_is_not_counted(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "RUNNING", 0.5)
    assert verdict(tmp_path, "-fno-inline", "-O0", text=text) == compare.UNFIT


def test_what_is_found_is_kept_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tally, "REPORT", tmp_path / "outside.json")
    monkeypatch.setattr(tally, "FINDINGS", tmp_path / "outside")
    (tmp_path / "p.c").write_text(PROGRAM)
    good = tally.Tally("suite", "fine", programs=3, changed=1)
    bad = tally.Tally("suite", "broken", programs=3, changed=2)
    folder = bad.bad("wrong", "p.c at O2", "show {0}", tmp_path / "p.c")
    assert (folder / "p.c").read_text() == PROGRAM
    assert (folder / "command").read_text() == f"show {folder / 'p.c'}\n"
    assert f"show {folder / 'p.c'}" in capsys.readouterr().out
    assert tally.save([good])
    assert not tally.save([good, bad])
    assert not tally.save([])
    rows = json.loads((tmp_path / "outside.json").read_text())
    assert [(r["optimization"], r["programs"], r["wrong"]) for r in rows] == [
        ("broken", 3, 1),
        ("fine", 3, 0),
    ]
    assert "| suite |       broken |        3 |" in (tmp_path / "outside.md").read_text()


@pytest.mark.nightly  # C-Vise tries for as long as it may
def test_a_program_is_reduced(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    compiles = "sh -c 'clang-22 -c -o program.o {0} && grep -q twice {0}'"
    small = reduce(source, compiles, tmp_path, 60)
    assert "twice" in small.read_text()
    assert "unused" not in small.read_text()


def test_random_programs_are_right(tmp_path: Path) -> None:
    """Some of those of `make nightly`."""
    command = [sys.executable, str(HERE / "csmith.py"), "--first", "0", "--count", "12"]
    command += ["--report", str(tmp_path / "outside.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def test_random_onnx_graphs_are_right(tmp_path: Path) -> None:
    """Some of those of `make nightly`, by the native engine."""
    command = [sys.executable, str(HERE / "onnx_graphs.py"), "--first", "0", "--count", "300"]
    command += ["--compiled", "0", "--report", str(tmp_path / "outside.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def test_what_a_fuzzer_found_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "FINDINGS", tmp_path / "findings")
    log = "Done\nstat::number_of_executed_units: 1234\n"
    good = damaged.counted(log, "native_fuzz", 0, tmp_path)
    assert (good.suite, good.programs, good.good) == ("damaged-models", 1234, True)
    (tmp_path / "serdes_fuzz-crash-1").write_bytes(b"x")
    bad = damaged.counted("ended", "serdes_fuzz", 77, tmp_path)
    assert bad.crashed == 1 and not bad.good
    assert "serdes_fuzz-crash-1" in bad.found[0]


@pytest.mark.parametrize(
    ("flags", "decided", "kind"),
    [
        ((), "", "same"),
        (("-DANSWER=2",), "", "wrong"),
        (("-DANSWER=2", "-Wunused-macros"), "macro is not used", "wrong"),  # -w: nothing is said
        (("-DANSWER=2", "-v"), "clang version", "changed"),
        (("-no-such-option",), "", "crashed"),
    ],
)
def test_a_change_without_a_decision_is_wrong(
    tmp_path: Path, flags: tuple[str, ...], decided: str, kind: str
) -> None:
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    way = unchanged.Stock("planted", "fault", "O2", flags, decided)
    assert unchanged.check(way, "O2", [], source, tmp_path).kind == kind


TEXT = b"""int main(int n, char **all) {
  if (n > 1) {
    if (n > 2) { return 3; }
    return 2;
  }
  while (n == 0) { n = 1; break; }
  return 0;
}
"""


def test_unexecuted_blocks_are_changed_and_no_others() -> None:
    inner = emi.Block(TEXT.index(b"{ return 3"), TEXT.index(b"}", TEXT.index(b"return 3")) + 1)
    outer = emi.Block(TEXT.index(b"{\n    if"), TEXT.index(b"}\n  while") + 1)
    loop = emi.Block(TEXT.index(b"{ n = 1"), TEXT.index(b"}\n  return") + 1)
    kinds = set()
    for seed in range(40):
        text = emi.mutated(TEXT, [inner, outer, loop], random.Random(seed))
        assert text.startswith(TEXT[: outer.start])
        assert text.endswith(TEXT[loop.end :])
        assert TEXT[outer.end : loop.start] in text
        kinds.add(text[outer.start : text.rindex(b"while (n == 0)")])
    assert len(kinds) == len(emi.MUTATIONS)
    assert emi.mutated(TEXT, [], random.Random(0)) == TEXT


def test_blocks_that_no_run_entered(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_bytes(TEXT)
    place = [2, 14, 5, 4]
    function = {"filenames": [str(tmp_path / "a.c")]}
    never = [{"functions": [{**function, "regions": [[*place, 0, 0, 0, 0]]}]}]
    [block] = emi.unexecuted({"data": never}, tmp_path)["a.c"]
    assert TEXT[block.start : block.end].startswith(b"{\n    if (n > 2)")
    assert TEXT[block.start : block.end].endswith(b"return 2;\n  }")
    # The same text, of another copy of the function, may have run.
    once = {**function, "regions": [[*place, 1, 0, 0, 0]]}
    assert not emi.unexecuted({"data": [*never, {"functions": [once]}]}, tmp_path)


@pytest.mark.parametrize(("given", "wrong"), [([b"1"], 1), ([b"1", b"2"], 0)])
def test_a_variant_is_wrong_if_it_is_so_again(
    given: list[bytes], wrong: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that took too long on a busy machine is no fault of a compiler."""
    monkeypatch.setattr(tally, "FINDINGS", tmp_path / "findings")
    for name in ("stock", "made"):
        (tmp_path / name).write_text(name)
    answers = {"stock-bin": [b"2"], "made-bin": list(given), "mixed": [b"1"]}

    def answer(_: object, __: object, ___: object, ____: object, name: str) -> bytes:
        left = answers[name]
        return left.pop(0) if len(left) > 1 else left[0]

    def compiled(_: object, place: Path, *__: object, **___: object) -> list[Compiled]:
        return [Compiled("a.c", tmp_path / place.name, Ran(0, Output(), Output(), 0.0))]

    monkeypatch.setattr(emi, "answer", answer)
    monkeypatch.setattr(emi, "compile_program", compiled)
    monkeypatch.setattr(emi, "source_tree", lambda *_: tmp_path)
    subject = object.__new__(emi.Subject)
    subject.program, subject.output = select(load(), ["bzip2"])[0], b"2"
    counts = tally.Tally("emi", "inliner")
    emi.check(subject, 1, Configuration("inliner", "shipped", ("Oz",), ()), counts, tmp_path)
    assert (counts.programs, counts.changed, counts.wrong) == (1, 1, wrong)
    assert not wrong or counts.found[0].endswith("in a.c: b'1' instead of b'2'")
