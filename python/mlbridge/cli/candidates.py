# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge candidates`."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import Error
from .common import DONE, CommandError, must_be_writable


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
        sizes = candidates.measure(
            source, modules, listed, Path(options.sizes), jobs=options.jobs, progress=True
        )
        chosen = listed
        if options.choose:
            chosen = candidates.choose(sizes, listed, options.choose)
        if options.output:
            Path(options.output).write_text(candidates.text(chosen), encoding="utf-8")
    except Error as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {options.sizes} has what was measured") from None
    programs = len({its.program for its in sizes.values()})
    print(f"bytes of code over -Oz, {len(sizes)} modules of {programs} programs")
    width = max(len(c.name) for c in chosen)
    row = f"{{:>6}}  {{:{width}}}  {{:>7}}  {{:>8}}  {{:>20}}  {{:>20}}"
    print(row.format("effort", "candidate", "smaller", "left out", "alone", "with those above"))
    for number, candidate in enumerate(chosen, 1):
        made = [(its.stock, its.bytes.get(candidate.key)) for its in sizes.values()]
        smaller = sum(size is not None and size < stock for stock, size in made)
        alone, together = (
            str(candidates.gain(sizes, some)) for some in ([candidate], chosen[:number])
        )
        out = sum(size is None for _, size in made)
        print(row.format(number, candidate.name, smaller, out, alone, together))
    return DONE
