# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Environments with one agent: Gymnasium's own checks, and what happens when compilers fail."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from modules import unoptimized
from served import started, starter

import mlbridge.files
import mlbridge.gym
from mlbridge import InvalidArgument, Mismatch, NotFound, Unavailable, Unsupported
from mlbridge.gym import CompilerEnv, CompilerVectorEnv, PhaseOrdering
from mlbridge.gym.objectives import Time


@pytest.fixture
def phases(corpus: Path) -> Iterator[PhaseOrdering]:
    env = PhaseOrdering(corpus, render_mode="ansi")
    yield env
    env.close()


def countdown(*units: str, **options: Any) -> CompilerEnv:
    units = units or ("module",)
    return CompilerEnv(start=starter("countdown"), units=units, choices=3, **options)


def played(env: CompilerEnv, seed: int) -> tuple[list[int], float, bool, dict[str, Any]]:
    """An episode of random actions that the mask allows."""
    _, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    actions, total, over = [], 0.0, False
    while not over:
        actions.append(int(env.action_space.sample(info.get("action_mask"))))
        _, reward, terminated, truncated, info = env.step(actions[-1])
        total += float(reward)
        over = terminated or truncated
    return actions, total, truncated, info


def killed(env: CompilerEnv) -> None:
    process = env.process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("which", ["counts", "last", "ir2vec", "ir2vec-symbolic", "countdown"])
