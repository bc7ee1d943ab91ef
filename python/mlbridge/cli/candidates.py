# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`: candidates for --effort, measured and chosen."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..outputs import write_whole
from .arguments import RAY, Parser, number_from_one
from .common import DONE, Interrupted, must_be_writable, table, warning

if TYPE_CHECKING:
    from ..candidates import Candidate, Measured


def add_arguments(parser: Parser) -> None:
    """The options of `mlbridge candidates`."""
    parser.describe(
        """\
Compiles the modules of a corpus with each candidate of a list, and says how much smaller the code
is if the best is kept: geometric means of the programs, with 95 % intervals. It measures files;
what a list gains in links is measured by experiments.link_candidates of the source tree.""",
        """\
example:
  mlbridge candidates pool.json mine --part training --sizes sizes.jsonl --choose 10 -o best.json
  mlbridge candidates best.json mine --part validation --sizes sizes.jsonl
  clang-22 $(mlbridge flags phase-ordering --model candidates:best.json --effort 3) -Oz -c f.c""",
    )
    parser.add_argument("list", metavar="LIST", help="the candidates, as JSON")
    parser.add_argument("corpus", metavar="CORPUS", help="of `mlbridge corpus`")
    parser.option("--sizes FILE", "keeps what was measured", required=True)
    parser.option("--part NAME", "of the corpus", default="")
    parser.option(
        "--modules N",
        "at most so many of each program (default: all)",
        type=number_from_one,
        default=1 << 30,
    )
    parser.option("--choose N", "the N that gain most together", type=number_from_one)
    parser.option(
        "--continuing N",
        "the first N of these are cheap ones, that continue the stock pipeline (default: 0)",
        type=number_from_one,
        default=0,
    )
    parser.option(
        "--search N",
        "also try N new candidates that descend from the best ones, by evolution",
        type=number_from_one,
    )
    parser.option("--seed N", "of the search: another one tries others", type=int, default=0)
    parser.option("-o FILE", "the list as it is printed", dest="output")
    parser.option("--jobs N", "default: 2", type=number_from_one, default=2)
    parser.option("--ray ADDRESS", RAY)


def run(options: argparse.Namespace) -> int:
    """Measure, choose, print a table, write the list."""
    from .. import candidates, corpus
    from ..errors import InvalidArgument

    must_be_writable(sizes=options.sizes, o=options.output)
    try:
        listed = candidates.read(options.list)
        source = corpus.open(options.corpus)
        modules = candidates.sample(
            source.part(options.part) if options.part else source, options.modules
        )

        there = {module.target.partition("-")[0] for module in modules}
        others = {one.target for one in listed if one.target and one.target not in there}
        if others:
            print(f"left out: candidates for {', '.join(sorted(others))}, of which no module is")
            listed = [one for one in listed if one.target not in others]
        if not listed:
            raise InvalidArgument(f"{options.list}: no candidate is for {', '.join(sorted(there))}")

        def measured_with(some: Sequence[Candidate]) -> dict[str, Measured]:
            return candidates.measure(
                source,
                modules,
                some,
                Path(options.sizes),
                jobs=options.jobs,
                cluster=options.ray or "",
                progress=True,
                warned=warning("candidates"),
            )

        if options.search:
            listed = candidates.search(
                listed,
                measured_with,
                options.search,
                count=options.choose or len(listed),
                continuing=options.continuing,
                seed=options.seed,
            )
        measured = measured_with(listed)
        chosen = listed
        if options.choose:
            chosen = candidates.choose(measured, listed, options.choose, options.continuing)
        if options.output:
            write_whole(options.output, candidates.text(chosen).encode())
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {options.sizes} has what was measured") from None
    print_table(measured, chosen)
    return DONE


def print_table(measured: Mapping[str, Measured], chosen: Sequence[Candidate]) -> None:
    """A line for each candidate: what it gains alone, and with those before it."""
    from .. import candidates

    programs = len({one.program for one in measured.values()})
    print(f"bytes of code over -Oz, {len(measured)} modules of {programs} programs")
    rows = [
        (
            number,
            candidate.name,
            sum(one.best([candidate]) != one.stock for one in measured.values()),
            sum(one.sizes.get(candidate.key) is None for one in measured.values()),
            candidates.gain(measured, [candidate]),
            candidates.gain(measured, chosen[:number]),
        )
        for number, candidate in enumerate(chosen, 1)
    ]
    head = ("effort", "candidate", "better", "left out", "alone", "with those above")
    table(head, rows, left=("candidate",))
