# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge vocabulary`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import Error
from .common import DONE, CommandError, must_be_writable


def run(options: argparse.Namespace) -> int:
    """Collect triplets, train, write; one line says what came of it."""
    from .. import vocabulary

    must_be_writable("-o", options.output)
    places = options.corpus[0] if len(options.corpus) == 1 else options.corpus
    try:
        collect = vocabulary.collect_machine if options.machine else vocabulary.collect
        dimensions = options.dimensions or (100 if options.machine else 300)
        graph = collect(places, options.part, jobs=options.jobs, progress=True)
        trained = vocabulary.train(
            graph,
            dimensions=dimensions,
            epochs=options.epochs,
            seed=options.seed,
            progress=True,
        )
        digest = vocabulary.save(trained, Path(options.output))
    except Error as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {options.output} was not written") from None
    print(
        f"{options.output}: {dimensions} dimensions, of {graph.modules} modules, "
        f"{graph.counted} triplets, {len(graph.triplets)} of them distinct, {trained.entities} "
        f"entities that occur; loss {trained.loss:.4f}, mean reciprocal rank "
        f"{trained.mean_reciprocal_rank:.4f}, hits at 10 {trained.hits_at_10:.4f}; digest {digest}"
    )
    return DONE
