# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What policies gain on programs: report.json of `mlbridge validate` or `make demo`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

from ..errors import InvalidModel, Unsupported
from ..ratio import Ratio
from ..reading import shortly
from . import charts
from .page import Cell, Column, Figure, Interval, Part, Section, Table, short_uri

VALIDATION, DEMO, VERSION = "mlbridge-validation", "mlbridge-demo", 1
#: Objects in a chart.
MOST = 40
BUILD = "build"  #: what is timed of every program
_DEMO_WAYS = {
    "oz": "-Oz",
    "o2": "-O2",
    "onnx": "the model",
    "server": "the model in a server",
    "effort1": "effort 1",
    "effort3": "effort 3",
}


@dataclass(frozen=True)
class Timed:
    """What was done repeatedly, in each way: building, or a command; seconds in pairs."""

    name: str
    seconds: Mapping[str, Sequence[float]]
    ratio: Interval | None = None
    result: str = ""


@dataclass(frozen=True)
class Object:
    """An object file: executable bytes in each way."""

    path: str
    bytes: Mapping[str, int]


@dataclass(frozen=True)
class Program:
    """A program: executable bytes in each way, and what else was found."""

    name: str
    bytes: Mapping[str, int]
    decisions: int
    same: int | bool
    timed: Sequence[Timed] = ()
    objects: Sequence[Object] = ()
    spills: tuple[float, float, Interval | None] | None = None
    size: Interval | None = None

    def means(self, alone: bool) -> Iterable[tuple[str, Interval]]:
        """What its means are of. If it is the only program, its evaluation has some of them."""
        for timed in self.timed:
            if timed.ratio and not (alone and timed.name == BUILD):
                yield timed.name, timed.ratio
        if self.size and not alone:
            yield "executable bytes of objects", self.size
        if self.spills and self.spills[2]:
            yield "spills of files", self.spills[2]


@dataclass(frozen=True)
class Evaluation:
    """Programs that were built in several ways, the first of which the others are compared with."""

    name: str
    ways: Sequence[str]
    programs: Sequence[Program]
    #: Means over the first way, over programs or the objects of the only one.
    size: Mapping[str, Interval]
    compile: Mapping[str, Interval] = field(default_factory=dict)
    about: Sequence[str] = ()
    remarks: Sequence[str] = ()
    #: Each engine's decisions beside the first one's.
    engines: Sequence[Sequence[Cell]] = ()

    @property
    def first(self) -> str:
        """The way that the others are compared with."""
        return self.ways[0]

    def labels(self, among: Sequence[Evaluation]) -> list[str]:
        """All ways' names."""
        return [self.label(way, among) for way in self.ways]

    def label(self, way: str, among: Sequence[Evaluation]) -> str:
        """A way's name; with the evaluation's, if there are several."""
        return way if len(among) == 1 else f"{way}, {self.name}"


def read(found: Any, name: str) -> Evaluation:
    """The evaluation in a report.json. Raises InvalidModel, and Unsupported for another version."""
    kinds = {VALIDATION: _validation, DEMO: _demo}
    kind = found.get("format") if isinstance(found, dict) else None
    if kind not in kinds:
        raise InvalidModel(f"{name}: no report of `mlbridge validate` or `make demo`")
    version = found.get("version")
    if version != VERSION:
        raise Unsupported(
            f"{name}: a report of version {version}; this mlbridge knows {VERSION}:"
            " make it again, or use the mlbridge that made it"
        )
    try:
        return kinds[kind](found, name)
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidModel(f"{name}: a damaged report: {shortly(error)}") from None


def interval(found: Any) -> Interval | None:
    """A ratio in a report. ValueError, LookupError or TypeError if it is damaged."""
    if found is None:
        return None
    low, high = (None if found[end] is None else _above(found[end]) for end in ("low", "high"))
    return Interval(float(_above(found["mean"])), low, high, int(found["count"]))


def _means(found: Mapping[str, Any]) -> dict[str, Interval]:
    known = ((way, interval(mean)) for way, mean in found.items())
    return {way: mean for way, mean in known if mean}


def _above(value: Any) -> Any:
    """A size, count or time as it is; ValueError if it is none."""
    if not isinstance(value, int | float) or not 0 <= float(value) < math.inf:
        raise ValueError(f"expected a number from 0 on, got {value!r}")
    return value


