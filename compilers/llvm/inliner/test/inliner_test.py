# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The inliner's plugin in stock clang and opt: whose decisions they are, and what failures do."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import advised
import numpy as np
import pytest
from compiler import Compiler, printed_flags
from sampling import LLVMS

import mlbridge


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "main.cpp"
    path.write_text(advised.MAIN)
    return path


@pytest.fixture
def llvm() -> int:
    return 22


@pytest.fixture
def compiler(tmp_path: Path, llvm: int) -> Compiler:
    return Compiler("inliner", tmp_path, llvm, flags=("-Oz",))


@pytest.mark.parametrize("llvm", LLVMS)
def test_a_model_decides(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    stock = compiler.clang(source)
    plain, printed = stock.object, compiler.output(stock)
    usual = compiler.clang(source, model="function:flip?probability=0")
    assert usual.object == plain, "the heuristic's decisions give the heuristic's code"
    assert not usual.stderr
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    made = compiler.clang(source, model=f"native:{policy}")
    first = made.object
    assert not made.stderr and first != plain
    assert compiler.output(made) == printed
    assert compiler.clang(source, model=f"onnx:{policy}").object == first


def test_a_model_is_asked_at_the_level_of_the_caller(
    compiler: Compiler, source: Path, tmp_path: Path
) -> None:
    model = f"native:{advised.threshold_policy(tmp_path / 'policy.onnx', -10000)}"
    plain = compiler.clang(source, level="-O2").object
    never = compiler.clang(source, level="-O2", model=model)
    assert never.object == plain and not never.stderr
    assert compiler.clang(source, level="-O2", model=model, levels="O2,Oz").object != plain
    small = source.with_name("small.cpp")
    small.write_text(
        "static int f(int x) { return x + 1; }\n"
        "__attribute__((minsize)) int smallest(int x) { return f(x) * f(x + 3); }\n"
        "int fastest(int x) { return f(x) * f(x + 3); }\n"
    )
    target = small.with_suffix(".ll")
    words = compiler.words(model=model)
    compiler.run("clang-22", "-O2", "-S", "-emit-llvm", small, "-o", target, *words)
    bodies = dict(re.findall(r"define .*?@_Z\d+(\w+)\(.*?\{(.*?)\n\}", target.read_text(), re.S))
    calls = {name: body.count("call ") for name, body in bodies.items()}
    assert calls["smallesti"] == 2 and calls["fastesti"] == 0


def test_opt_too(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    ir = tmp_path / "main.ll"
    front = ["-Oz", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
    compiler.run("clang++-22", *front, source, "-o", ir)
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    load = [f"-load-pass-plugin={compiler.plugin}", f"-inliner-model=native:{policy}"]
    made = [
        compiler.run("opt-22", *more, "-passes=default<Oz>", "-S", ir, "-o", "-").stdout
        for more in ([], load)
    ]
    assert made[0] != made[1]


def test_remarks_are_those_of_llvms_advisor(
    compiler: Compiler, source: Path, tmp_path: Path
) -> None:
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    remarks = ("-Rpass=inline", "-fno-caret-diagnostics")
    made = compiler.clang(source, *remarks, model=f"native:{policy}")
    assert "[-Rpass=inline-ml]" in made.stderr


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("native:/nowhere/policy.onnx", "not found"),
        ("unix:/nowhere/socket", "unavailable"),
        ("function:none", "function:none"),
        ("native:{wrong}", "thickness"),
        ("native:{seven}", "inlining_decision is 7; expected 0 or 1"),
        ("nothing", "expected"),
    ],
)
def test_without_an_answer_llvm_decides(
    compiler: Compiler, source: Path, tmp_path: Path, policy: str, words: str
) -> None:
    wrong = advised.threshold_policy(tmp_path / "wrong.onnx", feature="thickness")
    seven = advised.constant_policy(tmp_path / "seven.onnx", "inlining_decision", 7)
    uri = policy.format(wrong=wrong, seven=seven)
    plain = compiler.clang(source).object
    made = compiler.clang(source, model=uri)
    assert made.object == plain
    (warning,) = made.warnings
    assert words in warning and "LLVM's own heuristic decides" in warning
    failed = compiler.clang(source, model=uri, on_failure="fail")
    assert failed.code == 1
    assert "error: inliner: " in failed.stderr and words in failed.stderr


def test_inputs_that_llvm_does_not_have(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    wrong = advised.threshold_policy(tmp_path / "wrong.onnx", 1, feature="thickness")
    made = compiler.clang(source, model=f"native:{wrong}", missing="zero")
    assert made.code == 0 and not made.stderr, "zero is below one"


@pytest.mark.parametrize(
    ("option", "value"),
    [("deadline", "-1s"), ("on-failure", "panic"), ("levels", "O7"), ("missing", "guess")],
)
def test_options_that_make_no_sense(
    compiler: Compiler, source: Path, option: str, value: str
) -> None:
    settings = {"model": "function:flip?probability=0", option: value}
    made = compiler.clang(source, **settings)
    assert made.code == 1
    assert f"-inliner-{option}: expected " in made.stderr and f"got '{value}'" in made.stderr


def test_a_server_that_ends_in_the_middle(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    asked = 0
    signature = mlbridge.parse_signature(
        "(callsite_cost: int64[1]) -> (inlining_decision: int64[1])"
    )

    def policy(observation: object, context: mlbridge.CallContext) -> int:
        nonlocal asked
        asked += 1
        if asked == 5:
            server.stop()
            raise RuntimeError("no more")
        return 0

    with mlbridge.Server(f"unix:{tmp_path}/s", signature) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        made = compiler.clang(source, model=server.address)
        thread.join(30)
    assert asked == 5
    assert len(made.warnings) == 1 and "no more" in made.stderr, made.stderr
    assert made.object


def test_what_was_asked_is_recorded(compiler: Compiler, source: Path, tmp_path: Path) -> None:
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    compiler.clang(source, model=f"native:{policy}", log=tmp_path).checked()
    (path,) = tmp_path.glob("*.mlbrec")
    recording = mlbridge.Recording(path)
    (episode,) = recording.episodes()
    assert not recording.damage
    assert episode.unit.endswith("main.cpp")
    costs, decisions = episode.stacked("callsite_cost"), episode.stacked("inlining_decision")
    assert len(costs) > 50
    assert np.array_equal(decisions, (costs < 40).astype(np.int64))


def test_a_parallel_link(compiler: Compiler, tmp_path: Path) -> None:
    """ThinLTO's threads share one model and decide as one thread does. The functions say their
    level, and the environment the options, which lld reads before it loads plugins."""
    objects = []
    for number in range(6):
        part = tmp_path / f"part{number}.cpp"
        text = advised.MAIN.replace("int main(", f"int part{number}(")
        part.write_text(text.replace("i * 31", f"i * {number + 3}"))
        objects.append(tmp_path / f"part{number}.o")
        compiler.run("clang++-22", "-Oz", "-flto=thin", "-c", part, "-o", objects[-1])
    main = tmp_path / "main.o"
    calls = "".join(f"int part{n}(int, char **);" for n in range(6))
    sums = "+".join(f"part{n}(c, v)" for n in range(6))
    (tmp_path / "m.cpp").write_text(f"{calls} int main(int c, char **v) {{ return {sums}; }}")
    compiler.run("clang++-22", "-Oz", "-flto=thin", "-c", tmp_path / "m.cpp", "-o", main)
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)

    def link(name: str, jobs: int) -> tuple[bytes, list[tuple[str, list[int]]]]:
        log = tmp_path / f"log-{name}"
        log.mkdir()
        told = {"model": f"native:{policy}", "log": str(log)}
        env = {f"MLBRIDGE_INLINER_{key.upper()}": value for key, value in told.items()}
        load = f"-Wl,--load-pass-plugin={compiler.plugin}"
        command = ["clang++-22", "-flto=thin", "-fuse-ld=lld", f"-Wl,--thinlto-jobs={jobs}", load]
        line: list[str | Path] = [*command, main, *objects, "-o", tmp_path / name]
        done = compiler.run(*line, environment=env)
        assert done.stderr == ""
        found = [
            (Path(episode.unit).name, episode.stacked("inlining_decision").ravel().tolist())
            for path in log.iterdir()
            for episode in mlbridge.Recording(path).episodes()
            if len(episode)
        ]
        return (tmp_path / name).read_bytes(), sorted(found)

    serial, parallel = link("serial", 1), link("parallel", 4)
    assert sum(len(decisions) for _, decisions in serial[1]) > 100
    assert serial == parallel


ONCE = """
inline int once(int x, int y) {
  for (int i = 0; i < 3; ++i)
    x = x * 31 + (x ^ y) % 7;
  return x - y;
}
int use(int x) { return once(x, x + 1); }
"""


@pytest.mark.parametrize("llvm", [22, 19])
def test_with_phase_ordering_the_inliner_is_one_more_candidate(
    compiler: Compiler, tmp_path: Path, llvm: int
) -> None:
    source = tmp_path / "once.cpp"
    source.write_text(ONCE)
    others = tmp_path / "candidates.json"
    after = {"name": "after", "passes": "inliner-wrapper", "after_stock": True}
    ways = [{"name": "same", "passes": "default<Oz>"}, after]
    others.write_text(json.dumps({"version": 1, "candidates": ways}))
    plain = compiler.clang(source).object
    for limit, wins in ((1000, True), (-100000, False)):
        policy = advised.threshold_policy(tmp_path / f"{limit}.onnx", limit, "cost_estimate")
        models = ["--model", f"inliner=native:{policy}"]
        models += ["--model", f"phase-ordering=candidates:{others}"]
        both = ["phase-ordering", "inliner", "--effort", "2", "--llvm", str(llvm)]
        remark = ["-Rpass=phase-ordering", "-fno-caret-diagnostics"]
        made = compiler.clang(source, *printed_flags(*both, *models), *remark)
        assert not made.warnings
        assert ("inliner: " in made.stderr) == wins, made.stderr
        chosen = made.object
        assert (chosen != plain) == wins
        if wins:
            only = ["inliner", "--model", f"native:{policy}", "--llvm", str(llvm)]
            assert compiler.clang(source, *printed_flags(*only)).object == chosen
