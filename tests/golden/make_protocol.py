#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes tests/golden/protocol: messages of docs/protocol.md, good and bad.

A second implementation, from the page alone and without the library: the two check each other.
Usage: make_protocol.py [--check]   (--check: compare with the files instead of writing them)
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "protocol"
KINDS = {
    "hello": 1,
    "welcome": 2,
    "open-stream": 3,
    "stream-opened": 4,
    "request": 5,
    "reply": 6,
    "error": 7,
    "cancel": 8,
    "ping": 9,
    "pong": 10,
    "busy": 11,
    "close-stream": 12,
    "reset": 13,
    "step": 14,
    "episode-begin": 15,
    "reward": 16,
    "episode-end": 17,
    "statistics": 18,
    "bye": 19,
    "turn": 20,
    "last": 21,
}
NEVER = 2**64 - 1
NONCE = bytes(range(16))


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def frame(
    kind: int | str,
    payload: bytes = b"",
    *,
    flags: int = 0,
    stream: int = 0,
    request: int = 0,
    left: int = NEVER,
    length: int | None = None,
    magic: bytes = b"MLBF",
    damage: int | None = None,
) -> bytes:
    number = KINDS[kind] if isinstance(kind, str) else kind
    size = len(payload) if length is None else length
    rest = struct.pack("<QHHIQQ", size, number, flags, stream, request, left)
    header = magic + struct.pack("<I", crc32c(magic + bytes(4) + rest)) + rest
    if damage is not None:
        header = header[:damage] + bytes([header[damage] ^ 0x10]) + header[damage + 1 :]
    return header + payload


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def mapping(values: dict[str, str]) -> bytes:
    return struct.pack("<I", len(values)) + b"".join(
        text(k) + text(values[k]) for k in sorted(values)
    )


def spec(name: str, kind: int, shape: list[int], maximum: list[int] | None = None) -> bytes:
    out = text(name) + struct.pack("<BBB", kind, len(shape), maximum is not None)
    return (
        out
        + struct.pack(f"<{len(shape)}q", *shape)
        + struct.pack(f"<{len(maximum or [])}q", *(maximum or []))
    )


def signature(inputs: list[bytes], outputs: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(side)) + b"".join(side) for side in (inputs, outputs))


SUM = signature([spec("x", 10, [4]), spec("k", 4, [])], [spec("sum", 10, []), spec("twice", 4, [])])
GRAPH = signature(
    [spec("nodes", 10, [-1, 100], [600, 0]), spec("name", 13, [])], [spec("colour", 4, [1])]
)
HELLO = b"MLBRIDGE" + struct.pack("<HH", 1, 0) + NONCE + struct.pack("<Q", 1 << 28)
REQUEST = struct.pack("<4fq", 1.0, 2.0, 3.0, 4.5, 21)
REPLY = struct.pack("<f4xq", 10.5, 42)


def welcome(
    sign: bytes | None,
    metadata: dict[str, str],
    role: int | None = None,
    agents: dict[str, bytes] | None = None,
) -> bytes:
    out = HELLO + text("bitstream") + text("golden")
    out += (b"\0" if sign is None else b"\1" + sign) + mapping(metadata)
    if role is not None:
        out += struct.pack("<B", role)
    if agents:
        out += struct.pack("<I", len(agents))
        out += b"".join(text(name) + own for name, own in agents.items())
    return out


def turn(agent: int, rewards: list[float], count: int | None = None) -> bytes:
    size = len(rewards) if count is None else count
    return struct.pack(f"<II{len(rewards)}d", agent, size, *rewards)


NOBODY = 2**32 - 1


GOOD: dict[str, bytes] = {
    "hello": frame("hello", HELLO + text("bitstream") + text("golden")),
    "hello-of-a-later-minor-version": frame(
        "hello",
        b"MLBRIDGE"
        + struct.pack("<HH", 1, 7)
        + NONCE
        + struct.pack("<Q", 4096)
        + text("json")
        + text("")
        + b"more",
    ),
    "welcome-any-signature": frame("welcome", welcome(None, {})),
    "welcome": frame("welcome", welcome(SUM, {"a": "1", "phase": "ordering ü"})),
    "welcome-of-an-environment": frame("welcome", welcome(SUM, {}, role=1)),
    "welcome-of-several-agents": frame(
        "welcome", welcome(None, {"a": "1"}, role=0, agents={"node": SUM, "colour ü": GRAPH})
    ),
    "welcome-of-an-environment-of-several-agents": frame(
        "welcome", welcome(None, {}, role=1, agents={"node": SUM, "colour": GRAPH})
    ),
    "open-stream": frame("open-stream", SUM + text("") + text("episode 7") + text("a.c"), stream=1),
    "open-stream-dynamic": frame(
        "open-stream", GRAPH + text("colour") + text("") + text(""), stream=4294967295
    ),
    "stream-opened": frame("stream-opened", stream=1),
    "request": frame("request", REQUEST, stream=1, request=1, left=5_000_000_000),
    "reply": frame("reply", REPLY, stream=1, request=1),
    "error": frame(
        "error", struct.pack("<i", 5) + text("the policy raised ValueError"), stream=1, request=2
    ),
    "cancel": frame("cancel", stream=1, request=3),
    "ping": frame("ping", b"12345678", request=9),
    "pong": frame("pong", b"12345678", request=9),
    "busy": frame("busy", struct.pack("<Q", 1_000_000) + text("64 connections")),
    "close-stream": frame("close-stream", stream=1),
    "reset": frame("reset", text("b.c") + struct.pack("<Q", 42), stream=1, request=1),
    "step": frame("step", REPLY, stream=1, request=2),
    "observation-that-ends-the-episode": frame("reply", b"", flags=2, stream=1, request=2),
    "episode-begin": frame("episode-begin", text("7") + text("a.c"), stream=1),
    "reward": frame("reward", struct.pack("<d", -0.25), stream=1),
    "episode-end": frame(
        "episode-end", struct.pack("<i", 0) + text("") + struct.pack("<Q", 12), stream=1
    ),
    "episode-end-by-a-limit": frame(
        "episode-end", struct.pack("<i", 0) + text("") + struct.pack("<QB", 12, 1), stream=1
    ),
    "turn": frame("turn", turn(1, [0.5, -2.0]), stream=1),
    "turn-of-nobody": frame("turn", turn(NOBODY, [0.0, 10.0]), stream=1),
    "observation-that-a-limit-ends": frame("reply", b"", flags=2 | 8, stream=1, request=2),
    "last-observation": frame("last", REQUEST, flags=1, stream=1, request=2),
    "statistics-request": frame("statistics", request=1),
    "statistics": frame("statistics", mapping({"requests": "7", "errors": "0"}), request=1),
    "bye": frame("bye", text("the server stopped")),
    "unknown-kind-skippable": frame(999, b"whatever", flags=1),
}

