# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random ONNX graphs over every operator of the native engine, with values at their extremes, by
`native:` and, a few, compiled for `aot:`. ONNX's own reference implementation decides, and ONNX
Runtime is asked besides.

    onnx_graphs.py [--first SEED] [--count N] [--compiled N] [--report FILE]
    onnx_graphs.py --folder FOLDER [--engine native]      one that was kept, once more

A difference from the reference is a fault, unless ONNX Runtime agrees with the engine and KNOWN
says which words of the engine's README explain it, or the other way round.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / folder) for folder in ("random-networks", "shared")]
from evaluate import evaluate, load, save  # noqa: E402
from isolation import Child, answer_lines  # noqa: E402
from network import Array, Network  # noqa: E402
from tally import Tally  # noqa: E402
from tally import save as save_counts  # noqa: E402
from tqdm import tqdm  # noqa: E402

SUITE = "onnx-graphs"
README = ROOT / "src/engine/native/README.md"
SECONDS = {"native": 20.0, "aot": 120.0}  # for one graph, by all
MEMORY = 6 << 30  # of the process that evaluates
SHRUNK = 20  # no more than that many
#: Where the reference or ONNX Runtime has something else, and which words of README.md say so.
KNOWN: dict[str, str] = {
    "Hardmax": "for `Hardmax` NaN is the greatest",
    "Gemm": "In a product of matrices a zero times an infinity is NaN",
    "float16": "float16 and bfloat16 are computed as float32 and rounded",
    "LogSoftmax": "`LogSoftmax` keeps the digits of elements far below the greatest",
    "LpNormalization": "norm of `LpNormalization` with p = 1 is a sum of absolute values",
    "MatMul": "In a product of matrices a zero times an infinity is NaN",
    "OneHot": "`OneHot` takes its two values as they are",
    "Pow": "−inf to the power of 0.5 is infinity",
    "PRelu": "`PRelu` multiplies negative elements only",
    "ReduceLogSumExp": "`ReduceLogSumExp` of infinity is infinity",
    "ReduceMean": "mean of nothing is 0",
    "Slice": "A `Slice` that goes backwards ends where `ends` says",
    "Unique": "`Unique` that doesn't sort gives slices of its axis",
}
#: Operators of KNOWN where there may be nobody else to agree with.
ALONE = ("OneHot", "Slice")
RELATIVE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-6}
#: Sums of many, whose error is that of their largest parts.
SUMMING = ("Reduce", "MatMul", "Gemm", "CumSum", "Normalization", "LSTM", "GRU", "RNN", "Softmax",
           "Sum", "Mean", "Scatter")  # fmt: skip


# ---- the side of the engines, in a process of its own --------------------------------------------


def exact_operators() -> list[Any]:
    """Where the reference implementation isn't the formula: its Erf rounds to float32, its PRelu
    multiplies zeros."""
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):
        def _run(self, x: Array) -> tuple[Array]:
            return (np.vectorize(math.erf, otypes=["float64"])(x).astype(x.dtype),)

    class PRelu(OpRun):
        def _run(self, x: Array, slope: Array) -> tuple[Array]:
            return (np.where(x < 0, x * slope, x).astype(x.dtype),)

    return [Erf, PRelu]


def by_reference(net: Network) -> list[list[Array]]:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(net.model, new_ops=exact_operators())
    return [[np.asarray(v) for v in evaluator.run(None, dict(feed))] for feed in net.feeds]


