# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connects to a Ray cluster, or starts one here; looks at what its nodes have; evaluates trials on
them.

No time of one machine is compared with another's: waiting is by this process's monotonic clock,
and a trial's limit and its seconds are by the clock of its node.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from . import node_facts
from .errors import DeadlineExceeded, InternalError, NotFound, Unavailable
from .files import extra
from .trial import GRACE, Needs, Options, Result, Trial, Value, evaluated

_ROUND = 0.5  # seconds between two looks at the list of nodes
_FETCHING = 30.0  # seconds for a result that is there
_SHARING = 600.0  # seconds in which a node gets a shared value
_PROBING = 120.0  # seconds in which a node must say what it has


def connect(address: str, cpus: int) -> None:
    """Connects to the cluster at `address`; without one Ray is started here, for `cpus` processes.
    The caller ends it by `ray.shutdown`. Unavailable if no cluster is there, or Ray doesn't start;
    NotFound without Ray.
    """
    try:
        import ray
    except ImportError as error:
        raise NotFound(f"a cluster needs {extra('cluster')} ({error})") from None
    host, _, port = address.removeprefix("ray://").rpartition(":")
    own = {"num_cpus": cpus, "object_store_memory": 128 << 20}
    try:
        if port.isdigit():  # Ray itself tries for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        before = signal.getsignal(signal.SIGTERM)
        ray.init(address=address or "local", include_dashboard=False, log_to_driver=False,
                 logging_level="critical", **({} if address else own))  # fmt: skip
        if callable(before) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray has put its own there
        # Ray prints a line on stdout for each node that is lost, and has no option against it.
        vars(ray._private.worker)["print_to_stdstream"] = lambda *_, **__: None
    except Exception as error:  # Ray has no class for what can go wrong
        what = f"no Ray cluster answers at {address}" if address else "Ray doesn't start here"
        raise Unavailable(f"{what}: {_line(error)}") from error


def alive() -> dict[str, tuple[str, int]]:
    """The nodes of the cluster that have CPUs, by their identifiers: addresses and CPUs."""
    import ray

    return {
        node["NodeID"]: (node["NodeManagerAddress"], int(node["Resources"]["CPU"]))
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
    }


def asked(node: str, needs: Needs, cpus: float = 0.0) -> Any:
    """The reference to what a node has, which it looks up itself."""
    import ray
    from ray import cloudpickle
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    cloudpickle.register_pickle_by_value(node_facts)  # a node without mlbridge can say so
    try:
        there = ray.remote(node_facts.facts).options(
            num_cpus=cpus,
            max_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        return there.remote(list(needs.programs), list(needs.plugins), list(needs.files))
    finally:
        cloudpickle.unregister_pickle_by_value(node_facts)


def here(needs: Needs) -> dict[str, str]:
    """What this machine has of it."""
    return node_facts.facts(list(needs.programs), list(needs.plugins), list(needs.files))


def check(needs: Needs) -> None:
    """Raises Unavailable, which says which node lacks what, unless all nodes of the cluster have
    what this machine has. A node that is lost meanwhile isn't one of them."""
    expected = here(needs)
    problems, failed = _lacking(expected, needs, alive())
    if failed:  # a process of Ray's was lost, or the node
        again = {node: about for node, about in alive().items() if node in failed}
        more, failed = _lacking(expected, needs, again)
        problems += more
    there = alive()
    problems += [f"{there[node][0]}: {why}" for node, why in failed.items() if node in there]
    if problems:
        raise Unavailable(f"nodes that can't take part: {'; '.join(problems)}")


def _lacking(
    expected: dict[str, str], needs: Needs, nodes: dict[str, tuple[str, int]]
) -> tuple[list[str], dict[str, str]]:
    """What nodes lack, and why others couldn't say, by their identifiers."""
    import ray

    references = {asked(node, needs): node for node in nodes}
    ready, _ = ray.wait(list(references), num_returns=len(references), timeout=_PROBING)
    problems, failed = [], {}
    for reference, node in references.items():
        address = nodes[node][0]
        if reference not in ready:
            problems.append(f"{address} has not answered for {_PROBING:g} s")
            continue
        try:
            lacking = node_facts.differences(expected, ray.get(reference))
        except ray.exceptions.RayTaskError as error:
            lacking = [_line(error)]
        except ray.exceptions.RayError as error:
            failed[node] = _line(error)
            continue
        if lacking:
            problems.append(f"{address}: {', '.join(lacking)}")
    return problems, failed


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


@dataclass
class _Node:
    address: str
    slots: int
    problem: str = ""  # why it gets no trials
    probe: Any = None  # the reference to what it has, until it has answered
    asked_at: float = 0.0
    running: int = 0


@dataclass(eq=False)
class _Attempt:
    number: int
    trial: Trial
    losses: list[str] = field(default_factory=list)
    node: str = ""


class _Interrupted(BaseException):
    pass


def _attempt(function: Callable[[Trial], Any], trial: Trial, address: str) -> Result[Any]:
    """Evaluates a trial on a node, in the main thread of a process of Ray's."""
    import os

    def interrupted(*_: object) -> None:
        raise _Interrupted

    dead_end = threading.Timer(trial.limit + GRACE, os._exit, [1])
    dead_end.daemon = True
    dead_end.start()
    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, trial.limit)
    try:
        return evaluated(function, trial, address)
    except _Interrupted:
        why = f"{trial.key}: did not end within {trial.limit:g} s"
        return Result(trial.key, None, DeadlineExceeded(why), trial.limit, address)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        dead_end.cancel()


