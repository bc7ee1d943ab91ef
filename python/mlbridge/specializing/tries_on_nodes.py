# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tries options of LLVM on the nodes of a Ray cluster.

A node gets the source tree and the profile, and builds the recipe over which options are tried
itself, once. It has one try at a time, and compares times with its own only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..archives import PACKING, packed, unpack
from ..cluster import alive, connected, shared
from ..errors import DeadlineExceeded, Error, Unavailable
from ..trials import Needs, Options, Trial, evaluate
from ..workspace import cxx_of
from .options import OPTIONS
from .recipes import PLUGIN, Recipe
from .specialization import VARIABLES, Settings
from .tries import BaseBuild, Tries, can_relink
from .workplace import TOOLS, Workplace

_PREFIX = "mlbridge-specialize-"

Evaluate = Callable[[Mapping[str, Recipe]], Iterator[tuple[str, dict[str, Any]]]]


@contextlib.contextmanager
def nodes(
    settings: Settings, place: Workplace, base: BaseBuild, major: str, warned: Callable[[str], None]
) -> Iterator[tuple[int, Evaluate]]:
    """How many tries go on at once, and what evaluates them, in the order in which they end; `lost`
    is what a node couldn't try. Raises NotFound without Ray, Unavailable if no cluster answers, or
    no node can try anything."""
    linker = [f"ld.lld-{major}"] if base.recipe.link else []
    tools = [f"llvm-{name}-{major}" for name in TOOLS]
    needs = Needs(
        programs=["tar", settings.compiler, cxx_of(settings.compiler), *linker, *tools],
        plugins=[PLUGIN] * base.recipe.versions,
    )
    said: set[str] = set()

    def warn(text: str) -> None:
        if text not in said:
            said.add(text)
            warned(text)

    options = Options(cluster=settings.cluster, each=1, needs=needs, warned=warn)
    profile = [place.profile_of(base.recipe).name] if base.recipe.profile else []
    sent = (packed(settings.tree), packed(place.folder, profile) if profile else b"")
    settings = replace(settings, cluster="")
    digest = hashlib.blake2b(pickle.dumps((sent, settings, base)), digest_size=8).hexdigest()
    tried = partial(
        _tried,
        digest=digest,
        settings=settings,
        base=base,
        major=major,
        variables={name: os.environ[name] for name in VARIABLES if name in os.environ},
    )
    runs = len(settings.runs)
    limit = 2 * PACKING + (4 + len(OPTIONS) + 6 * runs) * settings.timeout + runs * settings.seconds

    def evaluated(
        function: Callable[[Trial], Any], recipes: Mapping[str, Recipe]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        trials = (
            Trial(step, pickle.dumps(recipe.options), limit) for step, recipe in recipes.items()
        )
        lost: dict[str, Error] = {}
        with contextlib.closing(evaluate(function, trials, options, ordered=False)) as results:
            for result in results:
                none = {"time": None, "problem": str(result.error), "wrong": False}
                if isinstance(result.error, DeadlineExceeded):
                    yield result.key, {**none, "seconds": result.seconds}
                elif result.error:
                    warn(f"node {result.node}: {result.error}")
                    lost[result.key] = result.error
                else:
                    yield result.key, result.get()
        if len(lost) == len(recipes):
            raise Unavailable(f"no node can try anything: {next(iter(lost.values()))}")
        for step, error in lost.items():
            found = {"time": None, "problem": str(error), "wrong": False, "lost": True}
            yield step, {**found, "seconds": 0.0}

    with connected(options.cluster):
        function = partial(tried, sent=shared(sent))
        yield max(1, len(alive())), partial(evaluated, function)


def _tried(
    trial: Trial,
    sent: Callable[[], tuple[bytes, bytes]],
    digest: str,
    settings: Settings,
    base: BaseBuild,
    major: str,
    variables: Mapping[str, str],
) -> dict[str, Any]:
    """Evaluates a try on this node. Unavailable if the program isn't the same here."""
    _remove_old()
    if digest not in _here:
        while _here:
            _here.popitem()[1].close()
        _here[digest] = _Node(sent(), settings, base, major, variables)
    options = pickle.loads(trial.inputs)
    return _here[digest].tries.tried(base.recipe._replace(options=options))


class _Node:
    """A folder with the build of the recipe over which options are tried."""

    def __init__(
        self,
        sent: tuple[bytes, bytes],
        settings: Settings,
        base: BaseBuild,
        major: str,
        variables: Mapping[str, str],
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        source, profile = sent
        unpack(source, folder / "source")
        settings = replace(settings, tree=folder / "source")
        self._place = place = Workplace(folder / "work", {"recipe": base.recipe.name})
        try:
            if profile:
                unpack(profile, place.folder)
            workspace = place.workspace(settings, major, variables)
            variant_of = partial(place.variant_of, command=settings.compiler)
            built = workspace.build(variant_of(base.recipe))
            base, linked = replace(base, digest=built.digest), list(built.objects)
            relinks = base.recipe.link and can_relink(
                place, workspace, base.recipe, settings.compiler, linked
            )
            self.tries = Tries(settings, workspace, variant_of, base, linked if relinks else ())
            if what := self.tries.difference(base.recipe):
                raise Unavailable(f"the program does something else there: {what}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove it."""
        self._place.close(remove=True)
        self._folder.cleanup()


#: What this process of Ray's keeps for more tries of the same search.
_here: dict[str, _Node] = {}


def _remove_old() -> None:
    """Remove what killed processes have left here, and end what runs there."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if (folder / "work" / "lock").exists():
            with contextlib.suppress(Error, OSError):  # another one works there
                Workplace(folder / "work", {}).close(remove=True)
                shutil.rmtree(folder, ignore_errors=True)
