# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Brings the folders of trainings from the nodes of a Ray cluster to the machine that asked."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

from ..errors import PolicyFailed

PARTIAL = ".part"


def packed(folder: Path) -> bytes:
    """The files of a folder; empty if it isn't there."""
    if not folder.is_dir():
        return b""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, ".")
    return stream.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Puts files in the place of a folder, which is never half there."""
    partial = folder.with_name(folder.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:  # of this package's own folders: nothing else is taken
            if member.isdir() or member.isreg():
                archive.extract(member, partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


class Collector:
    """Keeps the folders of trials on the machine where it runs, an actor of Ray's."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._failures: dict[str, str] = {}

    def keep(self, name: str, content: bytes) -> None:
        """Replaces the folder of a trial."""
        unpack(content, self._folder / name)

    def content(self, name: str) -> bytes:
        """The folder of a trial as it was kept; empty if it wasn't."""
        return packed(self._folder / name)

    def fail(self, name: str, why: str) -> None:
        """Notes that a trial failed by itself, so that Ray doesn't run it again."""
        self._failures[name] = why

    def failure(self, name: str) -> str:
        """The note; empty without one."""
        return self._failures.get(name, "")


def collector(folder: Path) -> Any:
    """Starts the actor on this machine."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    strategy = NodeAffinitySchedulingStrategy(here, soft=False)
    return ray.remote(Collector).options(num_cpus=0, scheduling_strategy=strategy).remote(
        str(folder)
    )  # fmt: skip


class Place:
    """The folder of a trial: of a search on this machine, or a copy on a node of a cluster."""

    def __init__(self, folder: Path, name: str, kept_by: Any) -> None:
        """`kept_by`: the Collector of a cluster, or None. Raises PolicyFailed if the trial has
        failed by itself before."""
        self._name, self._collector = name, kept_by
        self.path = folder / name
        if kept_by is None:
            return
        import tempfile

        import ray

        if why := ray.get(kept_by.failure.remote(name)):
            raise PolicyFailed(why)
        self._temporary = tempfile.TemporaryDirectory(prefix="mlbridge-tune-")
        self.path = Path(self._temporary.name) / name
        if content := ray.get(kept_by.content.remote(name)):
            unpack(content, self.path)

    def keep(self) -> None:
        """Sends the folder as it is now to the machine that asked."""
        if self._collector is not None:
            import ray

            ray.get(self._collector.keep.remote(self._name, packed(self.path)))

    def fail(self, error: BaseException) -> None:
        """Sends the reason why the trial failed by itself."""
        if self._collector is not None:
            import ray

            ray.get(self._collector.fail.remote(self._name, str(error)))
