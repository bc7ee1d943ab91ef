# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock opt as an environment that Python drives."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from stock import SOURCES, Compiler

import mlbridge

ORDER = (30, 5, 23, 39)
STOP = 48


def module_of(compiler: Compiler, source: str) -> Path:
    made = compiler.folder / f"{source}.bc"
    compiler.run(
        *("clang", "-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"),
        *(SOURCES / source, "-o", made),
    )
    return made


def code_bytes(compiler: Compiler, module: Path) -> int:
    """Executable bytes of what plain clang -Oz makes of the module."""
    compiler.run("clang", "-Oz", "-x", "ir", "-fPIC", "-c", module, "-o", "size.o")
    said = compiler.run("llvm-size", "-A", "size.o").stdout
    return sum(int(line.split()[1]) for line in said.splitlines() if line.startswith(".text"))


@contextlib.contextmanager
def environment(
    compiler: Compiler, uri: str, module: Path, *options: str
) -> Iterator[subprocess.Popen[str]]:
    command = [compiler.tool("opt"), "-load-pass-plugin", str(compiler.plugin), *options]
    command += [f"-phase-ordering-serve={uri}", "-passes=phase-ordering", "-disable-output"]
    with subprocess.Popen([*command, str(module)], stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(params=["unix", "pipe", "rendezvous"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "rendezvous":
        return f"pipe:{tmp_path}/r/"
    return f"{request.param}:{tmp_path}/opt"


def episode(driver: mlbridge.Driver, context: str = "") -> tuple[list[bytes], float]:
    """What was seen, and the sum of the rewards."""
    observation = driver.reset(context)
    seen, total = [], 0.0
    for action in (*ORDER, STOP):
        seen.append(observation["features"].tobytes())
        assert observation["action_mask"][STOP] == 1
        observation, reward, done = driver.step(action)
        total += reward
    assert done
    assert not driver.truncated
    return seen, total


def test_every_episode_begins_with_the_module_as_it_was_read(compiler: Compiler, uri: str) -> None:
    words, shapes = module_of(compiler, "words.c"), module_of(compiler, "shapes.c")
    with environment(compiler, uri, words) as process:
        with mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver:
            assert driver.metadata["phase-ordering.observation"] == "phase-ordering-counts-1"
            first = episode(driver)
            assert first[1] > 0.1, "these groups make the code smaller"
            other = episode(driver, str(shapes))
            assert other[0] != first[0]
            assert episode(driver) == other, "an empty context is the same module again"
            assert episode(driver, str(words)) == first
            driver.reset()
            driver.step(ORDER[0])
            assert episode(driver) == first, "a reset in mid-episode"
        assert process.wait(60) == 0, "it ends with its driver"
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_limit_on_steps_is_told_with_what_is_seen_then(compiler: Compiler, uri: str) -> None:
    words = module_of(compiler, "words.c")
    with environment(compiler, uri, words), mlbridge.drive(f"{uri}?wait=20s", deadline=60) as whole:
        seen, _ = episode(whole)
    with (
        environment(compiler, uri, words, "-phase-ordering-max-steps=3"),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        for _ in range(2):
            driver.reset()
            for action in ORDER[:3]:
                assert not driver.done
                observation, _, done = driver.step(action)
            assert done
            assert driver.truncated
            assert observation["features"].tobytes() == seen[3]
            assert observation["step"].tolist() == [3]
            assert observation["history"][[*ORDER]].tolist() == [1, 1, 1, 0]
            assert observation["action_mask"][ORDER[2]] == 0
        driver.reset()
        assert driver.step(STOP).done
        assert not driver.truncated


def test_it_decides_as_the_pass_does_when_it_asks(compiler: Compiler, uri: str) -> None:
    model = f"function:sequence?actions={','.join(map(str, ORDER))}&record={compiler.folder}/log"
    words = module_of(compiler, "words.c")
    compiler.run(
        *("opt", "-load-pass-plugin", compiler.plugin, f"-phase-ordering-model={model}"),
        *("-passes=phase-ordering", "-disable-output", words),
    )
    asked = compiler.episode("log")
    with (
        environment(compiler, uri, words),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        seen, _ = episode(driver)
    assert asked.stacked("action").ravel().tolist() == [*ORDER, STOP]
    assert [one["features"].tobytes() for one in asked.observations] == seen


def test_what_cannot_be_done_ends_the_episode_and_not_the_compiler(
    compiler: Compiler, uri: str
) -> None:
    words = module_of(compiler, "words.c")
    (compiler.folder / "bad.ll").write_text("define void @f( {")
    with (
        environment(compiler, uri, words),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        with pytest.raises(mlbridge.NotFound, match="no-such-module"):
            driver.reset("/no-such-module.bc")
        with pytest.raises(mlbridge.NotFound, match=r"bad\.ll"):
            driver.reset(str(compiler.folder / "bad.ll"))
        driver.reset()
        with pytest.raises(mlbridge.PolicyFailed, match="expected 0 to 48, got 99"):
            driver.step(99)
        driver.reset()
        driver.step(5)
        with pytest.raises(mlbridge.PolicyFailed, match="is masked"):
            driver.step(np.int64(5))
        assert episode(driver)[1] > 0


def test_bytes_are_observed_beside_those_of_the_stock_pipeline(
    compiler: Compiler, uri: str
) -> None:
    words, shapes = module_of(compiler, "words.c"), module_of(compiler, "shapes.c")
    with (
        environment(compiler, uri, words),
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        for module in (words, shapes, words):
            observation = driver.reset(str(module))
            first = last = int(observation["code_bytes"][0])
            stock = code_bytes(compiler, module)
            assert observation["oz_code_bytes"][0] == pytest.approx(stock, rel=0.03)
            for action in ORDER:
                observation, reward, _ = driver.step(action)
                now = int(observation["code_bytes"][0])
                assert reward == pytest.approx((last - now) / first, abs=1e-12)
                assert observation["oz_code_bytes"][0] == pytest.approx(stock, rel=0.03)
                last = now
            assert max(stock, last) < first


def test_the_last_reward_is_that_of_all(compiler: Compiler, uri: str) -> None:
    words, shapes = module_of(compiler, "words.c"), module_of(compiler, "shapes.c")
    options = ("-phase-ordering-max-steps=4", "-phase-ordering-keep-states")
    totals: dict[str, list[float]] = {"each": [], "last": []}
    at_the_limit: dict[str, list[int]] = {"each": [], "last": []}
    for when, sums in totals.items():
        own = uri.rstrip("/") + "-" + when + "/" * uri.endswith("/")
        with (
            environment(compiler, own, words, *options, f"-phase-ordering-rewards={when}"),
            mlbridge.drive(f"{own}?wait=20s", deadline=60) as driver,
        ):
            for unit, actions in (
                (str(words), ORDER),
                (str(shapes), (*ORDER[:2], STOP)),
                (str(words), (STOP,)),
                (str(words), ORDER),
                ("fork:0", ORDER),
            ):
                assert (driver.reset(unit)["code_bytes"][0] > 0) or unit == "fork:0"
                rewards = []
                for action in actions:
                    assert not driver.done
                    observation, reward, _ = driver.step(action)
                    rewards.append(reward)
                    if not driver.done:
                        assert (observation["code_bytes"][0] == -1) == (when == "last")
                assert driver.done and (when == "each" or not any(rewards[:-1]))
                sums.append(sum(rewards))
                if driver.truncated:
                    at_the_limit[when].append(int(observation["code_bytes"][0]))
    assert totals["last"] == pytest.approx(totals["each"]) and totals["last"][0] > 0
    assert at_the_limit["last"] == at_the_limit["each"] and len(at_the_limit["each"]) == 3


def test_a_module_that_no_pass_may_change_is_refused(compiler: Compiler, uri: str) -> None:
    words, off = module_of(compiler, "words.c"), compiler.folder / "off.bc"
    compiler.run("clang", "-O0", "-emit-llvm", "-c", SOURCES / "words.c", "-o", off)
    with environment(compiler, uri, off), mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver:
        for context in ("", str(off)):
            with pytest.raises(
                mlbridge.InvalidArgument, match=r"off\.bc: every function is optnone"
            ):
                driver.reset(context)
        assert driver.reset(str(words))["code_bytes"][0] > 0


def test_a_killed_compiler_is_noticed(compiler: Compiler, uri: str) -> None:
    words = module_of(compiler, "words.c")
    with (
        environment(compiler, uri, words) as process,
        mlbridge.drive(f"{uri}?wait=20s", deadline=60) as driver,
    ):
        driver.reset()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
        with pytest.raises(mlbridge.Closed):
            driver.step(5)


def test_an_address_that_cannot_be_served_is_one_warning(
    compiler: Compiler, tmp_path: Path
) -> None:
    words = module_of(compiler, "words.c")
    done = compiler.run(
        *("opt", "-load-pass-plugin", compiler.plugin, "-passes=phase-ordering"),
        *("-phase-ordering-serve=unix:/no/such/folder/s", "-disable-output", words),
    )
    assert done.stderr.count("warning: phase-ordering: ") == 1
    assert "/no/such/folder/s" in done.stderr
    done = compiler.run(
        *("opt", "-load-pass-plugin", compiler.plugin, "-passes=phase-ordering"),
        *("-phase-ordering-serve=unix:/x", "-phase-ordering-model=function:stop"),
        *("-disable-output", words),
        check=False,
    )
    assert done.returncode != 0
    assert "cannot be given together" in done.stderr
