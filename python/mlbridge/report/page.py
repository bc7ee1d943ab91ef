# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A page: sections with figures and tables, in one HTML file that loads nothing."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from typing import Any, NamedTuple

from ..errors import NotFound
from ..files import extra
from .charts import VEGA_LITE, Spec

#: Rows of a table; those beyond are counted, not shown.
MOST_ROWS = 1000


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval, which isn't known of fewer than two values."""

    mean: float
    low: float | None
    high: float | None
    count: int


Cell = str | int | float | Interval | None


@dataclass(frozen=True)
class Column:
    """A column; `form` is how its numbers are shown, their exact values stand in the page too."""

    name: str
    form: str = ",d"


@dataclass(frozen=True)
class Table:
    """Rows below their columns, the more important first; `totals` are at the end of all."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    totals: Sequence[Sequence[Cell]] = ()
    #: How many rows there are besides.
    more: int = 0


@dataclass(frozen=True)
class Figure:
    """A chart, and what it shows in a sentence."""

    caption: str
    spec: Spec


#: A text is a paragraph.
Part = Table | Figure | str


class Section(NamedTuple):
    """A part of a page with a title: whether it applies to what the page is made from, and what it
    shows of that."""

    title: str
    applies: Callable[[Sequence[Any]], bool]
    parts: Callable[[Sequence[Any]], Iterable[Part]]


def shown(text: object) -> str:
    """A text of anybody's in HTML."""
    visible = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text))
    return html.escape(visible)


def short_uri(uri: str) -> str:
    """A model's URI with the last folder of its path alone."""
    return re.sub(r"/[^?]*/(?=[^/?]+/[^/?]+(\?|$))", "…/", uri)


def number(value: float, form: str) -> str:
    """A number in HTML, with its exact value."""
    if not math.isfinite(value):
        return shown(value)
    if isinstance(value, int):
        form = form if form.endswith("d") else ",d"
    elif form.endswith("d"):
        form = ",.1f"
    text = f"{value:{form}}"
    return f'<data value="{json.dumps(value)}">{text}</data>'


def cell(value: Cell, form: str) -> str:
    """What stands in a cell."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return shown(value)
    if not isinstance(value, Interval):
        return number(value, form)
    mean = number(value.mean, form)
    if value.low is None or value.high is None:
        return mean
    return f"{mean} [{number(value.low, form)}, {number(value.high, form)}]"


def table(part: Table, name: str) -> str:
    """A table whose columns can be sorted."""
    numeric = [
        all(not isinstance(row[at], str) for row in part.rows) for at in range(len(part.columns))
    ]

    def line(values: Sequence[Cell]) -> str:
        cells = []
        for at, (value, column) in enumerate(zip(values, part.columns, strict=True)):
            tag = 'th scope="row"' if at == 0 else 'td class="n"' if numeric[at] else "td"
            cells.append(f"<{tag}>{cell(value, column.form)}</{tag.split()[0]}>")
        return f"<tr>{''.join(cells)}</tr>"

    heads = "".join(
        f'<th scope="col"><button type="button">{shown(c.name)}</button></th>' for c in part.columns
    )
    left_out = part.more + max(0, len(part.rows) - MOST_ROWS)
    more = f"; {left_out:,} more rows are not shown, totals are of all" if left_out else ""
    foot = f"<tfoot>{''.join(map(line, part.totals))}</tfoot>" if part.totals else ""
    return (
        f'<div class="table" role="region" tabindex="0" aria-labelledby="{name}">'
        f'<table><caption id="{name}">{shown(part.caption)}{more}</caption>'
        f"<thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(map(line, part.rows[:MOST_ROWS]))}</tbody>{foot}</table></div>"
    )


def figure(part: Figure, name: str) -> str:
    """A chart, which the page's script draws."""
    described = {"description": part.caption, **part.spec}
    return (
        f'<figure aria-labelledby="{name}-caption">'
        f'<figcaption id="{name}-caption">{shown(part.caption)}</figcaption>'
        f'<div class="chart" id="{name}"></div>'
        f'<script type="application/json" data-chart="{name}">{in_script(described)}</script>'
        "</figure>"
    )


def element(part: Part, name: str) -> str:
    """A part of a section in HTML, whose identifiers begin with this name."""
    if isinstance(part, str):
        return f"<p>{shown(part)}</p>"
    return table(part, name) if isinstance(part, Table) else figure(part, name)


def in_script(value: object) -> str:
    """JSON that ends no element of HTML."""
    text = json.dumps(finite(value), separators=(",", ":"))  # ASCII
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def finite(value: Any) -> Any:
    """The value with null for each number that JSON doesn't have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


def renderer() -> Any:
    """The package that has Vega. Raises NotFound if it is missing."""
    try:
        import vl_convert
    except ImportError as error:
        raise NotFound(f"charts need {extra('report')} ({error})") from None
    return vl_convert


@cache
def library() -> str:
    """Vega with Vega-Lite as one script; raises as `renderer`."""
    script = str(renderer().javascript_bundle())
    # What would end the element, or hide its end.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


#: The endings of pictures.
PICTURES = ("jpeg", "pdf", "png", "svg")


def picture(figures: Sequence[Figure], form: str) -> bytes:
    """Charts of Vega-Lite below each other, as an image in one of the forms PICTURES."""
    views = []
    for one in figures:
        spec = {key: value for key, value in one.spec.items() if key not in ("$schema", "autosize")}
        views.append({**spec, "width": 640, "title": {"text": one.caption, "anchor": "start"}})
    config = {"background": "white", "legend": {"orient": "top"}}
    spec = {"$schema": VEGA_LITE, "vconcat": views, "config": config}
    spec["resolve"] = {"scale": {"color": "independent"}}
    large = {"scale": 1.5} if form in ("jpeg", "png") else {}
    draw: Any = getattr(renderer(), f"vegalite_to_{form}")
    drawn = draw(finite(spec), **large)
    return drawn.encode() if isinstance(drawn, str) else bytes(drawn)


def page(title: str, about: Sequence[str], parts: Sequence[tuple[str, Sequence[Part]]]) -> bytes:
    """The HTML file. `about` says what it was made from; `parts` are the titles of sections with
    what they show."""
    sections, contents = [], []
    for at, (heading, shows) in enumerate(parts, 1):
        contents.append(f'<li><a href="#s{at}">{shown(heading)}</a></li>')
        written = [element(part, f"s{at}-{index}") for index, part in enumerate(shows, 1)]
        sections.append(
            f'<section aria-labelledby="s{at}"><h2 id="s{at}">{shown(heading)}</h2>'
            f"{''.join(written)}</section>"
        )
    here = resources(__package__)
    text = (here / "page.html").read_text()
    fields = {
        "title": shown(title),
        "style": (here / "page.css").read_text(),
        "about": "".join(f"<li>{shown(one)}</li>" for one in about),
        "contents": "".join(contents),
        "sections": "\n".join(sections),
        "library": library(),
        "script": (here / "page.js").read_text(),
    }
    for name, value in fields.items():  # the last are scripts, in which nothing is replaced
        text = text.replace(f"<!--{name}-->", value)
    return text.encode(errors="backslashreplace")
