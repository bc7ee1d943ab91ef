# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tries options of LLVM on the nodes of a Ray cluster, which get the source tree, the build of the
recipe over which they are tried, and the profile. Each node has one try at a time, and compares
times with its own only."""

from __future__ import annotations

import contextlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ..archives import packed, unpack
from ..trials import Needs, Options, Trial, evaluate
from ..workspace import cxx_of
from .recipes import PLUGIN, Recipe
from .specialization import Settings
from .tries import Base, Tries
from .workplace import TREES, Workplace

#: What a build takes from the variables of the machine where the command runs.
_VARIABLES = ("CFLAGS", "CXXFLAGS", "LDFLAGS")

Evaluate = Callable[[Mapping[str, Recipe]], Iterator[tuple[str, dict[str, Any]]]]


@contextlib.contextmanager
def on_nodes(
    settings: Settings, place: Workplace, base: Base, major: str, warned: Callable[[str], None]
) -> Iterator[tuple[int, Evaluate]]:
    """How many tries go on at once, and what evaluates them, in the order in which they end.
    Raises NotFound without Ray, Unavailable if no cluster answers or no node is left."""
    from ..cluster import alive, connected

    linker = [f"ld.lld-{major}"] if base.recipe.link else []
    needs = Needs(
        programs=[settings.compiler, cxx_of(settings.compiler), *linker],
        plugins=[PLUGIN] * base.recipe.versions,
    )
    nodes = Options(cluster=settings.cluster, each=1, needs=needs, warned=warned)
    variables = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    function = partial(
        _tried, settings=replace(settings, cluster=""), base=base, major=major, variables=variables
    )
    tree = base.recipe.name
    built = [f"{TREES}/{tree}", f"{TREES}/{tree}.decisions"]
    built += [place.profile_of(base.recipe).name] * base.recipe.profile
    sent = (packed(settings.tree), packed(place.folder, built))

    def evaluated(recipes: Mapping[str, Recipe]) -> Iterator[tuple[str, dict[str, Any]]]:
        trials = (
            Trial(step, pickle.dumps((recipe.options, sent)), limit=base.limit(settings))
            for step, recipe in recipes.items()
        )
        with contextlib.closing(evaluate(function, trials, nodes, ordered=False)) as results:
            for result in results:
                failed: dict[str, Any] = {"time": None, "problem": str(result.error), "wrong": []}
                made = failed if result.error else result.get()
                yield result.key, {"seconds": result.seconds, **made}

    with connected(settings.cluster):
        yield max(1, len(alive())), evaluated


def must_answer(cluster: str) -> None:
    """NotFound without Ray, Unavailable if no cluster answers at the address."""
    from ..cluster import connected

    with connected(cluster):
        pass


def _tried(
    trial: Trial, settings: Settings, base: Base, major: str, variables: Mapping[str, str]
) -> dict[str, Any]:
    """Evaluates a try on this node."""
    options, (source, built) = pickle.loads(trial.inputs)
    with tempfile.TemporaryDirectory(
        prefix="mlbridge-specialize-", ignore_cleanup_errors=True
    ) as folder:
        tree = Path(folder, "source")
        unpack(source, tree)
        place = Workplace(Path(folder, "work"), trial.key)
        try:
            settings = replace(settings, tree=tree)
            workspace = place.workspace(settings, major, variables)
            unpack(built, place.folder)

            def variant_of(recipe: Recipe) -> Any:
                words = recipe.words(str(place.profile_of(recipe)))
                return place.variant(recipe.name, settings.compiler, words)

            tries = Tries(settings, workspace, variant_of, base)
            return tries.tried(base.recipe._replace(options=options))
        finally:
            place.close()
