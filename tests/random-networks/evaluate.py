# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side of the engine, in a process of its own: evaluates a network and says what is wrong.

Asked with a line of JSON, {"seed": N, "kind": KIND} or {"folder": PATH}, with "threads": true to
compare threads and "digest": true if only the bits of the answer are wanted.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from generate import KINDS
from network import EXACT, Array, Network
from reference import Bounds, NoReference, Reference, outside

THREADS = 4
ROUNDS = 3
SURE_DRAWS = 40
SURE_STRENGTH = 4.0


def save(net: Network, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(net.model, folder / "model.onnx")
    arrays: dict[str, Any] = {"feeds": np.asarray(len(net.feeds))}
    for i, feed in enumerate(net.feeds):
        arrays |= {f"{i}:{name}": value for name, value in feed.items()}
    np.savez(folder / "feeds.npz", **arrays)


def load(folder: Path) -> Network:
    feeds: list[dict[str, Array]] = []
    with np.load(folder / "feeds.npz") as arrays:
        feeds = [{} for _ in range(int(arrays["feeds"]))]
        for key in arrays.files:
            if key != "feeds":
                number, name = key.split(":", 1)
                feeds[int(number)][name] = arrays[key]
    return Network(0, onnx.load(folder / "model.onnx"), feeds)


def digest(answers: list[dict[str, Array]]) -> str:
    """A hash of all bits, except that one NaN is like another."""
    state = hashlib.sha256()
    for answer in answers:
        for name, value in answer.items():
            array = np.array(value)
            if array.dtype.kind == "f":
                array[np.isnan(array)] = np.nan
            state.update(f"{name} {array.dtype} {array.shape}".encode())
            state.update(array.tobytes())
    return state.hexdigest()


def evaluate(runner: Any, net: Network) -> list[dict[str, Array]]:
    return [
        {name: np.array(value) for name, value in runner.evaluate(**feed).items()}
        for feed in net.feeds
    ]


def between_threads(model: Any, net: Network, expected: str) -> str:
    """Runners of one model in several threads at once; what is wrong, or nothing."""
    wrong: list[str] = []
    start = threading.Barrier(THREADS)

    def work() -> None:
        try:
            runner = model.new_runner()
            start.wait()
            for _ in range(ROUNDS):
                if digest(evaluate(runner, net)) != expected:
                    wrong.append("another answer with several threads")
        except Exception as error:
            wrong.append(f"with several threads: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong[0] if wrong else ""


def _difference(name: str, found: Array, bounds: Bounds) -> str:
    if found.dtype != bounds.value.dtype or found.shape != bounds.value.shape:
        return (
            f"output '{name}': {found.dtype} {found.shape},"
            f" expected {bounds.value.dtype} {bounds.value.shape}"
        )
    bad = outside(found, bounds)
    if not bad.any():
        return ""
    where = np.unravel_index(int(np.flatnonzero(bad)[0]), bad.shape) if bad.ndim else ()
    return (
        f"output '{name}' {[int(i) for i in where]}: {found[where]!s},"
        f" expected {bounds.value[where]!s} within {float(bounds.distance[where]):.3g};"
        f" {int(bad.sum())} of {bad.size} elements"
    )


def compare(net: Network, answers: list[dict[str, Array]]) -> dict[str, Any]:
    """Compares with ONNX Runtime; a difference counts only if much noise doesn't explain it."""
    reference = Reference(net)
    elements = left_out = 0
    for number, (feed, answer) in enumerate(zip(net.feeds, answers, strict=True)):
        exact = net.model.producer_name == EXACT
        bounds = reference.exact(feed) if exact else reference.bounds(feed, net.seed)
        wrong = [_difference(name, answer[name], bounds[name]) for name in bounds]
        if any(wrong) and not exact:
            bounds = reference.bounds(feed, net.seed, SURE_DRAWS, SURE_STRENGTH)
            wrong = [_difference(name, answer[name], bounds[name]) for name in bounds]
        if any(wrong):
            why = next(w for w in wrong if w)
            if len(net.feeds) > 1:
                why += f" (feed {number} of {len(net.feeds)})"
            bad = [name for name, w in zip(bounds, wrong, strict=True) if w]
            return {"result": "outside", "why": why, "outputs": bad}
        elements += sum(b.compared.size for b in bounds.values())
        left_out += sum(int((~b.compared).sum()) for b in bounds.values())
    return {"result": "passed", "elements": elements, "left_out": left_out}


def judge(engine: str, question: dict[str, Any], folder: Path) -> dict[str, Any]:
    import mlbridge
    from mlbridge import cli

    if "seed" in question:
        net = KINDS[question["kind"]](question["seed"])
        path = folder / "model.onnx"
        path.write_bytes(net.model.SerializeToString())
    else:
        net = load(Path(question["folder"]))
        path = Path(question["folder"]) / "model.onnx"
    try:
        if engine == "aot":
            library = folder / "model.so"
            compiled = ["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]
            if cli.main(compiled) != 0:
                return {"result": "error", "why": "it isn't compiled"}
            path = library
        model = mlbridge.Model.open(f"{engine}:{path}")
    except mlbridge.errors.Unsupported as error:
        return {"result": "refused", "why": str(error)}
    except Exception as error:
        return {"result": "error", "why": f"opening: {type(error).__name__}: {error}"}
    try:
        signature = model.model_signature
        assert signature
        model.bind(signature)
        runner = model.new_runner()
        answers = evaluate(runner, net)
        bits = digest(answers)
        if digest(evaluate(runner, net)) != bits:
            return {"result": "unstable", "why": "another answer when asked again", "digest": bits}
    except Exception as error:
        return {"result": "error", "why": f"{type(error).__name__}: {error}"}
    if question.get("digest"):
        return {"result": "passed", "digest": bits}
    try:
        answer = compare(net, answers)
    except NoReference as error:
        answer = {"result": "no reference", "why": str(error)}
    threaded = question.get("threads") and answer["result"] == "passed"
    if threaded and (why := between_threads(model, net, bits)):
        answer = {"result": "threads", "why": why}
    return {**answer, "digest": bits}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
    from isolation import answer_lines

    with tempfile.TemporaryDirectory(prefix="mlbridge-networks-") as folder:
        answer_lines(lambda line: judge(sys.argv[1], json.loads(line), Path(folder)))


if __name__ == "__main__":
    main()
