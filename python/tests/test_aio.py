# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asking, serving and driving from an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Context, PolicyFailed, aio
from serving import SMALL, running


@contextlib.asynccontextmanager
async def serving(policy: Any, uri: str, **options: Any) -> AsyncIterator[mlbridge.Server]:
    """aio.serve as a task, ended by stop()."""
    started: asyncio.Future[mlbridge.Server] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(aio.serve(policy, uri, SMALL, ready=started.set_result, **options))
    server = await asyncio.wait_for(started, 60)
    try:
        yield server
    finally:
        server.stop()
        await asyncio.wait_for(task, 60)


async def ask(uri: str, value: float, **options: Any) -> Any:
    async with await aio.open(uri, deadline=60, **options) as runner:
        return await runner.evaluate_scalar(x=[value, 0, 0, 0])


def test_many_requests_are_in_work_at_once(tmp_path: Path, transport: str) -> None:
    uri = f"{transport}:{tmp_path}/{'many/' if transport == 'pipe' else 's'}"

    async def program() -> None:
        all_there = asyncio.Event()
        waiting = 0

        async def policy(observation: Mapping[str, Any], context: Context) -> int:
            nonlocal waiting
            waiting += 1
            if waiting == 16:
                all_there.set()
            await all_there.wait()  # nobody is answered before all have asked
            return int(observation["x"][0]) * 2

        async with serving(policy, uri) as server:
            answers = await asyncio.gather(*(ask(uri, k) for k in range(16)))
            assert answers == [2 * k for k in range(16)]
            assert server.statistics.replies == 16

    asyncio.run(program())


def test_a_long_conversation_with_many(tmp_path: Path, transport: str, serdes: str) -> None:
    uri = f"{transport}:{tmp_path}/{'many/' if transport == 'pipe' else 's'}"

    async def program() -> None:
        async def policy(observation: Mapping[str, Any], context: Context) -> int:
            if observation["x"][0] % 3:
                await asyncio.sleep(0)
            return int(observation["x"][0]) + context.step

        async def client(number: int) -> None:
            runner = await aio.open(f"{uri}?serdes={serdes}", deadline=60)
            for k in range(200):
                assert await runner.evaluate_scalar(x=[number, 0, 0, 0]) == number + k
            runner.close()

        async with serving(policy, uri):
            await asyncio.gather(*map(client, range(5)))

    asyncio.run(program())


def test_no_more_than_the_limit_are_in_work(address: str) -> None:
    async def program() -> None:
        now, most = 0, 0
        two = asyncio.Event()

        async def policy(*_: Any) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            if now == 2:
                two.set()
            await asyncio.wait_for(two.wait(), 60)
            for _turn in range(20):
                await asyncio.sleep(0)
            now -= 1
            return 1

        async with serving(policy, address, max_in_work=2):
            assert await asyncio.gather(*(ask(address, k) for k in range(8))) == [1] * 8
        assert most == 2
        with pytest.raises(ValueError, match="max_in_work"):
            await aio.serve(policy, address, SMALL, max_in_work=0)

    asyncio.run(program())


