# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever is wrong with the model, the object is plain clang's, after one warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sampling import nightly
from stock import BOTH, LEVELS, SOURCES, Compiler

STOP = 48  # index of stop with the built-in list


def check_falls_back(
    compiler: Compiler, model: str | None, *expected: str, source: str = "words.c", **settings: Any
) -> str:
    made, said = compiler.object(source, "-Oz", model=model, **settings)
    warnings = [line for line in said.splitlines() if "warning:" in line]
    assert len(warnings) == 1, said
    assert warnings[0].startswith("warning: phase-ordering: ")
    assert warnings[0].endswith("[-Wbackend-plugin]")
    assert not model or warnings[0].count(model) <= 1, "the URI once"
    for text in expected:
        assert text in warnings[0]
    assert made == compiler.plain(source, "-Oz")
    return warnings[0]


FLAGS = {"words.c": [], "library.cpp": ["-g"], "shapes.c": ["-fPIC"]}


@pytest.mark.parametrize(
    ("source", "level"),
    [
        (source, level) if source == "words.c" or level == "-Oz" else nightly(source, level)
        for source in FLAGS
        for level in LEVELS
    ],
)
def test_a_failure_at_each_step_leaves_plain_clangs_object(
    compiler: Compiler, source: str, level: str
) -> None:
    plain = compiler.plain(source, level, *FLAGS[source])
    for step in (0, 1, 2, 5, 11):
        model = f"function:fail-at?step={step}"
        made, said = compiler.object(source, level, *FLAGS[source], model=model)
        assert f"fails at step {step}, as asked" in said
        assert made == plain


@pytest.mark.parametrize("every", [12, nightly(1)])
def test_every_step_of_a_long_episode(compiler: Compiler, every: int) -> None:
    plain = compiler.plain("library.cpp", "-Oz")
    for step in range(0, STOP, every):
        model = f"function:fail-at?step={step}"
        made, said = compiler.object("library.cpp", "-Oz", model=model, max_steps=99)
        assert f"fails at step {step}, as asked" in said and made == plain


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (None, ["no model was given", "-phase-ordering-model=URI"]),
        ("onnx:/nowhere/policy.onnx", ["onnx:/nowhere/policy.onnx", "not found"]),
        ("onnnx:policy.onnx", ["unknown scheme 'onnnx'", "did you mean 'onnx'"]),
        ("network.onnx", ["invalid argument"]),
        ("unix:/nowhere/policy.sock", ["unavailable", "/nowhere/policy.sock"]),
        ("unix:/" + "x" * 200, ["invalid argument"]),
        ("pipe:/nowhere/policy", ["unavailable", "/nowhere/policy"]),
        ("function:nothing", ["not found", "nothing"]),
        ("function:sequence?actions=3,x", ["invalid argument", "'x' is not a number"]),
        ("function:sequence?actions=49", ["step 0: action: expected 0 to 48, got 49"]),
        ("function:sequence?actions=3,-1", ["step 1: action: expected 0 to 48, got -1"]),
        (
            "function:sequence?actions=3,9223372036854775807",
            ["expected 0 to 48, got 9223372036854775807"],
        ),
        (
            "function:sequence?actions=7,3,3",
            ["step 2: action: 3 ('instcombine-jump-threading-dse') is masked"],
        ),
        ("candidates:/nowhere", ["not found", "/nowhere"]),
    ],
)
def test_a_model_that_cannot_be_used(
    compiler: Compiler, model: str | None, expected: list[str]
) -> None:
    check_falls_back(compiler, model, *expected)


def test_a_file_that_is_no_network(compiler: Compiler) -> None:
    path = compiler.folder / "policy.onnx"
    for content in (b"", b"not a network", b"\x08\x07" * 1000):
        path.write_bytes(content)
        check_falls_back(compiler, f"onnx:{path}", str(path))


def test_a_fifo_path_that_is_a_file(compiler: Compiler) -> None:
    for name in ("policy.in", "policy.out", "policy"):
        (compiler.folder / name).write_text("")
    check_falls_back(compiler, f"pipe:{compiler.folder}/policy")


@BOTH
def test_failure_can_be_an_error(compiler: Compiler) -> None:
    line = compiler.options("function:fail-at?step=2", on_failure="fail")
    done = compiler.run("clang", "-Oz", *line, "-c", SOURCES / "words.c", "-o", "a.o", check=False)
    assert done.returncode != 0 and not (compiler.folder / "a.o").exists()
    errors = [text for text in done.stderr.splitlines() if "error:" in text]
    assert len(errors) == 1 and "fails at step 2, as asked" in errors[0]