def test_gymnasiums_own_check(corpus: Path, which: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of spaces without limits
        if which != "countdown":
            options: dict[str, Any] = (
                {"rewards": which} if which == "last" else {"observation": which}
            )
            made = gymnasium.make("mlbridge/PhaseOrdering-v0", corpus=corpus, **options)
            check_env(made.unwrapped)
        else:
            made = countdown()
            check_env(made)
        made.close()
        made.close()


def test_an_episode_of_passes(phases: PhaseOrdering) -> None:
    actions, total, truncated, info = played(phases, 7)
    assert 0 < total < 1
    assert info["unit"].endswith(".bc")
    shown = phases.render()
    assert shown is not None and len(shown.splitlines()) == len(actions) + 1
    assert phases.actions[actions[0]] in shown
    assert truncated == (phases.actions[actions[-1]] != "stop")
    assert played(phases, 7)[:3] == (actions, total, truncated)


def test_the_last_reward_is_that_of_all(corpus: Path, tmp_path: Path) -> None:
    """Episodes end by stop, at the limit of steps, and after the last group that may run."""
    groups = [{"name": name, "passes": f"function({name})"} for name in ("sroa", "dce")]
    rules = {"version": 1, "repeat": "never", "stop": False}
    (tmp_path / "twice.json").write_text(json.dumps({**rules, "actions": groups}))
    found = []
    for rewards in ("each", "last"):
        episodes: list[Any] = []
        found.append(episodes)
        for options in ({}, {"max_steps": 3}, {"actions": tmp_path / "twice.json"}):
            with contextlib.closing(PhaseOrdering(corpus, rewards=rewards, **options)) as env:
                for seed in range(3):
                    _, info = env.reset(seed=seed)
                    first = info["code_bytes"][0]
                    actions, total, truncated, info = played(env, seed)
                    now = int(info["code_bytes"][0])
                    assert total == pytest.approx((first - now) / first, abs=1e-9)
                    episodes.append((actions, pytest.approx(total), truncated, now))
                env.reset(seed=0)
                *_, info = env.step(0)
                assert ("code_bytes" in info) == (rewards == "each")
    assert found[0] == found[1] and {one[2] for one in found[0]} == {True, False}
    with pytest.raises(InvalidArgument, match="expected 'each' or 'last'"):
        PhaseOrdering(corpus, rewards="none")
    with pytest.raises(Unsupported, match="objective 'size'"):
        PhaseOrdering(corpus, rewards="last", objective="throughput")


def test_replay_gives_the_same_bytes(phases: PhaseOrdering) -> None:
    played(phases, 3)
    state = phases.state()
    first = phases.restore(state)
    killed(phases)  # it need not be the same process
    again = phases.restore(state)
    assert first[1:4] == again[1:4]
    for name, value in first[0].items():
        assert np.array_equal(value, again[0][name]), name
    with pytest.raises(InvalidArgument, match="not a saved state"):
        phases.restore("{}")


@pytest.mark.parametrize(
    ("keep_states", "observation"), [(True, "counts"), (False, "counts"), (True, "ir2vec")]
)
def test_a_fork_goes_on_as_the_episode_did(
    corpus: Path, keep_states: bool, observation: str
) -> None:
    seen = "features" if observation == "counts" else "embedding"
    with contextlib.closing(
        PhaseOrdering(corpus, keep_states=keep_states, observation=observation)
    ) as env:
        env.reset(seed=2)
        with pytest.raises(InvalidArgument, match="step 1 of 0"):
            env.fork(1)
        steps = [env.step(action) for action in (1, 7, 4, 9, 2)]
        before = int(steps[1][0]["step"][0])
        forked = env.fork(2)
        assert forked[0]["step"][0] == before
        assert np.array_equal(forked[0][seen], steps[1][0][seen])
        again = [env.step(action) for action in (4, 9, 2)]
        for one, other in zip(steps[2:], again, strict=True):
            assert one[1] == other[1]
            assert all(np.array_equal(value, other[0][name]) for name, value in one[0].items())
        env.fork(3)
        env.step(30)
        assert json.loads(env.state())["actions"] == [1, 7, 4, 30]
        killed(env)  # and with it what was kept
        env.fork(1)
        assert env.step(7)[1] == steps[1][1]


def test_embeddings_take_the_place_of_counts(corpus: Path, tmp_path: Path) -> None:
    shipped = json.loads(Path(mlbridge.files.vocabulary()).read_text())
    short = {s: {n: vector[:7] for n, vector in v.items()} for s, v in shipped.items()}
    own = tmp_path / "own.json"
    own.write_text(json.dumps(short))
    made = {}
    for kind in ("ir2vec", "ir2vec-symbolic"):
        for vocabulary in (None, own):
            with contextlib.closing(
                PhaseOrdering(corpus, observation=kind, vocabulary=vocabulary)
            ) as env:
                seen, info = env.reset(seed=3)
                assert set(seen) == {"embedding", "action_mask", "history", "step"}
                assert len(info["features"]) == 120
                made[kind, vocabulary] = seen["embedding"], env.step(5)[0]["embedding"]
                metadata = env.model_metadata
                used = Path(vocabulary or mlbridge.files.vocabulary()).read_bytes()
                assert metadata["phase-ordering.vocabulary"] == hashlib.sha256(used).hexdigest()
        assert metadata["phase-ordering.observation"].startswith(kind)
        for whole, part in zip(made[kind, None], made[kind, own], strict=True):
            assert whole[:7].tobytes() == part.tobytes()
    assert not np.array_equal(*made["ir2vec", None])
    assert not np.array_equal(made["ir2vec", None][0], made["ir2vec-symbolic", None][0])
    with contextlib.closing(PhaseOrdering(corpus, observation="ir2vec", vocabulary=own)) as env:
        env.reset()
        own.write_text(json.dumps(short) + " ")
        killed(env)
        env.step(5)
        with pytest.raises(Mismatch, match=r"own\.json has changed"):
            env.reset()
    with pytest.raises(InvalidArgument, match="a vocabulary is for"):
        PhaseOrdering(corpus, vocabulary=own)
    with pytest.raises(NotFound, match="nowhere"):
        PhaseOrdering(corpus, observation="ir2vec", vocabulary="/nowhere.json")


@pytest.mark.parametrize("end", ["stop", "limit"])
def test_a_fork_of_an_episode_that_is_over(corpus: Path, end: str) -> None:
    with contextlib.closing(PhaseOrdering(corpus, keep_states=True, max_steps=3)) as env:
        env.reset(seed=2)
        first = env.step(1)
        steps = [2, len(env.actions) - 1] if end == "stop" else [2, 3]
        last = [env.step(action) for action in steps][-1]
        assert last[2] == (end == "stop") and last[3] == (end == "limit")
        env.fork(0)
        again = env.step(1)
        assert again[1:4] == first[1:4] and again[4]["code_bytes"] == first[4]["code_bytes"]
        assert not env.step(2)[2], "it goes on"


def test_masked_and_impossible_actions(phases: PhaseOrdering) -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        phases.step(0)
    phases.reset(seed=1)
    phases.step(5)
    before, reward, _, truncated, info = phases.step(5)
    assert info["masked"] and reward == 0 and not truncated
    assert not phases.action_masks()[5] and phases.action_masks().sum() == len(phases.actions) - 1
    with pytest.raises(InvalidArgument, match="not in Discrete"):
        phases.step(len(phases.actions))
    after, _, _, _, info = phases.step(6)
    assert "masked" not in info and after["step"][0] == before["step"][0] + 1
    for _ in phases.actions:
        assert not truncated
        _, _, _, truncated, _ = phases.step(6)
    assert truncated, "as many in a row as there are choices"


def test_what_a_step_is_worth(corpus: Path, tmp_path: Path) -> None:
    with contextlib.closing(PhaseOrdering(corpus, objective="throughput")) as env:
        _, first = env.reset(seed=1)
        assert first["value"] > first["baseline"] > 0
        _, reward, _, _, info = env.step(1)
        assert reward == (first["value"] - info["value"]) / first["baseline"]
        once = [env.step(action)[1] for action in (7, 4)]
        assert [env.fork(1), env.step(7), env.step(4)][2][1] == once[1]
    options: dict[str, Any] = {"objective": "poset-rl", "cache": tmp_path / "cache"}
    with contextlib.closing(PhaseOrdering(corpus, **options)) as env:
        _, first = env.reset(seed=1)
        _, reward, _, _, info = env.step(1)
        removable = first["code_bytes"][0] - first["oz_code_bytes"][0]
        smaller = (first["code_bytes"][0] - info["code_bytes"][0]) / removable
        faster = (first["cycles"] - info["cycles"]) / first["cycles"]
        assert reward == pytest.approx(10 * min(smaller, 0.2) + 5 * min(faster, 0.2))
    assert (tmp_path / "cache").exists()


def test_a_measured_program(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text('#include <stdio.h>\nint main(void) { return puts("4") < 0; }\n')
    module = unoptimized(source)
    good = Time("clang-22 $OBJECT -o $PROGRAM", repeat=2)
    with contextlib.closing(PhaseOrdering(module, objective=good)) as env:
        env.reset(seed=1)
        _, _, _, truncated, info = env.step(1)
        assert 0 < info["value"] < 60 and not truncated
    # A program that says something else than -Oz's ends the episode.
    other = Time("clang-22 $OBJECT -o $PROGRAM", "$PROGRAM; date +%N", repeat=1)
    for objective, message in (
        (other, "something else"),
        (Time("false"), "`.*false` ended with 1"),
    ):
        env = PhaseOrdering(module, objective=objective)
        with contextlib.closing(env), pytest.raises(mlbridge.Error, match=message):
            env.reset(seed=1)


def test_rules_of_a_list(corpus: Path, tmp_path: Path) -> None:
    listed = tmp_path / "actions.json"
    groups = [{"name": n, "passes": f"function({n})"} for n in ("sroa", "simplifycfg", "adce")]
    listed.write_text(json.dumps({"version": 1, "actions": groups, "repeat": "never"}))
    with contextlib.closing(PhaseOrdering(corpus, actions=listed)) as env:
        env.reset(seed=1)
        env.step(2)
        env.step(0)
        assert list(env.action_masks()) == [False, True, False, True]
        assert env.step(1)[2], "all have run"
    rules = {"stop": False, "max_steps": 2, "repeat": "always"}
    listed.write_text(json.dumps({"version": 1, "actions": groups, **rules}))
    with contextlib.closing(PhaseOrdering(corpus, actions=listed)) as env:
        env.reset(seed=1)
        assert list(env.action_masks()) == [True, True, True, False]
        env.step(0)
        assert env.step(0)[3], "truncated"
        assert json.loads(env.model_metadata["phase-ordering.actions"])["max_steps"] == 2
    listed.write_text(json.dumps({"version": 1, "actions": groups, "repeat": "twice"}))
    with pytest.raises(mlbridge.InvalidModel, match="repeat"):
        PhaseOrdering(corpus, actions=listed)


def test_own_groups(corpus: Path, tmp_path: Path) -> None:
    listed = tmp_path / "actions.json"
    listed.write_text('{"version": 1, "actions": [{"name": "oz", "passes": "default<Oz>"}]}')
    env = PhaseOrdering(corpus, actions=listed)
    observation, _ = env.reset(seed=1)
    observation, reward, _, _, info = env.step(0)
    assert reward > 0 and info["code_bytes"] == info["oz_code_bytes"]
    assert set(observation) == {"features", "action_mask", "history", "step"}
    env.close()
    listed.write_text("[]")
    with pytest.raises(mlbridge.InvalidModel, match=r"actions\.json"):
        PhaseOrdering(corpus, actions=listed)


@pytest.mark.parametrize("how", ["kill", "hang", "fail"])
def test_a_fault_ends_one_episode(how: str) -> None:
    env = countdown(deadline=2)
    before, _ = env.reset(seed=1, options={"unit": f"{how} 2", "seed": 9})
    before, *_ = env.step(1)
    observation, reward, terminated, truncated, info = env.step(1)
    assert truncated and not terminated and reward == 0
    assert info["fault"] and observation["left"] == before["left"]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)
    _, _, _, info = played(env, 4)
    assert "fault" not in info
    env.close()


def test_what_a_compiler_says_when_it_dies_reaches_the_trainer(tmp_path: Path) -> None:
    """Its own reason, not the end of the stack trace that follows it."""

    def start(address: str) -> subprocess.Popen[bytes]:
        said = (tmp_path / "said").open("w+b")
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("served.py")), "countdown", address],
            stderr=said,
        )
        process.stderr = said  # as subprocess does for a pipe
        said.write(b"warning: a\nLLVM ERROR: cannot select: t7\n #0 0x7f00 in f\n")
        said.flush()
        return process

    env = CompilerEnv(start=start, units=("module",), choices=3)
    env.reset(seed=1, options={"unit": "kill 1", "seed": 9})
    *_, info = env.step(1)
    assert "LLVM ERROR: cannot select: t7" in info["fault"] and "#0" not in info["fault"]
    env.close()