def _seconds(values: Any) -> list[float]:
    return [float(_above(value)) for value in values]


def _validation(found: Any, name: str) -> Evaluation:
    ways = ("baseline", "policy")
    programs = []
    remarks = [str(text) for text in found["problems"]]
    for one in found["programs"]:
        remarks += [f"{one['name']}: {text}" for text in one["notes"]]
        if "objects" not in one:
            continue
        timed = [
            Timed(
                ran["command"],
                {way: _seconds(ran[f"{way}_seconds"]) for way in ways},
                interval(ran["ratio"]),
                "differs" if ran["problem"] else f"same, exit {int(ran['code'])}",
            )
            for ran in one["runs"]
        ]
        seconds = {way: _seconds(one[f"{way}_seconds"]) for way in ways}
        spills = one.get("spills")
        programs.append(
            Program(
                str(one["name"]),
                {way: int(_above(one[f"{way}_bytes"])) for way in ways},
                int(_above(one["decisions"])),
                int(_above(one["identical"])),
                [Timed(BUILD, seconds, interval(one["compile"])), *timed],
                [
                    Object(str(o["path"]), {way: int(_above(o[f"{way}_bytes"])) for way in ways})
                    for o in one["objects"]
                ],
                spills
                and (*(float(_above(spills[way])) for way in ways), interval(spills["files"])),
                interval(one["size"]),
            )
        )
    about = [f"{len(programs)} programs" if len(programs) != 1 else programs[0].name]
    for optimization, model in found.get("models", {}).items():
        about.append(f"{optimization}: {short_uri(str(model))}")
    named = ("level", "effort", "compiler", "repeat")
    about += [", ".join(f"{key} {found[key]}" for key in named if key in found)]
    return Evaluation(
        name,
        ways,
        programs,
        _means({"policy": found["size"]}),
        _means({"policy": found["compile"]}),
        [text for text in about if text],
        remarks,
    )


def _demo(found: Any, name: str) -> Evaluation:
    programs = []
    for one in found["programs"]:
        timed = {
            label: _seconds([one[f"{way}_seconds"]])
            for way, label in _DEMO_WAYS.items()
            if f"{way}_seconds" in one
        }
        programs.append(
            Program(
                str(one["name"]),
                {label: int(_above(one[f"{way}_text"])) for way, label in _DEMO_WAYS.items()},
                int(_above(one["decisions"])),
                bool(one["output_identical"]) and bool(one["objects_identical"]),
                [Timed(BUILD, timed)],
            )
        )
    engines = [
        (
            e["engine"],
            len(e["programs"]),
            int(e["decisions"]),
            int(e["same"]),
            len(e["near_ties"]),
            len(e["different"]),
            int(e["objects"]),
            len(e["objects_different"]),
        )
        for e in found["engines"]
    ]
    return Evaluation(
        name,
        tuple(_DEMO_WAYS.values()),
        programs,
        _means({_DEMO_WAYS[way]: mean for way, mean in found["over_oz"].items()}),
        about=[f"{len(programs)} programs that the model has not seen in training"],
        remarks=[f"left out, because it could not be fetched: {one}" for one in found["left_out"]],
        engines=engines,
    )


def _of(sources: Sequence[Any]) -> list[Evaluation]:
    return [one for one in sources if isinstance(one, Evaluation) and one.programs]


def _labels(evaluations: Sequence[Evaluation]) -> list[str]:
    return [label for one in evaluations for label in one.labels(evaluations)]


def _row(name: str, way: str, ratio: Interval | float) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "way": way}
    if isinstance(ratio, Interval):
        return row | {"ratio": ratio.mean, "low": ratio.low, "high": ratio.high}
    return row | {"ratio": ratio}


def _ratios(evaluations: Sequence[Evaluation]) -> Iterable[Part]:
    """Bars by program, or by object of the only program; the mean of each way last."""
    rows: list[dict[str, Any]] = []
    means: list[dict[str, Any]] = []
    ways = []
    alone = all(len(one.programs) == 1 and one.programs[0].objects for one in evaluations)
    for one in evaluations:
        for way, mean in one.size.items():
            label = one.label(way, evaluations)
            ways.append(label)
            sizes: Sequence[Program | Object] = one.programs[0].objects if alone else one.programs
            for size in sizes:
                before, after = size.bytes[one.first], size.bytes[way]
                if before and (after != before or not alone):
                    name = size.path if isinstance(size, Object) else size.name
                    rows.append(_row(name, label, after / before))
            means.append(_row("geometric mean", label, mean))
    if alone:  # objects; many are the same
        rows.sort(key=lambda row: -abs(row["ratio"] - 1))
    what = "objects that changed" if alone else "programs"
    shown = rows[: MOST * len(ways)]
    left_out = f" ({len(rows) - len(shown)} that changed less are left out)" * (
        len(rows) > len(shown)
    )
    title = f"executable bytes, % against {evaluations[0].first}"
    yield Figure(
        f"Code size of {what}{left_out}; the lines are 95 % intervals of the means",
        charts.changes([*shown, *means], ways, title, _labels(evaluations)),
    )


