# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions files: how a program is compiled, with the profile that this takes, in one file.

The file is an indexed profile of LLVM, which clang's -fprofile-use reads as it is, followed by a
ZIP archive with decisions.json. `llvm-profdata show FILE` and `unzip -p FILE` read their part.

Starts neither NumPy nor the extension, nor dataclasses: `mlbridge flags` uses it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import InvalidArgument, NotFound, Unsupported
from ..files import extra
from ..outputs import replace_whole
from .recipes import Recipe, plugin, plugin_digest

FORMAT, VERSION = "mlbridge-decisions", 1
_MEMBER = "decisions.json"
_MOST = 1 << 26  # bytes of decisions.json
_EPOCH = (1980, 1, 1, 0, 0, 0)
#: What zipfile and json raise for files that are something else; RuntimeError: encrypted.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError),
    *(LookupError, ValueError, RuntimeError),
)
#: The first bytes of an indexed profile, on a machine with the lowest byte first.
PROFILE = b"\xfflprofi\x81"


class DecisionsFile(NamedTuple):
    """The contents of a decisions file, apart from the profile."""

    path: str  #: absolute
    recipe: Recipe  #: that was chosen
    compiler: str  #: the first line of what clang --version printed
    content: Mapping[str, Any]  #: all of decisions.json: also what was measured

    @property
    def command(self) -> str:
        """The compiler's command, if it is the name of a clang; a stranger's file has no say in
        what else is run."""
        stated = str(self.content.get("settings", {}).get("compiler", ""))
        return stated if re.fullmatch(r"clang(-\d+)?", stated) else "clang-22"

    @property
    def other_plugin(self) -> bool:
        """Whether it was made with another build of the plugin that makes versions."""
        stated = self.content.get("plugin")
        return self.recipe.versions and bool(stated) and plugin_digest() not in ("", stated)

    def words(self) -> list[str]:
        """What clang's command line has more. NotFound without the plugin that it needs."""
        if self.recipe.versions and not os.path.isfile(plugin()):
            raise NotFound(f"{self.path} needs a compiler plugin: {extra('clang22')}")
        return self.recipe.words(self.path)


def write(path: str | os.PathLike[str], profile: bytes, content: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all. `profile` may be empty if the recipe needs none.
    OSError"""
    archive = io.BytesIO()
    archive.write(profile)
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as made:
        entry = zipfile.ZipInfo(_MEMBER, _EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        whole = {
            "format": FORMAT,
            "version": VERSION,
            "profile": _described(profile),
            "plugin": plugin_digest(),
            **content,
        }
        text = json.dumps(whole, indent=1)
        made.writestr(entry, text + "\n")
    replace_whole(path, archive.getvalue(), mode=0o644)


def _described(profile: bytes) -> dict[str, Any]:
    return {"bytes": len(profile), "blake2b": hashlib.blake2b(profile, digest_size=20).hexdigest()}


def read(path: str | os.PathLike[str]) -> DecisionsFile:
    """Read a file. NotFound; InvalidArgument for what is none, or damaged; Unsupported if a newer
    version of this package has written it."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            with zipfile.ZipFile(file) as archive:
                if archive.getinfo(_MEMBER).file_size > _MOST:
                    raise ValueError("too long")
                content = json.loads(archive.read(_MEMBER))
            file.seek(0)
            profile = file.read(archive.start_dir)  # at least as long as the profile
    except OSError as error:
        raise NotFound(f"{shown}: {error.strerror or error}; expected a decisions file") from None
    except _DAMAGE:
        raise InvalidArgument(
            f"{shown}: no decisions file, or damaged; `mlbridge specialize` writes one"
        ) from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidArgument(f"{shown}: {_MEMBER} doesn't say that its format is {FORMAT}")
    if content.get("version") != VERSION:
        raise Unsupported(
            f"{shown}: version {content.get('version')}; this mlbridge knows {VERSION}"
        )
    try:
        recipe, compiler = Recipe.of(content["recipe"]), content["compiler"]
        if not isinstance(compiler, str):
            raise ValueError("compiler is no text")
        if not isinstance(content.get("settings", {}), dict):
            raise ValueError("settings are no object")
        stated = content["profile"]
        profile = profile[: stated["bytes"]]
    except (LookupError, ValueError, TypeError) as error:
        raise InvalidArgument(f"{shown}: {_MEMBER}: {error}") from None
    if _described(profile) != stated or (recipe.profile and not profile.startswith(PROFILE)):
        raise InvalidArgument(f"{shown}: the profile in it is damaged; take a whole copy")
    return DecisionsFile(os.path.abspath(path), recipe, compiler, content)
