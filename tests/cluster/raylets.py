# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Ray cluster on one machine whose nodes have network namespaces and addresses of their own.

What uses it runs in `isolated()`: in namespaces in which it may make networks, and which end with
it, and with them all that it has started.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

PORT, FIRST = 6379, 7000
NODE_ID = "RAY_OVERRIDE_NODE_ID_FOR_TESTING"
PORTS = ("metrics-export", "runtime-env-agent", "dashboard-agent-grpc", "dashboard-agent-listen")
#: Nodes are missed after some seconds, but not because the machine is busy.
NOTICING = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "4",
}
#: Ray's own limits are too short for a busy machine with several nodes.
PATIENT = {
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_worker_register_timeout_seconds": "300",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
#: Ray would take the token that an earlier cluster has left in the home folder, at the head only.
OPEN = {"RAY_AUTH_MODE": "disabled"}
UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
STARTS = 5
LIMIT = 300.0  # seconds for a node to be there or gone
#: Hides folders from a node, since nodes share no files; Ray keeps its own in one of them.
HIDING = 'mount -t tmpfs none "$0/ray" && mount -t tmpfs none "$0/work" && exec "$@"'


def isolated() -> list[str]:
    """What a command is to be run by."""
    return [*UNSHARE, *([] if os.geteuid() == 0 else ["--map-root-user"])]


def why_not() -> str:
    """The reason why there can be no such network here; empty if there can."""
    for tools in (["unshare", "--version"], ["ip", "-V"]):
        try:
            subprocess.run(tools, capture_output=True, check=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            return f"{tools[0]} can't be run: {error}"
    tried = [*isolated(), "sh", "-c", "mount -t tmpfs none /run && ip netns add one"]
    ran = subprocess.run(tried, capture_output=True, text=True, timeout=60, check=False)
    return f"no network namespaces: {ran.stderr.strip()}" if ran.returncode else ""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


class Node:
    """A raylet in a network namespace of its own."""

    def __init__(self, number: int) -> None:
        self.name, self.link = f"n{number}", f"v{number}"
        self.address = f"10.77.0.{number + 1}"
        self.id = secrets.token_hex(28)
        self.process: subprocess.Popen[bytes]
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.link, "type", "veth", "peer", "eth0", "netns", self.name)
        run("ip", "link", "set", self.link, "master", "br0", "up")
        for command in (
            "link set lo up",
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
        ):
            run("ip", "-n", self.name, *command.split())

    def command(self, *words: str | Path) -> list[str]:
        """A command in the node's network."""
        return ["ip", "netns", "exec", self.name, *map(str, words)]

    def runs(self, word: str) -> bool:
        """True if a process on the node has the word in its command line."""
        for pid in run("ip", "netns", "pids", self.name).split():
            try:
                if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return True
            except OSError:  # it has ended
                continue
        return False

    def kill(self) -> None:
        """Ends the raylet at once, as when the machine is switched off."""
        for pid in run("ip", "netns", "pids", self.name).split():
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                continue

    def cut(self) -> None:
        """Takes the cable out: nobody is told."""
        run("ip", "link", "set", self.link, "down")

    def hold(self) -> None:
        """Lets what runs there work a fourth of the time, until this process ends."""

        def held() -> None:
            while True:
                for what, seconds in ((signal.SIGSTOP, 0.3), (signal.SIGCONT, 0.1)):
                    for pid in run("ip", "netns", "pids", self.name).split():
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(int(pid), what)
                    time.sleep(seconds)

        threading.Thread(target=held, daemon=True).start()

    def delay(self, milliseconds: int) -> str:
        """Makes each packet late; the reason if that can't be done."""
        netem = ["qdisc", "add", "dev", "eth0", "root", "netem", "delay", f"{milliseconds}ms"]
        tc = ["tc", "-n", self.name, *netem]
        ran = subprocess.run(tc, capture_output=True, text=True, timeout=60, check=False)
        return f"no delay: {ran.stderr.strip()}" if ran.returncode else ""


class Cluster:
    """A head without CPUs, where commands run, and nodes, which do not see FOLDER/work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("ray", "work"):
            (folder / name).mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "none", "/run")
        run("ip", "link", "add", "br0", "type", "bridge")
        run("ip", "link", "set", "br0", "up")
        self.nodes: list[Node] = []
        self.head = self.add(cpus=0)
        self.address = f"{self.head.address}:{PORT}"

    def add(
        self, cpus: int = 1, env: dict[str, str] | None = None, before: Sequence[str] = ()
    ) -> Node:
        """Another node. `before`: what `ray start` is run by."""
        node = Node(len(self.nodes))
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        ray += [f"--node-ip-address={node.address}", f"--num-cpus={cpus}", "--disable-usage-stats"]
        ray += ["--object-store-memory=83886080"]
        ray += [f"--{name}-port={FIRST + at}" for at, name in enumerate(PORTS)]
        if self.nodes:
            ray += [f"--address={self.address}"]
            ray = ["sh", "-c", HIDING, str(self.folder), *ray]
        else:
            ray += ["--head", f"--port={PORT}", "--include-dashboard=false"]
            ray += [f"--temp-dir={self.folder / 'ray'}"]
        self.nodes.append(node)
        for _ in range(STARTS):
            with self._log(node).open("wb") as log:
                node.process = subprocess.Popen(
                    node.command(*before, *ray),
                    env={
                        **OPEN,
                        **os.environ,
                        **NOTICING,
                        **PATIENT,
                        **(env or {}),
                        NODE_ID: node.id,
                    },
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            if self._has_started(node):
                return node
            node.kill()
            node.process.wait()
            node.id = secrets.token_hex(28)
        raise TimeoutError(f"{node.address} has not started: {self._log(node).read_text()[-1000:]}")

    def _log(self, node: Node) -> Path:
        return self.folder / f"{node.name}.log"

    def _has_started(self, node: Node) -> bool:
        """Waits until a node has started; false if its raylet has ended."""
        end = time.monotonic() + LIMIT
        was_there = False
        while "Ray runtime started" not in self._log(node).read_text(errors="replace"):
            self._tell_ports(node)
            is_there = node.runs("/raylet/raylet")
            if (was_there and not is_there) or node.process.poll() is not None:
                return False
            if time.monotonic() > end:
                return False
            was_there = is_there
            time.sleep(0.2)
        return True

    def _tell_ports(self, node: Node) -> None:
        """Writes the files by which a raylet's helpers tell it their ports, which are known here:
        it gives up after a quarter of a minute, and on a busy machine they start later."""
        ray = Path(f"/proc/{node.process.pid}/root{self.folder}/ray")
        for session in ray.glob("session_2*"):
            for at, name in enumerate(PORTS):
                file = session / f"{name.replace('-', '_')}_port_{node.id}"
                if not file.exists():
                    file.write_text(str(FIRST + at))

    def mlbridge(self, *words: str | Path) -> list[str]:
        """A command of mlbridge at the head."""
        return self.head.command(sys.executable, "-m", "mlbridge", *words)
