# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge flags smallest` gains on the catalog's programs, compiled from source and linked.

    python3 -m experiments.link test-A --effort 1 3 10 -o build/experiments/link.json
    python3 -m experiments.link demo --lto thin

Every program is built at -Oz with functions in sections of their own, in link-time optimization
alone and with LLVM's machine outliner, and with each effort; lld links all of them, with
--gc-sections. A program of which the catalog knows no executable becomes a shared library. Bytes
are those of the executable sections of what was linked, `cpu` is the processor's time of the whole
build. Each program's test and workloads must print the same as built at -Oz. Ratios are geometric
means over programs, with the 95 % interval of a bootstrap over programs (10 000 samples). FILE has
all of it as JSON, and a table in Markdown is beside it. Exits with 1 if an output differs, or if
an effort makes a program larger than the same link without.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from result_tables import section, table
from tqdm import tqdm

from mlbridge.ratio import Ratio
from programs import work
from programs.catalog import ProgramsError, load, select
from programs.fetch import BUILD, fetch
from programs.linked import Linked, build, problems, ways


def rows(found: dict[str, dict[str, Linked]]) -> list[dict[str, Any]]:
    """For each way: what it is beside -Oz, and in bytes also beside the outliner."""
    made = []
    for way in next(iter(found.values())):
        pairs = [(builds[way], builds["-Oz"], builds["outliner"]) for builds in found.values()]
        made.append(
            {
                "over -Oz": way,
                "bytes": str(Ratio.of(one.bytes / usual.bytes for one, usual, _ in pairs)),
                "over the outliner": str(
                    Ratio.of(one.bytes / other.bytes for one, _, other in pairs)
                ),
                "cpu": str(
                    Ratio.of(one.cpu_seconds / usual.cpu_seconds for one, usual, _ in pairs)
                ),
                "largest": f"{max(one.bytes / usual.bytes for one, usual, _ in pairs):.3f}",
            }
        )
    return made


def main(arguments: list[str]) -> int:
    """Command line."""
    about = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="experiments.link", description=about)
    parser.add_argument("names", nargs="*", help="sets or programs (default: demo)")
    parser.add_argument("--effort", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--lto", choices=["full", "thin"], default="full")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="what was found")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, Linked]] = {}
    wrong: list[str] = []
    try:
        programs = fetch(select(load(), options.names or ["demo"]))
        work.write(BUILD / "work")
        for program in tqdm(programs, unit="program", file=sys.stderr):
            folder = BUILD / "linked" / program.name
            found[program.name] = {
                way: build(program, flags, folder / way.replace(" ", "-"), options.jobs)
                for way, flags in ways(options.lto, options.effort).items()
            }
            wrong += problems(program.name, found[program.name])
            sizes = ", ".join(f"{way} {made.bytes}" for way, made in found[program.name].items())
            tqdm.write(f"{program.name}: {sizes}")
    except ProgramsError as error:
        print(f"link: {error}", file=sys.stderr)
        return 1
    summary = rows(found)
    print(table(summary))
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        listed = {
            name: {way: asdict(made) | {"output": len(made.output)} for way, made in builds.items()}
            for name, builds in found.items()
        }
        options.output.write_text(json.dumps({"programs": listed, "summary": summary}, indent=1))
        text = f"{len(found)} programs: {', '.join(found)}."
        section(options.output, f"Linked with -flto={options.lto}", text, summary)
    for text in wrong:
        print(f"link: {text}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
