# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The site: the tree's Markdown pages, and the reference of C++, C and Python. tools/docs.py runs
Sphinx with this on the whole tree, so that a page's links are the same here and in the tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging

import mlbridge

ROOT = Path(__file__).resolve().parents[2]
project = "MLBridge"
release = mlbridge.__version__
author = "The MLBridge developers"
project_copyright = "MLBridge, Apache License 2.0 with LLVM exceptions"
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.md", "**/*.md", "docs/reference/*.rst"]
# What the packages' own pages say stands on the page about installing.
exclude_patterns = [
    "build",
    ".*",
    "tests",
    "compat/python",
    "programs/inputs",
    "python/distributions",
]
suppress_warnings = ["misc.highlighting_failure"]  # of JSON with … in it

html_theme = "furo"
html_title = f"MLBridge {release}"
pygments_dark_style = "github-dark"
html_static_path = ["custom.css"]
html_css_files = ["custom.css"]
html_extra_path = ["start"]
html_show_search_summary = False  # a browser fetches nothing from a folder
html_use_index = html_domain_indices = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
smartquotes = False  # docstrings have code
default_role = "code"  # as in the C++ comments and in Markdown

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]

copybutton_prompt_text = "$ "  # without what a command prints

breathe_projects = {"mlbridge": str(ROOT / "build/docs/doxygen/xml")}
breathe_default_project = "mlbridge"
breathe_domain_by_file_pattern = {"*/c/*.h": "c", "*/component.h": "c", "*/aot.h": "c"}
breathe_default_members = ("members", "undoc-members")

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_default_options = {
    "members": True,
    "undoc-members": True,
    "show-inheritance": True,
    # The members that Python's own classes have are left out.
    "inherited-members": (
        "object, BaseException, Exception, OSError, ValueError, LookupError, RuntimeError, "
        "tuple, int, Enum, IntEnum, Protocol"
    ),
}
# Names of other packages, whose reference is not at hand in this build, and type variables. Doxygen
# checks those of C++ and C.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|collections|typing|asyncio|concurrent|os|pathlib|subprocess|types)\b.*"),
    (
        r"py:.*",
        r"(enum|builtins|datetime|timedelta|random|ndarray|NDArray|ArrayLike|DTypeLike|Any|Self)\b.*",
    ),
    (r"py:.*", r"(contextlib|gymnasium)\b.*"),
    (r"py:.*", r"(mlbridge\.[\w.]+\.)?(T|Value|Task|Result|_\w+)(\.\w+)?"),
    # Described where they are made, or in a guide.
    (r"py:.*", r"Compiler(AEC|Parallel|MultiAgent)|mlbridge\.(gym|corpus)\.\w+\.\w+"),
    (r"(c|cpp):.*", r".*"),
]

SIGNATURE = re.compile(r"\s*\w*\(.*\) -> .*")
logger = logging.getLogger(__name__)


def document(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """A public name without a docstring is a warning, and so an error."""
    # nanobind gives "(self) -> float" to what has none.
    if not any(line.strip() and not SIGNATURE.fullmatch(line) for line in lines) and what != "data":
        logger.warning("%s %s has no docstring", what, name)
    shown: list[str] = []
    for line in lines:  # indented text is code, as in Markdown
        if line.startswith("    ") and (not shown or not shown[-1].strip()):
            before = next((s for s in reversed(shown) if s.strip()), "")
            if not before.startswith("    ") and not before.endswith("::"):
                shown += ["::", ""]
        shown.append(line)
    lines[:] = shown


LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python", ".txt": "cmake"}
PAGES = (".md", ".rst", ".png", ".svg")
sources: set[str] = set()  # files and folders of the tree that pages lead to


def fit(app: Sphinx, name: str, text: list[str]) -> None:
    """What pages say in the tree's own ways, which its tests know, too (tests/docs)."""
    folder = (ROOT / name).parent

    def lead(link: re.Match[str]) -> str:
        """A link to a folder leads to its README or, like one to a source, to its own page."""
        target = folder / link[2]
        if (target / "README.md").is_file():
            return f"[{link[1]}]({link[2].rstrip('/')}/README.md)"
        if not target.exists() or target.suffix in PAGES:
            return link[0]
        path = os.path.relpath(os.path.normpath(target), ROOT)
        sources.add(path)
        address = os.path.relpath(ROOT / "source" / path, folder)
        return f'<a class="reference internal" href="{address}.html">{link[1]}</a>'

    def exists(entry: re.Match[str]) -> str:
        """A page that only some trees have is called NAME* in a toctree."""
        return entry[0] if any(folder.glob(f"{entry[1]}*.md")) else ""

    text[0] = re.sub(r"(?<!!)\[([^]]*)\]\(([^):#]+)\)", lead, text[0])
    text[0] = re.sub(r"^(\S+)\*$", exists, text[0], flags=re.MULTILINE)
    # A block that belongs in a file has its name above it.
    named = r"```{code-block} \1\n:caption: \2\n"
    text[0] = re.sub(r"^```(\w+) .*?\bfile=(\S+).*$", named, text[0], flags=re.MULTILINE)


def show_sources(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of sources, and of folders with the sources in them."""
    assert isinstance(app.builder, StandaloneHTMLBuilder)
    for path in sorted(sources):
        body = f"<h1>{escape(path)}</h1>"
        is_folder = (ROOT / path).is_dir()
        for file in sorted((ROOT / path).iterdir()) if is_folder else [ROOT / path]:
            if file.is_file():
                body += f"<h2>{escape(file.name)}</h2>" if is_folder else ""
                language = LANGUAGES.get(file.suffix, "text")
                body += app.builder.highlighter.highlight_block(file.read_text(), language)
        yield f"source/{path}", {"title": path, "body": body}, "page.html"


def setup(app: Sphinx) -> None:
    app.connect("source-read", fit)
    app.connect("html-collect-pages", show_sources)
    app.connect("autodoc-process-docstring", document)


os.environ.setdefault("NO_COLOR", "1")
