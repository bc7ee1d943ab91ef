# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A compiler that waits for an answer leaves the processor to others."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import mlbridge

SECONDS = 2.0
MOST_CPU = 0.05
TRANSPORTS = ("unix", "pipe", "shm", "grpc")

ASKING = """
import resource, sys
import mlbridge
def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
runner = mlbridge.open(sys.argv[1], deadline=60)
for x in range(200):  # a conversation of quick turns, after which it waits like any other
    assert runner.evaluate_scalar(x=x) == x
before = cpu()
assert runner.evaluate_scalar(x=-1) == -1
print(cpu() - before)
"""


@pytest.mark.timeout(120)
def test_a_waiting_compiler_uses_next_to_no_cpu(tmp_path: Path) -> None:
    signature = mlbridge.Signature(
        [mlbridge.TensorSpec("x", "int64")], [mlbridge.TensorSpec("y", "int64")]
    )
    slow = threading.Event()

    def policy(observation: object, context: mlbridge.CallContext) -> int:
        x = int(observation["x"])  # type: ignore[index]
        if x < 0:
            slow.wait(SECONDS)  # never set: the answer comes late
        return x

    used: dict[str, float] = {}
    threads = []
    servers = []
    for name in TRANSPORTS:
        places = {"grpc": "localhost:0", "pipe": f"{tmp_path}/compilers/"}
        server = mlbridge.Server(f"{name}:{places.get(name, tmp_path / name)}", signature)
        servers.append(server)
        threads.append(threading.Thread(target=server.serve_forever, args=(policy,)))

        def ask(name: str = name, uri: str = server.address) -> None:
            command = [sys.executable, "-c", ASKING, uri]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            used[name] = float(done.stdout) if done.returncode == 0 else float("nan")

        threads.append(threading.Thread(target=ask))
    for thread in threads:
        thread.start()
    for thread in threads[1::2]:
        thread.join()
    for server in servers:
        server.stop()
    for thread in threads[::2]:
        thread.join()
    for server in servers:
        server.close()
    assert set(used) == set(TRANSPORTS)
    assert all(0 <= seconds < MOST_CPU for seconds in used.values()), used
