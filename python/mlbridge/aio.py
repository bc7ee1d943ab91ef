# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Asking, serving and driving from an asyncio program; each waits on threads of its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import operator
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import client, driving
from ._core import Context, Event, EventKind, Model, Signature, Statistics
from ._core import Runner as _Runner
from .driving import Transition
from .errors import Cancelled, Error, Status, _describe
from .server import Server

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["Driver", "Policy", "Runner", "drive", "open", "serve"]

T = TypeVar("T")


class _Thread:
    """Calls one after another, away from the event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="mlbridge.aio")

    async def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._pool, functools.partial(function, *arguments, **named)
        )

    async def first_call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Ends the thread if there will be no others."""
        try:
            return await self.call(function, *arguments, **named)
        except BaseException:
            self.end()
            raise

    def end(self, last: Callable[[], None] | None = None) -> None:
        """Ends it after its last call."""
        with contextlib.suppress(RuntimeError):  # ended before
            if last is not None:
                self._pool.submit(last)
        self._pool.shutdown(wait=False)


def _shown(of: type, name: str) -> Any:
    """The property of what a class here has on its thread."""
    return property(operator.attrgetter(f"_of.{name}"), doc=getattr(of, name).__doc__)


# Asking


class Runner(contextlib.AbstractAsyncContextManager["Runner"]):
    """Asks a model. Overlapping calls run one after another; open several runners for more.

    A call that is cancelled while the model works on it ends only for its caller; the next one
    begins when the model has finished, at the call's deadline at the latest.
    """

    def __init__(self, runner: _Runner, thread: _Thread) -> None:
        """Made by open."""
        self._of = runner
        self._thread = thread

    signature: Signature = _shown(_Runner, "signature")
    model: Model = _shown(_Runner, "model")
    status: Status = _shown(_Runner, "status")

    async def evaluate(
        self, mapping: Mapping[str, Any] | None = None, /, **features: Any
    ) -> dict[str, NDArray[Any]]:
        """Evaluate with these inputs; those that are not given keep their value."""
        return await self._thread.call(self._of.evaluate, mapping, **features)

    async def evaluate_scalar(
        self, mapping: Mapping[str, Any] | None = None, /, **features: Any
    ) -> Any:
        """The same for a model with one output of one element, as a Python number."""
        return await self._thread.call(self._of.evaluate_scalar, mapping, **features)

    async def begin_episode(self, episode: str, context: str = "") -> None:
        """Tell the model that an episode begins: an id, and of what (a module)."""
        await self._thread.call(self._of.begin_episode, episode, context)

    async def reward(self, value: float) -> None:
        """Tell the model the reward of the last evaluation's action."""
        await self._thread.call(self._of.reward, value)

    async def end_episode(self, failure: str = "") -> None:
        """Tell the model that the episode has ended, and why if it failed."""
        await self._thread.call(self._of.end_episode, failure)

    def close(self) -> None:
        """End the runner and its thread, once its call has ended. May be called twice."""
        self._thread.end(self._of.close)

    async def __aexit__(self, *error: object) -> None:
        self.close()


async def open(
    uri: str,
    signature: Signature | None = None,
    *,
    output: DTypeLike | None = None,
    deadline: float | str | timedelta | None = None,
    agent: str = "",
    episode: str = "",
    context: str = "",
) -> Runner:
    """Like mlbridge.open."""
    thread = _Thread()
    named = {"deadline": deadline, "agent": agent, "episode": episode, "context": context}
    runner = await thread.first_call(client.open, uri, signature, output=output, **named)
    return Runner(runner, thread)


# Driving


