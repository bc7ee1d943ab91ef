# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts what a pass and its build need for each runner, in sources that `make test` runs, and puts
the table (with build/bench/footprint.json's, if that was measured) into docs/choosing-a-runner.md.

    tools/integration_lines.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from common import BUILD, ROOT

PAGE = ROOT / "docs" / "choosing-a-runner.md"
PUBLISHED = {  # optimization: before the library, gRPC (and its .proto), pipe, ONNX
    "POSET-RL": ("–", "3+3 (4)", "3", "3"),
    "RL-LoopDistribution": ("65", "3+3 (5)", "4", "3"),
    "RL4ReAl": ("75", "10+3 (28)", "4", "3"),
}


def block(page: str, info: str) -> list[str]:
    """The lines of a page's only block with this info string; tests/docs runs or compares it."""
    [text] = re.findall(
        rf"^```{re.escape(info)}\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S
    )
    return [line for line in str(text).splitlines() if line.strip()]


def marked(file: str, mark: str) -> list[str]:
    """The lines of a source between [mark] and [/mark] that aren't blank."""
    text = (ROOT / "examples" / "inlining" / file).read_text()
    parts = re.findall(rf"\[{mark}\].*\n((?:.*\n)*?).*\[/{mark}\]", text)
    return [line for part in parts for line in str(part).splitlines() if line.strip()]


def lines_table() -> list[str]:
    """The plugin's pass is quoted in the README, the other two are those of examples/inlining."""
    in_pass = [len(block("README.md", "cpp test=quoted"))]
    in_pass += [len(marked(f"inlining.{language}", "pass")) for language in ("cpp", "c")]
    in_build = {
        "`grpc:` `unix:` `shm:` `pipe:`": 0,
        "`onnx:` `native:`": 0,
        "`aot:` as a shared object": 0,
        "`aot:` linked in": len(marked("CMakeLists.txt", "aot")),
        "`tfaot:`": len(marked("CMakeLists.txt", "tfaot")),
    }
    table = [
        "| runner | LLVM pass | pass in C++ | pass in C | build |",
        "|---|---:|---:|---:|---:|",
    ]
    table += [
        f"| {name} | {' | '.join(map(str, in_pass))} | {build} |"
        for name, build in in_build.items()
    ]
    table += ["", "Published:", ""]
    table += ["| optimization | before | gRPC | pipe | ONNX |", "|---|---:|---:|---:|---:|"]
    table += [f"| {name} | {' | '.join(counts)} |" for name, counts in PUBLISHED.items()]
    return table


def footprint_table() -> list[str] | None:
    path = BUILD / "bench" / "footprint.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    table = ["| | KB | peak MB | build, CPU s | compile, CPU s |", "|---|---:|---:|---:|---:|"]
    for row in found["opt_like"]:
        table.append(
            f"| opt, {row['what']} | {row['kb']:.0f} | {row['rss_mb']:.1f} |"
            f" {row['build_seconds']:.2f} | {row['compile_seconds']:.3f} |"
        )
    table += [f"| plugin `{row['what']}` | {row['kb']:.0f} | | | |" for row in found["plugin"]]
    return table


def replaced(text: str, name: str, lines: list[str]) -> str:
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    start, stop = text.index(begin) + len(begin), text.index(end)
    return text[:start] + "\n" + "\n".join(lines) + "\n\n" + text[stop:]


def main() -> int:
    text = PAGE.read_text()
    made = replaced(text, "lines", lines_table())
    if "--check" in sys.argv[1:]:
        if made != text:
            print(f"{PAGE.relative_to(ROOT)} is not what tools/integration_lines.py makes")
        return int(made != text)
    measured = footprint_table()
    if measured:
        made = replaced(made, "footprint", measured)
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