def by_onnx_runtime(net: Network) -> list[list[Array]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        net.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [[np.asarray(v) for v in session.run(None, feed)] for feed in net.feeds]


def by_engine(engine: str, net: Network, folder: Path) -> list[list[Array]]:
    import mlbridge
    from mlbridge import cli

    path = folder / "model.onnx"
    path.write_bytes(net.model.SerializeToString())
    if engine == "aot":
        library = folder / "model.so"
        command = ["aot", str(path), "-o", str(library), "--shared", "--isa", "portable"]
        for name, value in net.feeds[0].items():
            if value.ndim:
                command += ["--shape", f"{name}={','.join(map(str, value.shape))}"]
        if cli.main(command) != 0:
            raise mlbridge.errors.Unsupported("it isn't compiled")
        path = library
    runner = mlbridge.open(f"{engine}:{path}")
    return [list(answer.values()) for answer in evaluate(runner, net)]


def scale(net: Network) -> float:
    """How large the parts of a sum may be."""
    kinds = {node.op_type for node in net.model.graph.node}
    if not any(part in kind for kind in kinds for part in SUMMING):
        return 0.0
    from onnx import numpy_helper

    values = [v for feed in net.feeds for v in feed.values()]
    values += [numpy_helper.to_array(t) for t in net.model.graph.initializer]
    most = 1.0
    for value in values:
        if value.dtype.kind == "f" and value.size:
            finite = np.abs(value[np.isfinite(value)].astype("float64"))
            most = max(most, float(finite.max(initial=1.0)))
    return min(most, 1e6) ** 2


def differs(found: Array, other: Array, large: float) -> Array | None:
    """Which elements; None if not even types and shapes are the same."""
    if found.dtype != other.dtype or found.shape != other.shape:
        return None
    if found.dtype.kind != "f":
        return np.asarray(found != other)
    a, b = found.astype("float64"), other.astype("float64")
    relative = RELATIVE[str(found.dtype)]
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= relative * (np.abs(b) + large) + float(np.finfo(found.dtype).tiny)
        if found.dtype == "float16":  # rounded to infinity, or not
            near |= (np.abs(a) > 65000) & (np.abs(b) > 65000) & (np.sign(a) == np.sign(b))
        return np.asarray(~(near | (a == b) | (np.isnan(a) & np.isnan(b))))


def known(net: Network) -> bool:
    return any(node.op_type in KNOWN for node in net.model.graph.node)


def compare(net: Network, found: list[list[Array]], judges: dict[str, list[list[Array]]]) -> str:
    """What is wrong, or nothing."""
    large = scale(net)
    names = [output.name for output in net.model.graph.output]
    for number in range(len(net.feeds)):
        for i, name in enumerate(names):
            value = found[number][i]
            declared = net.model.graph.output[i].type.tensor_type.elem_type
            wrong = {
                judge: differs(value, answers[number][i], large)
                for judge, answers in judges.items()
                # The reference has types of its own for some results.
                if helper.np_dtype_to_tensor_dtype(answers[number][i].dtype) == declared
            }
            if not wrong:
                continue
            first = wrong.get("reference", next(iter(wrong.values())))
            if first is not None and not first.any():
                continue
            # The others may explain it, for each element one.
            explained = known(net) or value.dtype == "float16"
            if len(wrong) == 1 and any(n.op_type in ALONE for n in net.model.graph.node):
                continue  # the other one has no answer
            if explained:
                left = np.ones(value.shape, bool)
                for bad in wrong.values():
                    if bad is not None:
                        left &= bad
                if not left.any():
                    continue
            text = f"output '{name}' of inputs {number}: {value.dtype} {value.shape}"
            if first is None or any(d is None for d in wrong.values()):
                others = (
                    f"{j} {a[number][i].dtype} {a[number][i].shape}" for j, a in judges.items()
                )
                if first is None or not first.any():
                    return f"{text}; {', '.join(others)}"
            where = tuple(int(n) for n in np.argwhere(first)[0])
            others = (
                f"{judge} {a[number][i][where]!s}"
                for judge, a in judges.items()
                if a[number][i].shape == value.shape
            )
            return f"{text}{list(where)} is {value[where]!s}; {', '.join(others)}"
    return ""


def judge(engine: str, question: dict[str, Any], folder: Path) -> dict[str, Any]:
    import mlbridge

    if "seed" in question:
        from generate import KINDS

        net = KINDS["extremes"](question["seed"])
    else:
        net = load(Path(question["folder"]))
    warnings.simplefilter("ignore")
    judges, failures = {}, []
    with np.errstate(all="ignore"):
        for name, evaluated in (("reference", by_reference), ("onnxruntime", by_onnx_runtime)):
            if question.get("only"):
                break
            try:
                judges[name] = evaluated(net)
            except Exception as error:
                failures.append(f"{name}: {str(error)[:200]}")
    try:
        found = by_engine(engine, net, folder)
    except mlbridge.errors.Unsupported as error:
        return {"result": "refused", "why": str(error)}
    except Exception as error:
        # Without a declared shape, lengths of 2 and more say how many dimensions an output has.
        squeezes = "is in fact" in str(error) and not all(
            output.type.tensor_type.HasField("shape") for output in net.model.graph.output
        )
        if failures or squeezes or question.get("only"):  # not valid for somebody else either
            return {"result": "invalid", "why": f"{error}; {'; '.join(failures)}"}
        return {"result": "crashed", "why": f"{type(error).__name__}: {error}"}
    if not judges:
        return {"result": "no judge", "why": "; ".join(failures)}
    why = compare(net, found, judges)
    return {"result": "wrong" if why else "passed", "why": why + "; ".join(["", *failures])}


# ---- the campaign --------------------------------------------------------------------------------


class Judge:
    def __init__(self, engine: str, stack: ExitStack) -> None:
        command: list[str | Path] = [sys.executable, Path(__file__), "--answer", "--engine", engine]
        self.child = stack.enter_context(Child(command, SECONDS[engine]))

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        answer = self.child.ask(json.dumps(question))
        if "died" not in answer:
            return answer
        # One of the judges may have ended the process.
        again = self.child.ask(json.dumps({**question, "only": True}))
        if "died" in again:
            return {"result": "crashed", "why": again["died"]}
        return {"result": "no judge", "why": answer["died"]}


def text_of(net: Network) -> str:
    from onnx import printer

    lines = [str(printer.to_text(net.model.graph))]
    for feed in net.feeds:
        lines += [f"{name}: {value.dtype} {value.tolist()}" for name, value in feed.items()]
    return "\n".join(lines)


def keep(judge: Judge, tally: Tally, seed: int, answer: dict[str, Any], engine: str) -> None:
    """Makes it small, if it isn't one of very many."""
    from generate import KINDS
    from shrink import shrink

    net = KINDS["extremes"](seed)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        def fails(candidate: Network) -> bool:
            save(candidate, folder)
            return bool(judge.ask({"folder": str(folder)})["result"] == answer["result"])

        if len(tally.found) < SHRUNK:
            net = shrink(net, fails)
        save(net, folder)
        why = judge.ask({"folder": str(folder)}).get("why", "")
        (folder / "why.txt").write_text(f"seed {seed}: {why}\n{text_of(net)}\n")
        command = f"{sys.executable} {Path(__file__)} --engine {engine} --folder {{0.parent}}"
        files = [folder / name for name in ("model.onnx", "feeds.npz", "why.txt")]
        tally.bad(answer["result"], str(seed), command, *files)
    print(f"  {why}", flush=True)


def campaign(engine: str, seeds: range, stack: ExitStack) -> Tally:
    tally = Tally(SUITE, engine)
    judge = Judge(engine, stack)
    refused: dict[str, int] = {}
    for seed in tqdm(seeds, unit="graph", disable=None):
        answer = judge.ask({"seed": seed})
        result = answer["result"]
        if result in ("no judge", "invalid"):
            refused[result] = refused.get(result, 0) + 1
            continue
        tally.programs += 1
        if result == "refused":
            tally.refused += 1
            why = answer["why"].split(".onnx: ")[-1][:100]
            refused[why] = refused.get(why, 0) + 1
        elif result != "passed":
            keep(judge, tally, seed, answer, engine)
    for why, count in sorted(refused.items(), key=lambda item: -item[1]):
        print(f"{count}: {why}")
    return tally


def undocumented() -> list[str]:
    text = " ".join(README.read_text().split())
    return [f"{kind}: {words}" for kind, words in KNOWN.items() if words not in text]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--compiled", type=int, default=8, help="how many for aot:")
    parser.add_argument("--report", type=Path, help="file of the counts")
    parser.add_argument("--engine", default="native")
    parser.add_argument("--folder", type=Path, help="only this one that was kept")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with tempfile.TemporaryDirectory(prefix="mlbridge-graphs-") as folder:
            answer_lines(lambda line: judge(options.engine, json.loads(line), Path(folder)))
        return 0
    with ExitStack() as stack:
        if options.folder:
            print(text_of(load(options.folder)))
            answer = Judge(options.engine, stack).ask({"folder": str(options.folder)})
            print(json.dumps(answer, indent=1))
            return int(answer["result"] in ("wrong", "crashed"))
        for words in undocumented():
            sys.exit(f"{README} doesn't say: {words}")
        last = options.first + options.count
        tallies = [campaign("native", range(options.first, last), stack)]
        if options.compiled:
            compiled = range(last, last + options.compiled)
            tallies.append(campaign("aot", compiled, stack))
    return 0 if save_counts(tallies, options.report) else 1


if __name__ == "__main__":
    sys.exit(main())
