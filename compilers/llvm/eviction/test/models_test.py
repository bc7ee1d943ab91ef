# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that decide, and models that fail: the program is right, after one warning."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import channels
import numpy as np
import policies
import pytest
from compiler import Compiled, Compiler, options, serving

import mlbridge


def index(value: int) -> Any:
    return np.array([value], np.int64)


def check_warns_once(made: Compiled, *texts: str) -> None:
    assert len(made.warnings) == 1, made.stderr
    assert "error:" not in made.stderr
    for text in ("regalloc-eviction: ", "LLVM's own heuristic decides", *texts):
        assert text in made.warnings[0]


def check_fails(made: Compiled, *texts: str) -> None:
    assert made.code != 0
    errors = [line for line in made.stderr.splitlines() if "error:" in line]
    assert all(any(text in line for line in errors) for text in texts), made.stderr


def test_without_a_model_nothing_changes(each_compiler: Compiler) -> None:
    compiler = each_compiler
    bitcode = compiler.bitcode("floats.c")
    assert compiler.llc(bitcode, deadline="1s").object == compiler.llc(bitcode).object


@pytest.mark.parametrize(
    ("each_compiler", "scheme"),
    [(22, "native"), (22, "onnx"), (19, "native")],
    indirect=["each_compiler"],
)
def test_a_network_decides_in_llc_and_clang(each_compiler: Compiler, scheme: str) -> None:
    compiler = each_compiler
    model = f"{scheme}:{policies.least_used(compiler.folder / 'policy.onnx')}"
    compilers: list[Callable[..., Compiled]] = [
        lambda **settings: compiler.llc(compiler.bitcode("integers.cpp"), **settings),
        lambda **settings: compiler.clang("floats.c", "-O3", **settings),
    ]
    for compile in compilers:
        plain = compile()
        before, printed = plain.object, compiler.output(plain)
        made = compile(model=model, on_failure="fail")
        assert not made.stderr
        assert made.object != before
        assert compiler.output(made) == printed


@pytest.mark.parametrize("source", ["floats.c", "integers.cpp"])
@pytest.mark.parametrize("level", ["-O2", "-Oz"])
def test_the_default_is_what_llvm_would_have_done(
    each_compiler: Compiler, source: str, level: str
) -> None:
    compiler = each_compiler
    bitcode = compiler.bitcode(source, level)
    plain = compiler.llc(bitcode).object
    model = f"native:{policies.stock(compiler.folder / 'policy.onnx')}"
    asked: list[int] = []

    def answer(features: Any, context: mlbridge.CallContext) -> Any:
        asked.append(int(features["eviction_default"][0]))
        return features["eviction_default"]

    assert compiler.llc(bitcode, model=model, on_failure="fail").object == plain
    with serving(answer, compiler.folder) as uri:
        assert compiler.llc(bitcode, model=uri, on_failure="fail").object == plain
    assert len(set(asked)) > 5 and channels.NONE in asked


def test_how_hot_the_function_is(each_compiler: Compiler) -> None:
    compiler = each_compiler
    found: dict[str, set[float]] = {}

    def answer(features: Any, context: mlbridge.CallContext) -> Any:
        frequency = float(features["function_hottest_bb_freq"][0])
        found.setdefault(context.unit, set()).add(frequency)
        return features["eviction_default"]

    with serving(answer, compiler.folder) as uri:
        for flags in (["-O2", "-fno-inline"], ["-O2"]):
            compiler.llc(compiler.bitcode("floats.c", *flags), model=uri, on_failure="fail")
    (loop,), (nested,) = found["mix"], found["main"] - found["mix"]
    assert 10 < loop < 40
    assert 2 * loop < nested  # it is called in a loop of three


def test_a_server_decides_as_the_same_network_in_process(compiler: Compiler) -> None:
    path = policies.least_used(compiler.folder / "policy.onnx")
    bitcode = compiler.bitcode("floats.c")
    inside = compiler.llc(bitcode, model=f"native:{path}", on_failure="fail").object

    def answer(features: Any, context: mlbridge.CallContext) -> Any:
        return index(int(channels.least_used(context.unit, features)))

    with serving(answer, compiler.folder) as uri:
        assert compiler.llc(bitcode, model=uri, on_failure="fail").object == inside


