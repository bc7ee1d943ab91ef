# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Servers that are attacked, good clients beside the attackers. target.py serve KIND URI."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from attacks import HELLO, frame

import mlbridge
from wire import Peer  # attacks.py has put it on the path

HERE = Path(__file__).resolve().parent
DEV = HERE.parents[1] / "build" / "cmake" / "dev"
SUM = mlbridge.Signature(
    [mlbridge.TensorSpec("x", "float32", [4]), mlbridge.TensorSpec("k", "int64")],
    [mlbridge.TensorSpec("sum", "float32"), mlbridge.TensorSpec("twice", "int64")],
)


def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> dict[str, Any]:
    """Adds and doubles; of other signatures, whose outputs are one number, nothing."""
    if "x" not in observation:
        return {"n": 0}
    return {"sum": observation["x"].sum(), "twice": 2 * observation["k"]}


class Counting:
    """Shows the sum of the last action's numbers."""

    def reset(self, unit: str, seed: int) -> dict[str, Any]:
        """Nothing yet."""
        return {"x": np.zeros(4, np.float32), "k": 0}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], float, bool]:
        """What the action was."""
        return {"x": np.zeros(4, np.float32), "k": action["twice"]}, 1.0, False


def serve(kind: str, uri: str) -> None:
    """Until it is ended. A model takes every signature."""

    def ready(server: mlbridge.Server) -> None:
        print("ready", server.address, flush=True)

    if kind == "environment":
        mlbridge.serve_environment(Counting(), uri, SUM, ready=ready)
    else:
        mlbridge.serve(policy, uri, ready=ready)


class Target:
    """A server of this kind, the good client's way to it, and the socket that attackers take."""

    def __init__(self, process: subprocess.Popen[str], uri: str, path: str, kind: str) -> None:
        self.process = process
        self.uri = uri
        self.socket = path
        self._kind = kind
        self._number = 0
        if kind == "environment":
            self._driver = mlbridge.drive(uri, deadline=60)
            self._driver.reset()
        else:
            self._runner = mlbridge.open(uri, SUM, deadline=60)

    def ask(self) -> None:
        """One round of the good client, whose answer must be right."""
        self._number += 1
        if self._kind == "environment":
            seen, reward, done = self._driver.step({"sum": 1.0, "twice": self._number})
            assert (int(seen["k"]), reward, done) == (self._number, 1.0, False), seen
        else:
            answer = self._runner.evaluate(x=[1, 2, 3, self._number % 100], k=self._number)
            assert answer["twice"] == 2 * self._number, answer
            assert answer["sum"] == 6 + self._number % 100, answer

    def statistics(self) -> dict[str, int]:
        """What the server says of itself."""
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(self.socket)
            peer = Peer(end)
            peer.send(HELLO, frame("statistics", request=1))
            said = peer.until("statistics").payload
        texts, at = [], 4
        while at < len(said):
            (size,) = struct.unpack_from("<I", said, at)
            texts.append(said[at + 4 : at + 4 + size].decode())
            at += 4 + size
        return {k: int(v) for k, v in zip(texts[::2], texts[1::2], strict=True) if v.isdigit()}

    def memory(self, field: str = "VmHWM") -> float:
        """In MB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"no {field}")

    def forget_peak(self) -> None:
        """VmHWM begins anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def attack(
        self, name: str, *, rounds: int = 1, size: float = 1, seconds: float = 0, nice: int = 0
    ) -> subprocess.Popen[str]:
        """Started; it has begun."""
        command = [
            "nice",
            "-n",
            str(nice),
            sys.executable,
            str(HERE / "attacks.py"),
            name,
            self.socket,
        ]
        command += [str(rounds), str(size), str(seconds)]
        attacker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert attacker.stdout is not None and attacker.stdout.readline() == "begun\n"
        return attacker


def outcome(attacker: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says of itself at the end."""
    attacker.wait(200)
    assert attacker.returncode == 0, f"the attacker ended with {attacker.returncode}"
    assert attacker.stdout is not None
    # Not by communicate, which misses what was read together with the first line.
    return dict(json.loads(attacker.stdout.read()))


@contextlib.contextmanager
def target(transport: str, kind: str, folder: Path) -> Iterator[Target]:
    """A server of its own process, and a relay to it if Python can't speak to it by itself."""
    place = "127.0.0.1:0" if transport == "grpc" else f"{folder}/s"
    with contextlib.ExitStack() as stack:

        def start(*command: str) -> tuple[subprocess.Popen[str], str]:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            assert process.stdout is not None
            return process, process.stdout.readline()

        command = [sys.executable, str(HERE / "target.py"), "serve", kind, f"{transport}:{place}"]
        process, said = start(*command)
        uri = said.removeprefix("ready ").strip()
        path = f"{folder}/direct"
        if transport == "unix":
            Path(path).symlink_to(place)
        else:
            path = f"{folder}/relay"
            program = os.environ.get("MLBRIDGE_ATTACK_RELAY", str(DEV / "tests" / "attack-relay"))
            environment = {"MLBRIDGE_COMPONENT_PATH": str(DEV / "lib" / "mlbridge"), **os.environ}
            start(
                "env",
                *(f"{k}={v}" for k, v in environment.items()),
                "nice",
                "-n",
                "19",
                program,
                uri,
                path,
            )
        yield Target(process, uri, path, kind)


if __name__ == "__main__":
    assert sys.argv[1] == "serve"
    serve(*sys.argv[2:])