class Driver(contextlib.AbstractAsyncContextManager["Driver"]):
    """mlbridge.Driver for asyncio. Calls that overlap are made one after another."""

    def __init__(self, driver: driving.Driver, thread: _Thread) -> None:
        """Made by drive."""
        self._of = driver
        self._thread = thread

    uri: str = _shown(driving.Driver, "uri")
    signature: Signature = _shown(driving.Driver, "signature")
    metadata: dict[str, str] = _shown(driving.Driver, "metadata")
    agents: dict[str, Signature] = _shown(driving.Driver, "agents")
    agent: str = _shown(driving.Driver, "agent")
    rewards: dict[str, float] = _shown(driving.Driver, "rewards")
    done: bool = _shown(driving.Driver, "done")
    truncated: bool = _shown(driving.Driver, "truncated")
    last_observations: dict[str, dict[str, NDArray[Any]]] = _shown(
        driving.Driver, "last_observations"
    )
    steps: int = _shown(driving.Driver, "steps")

    async def reset(self, context: str = "", *, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Begin an episode; the first observation."""
        return await self._thread.call(self._of.reset, context, seed=seed)

    async def step(self, action: Any) -> Transition:
        """Apply an action."""
        return await self._thread.call(self._of.step, action)

    async def close(self) -> None:
        """Disconnect from the environment, once the running call has ended."""
        try:
            await self._thread.call(self._of.close)
        finally:
            self._thread.end()

    async def __aexit__(self, *error: object) -> None:
        await self.close()


async def drive(
    uri: str,
    *,
    deadline: float | str | timedelta | None = None,
    agent: str = "",
    episode: str = "",
) -> Driver:
    """Like mlbridge.drive."""
    thread = _Thread()
    named = {"deadline": deadline, "agent": agent, "episode": episode}
    return Driver(await thread.first_call(driving.drive, uri, **named), thread)


# Serving


class Policy(Protocol):
    """Decides like mlbridge.Policy, and may await other things meanwhile."""

    def __call__(self, observation: Mapping[str, Any], context: Context, /) -> Awaitable[Any]: ...


async def serve(
    policy: Policy,
    uri: str,
    signature: Signature | Mapping[str, Signature] | None = None,
    metadata: Mapping[str, str] | None = None,
    *,
    on_event: Callable[[Event], None] | None = None,
    ready: Callable[[Server], None] | None = None,
    max_in_work: int = 256,
    **limits: Any,
) -> Statistics:
    """Serve `await policy(observation, context)` at `uri`, for many requests at once.

    Serves until the task is cancelled (requests in progress fail) or stop() is called on the Server
    that `ready` was given (they finish). Up to `max_in_work` requests are in progress at a time;
    others wait in the server. A policy that raises fails its request, as in mlbridge.serve.
    `on_event` is called by the event loop; what it raises ends the serving.
    """
    if max_in_work < 1:
        raise ValueError(f"max_in_work must be at least 1, not {max_in_work}")
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    room = threading.Semaphore(max_in_work)
    tasks: set[asyncio.Task[None]] = set()
    failures: list[BaseException] = []
    with Server(uri, signature, metadata, **limits) as server:

        def wait() -> None:
            """On a thread: takes events to the event loop, until stop()."""
            failure: BaseException | None = None
            try:
                while True:
                    room.acquire()
                    event = server.next()
                    assert event is not None
                    if event.kind is EventKind.REQUEST:
                        # Made here, before another request of the stream can arrive.
                        _ = event.inputs, event.context
                    loop.call_soon_threadsafe(handle, event)
            except Cancelled:
                pass
            except BaseException as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop may have been closed
                loop.call_soon_threadsafe(has_ended, failure)

        def has_ended(failure: BaseException | None) -> None:
            if failure is not None:
                failures.append(failure)
            if not ended.done():
                ended.set_result(None)

        def handle(event: Event) -> None:
            if event.kind is EventKind.REQUEST:
                task = loop.create_task(_answer(policy, event))
                tasks.add(task)
                task.add_done_callback(answered)
                return
            room.release()
            if on_event is not None and not failures:
                try:
                    on_event(event)
                except BaseException as error:
                    failures.append(error)
                    server.stop()

        def answered(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            room.release()
            if not task.cancelled() and (error := task.exception()):  # SystemExit, …
                failures.append(error)
                server.stop()

        thread = threading.Thread(target=wait, name="mlbridge.aio.serve", daemon=True)
        try:
            if ready is not None:
                ready(server)
            thread.start()
            # Shielded: the thread sets it, whatever becomes of this task.
            await asyncio.shield(ended)
            while tasks:
                await asyncio.wait(set(tasks))
            if failures:
                raise failures[0]
        finally:
            server.stop()
            room.release()  # if the thread waits for it
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(set(tasks))
            if thread.ident is not None:
                thread.join()  # next() ends at once after stop()
        return server.statistics


async def _answer(policy: Policy, event: Event) -> None:
    why = "the server was interrupted"
    try:
        outputs = await policy(event.inputs, event.context)
    except (Exception, GeneratorExit) as error:
        why = _describe("the policy", error)
    except BaseException:
        with contextlib.suppress(Error):
            event.fail(why)
        raise
    else:
        try:
            event.reply(outputs)
            return
        except Exception as error:
            why = str(error)
    with contextlib.suppress(Error):  # it may have been answered, or gone away
        event.fail(why)
