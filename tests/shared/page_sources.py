# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sources of pages, as commands write them, with names that are no HTML."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from mlbridge import recording
from mlbridge.errors import Code, Status
from mlbridge.ratio import Ratio

NASTY = "</script><script>alert(1)</script><!-- \"'&"
WAYS = ("oz", "o2", "onnx", "server", "effort1", "effort3")


def ratio(*values: float) -> dict[str, float | None]:
    found = Ratio.of(values)
    assert found
    return found.as_json()


def demo(path: Path, count: int = 4) -> dict[str, Any]:
    """A report.json of `make demo`."""
    random = np.random.default_rng(3)
    programs: list[dict[str, Any]] = []
    for number in range(count):
        size = 1000 * (number + 2)
        texts = {f"{way}_text": int(size * random.uniform(0.8, 1.1)) for way in WAYS}
        times = {f"{w}_seconds": round(random.uniform(1, 9), 3) for w in WAYS if w != "o2"}
        programs.append(
            {"name": f"program{number}", **texts, **times, "decisions": 12 * number}
            | {"output_identical": True, "objects_identical": True}
        )
    over = {
        w: ratio(*(p[f"{w}_text"] / p["oz_text"] for p in programs)) for w in ("onnx", *WAYS[4:])
    }
    engine: dict[str, Any] = {
        "engine": "native",
        "programs": ["program0"],
        "decisions": 12,
        "same": 12,
    }
    engine |= {"near_ties": [], "different": [], "objects": 3, "objects_different": []}
    found = {
        "format": "mlbridge-demo",
        "version": 1,
        "programs": programs,
        "geomean_onnx_over_oz": over["onnx"]["mean"],
        "over_oz": over,
        "engines": [engine],
        "left_out": [],
    }
    path.write_text(json.dumps(found))
    return found


def validation(path: Path, count: int = 3, seed: int = 1, name: str = "program") -> dict[str, Any]:
    """A report.json of `mlbridge validate`."""
    random = np.random.default_rng(seed)

    def program(number: int) -> dict[str, Any]:
        objects: list[dict[str, Any]] = []
        for index in range(6):
            before = 100 * (index + 1)
            after = before if index % 3 == 0 else int(before * random.uniform(0.7, 1.1))
            objects.append(
                {"path": f"src/{name}/{index}.o", "baseline_bytes": before, "policy_bytes": after}
                | {"identical": after == before}
            )
        times = {
            f"{way}_seconds": random.uniform(1, 2, 3).tolist() for way in ("baseline", "policy")
        }
        pairs = zip(times["policy_seconds"], times["baseline_seconds"], strict=True)
        timed = ratio(*(policy / plain for policy, plain in pairs))
        sums = {w: sum(o[f"{w}_bytes"] for o in objects) for w in ("baseline", "policy")}
        return {
            "name": f"{name}{number}",
            "tree": "/tree",
            "build": "make",
            "problems": [],
            "notes": [f"a note on {name}"],
            **{f"{way}_bytes": total for way, total in sums.items()},
            "total_ratio": sums["policy"] / sums["baseline"],
            "size": ratio(*(o["policy_bytes"] / o["baseline_bytes"] for o in objects)),
            "identical": 2,
            "decisions": 17,
            "modules": 6,
            "fallbacks": 0,
            "compile": timed,
            **times,
            "spills": {"baseline": 10.5, "policy": 8.25, "files": ratio(0.5, 0.75)},
            "runs": [
                {"command": f"./{name} < input", "code": 0, "problem": "", **times, "ratio": timed}
            ],
            "objects": objects,
        }

    programs = [program(number) for number in range(count)]
    alone = count == 1
    found = {
        "models": {"phase-ordering": f"onnx:{name}.onnx"},
        "level": "Oz",
        "effort": 1,
        "compiler": "clang-22",
        "repeat": 3,
        "format": "mlbridge-validation",
        "version": 1,
        "confidence": 0.95,
        "unit": "object" if alone else "program",
        "size": programs[0]["size"] if alone else ratio(*(p["total_ratio"] for p in programs)),
        "compile": ratio(*(p["compile"]["mean"] for p in programs)),
        "problems": [],
        "programs": programs,
    }
    path.write_text(json.dumps(found))
    return found


SOURCE = """\
static int twice(int x) { return x + x; }
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i];
  return twice(total);
}
int MORE(int x) { return x / 3 + x % 7; }
"""


def build(folder: Path, *flags: str) -> Path:
    """Two object files in folders."""
    for name in ("lib/a", "lib/sub/b"):
        file = folder / f"{name}.o"
        file.parent.mkdir(parents=True, exist_ok=True)
        more = f"-DMORE=more_{file.stem}"
        command = ["cc", more, *flags, "-c", "-x", "c", "-", "-o", str(file)]
        subprocess.run(command, input=SOURCE, text=True, check=True, timeout=60)
    return folder


def recorded(path: Path, episodes: int = 4, steps: int = 5, name: str = "f.c") -> Path:
    """A recording with scores and rewards."""
    random = np.random.default_rng(5)

    def made() -> Any:
        for number in range(episodes):
            one = recording.Episode("ab"[number % 2], f"e{number}", f"{name} {number % 3}")
            for step in range(steps):
                one.observations.append({"x": np.array([step], np.float32)})
                one.actions.append({"logits": random.normal(size=4).astype(np.float32)})
                one.reward_sums.append(0.5 * step)
            one.outcome = Status(Code.OK, "")
            yield one

    recording.write(path, made(), model=f"function:{name}")
    return path


def training(folder: Path, iterations: int = 5, name: str = "maskable-ppo") -> list[dict[str, Any]]:
    """The folder of a training; its rows."""
    folder.mkdir(parents=True)
    rows: list[dict[str, Any]] = []
    for number in range(1, iterations + 1):
        rows.append(
            {"iteration": number, "steps": 512 * number, "episodes": 20, "faults": number % 2}
            | {"reward": 0.1 * number / 3, "over_oz": 1 - 0.01 / number, "seconds": 1.37 * number}
        )
    if iterations > 2:
        rows[1]["reward"] = None
        del rows[1]["over_oz"]
    (folder / "progress.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    figures = {
        "random": {"reward": 0.0123, "over_oz": 1.25},
        "-Oz": {"reward": 0.2, "over_oz": 1.0},
    }
    (folder / "baselines.json").write_text(json.dumps(figures))
    (folder / "settings.json").write_text(json.dumps({"environment": name, "seed": 3}))
    return rows


def candidates(folder: Path, name: str = "f.c") -> None:
    """Logs of candidates."""
    folder.mkdir(exist_ok=True)
    for number, winner in enumerate((None, "first", "second")):
        tried = [{"name": n, "bytes": 90 - 5 * number + k, "end": "measured"}
                 for k, n in enumerate(("first", "second"))]  # fmt: skip
        tried.append({"name": "third", "end": "crashed"})
        entry = {"source": f"{name}{number}", "stock_bytes": 100, "trials": tried, "winner": winner}
        (folder / f"{number}.trials.json").write_text(json.dumps(entry))
