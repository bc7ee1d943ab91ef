# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What models decided and how long that took: recordings, and logs of candidates."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Code, InvalidModel
from ..reading import read_json, shortly
from ..recording import Record, Recording
from . import charts
from .page import MOST_ROWS, Cell, Column, Figure, Part, Section, Table, short_uri

#: Decisions in a chart, choices beside an axis, and different choices and failures that are told
#: apart.
MOST_POINTS, MOST_SHOWN, MOST_KINDS = 3000, 24, 1000
OTHERS = "(others)"
COUNTS, INSTRUCTIONS = "phase-ordering-counts-1", 19
Numbers = NDArray[np.float64]


class _Names:
    """Numbers for names; those beyond the limit have one together."""

    def __init__(self, most: int = 1 << 31) -> None:
        self._most = most
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        known = self._numbers.get(name)
        if known is not None:
            return known
        if len(self._numbers) >= self._most:
            name = OTHERS
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def names(self) -> list[str]:
        return list(self._numbers)


@dataclass
class Recorded:
    """The decisions of recordings, a column for each thing that is known of them; NaN: unknown."""

    name: str
    about: Sequence[str] = ()
    remarks: list[str] = field(default_factory=list)
    #: Seconds since the first recording began, and until the answer.
    time: array[float] = field(default_factory=lambda: array("d"))
    wait: array[float] = field(default_factory=lambda: array("d"))
    reward: array[float] = field(default_factory=lambda: array("d"))
    #: The score of what was chosen, and of the next best.
    score: array[float] = field(default_factory=lambda: array("d"))
    second: array[float] = field(default_factory=lambda: array("d"))
    #: The size of what is decided about, before and after.
    before: array[float] = field(default_factory=lambda: array("d"))
    after: array[float] = field(default_factory=lambda: array("d"))
    choice: array[int] = field(default_factory=lambda: array("q"))
    unit: array[int] = field(default_factory=lambda: array("q"))
    agent: array[int] = field(default_factory=lambda: array("q"))
    step: array[int] = field(default_factory=lambda: array("q"))
    choices: _Names = field(default_factory=lambda: _Names(MOST_KINDS))
    units: _Names = field(default_factory=_Names)
    agents: _Names = field(default_factory=_Names)
    measure: str = "size"
    episodes: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.time)

    def column(self, name: str) -> Numbers:
        """A column as an array."""
        return np.array(getattr(self, name), np.float64)


@dataclass(frozen=True)
class Tried:
    """Candidates that were compared for a source: its stock bytes, and the bytes with each, None if
    that wasn't measured."""

    source: str
    stock: int
    winner: str | None
    candidates: Mapping[str, int | None]

    @property
    def bytes(self) -> int:
        """The bytes that were kept."""
        kept = self.candidates.get(self.winner) if self.winner is not None else None
        return self.stock if kept is None else kept


@dataclass(frozen=True)
class Trials:
    """The logs of candidates of a build."""

    name: str
    tried: Sequence[Tried]


def read(paths: Sequence[Path], name: str) -> Recorded:
    """The recordings as one. Raises InvalidModel for what is none; damage is a remark."""
    found = Recorded(name)
    recordings = sorted(map(Recording, paths), key=lambda recording: recording.began)
    for recording in recordings:
        _Reader(found, recording, recording.began - recordings[0].began).run()
        if recording.damage:
            file = Path(recording.path).name
            found.remarks.append(f"{file}: {recording.damage}; the decisions before are shown")
    models = dict.fromkeys(recording.model for recording in recordings)
    files = f"{len(paths)} recordings" if len(paths) > 1 else "a recording"
    some = ", ".join([short_uri(model) for model in models][:3]) + (
        ", …" if len(models) > 3 else ""
    )
    found.about = [f"{files} of {some}" if some else files]
    return found