def _size_table(one: Evaluation, among: Sequence[Evaluation]) -> Table:
    others = one.ways[1:]
    columns = [Column("program"), Column(f"{one.first}, bytes")]
    for way in others:
        columns += [Column(f"{way}, bytes"), Column(f"{way} / {one.first}", ".4f")]
    columns += [Column("decisions"), Column("same objects" if one.programs[0].objects else "same")]

    def line(name: str, sizes: Mapping[str, int], *rest: Cell) -> list[Cell]:
        cells: list[Cell] = [name, sizes[one.first]]
        for way in others:
            cells += [sizes[way], sizes[way] / sizes[one.first] if sizes[one.first] else None]
        return [*cells, *rest]

    def same(program: Program) -> Cell:
        return ("yes" if program.same else "NO") if isinstance(program.same, bool) else program.same

    sums = {way: sum(p.bytes[way] for p in one.programs) for way in one.ways}
    means: list[Cell] = ["geometric mean", None]
    for way in others:
        means += [None, one.size.get(way)]
    decided = sum(p.decisions for p in one.programs)
    caption = "Executable bytes" if len(among) == 1 else f"Executable bytes, {one.name}"
    return Table(
        caption,
        columns,
        [line(p.name, p.bytes, p.decisions, same(p)) for p in one.programs],
        [line("total", sums, decided, None), [*means, None, None]],
    )


def sizes(sources: Sequence[Any]) -> Iterable[Part]:
    """Sizes of programs and objects."""
    evaluations = _of(sources)
    yield from _ratios(evaluations)
    for one in evaluations:
        yield _size_table(one, evaluations)
        objects = [(p.name, o) for p in one.programs for o in p.objects]
        if objects:
            yield _object_table(one, objects)


def _object_table(one: Evaluation, objects: Sequence[tuple[str, Object]]) -> Table:
    first, second = one.ways[:2]

    def change(named: tuple[str, Object]) -> int:
        return -abs(named[1].bytes[second] - named[1].bytes[first])

    rows: list[list[Cell]] = []
    for program, o in sorted(objects, key=change):
        before, after = o.bytes[first], o.bytes[second]
        rows.append([program, o.path, before, after, after / before if before else None])
    columns = [Column("program"), Column("object"), Column(first), Column(second)]
    caption = "Executable bytes of objects, largest change first"
    return Table(caption, [*columns, Column("ratio", ".4f")], rows)


def _beside(first: Evaluation, second: Evaluation) -> Iterable[tuple[str, str, Interval]]:
    """The second's policies over the first's, paired by program, or by object of the only one."""
    known = {p.name: p for p in first.programs}
    pairs = [(known[p.name], p) for p in second.programs if p.name in known]
    for way in (way for way in second.size if way in first.size):
        found = [(one.bytes[way], two.bytes[way]) for one, two in pairs]
        what = "executable bytes, by program"
        if len(pairs) == 1 and pairs[0][0].objects:
            before = {o.path: o.bytes[way] for o in pairs[0][0].objects}
            found = [(before.get(o.path, 0), o.bytes[way]) for o in pairs[0][1].objects]
            what = "executable bytes, by object"
        ratio = Ratio.of(after / before for before, after in found if before and after)
        if ratio and (mean := interval(ratio.as_json())):
            yield f"{way}, {second.name} / {first.name}", what, mean


