# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random networks: an engine against ONNX Runtime, against itself on other instruction sets and in
several threads.

    run.py [--kind KIND | --files FOLDER] [--networks 500] [--first 0] [--seed N] [--engine native]
           [--out FILE]

A network is made from its seed alone. Of the kind aliases are branches and loops that give out what
they see (aliases.py). Of files, with random inputs, some may be refused; they are listed. One that
fails is made as small as possible and saved in
build/random-networks/SEED, and the command that shows it again is printed. reference.py says how
far an answer may be from ONNX Runtime's. Bits must be the same on every instruction set; only one
NaN is like another.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from evaluate import load, save
from generate import KINDS
from network import Array, Network
from onnx import helper
from shrink import shrink

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from isolation import Child
from processor import instruction_sets, multiplies_bytes_exactly
from result_tables import section

ROOT = Path(__file__).resolve().parents[2]
SAVED = ROOT / "build" / "random-networks"
SECONDS = 60.0
FEEDS = 2  # for each file
THREADED = 8  # each eighth network is evaluated in several threads too
SHRUNK = 20  # no more than that many: what is left is mostly the same
BAD = ("outside", "error", "unstable", "threads", "died", "instruction sets", "refused")


class Judge:
    """The processes: one that compares with ONNX Runtime, one for each other instruction set."""

    def __init__(self, engine: str, sets: list[str], stack: ExitStack) -> None:
        script = Path(__file__).with_name("evaluate.py")
        command: list[str | Path] = [sys.executable, script, engine]
        self.scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mlbridge-")))
        # The last one is the best, which is chosen if nothing is said.
        seconds = 5 * SECONDS if engine == "aot" else SECONDS  # a compiler's
        self.best = stack.enter_context(Child(command, seconds))
        self.others = {
            name: stack.enter_context(
                Child(command, SECONDS, {**os.environ, "MLBRIDGE_NATIVE_ISA": name})
            )
            for name in sets[:-1]
        }

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The outcome of one network."""
        answer = self.best.ask(json.dumps(question))
        if "died" in answer:
            # Either engine may have ended the process.
            other = self.best.ask(json.dumps({**question, "digest": True}))
            result = "died" if "died" in other else "no reference"
            return {"result": result, "why": answer["died"]}
        if answer["result"] not in ("passed", "no reference"):
            return answer
        for name, child in self.others.items():
            other = child.ask(json.dumps({**question, "digest": True}))
            if "died" in other:
                return {"result": "died", "why": f"on {name}: {other['died']}"}
            if other["result"] != "passed":
                return {**other, "why": f"on {name}: {other['why']}"}
            if other["digest"] != answer["digest"]:
                return {"result": "instruction sets", "why": f"other bits on {name}"}
        return answer

    def ask_about(self, net: Network, *, threads: bool) -> dict[str, Any]:
        save(net, self.scratch / "candidate")
        question = {"folder": str(self.scratch / "candidate"), "threads": threads}
        return self.ask(question)


def keep(judge: Judge, net: Network, name: str, answer: dict[str, Any]) -> Path:
    """Saves the smallest network that fails in the same way."""
    result = answer["result"]

    # A network that is refused late may be refused early when it is smaller.
    same = {result, "refused"} if result == "error" else {result}

    def fails(candidate: Network) -> bool:
        return judge.ask_about(candidate, threads=result == "threads")["result"] in same

    small = shrink(net, fails) if result != "refused" else net
    folder = SAVED / name.removeprefix("seed ")
    shutil.rmtree(folder, ignore_errors=True)
    save(small, folder)
    why = judge.ask_about(small, threads=result == "threads").get("why", "")
    operators = [node.op_type for node in small.model.graph.node]
    opset = small.model.opset_import[0].version
    text = f"{name}: {result}: {why}\noperators: {operators}, opset {opset}\n"
    (folder / "why.txt").write_text(text)
    print(text, end="")
    return folder


def of_file(path: Path) -> Network:
    """Asks for inputs made from a seed, as the metadata `inputs` of the model say."""
    model = onnx.load(path)
    [ranges] = [json.loads(p.value) for p in model.metadata_props if p.key == "inputs"]
    numbers = np.random.default_rng(len(path.name))
    feeds: list[dict[str, Array]] = [{} for _ in range(FEEDS)]
    for feed in feeds:
        for info in model.graph.input:
            kind = info.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
            shape = [d.dim_value for d in kind.shape.dim]
            if info.name in ranges:
                low, high = ranges[info.name]
                feed[info.name] = np.asarray(numbers.integers(low, high, shape), dtype)
            else:
                feed[info.name] = np.asarray(numbers.standard_normal(shape), dtype)
    return Network(0, model, feeds)


Made = tuple[str, Callable[[], Network], dict[str, Any]]


def made(options: argparse.Namespace) -> Iterator[Made]:
    """Name, network and question of each."""
    if options.files:
        for path in sorted(options.files.glob("*.onnx")):
            yield path.name, partial(of_file, path), {}
        return
    make = KINDS[options.kind]
    for seed in range(options.first, options.first + options.networks):
        yield f"seed {seed}", partial(make, seed), {"seed": seed, "kind": options.kind}


def campaign(options: argparse.Namespace) -> dict[str, Any]:
    sets = instruction_sets() if options.engine == "native" else ["portable"]
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    start = time.monotonic()
    with ExitStack() as stack:
        judge = Judge(options.engine, sets, stack)
        for number, (name, make, question) in enumerate(made(options)):
            threads = number % THREADED == 0
            if question:
                answer = judge.ask({**question, "threads": threads})
            else:
                answer = judge.ask_about(make(), threads=threads)
            result = answer["result"]
            counts[result] += 1
            counts["elements"] += answer.get("elements", 0)
            counts["left out"] += answer.get("left_out", 0)
            if result == "refused":
                why = answer["why"].rsplit(": ", 1)[-1]
                refused[f"{name}: {why}" if options.files else why] += 1
            if result in BAD and result != "refused":
                print(f"{name}: {result}: {answer.get('why', '')}", flush=True)
                if sum(counts[kind] for kind in BAD if kind != "refused") <= SHRUNK:
                    folder = keep(judge, make(), name, answer)
                    print(f"  again: tests/random-networks/run.py --folder {folder}", flush=True)
            if number % 1000 == 999:
                print(f"{number + 1} of {options.networks}: {dict(counts)}", flush=True)
    for why, count in refused.most_common():
        print(f"refused {count}: {why}")
    return {
        "engine": options.engine,
        "networks": sum(counts[kind] for kind in (*BAD, "passed", "no reference")),
        "first_seed": options.first,
        "passed": counts["passed"],
        "failed": sum(counts[kind] for kind in BAD),
        "compared": counts["passed"] + counts["outside"] + counts["threads"],
        "outside": counts["outside"],
        "errors": counts["error"] + counts["died"] + counts["unstable"],
        "refused": counts["refused"],
        "no_reference": counts["no reference"],
        "instruction_sets": sets,
        "differ_by_instruction_set": counts["instruction sets"],
        "differ_by_threads": counts["threads"],
        "elements": counts["elements"],
        "elements_left_out": counts["left out"],
        "seconds": round(time.monotonic() - start, 1),
    }


def again(options: argparse.Namespace) -> int:
    """One network, from its seed or as it was saved."""
    with ExitStack() as stack:
        sets = instruction_sets() if options.engine == "native" else ["portable"]
        judge = Judge(options.engine, sets, stack)
        net = load(Path(options.folder)) if options.folder else KINDS[options.kind](options.seed)
        print(text_of(net))
        answer = judge.ask_about(net, threads=True)
        print(json.dumps(answer, indent=1))
        if options.seed is not None and answer["result"] in BAD:
            print(f"smallest: {keep(judge, net, str(options.seed), answer)}")
    return 0 if answer["result"] == "passed" else 1


def text_of(net: Network) -> str:
    """Its nodes, without the weights."""
    lines = [f"opset {net.model.opset_import[0].version}; {len(net.feeds)} sets of inputs"]
    for name, value in net.feeds[0].items():
        lines.append(f"  input {name}: {value.dtype} {value.shape}")
    for node in net.model.graph.node:
        options = [
            f"{a.name}={helper.printable_attribute(a)}"
            for a in node.attribute
            if not a.HasField("t")
        ]
        lines.append(
            f"  {', '.join(node.output)} = {node.op_type}({', '.join(node.input)}) {options}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--engine", default="native", help="the URI scheme (native)")
    parser.add_argument("--kind", choices=KINDS, default="networks")
    parser.add_argument("--networks", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one; print it")
    parser.add_argument("--files", type=Path, help="a folder of models")
    parser.add_argument("--folder", help="only this saved one; print it")
    parser.add_argument("--out", type=Path, default=ROOT / "build/test/random-networks.json")
    parser.add_argument("--allow-refused", action="store_true", help="while operators are missing")
    options = parser.parse_args()
    if options.seed is not None or options.folder:
        return again(options)
    report = campaign(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=1) + "\n")
    keys = ["networks", "elements", "outside", "errors", "refused"]
    keys += ["differ_by_instruction_set", "differ_by_threads"]
    section(
        options.out,
        "Random networks (`make test`, `make nightly`)",
        f"`{options.engine}:` against ONNX Runtime, and against itself on other instruction sets"
        " (bit for bit) and in several threads. `tests/random-networks/reference.py` states the"
        " tolerance.",
        [{key.replace("_", " "): report[key] for key in keys}],
    )
    print(json.dumps(report))
    allowed = report["refused"] if options.allow_refused or options.files else 0
    most = report["networks"] // (100 if multiplies_bytes_exactly() else 10)
    without = report["no_reference"] > most
    return 1 if without or report["failed"] > allowed else 0


if __name__ == "__main__":
    sys.exit(main())