class _Reader:
    """Adds what a recording has to the columns."""

    def __init__(self, found: Recorded, recording: Recording, shift: float) -> None:
        self._found, self._recording, self._shift = found, recording, shift
        self._unanswered: dict[int, tuple[Record, float]] = {}
        #: The last decision of each stream's episode.
        self._last: dict[tuple[int, int], int] = {}
        self._actions = _action_names(recording.metadata)

    def run(self) -> None:
        found = self._found
        for record in self._recording.records():
            if record.kind == "begin":
                found.episodes += 1
                self._last.pop(record.stream, None)
            elif record.kind == "request":
                size = self._size(record)
                self._unanswered[record.fields["number"]] = record, size
                if (last := self._last.get(record.stream)) is not None:
                    found.after[last] = size
            elif record.kind == "reply":
                self._decided(record)
            elif record.kind == "error":
                self._unanswered.pop(record.fields["number"], None)
                text = str(record.fields["message"])
                if len(found.failures) >= MOST_KINDS:
                    text = OTHERS
                kind = Code(record.fields["code"]).name, text
                found.failures[kind] += 1
            elif record.kind == "reward":
                if (last := self._last.get(record.stream)) is not None:
                    before = found.reward[last]
                    found.reward[last] = float(record.fields["reward"]) + (
                        0.0 if math.isnan(before) else before
                    )
            elif record.kind == "end":
                self._last.pop(record.stream, None)
                found.outcomes[Code(record.fields["code"]).name] += 1

    def _decided(self, reply: Record) -> None:
        request, size = self._unanswered.pop(reply.fields["number"], (None, math.nan))
        if request is None:
            return
        found, fields = self._found, request.fields
        self._last[request.stream] = len(found)
        choice, score, second = self._chosen(reply.tensors)
        agent = str(fields["agent"])
        found.time.append(request.time + self._shift)
        wait = float(reply.fields.get("wait", reply.time - request.time))
        found.wait.append(wait if 0 <= wait < 1e9 else 0.0)
        for column, value in (
            (found.reward, math.nan),
            (found.score, score),
            (found.second, second),
            (found.before, size),
            (found.after, math.nan),
        ):
            column.append(value)
        found.choice.append(found.choices.number(f"{agent}: {choice}" if agent else choice))
        found.unit.append(found.units.number(str(fields["context"])))
        found.agent.append(found.agents.number(agent))
        found.step.append(min(int(fields["step"]), 1 << 62))

    def _chosen(self, outputs: Mapping[str, NDArray[Any]]) -> tuple[str, float, float]:
        """What was chosen, with its score and that of the next best."""
        choice, score, second = "", math.nan, math.nan
        for values in outputs.values():
            if values.dtype.kind == "f" and values.size and math.isnan(score):
                flat = np.sort(values.ravel().astype(np.float64))
                score, second = float(flat[-1]), float(flat[-2]) if flat.size > 1 else math.nan
                if not choice and flat.size > 1:
                    choice = self._called(int(np.argmax(values)))
            elif values.dtype.kind in "iub" and values.size == 1:
                choice = self._called(int(values.item()))
            elif not choice and values.dtype.kind not in "f":
                choice = shortly(ValueError(str(values.ravel().tolist())))[:60]
        return choice or "(a number)", score, second

    def _called(self, number: int) -> str:
        if self._actions and 0 <= number <= len(self._actions):
            return self._actions[number] if number < len(self._actions) else "stop"
        return str(number)

    def _size(self, request: Record) -> float:
        """The size of what is decided about, as far as the observation has it."""
        if (size := request.tensors.get("code_bytes")) is not None and size.size == 1:
            self._found.measure = "bytes"
            return float(size.item())
        features = request.tensors.get("features")
        kind = self._recording.metadata.get("phase-ordering.observation")
        if kind != COUNTS or features is None or features.size <= INSTRUCTIONS:
            return math.nan
        self._found.measure = "instructions"
        logarithm = 16 * float(features.ravel()[INSTRUCTIONS])  # of the count plus 1, interpolated
        if not 0 <= logarithm < 64:
            return math.nan
        whole = math.floor(logarithm)
        return float(round(2**whole * (1 + logarithm - whole) - 1))


def _action_names(metadata: Mapping[str, str]) -> list[str]:
    try:
        actions = json.loads(metadata["phase-ordering.actions"])["actions"]
        return [str(action["name"]) for action in actions]
    except (LookupError, ValueError, TypeError, RecursionError):
        return []


def read_trials(paths: Sequence[Path], name: str) -> Trials:
    """The logs of candidates. Raises InvalidModel for what is none."""
    return Trials(name, [_tried(path) for path in paths])


def _tried(path: Path) -> Tried:
    entry = read_json(path)
    try:
        winner = entry["winner"]
        sizes = {
            str(one["name"]): None if one.get("bytes") is None else abs(int(one["bytes"]))
            for one in entry["trials"]
        }
        kept = None if winner is None else str(winner)
        return Tried(str(entry["source"]), abs(int(entry["stock_bytes"])), kept, sizes)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidModel(f"{path}: no log of candidates: {shortly(error)}") from None


def _of(sources: Sequence[Any]) -> list[Recorded]:
    return [one for one in sources if isinstance(one, Recorded)]