def policies(sources: Sequence[Any]) -> Iterable[Part]:
    """All means with their intervals; those of single programs among several are not drawn."""
    evaluations = _of(sources)
    drawn: list[tuple[str, str, Interval]] = []
    more: list[tuple[str, str, Interval]] = []
    for one in evaluations:
        for what, means in (("executable bytes", one.size), ("compile time", one.compile)):
            drawn += [(one.label(way, evaluations), what, mean) for way, mean in means.items()]
        alone = len(one.programs) == 1
        for p in one.programs:
            name = f"{one.label(one.ways[1], evaluations)}: {p.name}"
            (drawn if alone else more).extend((name, what, mean) for what, mean in p.means(alone))
    for first, second in pairwise(evaluations):
        drawn += _beside(first, second)
    yield Figure(
        "Geometric means of ratios; the lines are 95 % intervals, by the bootstrap",
        charts.means(
            [_row(f"{name}, {what}", what, mean) for name, what, mean in drawn],
            list(dict.fromkeys(what for _, what, _ in drawn)),
        ),
    )
    columns = [
        Column("policy"),
        Column("what"),
        Column("mean [95 % interval]", ".4f"),
        Column("values"),
    ]
    rows = [(*row, row[2].count) for row in (*drawn, *more)]
    caption = f"Means over {evaluations[0].first} and their intervals; below 1 is better"
    yield Table(caption, columns, rows)


def times(sources: Sequence[Any]) -> Iterable[Part]:
    """Seconds of builds and commands."""
    evaluations = _of(sources)
    data: list[dict[str, Any]] = []
    for one in evaluations:
        names = dict(zip(one.ways, one.labels(evaluations), strict=True))
        for p in one.programs:
            for timed in p.timed:
                called = p.name if timed.name == BUILD else f"{p.name}: {timed.name}"
                data += [
                    {"name": called, "way": names[way], "value": value}
                    for way, values in timed.seconds.items()
                    for value in values
                ]
    used = [way for way in _labels(evaluations) if any(row["way"] == way for row in data)]
    yield Figure(
        "Seconds of each build and run", charts.points(data, used, "seconds", _labels(evaluations))
    )
    for one in evaluations:
        timed_ways = [
            w for w in one.ways if any(t.seconds.get(w) for p in one.programs for t in p.timed)
        ]
        columns = [
            Column("program"),
            Column("what"),
            *(Column(f"{way}, s", ".3f") for way in timed_ways),
        ]
        with_ratios = any(t.ratio for p in one.programs for t in p.timed)
        if with_ratios:
            columns += [Column("ratio", ".3f"), Column("output")]
        else:
            columns += [Column(f"{way} / {one.first}", ".2f") for way in timed_ways[1:]]
        rows = []
        for p in one.programs:
            for timed in p.timed:
                middles = [
                    median(timed.seconds[w]) if timed.seconds.get(w) else None for w in timed_ways
                ]
                rest: list[Cell] = [timed.ratio, timed.result]
                if not with_ratios:
                    rest = [m / middles[0] if m and middles[0] else None for m in middles[1:]]
                rows.append([p.name, timed.name, *middles, *rest])
        caption = "Seconds, the median if there are several"
        yield Table(caption if len(evaluations) == 1 else f"{caption}, {one.name}", columns, rows)


def remarks(sources: Sequence[Any]) -> Iterable[Part]:
    """What else was found."""
    for one in sources:
        if isinstance(one, Evaluation):
            if one.remarks:
                caption = f"Problems and notes, {one.name}"
                yield Table(caption, [Column("remark")], [[text] for text in one.remarks])
            if one.engines:
                names = (
                    "engine",
                    "programs",
                    "decisions",
                    "same",
                    "near ties",
                    "different",
                    "objects",
                    "objects different",
                )
                caption = "Decisions of other engines beside those of ONNX Runtime"
                yield Table(caption, [Column(name) for name in names], one.engines)
            spilling = [(p.name, *p.spills) for p in one.programs if p.spills]
            if spilling:
                caption = "Spills, reloads and copies for each call of each function"
                yield Table(
                    caption,
                    [
                        Column("program"),
                        Column("baseline", ".1f"),
                        Column("policy", ".1f"),
                        Column("files, ratio", ".4f"),
                    ],
                    spilling,
                )


def _has_remarks(sources: Sequence[Any]) -> bool:
    return any(True for _ in remarks(sources))


SECTIONS = (
    Section("Code size", lambda sources: bool(_of(sources)), sizes),
    Section("Policies side by side", lambda sources: any(e.size for e in _of(sources)), policies),
    Section("Time", lambda sources: bool(_of(sources)), times),
    Section("Remarks", _has_remarks, remarks),
)
