# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens the site in a browser without network: on a phone and on a desk, light and dark, nothing
may be wider than the window, and the console stays empty. build/docs/screenshots keep it."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from sampling import nightly
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/docs/site"
SCREENSHOTS = SITE.with_name("screenshots")
PROGRAMS = [shutil.which("chromium"), shutil.which("chromedriver")]
SAMPLE = ["docs/index", "docs/paths/smaller-programs", "docs/reference/models"]
WIDTHS = (390, 1280)  # of a phone and of a desk, in pixels
HIGHEST = 6000  # of a screenshot
# What the window cuts off: a part of the page that no box around it scrolls.
CUT_OFF = """
const width = arguments[0];
const scrolls = e => e.tagName != 'ARTICLE' &&
  (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
return [...document.querySelectorAll('article *')]
  .filter(e => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement))
  .map(e => e.outerHTML.slice(0, 200))
  .concat(document.documentElement.scrollWidth > width ? ['the page'] : []);
"""


@pytest.fixture
def browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location, driver = map(str, PROGRAMS)
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, Service(driver))
    yield browser
    browser.quit()


@pytest.fixture
def pages() -> list[str]:
    if not SITE.is_dir():
        pytest.skip("no site: make docs builds it")
    return [str(p.relative_to(SITE).with_suffix("")) for p in sorted(SITE.rglob("*.html"))]


def test_every_link_of_the_site_leads_somewhere(pages: list[str]) -> None:
    texts = {SITE / f"{page}.html": unescape((SITE / f"{page}.html").read_text()) for page in pages}
    places = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    wrong = []
    for path, text in texts.items():
        for link in set(re.findall(r'\b(?:href|src)="([^"]*)"', text)):
            parts = urlsplit(link)
            target = (
                Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            )
            place = unquote(parts.fragment)
            found = target.exists() and (not place or place in places.get(target, {place}))
            if not parts.scheme and not found:
                wrong.append(f"{path.relative_to(SITE)}: {link}")
    assert not wrong, "\n".join(wrong)


def console(browser: Chrome) -> list[str]:
    entries = browser.execute("getLog", {"type": "browser"})["value"]
    return [f"console: {entry['message']}" for entry in entries]


def show(browser: Chrome, page: str, width: int, scheme: str) -> list[str]:
    """What is wrong with a page in a window of this width."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get((SITE / f"{page}.html").as_uri())
    found = [f"is cut off: {what}" for what in browser.execute_script(CUT_OFF, width)]
    found += console(browser)
    name = f"{page.replace('/', '-')}-{width}-{scheme}.png"
    if found or page in SAMPLE:
        height = browser.execute_script("return document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, HIGHEST), "scale": 1}
        shot = {"captureBeyondViewport": True, "clip": clip}
        image = browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"]
        (SCREENSHOTS / name).write_bytes(base64.b64decode(image))
    return [f"{name}: {what}" for what in found]


@pytest.mark.parametrize("whole", [False, nightly(True)])
def test_the_site_fits_every_window(whole: bool, request: pytest.FixtureRequest) -> None:
    if whole:
        subprocess.run([sys.executable, ROOT / "tools/docs.py"], check=True)
    elif not all(PROGRAMS):
        pytest.skip("no chromium: tools/setup --for nightly installs it")
    browser = request.getfixturevalue("browser")
    SCREENSHOTS.mkdir(exist_ok=True)
    pages = request.getfixturevalue("pages")
    assert set(SAMPLE) < set(pages)
    found = [
        problem
        for page in (pages if whole else SAMPLE)
        for width in WIDTHS
        for scheme in ("light", "dark")
        for problem in show(browser, page, width, scheme)
    ]
    assert not found, "\n".join(found)
    browser.get((SITE / "search.html").as_uri() + "?q=deadline")
    results = "return document.querySelectorAll('#search-results li').length"
    WebDriverWait(browser, 20).until(lambda _: browser.execute_script(results) > 5)
    assert not console(browser)
