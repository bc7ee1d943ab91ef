# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds the native engine to ONNX Runtime on models made by hand to mislead it.

    run.py [--case PART] [--verbose]

Besides those of attacks.py, the models of tests/golden/hostile. Whatever the native engine answers
has to be what ONNX Runtime answers; it may refuse, with a status, at opening or in an evaluation.
Opening keeps its deadline. Writes build/test/hostile-models.json.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from attacks import ROOT, Feed
from tree_attacks import ATTACKS

sys.path.insert(0, str(ROOT / "tests" / "shared"))
from isolation import Child, answer_lines

GOLDEN = ROOT / "tests/golden/hostile"
RESULTS = ROOT / "build" / "test"
SECONDS = 60.0
MEMORY = 6 << 30
OPENING = 1.0  # seconds, the deadline
SLACK = max(OPENING / 10, 0.02)
REFUSALS = ("InvalidModel", "Unsupported", "LimitExceeded", "PolicyFailed", "DeadlineExceeded")


def case(name: str, folder: Path) -> tuple[Path, list[Feed]]:
    """The file, and what to ask it."""
    if name in ATTACKS:
        made, feeds = ATTACKS[name]()
        (folder / "weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
        path = folder / f"{name}.onnx"
        path.write_bytes(made.SerializeToString())
        return path, feeds
    path = GOLDEN / f"{name}.onnx"
    return path, feeds_of(path)


def feeds_of(path: Path) -> list[Feed]:
    """Small numbers; nothing where the file isn't one that protobuf reads."""
    try:
        graph = onnx.load(path, load_external_data=False).graph
    except Exception:
        return []
    feeds: list[Feed] = [{}, {}, {}]
    held = {t.name for t in graph.initializer}
    for value in graph.input:
        if value.name in held:
            continue
        kind = value.type.tensor_type
        shape = [d.dim_value if d.HasField("dim_value") else 2 for d in kind.shape.dim]
        if len(shape) > 8 or np.prod([max(float(n), 1.0) for n in shape]) > 1e6:
            return []
        for i, feed in enumerate(feeds):
            feed[value.name] = np.full(
                shape, i, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
            )
    return feeds


def answers(run: Any, feeds: list[Feed]) -> list[Any]:
    """The outputs for each feed, or the error as text."""
    found: list[Any] = []
    for feed in feeds:
        try:
            found.append({k: np.array(v) for k, v in run(feed).items()})
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
            if "DeadlineExceeded" in found[-1]:
                break  # the others would wait as long
    return found


def native(path: Path, feeds: list[Feed]) -> dict[str, Any]:
    import mlbridge

    start = time.monotonic()
    try:
        model = mlbridge.Model.open(f"native:{path}", deadline=OPENING)
        opening = time.monotonic() - start
    except Exception as error:
        return {
            "refused": f"{type(error).__name__}: {error}",
            "opening": time.monotonic() - start,
        }
    try:
        signature = model.model_signature
        assert signature
        model.bind(signature)
        start = time.monotonic()
        runner = model.new_runner()
        opening = max(opening, time.monotonic() - start)
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}", "opening": opening}
    return {"answers": answers(lambda feed: runner.evaluate(**feed), feeds), "opening": opening}


def reference(path: Path, feeds: list[Feed]) -> dict[str, Any]:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return {"refused": str(error)}
    names = [o.name for o in session.get_outputs()]

    def run(feed: Feed) -> dict[str, Any]:
        return dict(zip(names, session.run(names, feed), strict=True))

    return {"answers": answers(run, feeds)}


def work(engine: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory(prefix="mlbridge-hostile-") as scratch:

        def judge(line: str) -> dict[str, Any]:
            question = json.loads(line)
            path, feeds = case(question["case"], Path(scratch))
            found = (native if engine == "native" else reference)(path, feeds)
            for i, answer in enumerate(found.get("answers", [])):
                if not isinstance(answer, str):
                    np.savez(Path(question["folder"]) / f"{engine}-{i}.npz", **answer)
                    found["answers"][i] = ""
            return found

        answer_lines(judge)


def different(ours: Path, theirs: Path) -> str:
    with np.load(ours) as a, np.load(theirs, allow_pickle=False) as b:
        for name in b.files:
            if a[name].dtype != b[name].dtype or a[name].shape != b[name].shape:
                return (
                    f"output '{name}' is {a[name].dtype}{list(a[name].shape)} instead of"
                    f" {b[name].dtype}{list(b[name].shape)}"
                )
            if not np.allclose(a[name], b[name], rtol=1e-5, atol=1e-6, equal_nan=True):
                return f"output '{name}' is {a[name]} instead of {b[name]}"
    return ""


def judge(ours: dict[str, Any], theirs: dict[str, Any], folder: Path) -> tuple[str, str]:
    """The outcome, and the reason if that is a failure."""
    if "died" in ours:
        return "failed", f"the process died: {ours['died']}"
    late = ours["opening"] > OPENING + SLACK
    texts = [ours["refused"]] if "refused" in ours else [a for a in ours["answers"] if a]
    for text in texts:
        if not text.startswith((*REFUSALS, "NotFound")):
            return "failed", f"refused as {text}"
    if late:
        return "late", f"opening took {ours['opening']:.3f} s"
    if "refused" in ours:
        return "refused", ours["refused"]
    compared = 0
    for i, answer in enumerate(ours["answers"]):
        other = theirs.get("answers", [])[i : i + 1]
        if answer or other != [""]:
            continue
        why = different(folder / f"native-{i}.npz", folder / f"onnxruntime-{i}.npz")
        if why:
            return "failed", f"feed {i}: {why}"
        compared += 1
    return ("same", f"{compared} answers") if compared else ("no reference", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--case", default="", help="only cases with this in their name")
    parser.add_argument("--verbose", action="store_true", help="print what is refused, and why")
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work(options.child)
        return 0

    names = [*ATTACKS, *sorted(p.stem for p in GOLDEN.glob("*.onnx"))]
    counts = dict.fromkeys(("same", "refused", "no reference", "late", "failed"), 0)
    slowest = 0.0
    command: list[str | Path] = [sys.executable, __file__, "--child"]
    with (
        tempfile.TemporaryDirectory(prefix="mlbridge-answers-") as scratch,
        Child([*command, "native"], SECONDS) as engine,
        Child([*command, "onnxruntime"], SECONDS) as runtime,
    ):
        for name in names:
            if options.case not in name:
                continue
            folder = Path(scratch) / name
            folder.mkdir()
            question = json.dumps({"case": name, "folder": str(folder)})
            ours = engine.ask(question)
            # Only where there is something to compare: it may die of these files.
            theirs = runtime.ask(question) if "" in ours.get("answers", []) else {}
            result, why = judge(ours, theirs, folder)
            counts[result] += 1
            slowest = max(slowest, ours.get("opening", 0.0))
            if result in ("failed", "late") or options.verbose:
                print(f"{result.upper()} {name}: {why}", flush=True)
                for i, answer in enumerate(ours.get("answers", []) if options.verbose else []):
                    print(f"    {i}: {answer or 'answered'}"[:200])
    failed = counts["failed"]
    report = {
        "run": sum(counts.values()),
        "passed": sum(counts.values()) - failed,
        "failed": failed,
        "slowest_opening_s": round(slowest, 4),
        "opening_deadline_s": OPENING,
        **{key.replace(" ", "_"): value for key, value in counts.items()},
    }
    if not options.case:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / "hostile-models.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