def _sampled(found: Recorded) -> list[int]:
    """Decisions for a chart: evenly spaced, and the slowest."""
    count = len(found)
    if count <= MOST_POINTS:
        return list(range(count))
    even = np.linspace(0, count - 1, MOST_POINTS - 50).astype(int)
    slowest = np.argpartition(found.column("wait"), -50)[-50:]
    return sorted({*even.tolist(), *slowest.tolist()})


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _timeline(found: Recorded) -> Iterable[Part]:
    chosen = Counter(found.choice)
    shown = {number for number, _ in chosen.most_common(MOST_SHOWN)}
    names = found.choices.names
    rows = []
    sample = _sampled(found)
    for at in sample:
        before, after = found.before[at], found.after[at]
        rows.append(
            {
                "time": found.time[at],
                "ms": 1e3 * found.wait[at],
                "name": names[found.choice[at]] if found.choice[at] in shown else OTHERS,
                "unit": found.units.names[found.unit[at]] if len(found.units.names) < 500 else "",
                "step": found.step[at],
                "score": _known(found.score[at]),
                "second": _known(found.second[at]),
                "reward": _known(found.reward[at]),
                "change": _known(after / before - 1) if before else None,
            }
        )
    of = f"; {len(sample):,} of {len(found):,} are drawn" if len(sample) < len(found) else ""
    order = [names[number] for number, _ in chosen.most_common(MOST_SHOWN)] + [OTHERS]
    effect = next((c for c in ("change", "reward") if any(r[c] is not None for r in rows)), None)
    colored = {"change": f"; color: change of {found.measure}", "reward": "; color: reward"}
    yield Figure(
        f"Decisions in time{colored.get(effect or '', '')}{of}",
        charts.timeline(
            rows, [name for name in order if any(r["name"] == name for r in rows)], effect
        ),
    )
    if any(row["score"] is not None for row in rows):
        yield Figure(f"Score of what was chosen, and of the next best{of}", charts.scores(rows))
    yield Figure(f"Latency of each decision{of}", charts.latencies(rows))


def _histogram(found: Recorded) -> Figure:
    wait = np.maximum(found.column("wait"), 1e-9) * 1e3
    low, high = math.floor(math.log10(wait.min())), math.ceil(math.log10(wait.max()) + 1e-9)
    edges = np.logspace(low, max(high, low + 1), 8 * max(1, high - low) + 1)
    counts, _ = np.histogram(wait, edges)
    rows = [
        {"from": float(left), "to": float(right), "count": int(count)}
        for left, right, count in zip(edges, edges[1:], counts, strict=False)
    ]
    return Figure("How many decisions took how long", charts.histogram(rows))


def _latency_table(found: Recorded) -> Table:
    wait, agent = 1e3 * found.column("wait"), np.array(found.agent)
    quantiles = {"min": 0.0, "median": 0.5, "95 %": 0.95, "99 %": 0.99, "max": 1.0}
    columns = [Column("agent"), Column("decisions")]
    columns += [*(Column(f"{name}, ms", ".4g") for name in quantiles), Column("sum, s", ".4g")]

    def line(name: str, values: Numbers) -> list[Cell]:
        found = np.quantile(values, list(quantiles.values())).tolist()
        return [name, len(values), *found, float(values.sum()) / 1e3]

    names = found.agents.names
    rows = [line(name or "(one agent)", wait[agent == n]) for n, name in enumerate(names)]
    totals = [line("all", wait)] if len(names) > 1 else []
    return Table("Latency of decisions", columns, rows, totals)


def _groups(found: Recorded, column: str, names: Sequence[str], title: str) -> Table:
    """Sums and means for each name, the most frequent first."""
    numbers = np.array(getattr(found, column))
    count = np.bincount(numbers, minlength=len(names))

    def summed(values: Numbers) -> Numbers:
        sums: Numbers = np.bincount(numbers, np.nan_to_num(values), len(names)).astype(np.float64)
        return sums

    rewards, scores = found.column("reward"), found.column("score")
    change = found.column("after") - found.column("before")
    columns, values = [Column(title), Column("decisions")], []
    if not np.isnan(scores).all():
        columns.append(Column("mean score", ".4g"))
        values.append(summed(scores) / np.maximum(1, summed(1.0 - np.isnan(scores))))
    if not np.isnan(rewards).all():
        columns.append(Column("reward, sum", ".4g"))
        values.append(summed(rewards))
    if not np.isnan(change).all():
        columns.append(Column(f"change of {found.measure}", "+,.0f"))
        values.append(summed(change))
    columns.append(Column("waiting, ms", ".4g"))
    values.append(1e3 * summed(found.column("wait")))
    rows: list[list[Cell]] = [
        [names[at] or "(none)", int(count[at]), *(float(value[at]) for value in values)]
        for at in np.argsort(-count, kind="stable")[:MOST_ROWS]
    ]
    sums: list[Cell] = [
        None if c.name == "mean score" else float(v.sum())
        for c, v in zip(columns[2:], values, strict=True)
    ]
    totals = [["all", int(count.sum()), *sums]]
    return Table(f"Decisions by {title}", columns, rows, totals, len(names) - len(rows))


