# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the modules that a user names: those of a corpus, or of files and folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument, NotFound
from .store import Corpus, is_corpus, names, open

SUFFIXES = (".bc", ".ll")


def opened(corpus: Any, part: str) -> Corpus | None:
    """The part of a corpus that a name or path, also alone in a list, stands for; None if it stands
    for files or folders."""
    if isinstance(corpus, (list, tuple)) and len(corpus) == 1:
        corpus = corpus[0]
    if isinstance(corpus, str) and not Path(corpus).exists() and corpus in names():
        corpus = open(corpus)
    elif isinstance(corpus, (str, os.PathLike)) and is_corpus(Path(corpus)):
        corpus = open(Path(corpus))
    if isinstance(corpus, Corpus):
        modules = corpus.part(part) if part else corpus
        if not len(modules):
            raise NotFound(f"{corpus.path}: there is no module")
        return modules
    if part:
        raise InvalidArgument(f"{corpus} is no corpus, which alone has parts such as '{part}'")
    return None


def module_files(corpus: Any) -> list[str]:
    """The modules in files and folders, sorted in each folder."""
    places = [corpus] if isinstance(corpus, (str, os.PathLike)) else corpus
    files: list[str] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(p for p in place.rglob("*") if p.suffix in SUFFIXES)
        elif place.is_file():
            if place.suffix == ".parquet":
                raise InvalidArgument(
                    f"{place} is no module; `mlbridge corpus add NAME --in-place --parquet "
                    f"{place}` makes a corpus of its rows, which is then named instead"
                )
            inside = [place]
        else:
            raise NotFound(f"{place} is not there; expected modules or a folder of them")
        files += [str(path.absolute()) for path in inside]
    if not files:
        raise NotFound(f"{corpus}: there is no module (.bc or .ll)")
    return files
