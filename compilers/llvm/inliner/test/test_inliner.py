# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The inliner's plugin in stock clang and opt: whose decisions they are, and what failures do."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path

import advised
import numpy as np
import pytest
from sampling import LLVMS

import mlbridge

SITE = "inliner"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "main.cpp"
    path.write_text(advised.MAIN)
    return path


def compiled(source: Path, *flags: str, llvm: int = 22, level: str = "-Oz") -> tuple[bytes, str]:
    """The object and what the compiler said."""
    target = source.with_suffix(".o")
    target.unlink(missing_ok=True)
    command = [f"clang++-{llvm}", level, "-c", source.name, "-o", target.name, *flags]
    return target.read_bytes() if (done := advised.run(*command, cwd=source.parent)) else b"", (
        done.stderr
    )


@pytest.mark.parametrize("llvm", LLVMS)
def test_a_model_decides(source: Path, tmp_path: Path, llvm: int) -> None:
    plain, _ = compiled(source, llvm=llvm)
    usual, said = compiled(
        source, *advised.options(SITE, "function:flip?probability=0", llvm), llvm=llvm
    )
    assert (usual, said) == (plain, ""), "the heuristic's decisions give the heuristic's code"
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    first, said = compiled(source, *advised.options(SITE, f"native:{policy}", llvm), llvm=llvm)
    assert said == ""
    assert first != plain
    again, _ = compiled(source, *advised.options(SITE, f"onnx:{policy}", llvm), llvm=llvm)
    assert again == first
    source.with_suffix(".o").write_bytes(first)
    advised.run(f"clang++-{llvm}", source.with_suffix(".o"), "-o", tmp_path / "advised")
    advised.run(f"clang++-{llvm}", source, "-o", tmp_path / "plain")
    assert advised.run(tmp_path / "advised").stdout == advised.run(tmp_path / "plain").stdout


def test_a_model_is_asked_at_the_level_of_the_caller(source: Path, tmp_path: Path) -> None:
    policy = advised.threshold_policy(tmp_path / "policy.onnx", -10000)
    never = advised.options(SITE, f"native:{policy}")
    plain, _ = compiled(source, level="-O2")
    assert compiled(source, *never, level="-O2") == (plain, "")
    everywhere = advised.options(SITE, f"native:{policy}", levels="O2,Oz")
    assert compiled(source, *everywhere, level="-O2")[0] != plain
    small = source.with_name("small.cpp")
    small.write_text(
        "static int f(int x) { return x + 1; }\n"
        "__attribute__((minsize)) int smallest(int x) { return f(x) * f(x + 3); }\n"
        "int fastest(int x) { return f(x) * f(x + 3); }\n"
    )
    target = small.with_suffix(".ll")
    advised.run("clang-22", "-O2", "-S", "-emit-llvm", small, "-o", target, *never)
    bodies = dict(re.findall(r"define .*?@_Z\d+(\w+)\(.*?\{(.*?)\n\}", target.read_text(), re.S))
    calls = {name: body.count("call ") for name, body in bodies.items()}
    assert calls["smallesti"] == 2 and calls["fastesti"] == 0


def test_opt_too(source: Path, tmp_path: Path) -> None:
    ir = tmp_path / "main.ll"
    front = ["-Oz", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"]
    advised.run("clang++-22", *front, source, "-o", ir)
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    load = ["-load-pass-plugin", str(advised.plugin(SITE)), f"-inliner-model=native:{policy}"]
    made = [
        advised.run("opt-22", *more, "-passes=default<Oz>", "-S", ir, "-o", "-").stdout
        for more in ([], load)
    ]
    assert made[0] != made[1]


def test_remarks_are_those_of_llvms_advisor(source: Path, tmp_path: Path) -> None:
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    _, said = compiled(
        source,
        *advised.options(SITE, f"native:{policy}"),
        "-Rpass=inline",
        "-fno-caret-diagnostics",
    )
    assert "[-Rpass=inline-ml]" in said


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
    source: Path, tmp_path: Path, policy: str, words: str
) -> None:
    wrong = advised.threshold_policy(tmp_path / "wrong.onnx", feature="thickness")
    seven = advised.constant_policy(tmp_path / "seven.onnx", "inlining_decision", 7)
    uri = policy.format(wrong=wrong, seven=seven)
    plain, _ = compiled(source)
    made, said = compiled(source, *advised.options(SITE, uri))
    assert made == plain
    assert said.count("warning: ") == 1 and words in said, said
    assert "LLVM's own heuristic decides" in said
    failing = advised.options(SITE, uri, on_failure="fail")
    done = advised.run("clang++-22", "-Oz", "-c", source, "-o", "/dev/null", *failing, check=False)
    assert done.returncode == 1
    assert "error: inliner: " in done.stderr and words in done.stderr


def test_inputs_that_llvm_does_not_have(source: Path, tmp_path: Path) -> None:
    wrong = advised.threshold_policy(tmp_path / "wrong.onnx", 1, feature="thickness")
    _, said = compiled(source, *advised.options(SITE, f"native:{wrong}", missing="zero"))
    assert said == "", "zero is below one"


