# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins the tables that demo, benchmarks, experiments and tests have left beside their reports in
build/ (result_tables.py) into build/bench/results.md and docs/results.md. Some go into other pages,
between marks.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from common import BUILD, ROOT

#: The pages that have the table of a report between marks.
PAGES = dict.fromkeys(("footprint", "ask"), "docs/choosing-a-runner.md")
PAGES["errors"] = "docs/accuracy.md"
#: The reports in build/, in the order of the page.
REPORTS = (
    *("demo/report", "candidates/test-A", "candidates/demo", "candidates/demo-run"),
    *(f"bench/{name}" for name in ("round-trip", "ask", "batching", "gym")),
    *(
        "experiments/link",
        "experiments/deployment",
        "experiments/loop-distribution",
        "experiments/nodes",
        "bench/attacks",
        "bench/episodes",
    ),
    *("programs/own-builds/served", "bench/phase-ordering", "bench/llvm-advice"),
    *("bench/in-process", "bench/operators", "bench/generated-c", "bench/footprint"),
    *("test/interop", "test/faults", "nightly/faults"),
    *("test/onnx-node-tests", "test/random-networks", "nightly/random-networks"),
    *("nightly/random-aliases", "nightly/torch-exports", "nightly/outside", "test/summary"),
    "bare-machine/report",
)


def first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0]


def head() -> str:
    """What the page begins with: who measured."""
    named = re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    tools = (first_line("clang-22", "--version"), first_line("g++", "--version"))
    return (
        "# Results\n\n`make results` joins the tables that whatever measures writes beside its"
        " report. On this machine:\n\n"
        f"- {named[1] if named else 'unknown processor'}, {os.cpu_count()} cores, {memory:.0f} GiB;"
        f" {system}, Linux {platform.release()}\n"
        f"- {'; '.join(tools)}; Python {platform.python_version()}\n"
    )


def main() -> int:
    """Neighbours with the same heading become one section."""
    texts = [path.read_text() for name in REPORTS if (path := BUILD / f"{name}.md").exists()]
    if not texts:
        print("nothing has been measured: run `make demo`, `make bench` or `make test` first")
        return 1
    page, before = head(), ""
    for heading, _, body in (text.partition("\n\n") for text in texts):
        page += f"\n{body}" if heading == before else f"\n{heading}\n\n{body}"
        before = heading
    for target in (BUILD / "bench/results.md", ROOT / "docs/results.md"):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page)
    for name, page_name in PAGES.items():
        if (path := BUILD / f"bench/{name}.md").exists():
            first = re.findall(r"(?:^\|.*\n)+", path.read_text(), re.MULTILINE)[0]
            marks = rf"(<!-- {name}:begin -->\n).*?(\n<!-- {name}:end -->)"
            old = (ROOT / page_name).read_text()
            new = re.sub(marks, rf"\1\n{first}\2", old, flags=re.DOTALL)
            (ROOT / page_name).write_text(new)
    print(f"joined {len(texts)} reports into docs/results.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