@pytest.mark.parametrize("make", [countdown, lambda **o: mlbridge.gym.parallel("unix:x", **o)])
def test_a_render_mode_that_is_not_there(make: Any) -> None:
    """Stable-Baselines3's make_vec_env asks for rgb_array, and again without after a TypeError."""
    with pytest.raises(TypeError, match="only 'ansi'") as raised:
        make(render_mode="rgb_array")
    assert isinstance(raised.value, InvalidArgument)


def test_a_reset_that_always_fails() -> None:
    env = countdown(retries=1)
    with pytest.raises((Unavailable, mlbridge.Closed)):
        env.reset(seed=1, options={"unit": "kill 0"})
    env.reset(seed=1)
    env.close()


def test_a_module_that_cannot_be_read_is_left_out(
    corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "broken.bc"
    broken.write_bytes((corpus / "f0.bc").read_bytes()[:100])
    empty = tmp_path / "empty.ll"
    empty.write_text('target triple = "x86_64-pc-linux-gnu"\n')
    env = PhaseOrdering([broken, empty, corpus / "f1.bc"])
    names = {env.reset(seed=seed)[1]["unit"] for seed in range(8)}
    assert names == {str(corpus / "f1.bc")}
    assert len([r for r in caplog.records if "left out from now on" in r.message]) == 2
    env.close()
    env = PhaseOrdering([broken])
    with pytest.raises(mlbridge.Error, match=r"broken\.bc"):
        env.reset()
    env.close()


@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, CompilerVectorEnv])
def test_a_vector_outlives_a_killed_compiler(corpus: Path, kind: Any) -> None:
    made: list[PhaseOrdering] = []

    def one() -> PhaseOrdering:
        made.append(PhaseOrdering(corpus))
        return made[-1]

    vector = kind([one] * 3)
    vector.reset(seed=5)
    vector.step(np.array([1, 2, 3]))
    killed(made[1])
    _, _, terminated, truncated, infos = vector.step(np.array([4, 5, 6]))
    assert list(truncated) == [False, True, False] and not terminated.any()
    assert infos["fault"][1]
    observation, _, _, truncated, _ = vector.step(np.array([7, 8, 9]))
    assert not truncated.any()
    assert list(observation["step"][:, 0]) == [3, 0, 3], "the one was reset"
    vector.close()
    vector.close()