def _listed(found: Recorded) -> Table:
    columns = [
        Column("number"),
        Column("unit"),
        Column("step"),
        Column("choice"),
        Column("score", ".4g"),
        Column("next best", ".4g"),
        Column("reward", ".4g"),
        Column(f"{found.measure} before", ",.0f"),
        Column("after", ",.0f"),
        Column("latency, ms", ".4g"),
    ]
    units, choices = found.units.names, found.choices.names
    rows = [
        [
            at + 1,
            units[found.unit[at]] or "(none)",
            found.step[at],
            choices[found.choice[at]],
            _known(found.score[at]),
            _known(found.second[at]),
            _known(found.reward[at]),
            _known(found.before[at]),
            _known(found.after[at]),
            1e3 * found.wait[at],
        ]
        for at in range(min(len(found), MOST_ROWS))
    ]
    kept = [at for at in range(len(columns)) if any(row[at] is not None for row in rows)]
    return Table(
        "Decisions, one after the other",
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        more=len(found) - len(rows),
    )


def decisions(sources: Sequence[Any]) -> Iterable[Part]:
    """A timeline, latencies and sums of each recording."""
    for found in _of(sources):
        several = f"{found.name}: " if len(_of(sources)) > 1 else ""
        ended = ", ".join(f"{count:,} {how}" for how, count in found.outcomes.items())
        yield (
            f"{several}{len(found):,} decisions, {sum(found.failures.values()):,} failed requests, "
            f"{found.episodes:,} episodes ({ended or 'none ended'}), "
            f"{len(found.units.names):,} units."
        )
        yield from found.remarks
        if len(found):
            yield from _timeline(found)
            yield _histogram(found)
            yield _latency_table(found)
            yield _groups(found, "choice", found.choices.names, "choice")
            yield _groups(found, "unit", found.units.names, "unit")
            yield _listed(found)
        if found.failures:
            rows = [(code, text, count) for (code, text), count in found.failures.most_common()]
            columns = [Column("code"), Column("message"), Column("times")]
            yield Table("Requests that failed", columns, rows)


def candidates(sources: Sequence[Any]) -> Iterable[Part]:
    """What each candidate saved, and of each source what was kept."""
    logs = [one for one in sources if isinstance(one, Trials)]
    tried = [one for log in logs for one in log.tried]
    ranked = sorted(tried, key=lambda one: one.bytes - one.stock)
    rows = [
        {
            "name": one.source,
            "way": "kept",
            "ratio": one.bytes / one.stock,
            "low": None,
            "high": None,
        }
        for one in ranked[:40]
        if one.stock
    ]
    if rows:
        yield Figure(
            "Executable bytes of what was kept, the largest gain first",
            charts.changes(rows, ["kept"], "executable bytes, % against stock"),
        )
    columns = [
        Column("source"),
        Column("stock"),
        Column("kept"),
        Column("ratio", ".4f"),
        Column("winner"),
        Column("tried"),
    ]
    lines: list[list[Cell]] = [
        [
            one.source,
            one.stock,
            one.bytes,
            one.bytes / one.stock if one.stock else None,
            one.winner or "stock",
            len(one.candidates),
        ]
        for one in ranked
    ]
    stock, kept = sum(one.stock for one in tried), sum(one.bytes for one in tried)
    ratio = kept / stock if stock else None
    yield Table(
        "Executable bytes of sources",
        columns,
        lines,
        [["total", stock, kept, ratio, None, sum(len(t.candidates) for t in tried)]],
    )
    won = Counter(one.winner for one in tried if one.winner)
    names = Counter(name for one in tried for name in one.candidates)
    saved: Counter[str] = Counter()
    for one in tried:
        saved[one.winner or ""] += one.stock - one.bytes
    yield Table(
        "Candidates",
        [Column("candidate"), Column("tried"), Column("kept"), Column("bytes saved")],
        [(name, count, won[name], saved[name]) for name, count in names.most_common()],
    )


SECTIONS = (
    Section("Decisions", lambda sources: bool(_of(sources)), decisions),
    Section(
        "Candidates",
        lambda sources: any(isinstance(one, Trials) and one.tried for one in sources),
        candidates,
    ),
)
