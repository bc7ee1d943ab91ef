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

from ..channel_pair import ChannelPair, File, uses
from ..processes import Process, bound_to_this
from .common import FAILED, CommandError, UsageError, must_be_writable

if TYPE_CHECKING:
    from ..interactive import InteractiveHost

_BASE = "interactive-channel-base="
#: What LLVM is told, but for the place of the channel, and which tools have the decision.
SITES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "inliner": (
        ("-enable-ml-inliner=release", f"-inliner-{_BASE}"),
        ("clang", "opt"),
    ),
    "regalloc-eviction": (
        ("-regalloc-enable-advisor=release", f"-regalloc-evict-{_BASE}"),
        ("clang", "llc"),
    ),
    "regalloc-priority": (
        ("-regalloc-enable-priority-advisor=release", f"-regalloc-priority-{_BASE}"),
        ("clang", "llc"),
    ),
}
#: LLVM 19 writes its own decision over the feature callee_basic_block_count if it is to send it.
INCLUDES_DEFAULT = 22
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: Seconds after which another signal is meant to kill; a terminal, `timeout` and make send several.
_AGAIN = 1.0
#: Seconds that a host may take to end once its compiler has.
_ENDING = 2.0


def tool_of(command: str) -> str:
    """What the command is: clang, opt or llc. CommandError if it is none."""
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
    """Its major version; 0 if that can't be seen."""
    found = os.path.realpath(shutil.which(command) or command)
    match = re.search(r"-(\d+)(?:[\d.]*|[\d.]*/bin/[^/]*)$", found)
    if match is None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            said = subprocess.run(
                [command, "--version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=10,
                check=False,
            )
            match = re.search(r"version (\d+)\.", said.stdout)
    return 0 if match is None else int(match[1])


def flags(sites: dict[str, str], tool: str, version: int, arguments: list[str]) -> list[str]:
    """The tool's arguments with those that make it ask; `sites` has the channel of each."""
    added = [
        option + (base if option.endswith(_BASE) else "")
        for site, base in sites.items()
        for option in SITES[site][0]
    ]
    if "inliner" in sites and version >= INCLUDES_DEFAULT:
        added.append("-inliner-interactive-include-default")
    if tool != "clang":
        return [*added, *arguments]
    if arguments[:1] == ["-cc1as"]:
        return arguments
    if arguments[:1] == ["-cc1"]:
        return [*arguments, *(word for option in added for word in ("-mllvm", option))]
    # Handed to compilations alone: assembling a .S file and linking must not see it.
    words = [word for option in added for word in ("-Xclang", "-mllvm", "-Xclang", option)]
    return ["--start-no-unused-arguments", *words, "--end-no-unused-arguments", *arguments]


def must_be_there(policy: str, option: str = "--advise") -> None:
    """CommandError for a file that is missing, which is seen without opening it."""
    place = re.sub(r"^(onnx|native|aot):", "", policy).partition("?")[0]
    if re.search(r"\.py:[^:/]*$", place):
        place = place.rpartition(":")[0]
    known = os.path.splitext(place)[1] in (".onnx", ".so", ".py", ".pt", ".pt2", ".pth", ".ts")
    if known and "%" not in place and not os.path.isfile(place):
        raise CommandError(f"{option}: {place} is not there")


class Guardian:
    """A process that outlives this one, to end the compilers that it leaves and their channels.

    Without a host a compiler would wait for ever. (The kernel's own signal at a parent's death does
    not reach the compilers that a driver starts.)
    """

    def __init__(self, bases: list[str], folder: str | None = None) -> None:
        """Started before any thread. `folder` is removed with what is in it."""
        read, self._write = os.pipe()
        if os.fork() == 0:
            try:
                self._watch(read, bases, folder)
            finally:
                os._exit(0)
        os.close(read)

    def _watch(self, read: int, bases: list[str], folder: str | None) -> None:
        os.setsid()
        for number in _FORWARDED:
            signal.signal(number, signal.SIG_IGN)
        # What others wait for the end of must not stay open: a build's pipes.
        os.dup2(read, 0)
        os.closerange(1, 1 << 16)
        said = b""
        while data := os.read(0, 100):
            said += data
            if said.endswith(b"done\n"):
                return
        _end(said)
        for base in bases:
            _close(base)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def group(self, leader: Process) -> None:
        """This process group, too."""
        os.write(self._write, _told("group", leader))

    def compiler(self, process: Process, channel: tuple[File, File]) -> None:
        """This one, too, as long as it has the channel open."""
        with contextlib.suppress(OSError):
            os.write(self._write, _told("process", process, *channel[0], *channel[1]))

    def done(self) -> None:
        """All is well."""
        with contextlib.suppress(OSError):
            os.write(self._write, b"done\n")
        os.close(self._write)


def _told(kind: str, process: Process, *more: int) -> bytes:
    return " ".join(map(str, (kind, *process, *more))).encode() + b"\n"


def _end(told: bytes) -> None:
    """End these groups and processes, a line each. They may first remove what they have written."""
    ends: list[Callable[[int], bool]] = []
    for line in told.splitlines():
        with contextlib.suppress(ValueError):  # a policy has the pipe open, too
            kind, *said = line.split()
            number, began, *channel = map(int, said)
            process = Process(number, began)
            if kind == b"group":
                ends.append(process.signal_group)
            elif uses(process, *zip(channel[::2], channel[1::2], strict=True)):
                ends.append(process.signal)

    def send(number: int) -> bool:
        return sum(end(number) for end in ends) > 0

    send(signal.SIGTERM)
    until = time.monotonic() + _ENDING
    while send(0) and time.monotonic() < until:
        time.sleep(0.01)
    send(signal.SIGKILL)


def _close(base: str) -> None:
    """Remove the channel of a process that is being killed, unless it has another host."""
    until = time.monotonic() + _ENDING
    while time.monotonic() < until:
        with contextlib.suppress(Exception):  # it still has its lock
            ChannelPair(base).close()
            return
        time.sleep(0.01)


class Compiler:
    """The process and what it starts: a group of their own, so that all can be ended."""

    def __init__(self, words: list[str]) -> None:
        # Read from a terminal, which only the group in front may: it stays in that.
        self._own_group = not ("-" in words and os.isatty(0))
        bind = bound_to_this()

        def before() -> None:
            if self._own_group:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            # A group is ended by the guardian in any case.
            if not bind(signal.SIGTERM if self._own_group else signal.SIGKILL):
                os._exit(FAILED)

        try:
            self.process = subprocess.Popen(words, close_fds=False, preexec_fn=before)
        except OSError as error:
            raise CommandError(f"{words[0]}: {error.strerror}") from None

    @property
    def group(self) -> Process | None:
        """The leader of its group; None if that is this process's own."""
        return Process.of(self.process.pid) if self._own_group else None

    def signal(self, number: int) -> None:
        """To all of it; nothing if it has ended."""
        with contextlib.suppress(OSError):
            if self.process.returncode is None:
                if self._own_group:
                    os.killpg(self.process.pid, number)
                else:
                    os.kill(self.process.pid, number)

    def wait(self) -> int:
        """Its exit code as a shell has it, once it has ended; signals to this one go to it too."""
        first: float | None = None

        def forward(number: int, frame: FrameType | None) -> None:
            nonlocal first
            first = first or time.monotonic()
            again = time.monotonic() > first + _AGAIN
            self.signal(signal.SIGKILL if again else number)

        with _on(forward):
            code = self.process.wait()
        return 128 - code if code < 0 else code


@contextlib.contextmanager
def _on(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {}
    for number in _FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


class Answering(threading.Thread):
    """Answers the compiler at one site, on a thread; ends the compiler if that fails."""

    def __init__(
        self, options: argparse.Namespace, site: str, policy: str, pair: ChannelPair
    ) -> None:
        super().__init__(name=f"mlbridge {site}", daemon=True)
        self.site = site
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
            from ..interactive import InteractiveHost

            self.host = InteractiveHost(
                self.pair,
                self._policy,
                deadline=self._options.deadline,
                missing=self._options.missing,
                on_failure=self._options.on_failure,
                log=self._options.log,
            )
            self.host.serve()
        except Exception as error:  # whatever it is, nobody answers any more
            self.failure = str(error) or type(error).__name__
        if self.failure and self.compiler is not None:
            self.compiler.signal(signal.SIGKILL)

    def finish(self) -> dict[str, Any]:
        """Its statistics, once the compiler has ended."""
        if self.host is not None:
            self.host.stop()
        self.pair.wake()
        self.join(_ENDING)
        return {} if self.host is None else self.host.statistics.described()


def run(options: argparse.Namespace) -> int:
    """Run the compiler; its exit code, or 1 if the policy failed and must not."""
    words: list[str] = options.build
    if not words:
        raise UsageError("state the compiler and its arguments after --")
    advised = dict(options.advise)
    if not advised or len(advised) != len(options.advise):
        raise UsageError("state each site once: --advise SITE=POLICY")
    tool = tool_of(words[0])
    for site, policy in advised.items():
        if tool not in SITES[site][1]:
            raise UsageError(f"--advise {site}: {tool} does not decide that")
        must_be_there(policy)
        if any(word.lstrip("-").startswith(f"{site}-model=") for word in words):
            raise UsageError(
                f"--advise {site}: the compiler's own arguments ask a model for that already "
                f"(mlbridge flags {site}); leave one of them out"
            )
    if options.log:
        try:
            os.makedirs(options.log, exist_ok=True)
        except OSError as error:
            raise CommandError(f"--log: {options.log} is no folder: {error.strerror}") from None
    if options.json:
        must_be_writable("--json", options.json)
    code, ended = supervised(lambda tell: advise(options, words, tool, tell))
    if ended:
        named = ", ".join(f"{site}={policy}" for site, policy in advised.items())
        print(
            f"mlbridge run: the host of {named} was ended {ended}; the compiler is, too",
            file=sys.stderr,
        )
        if options.json:
            write_statistics(options.json, code, {})
    return code


def write_statistics(path: str, code: int, sites: dict[str, dict[str, Any]]) -> None:
    """What --json says; without sites if the host has not lived to tell."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"exit-code": code, "sites": sites}, file)


def supervised(body: Callable[[int], int]) -> tuple[int, str]:
    """The exit code of `body`, which runs in a process of its own, and how that was ended if not by
    `body`. Then the process groups that it has written to its pipe, a line each, are ended, too.

    A policy may end its process, with 0: the build must not take that for the compiler's success.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    bind = bound_to_this()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            if bind(signal.SIGKILL):
                code = body(tell)
        except CommandError as error:
            print(f"mlbridge run: {' '.join(str(error).split())}", file=sys.stderr)
            code = error.code
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os.write(tell, b"done")
            # The interpreter's own end is aborted by a thread that comes back from a policy.
            os._exit(code)

    process = Process.of(child)

    def forward(number: int, frame: FrameType | None) -> None:
        if process is not None:
            process.signal(number)

    os.close(tell)
    with _on(forward):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.set_blocking(told, False)  # the policy's own processes may have it open
    with open(told, "rb", buffering=0) as pipe:
        said = pipe.read(1000) or b""
    if said.endswith(b"done"):
        return code, ""
    _end(said)
    if code >= 0:
        return FAILED, f"with exit code {code}"
    return 128 - code, f"by signal {-code}"


def advise(options: argparse.Namespace, words: list[str], tool: str, tell: int) -> int:
    """Run the compiler, whose process group `tell` gets, with a host for each site."""
    advised = dict(options.advise)
    folder = tempfile.mkdtemp(prefix="mlbridge-run-")
    bases = {site: os.path.join(folder, site) for site in advised}
    guardian = Guardian(list(bases.values()), folder)
    threads: list[Answering] = []
    try:
        for site, policy in advised.items():
            pair = ChannelPair(bases[site], guardian.compiler)
            threads.append(Answering(options, site, policy, pair))
        version = version_of(words[0]) if "inliner" in bases else 0
        compiler = Compiler([words[0], *flags(bases, tool, version, words[1:])])
        if (group := compiler.group) is not None:
            guardian.group(group)
            os.write(tell, _told("group", group))
        for thread in threads:
            thread.compiler = compiler
            thread.start()
        with first_traceback():
            code = compiler.wait()
            told = {thread.site: thread.finish() for thread in threads}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        guardian.done()
    report(threads, told)
    broken = any(numbers.get("broken") for numbers in told.values())
    if any(thread.failure for thread in threads) or (broken and code == 0):
        code = FAILED
    if options.json:
        write_statistics(options.json, code, told)
    return code


@contextlib.contextmanager
def first_traceback() -> Iterator[None]:
    """Shows that alone of a policy that fails, which may be asked thousands of times."""
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


def report(threads: list[Answering], told: dict[str, dict[str, Any]]) -> None:
    """Say what went wrong."""
    for thread in threads:
        numbers = told[thread.site]
        text = thread.failure or numbers.get("first-broken", "")
        if not text and numbers.get("defaults"):
            text = (
                f"{numbers['defaults']} of {numbers['decisions']} decisions are the default: "
                f"{numbers.get('first-failure')}"
            )
        if text:
            print(f"mlbridge run: {thread.site}: {' '.join(text.split())}", file=sys.stderr)
        if "log-failure" in numbers:
            print(f"mlbridge run: {numbers['log-failure']}; not logged", file=sys.stderr)