@BOTH
def test_failure_can_be_an_error_in_opt(compiler: Compiler) -> None:
    (compiler.folder / "a.ll").write_text("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
    load = [f"-load-pass-plugin={compiler.plugin}", "-passes=phase-ordering", "a.ll", "-o", "a.bc"]
    model = "-phase-ordering-model=function:fail-at"
    assert "warning: phase-ordering" in compiler.run("opt", *load, model).stderr
    (compiler.folder / "a.bc").unlink()
    done = compiler.run("opt", *load, model, "-phase-ordering-on-failure=fail", check=False)
    assert done.returncode != 0 and "error: phase-ordering" in done.stderr


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"max_steps": 0}, "-phase-ordering-max-steps: expected 1 or more, got '0'"),
        ({"deadline": "soon"}, "-phase-ordering-deadline: expected a time"),
        ({"deadline": "0"}, "-phase-ordering-deadline: expected a time"),
        ({"levels": "Oz,O4"}, "-phase-ordering-levels: expected O1, O2, O3, Os, Oz, or several"),
        ({"levels": ""}, "-phase-ordering-levels: expected"),
        ({"on_failure": "cry"}, "-phase-ordering-on-failure: expected stock or fail, got 'cry'"),
    ],
)
def test_an_option_that_makes_no_sense_is_an_error(
    compiler: Compiler, settings: dict[str, Any], expected: str
) -> None:
    line = compiler.options("function:stop", **settings)
    done = compiler.run("clang", "-Oz", *line, "-c", SOURCES / "words.c", "-o", "a.o", check=False)
    assert done.returncode != 0 and expected in done.stderr


def test_times_are_understood(compiler: Compiler) -> None:
    for text in ("250", "250ms", "5s", "1.5s", "1m"):
        assert compiler.object("words.c", "-Oz", model="function:stop", deadline=text)[1] == ""


def test_a_log_that_cannot_be_written_loses_no_object(compiler: Compiler) -> None:
    (compiler.folder / "file").write_text("in the way")
    model = "function:sequence?actions=23,5"
    expected = compiler.object("words.c", "-Oz", model=model, effort=1)[0]
    places = [compiler.folder / "file", compiler.folder / "file" / "below", Path("/proc/nowhere")]
    for place in places:
        made, said = compiler.object("words.c", "-Oz", model=model, effort=1, log=place)
        assert made == expected and said.count("warning: phase-ordering: log: ") == 1


@BOTH
def test_a_failed_episode_is_recorded_and_logged(compiler: Compiler) -> None:
    check_falls_back(compiler, "function:fail-at?step=2", record="recordings", log="log")
    episode = compiler.episode("recordings")
    assert len(episode) == 2 and len(episode.failures) == 1
    assert episode.outcome is not None and "as asked" in episode.outcome.message
    log = compiler.trials()
    assert log["model"].startswith("function:fail-at?step=2") and "as asked" in log["problem"]
    assert log["trials"] == [] and log["winner"] is None


# --- lists of actions from outside


def listing(compiler: Compiler, actions: Any) -> str:
    """A model that takes the first action of a list."""
    path = compiler.folder / "actions.json"
    path.write_text(json.dumps(actions))
    return f"function:sequence?actions=0&list={path}"


def actions(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"version": 1, "actions": [{"name": n, "passes": p} for n, p in pairs]}


@BOTH
def test_a_stock_pipeline_may_be_an_action(compiler: Compiler) -> None:
    model = listing(compiler, actions(("oz", "default<Oz>"), ("none", "verify")))
    made, said = compiler.object("words.c", "-Oz", model=model, max_steps=1)
    assert said == ""
    sizes = []
    for data in (made, compiler.plain("words.c", "-Oz")):
        (compiler.folder / "size.o").write_bytes(data)
        listed = compiler.run("llvm-size", "size.o").stdout.splitlines()[1]
        sizes.append(int(listed.split()[0]))
    assert abs(sizes[0] - sizes[1]) <= 0.02 * sizes[1]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            actions(("good", "instsimplify"), ("bad", "no-such-pass")),
            ["action 'bad'", "no-such-pass"],
        ),
        (actions(("bad", "function(loop(")), ["action 'bad'"]),
        (actions(("bad", "simplifycfg<no-such-option>")), ["action 'bad'", "no-such-option"]),
        (actions(("twice", "dce"), ("twice", "adce")), ["'twice' occurs twice"]),
        (actions(("stop", "dce")), ["'stop' is reserved"]),
        (actions(("empty", "")), ['non-empty strings "name" and "passes"']),
        (actions(), ['expected a non-empty array "actions"']),
        ({"version": 2, "actions": []}, ["expected version 1, got 2"]),
        ({"actions": []}, ['expected "version": 1, got none']),
    ],
)
def test_a_list_of_actions_that_cannot_be_used(
    compiler: Compiler, listed: Any, expected: list[str]
) -> None:
    model = listing(compiler, listed)
    check_falls_back(compiler, model, "phase-ordering.actions", *expected)
