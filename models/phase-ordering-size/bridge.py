# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Episodes over the bridge: stock clang compiles, this process decides and measures the object.

Each compiler is a process of its own that loads the plugin and connects to the server here; several
run at once. The size is known only after code generation, outside the pass, so every compiler is
given an episode id in its model's URI, by which decisions and object are brought together.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from corpus import ActionList, File
from numpy.typing import NDArray

import mlbridge
from mlbridge import InvalidArgument
from programs.catalog import ProgramsError
from programs.corpus import bitcode_to_object
from programs.plugin import plugin_flags

OBSERVATION = "phase-ordering-counts-1"
MAX_STEPS = 12
EPISODE = "EPISODE"  # in flags, until an episode begins


@dataclass
class Episode:
    """One compilation. `observations[k]` led to `actions[k]`; `size` stays None if it failed.

    `forced` actions come first; in step `deviate` the chooser is to take another than its own.
    """

    file: File
    forced: tuple[int, ...] = ()
    seed: int = 0
    deviate: int = -1
    observations: list[NDArray[np.float32]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    size: int | None = None
    error: str = ""

    @property
    def ratio(self) -> float:
        """Executable bytes over those of -Oz."""
        return max(1, self.file.oz_text if self.size is None else self.size) / self.file.oz_text


# The action for an observation.
Chooser = Callable[[Episode, Mapping[str, Any]], int]


def asking_flags(uri: str, *options: str, max_steps: int = MAX_STEPS) -> list[str]:
    """What makes stock clang-22 ask the model at `uri`, and fail if the model does."""
    return plugin_flags(uri, "--max-steps", str(max_steps), "--on-failure", "fail", *options)


def compile_with(file: File, target: Path, flags: Sequence[str]) -> tuple[int | None, str]:
    """Executable bytes of the object of `file` at -Oz with `flags`, or why there is none."""
    try:
        return bitcode_to_object(Path(file.bitcode), target, flags), ""
    except (ProgramsError, InvalidArgument) as error:
        return None, str(error)
    finally:
        target.unlink(missing_ok=True)


class Bridge:
    """A policy server on a unix socket, and the compilers that ask it."""

    def __init__(self, actions: ActionList, *, max_steps: int = MAX_STEPS, jobs: int = 2) -> None:
        self._jobs = jobs
        self._folder = tempfile.TemporaryDirectory(prefix="phase-ordering-")
        self._live: dict[str, Episode] = {}
        self._choose: Chooser | None = None
        self._numbers = count()
        metadata = {
            "phase-ordering.actions": actions.text,
            "phase-ordering.observation": OBSERVATION,
        }
        address = f"unix:{self._folder.name}/policy.sock"
        self._flags = asking_flags(f"{address}?episode={EPISODE}", max_steps=max_steps)
        self._server = mlbridge.Server(address, None, metadata)
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
        episode.observations.append(np.array(observation["features"], np.float32))
        if step < len(episode.forced):
            action = episode.forced[step]
        else:
            assert self._choose is not None
            action = self._choose(episode, observation)
        episode.actions.append(action)
        return action

    def _compile(self, episode: Episode) -> Episode:
        identity = f"e{next(self._numbers)}"
        self._live[identity] = episode
        flags = [flag.replace(EPISODE, identity) for flag in self._flags]
        target = Path(self._folder.name) / f"{identity}.o"
        episode.size, episode.error = compile_with(episode.file, target, flags)
        del self._live[identity]
        return episode

    def run(self, episodes: Iterable[Episode], choose: Chooser | None = None) -> Iterator[Episode]:
        """Compile all, several at once, in the order in which they end."""
        self._choose = choose
        pool = ThreadPoolExecutor(self._jobs)
        try:
            for done in as_completed([pool.submit(self._compile, one) for one in episodes]):
                yield done.result()
        finally:
            pool.shutdown(cancel_futures=True)
