# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model for unmodified opt, llc and clang: the host's side of LLVM's interactive channels.

LLVM's ML advisors (inlining, eviction and priority in register allocation) can ask a process beside
the compiler through two FIFOs. A compiler that gets no answer waits for ever, and one that gets a
wrong one may crash, so a host always answers: by the model, and if that fails, by a default.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._core import Model, Runner, Signature, TensorSpec
from ..client import from_function
from ..errors import (
    Cancelled,
    DeadlineExceeded,
    Error,
    InvalidArgument,
    Mismatch,
    NotFound,
    PolicyFailed,
    ProtocolError,
)
from ..optimizations import OPTIMIZATIONS
from ..processes import Process
from ..recording import Tensors
from ..server import Policy
from ..uri import escaped, is_uri
from .log import ContextLine, Header, LogWriter, Observation, Parser, Tensor
from .pair import ChannelPair, listed

__all__ = ["InteractiveHost", "InteractiveStatistics", "default_advice", "open_policy"]

#: Seconds that loading a policy may take, which may import a framework.
OPENING = 60.0
_IN_PROCESS = ("eviction_default", "function_hottest_bb_freq")  # LLVM's channel doesn't have them
_MOST_ADVICE = 4096  # what a FIFO takes in one piece
_MOST_PAUSE = 60.0
_BEGIN = b'{"features":'


def open_policy(
    text: str, signature: Signature | None = None, *, deadline: float = 5.0
) -> Callable[[], Model]:
    """A function that makes a Model to be bound, of what `mlbridge serve` and `run` take.

    It is the URI of any model, the path of an .onnx file or of a shared object of `mlbridge aot`,
    or what `load` takes. `signature` is that of a policy which has none.
    """
    if uri := _uri(text):
        return lambda: Model.open(uri, deadline=deadline)
    from ..policy_files import load

    loaded = load(text, signature)
    return lambda: from_function(loaded.policy, loaded.signature or signature, loaded.metadata)


def _uri(text: str) -> str:
    """The URI of a model; empty if the text is neither one nor a file that has one."""
    if is_uri(text):
        return text
    scheme = {".onnx": "onnx", ".so": "aot"}.get(Path(text).suffix, "")
    return f"{scheme}:{escaped(str(Path(text).absolute()))}" if scheme else ""


def _instead(lacks: Sequence[TensorSpec]) -> str:
    """A hint at what can be done about inputs that are not sent."""
    if any(spec.name in _IN_PROCESS for spec in lacks):
        return "that is known only to the plugin that `mlbridge flags regalloc-eviction` loads"
    return "missing='zero' (--missing zero) sets what is missing to zeros"