@pytest.mark.parametrize(
    ("levels", "flags", "expected"),
    [
        ("Oz", [], {"small"}),
        ("O2", [], {"round", "main"}),
        ("O2,Oz", [], {"round", "main", "small"}),
        ("O3", ["-O3"], {"round", "main"}),
        ("O1,O3,Os", [], set()),
    ],
)
def test_levels_are_those_of_functions(
    compiler: Compiler, levels: str, flags: list[str], expected: set[str]
) -> None:
    asked: set[str] = set()

    def answer(features: Any, context: mlbridge.CallContext) -> Any:
        asked.update(name for name in ("round", "main", "small") if name in context.unit)
        return features["li_size"].astype(np.float32).reshape(1)

    bitcode = compiler.bitcode("integers.cpp")
    with serving(answer, compiler.folder) as uri:
        asking = options("regalloc-priority", model=uri, levels=levels, on_failure="fail")
        compiler.llc(bitcode, *flags, *asking, deadline="5s").checked()
    assert asked == expected


def test_code_that_is_not_optimized_is_left_alone(each_compiler: Compiler) -> None:
    compiler = each_compiler
    plain = compiler.clang("floats.c", "-O0").object
    made = compiler.clang("floats.c", "-O0", model="native:/nowhere.onnx", on_failure="fail")
    assert made.object == plain and not made.stderr


BAD_NETWORKS: dict[str, tuple[Callable[[Path], str], list[str]]] = {
    "missing": (lambda path: str(path), ["not found"]),
    "unknown-input": (lambda path: policies.always(path, 0, "color"), ["mismatch", "color"]),
    "unknown-output": (lambda path: policies.always(path, 0, answer="x"), ["index_to_evict"]),
    "another-type": (lambda path: policies.always(path, 0, "progress"), ["mismatch", "progress"]),
    "too-large": (lambda path: policies.always(path, 33), ["is 33; expected 0 to 32"]),
    "negative": (lambda path: policies.always(path, -1), ["is -1; expected 0 to 32"]),
    "masked": (lambda path: policies.always(path, 31), ["is 31, whose mask is 0"]),
}


@pytest.mark.parametrize("kind", BAD_NETWORKS)
def test_a_bad_network(each_compiler: Compiler, kind: str) -> None:
    compiler = each_compiler
    make, texts = BAD_NETWORKS[kind]
    model = "native:" + make(compiler.folder / "bad.onnx")
    bitcode = compiler.bitcode("floats.c")
    plain = compiler.llc(bitcode).object
    made = compiler.llc(bitcode, model=model)
    check_warns_once(made, "bad.onnx", *texts)
    assert made.object == plain
    check_fails(compiler.llc(bitcode, model=model, on_failure="fail"), *texts)


