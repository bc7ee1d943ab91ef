# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recordings as tables for pandas and Polars: `steps(FILE).to_pandas()`. Needs pyarrow."""

from __future__ import annotations

import logging
import os
from typing import Any

from .errors import InvalidModel, NotFound
from .reading import shortly
from .recording import Recording

_log = logging.getLogger("mlbridge")


def steps(recording: str | os.PathLike[str] | Recording) -> Any:
    """A pyarrow.Table with a row for each answered request.

    Columns: `number` (of the episode in the file), `agent`, `episode`, `unit`, `step`, `time`
    (seconds since the recording began), `wait` (seconds until the answer), `reward`, `outcome`
    ("OK", a Code's name, or null if the end is not in the file), and each tensor by its name: a
    value if it has no dimensions, else its elements in row-major order. A damaged recording gives
    the rows before the damage, and a warning in the log `mlbridge`. Raises as Recording does.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise NotFound(f"tables need pyarrow: pip install pyarrow ({error})") from None
    source = recording if isinstance(recording, Recording) else Recording(recording)
    fixed = ("number", "agent", "episode", "unit", "step", "time", "wait", "reward", "outcome")
    rows: list[dict[str, Any]] = []
    for number, episode in enumerate(source.episodes()):
        outcome = None if episode.outcome is None else episode.outcome.code.name
        who = (number, episode.agent, episode.episode, episode.unit)
        columns = zip(episode.times, episode.waits, episode.rewards.tolist(), strict=True)
        for step, measured in enumerate(columns):
            row = dict(zip(fixed, (*who, step, *measured, outcome), strict=True))
            for name, value in {**episode.observations[step], **episode.actions[step]}.items():
                if name in fixed:
                    name += "_tensor"
                row[name] = value.item() if value.ndim == 0 else value.ravel().tolist()
            rows.append(row)
    if source.damage:
        _log.warning("%s: %s; the table has what is before", source.path, source.damage)
    names = dict.fromkeys([*fixed, *(name for row in rows for name in row)])
    columns_by_name: dict[str, Any] = {}
    for name in names:
        try:
            shown = name.encode(errors="replace").decode()  # a name may be any text of JSON
            columns_by_name[shown] = pa.array([row.get(name) for row in rows])
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise InvalidModel(
                f"{source.path}: the values of '{name}' make no column, since they differ in kind: "
                f"{shortly(error)}"
            ) from None
    return pa.table(columns_by_name)
