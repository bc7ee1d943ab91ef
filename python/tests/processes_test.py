# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many compilers at once, Ctrl-C, and the end of the interpreter, each in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import mlbridge
from serving import SMALL, running


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


CLIENT = """
import sys, threading, mlbridge
uri, number, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = mlbridge.Model.open(uri, deadline=60)
model.bind(model.model_signature)
wrong = []
def work(thread):
    runner = model.new_runner(episode=f"{number}.{thread}")
    for k in range(100):
        got = runner.evaluate_scalar(x=[number, thread, k, 0])
        if got != number * 1000000 + thread * 1000 + k:
            wrong.append(got)
workers = [threading.Thread(target=work, args=(t,)) for t in range(threads)]
for w in workers: w.start()
for w in workers: w.join()
print(wrong)
"""


@pytest.mark.parametrize("transport", ["unix", "shm", "pipe", "rendezvous"])
def test_many_compilers_with_many_threads(tmp_path: Path, transport: str, serdes: str) -> None:
    episodes: dict[str, list[int]] = {}

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        number, thread, k, _ = (int(v) for v in observation["x"])
        episodes.setdefault(context.episode, []).append(k)
        assert context.episode == f"{number}.{thread}" and context.step == k
        return number * 1000000 + thread * 1000 + k

    # A FIFO pair is for one compiler, whose threads share it.
    processes, threads = (1, 8) if transport == "pipe" else (4, 3)
    uri = f"pipe:{tmp_path}/s/" if transport == "rendezvous" else f"{transport}:{tmp_path}/s"
    with running(policy, uri, SMALL, query=f"?serdes={serdes}") as server:
        clients = [python(CLIENT, server.uri, str(n), str(threads)) for n in range(processes)]
        for client in clients:
            out, err = client.communicate(timeout=100)
            assert (client.returncode, out.strip(), err) == (0, "[]", "")
        statistics = server.finish()
    assert statistics.connections == processes
    assert statistics.replies == 100 * processes * threads
    assert statistics.errors == statistics.dropped == statistics.refused == 0
    assert len(episodes) == processes * threads
    assert all(steps == list(range(100)) for steps in episodes.values())


