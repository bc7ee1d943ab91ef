# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler that asks agents, driven: stock llc with the plugin of register allocation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pettingzoo.test import api_test

import mlbridge
from mlbridge import Turn
from mlbridge.compiler_episode import CompilerEpisode
from mlbridge.files import plugin
from mlbridge.gym.pettingzoo import CompilerAEC
from mlbridge.spills import spill_costs
from mlbridge.training.optimizations import REGISTER_ALLOCATION as AGENTS

SUM = """
define i32 @sum(i32 %a, i32 %b, i32 %c) {
  %x = mul i32 %a, %b
  %y = mul i32 %x, %c
  %z = add i32 %y, %a
  %w = xor i32 %z, %b
  ret i32 %w
}
"""


def llc(unit: str, uri: str, folder: Path) -> list[str]:
    return [
        *("llc-22", "-load", str(plugin("register-allocation")), unit, "-o", "out.s"),
        *("-pass-remarks-output=out.yaml", "-pass-remarks-filter=regalloc"),
        f"-register-allocation-model={uri}",
        "-register-allocation-on-failure=fail",
    ]


def cost(unit: str, folder: Path) -> float:
    assert (folder / "out.s").stat().st_size
    return -1.0 - sum(spill_costs(folder / "out.yaml").values())


@pytest.fixture
def module(tmp_path: Path) -> str:
    path = tmp_path / "sum.ll"
    path.write_text(SUM)
    return str(path)


def first(turn: Turn) -> dict[str, int]:
    """The first action that is allowed."""
    output = AGENTS[turn.agent].outputs[0].name
    return {output: int(turn.observation["action_mask"].nonzero()[0][0])}


def test_an_episode_is_a_compile(module: str) -> None:
    with CompilerEpisode(llc, AGENTS, cost) as environment:
        for _ in range(2):
            turn, done, asked = environment.reset(module, 0), False, []
            while not done:
                asked.append(turn.agent)
                turn, rewards, done = environment.step(turn.agent, first(turn))
            assert asked.count("node") > 2 and "colour" in asked
            assert rewards == dict.fromkeys(AGENTS, rewards["node"]) and rewards["node"] <= -1


def _python(text: str) -> Callable[[str, str, Path], list[str]]:
    return lambda unit, uri, folder: [sys.executable, "-c", text]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("import sys; sys.exit('no such target')", mlbridge.PolicyFailed, "with 1: no such target"),
        ("import os; os.kill(os.getpid(), 9)", mlbridge.PolicyFailed, "ended with -9"),
        ("import time; time.sleep(600)", mlbridge.DeadlineExceeded, "did nothing for 0.3 s"),
    ],
)
def test_a_compiler_that_fails_fails_the_episode(
    text: str, error: type[Exception], says: str
) -> None:
    with CompilerEpisode(_python(text), AGENTS, deadline=0.3) as environment:
        with pytest.raises(error, match=says):
            environment.reset("", 0)
        assert environment._process is None


def test_grpc_in_the_same_process(tmp_path: Path) -> None:
    """Its handlers for a fork would abort one compiler in a few."""
    trainer = tmp_path / "trainer.py"
    trainer.write_text("""
import concurrent.futures, sys
import grpc
import mlbridge
from mlbridge.compiler_episode import CompilerEpisode

server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
server.add_insecure_port("localhost:0")
server.start()
for _ in range(20):
    try:
        CompilerEpisode(lambda *_: [sys.executable, "-S", "-c", ""], {}).reset("f.c", 0)
    except mlbridge.InvalidArgument as error:
        print(error)
""")
    done = subprocess.run([sys.executable, trainer], capture_output=True, text=True)
    assert done.stdout == 20 * "'f.c': the compiler has asked nothing\n", done.stderr


def test_a_compiler_that_is_not_there() -> None:
    environment = CompilerEpisode(lambda *_: ["no-such-compiler"], AGENTS)
    with environment, pytest.raises((OSError, mlbridge.PolicyFailed), match="No such file"):
        environment.reset("f.c", 0)


def test_a_compiler_that_asks_nothing() -> None:
    says = "'f.c': the compiler has asked nothing"
    environment = CompilerEpisode(_python(""), AGENTS)
    with environment, pytest.raises(mlbridge.InvalidArgument, match=says):
        environment.reset("f.c", 0)


def test_a_compiler_that_dies_between_two_answers(module: str) -> None:
    with CompilerEpisode(llc, AGENTS, cost) as environment:
        turn = environment.reset(module, 0)
        assert environment._process is not None
        environment._process.kill()
        environment._process.wait()
        with pytest.raises(mlbridge.Error):
            environment.step(turn.agent, first(turn))
        assert environment.reset(module, 0).agent == turn.agent


def test_a_compiler_ends_with_its_trainer(tmp_path: Path) -> None:
    """However that ends."""
    fifo = tmp_path / "open"
    os.mkfifo(fifo)
    compiler = (
        f"import signal; file = open({str(fifo)!r}, 'w'); file.write('x'); file.flush();"
        "signal.pause()"
    )
    trainer = (
        "import sys; from mlbridge.compiler_episode import CompilerEpisode;"
        "CompilerEpisode(lambda *_: [sys.executable, '-c', sys.argv[1]], {}).reset('', 0)"
    )
    started = subprocess.Popen([sys.executable, "-c", trainer, compiler])
    with started as process, fifo.open() as file:
        assert file.read(1) == "x"
        process.kill()
        assert file.read() == ""  # when the compiler has ended


def test_an_answer_out_of_range_fails_the_compile(module: str) -> None:
    with CompilerEpisode(llc, AGENTS, cost) as environment:
        turn = environment.reset(module, 0)
        assert turn.agent == "node"
        with pytest.raises(mlbridge.PolicyFailed, match="ended with 1"):
            environment.step("node", {"node": len(turn.observation["action_mask"])})


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Dict observations
def test_as_pettingzoo_knows_it(module: str) -> None:
    def start(address: str) -> Any:
        return subprocess.Popen([sys.executable, __file__, address])

    bounds = {
        "node": {
            "action_mask": [64],
            "spill_weights": [64],
            "annotations": [64, 5],
            "edges": [512, 2],
        }
    }
    env = CompilerAEC(start=start, units=[module], bounds=bounds)
    try:
        api_test(env, num_cycles=30)
    finally:
        env.close()


if __name__ == "__main__":
    mlbridge.serve_environment(
        CompilerEpisode(llc, AGENTS, cost), sys.argv[1], AGENTS, keep_serving=True
    )
