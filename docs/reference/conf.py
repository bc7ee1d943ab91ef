# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of the Python interface, from its docstrings; tools/docs.py runs Sphinx on it."""

from __future__ import annotations

import os
import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

project = "MLBridge"
author = "The MLBridge developers"
project_copyright = "MLBridge, Apache License 2.0 with LLVM exceptions"
extensions = ["sphinx.ext.autodoc"]
exclude_patterns = ["*.md"]
html_theme = "alabaster"
html_theme_options = {"description": "Connects compiler optimizations to machine-learning models"}
html_show_sourcelink = False
html_copy_source = False
smartquotes = False  # docstrings have code
default_role = "code"  # as in the C++ comments and in Markdown
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
# Names of other packages, whose reference is not at hand in this build, and type variables.
nitpick_ignore_regex = [
    (r"py:.*", r"(numpy|np|collections|typing|asyncio|concurrent|os|pathlib|subprocess|types)\b.*"),
    (
        r"py:.*",
        r"(enum|builtins|datetime|timedelta|random|ndarray|NDArray|ArrayLike|DTypeLike|Any|Self)\b.*",
    ),
    (r"py:.*", r"contextlib\b.*"),
    (r"py:.*", r"(mlbridge\.\w+\.)?(T|Task|Result|_\w+)(\.\w+)?"),
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


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", document)


os.environ.setdefault("NO_COLOR", "1")