@pytest.mark.parametrize("kind", ["raises", "dies", "silent", "masked"])
def test_a_server_that_fails_in_the_middle(compiler: Compiler, kind: str) -> None:
    printed = compiler.output(compiler.clang("integers.cpp", "-O2"))
    expected = {
        "raises": "the policy raised ValueError: no idea",
        "dies": "closed",
        "silent": "deadline exceeded",
        "masked": "whose mask is 0",
    }[kind]
    uri = f"unix:{compiler.folder / 'socket'}"
    server: list[str | Path] = [
        sys.executable,
        Path(__file__).with_name("failing_server.py"),
        uri,
        kind,
    ]
    with subprocess.Popen(server, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout and serving.stdout.readline() == "ready\n"
            made = compiler.clang("integers.cpp", "-O2", model=uri, deadline="300ms")
        finally:
            serving.kill()
    check_warns_once(made, uri, expected)
    assert compiler.output(made) == printed


@pytest.mark.parametrize("priority", [float("nan"), float("inf"), -1.0, 2.0**32])
def test_a_priority_that_is_no_unsigned_number(compiler: Compiler, priority: float) -> None:
    bitcode = compiler.bitcode("floats.c")
    plain = compiler.llc(bitcode).object
    with serving(lambda *_: np.array([priority], np.float32), compiler.folder) as uri:
        made = compiler.llc(bitcode, *options("regalloc-priority", model=uri), deadline="5s")
    assert made.object == plain
    assert made.stderr.count("warning:") == 1
    assert "regalloc-priority: " in made.stderr and "priority is " in made.stderr


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"deadline": "soon"}, "-regalloc-eviction-deadline: expected a time"),
        ({"on_failure": "panic"}, "-regalloc-eviction-on-failure: expected stock or fail"),
        ({"levels": "O4"}, "-regalloc-eviction-levels: expected O1"),
        ({"missing": "one"}, "-regalloc-eviction-missing: expected refuse or zero"),
    ],
)
def test_options_that_make_no_sense(
    compiler: Compiler, settings: dict[str, object], text: str
) -> None:
    bitcode = compiler.bitcode("floats.c")
    model = "native:" + policies.least_used(compiler.folder / "policy.onnx")
    check_fails(compiler.llc(bitcode, model=model, **settings), text)


def test_a_target_with_more_registers_than_the_features_have_room_for(compiler: Compiler) -> None:
    flags = ("-O2", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-ffreestanding")
    source = compiler.folder / "kernel.c"
    values = [f"float v{i} = p[{i}];" for i in range(300)]
    stores = [f"p[{i}] = v{i} * v{(i * 7 + 1) % 300};" for i in range(300)]
    source.write_text(f"void f(float *p) {{ {' '.join(values + stores)} }}\n")
    bitcode = compiler.folder / "kernel.bc"
    compiler.run("clang-22", *flags, "-emit-llvm", "-c", source, "-o", bitcode)
    target = ("-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx900")
    plain = compiler.llc(bitcode, *target).object
    model = "native:" + policies.least_used(compiler.folder / "policy.onnx")
    made = compiler.llc(bitcode, *target, model=model, on_failure="fail")
    assert made.object == plain


def test_a_parallel_link(compiler: Compiler) -> None:
    """ThinLTO's threads share one model and decide as one thread does. Linkers take the options
    from the environment, as they read theirs before they load plugins."""
    folder = compiler.folder
    driver = ("clang++-22", "-O2", "-flto=thin")
    parts = [folder / f"part{number}.o" for number in range(4)]
    for part in parts:
        source = compiler.inputs / "integers.cpp"
        compiler.run(*driver, "-fPIC", f"-Dmain={part.stem}", "-c", source, "-o", part)
    model = "native:" + policies.least_used(folder / "policy.onnx")
    linker = ["-shared", "-fuse-ld=lld", f"-Wl,--load-pass-plugin={compiler.plugin}"]

    def link(jobs: int, model: str) -> tuple[bytes, list[list[int]]]:
        log = folder / f"log-{jobs}"
        log.mkdir(exist_ok=True)
        told = {"MODEL": model, "LOG": str(log), "ON_FAILURE": "fail"} if model else {}
        environment = {f"MLBRIDGE_REGALLOC_EVICTION_{name}": value for name, value in told.items()}
        made = folder / f"linked-{jobs}"
        line: list[str | Path] = [
            *driver,
            *linker,
            f"-Wl,--thinlto-jobs={jobs}",
            *parts,
            "-o",
            made,
        ]
        done = compiler.run(*line, environment=environment)
        assert not done.stderr
        episodes = [e for path in log.iterdir() for e in mlbridge.Recording(path).episodes()]
        decisions = [e.stacked("index_to_evict").ravel().tolist() for e in episodes if len(e)]
        return made.read_bytes(), sorted(decisions)

    stock = link(1, "")
    serial, parallel = link(1, model), link(4, model)
    assert serial == parallel
    assert sum(map(len, serial[1])) > 10 and serial[0] != stock[0]
