# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Error
from .common import DONE, CommandError, UsageError, must_be_writable

if TYPE_CHECKING:
    from ..candidates import Candidate, Measured, Objective


def run(options: argparse.Namespace) -> int:
    """Measure, choose, print a table, write the list."""
    from .. import candidates, corpus

    if options.predict and options.objective != "size":
        raise UsageError("--predict is for --objective size")
    for name, place in (("--sizes", options.sizes), ("-o", options.output)):
        if place:
            must_be_writable(name, place)
    try:
        listed = candidates.read(options.list)
        source = corpus.open(options.corpus)
        modules = candidates.sample(
            source.part(options.part) if options.part else source, options.modules
        )

        def measured_with(some: Sequence[Candidate]) -> dict[str, Measured]:
            return candidates.measure(
                source,
                modules,
                some,
                Path(options.sizes),
                objective=options.objective,
                jobs=options.jobs,
                progress=True,
            )

        if options.search:
            listed = candidates.search(
                listed,
                measured_with,
                options.search,
                count=options.choose or len(listed),
                objective=options.objective,
                continuing=options.continuing,
                seed=options.seed,
            )
        measured = measured_with(listed)
        chosen = listed
        if options.choose:
            chosen = candidates.choose(
                measured, listed, options.choose, options.objective, options.continuing
            )
        predicted = []
        if options.predict:
            from .. import prediction

            predicted = prediction.cross_validate(measured, listed, continuing=options.continuing)
        if options.output:
            Path(options.output).write_text(candidates.text(chosen), encoding="utf-8")
    except Error as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {options.sizes} has what was measured") from None
    print_table(measured, chosen, options.objective)
    if predicted:
        print("\nwhole programs left out in turn, bytes of code over -Oz and over the portfolio's")
        row = "{:18}  {:>6}  {:>20}  {:>20}"
        print(row.format("chosen by", "effort", "over -Oz", "over the portfolio"))
        for result in predicted:
            for effort, gain in result.gains.items():
                beside = result.against_portfolio[effort]
                print(row.format(result.name, effort, str(gain), str(beside)))
    return DONE


def print_table(
    measured: Mapping[str, Measured], chosen: Sequence[Candidate], objective: Objective
) -> None:
    """A line for each candidate: what it gains alone, and with those before it."""
    from .. import candidates

    programs = len({its.program for its in measured.values()})
    what = "bytes of code" if objective == "size" else "expected cycles, no more bytes"
    print(f"{what} over -Oz, {len(measured)} modules of {programs} programs")
    width = max(len(c.name) for c in chosen)
    row = f"{{:>6}}  {{:{width}}}  {{:>7}}  {{:>8}}  {{:>20}}  {{:>20}}"
    print(row.format("effort", "candidate", "better", "left out", "alone", "with those above"))
    for number, candidate in enumerate(chosen, 1):
        better = sum(its.best([candidate], objective) != its.stock for its in measured.values())
        out = sum(its.costs.get(candidate.key) is None for its in measured.values())
        alone, together = (
            str(candidates.gain(measured, some, objective))
            for some in ([candidate], chosen[:number])
        )
        print(row.format(number, candidate.name, better, out, alone, together))
