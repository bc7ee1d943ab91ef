# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A vector of environments whose compilers work at the same time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import iterate

from ..errors import InvalidArgument


class _Ahead(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose next call is already running on a thread."""

    future: Future[Any] | None = None

    def _result(self) -> Any:
        future, self.future = self.future, None
        return None if future is None else future.result()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self._result() or self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self._result() or self.env.step(action)


def _wrapped(make: Callable[[], Any]) -> _Ahead:
    return _Ahead(make())


class CompilerVectorEnv(SyncVectorEnv):
    """A SyncVectorEnv of Gymnasium whose compilers, a process each, work at the same time.

    No other process of Python is needed: a thread waits for each compiler.
    """

    def __init__(self, env_fns: Sequence[Callable[[], Any]], **options: Any) -> None:
        """`env_fns` make the environments; options are those of SyncVectorEnv."""
        super().__init__([partial(_wrapped, make) for make in env_fns], **options)
        self._pool = ThreadPoolExecutor(len(self.envs), thread_name_prefix="mlbridge gym")

    def _ahead(self, number: int, call: str, *arguments: Any, **named: Any) -> None:
        env: Any = self.envs[number]
        env.future = self._pool.submit(getattr(env.env, call), *arguments, **named)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in each, all at once."""
        if seed is not None and not isinstance(seed, int):
            seed = list(seed)
            if len(seed) != self.num_envs:
                raise InvalidArgument(f"{len(seed)} seeds for {self.num_envs} environments")
        if "reset_mask" not in (options or {}):
            for i in range(self.num_envs):
                one = seed[i] if isinstance(seed, list) else None if seed is None else seed + i
                self._ahead(i, "reset", seed=one, options=options)
        with self._drained():
            return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """A step of each, all at once; those whose episode is over begin another one."""
        if not self.action_space.contains(actions):
            raise InvalidArgument(f"the actions {actions!r} are not in {self.action_space}")
        for i, action in enumerate(iterate(self.action_space, actions)):
            if self._autoreset_envs[i]:
                self._ahead(i, "reset")
            else:
                self._ahead(i, "step", action)
        with self._drained():
            return super().step(actions)

    @contextlib.contextmanager
    def _drained(self) -> Iterator[None]:
        """Waits for the calls that run if the body raises."""
        try:
            yield
        except BaseException:
            ahead: Any = self.envs
            for env in ahead:
                future, env.future = env.future, None
                if future is not None and not future.cancel():
                    future.exception()
            raise

    def close_extras(self, **options: Any) -> None:
        """End the compilers."""
        super().close_extras(**options)
        self._pool.shutdown(cancel_futures=True)
        super().close_extras(**options)  # those that a thread had just started
