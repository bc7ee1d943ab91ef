# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What hostile peers do; the wire is spoken by hand.

attacks.py NAME SOCKET ROUNDS SIZE [SECONDS]: attacks what is behind a Unix socket with so
many rounds, or as many as begin within SECONDS; says "begun" after the handshake of the first, and
at the end, as JSON, what became of it. SIZE scales a round: 1 in the benchmark.
"""

from __future__ import annotations

import contextlib
import functools
import json
import select
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python" / "tests")]

from wire import Frame, protocol  # noqa: E402

frame = functools.lru_cache(maxsize=100_000)(protocol.frame)
FLOAT, INT64, STRING = 10, 4, 13
NAMES = {number: name for name, number in protocol.KINDS.items()}
PATIENCE = 170.0
TEXTS = protocol.signature([protocol.spec("s", STRING, [-1])], [protocol.spec("n", INT64, [])])
HELLO = frame(
    "hello", protocol.HELLO[:-8] + struct.pack("<Q", 1 << 28) + protocol.text("bitstream") * 2
)


def opening(stream: int, signature: bytes = protocol.SUM, context: str = "") -> bytes:
    rest = protocol.text("") * 2 + protocol.text(context)
    return bytes(frame("open-stream", signature + rest, stream=stream))


class Attacker:
    """Connections, and what became of them."""

    def __init__(self, path: str, size: float) -> None:
        self.path = path
        self.size = size
        self.seen: Counter[str] = Counter()
        self.told: Counter[int] = Counter()
        self.closed = 0
        self.begun = False

    def count(self, number: int) -> int:
        return max(1, round(number * self.size))

    def connect(self) -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.settimeout(30)
        end.connect(self.path)
        end.setblocking(False)
        return end

    def greet(self) -> socket.socket:
        end = self.connect()
        self.pour(end, HELLO, until="welcome")
        if not self.begun:
            self.begun = True
            print("begun", flush=True)
        return end

    def pour(
        self, end: socket.socket, data: bytes, *, reads: bool = True, until: str | None = None
    ) -> bool:
        """Sends it all, reading meanwhile; then waits for an answer. False if it was closed."""
        rest, come = memoryview(data), bytearray()
        limit = time.monotonic() + PATIENCE
        found = until is None
        while rest or not found:
            if time.monotonic() > limit:
                raise TimeoutError(f"{len(rest)} bytes unsent, {until} awaited")
            readable, writable, _ = select.select(
                [end] if reads else [], [end] if rest else [], [], 1
            )
            try:
                if writable:
                    rest = rest[end.send(rest[:262144]) :]
                if readable:
                    more = end.recv(262144)
                    if not more:
                        raise ConnectionResetError
                    come += more
                    found = self._frames(come, until) or found
            except BlockingIOError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                with contextlib.suppress(OSError):
                    while more := end.recv(262144):
                        come += more
                self._frames(come, None)
                self.closed += 1
                return False
        return True

    def _frames(self, come: bytearray, until: str | None) -> bool:
        found, at = False, 0
        while len(come) - at >= 40:
            (size, kind) = struct.unpack_from("<QH", come, at + 8)
            if len(come) - at < 40 + size:
                break
            name = NAMES[kind]
            self.seen[name] += 1
            found |= name == until
            if name == "error":
                self.told[
                    Frame(bytes(come[at : at + 40]), bytes(come[at + 40 : at + 40 + size])).error()[
                        0
                    ]
                ] += 1
            at += 40 + size
        del come[:at]
        return found


def statistics(a: Attacker) -> None:
    """Asks for statistics as fast as it can."""
    with a.greet() as end:
        a.pour(end, frame("statistics", request=1) * a.count(20_000))
        a.pour(end, frame("ping", request=1), until="pong")


def unread(a: Attacker, kind: str, payload: bytes = b"") -> None:
    """Six ask and never read, until they are closed."""
    ends = [a.greet() for _ in range(6)]
    data = memoryview(bytes(frame(kind, payload, request=1)) * 4096)
    sent = dict.fromkeys(ends, 0)
    limit = time.monotonic() + 20
    for _ in range(a.count(2000)):
        _, writable, _ = select.select([], list(sent), [], 0.05)
        for end in writable:
            try:
                sent[end] = (sent[end] + end.send(data[sent[end] :])) % len(data)
            except BlockingIOError:
                continue
            except OSError:
                a.closed += 1
                del sent[end]
        if not sent or time.monotonic() > limit:
            break
    for end in ends:
        end.close()


def contexts(a: Attacker) -> None:
    """74 streams with contexts of 20 MB."""
    with a.greet() as end:
        data = opening(1, context="c" * 20_000_000)
        for _ in range(74):
            if not a.pour(end, data):
                return


def many_contexts(a: Attacker) -> None:
    """As many streams as can be with contexts of 900 KB."""
    with a.greet() as end:
        rest = protocol.SUM + protocol.text("") * 2 + protocol.text("c" * 900_000)
        for stream in range(1, a.count(1000) + 1):
            if not a.pour(end, protocol.frame("open-stream", rest, stream=stream)):
                return


def empty_strings(a: Attacker) -> None:
    """Requests of 60 MB of empty strings."""
    number = a.count(7_500_000)
    with a.greet() as end:
        a.pour(end, opening(1, TEXTS))
        data = struct.pack("<Q", number) + bytes(8 * number)
        for request in (1, 2):
            head = bytes(protocol.frame("request", data, stream=1, request=request))
            if not a.pour(end, head, until="error" if a.size == 1 else None):
                return
        a.pour(end, frame("ping", request=1), until="pong")


def half_handshakes(a: Attacker) -> None:
    """Many that connect and say nothing, or half of it, for as long as they may."""
    with a.greet():
        pass
    ends = []
    for i in range(a.count(2000 if a.path.endswith("direct") else 200)):
        try:
            end = a.connect()
        except OSError:
            continue
        ends.append(end)
        with contextlib.suppress(OSError):
            end.send(HELLO[: i % len(HELLO)])
    limit = time.monotonic() + 30
    waiting = select.poll()
    left = {end.fileno(): end for end in ends}
    for number in left:
        waiting.register(number, select.POLLIN)
    while left and time.monotonic() < limit:
        for number, _ in waiting.poll(1000):
            with contextlib.suppress(OSError):
                if left[number].recv(65536):
                    continue
            a.closed += 1
            waiting.unregister(number)
            del left[number]
    for end in ends:
        end.close()


@functools.lru_cache
def _signature(tensors: int) -> bytes:
    specs = [protocol.spec(f"{i:x}", FLOAT, []) for i in range(tensors)]
    return bytes(protocol.signature(specs, [protocol.spec("n", INT64, [])]))


def many_tensors(a: Attacker) -> None:
    """Streams of 20 000 inputs."""
    data = b"".join(opening(i, _signature(20_000)) for i in range(1, 11))
    with a.greet() as end:
        for _ in range(a.count(20)):
            if not a.pour(end, data):
                return
        a.pour(end, frame("ping", request=1), until="pong")


def allowed_tensors(a: Attacker) -> None:
    """Streams of as many inputs as are taken, opened and closed."""
    data = b"".join(
        opening(i, _signature(1000)) + frame("close-stream", stream=i) for i in range(1, 21)
    )
    with a.greet() as end:
        for _ in range(a.count(50)):
            if not a.pour(end, data):
                return
        a.pour(end, frame("ping", request=1), until="pong")


def requests(a: Attacker) -> None:
    """A thousand streams ask at once, again and again."""
    streams = range(1, a.count(1000) + 1)
    with a.greet() as end:
        a.pour(end, b"".join(map(opening, streams)))
        for request in range(1, 4):
            a.pour(
                end,
                b"".join(
                    frame("request", protocol.REQUEST, stream=s, request=request) for s in streams
                ),
            )
        a.pour(end, frame("ping", request=1), until="pong")


def rewards(a: Attacker) -> None:
    """Rewards on a hundred streams."""
    streams = range(1, 101)
    payload = struct.pack("<d", 1.0)
    with a.greet() as end:
        a.pour(end, b"".join(map(opening, streams)))
        data = b"".join(frame("reward", payload, stream=s) for s in streams)
        for _ in range(a.count(500)):
            a.pour(end, data)
        a.pour(end, frame("ping", request=1), until="pong")


def stated_lengths(a: Attacker) -> None:
    """Sixty that state 100 MB and send one."""
    ends = []
    for _ in range(60):
        end = a.greet()
        ends.append(end)
        a.pour(end, opening(1) + frame("request", b"", length=100_000_000, stream=1, request=1))
        a.pour(end, bytes(a.count(1_000_000)))
    limit = time.monotonic() + 20
    while ends and not a.closed and time.monotonic() < limit:
        for end in select.select(ends, [], [], 1)[0]:
            come = bytearray()
            try:
                while more := end.recv(262144):
                    come += more
            except BlockingIOError:
                continue
            except ConnectionResetError:
                pass
            a._frames(come, None)
            a.closed += 1
            ends.remove(end)
    for end in ends:
        end.close()


def connects(a: Attacker) -> None:
    """Connects, greets and goes."""
    for _ in range(a.count(300)):
        a.greet().close()


def hellos(a: Attacker) -> None:
    """Greets over and over."""
    with a.greet() as end:
        a.pour(end, HELLO * a.count(20_000))
        a.pour(end, frame("ping", request=1), until="pong")


def wrong_sizes(a: Attacker) -> None:
    """Requests of 4 MB where 24 bytes are expected."""
    data = bytes(protocol.frame("request", bytes(4_000_000), stream=1, request=1))
    with a.greet() as end:
        a.pour(end, opening(1))
        for _ in range(a.count(50)):
            a.pour(end, data, until="error")


def cancels(a: Attacker) -> None:
    """Cancels what was never asked."""
    data = b"".join(frame("cancel", stream=1, request=i) for i in range(1, 5001))
    with a.greet() as end:
        for _ in range(a.count(10)):
            a.pour(end, data)
        a.pour(end, frame("ping", request=1), until="pong")


def open_and_close(a: Attacker) -> None:
    """Streams that come and go."""
    data = b"".join(opening(i) + frame("close-stream", stream=i) for i in range(1, 1001))
    with a.greet() as end:
        for _ in range(a.count(100)):
            a.pour(end, data)
        a.pour(end, frame("ping", request=1), until="pong")


def resets(a: Attacker) -> None:
    """Resets an environment that another one drives, with contexts of 500 KB."""
    payload = protocol.text("c" * 500_000) + struct.pack("<Q", 7)
    with a.greet() as end:
        a.pour(end, opening(1))
        data = bytes(protocol.frame("reset", payload, stream=1, request=1))
        for _ in range(a.count(200)):
            if not a.pour(end, data):
                return
        a.pour(end, frame("ping", request=1), until="pong")


#: The attacks; of each what is attacked, "model" or "environment", and whether it is closed for it.
ATTACKS: dict[str, tuple[Callable[[Attacker], None], str, bool]] = {
    "statistics": (statistics, "model", False),
    "statistics-unread": (functools.partial(unread, kind="statistics"), "model", True),
    "pings-unread": (functools.partial(unread, kind="ping", payload=bytes(64)), "model", True),
    "contexts-20-mb": (contexts, "model", True),
    "contexts-900-kb": (many_contexts, "model", True),
    "empty-strings": (empty_strings, "model", False),
    "half-handshakes": (half_handshakes, "model", True),
    "tensors-20000": (many_tensors, "model", False),
    "tensors-1000": (allowed_tensors, "model", False),
    "requests": (requests, "model", False),
    "rewards": (rewards, "model", False),
    "stated-lengths": (stated_lengths, "model", True),
    "connects": (connects, "model", False),
    "hellos": (hellos, "model", False),
    "wrong-sizes": (wrong_sizes, "model", False),
    "cancels": (cancels, "model", False),
    "open-and-close": (open_and_close, "environment", False),
    "resets": (resets, "environment", False),
}


def main(name: str, path: str, rounds: str, size: str, seconds: str = "0") -> int:
    """Attack, and say what became of it."""
    attacker = Attacker(path, float(size))
    until = time.monotonic() + float(seconds)
    done = 0
    while done < int(rounds) or time.monotonic() < until:
        ATTACKS[name][0](attacker)
        done += 1
    print(
        json.dumps(
            {
                "rounds": done,
                "closed": attacker.closed,
                "told": dict(attacker.told),
                "seen": dict(attacker.seen),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
