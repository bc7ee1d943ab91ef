# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Episodes over the bridge: stock clang compiles, this process decides and measures the object.

Each compiler is a process of its own that loads the plugin and connects to the server here; several
run at once. The size is known only after code generation, outside the pass, so every compiler is
given an episode id in its model's URI, by which decisions and object are brought together.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from corpus import ActionList, File
from numpy.typing import NDArray

import mlbridge
from mlbridge import files as installed

COMPILE_SECONDS = 120.0


@dataclass
class Episode:
    """One compilation. `observations[k]` led to `actions[k]`; `size` stays None if it failed.

    `forced` actions come first; in step `deviate` the chooser is to take another than its own.
    """

    file: File
    forced: tuple[int, ...] = ()
    seed: int = 0
    deviate: int = -1
    label: str = ""
    identity: str = ""
    observations: list[NDArray[np.float32]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    size: int | None = None
    error: str = ""

    @property
    def ratio(self) -> float:
        """Executable bytes over those of -Oz."""
        return (self.size or self.file.oz_text) / self.file.oz_text


def geometric_mean(ratios: list[float]) -> float:
    """Of positive numbers."""
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-3)))))


# What to do in a state: (episode, features, mask, history, step) -> action.
Chooser = Callable[
    [Episode, NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], int], int
]


def plugin_path() -> Path:
    """The plugin to train with: $MLBRIDGE_PLUGIN or the installed package's."""
    return Path(os.environ.get("MLBRIDGE_PLUGIN") or installed.plugin("phase-ordering"))


def compiler_flags(plugin: Path, model: str, max_steps: int, on_failure: str = "fail") -> list[str]:
    """What makes stock clang-22 ask `model`."""
    options = [
        f"-phase-ordering-model={model}",
        f"-phase-ordering-max-steps={max_steps}",
        f"-phase-ordering-on-failure={on_failure}",
        "-phase-ordering-deadline=60s",
    ]
    flags = ["-Xclang", f"-fpass-plugin={plugin}"]
    for option in options:
        flags += ["-Xclang", "-mllvm", "-Xclang", option]
    return flags


def compile_with(
    file: File, target: Path, flags: Iterable[str], compiler: str = "clang-22"
) -> tuple[int | None, str]:
    """Executable bytes of the object of `file` at -Oz with `flags`, or why there is none."""
    from programs.sizes import ElfError, file_executable_bytes

    command = [compiler, "-Oz", "-x", "ir", "-c", str(file.bitcode), "-o", str(target), *flags]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMPILE_SECONDS
        )
        if done.returncode != 0:
            return None, done.stderr.decode(errors="replace")[-500:]
        return file_executable_bytes(target), ""
    except (subprocess.TimeoutExpired, OSError, ElfError) as error:
        return None, str(error)
    finally:
        target.unlink(missing_ok=True)


class Bridge:
    """A policy server on a unix socket, and the compilers that ask it."""

    def __init__(
        self, actions: ActionList, *, plugin: Path | None = None, max_steps: int = 12, jobs: int = 2
    ) -> None:
        self._plugin = plugin or plugin_path()
        self._max_steps = max_steps
        self._jobs = jobs
        self._folder = tempfile.TemporaryDirectory(prefix="phase-ordering-")
        self._live: dict[str, Episode] = {}
        self._choose: Chooser | None = None
        self._count = 0
        metadata = {
            "phase-ordering.actions": actions.text,
            "phase-ordering.observation": "phase-ordering-counts-1",
        }
        self._address = f"unix:{self._folder.name}/policy.sock"
        self._server = mlbridge.Server(self._address, None, metadata)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(self._policy,))
        self._thread.start()

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._thread.join()
        self._server.close()
        self._folder.cleanup()

    def _policy(self, observation: Mapping[str, Any], context: mlbridge.Context) -> int:
        episode = self._live[context.episode]
        step = len(episode.actions)
        features = np.array(observation["features"], np.float32)
        episode.observations.append(features)
        if step < len(episode.forced):
            action = episode.forced[step]
        else:
            assert self._choose is not None
            action = self._choose(
                episode, features, observation["action_mask"], observation["history"], step
            )
        episode.actions.append(int(action))
        return int(action)

    def _compile(self, episode: Episode) -> Episode:
        model = f"{self._address}?episode={episode.identity}"
        flags = compiler_flags(self._plugin, model, self._max_steps)
        target = Path(self._folder.name) / f"{episode.identity}.o"
        episode.size, episode.error = compile_with(episode.file, target, flags)
        del self._live[episode.identity]
        return episode

    def run(self, episodes: Iterable[Episode], choose: Chooser | None = None) -> Iterator[Episode]:
        """Compile all, several at once, in the order in which they end."""
        self._choose = choose
        queue = iter(episodes)
        pending: set[Future[Episode]] = set()
        with ThreadPoolExecutor(self._jobs) as pool:
            while True:
                while len(pending) < self._jobs:
                    episode = next(queue, None)
                    if episode is None:
                        break
                    self._count += 1
                    episode.identity = f"e{self._count}"
                    self._live[episode.identity] = episode
                    pending.add(pool.submit(self._compile, episode))
                if not pending:
                    return
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield future.result()