def test_a_policy_that_fails_fails_its_request_alone(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        async def policy(observation: Mapping[str, Any], context: Context) -> Any:
            value = observation["x"][0]
            if value == 1:
                raise KeyError("no idea")
            if value == 2:
                raise mlbridge.Closed("another model is gone")
            return 0.5 if value == 3 else {"action": 4}

        async with serving(policy, address) as server:
            for value, message in (
                (1, "KeyError: 'no idea'"),
                (2, "another model is gone"),
                (3, "action"),
            ):
                with pytest.raises(PolicyFailed, match=message):
                    await ask(address, value)
            assert await ask(address, 4) == 4
            assert server.statistics.errors == 3

    asyncio.run(program())
    assert "the policy raised KeyError" in caplog.text


def test_stop_lets_what_is_in_work_end(address: str) -> None:
    async def program() -> None:
        asked, go = asyncio.Event(), asyncio.Event()

        async def policy(*_: Any) -> int:
            asked.set()
            await go.wait()
            return 7

        async with serving(policy, address) as server:
            answer = asyncio.create_task(ask(address, 0))
            await asked.wait()
            server.stop()
            go.set()
            assert await answer == 7

    asyncio.run(program())
    assert not Path(address.partition(":")[2]).exists()


def test_cancelling_fails_what_is_in_work(address: str) -> None:
    async def program() -> None:
        asked = asyncio.Event()

        async def policy(*_: Any) -> int:
            asked.set()
            await asyncio.Event().wait()
            return 1

        task = asyncio.create_task(aio.serve(policy, address, SMALL, max_in_work=1))
        answer = asyncio.create_task(ask(address + "?wait=30s", 0))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(mlbridge.Error, match="interrupted"):
            await answer

    asyncio.run(program())
    assert not Path(address.partition(":")[2]).exists()


def test_events_are_told_in_order_and_one_that_raises_ends_the_serving(address: str) -> None:
    async def program() -> None:
        seen: list[str] = []

        async def policy(observation: Mapping[str, Any], context: Context) -> int:
            await asyncio.sleep(0)
            seen.append(f"request of {context.episode}")
            return 1

        def on_event(event: mlbridge.Event) -> None:
            if event.kind is mlbridge.EventKind.REWARD and event.reward < 0:
                raise RuntimeError("lost")
            seen.append(event.kind.name)

        task = asyncio.create_task(aio.serve(policy, address, SMALL, on_event=on_event))
        runner = await aio.open(address + "?wait=30s", SMALL, deadline=60)
        await runner.begin_episode("one", "f")
        await runner.evaluate()
        await runner.reward(1)
        await runner.end_episode()
        await runner.begin_episode("two")
        await runner.reward(-1)
        with contextlib.suppress(mlbridge.Error):
            await runner.evaluate()  # what was told goes with it
        with pytest.raises(RuntimeError, match="lost"):
            await asyncio.wait_for(task, 60)
        told = ["EPISODE_BEGIN", "request of one", "REWARD", "EPISODE_END", "EPISODE_BEGIN"]
        assert seen[:5] == told

    asyncio.run(program())


def test_the_loop_goes_on_while_a_model_is_asked(address: str) -> None:
    asked, go = threading.Event(), threading.Event()

    def policy(*_: Any) -> int:
        asked.set()
        assert go.wait(60)
        return 5

    async def program(open_runner: Callable[..., Any]) -> None:
        runner = await open_runner(address, deadline=60)
        assert runner.signature == SMALL
        waits = asyncio.create_task(runner.evaluate(x=[1, 2, 3, 4]))
        while not asked.is_set():
            await asyncio.sleep(0.001)
        second = asyncio.create_task(runner.evaluate(x=[1, 2, 3, 4]))
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        go.set()
        found = await second
        assert found["action"] == 5 and found["action"].dtype == np.int64
        assert runner.status.ok
        runner.close()

    with running(policy, address, SMALL):
        asyncio.run(program(aio.open))


def test_errors_are_those_of_the_blocking_calls(address: str) -> None:
    async def program() -> None:
        before = threading.active_count()
        with pytest.raises(mlbridge.Unavailable):
            await aio.open(address)
        with pytest.raises(mlbridge.Unavailable):
            await aio.drive(address)
        with pytest.raises(mlbridge.NotFound, match="unix"):
            await aio.serve(lambda o, c: ask("", 0), "unxi:/x", SMALL)
        assert threading.active_count() <= before + 2

    asyncio.run(program())


def test_environments_are_driven_side_by_side(tmp_path: Path) -> None:
    class Countdown:
        def reset(self, context: str, seed: int) -> dict[str, Any]:
            self.left = seed
            return {"x": [self.left, 0, 0, 0]}

        def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool]:
            self.left -= int(action["action"])
            return {"x": [self.left, 0, 0, 0]}, float(self.left), self.left <= 0

    uris = [f"unix:{tmp_path}/{k}" for k in range(3)]
    threads = [
        threading.Thread(target=mlbridge.serve_environment, args=(Countdown(), uri, SMALL))
        for uri in uris
    ]
    for thread in threads:
        thread.start()

    async def one(uri: str, seed: int) -> float:
        total = 0.0
        async with await aio.drive(f"{uri}?wait=30s") as driver:
            assert driver.signature == SMALL
            observation = await driver.reset("m", seed=seed)
            assert observation["x"][0] == seed
            while not driver.done:
                total += (await driver.step(1)).reward
            assert driver.steps == seed
        return total

    async def program() -> list[float]:
        return await asyncio.gather(*(one(uri, k + 2) for k, uri in enumerate(uris)))

    assert asyncio.run(program()) == [1, 3, 6]
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_ctrl_c_ends_a_program_that_serves(tmp_path: Path) -> None:
    script = (
        "import asyncio, os, signal, sys\n"
        "from mlbridge import aio\n"
        "async def policy(observation, context): os.kill(os.getpid(), signal.SIGINT)\n"
        "asyncio.run(aio.serve(policy, sys.argv[1], ready=lambda s: print('up', flush=True)))\n"
    )
    uri = f"unix:{tmp_path}/s"
    process = subprocess.Popen(
        [sys.executable, "-c", script, uri], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    with pytest.raises(mlbridge.Error):
        mlbridge.open(uri, SMALL, deadline=60).evaluate()
    _, error = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in error
    assert not (tmp_path / "s").exists()