# name -> (bytes, code, what a receiver does)
X = spec("x", 10, [])
BAD: dict[str, tuple[bytes, str]] = {
    "garbage": (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "protocol"),
    "garbage-short": (b"ok\n", "protocol"),
    "wrong-magic": (frame("hello", HELLO, magic=b"MLBG"), "protocol"),
    "damaged-length": (frame("ping", damage=9), "protocol"),
    "damaged-kind": (frame("ping", damage=16), "protocol"),
    "damaged-checksum": (frame("ping", damage=5), "protocol"),
    "length-of-2-to-the-60": (
        frame("request", b"", stream=1, request=1, length=1 << 60),
        "limit exceeded",
    ),
    "length-of-all-ones": (
        frame("request", b"", stream=1, request=1, length=NEVER),
        "limit exceeded",
    ),
    "hello-truncated": (frame("hello", HELLO[:20]), "protocol"),
    "hello-wrong-magic": (
        frame("hello", b"MLBRIDGF" + HELLO[8:] + text("json") + text("")),
        "protocol",
    ),
    "hello-of-another-major-version": (
        frame("hello", b"MLBRIDGE" + struct.pack("<HH", 2, 0) + b"unknown from here"),
        "protocol",
    ),
    "hello-serdes-length": (
        frame("hello", HELLO + struct.pack("<I", 0xFFFFFFFF) + b"json"),
        "protocol",
    ),
    "open-stream-too-many-specs": (
        frame("open-stream", struct.pack("<I", 0xFFFFFFFF), stream=1),
        "protocol",
    ),
    "open-stream-rank-255": (
        frame("open-stream", struct.pack("<I", 1) + text("x") + bytes([10, 255, 0]), stream=1),
        "protocol",
    ),
    "open-stream-element-type-77": (
        frame("open-stream", signature([spec("x", 77, [])], []) + text("") * 3, stream=1),
        "protocol",
    ),
    "open-stream-length-minus-2": (
        frame("open-stream", signature([spec("x", 10, [-2])], []) + text("") * 3, stream=1),
        "protocol",
    ),
    "open-stream-double-name": (
        frame("open-stream", signature([X, X], []) + text("") * 3, stream=1),
        "protocol",
    ),
    "open-stream-truncated": (frame("open-stream", SUM[:-3], stream=1), "protocol"),
    "welcome-role-7": (frame("welcome", welcome(SUM, {}, role=7)), "protocol"),
    "welcome-too-many-agents": (
        frame("welcome", welcome(None, {}, role=1) + struct.pack("<I", NOBODY)),
        "protocol",
    ),
    "welcome-agents-of-one-name": (
        frame("welcome", welcome(None, {}, role=1) + struct.pack("<I", 2) + 2 * (text("a") + SUM)),
        "protocol",
    ),
    "turn-truncated": (frame("turn", struct.pack("<I", 1), stream=1), "protocol"),
    "turn-too-many-rewards": (frame("turn", turn(0, [1.0], count=NOBODY), stream=1), "protocol"),
    "turn-rewards-missing": (frame("turn", turn(0, [1.0], count=2), stream=1), "protocol"),
    "reward-truncated": (frame("reward", b"\0\0\0", stream=1), "protocol"),
    "episode-end-truncated": (frame("episode-end", struct.pack("<i", 0), stream=1), "protocol"),
}


def index() -> dict[str, Any]:
    return {
        "good": sorted(GOOD),
        "bad": {name: code for name, (_, code) in sorted(BAD.items())},
        "conversation": {
            "to-server": ["hello", "open-stream", "request"],
            "from-server": ["reply"],
            "comment": "after a welcome to the hello's nonce",
        },
    }


def main() -> int:
    files = {f"good/{name}.bin": data for name, data in GOOD.items()}
    files |= {f"bad/{name}.bin": data for name, (data, _) in BAD.items()}
    files["index.json"] = (json.dumps(index(), indent=1) + "\n").encode()
    if "--check" in sys.argv[1:]:
        wrong = [name for name, data in files.items() if (FOLDER / name).read_bytes() != data]
        print(f"{len(files) - len(wrong)} golden files as generated, {len(wrong)} not: {wrong}")
        return bool(wrong)
    for name, data in files.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