@pytest.mark.parametrize(
    ("option", "value"),
    [("deadline", "-1s"), ("on-failure", "panic"), ("levels", "O7"), ("missing", "guess")],
)
def test_options_that_make_no_sense(source: Path, option: str, value: str) -> None:
    line = advised.options(SITE, "function:flip?probability=0", 22, **{option: value})
    done = advised.run("clang++-22", "-Oz", "-c", source, "-o", "/dev/null", *line, check=False)
    assert done.returncode == 1
    assert f"-inliner-{option}: expected " in done.stderr and f"got '{value}'" in done.stderr


def test_a_server_that_ends_in_the_middle(source: Path, tmp_path: Path) -> None:
    asked = 0
    signature = mlbridge.parse_signature(
        "(callsite_cost: int64[1]) -> (inlining_decision: int64[1])"
    )

    def policy(observation: object, context: mlbridge.Context) -> int:
        nonlocal asked
        asked += 1
        if asked == 5:
            server.stop()
            raise RuntimeError("no more")
        return 0

    with mlbridge.Server(f"unix:{tmp_path}/s", signature) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        made, said = compiled(source, *advised.options(SITE, server.address))
        thread.join(30)
    assert asked == 5
    assert said.count("warning: ") == 1 and "no more" in said, said
    assert len(made) > 0


def test_what_was_asked_is_recorded(source: Path, tmp_path: Path) -> None:
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)
    compiled(source, *advised.options(SITE, f"native:{policy}", log=str(tmp_path)))
    (path,) = tmp_path.glob("*.mlbrec")
    recording = mlbridge.Recording(path)
    (episode,) = recording.episodes()
    assert not recording.damage
    assert episode.context.endswith("main.cpp")
    costs, decisions = episode.stacked("callsite_cost"), episode.stacked("inlining_decision")
    assert len(costs) > 50
    assert np.array_equal(decisions, (costs < 40).astype(np.int64))


def test_a_parallel_link(source: Path, tmp_path: Path) -> None:
    """ThinLTO's threads share one model and decide as one thread does. The functions say their
    level, and the environment the options, which lld reads before it loads plugins."""
    objects = []
    for number in range(6):
        part = tmp_path / f"part{number}.cpp"
        text = advised.MAIN.replace("int main(", f"int part{number}(")
        part.write_text(text.replace("i * 31", f"i * {number + 3}"))
        objects.append(tmp_path / f"part{number}.o")
        advised.run("clang++-22", "-Oz", "-flto=thin", "-c", part, "-o", objects[-1])
    main = tmp_path / "main.o"
    calls = "".join(f"int part{n}(int, char **);" for n in range(6))
    sums = "+".join(f"part{n}(c, v)" for n in range(6))
    (tmp_path / "m.cpp").write_text(f"{calls} int main(int c, char **v) {{ return {sums}; }}")
    advised.run("clang++-22", "-Oz", "-flto=thin", "-c", tmp_path / "m.cpp", "-o", main)
    policy = advised.threshold_policy(tmp_path / "policy.onnx", 40)

    def link(name: str, jobs: int) -> tuple[bytes, list[tuple[str, list[int]]]]:
        log = tmp_path / f"log-{name}"
        log.mkdir()
        told = {"model": f"native:{policy}", "log": str(log)}
        env = {f"MLBRIDGE_INLINER_{key.upper()}": value for key, value in told.items()}
        load = f"-Wl,--load-pass-plugin={advised.plugin(SITE)}"
        command = ["clang++-22", "-flto=thin", "-fuse-ld=lld", f"-Wl,--thinlto-jobs={jobs}", load]
        line: list[str | Path] = [*command, main, *objects, "-o", tmp_path / name]
        done = advised.run(*line, env={**os.environ, **env})
        assert done.stderr == ""
        found = [
            (
                Path(episode.context).name,
                episode.stacked("inlining_decision").ravel().tolist(),
            )
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


def flags(*words: str) -> list[str]:
    return advised.run(sys.executable, "-m", "mlbridge", "flags", *words).stdout.split()


@pytest.mark.parametrize("llvm", [22, 19])
def test_with_phase_ordering_the_inliner_is_one_more_candidate(tmp_path: Path, llvm: int) -> None:
    source = tmp_path / "once.cpp"
    source.write_text(ONCE)
    others = tmp_path / "candidates.json"
    after = {"name": "after", "passes": "inliner-wrapper", "after_stock": True}
    ways = [{"name": "same", "passes": "default<Oz>"}, after]
    others.write_text(json.dumps({"version": 1, "candidates": ways}))
    plain, _ = compiled(source, llvm=llvm)
    for limit, wins in ((1000, True), (-100000, False)):
        policy = advised.threshold_policy(tmp_path / f"{limit}.onnx", limit, "cost_estimate")
        models = ["--model", f"inliner=native:{policy}"]
        models += ["--model", f"phase-ordering=candidates:{others}"]
        both = ["phase-ordering", "inliner", "--effort", "2", "--llvm", str(llvm)]
        remark = ["-Rpass=phase-ordering", "-fno-caret-diagnostics"]
        made, said = compiled(source, *flags(*both, *models), *remark, llvm=llvm)
        assert "warning:" not in said
        assert ("inliner: " in said) == wins, said
        assert (made != plain) == wins
        if wins:
            only = ["inliner", "--model", f"native:{policy}", "--llvm", str(llvm)]
            alone, _ = compiled(source, *flags(*only), llvm=llvm)
            assert made == alone
        else:
            assert made == plain