class _Nodes:
    """The nodes of a cluster, and which of them take trials."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._expected = here(options.needs)
        self.known: dict[str, _Node] = {}
        self._looked = -_ROUND
        self._without = time.monotonic()  # the time since which no node takes trials
        self._lost: list[str] = []

    def look(self) -> list[str]:
        """Looks for nodes that have come or gone; those that are gone."""
        now = time.monotonic()
        if now - self._looked < _ROUND:
            return []
        self._looked = now
        there = alive()
        for node, (address, cpus) in there.items():
            if node not in self.known:
                slots = min(cpus, self._options.each or cpus)
                probe = asked(node, self._options.needs)
                self.known[node] = _Node(address, slots, "has not answered", probe, now)
        gone = [node for node in self.known if node not in there]
        for node in gone:
            self._warn(f"node {self.known[node].address} is lost")
        for key, known in self.known.items():
            if key in there:
                self._hear(key, known)
        if any(
            not node.problem or (node.probe is not None and now < node.asked_at + _PROBING)
            for key, node in self.known.items()
            if key in there
        ):
            self._without = now
        return gone

    def forget(self, node: str) -> None:
        """Takes a node that is gone off the list."""
        self._lost.append(f"{self.known.pop(node).address} is lost")

    def _hear(self, key: str, node: _Node) -> None:
        """Reads what a node has, if it has answered."""
        import ray

        if node.probe is None:
            return
        if not ray.wait([node.probe], timeout=0)[0]:
            if time.monotonic() > node.asked_at + _PROBING:
                node.problem = f"has not answered for {_PROBING:g} s"
            return
        try:
            lacking = node_facts.differences(self._expected, ray.get(node.probe))
        except ray.exceptions.RayTaskError as error:
            lacking = [_line(error)]
        except ray.exceptions.RayError as error:
            # A process of Ray's was lost, or the node, which then is missed soon.
            node.problem = f"has not answered: {_line(error)}"
            node.probe = asked(key, self._options.needs)
            return
        node.probe, node.problem = None, ", ".join(lacking)
        if lacking:
            self._warn(f"node {node.address} is not used: {node.problem}")

    def suspect(self, key: str, why: str) -> None:
        """Gives a node that has lost a trial no more until it answers again."""
        node = self.known.get(key)
        if node is not None and not node.problem:
            node.problem, node.asked_at = f"has lost a trial: {why}", time.monotonic()
            node.probe = asked(key, self._options.needs)

    def free(self) -> str | None:
        """The node with the most room, if one has some."""
        room = {
            key: node.slots - node.running for key, node in self.known.items() if not node.problem
        }
        best = max(room, key=lambda key: room[key], default=None)
        return best if best is not None and room[best] > 0 else None

    def complain(self, done: int) -> None:
        """Raises Unavailable if no node has taken trials for too long."""
        patience = self._options.patience
        if time.monotonic() < self._without + patience:
            return
        known = [f"{node.address}: {node.problem}" for node in self.known.values() if node.problem]
        why = "; ".join([*known, *self._lost]) or "it has no node with a CPU"
        raise Unavailable(
            f"no node of the cluster at {self._options.cluster} has taken trials for"
            f" {patience:g} s, {done} were evaluated: {why}"
        )

    def _warn(self, text: str) -> None:
        self._options.warned(text)


def on_nodes(
    function: Callable[[Trial], Any], trials: Iterable[Trial], options: Options
) -> Generator[tuple[int, Result[Any]], None, None]:
    """The results of trials on a cluster as they complete, with the numbers of the trials."""
    with connected(options.cluster):
        yield from _Evaluation(function, trials, options).results()


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """A connection to a cluster, unless there is one already."""
    connect_first = True
    with contextlib.suppress(ImportError):
        import ray

        connect_first = not ray.is_initialized()
    if connect_first:
        connect(address, 1)
    try:
        yield
    finally:
        if connect_first:
            import ray

            ray.shutdown()


def shared(value: Value) -> Callable[[], Value]:
    """A function that an evaluation's function may call on its node: it returns the value, which is
    sent there once, and as long as this process is connected."""
    import ray

    return partial(_fetched, ray.put(value))


def _fetched(reference: Any) -> Any:
    import ray

    return ray.get(reference, timeout=_SHARING)


def must_answer(address: str) -> None:
    """NotFound without Ray, Unavailable if no cluster answers at the address."""
    with connected(address):
        pass


class _Evaluation:
    def __init__(
        self, function: Callable[[Trial], Any], trials: Iterable[Trial], options: Options
    ) -> None:
        import ray

        self._ray = ray
        self._function = function
        self._left = enumerate(trials)
        self._again: deque[_Attempt] = deque()
        self._running: dict[Any, _Attempt] = {}  # by the references to their results
        self._nodes = _Nodes(options)
        self._remote = ray.remote(_attempt)
        self._done = 0

    def results(self) -> Iterator[tuple[int, Result[Any]]]:
        """Yields until no trial is left."""
        try:
            while True:
                for node in self._nodes.look():
                    for reference, attempt in [*self._running.items()]:
                        if attempt.node == node:
                            yield from self._lose(reference, "its node is lost")
                    self._nodes.forget(node)
                more = self._send()
                if not more and not self._running:
                    return
                self._nodes.complain(self._done)
                waiting = list(self._running)
                if not waiting:
                    time.sleep(_ROUND / 5)
                    continue
                for reference in self._ray.wait(waiting, timeout=_ROUND)[0]:
                    yield from self._take(reference)
        finally:
            for reference in self._running:
                with contextlib.suppress(Exception):
                    self._ray.cancel(reference, force=True)

    def _next(self) -> _Attempt | None:
        if self._again:
            return self._again.popleft()
        item = next(self._left, None)
        return None if item is None else _Attempt(*item)

    def _send(self) -> bool:
        """Gives trials to nodes that have room; false if none is left."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        while (node := self._nodes.free()) is not None:
            attempt = self._next()
            if attempt is None:
                return False
            there = self._nodes.known[node]
            remote = self._remote.options(
                num_cpus=1,
                max_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            attempt.node = node
            there.running += 1
            self._running[remote.remote(self._function, attempt.trial, there.address)] = attempt
        return True

    def _take(self, reference: Any) -> Iterator[tuple[int, Result[Any]]]:
        """The result of an attempt that has ended, unless it runs again."""
        errors = self._ray.exceptions
        try:
            result = self._ray.get(reference, timeout=_FETCHING)
        except errors.RayTaskError as error:  # it can't be pickled, for instance
            attempt = self._ended(reference)
            why = InternalError(f"{attempt.trial.key}: {_line(getattr(error, 'cause', error))}")
            result = Result(attempt.trial.key, None, why)
        except errors.RayError as error:
            yield from self._lose(reference, _line(error))
            return
        else:
            attempt = self._ended(reference)
        self._done += 1
        yield attempt.number, result

    def _lose(self, reference: Any, why: str) -> Iterator[tuple[int, Result[Any]]]:
        """Has an attempt run again that was lost, or gives it up."""
        attempt = self._ended(reference)
        self._nodes.suspect(attempt.node, why)
        attempt.losses.append(why)
        if len(attempt.losses) <= attempt.trial.retries:
            self._again.append(attempt)
            return
        error = Unavailable(
            f"{attempt.trial.key}: was lost {len(attempt.losses)} times, at last: {why}"
        )
        self._done += 1
        yield attempt.number, Result(attempt.trial.key, None, error)

    def _ended(self, reference: Any) -> _Attempt:
        attempt = self._running.pop(reference)
        if attempt.node in self._nodes.known:
            self._nodes.known[attempt.node].running -= 1
        return attempt