def test_a_vector_after_wrong_arguments(corpus: Path) -> None:
    vector = CompilerVectorEnv([lambda: PhaseOrdering(corpus)] * 2)
    with pytest.raises(InvalidArgument, match="1 seeds for 2"):
        vector.reset(seed=[1])
    vector.reset(seed=[1, 2])
    for wrong in ([99, 2], [1], "ab"):
        with pytest.raises(InvalidArgument, match="not in"):
            vector.step(np.array(wrong))
    observation, _, _, truncated, _ = vector.step(np.array([1, 2]))
    assert list(observation["step"][:, 0]) == [1, 1] and not truncated.any()
    vector.close()


def test_a_vector_that_is_closed_in_a_step(corpus: Path) -> None:
    vector = CompilerVectorEnv([lambda: PhaseOrdering(corpus)] * 2)
    vector.reset(seed=1)
    envs: list[Any] = list(vector.envs)
    processes = [env.unwrapped.process for env in envs]
    for env in envs:
        os.kill(env.unwrapped.process.pid, signal.SIGSTOP)
    for number in range(2):
        vector._ahead(number, "step", 1)
    vector.close()
    assert all(process.poll() is not None for process in processes)
    assert all(env.unwrapped.process is None for env in envs)


def test_a_compiler_that_is_broken(corpus: Path, tmp_path: Path) -> None:
    opt = tmp_path / "opt"
    for script, message in (
        ("echo LLVM version 14.0.6", "no opt of LLVM 22"),
        ("kill -9 $$", "ended by signal 9"),
        ("exec sleep 60", "took more than 1 s"),
    ):
        opt.write_text(f"#!/bin/sh\n{script}\n")
        opt.chmod(0o755)
        env = PhaseOrdering(corpus, opt=str(opt), retries=1, deadline=1)
        with contextlib.closing(env), pytest.raises(mlbridge.Error, match=message):
            env.reset()
        assert not env._session._bad, "no module is at fault"
    opt.chmod(0o644)
    env = PhaseOrdering(corpus, opt=str(opt))
    with contextlib.closing(env), pytest.raises(Unsupported, match="can't be run"):
        env.reset()


