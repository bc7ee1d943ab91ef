# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What campaigns over the tests of others count, and what they found.

Rows lie in build/nightly/outside.json, one for each suite and optimization; findings beside it in
build/nightly/outside/, each in a folder of its own with the input, the reduced input, and the
command that shows it again.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "shared"), str(ROOT / "tools")]
from reports import add_row  # noqa: E402
from result_tables import section  # noqa: E402

NIGHTLY = ROOT / "build" / "nightly"
REPORT = NIGHTLY / "outside.json"
FINDINGS = NIGHTLY / "outside"
BAD = ("wrong", "crashed", "larger")


@dataclass
class Tally:
    """Counts of one suite and optimization. A program counts once for each way it was compiled."""

    suite: str
    optimization: str
    #: Compiled with the optimization and compared with the stock compiler.
    programs: int = 0
    #: Objects (or graphs) that differ from the stock compiler's.
    changed: int = 0
    #: Inputs that the optimization said it leaves alone; the object is the stock compiler's.
    refused: int = 0
    #: Results that differ from the stock compiler's, or code that a verifier refuses.
    wrong: int = 0
    #: No output, or none in time, where the stock compiler has one.
    crashed: int = 0
    #: More executable bytes than the stock compiler's, where the optimization promises not to.
    larger: int = 0
    found: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.programs > 0 and not any(getattr(self, kind) for kind in BAD)

    def bad(self, kind: str, name: str, command: str, *files: Path) -> Path:
        """Counts a finding, keeps its files, and says with which command it is seen again, in which
        {0}, {1} … stand for the kept files. Returns the finding's folder."""
        assert kind in BAD
        setattr(self, kind, getattr(self, kind) + 1)
        label = re.sub(r"[^\w.-]+", "-", f"{self.suite}-{self.optimization}-{name}-{kind}")
        folder = FINDINGS / label
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        kept = [Path(shutil.copy(file, folder)) for file in files if file.is_file()]
        again = command.format(*kept)
        (folder / "command").write_text(again + "\n")
        self.found.append(again)
        print(f"{kind}: {self.suite}, {self.optimization}, {name}: {again}", flush=True)
        return folder


def save(tallies: Sequence[Tally], report: Path | None = None) -> bool:
    """Writes the rows into the report (REPORT), in place of earlier ones of the same suites and
    optimizations; whether all are good."""
    counted = ("programs", "changed", "refused", "wrong", "crashed", "larger")

    def tell(rows: list[dict[str, object]]) -> None:
        section(
            report or REPORT,
            "Programs and tests of others (`make nightly`)",
            "Each program once for each way in which it was compiled, beside the stock compiler;"
            " those that it refuses itself are left out. CONTRIBUTING says what the columns mean.",
            [{key: row[key] for key in ("suite", "optimization", *counted)} for row in rows],
        )

    for tally in tallies:
        row = {k: v for k, v in asdict(tally).items() if k != "found" or v}
        add_row(report or REPORT, row, "suite", "optimization", tell=tell)
        counts = ", ".join(f"{v} {k}" for k, v in row.items() if isinstance(v, int))
        print(f"{tally.suite}, {tally.optimization}: {counts}", flush=True)
    return bool(tallies) and all(tally.good for tally in tallies)
