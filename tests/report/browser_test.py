# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages of `mlbridge report` in a browser: drawn without an error, as wide as the window, light and
dark; tables that are sorted by the keyboard."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import page_sources
import pytest

from mlbridge.cli import main

pytestmark = pytest.mark.nightly
#: Looks at the page once everything is drawn, and keeps what it saw in an attribute.
LOOK = """
<script>
const waiting = setInterval(() => {
  const charts = [...document.querySelectorAll(".chart")];
  if (!charts.every((one) => one.querySelector("svg") || one.textContent)) return;
  clearInterval(waiting);
  const style = (one) => getComputedStyle(one);
  const button = document.querySelector("thead th:nth-child(2) button");
  button.focus();
  const focused = document.activeElement === button;
  button.click();
  const column = () => [...button.closest("table").tBodies[0].rows]
    .map((row) => row.cells[1].querySelector("data")).filter(Boolean)
    .map((one) => Number(one.value));
  const falling = column();
  button.click();
  const saw = {
    svg: charts.map((one) => one.querySelector("svg") !== null),
    wide: charts.map((one) => one.querySelector("svg").getBoundingClientRect().width),
    named: charts.map((one) => one.ariaLabel || ""),
    width: document.documentElement.scrollWidth,
    window: innerWidth,
    back: style(document.body).backgroundColor,
    text: style(document.body).color,
    axis: charts.map((one) => one.querySelector(".role-axis-label text")).filter(Boolean)
      .map((one) => style(one).fill),
    focused, falling, rising: column(),
    reachable: document.querySelectorAll("a[href], button, select, [tabindex='0']").length,
    sorted: button.closest("th").ariaSort,
  };
  document.documentElement.dataset.saw = JSON.stringify(saw);
}, 50);
</script>
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind of source."""
    folder = tmp_path_factory.mktemp("pages")
    page_sources.demo(folder / "demo.json", 12)
    page_sources.validation(folder / "validation.json", 3, name="program with a long name")
    page_sources.validation(folder / "other.json", 3, 2, name="program with a long name")
    page_sources.training(folder / "training", 30)
    page_sources.recorded(folder / "r.mlbrec", 40, 20, name=page_sources.NASTY)
    page_sources.candidates(folder / "logs")
    before = page_sources.build(folder / "before", "-O0")
    after = page_sources.build(folder / "after", "-Os")
    sources = {
        "demo": [folder / "demo.json"],
        "two": [folder / "validation.json", folder / "other.json"],
        "training": [folder / "training"],
        "recording": [folder / "r.mlbrec"],
        "logs": [folder / "logs"],
        "builds": [before, after],
        "build": [before],
    }
    for name, given in sources.items():
        assert main(["report", *map(str, given), "-o", str(folder / f"{name}.html")]) == 0
    return {name: folder / f"{name}.html" for name in sources}


def seen(page: Path, width: int, dark: bool) -> dict[str, Any]:
    """What the browser has of a page; fails if it has anything to say."""
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    copy = page.with_name(f"{page.stem}-{width}-{dark}.html")
    copy.write_text(page.read_text().replace("\n</body>", f"{LOOK}</body>"))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    words += ["--virtual-time-budget=20000", f"--window-size={width},900", "--dump-dom"]
    words += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    words += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={copy}.profile"]
    done = subprocess.run(
        [browser, *words, copy.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    said = [line for line in done.stderr.splitlines() if ":CONSOLE:" in line]
    assert not said, said
    match = re.search(r'data-saw="([^"]*)"', done.stdout)
    assert match, done.stdout[:1000]
    found: dict[str, Any] = json.loads(html.unescape(match[1]))
    return found


KINDS = ("demo", "two", "training", "recording", "logs", "builds", "build")


@pytest.mark.parametrize("width", [1200, 500])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_drawn_as_wide_as_the_window(
    kind: str, width: int, pages: dict[str, Path]
) -> None:
    found = seen(pages[kind], width, dark=False)
    assert found["svg"] and all(found["svg"]) and all(found["named"])
    assert found["width"] <= found["window"]
    assert all(200 < wide <= found["window"] for wide in found["wide"])
    assert found["focused"] and found["sorted"] == "ascending"
    assert found["falling"] == sorted(found["falling"], reverse=True)
    assert found["rising"] == sorted(found["rising"])
    assert found["reachable"] > 3


def luminance(color: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_read_in_light_and_dark(dark: bool, pages: dict[str, Path]) -> None:
    found = seen(pages["training"], 1000, dark)
    back = luminance(found["back"])
    assert (back < 0.1) == dark and found["axis"]
    for text in (found["text"], *found["axis"]):
        low, high = sorted((luminance(text), back))
        assert (high + 0.05) / (low + 0.05) >= 7