def test_modules_for_two_machines(corpus: Path, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int f(int x) { int y = x; return y + 1; }")
    other = unoptimized(source, "--target=aarch64-linux-gnu")
    (tmp_path / "empty.bc").touch()
    with contextlib.closing(PhaseOrdering([tmp_path / "empty.bc", other, corpus / "f0.bc"])) as env:
        names = {env.reset(seed=seed)[1]["unit"] for seed in range(8)}
    assert names == {str(other), str(corpus / "f0.bc")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version is 2"),
        ({"actions": []}, "one group or more"),
        ({"actions": [{"name": "a", "passes": "sroa"}] * 2}, "different names"),
        ({"actions": [{"name": "a"}]}, "'passes' is missing"),
        ({"max_steps": "3"}, "max_steps is '3'"),
        ({"stop": "no"}, "stop is 'no'"),
        ({"max_step": 3}, "there is no max_step"),
    ],
)
def test_lists_that_are_none(
    corpus: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    listed = tmp_path / "actions.json"
    good = {"version": 1, "actions": [{"name": "a", "passes": "function(sroa)"}]}
    listed.write_text(json.dumps(good | change))
    with pytest.raises(mlbridge.InvalidModel, match=message):
        PhaseOrdering(corpus, actions=listed)


def test_a_pass_that_llvm_does_not_know(corpus: Path, tmp_path: Path) -> None:
    listed = tmp_path / "actions.json"
    listed.write_text('{"version": 1, "actions": [{"name": "a", "passes": "no-such-pass"}]}')
    env = PhaseOrdering(corpus, actions=listed, retries=0)
    with contextlib.closing(env), pytest.raises(Unavailable, match="no-such-pass"):
        env.reset()


def test_vectors_of_both_kinds_give_the_same(corpus: Path) -> None:
    runs: list[list[Any]] = []
    for mode in ("sync", "vector_entry_point"):
        name = "mlbridge/PhaseOrdering-v0"
        options: dict[str, Any] = {"corpus": corpus, "max_steps": 2}
        vector = gymnasium.make_vec(name, num_envs=2, vectorization_mode=mode, **options)
        runs.append([vector.reset(seed=3)[0]])
        runs[-1] += [vector.step(np.array(actions))[:4] for actions in ([1, 2], [48, 4], [5, 6])]
        vector.close()
    assert gymnasium.utils.env_checker.data_equivalence(runs[0], runs[1])


def test_what_is_missing_is_named(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no module"):
        PhaseOrdering(tmp_path)
    with pytest.raises(NotFound, match="nowhere"):
        PhaseOrdering("/nowhere")
    with pytest.raises(NotFound, match="opt-0"):
        PhaseOrdering(corpus, opt="opt-0")
    with pytest.raises(InvalidArgument, match="speed"):
        PhaseOrdering(corpus, objective="speed")
    with pytest.raises(InvalidArgument, match="choices="):
        CompilerEnv(start=starter("countdown"))
    with pytest.raises(Unsupported, match="select, unroll"):
        CompilerEnv(start=starter("unroller"))
    assert all(process.poll() is not None for process in started), "nothing is left behind"


def test_another_environment_than_expected() -> None:
    env = CompilerEnv(
        start=starter("countdown"),
        signature=mlbridge.Signature(
            [mlbridge.TensorSpec("x", "float32", [None])], [mlbridge.TensorSpec("y", "int64")]
        ),
        bounds={"x": [4]},
        choices=2,
    )
    with pytest.raises(Mismatch, match="left"):
        env.reset()
    env.close()
