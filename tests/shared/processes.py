# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which processes there are, by /proc."""

from __future__ import annotations

import contextlib
from pathlib import Path


def below(ancestor: int, name: str) -> list[tuple[int, int]]:
    """Processes of that name that `ancestor` has started, or one that it has; and their parents."""
    parent, names = {}, {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            before, _, after = file.read_text().rpartition(")")
            pid = int(file.parent.name)
            parent[pid], names[pid] = int(after.split()[1]), before.partition("(")[2]

    def is_below(pid: int) -> bool:
        return pid in parent and (parent[pid] == ancestor or is_below(parent[pid]))

    return [(pid, parent[pid]) for pid in sorted(names) if names[pid] == name and is_below(pid)]
