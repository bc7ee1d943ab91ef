# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the pages of `mlbridge report`, and checks what must be so on each."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

#: Elements that have no end.
VOID = ("meta", "br", "hr", "img", "link", "input")


class Page(HTMLParser):
    """What is on a page: texts, exact numbers, rows of tables, charts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.html = path.read_text()
        self.numbers: list[float] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.headings: list[str] = []
        self.charts: dict[str, Any] = {}
        self._open: list[tuple[str, dict[str, str]]] = []
        self._identifiers: Counter[str] = Counter()
        self._referred: set[str] = set()
        self._json = ""
        self.feed(self.html)
        self.close()
        assert not self._open, self._open
        assert all(count == 1 for count in self._identifiers.values()), self._identifiers
        assert self._referred <= set(self._identifiers)
        assert self._identifiers["main"] and "default-src 'none'" in self.html

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attributes}
        assert not {"src", "onclick", "onerror", "style"} & set(has), (tag, has)
        assert tag not in ("link", "img", "iframe", "object", "embed", "base"), tag
        if "href" in has:
            assert has["href"].startswith("#"), has
            self._referred.add(has["href"][1:])
        self._referred |= {name for name in (has.get("aria-labelledby"),) if name}
        if "data-chart" in has:
            self._referred.add(has["data-chart"])
        if "id" in has:
            assert re.fullmatch(r"[a-z][a-z0-9-]*", has["id"]), has
            self._identifiers[has["id"]] += 1
        if tag == "data":
            self.numbers.append(json.loads(has["value"]))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append((tag, has))

    def handle_endtag(self, tag: str) -> None:
        opened, has = self._open.pop()
        assert opened == tag
        if "data-chart" in has:
            self.charts[has["data-chart"]] = json.loads(self._json)
            self._json = ""

    def handle_data(self, data: str) -> None:
        inside = [tag for tag, _ in self._open]
        if not inside:
            return
        if inside[-1] == "style":
            assert "url(" not in data and "@import" not in data
        elif inside[-1] == "script":
            self._json += data if "data-chart" in self._open[-1][1] else ""
        else:
            self.texts.append(data)
            if inside[-1] == "h2":
                self.headings.append(data)
            if "td" in inside or "th" in inside:
                self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def row(self, name: str) -> list[str]:
        """The first row that begins with this."""
        return next(row for row in self.rows if row and row[0] == name)

    def values(self, name: str) -> list[dict[str, Any]]:
        """The data of a chart."""
        data = self.charts[name]["data"]
        found: list[dict[str, Any]] = (data if isinstance(data, dict) else data[0])["values"]
        return found


def numbers_of(value: Any) -> list[float]:
    """All numbers in a value of JSON."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [number for part in parts for number in numbers_of(part)]
