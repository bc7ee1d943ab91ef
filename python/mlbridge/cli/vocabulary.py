# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge vocabulary`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .arguments import Parser, number_from_one
from .common import DONE, Interrupted, must_be_writable


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge vocabulary`."""
    parser.describe(
        """\
Trains the seed vectors from which LLVM's IR2Vec makes embeddings: llvm-ir2vec states what stands
beside what in the modules and in what opt makes of them, and TransE finds the vectors. With
--machine, of the machine code that llc makes of them for x86-64 and AArch64. CORPUS is a corpus, or
modules, or folders of them (docs/embeddings.md).""",
        """\
example:
  mlbridge vocabulary mine --part training -o v.json
  mlbridge train phase-ordering --corpus mine --observation ir2vec --vocabulary v.json -o p/""",
    )
    parser.add_argument("corpus", metavar="CORPUS", nargs="+", help="what to learn from")
    parser.option("-o FILE", "the vocabulary, as JSON", dest="output", required=True)
    parser.option("--part NAME", "of the corpus", default="")
    parser.option("--machine", "of machine code, for register allocation")
    parser.option("--dimensions N", "default: 300, of machine code 100", type=number_from_one)
    for name, preset in (("epochs", 1000), ("jobs", 2)):
        parser.option(f"--{name} N", f"default: {preset}", type=number_from_one, default=preset)
    parser.option("--seed N", "the same vocabulary again (default: 0)", type=int, default=0)


def run(options: argparse.Namespace) -> int:
    """Collect triplets, train, write; one line says what came of it."""
    from .. import vocabulary

    must_be_writable(o=options.output)
    places = options.corpus[0] if len(options.corpus) == 1 else options.corpus
    try:
        collect = vocabulary.collect_machine if options.machine else vocabulary.collect
        dimensions = options.dimensions or (100 if options.machine else 300)
        graph = collect(places, options.part, jobs=options.jobs, progress=True)
        trained = vocabulary.train(
            graph, dimensions=dimensions, epochs=options.epochs, seed=options.seed, progress=True
        )
        digest = vocabulary.save(trained, Path(options.output))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {options.output} was not written") from None
    print(
        f"{options.output}: {dimensions} dimensions, of {graph.modules} modules, "
        f"{graph.counted} triplets, {len(graph.triplets)} of them distinct, {trained.entities} "
        f"entities that occur; loss {trained.loss:.4f}, mean reciprocal rank "
        f"{trained.mean_reciprocal_rank:.4f}, hits at 10 {trained.hits_at_10:.4f}; digest {digest}"
    )
    return DONE
