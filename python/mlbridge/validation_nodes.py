# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares builds of programs on the nodes of a Ray cluster, which get the source trees."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from .archives import PACKING, packed, unpack
from .errors import Unavailable
from .trials import Options, Trial, evaluate
from .validation import Comparison, Report, compare_builds, report_of, steps
from .workspace import PLAIN, Program, Variant, Workspace


def validate(
    programs: Sequence[Program],
    policy: Variant,
    nodes: Options,
    *,
    compiler: str = "clang-22",
    repeat: int = 3,
    timeout: float = 600.0,
    never_larger: bool = False,
    baseline: Variant = PLAIN,
    time: float = 0.0,
) -> Report:
    """Like `validation.validate`; each program is built and run in a temporary folder of a node,
    which has one program at a time.

    Variants must be picklable. A program that no node can compare any more has that among its
    problems. Raises Unavailable if no program was compared.
    """
    compared = [Comparison(program) for program in programs]

    def trials() -> Iterator[Trial]:
        for number, program in enumerate(programs):
            most = steps([program], repeat, True) * timeout + time * len(program.runs)
            content = pickle.dumps((program, packed(program.tree)))
            yield Trial(str(number), content, limit=most + 4 * PACKING)

    function = partial(
        _compared,
        variants=(baseline, policy),
        compiler=compiler,
        repeat=repeat,
        timeout=timeout,
        time=time,
    )
    left = set(range(len(programs)))
    try:
        for result in evaluate(function, trials(), replace(nodes, each=1), ordered=False):
            number = int(result.key)
            left.remove(number)
            if result.error:
                compared[number].problems.append(str(result.error))
            else:
                compared[number] = result.get()
                compared[number].program = programs[number]
    except Unavailable as error:
        if len(left) == len(programs):
            raise
        for number in left:
            compared[number].problems.append(str(error))
    return report_of(compared, never_larger)


def _compared(
    trial: Trial,
    variants: tuple[Variant, Variant],
    compiler: str,
    repeat: int,
    timeout: float,
    time: float,
) -> Comparison:
    """Compares the program of a trial."""
    program, archive = pickle.loads(trial.inputs)
    with tempfile.TemporaryDirectory(
        prefix="mlbridge-validate-", ignore_cleanup_errors=True
    ) as folder:
        tree, work = Path(folder, "source"), Path(folder, "work")
        unpack(archive, tree)
        workspace = Workspace(replace(program, tree=tree), work, compiler, timeout)
        return compare_builds(workspace, variants, repeat, time, lambda _: None)
