# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge flags smallest` gains on the catalog's programs, compiled from source and linked.

    python3 -m experiments.link test-A --effort 1 10 -o build/experiments/link.json
    python3 -m experiments.link demo --lto thin
    python3 -m experiments.link demo --target aarch64-linux-gnu

Every program is built at -Oz with functions in sections of their own, in link-time optimization
alone and with LLVM's machine outliner, and with each effort; lld links all of them, with
--gc-sections. A program of which the catalog knows no executable becomes a shared library. Bytes
are those of the executable sections of what was linked, `cpu` is the processor's time of the whole
build. Each program's test and workloads must print the same as built at -Oz; built for another
target it is not run. Ratios are geometric means over programs, with the 95 % interval of a
bootstrap over programs (10 000 samples). FILE has all of it as JSON, and a table in Markdown is
beside it. Programs that FILE has aren't built again; it is refused if plugin, candidates or options
are others by now. A program that can't be built, whose output differs, or that an effort makes
larger than the same link without, is left out, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from result_tables import section, table
from tqdm import tqdm

from mlbridge.outputs import write_whole
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
    parser.add_argument("--target", default="", metavar="TRIPLE", help="default: this machine")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", dest="output", type=Path, metavar="FILE", help="what was found")
    options = parser.parse_args(arguments)
    failed: list[str] = []
    try:
        all_ways = ways(options.lto, options.effort)
        settings = {
            "lto": options.lto,
            "effort": options.effort,
            "target": options.target,
            # They have hashes of plugin and candidates.
            "flags": hashlib.sha256(json.dumps(all_ways).encode()).hexdigest()[:16],
        }
        found = read(options.output, settings)
        programs = fetch(select(load(), options.names or ["demo"]))
        work.write(BUILD / "work")
    except ProgramsError as error:
        print(f"link: {error}", file=sys.stderr)
        return 1
    wanted = [program for program in programs if program.name not in found]
    for program in tqdm(wanted, unit="program", file=sys.stderr):
        folder = BUILD / "linked" / options.target / program.name
        try:
            builds = {
                way: build(
                    program,
                    flags,
                    folder / way.replace(" ", "-"),
                    options.jobs,
                    target=options.target,
                )
                for way, flags in all_ways.items()
            }
        except ProgramsError as error:
            failed.append(str(error))
            continue
        sizes = ", ".join(f"{way} {made.bytes}" for way, made in builds.items())
        tqdm.write(f"{program.name}: {sizes}")
        if wrong := problems(program.name, builds):
            failed += wrong
            continue
        found[program.name] = builds
        if options.output:
            write(options.output, settings, found)
    if found:
        print(table(rows(found)))
    for text in failed:
        print(f"link: {text}", file=sys.stderr)
    return 1 if failed else 0


def read(file: Path | None, settings: dict[str, Any]) -> dict[str, dict[str, Linked]]:
    """What an earlier run with these settings has found."""
    if file is None or not file.exists():
        return {}
    kept = json.loads(file.read_text())
    if kept.get("settings") != settings:
        raise ProgramsError(f"{file} has other settings, {kept.get('settings')}; remove it first")
    return {
        name: {way: Linked(one["bytes"], one["cpu_seconds"]) for way, one in builds.items()}
        for name, builds in kept["programs"].items()
    }


def write(file: Path, settings: dict[str, Any], found: dict[str, dict[str, Linked]]) -> None:
    """The file, and a table beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    programs = {
        name: {
            way: {"bytes": one.bytes, "cpu_seconds": round(one.cpu_seconds, 3)}
            for way, one in builds.items()
        }
        for name, builds in found.items()
    }
    summary = rows(found)
    made = {"settings": settings, "programs": programs, "summary": summary}
    write_whole(file, json.dumps(made, indent=1).encode() + b"\n")
    text = f"{len(found)} programs: {', '.join(found)}."
    section(file, f"Linked with -flto={settings['lto']}", text, summary)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
