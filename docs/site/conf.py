# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The site: the tree's Markdown pages, and the reference of C++, C and Python. tools/docs.py runs
Sphinx with this on the whole tree, so that a page's links are the same here and in the tree."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
project = "MLBridge"
author = "The MLBridge developers"
project_copyright = "MLBridge, Apache License 2.0 with LLVM exceptions"
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "**/*.md", "docs/reference/*.rst"]
exclude_patterns = ["build", ".*", "tests"]
suppress_warnings = ["misc.highlighting_failure"]  # of JSON with … in it

html_theme = "furo"
html_title = "MLBridge"
html_static_path = ["custom.css"]
html_css_files = ["custom.css"]
html_extra_path = ["start"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
smartquotes = False  # docstrings have code
default_role = "code"  # as in the C++ comments and in Markdown

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]

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
# Names of other packages, whose reference is not at hand in this build, and type variables. Those of
# C++ and C are checked by Doxygen.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|collections|typing|asyncio|concurrent|os|pathlib|subprocess|types)\b.*"),
    (
        r"py:.*",
        r"(enum|builtins|datetime|timedelta|random|ndarray|NDArray|ArrayLike|DTypeLike|Any|Self)\b.*",
    ),
    (r"py:.*", r"contextlib\b.*"),
    (r"py:.*", r"(mlbridge\.\w+\.)?(T|Task|Result|_\w+)(\.\w+)?"),
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


def fit(app: Sphinx, name: str, source: list[str]) -> None:
    """What a page of the tree may say, and Sphinx doesn't understand."""
    folder = (ROOT / name).parent

    def page_of(link: re.Match[str]) -> str:
        """A link to a folder leads to its README, if it has one."""
        readme = folder / link[2] / "README.md"
        return f"[{link[1]}]({link[2]}/README.md)" if readme.is_file() else link[1]

    text = re.sub(r"\[([^]]*)\]\(([^):#]*[^):#/])/?\)", lambda link: page_of(link) if (folder / link[2]).is_dir() else link[0], source[0])
    # A page that only some trees have is named NAME* in a toctree.
    source[0] = re.sub(r"^(\S+)\*$", lambda line: line[0] if any(folder.glob(f"{line[1]}*.md")) else "", text, flags=re.M)


def setup(app: Sphinx) -> None:
    app.connect("source-read", fit)
    app.connect("autodoc-process-docstring", document)


os.environ.setdefault("NO_COLOR", "1")
