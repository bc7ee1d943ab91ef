# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Charts as Vega and Vega-Lite describe them. Their data has the exact numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from typing import Any

Spec = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

VEGA_LITE = "https://vega.github.io/schema/vega-lite/v6.json"
VEGA = "https://vega.github.io/schema/vega/v6.json"
#: Each has a contrast of 3 or more with the page, light or dark.
COLORS = ["#2a7fb8", "#d9661f", "#1b9e77", "#b05ccc", "#8a7a1f", "#d6457b"]
LOWER, MIDDLE, HIGHER = "#1b9e77", "#8a8f98", "#d9661f"
#: The pixels of a bar, and characters of a name beside an axis.
BAR, WIDEST = 11, 40


def brief(names: Iterable[str]) -> dict[str, str]:
    """Names that fit beside an axis, still different from each other."""
    short: dict[str, str] = {}
    taken = set[str]()
    for name in dict.fromkeys(names):
        half = WIDEST // 2
        fits = name if len(name) <= WIDEST else f"{name[:half]}…{name[1 - half :]}"
        number = 2
        while fits in taken:
            fits = f"{fits[: half - 1]}…{number}…{name[2 - half :]}"
            number += 1
        taken.add(fits)
        short[name] = fits
    return short


def view(rows: Rows, **rest: Any) -> Spec:
    """A chart as wide as the page. What is long in the `name` of a row is left out of it."""
    short = brief(row["name"] for row in rows if "name" in row)
    rows = [{**row, "name": short[row["name"]]} if "name" in row else row for row in rows]
    size = {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
    return {"$schema": VEGA_LITE, "data": {"values": list(rows)}, **size, **rest}


def field(name: str, kind: str, title: str | None = None, **rest: Any) -> Spec:
    """An encoding of a column."""
    return {"field": name, "type": kind, "title": title, **rest}


def colored(names: Sequence[str], column: str, among: Sequence[str] = ()) -> Spec:
    """A color for each name, the same in all charts with the same names `among` which these are; a
    legend if there are several."""
    scale = {"domain": [*(among or names)], "range": COLORS}
    legend = {"columns": 4, "symbolType": "square", "values": list(names)}
    return field(column, "nominal", scale=scale, legend=legend if len(names) > 1 else None)


def tips(*columns: tuple[str, str, str]) -> list[Spec]:
    """What is shown of a mark that is pointed at: name, kind and format of columns."""
    return [
        field(name, "quantitative", title, format=form) if form else field(name, "nominal", title)
        for name, title, form in columns
    ]


def told(rows: Rows) -> list[Spec]:
    """What is shown of a decision: all that is known of some."""
    columns = (
        ("unit", "", ""),
        ("step", "step", "d"),
        ("name", "choice", ""),
        ("score", "score", ".4~g"),
        ("second", "next best", ".4~g"),
        ("reward", "reward", ".4~g"),
        ("change", "change", "+.2%"),
        ("ms", "milliseconds", ".4~g"),
    )
    return tips(*(c for c in columns if any(row[c[0]] is not None for row in rows)))


def logarithmic(rows: Rows, column: str) -> Spec:
    """The scale on which equal ratios are equally long, if all numbers are above 0."""
    values = [row[column] for row in rows if row[column] is not None]
    return {"type": "log", "nice": False, "padding": 12} if values and min(values) > 0 else {}


def changes(rows: Rows, ways: Sequence[str], title: str, among: Sequence[str] = ()) -> Spec:
    """Bars of each `name` in each `way`: its `ratio` as percent against 1; a line from `low` to
    `high` where these are known."""
    transform = [
        {"calculate": f"datum.{name} == null ? null : 100 * (datum.{name} - 1)", "as": f"{name} %"}
        for name in ("ratio", "low", "high")
    ]
    names = list(brief(row["name"] for row in rows).values())
    shared = {
        "y": field("name", "nominal", sort=names),
        "yOffset": field("way", "nominal", sort=list(ways)),
    }
    known = (("name", "", ""), ("way", "", ""), ("ratio", "ratio", ".4f"))
    bars = {
        "mark": "bar",
        "encoding": {
            "x": field("ratio %", "quantitative", title),
            "color": colored(ways, "way", among),
            "tooltip": tips(*known),
        },
    }
    lines = {
        "transform": [{"filter": "isValid(datum.low)"}],
        "mark": {"type": "rule", "color": "currentColor", "strokeWidth": 1.5},
        "encoding": {
            "x": field("low %", "quantitative", title),
            "x2": {"field": "high %"},
            "tooltip": tips(*known, ("low", "from", ".4f"), ("high", "to", ".4f")),
        },
    }
    zero = {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": "currentColor", "aria": False},
        "encoding": {
            "x": field("zero", "quantitative", title),
            "y": None,
            "yOffset": None,
            "tooltip": None,
        },
    }
    height = BAR * len(names) * (len(ways) + 0.5)
    layer = [bars, *([lines] if any(row.get("low") is not None for row in rows) else []), zero]
    return view(rows, height=height, transform=transform, encoding=shared, layer=layer)


def means(rows: Rows, whats: Sequence[str]) -> Spec:
    """A point at each `name`'s `ratio`, and a line from `low` to `high`."""
    names = list(brief(row["name"] for row in rows).values())
    ends = [x for row in rows for x in (row["ratio"], row["low"], row["high"]) if x is not None]
    scale = {"domain": [min(1, *ends), max(1, *ends)], "nice": True, "zero": False}
    shared = {
        "y": field("name", "nominal", sort=names),
        "color": colored(whats, "way"),
        "tooltip": tips(
            *(("name", "", ""), ("ratio", "ratio", ".4f"), ("low", "from", ".4f")),
            ("high", "to", ".4f"),
        ),
    }
    x = field("ratio", "quantitative", "ratio", scale=scale)
    lines = {
        "mark": {"type": "rule", "strokeWidth": 2},
        "encoding": {"x": field("low", "quantitative", scale=scale), "x2": {"field": "high"}},
    }
    dots = {"mark": {"type": "point", "filled": True, "size": 70}, "encoding": {"x": x}}
    one = {
        "data": {"values": [{"one": 1}]},
        "mark": {"type": "rule", "color": "currentColor", "strokeDash": [4, 3], "aria": False},
        "encoding": {
            "x": field("one", "quantitative", "ratio"),
            "y": None,
            "color": None,
            "tooltip": None,
        },
    }
    return view(rows, height=2 * BAR * len(names), encoding=shared, layer=[one, lines, dots])


def points(rows: Rows, ways: Sequence[str], title: str, among: Sequence[str] = ()) -> Spec:
    """A point at each `value` of a `name`, by `way`: seconds of runs."""
    names = list(brief(row["name"] for row in rows).values())
    return view(
        rows,
        height=2 * BAR * len(names),
        mark={"type": "point", "filled": True, "size": 60, "opacity": 0.75},
        encoding={
            "x": field("value", "quantitative", title, scale=logarithmic(rows, "value")),
            "y": field("name", "nominal", sort=names, axis={"grid": True}),
            "color": colored(ways, "way", among),
            "tooltip": tips(("name", "", ""), ("way", "", ""), ("value", title, ".4~f")),
        },
    )


def timeline(rows: Rows, names: Sequence[str], effect: str | None) -> Spec:
    """A point at each `time` for the `name` that was chosen; the color is a column."""
    most = max((abs(row[effect] or 0) for row in rows), default=0) if effect else 0
    colors = [LOWER, MIDDLE, HIGHER][:: -1 if effect == "reward" else 1]  # the first is better
    scale = {"domain": [-most, 0, most], "range": colors, "interpolate": "rgb"}
    form = "+.1%" if effect == "change" else ".3~g"
    legend = {"format": form, "gradientLength": 200}
    color = field(effect or "", "quantitative", effect, scale=scale, legend=legend)
    short = brief(row["name"] for row in rows)
    return view(
        rows,
        height=max(120, 1.6 * BAR * len(names)),
        mark={
            "type": "tick",
            "thickness": 2,
            "aria": False,
            "height": 1.2 * BAR,
            "orient": "vertical",
        },
        encoding={
            "x": field("time", "quantitative", "seconds"),
            "y": field("name", "nominal", sort=[short[name] for name in names]),
            "color": color if most else {"value": COLORS[0]},
            "tooltip": told(rows),
        },
    )


def spans(rows: Rows) -> Spec:
    """A bar from `begin` to `end`, in minutes, for each `step` beside its `name`."""
    names = list(brief(row["name"] for row in rows).values())
    return view(
        rows,
        height=2 * BAR * len(names),
        mark={"type": "bar", "height": 1.2 * BAR, "stroke": "white", "strokeWidth": 0.5},
        encoding={
            "x": field("begin", "quantitative", "minutes"),
            "x2": {"field": "end"},
            "y": field("name", "nominal", sort=names),
            "tooltip": tips(("step", "", ""), ("took", "seconds", ".2f")),
        },
    )


def scores(rows: Rows) -> Spec:
    """A point at each `score`, and a line from there to the `second`."""
    x = field("time", "quantitative", "seconds")
    zero = {"zero": False}
    points = {
        "mark": {"type": "point", "filled": True, "size": 18, "aria": False, "color": COLORS[0]},
        "encoding": {
            "x": x,
            "y": field("score", "quantitative", "score", scale=zero),
            "tooltip": told(rows),
        },
    }
    lines = {
        "transform": [{"filter": "isValid(datum.second)"}],
        "mark": {"type": "rule", "opacity": 0.4, "aria": False, "color": COLORS[0]},
        "encoding": {
            "x": x,
            "y": field("second", "quantitative", "score"),
            "y2": {"field": "score"},
        },
    }
    known = [{"filter": "isValid(datum.score)"}]
    return view(rows, height=220, transform=known, layer=[lines, points])


def latencies(rows: Rows) -> Spec:
    """A point at each time that a decision took."""
    return view(
        rows,
        height=220,
        mark={"type": "point", "filled": True, "size": 14, "aria": False, "color": COLORS[0]},
        encoding={
            "x": field("time", "quantitative", "seconds"),
            "y": field("ms", "quantitative", "milliseconds", scale=logarithmic(rows, "ms")),
            "tooltip": told(rows),
        },
    )


def histogram(rows: Rows) -> Spec:
    """Bars of a `count` between `from` and `to`."""
    scale = {"type": "log", "nice": False, "domain": [rows[0]["from"], rows[-1]["to"]]}
    return view(
        rows,
        height=160,
        mark={"type": "bar", "color": COLORS[0], "binSpacing": 1},
        encoding={
            "x": field("from", "quantitative", "milliseconds", scale=scale),
            "x2": {"field": "to"},
            "y": field("count", "quantitative", "decisions"),
            "y2": {"datum": 0},
            "tooltip": tips(
                *(("from", "from, ms", ".3~g"), ("to", "to, ms", ".3~g")),
                ("count", "decisions", ",d"),
            ),
        },
    )


def lines(rows: Rows, names: Sequence[str], beside: Mapping[str, float], title: str) -> Spec:
    """The `value` of each `name` by `steps`; a dashed line at the value of each other policy."""
    zero = {"zero": False}
    curves = {
        "mark": {"type": "line", "point": {"size": 22}, "strokeWidth": 1.5},
        "encoding": {
            "x": field("steps", "quantitative", "steps"),
            "y": field("value", "quantitative", title, scale=zero),
            "color": colored(names, "name"),
            "tooltip": tips(("name", "", ""), ("steps", "steps", ",d"), ("value", title, ".4f")),
        },
    }
    named = {"values": [{"policy": name, "at": value} for name, value in beside.items()]}
    at = {"y": field("at", "quantitative", title, scale=zero)}
    dashed = {"type": "rule", "color": "currentColor", "strokeDash": [5, 4], "opacity": 0.8}
    text = {
        "type": "text",
        "align": "left",
        "baseline": "bottom",
        "dx": 4,
        "dy": -2,
        "color": "currentColor",
    }
    others = [
        {
            "data": named,
            "mark": dashed,
            "encoding": {**at, "tooltip": tips(("policy", "", ""), ("at", title, ".4f"))},
        },
        {
            "data": named,
            "mark": {**text, "aria": False},
            "encoding": {**at, "x": {"value": 0}, "text": {"field": "policy"}},
        },
    ]
    return view(rows, height=280, layer=[curves, *(others if beside else [])])


EVERYTHING = "all programs"


def treemap(rows: Rows, compared: bool) -> Spec:
    """Areas of `bytes`: rows have a `program`, a `file` and the name of a `function`, or "" for the
    sum of a file. With several programs, files are shown, and functions of a chosen one. If
    `compared`, the color is the change from `before`."""
    spec: Spec = json.loads((resources(__package__) / "treemap.json").read_text())
    programs = list(dict.fromkeys(row["program"] for row in rows))
    shown: Spec = {"name": "shown", "value": programs[0]}
    if len(programs) > 1:
        choices = {"input": "select", "options": [EVERYTHING, *programs], "name": "show "}
        shown |= {"value": EVERYTHING, "bind": choices}
    spec["signals"] += [shown, {"name": "compared", "value": compared}]
    spec["data"][0]["values"] = list(rows)
    return spec
