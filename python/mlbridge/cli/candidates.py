# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Error
from .common import DONE, CommandError, must_be_writable

if TYPE_CHECKING:
    from ..candidates import Candidate, Measured


def run(options: argparse.Namespace) -> int:
    """Measure, choose, print a table, write the list."""
    from .. import candidates, corpus

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
                jobs=options.jobs,
                progress=True,
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
            Path(options.output).write_text(candidates.text(chosen), encoding="utf-8")
    except Error as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {options.sizes} has what was measured") from None
    print_table(measured, chosen)
    return DONE


def print_table(measured: Mapping[str, Measured], chosen: Sequence[Candidate]) -> None:
    """A line for each candidate: what it gains alone, and with those before it."""
    from .. import candidates

    programs = len({its.program for its in measured.values()})
    print(f"bytes of code over -Oz, {len(measured)} modules of {programs} programs")
    width = max(len(c.name) for c in chosen)
    row = f"{{:>6}}  {{:{width}}}  {{:>7}}  {{:>8}}  {{:>20}}  {{:>20}}"
    print(row.format("effort", "candidate", "better", "left out", "alone", "with those above"))
    for number, candidate in enumerate(chosen, 1):
        better = sum(its.best([candidate]) != its.stock for its in measured.values())
        out = sum(its.sizes.get(candidate.key) is None for its in measured.values())
        alone, together = (
            str(candidates.gain(measured, some)) for some in ([candidate], chosen[:number])
        )
        print(row.format(number, candidate.name, better, out, alone, together))