def default_advice(advice: Tensor, features: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The answer of last resort, by the name of what is asked.

    `inlining_decision`: LLVM's own (`inlining_default`) if the compiler sends it, else no.
    `index_to_evict`: the candidate itself, which is last, or the first that `mask` allows.
    `priority`: the size of the live range. Anything else: zeros.
    """
    answer = np.zeros(advice.shape, advice.dtype)
    value: Any = 0
    if advice.name == "inlining_decision":
        value = _first(features, "inlining_default")
    elif advice.name == "index_to_evict" and "mask" in features:
        mask = features["mask"].ravel()
        allowed = np.flatnonzero(mask)
        value = mask.size - 1 if not allowed.size or mask[-1] else allowed[0]
    elif advice.name == "priority":
        value = _first(features, "li_size")
    answer[...] = value
    return answer


def _first(features: Mapping[str, NDArray[Any]], name: str) -> Any:
    array = features.get(name)
    return array.flat[0] if array is not None and array.size else 0


def _refusal(advice: Tensor, answer: NDArray[Any], features: Mapping[str, NDArray[Any]]) -> str:
    """Why the compiler must not be told this; empty if it may."""
    if answer.dtype.kind == "f" and not np.isfinite(answer).all():
        return "it is not finite"
    if not answer.size:
        return ""
    value = answer.flat[0]
    if advice.name == "inlining_decision" and value not in (0, 1):
        return "expected 0 or 1"
    if advice.name == "priority" and not 0 <= value < 2**32:
        return "expected a number from 0 to 2^32"
    if advice.name == "index_to_evict" and "mask" in features:
        mask = features["mask"].ravel()
        if not 0 <= value < mask.size:
            return f"expected an index from 0 to {mask.size - 1}"
        if not mask[int(value)]:
            return "its mask is 0, so it can't be evicted"
    return ""


class _SharedChannel(ProtocolError):
    """Answers can't be told apart."""

    def __init__(
        self,
        why: str = "two compilers, or threads of one link, use the channel at once, and are ended: "
        "each needs a channel of its own, or the plugin of `mlbridge flags`",
    ) -> None:
        super().__init__(why)


@dataclass
class InteractiveStatistics:
    """Counts of what a host has done so far."""

    #: That opened the channel and announced what they send.
    compilers: int = 0
    #: Functions, or modules, of which a question was answered: the contexts of the training logs.
    contexts: int = 0
    #: Questions answered.
    decisions: int = 0
    #: Decisions among these that are the default.
    defaults: int = 0
    #: Calls of the policy that gave nothing of use.
    failures: int = 0
    #: Why, the first time.
    first_failure: str = ""
    #: Compilers that broke off within a question, or sent what is not the format.
    broken: int = 0
    #: Why, the first time.
    first_broken: str = ""
    #: Why nothing is logged any more.
    log_failure: str = ""

    def described(self) -> dict[str, Any]:
        """The statistics by name, as the commands print them."""
        return {k.replace("_", "-"): v for k, v in asdict(self).items() if v != ""}


class _Worker:
    """Makes calls on a thread of its own: a policy that doesn't return must not hold the host."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[int, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
        self._asked = self._returned = 0
        threading.Thread(target=self._run, name="mlbridge policy", daemon=True).start()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            number, function = task
            try:
                self._done.put((number, function(), None))
            except BaseException as error:  # of a user's code, SystemExit too
                self._done.put((number, None, error))

    @property
    def busy(self) -> bool:
        """True if an earlier call has not returned."""
        with contextlib.suppress(queue.Empty):
            while self._returned < self._asked:
                self._returned = max(self._returned, self._done.get_nowait()[0])
        return self._returned < self._asked

    def call(self, function: Callable[[], Any], seconds: float) -> Any:
        """Call the function on the thread; DeadlineExceeded if it has not returned in time."""
        self._asked += 1
        self._tasks.put((self._asked, function))
        until = time.monotonic() + seconds
        while self._returned < self._asked:
            try:
                found = self._done.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise DeadlineExceeded(f"the policy gave no answer in {seconds:g} s") from None
            if found[0] < 0:
                raise Cancelled("the host is stopping")
            self._returned, value, error = found
            if self._returned == self._asked and error is not None:
                raise error
        return value

    def cancel(self) -> None:
        """End a call(), with Cancelled; the policy goes on."""
        self._done.put((-1, None, None))

    def close(self) -> None:
        """Ends the thread once it has returned from what it does."""
        self._tasks.put(None)


@dataclass
class _Session:
    """A conversation with a compiler, from its header on."""

    number: int
    header: Header
    advice: Tensor
    runner: Runner | None = None
    context: str = ""
    #: True if the model has been told of the context.
    in_episode: bool = False
    #: True if a question of the context was answered.
    answered: bool = False
    #: Why the model can't answer this compiler at all.
    refused: str = ""
    log: LogWriter | None = None

    @property
    def signature(self) -> Signature:
        return Signature([t.spec for t in self.header.features], [self.advice.spec])


class InteractiveHost:
    """Answers the compilers that use the channel BASE, one after another, by a policy.

        with InteractiveHost("/tmp/channel", "onnx:policy.onnx") as host:
            host.serve()  # until host.stop() or Ctrl-C

    The compiler announces its tensors and the policy's signature is held to that by name: features
    that the policy doesn't know are ignored. `serve` and `close` belong to one thread, `stop` may
    be called from any thread or signal handler. A compiler that is still connected when the host
    ends, or that can't be answered, is ended too, since it would wait for ever.
    """

    def __init__(
        self,
        base: str | os.PathLike[str] | ChannelPair,
        policy: str | Policy,
        signature: Signature | None = None,
        *,
        deadline: float = 5.0,
        missing: Literal["refuse", "zero"] = "refuse",
        on_failure: Literal["default", "fail"] = "default",
        log: str | os.PathLike[str] | None = None,
        failed: Callable[[str], None] | None = None,
    ) -> None:
        """Make the FIFOs BASE.in and BASE.out; compilers can come. A pair that is made becomes its.

        `policy` is a function of (observation, context), called on a thread of its own, or text
        that open_policy takes; it is opened when the first compiler comes, or by load(). The
        context has the function's name. `deadline`, in seconds, is for each decision.

        If the policy fails, is late, or answers what the compiler must not be told, the compiler
        gets default_advice and the failure is counted. With `on_failure="fail"` the compiler is
        ended instead, and serve() raises the failure. Features that the policy wants and the
        compiler does not send are such a failure, unless `missing="zero"` sets them to zeros.

        In the folder `log` a training log is written for each compiler, with the decisions.
        `failed` is told, on the thread that serves, the first failure that gives a compiler the
        default, and why the first compiler that broke off, or had to be ended, was not served.

        Raises InvalidArgument if there is something else than FIFOs of this user, Busy if another
        host uses them, and NotFound if they can't be made.
        """
        if not 0 < deadline < 1e6:
            raise InvalidArgument(f"deadline: expected seconds above 0, got {deadline}")
        self._policy = policy
        self._signature = signature
        self._deadline = deadline
        self._missing = missing
        self._fails = on_failure == "fail"
        self._failed = failed
        self._log = None if log is None else Path(log)
        self._make: Callable[[], Model] | None = None
        self._models: dict[Signature, Model] = {}
        self._parser, self._skipping, self._said = Parser(), False, b""
        self._stopping, self._episodes = False, 0
        self._pause, self._paused_until = deadline, 0.0
        self._session: _Session | None = None
        self._worker: _Worker | None = None
        self.statistics = InteractiveStatistics()
        if self._log is not None:
            try:
                self._log.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise NotFound(f"{self._log}: not a folder: {error.strerror}") from None
        self._pair = base if isinstance(base, ChannelPair) else ChannelPair(os.fspath(base))

    @property
    def base(self) -> str:
        """The compiler's -…-interactive-channel-base."""
        return self._pair.base

    @property
    def address(self) -> str:
        """The address as `mlbridge serve --at` has it."""
        return f"llvm-interactive:{self.base}"

    @property
    def stopped(self) -> bool:
        """True if stop() was called."""
        return self._stopping

    @property
    def stuck(self) -> bool:
        """True if a call of the policy has not returned: the thread it is on can't be ended."""
        return self._worker is not None and self._worker.busy

    def load(self) -> None:
        """Load the policy now. Raises why that can't be done."""
        if self._make is None:
            policy, signature = self._policy, self._signature
            if isinstance(policy, str):
                self._make = open_policy(policy, signature, deadline=self._deadline)
            else:
                self._make = lambda: from_function(policy, signature)

    def serve(self) -> InteractiveStatistics:
        """Answer until stop() or Ctrl-C.

        With `on_failure="fail"` raises the first failure of the policy: an Error.
        """
        with contextlib.suppress(KeyboardInterrupt, Cancelled):
            while not self._stopping:
                half = self._parser.incomplete
                limited = half or self._session is not None
                data = self._pair.read(self._deadline if limited else None)
                if data:
                    self._feed(data)
                elif data is not None:
                    if half:
                        self._count_broken(f"a compiler ended after {half}")
                    self._end_session()
                    self._parser, self._skipping, self._said = Parser(), False, b""
                elif half and not self._stopping:
                    self._break(f"a compiler sent {half} and no more in {self._deadline:g} s")
                elif not self._stopping and (others := self._pair.other_readers(silent=True)):
                    # A compiler may be waiting for an answer that somebody else has taken.
                    self._break(self._shared_with(others))
        return self.statistics

    def stop(self) -> None:
        """End serve() soon, without waiting for the policy."""
        self._stopping = True
        if self._worker is not None:
            self._worker.cancel()
        self._pair.wake()

    def close(self) -> None:
        """Remove the FIFOs, and end a compiler that is still connected. May be called twice."""
        if self._pair.closed:
            return
        self._end_session()
        self._pair.close()
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> InteractiveHost:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mlbridge.llvm_channel.host.InteractiveHost {self.base}>"

    def _feed(self, data: bytes) -> None:
        # Beginnings are counted here, as the parser may not get that far.
        if begun := (self._said + data).count(_BEGIN):
            self._pair.begun(begun)
        self._said = (self._said + data)[-(len(_BEGIN) - 1) :]
        while data:
            if self._skipping:  # what a compiler that was ended had sent, up to the next one
                at = data.find(_BEGIN)
                if at < 0:
                    return
                data, self._skipping = data[at:], False
            try:
                for item in self._parser.feed(data):
                    self._take(item)
                return
            except (ProtocolError, BlockingIOError) as error:
                data = self._parser.rest
                # The compiler is gone if the next one has begun, and is the only one.
                gone = _BEGIN in data and self._pair.writers <= 1
                shared = isinstance(error, _SharedChannel)
                why = "" if shared else "a compiler sent what is not the format: "
                self._break(f"{why}{error}", gone=gone)

    def _take(self, item: object) -> None:
        if isinstance(item, Header):
            self._begin_session(item)
        elif self._session is None:
            raise ProtocolError("a question before a header")
        elif isinstance(item, ContextLine):
            self._end_context(self._session)
            self._session.context = item.name
            self._session.answered = False
            if self._session.log is not None:
                self._session.log.context(item.name)
        elif isinstance(item, Observation):
            self._answer(self._session, item)

    def _begin_session(self, header: Header) -> None:
        # Seen before either of them can read what is meant for the other.
        if self._session is not None and self._pair.writers > 1:
            raise _SharedChannel
        self._end_session()
        self._pair.drain()
        if others := self._pair.other_readers(silent=False):
            raise _SharedChannel(self._shared_with(others))
        if header.advice is None or not 0 < header.advice.size <= _MOST_ADVICE:
            raise ProtocolError(f"the header asks for no advice that can be given: {header.advice}")
        self.statistics.compilers += 1
        self._session = _Session(self.statistics.compilers, header, header.advice)

    def _end_session(self) -> None:
        if self._session is None:
            return
        self._end_context(self._session)
        if self._session.log is not None:
            self._session.log.close()
        self._session = None

    def _end_context(self, session: _Session) -> None:
        runner, was_told, session.in_episode = session.runner, session.in_episode, False
        if self._worker is not None and runner is not None and was_told and not self._worker.busy:
            with contextlib.suppress(Exception):
                self._worker.call(runner.end_episode, self._deadline)

    def _shared_with(self, others: list[Process]) -> str:
        return (
            f"{self.base}.in is open in {listed(others)}, too, which may take what is for a "
            "compiler: the compiler is ended; end that process, or choose another place"
        )

    def _break(self, why: str, *, gone: bool = False) -> None:
        self._pair.begun(0)  # who has it open now and sends something else is no compiler
        unclear = "" if gone else self._pair.end_compilers()
        if unclear:
            why += f"; not ended, as it is not known whether they are compilers: {unclear}"
        self._count_broken(why)
        self._end_session()
        self._parser, self._skipping = Parser(), True

    def _count_broken(self, why: str) -> None:
        self.statistics.broken += 1
        if self._failed is not None and not self.statistics.first_broken:
            self._failed(why)
        self.statistics.first_broken = self.statistics.first_broken or why

    def _answer(self, session: _Session, observation: Observation) -> None:
        features = session.header.arrays(observation.payload)
        answer = self._advice(session, features)
        if answer is None:
            self.statistics.defaults += 1
            answer = default_advice(session.advice, features)
        data = answer.astype(session.advice.dtype.newbyteorder("<")).tobytes()
        if self._parser.rest or self._pair.pending:
            # A compiler that waits sends nothing: this one is gone, unless there are several.
            if self._pair.writers > 1:
                raise _SharedChannel
            return
        self._pair.reply(data)
        self.statistics.decisions += 1
        self.statistics.contexts += not session.answered
        session.answered = True
        self._to_log(session, observation.payload + data)

    def _advice(self, session: _Session, features: Tensors) -> NDArray[Any] | None:
        """The model's answer; None if the default is to be used."""
        if self._worker is None:
            self._worker = _Worker()
        if session.refused or self._worker.busy or time.monotonic() < self._paused_until:
            return None
        try:
            if session.runner is None:
                self._worker.call(lambda: self._bind(session), max(OPENING, self._deadline))
            answer: NDArray[Any] = self._worker.call(
                lambda: self._ask(session, features), self._deadline
            )
            if why := _refusal(session.advice, answer, features):
                raise PolicyFailed(f"the policy answered {answer.flat[0]}: {why}")
        except Cancelled:
            raise
        except DeadlineExceeded as error:
            # A policy that is always late must not cost a deadline for each question.
            self._paused_until = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _MOST_PAUSE)
            self._fail(error)
            return None
        except Exception as error:  # loading runs the user's code
            self._fail(error)
            if session.runner is None:
                session.refused = str(error)
            return None
        self._pause = self._deadline
        return answer

    def _fail(self, error: Exception) -> None:
        self.statistics.failures += 1
        text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        if self._failed is not None and not (self._fails or self.statistics.first_failure):
            self._failed(f"{text}; the compiler gets a safe default")
        self.statistics.first_failure = self.statistics.first_failure or text
        if self._fails:
            self._pair.end_compilers()
            raise error if isinstance(error, Error) else PolicyFailed(text)

    def _bind(self, session: _Session) -> None:
        signature = session.signature
        if signature not in self._models:
            self._models[signature] = self._bound(signature)
        session.runner = self._models[signature].new_runner()

    def _bound(self, signature: Signature) -> Model:
        self.load()
        assert self._make is not None
        model = self._make()
        wanted = model.model_signature
        sent = {spec.name for spec in signature.inputs}
        lacks = [] if wanted is None else [s for s in wanted.inputs if s.name not in sent]
        if lacks and self._missing == "refuse":
            names = listed([f"'{spec.name}'" for spec in lacks])
            raise Mismatch(
                f"the model wants {names}, which the compiler does not "
                f"send (it sends {len(sent)} features); {_instead(lacks)}"
            )
        # Never written, so zeros.
        zeros = [TensorSpec(s.name, s.dtype, [abs(n) for n in s.shape]) for s in lacks]
        model.bind(Signature([*signature.inputs, *zeros], signature.outputs))
        return model

    def _ask(self, session: _Session, features: Tensors) -> NDArray[Any]:
        runner = session.runner
        assert runner is not None
        if not session.in_episode:
            self._episodes += 1
            runner.begin_episode(f"{os.getpid()}-{self._episodes}", session.context)
            session.in_episode = True
        return runner.evaluate(features)[session.advice.name]

    def _new_log(self, session: _Session) -> LogWriter | None:
        assert self._log is not None
        asking = (o.name for o in OPTIMIZATIONS.values() if o.decision == session.advice.name)
        kind, number = next(asking, "advice"), session.number
        while not self.statistics.log_failure:
            path = self._log / f"{kind}-{os.getpid()}-{number}.log"
            try:
                return LogWriter(path, [*session.header.features, session.advice])
            except InvalidArgument:  # of another process with this number
                number += 1
            except (Error, OSError) as error:
                self.statistics.log_failure = str(error)
        return None

    def _to_log(self, session: _Session, decided: bytes) -> None:
        """A log begins with the first decision: a compiler that asks nothing has none."""
        if self._log is None or self.statistics.log_failure:
            return
        if session.log is None:
            session.log = self._new_log(session)
            if session.log is None:
                return
            session.log.context(session.context)
        try:
            session.log.raw(decided)
        except OSError as error:
            self.statistics.log_failure = f"{session.log.path}: {error.strerror}"
            session.log.close()
            session.log = None