SERVER = """
import sys, mlbridge
signature = mlbridge.Signature([mlbridge.TensorSpec("x", "float32", [4])],
                               [mlbridge.TensorSpec("action", "int64")])
def policy(observation, context):
    {body}
statistics = mlbridge.serve(policy, sys.argv[1], signature,
                            ready=lambda server: print("ready", flush=True))
print("replies", statistics.replies, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT])
def test_control_c_while_nobody_asks(tmp_path: Path, transport: str, number: int) -> None:
    server = python(SERVER.format(body="return 1"), f"{transport}:{tmp_path}/s")
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    server.send_signal(number)
    out, err = server.communicate(timeout=30)
    assert (server.returncode, out, err) == (0, "replies 0\n", "")
    assert not list(tmp_path.iterdir())


def test_control_c_within_a_request(address: str) -> None:
    body = "print('asked', flush=True); import signal; signal.pause(); return 1"
    server = python(SERVER.format(body=body), address)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    caught: list[BaseException] = []

    def ask() -> None:
        try:
            mlbridge.open(address, deadline=60).evaluate()
        except mlbridge.Error as error:
            caught.append(error)

    client = threading.Thread(target=ask)
    client.start()
    assert server.stdout.readline() == "asked\n"
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=30)
    client.join(30)
    assert (server.returncode, out, err) == (0, "replies 0\n", "")
    assert isinstance(caught[0], (mlbridge.Cancelled, mlbridge.Closed)), caught


def test_sys_exit_in_a_policy_ends_the_server(address: str) -> None:
    server = python(SERVER.format(body="sys.exit(7)"), address)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    with pytest.raises(mlbridge.Error):
        mlbridge.open(address, deadline=60).evaluate()
    out, err = server.communicate(timeout=30)
    assert (server.returncode, out, err) == (7, "", "")


def test_other_signal_handlers_run_at_once_and_are_left_alone(address: str) -> None:
    code = """
    import os, signal, sys, threading, mlbridge
    # No print: the next signal may come within its flush, where another print is refused.
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b"handled\\n"))
    read, write = os.pipe(); os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    signature = mlbridge.Signature([], [mlbridge.TensorSpec("y")])
    mlbridge.serve(lambda o, c: 1, sys.argv[1], signature,
                   ready=lambda server: print("ready", flush=True))
    assert signal.set_wakeup_fd(-1) == write
    """
    server = python(code, address)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    mlbridge.open(address, deadline=20).evaluate()  # it waits, or is about to
    for _ in range(3):
        server.send_signal(signal.SIGUSR1)
        assert server.stdout.readline() == "handled\n"
    server.send_signal(signal.SIGINT)
    assert server.communicate(timeout=30) == ("", "")
    assert server.returncode == 0


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_server_that_is_killed(address: str, moment: str) -> None:
    body = "print('asked', flush=True); import signal\n    "
    body += "signal.pause() if observation['x'][0] == 1 else None; return 1"
    server = python(SERVER.format(body=body), address)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    runner = mlbridge.open(address, deadline=20)
    if moment == "before":
        server.kill()
        server.wait()
    elif moment == "during":
        output = server.stdout

        def kill_when_asked() -> None:
            output.readline()
            server.kill()

        threading.Thread(target=kill_when_asked).start()
    else:
        assert runner.evaluate_scalar() == 1
        server.kill()
        server.wait()
    for _ in range(3):
        with pytest.raises(ConnectionError):
            runner.evaluate(x=[1, 0, 0, 0])
    server.communicate(timeout=30)
    # Its socket is still there, and the next server takes it over.
    with running(lambda o, c: 5, address, SMALL) as successor:
        assert successor.open().evaluate_scalar() == 5


def test_compilers_that_are_killed_do_not_matter(address: str) -> None:
    code = """
    import sys, mlbridge
    runner = mlbridge.open(sys.argv[1], deadline=60)
    while True:
        runner.evaluate()
        print("asked", flush=True)
    """
    with running(lambda o, c: 1, address, SMALL) as server:
        for _ in range(3):
            compiler = python(code, address)
            assert compiler.stdout is not None
            for _ in range(5):
                assert compiler.stdout.readline() == "asked\n"
            os.kill(compiler.pid, signal.SIGKILL)
            compiler.communicate(timeout=30)
        assert server.open().evaluate_scalar() == 1


def test_the_interpreter_ends_with_everything_open(address: str) -> None:
    code = """
    import sys, threading, mlbridge
    signature = mlbridge.Signature([], [mlbridge.TensorSpec("y", "int64")])
    server = mlbridge.Server(sys.argv[1], signature)
    thread = threading.Thread(target=server.serve_forever, args=(lambda o, c: 1,), daemon=True)
    thread.start()
    mlbridge.function("f", signature)(lambda o, c: 2)
    runners = [mlbridge.open(sys.argv[1]), mlbridge.open("function:f")]
    print([r.evaluate_scalar() for r in runners])
    """
    process = python(code, address)
    assert process.communicate(timeout=30) == ("[1, 2]\n", "")
    assert process.returncode == 0


STOPPED = """
import sys, mlbridge
signature = mlbridge.Signature([mlbridge.TensorSpec("x", "float32", [4])],
                               [mlbridge.TensorSpec("action", "int64")])
server = mlbridge.Server(sys.argv[1], signature)
print(server.address, flush=True)
server.serve_forever(lambda observation, context: 7)
"""


@pytest.mark.parametrize("how", ["", "server.stop()"])
def test_the_interpreter_ends_beside_a_thread_that_serves(address: str, how: str) -> None:
    code = f"""
    import sys, threading, mlbridge
    signature = mlbridge.parse_signature("(x: int64) -> (y: int64)")
    up = threading.Event()
    def ready(made):
        global server
        server = made
        up.set()
    def policy(observation, context):
        return int(observation["x"])
    arguments = (policy, sys.argv[1], signature)
    threading.Thread(
        target=mlbridge.serve, args=arguments, kwargs=dict(ready=ready), daemon=True
    ).start()
    up.wait()
    assert mlbridge.open(sys.argv[1], signature).evaluate_scalar(x=3) == 3
    {how}
    """
    process = python(code, address)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("transport", ["unix", "shm", "pipe", "grpc"])
def test_a_stopped_server_costs_events_and_no_connection(tmp_path: Path, transport: str) -> None:
    where = "localhost:0" if transport == "grpc" else f"{tmp_path}/s"
    server = python(STOPPED, f"{transport}:{where}")
    assert server.stdout is not None
    try:
        runner = mlbridge.open(server.stdout.readline().strip(), SMALL, deadline=60)
        assert runner.evaluate_scalar() == 7
        server.send_signal(signal.SIGSTOP)
        episodes = 0
        while not runner.dropped_events:
            runner.begin_episode(str(episodes), "c" * 1000)
            runner.reward(1.0)
            runner.end_episode()
            episodes += 1
        dropped = runner.dropped_events
        server.send_signal(signal.SIGCONT)
        assert runner.evaluate_scalar() == 7
        assert runner.dropped_events == dropped
        runner.begin_episode("after", "")
        assert runner.evaluate_scalar() == 7
    finally:
        server.kill()
        server.communicate()
