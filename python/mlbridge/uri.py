# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""URIs of models, as text: the schemes, escaping, and a place for each of several agents.

Starts neither NumPy nor the extension.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from . import files

# Schemes that the library opens itself, and what their place is: a model's file, another path, or a
# name. That of aot is a name if it has neither a suffix nor a folder.
SCHEMES = {
    **dict.fromkeys(("onnx", "native", "aot"), "model"),
    **dict.fromkeys(("unix", "shm", "pipe", "candidates", "profile"), "path"),
    "function": "name",
}
#: In a URI for several agents, this is the name of each.
AGENT = "{agent}"


def escaped(place: str) -> str:
    """A place as it may stand in a URI, in a shell and in a makefile without quotes."""

    def one(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in os.fsencode(match[0]))

    parts = (re.sub(r"[^\w./:+,=@-]", one, part, flags=re.ASCII) for part in place.split(AGENT))
    return AGENT.join(parts)


def unescaped(place: str) -> str:
    """The inverse of escaped()."""
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), os.fsencode(place))
    return os.fsdecode(raw)


def for_each(place: str, agents: Sequence[str]) -> list[str]:
    """The place, or URI, of each agent."""
    return [place.replace(AGENT, name) for name in agents] if AGENT in place else [place]


def is_uri(text: str) -> bool:
    """Whether the text begins with a scheme of models, here or of a program that knows it."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and (
        scheme in SCHEMES or scheme in ("tfaot", "grpc") or is_component(scheme)
    )


def is_component(scheme: str) -> bool:
    """Whether a component on this machine opens the scheme."""
    return any(files.find_component(kind, scheme) for kind in ("engine", "transport"))
