# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several agents: environments that are driven, and servers that are asked."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import Signature, TensorSpec, Turn
from mlbridge.driving import Step
from serving import on_a_thread, running
from wire import Peer, connected, fake_server, protocol

PICK = Signature([TensorSpec("sizes", "int64", [None])], [TensorSpec("which", "int64")])
PAINT = Signature([TensorSpec("size", "int64")], [TensorSpec("rgb", "float32", [3])])
AGENTS = {"pick": PICK, "paint": PAINT}


class Workshop:
    """Pick one of the things that are left, paint it, until there is none."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def reset(self, unit: str, seed: int) -> Turn:
        """So many things."""
        self.sizes = list(range(1, seed + 1))
        self.log = []
        if unit == "unknown":
            return Turn("nobody", {})
        return Turn("pick", {"sizes": self.sizes})

    def step(
        self, agent: str, action: Mapping[str, Any]
    ) -> Step[Turn | list[Turn], Mapping[str, float]]:
        """Pick or paint, sixteen times at most."""
        if agent == "pick":
            self.at = int(action["which"])
            self.log.append(f"pick {self.at}")
            turn = Turn("paint", {"size": self.sizes[self.at]})
            return turn, {"pick": 0.5}, False, len(self.log) == 16
        self.log.append(f"paint {action['rgb'][2]:g}")
        size = self.sizes.pop(self.at)
        rewards = {"pick": 1.0, "paint": float(size)}
        if self.sizes:
            return Turn("pick", {"sizes": self.sizes}), rewards, False, len(self.log) == 16
        return [Turn("pick", {"sizes": []}), Turn("paint", {"size": size})], rewards, True


PLAYED = ["pick 2", "paint 3", "pick 1", "paint 2", "pick 0", "paint 1"]


def decide(agent: str, observation: Mapping[str, Any]) -> Any:
    if agent == "pick":
        return int(observation["sizes"].argmax())
    return np.array([0, 0, observation["size"]], np.float32)


@contextlib.contextmanager
def workshop_at(uri: str, environment: Workshop | None = None) -> Iterator[str]:
    served = (environment or Workshop(), uri, AGENTS)
    with on_a_thread(mlbridge.serve_environment, *served, keep_serving=True) as state:
        yield state.uri


@pytest.fixture(params=["unix", "shm", "pipe"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}:{tmp_path}/s"


@pytest.mark.parametrize("serdes", ["bitstream", "json", "protobuf"])
def test_several_agents_are_driven_in_turn(uri: str, serdes: str) -> None:
    environment = Workshop()
    with (
        workshop_at(uri, environment),
        mlbridge.drive(f"{uri}?serdes={serdes}", deadline=20) as driver,
    ):
        assert driver.agents == AGENTS
        for _ in range(2):
            observation = driver.reset("module", seed=3)
            assert driver.agent == "pick"
            assert driver.signature == PICK
            turns, rewards = ["pick"], []
            while not driver.done:
                observation, reward, done = driver.step(decide(driver.agent, observation))
                rewards.append(reward)
                turns.append(driver.agent)
            assert done
            assert not driver.truncated
            assert observation["size"] == 1
            assert driver.agent == "paint", "which it stays"
            assert {n: {k: v.tolist() for k, v in o.items()} for n, o in last(driver)} == {
                "pick": {"sizes": []},
                "paint": {"size": 1},
            }
            assert turns == ["pick", "paint"] * 3 + ["paint"]
            # Rewards since it acted of the agent that acts next; at the end, of the last one.
            assert rewards == [0.0, 1.5, 3.0, 1.5, 2.0, 1.0]
            assert driver.rewards == {"pick": 1.5, "paint": 1.0}
            assert environment.log == PLAYED


def last(driver: mlbridge.Driver) -> list[tuple[str, dict[str, Any]]]:
    return list(driver.last_observations.items())


def test_a_limit_is_told_with_what_the_next_agent_sees(uri: str) -> None:
    with workshop_at(uri), mlbridge.drive(uri, deadline=20) as driver:
        observation = driver.reset("module", seed=9)
        while not driver.done:
            observation = driver.step(decide(driver.agent, observation)).observation
        assert driver.truncated
        assert driver.steps == 16
        assert driver.agent == "paint"
        assert observation == {}, "it is not its turn"
        [(agent, seen)] = last(driver)
        assert agent == "pick"
        assert seen["sizes"].tolist() == [1]


def test_actions_are_those_of_the_agent_whose_turn_it_is(uri: str) -> None:
    with workshop_at(uri), mlbridge.drive(uri, deadline=20) as driver:
        driver.reset("m", seed=2)
        with pytest.raises(mlbridge.InvalidArgument, match="which"):
            driver.step({"rgb": [0, 0, 1]})
        driver.step(1)
        assert driver.signature == PAINT
        driver.step({"rgb": [0, 0, 1]})
        assert driver.agent == "pick"


def test_an_agent_that_does_not_exist_fails_the_episode(uri: str) -> None:
    with workshop_at(uri), mlbridge.drive(uri, deadline=20) as driver:
        with pytest.raises(mlbridge.PolicyFailed, match="there is no agent 'nobody'"):
            driver.reset("unknown", seed=2)
        assert driver.reset("known", seed=2)["sizes"].tolist() == [1, 2]


def policy(observation: Mapping[str, Any], context: mlbridge.CallContext) -> Any:
    return decide(context.agent, observation)


def test_a_server_of_several_agents_is_asked_by_name(uri: str) -> None:
    with running(policy, uri, AGENTS):
        pick = mlbridge.open(uri, PICK, agent="pick", deadline=20)
        assert pick.evaluate_scalar(sizes=[4, 9, 2]) == 1
        if uri.startswith("pipe"):
            return  # of one connection at a time
        model = mlbridge.Model.open(uri + "?agent=paint", deadline=20)
        assert model.model_signature == PAINT
        paint = mlbridge.open(uri, PAINT, agent="paint", deadline=20)
        assert paint.evaluate(size=7)["rgb"].tolist() == [0, 0, 7]
        with pytest.raises(mlbridge.NotFound, match=r"no agent 'pint'; did you mean 'paint'\?"):
            mlbridge.open(uri, PAINT, agent="pint", deadline=20)
        with pytest.raises(mlbridge.Mismatch, match="sizes"):
            mlbridge.open(uri, PAINT, agent="pick", deadline=20)


def test_an_action_is_chosen_for_each_agent_among_those_allowed(tmp_path: Path) -> None:
    agents = {
        name: Signature(
            [TensorSpec("x", "float32", [size])], [TensorSpec("logits", "float32", [size])]
        )
        for name, size in (("small", 2), ("large", 5))
    }
    uri = f"unix:{tmp_path}/s"
    with running(lambda observation, _: observation["x"], uri, agents):
        for name, mask, value in (
            ("small", "bool", [0, 1]),
            ("large", "float32", [0, 0.5, 0, 0, 0]),
        ):
            size = len(value)
            pass_ = Signature(
                [TensorSpec("x", "float32", [size]), TensorSpec("may", mask, [size])],
                [TensorSpec("action", "int64")],
            )
            for how in ("argmax", "sample&seed=3"):
                runner = mlbridge.open(
                    f"{uri}?choose={how}&mask=may", pass_, agent=name, deadline=20
                )
                for _ in range(20):
                    assert runner.evaluate_scalar(x=range(size), may=np.array(value, mask)) == 1
                with pytest.raises(mlbridge.PolicyFailed, match="'may' allows none"):
                    runner.evaluate(x=range(size), may=np.zeros(size, mask))
        with pytest.raises(mlbridge.Mismatch, match=r"may: bool\[5\]"):
            wrong = Signature(
                [TensorSpec("x", "float32", [2]), TensorSpec("may", "bool", [5])],
                [TensorSpec("action", "int64")],
            )
            mlbridge.open(f"{uri}?choose=argmax&mask=may", wrong, agent="small", deadline=20)


def test_a_recording_passes_the_agents_on(tmp_path: Path) -> None:
    asked, recorded = f"unix:{tmp_path}/asked", f"unix:{tmp_path}/recorded"
    uri = f"{asked}?record={tmp_path}/recordings"
    with running(policy, asked, AGENTS), on_a_thread(mlbridge.forward, uri, recorded):
        pick = mlbridge.open(recorded, PICK, agent="pick", deadline=20)
        paint = mlbridge.open(recorded, PAINT, agent="paint", deadline=20)
        assert pick.evaluate_scalar(sizes=[4, 9, 2]) == 1
        assert paint.evaluate(size=7)["rgb"].tolist() == [0, 0, 7]
    (path,) = (tmp_path / "recordings").iterdir()
    first, second = mlbridge.Recording(path).episodes()
    assert (first.agent, first.signature) == ("pick", PICK)
    assert (second.agent, second.signature) == ("paint", PAINT)


# The bytes, from docs/protocol.md alone.

PICK_BYTES = protocol.signature([protocol.spec("sizes", 4, [-1])], [protocol.spec("which", 4, [])])
PAINT_BYTES = protocol.signature([protocol.spec("size", 4, [])], [protocol.spec("rgb", 10, [3])])
HELLO = protocol.frame("hello", protocol.HELLO + protocol.text("bitstream") + protocol.text(""))


def open_stream(number: int, name: str, signature: bytes) -> bytes:
    payload = signature + protocol.text(name) + 2 * protocol.text("")
    return bytes(protocol.frame("open-stream", payload, stream=number))


def test_the_bytes_of_an_episode(tmp_path: Path) -> None:
    with workshop_at(f"unix:{tmp_path}/s") as address, connected(address) as peer:
        peer.send(HELLO)
        welcome = peer.receive()
        agents = protocol.text("pick") + PICK_BYTES + protocol.text("paint") + PAINT_BYTES
        assert welcome.payload.endswith(b"\0" + protocol.mapping({}) + b"\1\2\0\0\0" + agents)
        peer.send(open_stream(1, "pick", PICK_BYTES), open_stream(7, "paint", PAINT_BYTES))

        reset = protocol.text("a.c") + struct.pack("<Q", 2)
        peer.send(protocol.frame("reset", reset, stream=1, request=1))
        turn, reply = peer.receive(), peer.receive()
        assert (turn.kind, turn.stream, turn.payload) == ("turn", 1, protocol.turn(0, [0.0, 0.0]))
        assert (reply.kind, reply.stream, reply.request, reply.flags) == ("reply", 1, 1, 0)
        assert reply.payload == struct.pack("<Qqq", 2, 1, 2)

        def step(stream: int, request: int, payload: bytes) -> tuple[bytes, int, bytes]:
            peer.send(protocol.frame("step", payload, stream=stream, request=request))
            turn, reply = peer.receive(), peer.receive()
            assert (turn.kind, reply.kind) == ("turn", "reply")
            assert (turn.stream, reply.stream, reply.request) == (stream, stream, request)
            return turn.payload, reply.flags, reply.payload

        colour = struct.pack("<3f", 0, 0, 1)
        zero = struct.pack("<q", 0)
        assert step(1, 2, zero) == (protocol.turn(1, [0.5, 0.0]), 0, struct.pack("<q", 1))
        first = protocol.turn(0, [1.5, 1.0])
        assert step(7, 1, colour) == (first, 0, struct.pack("<Qq", 1, 2))
        assert step(1, 3, zero) == (protocol.turn(1, [0.5, 1.0]), 0, struct.pack("<q", 2))
        peer.send(protocol.frame("step", colour, stream=7, request=2))
        seen = [peer.receive() for _ in range(4)]
        assert [(f.kind, f.stream, f.request, f.flags, f.payload) for f in seen] == [
            ("last", 1, 2, 1, struct.pack("<Q", 0)),
            ("last", 7, 2, 1, struct.pack("<q", 2)),
            ("turn", 7, 0, 0, protocol.turn(protocol.NOBODY, [1.5, 2.0])),
            ("reply", 7, 2, 2, b""),
        ]

        # The action of another agent than the one whose turn it is ends the episode.
        peer.send(protocol.frame("reset", reset, stream=7, request=3))
        assert peer.until("reply").request == 3
        peer.send(protocol.frame("step", colour, stream=7, request=4))
        assert "turn of agent 'pick'" in peer.until("error").error()[1]

        # A stream of another name, or of another agent's signature.
        peer.send(open_stream(9, "cut", PAINT_BYTES))
        code, text = peer.until("error").error()
        assert (code, text) == (int(mlbridge.Code.NOT_FOUND), "the server has no agent 'cut'")
        peer.send(open_stream(10, "pick", PAINT_BYTES))
        assert peer.until("error").error()[0] == int(mlbridge.Code.MISMATCH)


def test_an_environment_that_says_wrong_turns_is_an_error(tmp_path: Path) -> None:
    wrong = {
        "gave 1 rewards to 2 agents": protocol.turn(0, [0.0]),
        "agent number 2 acts next": protocol.turn(2, [0.0, 0.0]),
        "agent number 4294967295": protocol.turn(protocol.NOBODY, [0.0, 0.0]),
        "did not say who acts": None,
    }

    def behave(peer: Peer) -> None:
        hello = peer.receive()
        head = b"MLBRIDGE" + struct.pack("<HH", 1, 0) + hello.payload[12:28]
        head += struct.pack("<Q", 1 << 28) + protocol.text("bitstream") + protocol.text("fake")
        agents = protocol.text("pick") + PICK_BYTES + protocol.text("paint") + PAINT_BYTES
        peer.send(
            protocol.frame(
                "welcome",
                head + b"\0" + protocol.mapping({}) + b"\1" + struct.pack("<I", 2) + agents,
            )
        )
        while True:
            reset = peer.until("reset")
            turn = wrong[reset.payload[4 : 4 + reset.payload[0]].decode()]
            if turn is not None:
                peer.send(protocol.frame("turn", turn, stream=reset.stream))
            peer.send(
                protocol.frame(
                    "reply", struct.pack("<Q", 0), stream=reset.stream, request=reset.request
                )
            )

    with (
        fake_server(f"unix:{tmp_path}/s", behave),
        mlbridge.drive(f"unix:{tmp_path}/s", deadline=20) as driver,
    ):
        for text in wrong:
            with pytest.raises(mlbridge.ProtocolError, match=text):
                driver.reset(text, seed=1)
