# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fetch the programs' sources while something else is done, but nothing is timed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from mlbridge.corpus.packages import Apt
from programs.catalog import Program
from programs.fetch import BUILD, fetch_one, is_fetched


class Sources:
    """Fetches in the background what is missing, in the order in which it is wanted.

    A context manager, whose end waits for the program that is being fetched.
    """

    def __init__(self, programs: Sequence[Program], build: Path = BUILD) -> None:
        self._build = build
        self._apt = Apt(build / "apt")
        self._free = threading.Condition()
        self._fetching = self._undisturbed = False
        self._worker = ThreadPoolExecutor(1)
        missing = [program for program in programs if not is_fetched(program, build)]
        self._fetched = {program: self._worker.submit(self._fetch, program) for program in missing}

    def __enter__(self) -> Sources:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._worker.shutdown(cancel_futures=True)

    def wait_for(self, program: Program) -> None:
        """Return when the program's sources are there; ProgramsError if they can't be had."""
        if program in self._fetched:
            self._fetched[program].result()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nothing is fetched inside."""
        with self._free:
            self._undisturbed = True
            self._free.wait_for(lambda: not self._fetching)
        try:
            yield
        finally:
            with self._free:
                self._undisturbed = False
                self._free.notify_all()

    def _fetch(self, program: Program) -> None:
        with self._free:
            self._free.wait_for(lambda: not self._undisturbed)
            self._fetching = True
        try:
            fetch_one(program, self._apt, self._build)
        finally:
            with self._free:
                self._fetching = False
                self._free.notify_all()
