# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge run`: a compiler whose decisions a policy takes, and what ends both together.

Runs once for every file of a build: NumPy and the extension are loaded when the compiler asks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import files
from ..llvm_channel.guardian import ENDING, SIGNALS, Guardian, terminate
from ..llvm_channel.pair import ChannelPair
from ..optimizations import OPTIMIZATIONS
from ..outputs import write_whole
from ..processes import Process, bound_to_this
from .arguments import Parser, add_answering, answering
from .common import FAILED, CommandError, UsageError, must_be_writable

if TYPE_CHECKING:
    from ..llvm_channel.host import InteractiveHost

#: The optimizations that LLVM's own advisors ask about.
ADVISED = {name: one for name, one in OPTIMIZATIONS.items() if one.advisor}
#: LLVM 19 writes its own decision over the feature callee_basic_block_count if it is to send it.
INCLUDES_DEFAULT = 22
#: Seconds after which another signal is meant to kill; a terminal, `timeout` and make send several.
_AGAIN = 1.0


def advice(text: str) -> tuple[str, str]:
    """The type of --advise."""
    name, _, policy = text.partition("=")
    if name not in ADVISED or not policy:
        raise argparse.ArgumentTypeError(
            f"expected OPTIMIZATION=POLICY, with one of {', '.join(ADVISED)}, got '{text}'"
        )
    return name, policy


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge run`."""
    parser.describe(
        f"""\
Runs unmodified clang, opt or llc with a policy that answers LLVM's own ML advisors. OPTIMIZATION
is {" or ".join(", ".join(ADVISED).rsplit(", ", 1))}. POLICY is a model file, a Python function
(FILE.py:NAME, MODULE:NAME) or the URI of a model or server. The compiler is never left without an
answer: if the policy fails, is late, or answers what LLVM can't take, a default is used.""",
        """\
The exit code is the compiler's; it is 1 if the policy fails and --on-failure fail is given. In a
build, all this is the compiler: make CC="mlbridge run --advise … -- clang-22".

example:
  mlbridge run --advise inliner=policy.onnx -- clang-22 -Oz -c f.c
  mlbridge run --advise regalloc-eviction=policy.py:evict -- llc-22 f.bc -o f.s""",
    )
    parser.takes_command = True
    parser.usage = "mlbridge run --advise OPTIMIZATION=POLICY ... [OPTION ...] -- COMMAND ..."
    parser.option(
        "--advise OPTIMIZATION=POLICY ...",
        "the policy that takes these decisions; may be repeated for other optimizations",
        type=advice,
    )
    add_answering(parser)
    parser.option("--json FILE", "write what was decided, in numbers")


def tool_of(command: str) -> str:
    """The tool that a command is: clang, opt or llc. CommandError if it is none."""
    found = shutil.which(command)
    if found is None:
        raise CommandError(f"there is no command {command}")
    for name in (command, os.path.realpath(found)):
        match = re.fullmatch(
            r"(?:.*-)?(clang|opt|llc)(?:\+\+|-cl|-cpp)?(?:-?\d[\d.]*)?", os.path.basename(name)
        )
        if match:
            return match[1]
    raise UsageError(
        f"{command} is not clang, opt or llc; to build with a policy, give the build system a "
        'compiler: make CC="mlbridge run --advise … -- clang-22"'
    )


def version_of(command: str) -> int:
    """The command's major version; 0 if that can't be seen."""
    found = os.path.realpath(shutil.which(command) or command)
    match = re.search(r"-(\d+)(?:[\d.]*|[\d.]*/bin/[^/]*)$", found)
    if match is None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            printed = subprocess.run(
                [command, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=10,
                check=False,
            ).stdout
            match = re.search(r"version (\d+)\.", printed)
    return 0 if match is None else int(match[1])


def flags(channels: dict[str, str], tool: str, version: int, arguments: list[str]) -> list[str]:
    """The tool's arguments with those that make it ask at these channels of optimizations."""
    added = [
        option + (base if option.endswith("-channel-base=") else "")
        for name, base in channels.items()
        for option in ADVISED[name].advisor
    ]
    if "inliner" in channels and version >= INCLUDES_DEFAULT:
        added.append("-inliner-interactive-include-default")
    if tool != "clang":
        return [*added, *arguments]
    if arguments[:1] == ["-cc1as"]:
        return arguments
    if arguments[:1] == ["-cc1"]:
        return [*arguments, *(word for option in added for word in ("-mllvm", option))]
    # Handed to compilations alone: assembling a .S file and linking must not see it.
    words = files.llvm_words(*added)
    return ["--start-no-unused-arguments", *words, "--end-no-unused-arguments", *arguments]


def must_be_there(policy: str, option: str = "--advise") -> None:
    """CommandError for a file that is missing, which is seen without opening it."""
    place = re.sub(r"^(onnx|native|aot):", "", policy).partition("?")[0]
    if re.search(r"\.py:[^:/]*$", place):
        place = place.rpartition(":")[0]
    known = os.path.splitext(place)[1] in (".onnx", ".so", ".py", ".pt", ".pt2", ".pth", ".ts")
    if known and "%" not in place and not os.path.isfile(place):
        raise CommandError(f"{option}: {place} is not there")


class Compiler:
    """The compiler's process and what it starts: a group, so that all can be ended."""

    def __init__(self, words: list[str], guardian: Guardian) -> None:
        # Read from a terminal, which only the group in front may: it stays in that.
        self._own_group = not ("-" in words and os.isatty(0))
        host = os.getpid()

        def before() -> None:
            if self._own_group:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            if (this := Process.of(os.getpid())) is not None:
                guardian.process(this, group=self._own_group)
            if os.getppid() != host:
                os._exit(FAILED)

        try:
            self.process = subprocess.Popen(words, close_fds=False, preexec_fn=before)
        except OSError as error:
            raise CommandError(f"{words[0]}: {error.strerror}") from None

    def signal(self, number: int) -> bool:
        """Send all of the group a signal; False if it has ended."""
        with contextlib.suppress(OSError):
            if self.process.returncode is None:
                if self._own_group:
                    os.killpg(self.process.pid, number)
                else:
                    os.kill(self.process.pid, number)
                return True
        return False

    def wait(self) -> int:
        """Wait for its end, and return the exit code as a shell has it; signals to this process are
        forwarded."""
        first: float | None = None

        def forward(number: int, frame: FrameType | None) -> None:
            nonlocal first
            if first is None:
                first = time.monotonic()
                self.signal(number)
            elif time.monotonic() > first + _AGAIN:
                self.signal(signal.SIGKILL)

        with _on(forward):
            code = self.process.wait()
        return 128 - code if code < 0 else code


@contextlib.contextmanager
def _on(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """While this lasts, the handler gets signals that would end this process."""
    before = {}
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


class Answering(threading.Thread):
    """Answers the compiler about one optimization, and ends it if that fails."""

    def __init__(
        self, options: argparse.Namespace, optimization: str, policy: str, pair: ChannelPair
    ) -> None:
        super().__init__(name=f"mlbridge {optimization}", daemon=True)
        self.optimization = optimization
        self.pair = pair
        self.compiler: Compiler | None = None
        self.failure = ""
        self.host: InteractiveHost | None = None
        self._options = options
        self._policy = policy

    def run(self) -> None:
        try:
            if not self.pair.wait():
                return
            from ..llvm_channel.host import InteractiveHost

            self.host = InteractiveHost(self.pair, self._policy, **answering(self._options))
            self.host.serve()
        except Exception as error:  # whatever it is, nobody answers any more
            self.failure = str(error) or type(error).__name__
        if self.failure and self.compiler is not None:
            terminate(self.compiler.signal)

    def finish(self) -> dict[str, Any]:
        """End once the compiler has ended, and return the statistics."""
        if self.host is not None:
            self.host.stop()
        self.pair.wake()
        self.join(ENDING)
        return {} if self.host is None else self.host.statistics.described()


def run(options: argparse.Namespace) -> int:
    """Run the compiler; its exit code, or 1 if the policy failed and must not."""
    words: list[str] = options.build
    if not words:
        raise UsageError("state the compiler and its arguments after --")
    advised = dict(options.advise)
    if not advised or len(advised) != len(options.advise):
        raise UsageError("state each optimization once: --advise OPTIMIZATION=POLICY")
    tool = tool_of(words[0])
    for name, policy in advised.items():
        if tool not in ADVISED[name].tools:
            raise UsageError(f"--advise {name}: {tool} does not decide that")
        must_be_there(policy)
        if any(word.lstrip("-").startswith(f"{name}-model=") for word in words):
            raise UsageError(
                f"--advise {name}: the compiler's own arguments ask a model for that already "
                f"(mlbridge flags {name}); leave one of them out"
            )
    if options.log:
        try:
            os.makedirs(options.log, exist_ok=True)
        except OSError as error:
            raise CommandError(f"--log: {options.log} is no folder: {error.strerror}") from None
    must_be_writable(json=options.json)
    folder = tempfile.mkdtemp(prefix="mlbridge-run-")
    channels = {name: os.path.join(folder, name) for name in advised}
    guardian = Guardian(list(channels.values()), folder)
    try:
        code, ended = supervised(lambda: advise(options, words, tool, channels, guardian), guardian)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if ended:
        named = ", ".join(f"{name}={policy}" for name, policy in advised.items())
        print(
            f"mlbridge run: the host of {named} was ended {ended}; the compiler is, too",
            file=sys.stderr,
        )
        if options.json:
            write_statistics(options.json, code, {})
    return code


def write_statistics(path: str, code: int, statistics: dict[str, dict[str, Any]]) -> None:
    """Write the file of --json; `statistics` is empty if the host has been ended."""
    write_whole(path, json.dumps({"exit-code": code, "sites": statistics}).encode())


def supervised(body: Callable[[], int], guardian: Guardian) -> tuple[int, str]:
    """Run `body` in a process of its own; its exit code, and how the process was ended if `body`
    didn't return. In that case the guardian ends the compilers. Either way it has ended afterwards.

    A policy may end its process, with 0: the build must not take that for the compiler's success.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    bind = bound_to_this()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code, end_of_body = FAILED, b""
        try:
            if bind(signal.SIGKILL):
                code = body()
            end_of_body = b"done"
        except CommandError as error:
            print(f"mlbridge run: {' '.join(str(error).split())}", file=sys.stderr)
            code, end_of_body = error.code, b"done"
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os.write(write, end_of_body)
            # The interpreter's own end is aborted by a thread that comes back from a policy.
            os._exit(code)

    process = Process.of(child)

    def forward(number: int, frame: FrameType | None) -> None:
        if process is not None:
            process.signal(number)

    os.close(write)
    with _on(forward):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(read, False)  # the policy's own processes may have it open
    with open(read, "rb", buffering=0) as pipe:
        done = pipe.read(4) == b"done"
    if done:
        guardian.done()
        return code, ""
    guardian.end()
    if code >= 0:
        return FAILED, f"with exit code {code}"
    return 128 - code, f"by signal {-code}"


def advise(
    options: argparse.Namespace,
    words: list[str],
    tool: str,
    channels: dict[str, str],
    guardian: Guardian,
) -> int:
    """Run the compiler, with its hosts at these channels."""
    threads: list[Answering] = []
    for name, policy in options.advise:
        pair = ChannelPair(channels[name], guardian.compiler)
        threads.append(Answering(options, name, policy, pair))
    guardian.hold()
    version = version_of(words[0]) if "inliner" in channels else 0
    compiler = Compiler([words[0], *flags(channels, tool, version, words[1:])], guardian)
    for thread in threads:
        thread.compiler = compiler
        thread.start()
    with first_traceback():
        code = compiler.wait()
        statistics = {thread.optimization: thread.finish() for thread in threads}
    report(threads, statistics)
    broken = any(numbers.get("broken") for numbers in statistics.values())
    if any(thread.failure for thread in threads) or (broken and code == 0):
        code = FAILED
    if options.json:
        write_statistics(options.json, code, statistics)
    return code


@contextlib.contextmanager
def first_traceback() -> Iterator[None]:
    """Logs only the first traceback of a policy, which may fail thousands of times."""
    shown = 0

    def first(record: object) -> bool:
        nonlocal shown
        shown += 1
        return shown == 1

    logger = logging.getLogger("mlbridge")
    logger.addFilter(first)
    try:
        yield
    finally:
        logger.removeFilter(first)


def report(threads: list[Answering], statistics: dict[str, dict[str, Any]]) -> None:
    """Print what went wrong."""
    for thread in threads:
        numbers = statistics[thread.optimization]
        text = thread.failure or numbers.get("first-broken", "")
        if not text and numbers.get("defaults"):
            text = (
                f"{numbers['defaults']} of {numbers['decisions']} decisions are the default: "
                f"{numbers.get('first-failure')}"
            )
        if text:
            print(f"mlbridge run: {thread.optimization}: {' '.join(text.split())}", file=sys.stderr)
        if "log-failure" in numbers:
            print(f"mlbridge run: {numbers['log-failure']}; not logged", file=sys.stderr)
