# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds an engine to the ONNX project's own node tests; writes build/test/onnx-node-tests.json.

    run.py [--engine native] [--case PART] [--verbose]

A case counts as not claimed only if the engine refuses the model at opening as Unsupported; which
ones, and why, is in build/test/onnx-node-tests-refused.json. Everything after that has to be right,
within the tolerance that the ONNX project states for the test. That is 1e-3, which is less than two
units in the last place of a float16, and some expected values were rounded to float16 after each of
many operations. So elements of float16 may be two units away; how many cases need that is reported.
Inputs and outputs that the model declares as bfloat16 are float32 here, and what is expected may
also be two units of bfloat16 away.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from cases import ROOT, Case, all_cases, operators

sys.path.insert(0, str(ROOT / "tests" / "shared"))
sys.path.insert(0, str(ROOT / "tools"))
from isolation import Child, answer_lines
from result_tables import section

RESULTS = ROOT / "build" / "test"
LEAST = 1600
SECONDS = 60.0
HALF = 2.0**-9  # two units in the last place of a float16, relative
BFLOAT16 = 2.0**-6
#: Tests that expect the rounding errors of zeros among numbers of another size.
NOISY = {"test_dft_inverse", "test_dft_inverse_opset19"}


def different(found: Any, expected: Any, rtol: float, atol: float) -> str:
    """The difference that onnx.backend.test.runner finds; nothing if they agree."""
    if found.dtype != expected.dtype and expected.dtype != object:
        return f"element type {found.dtype}, expected {expected.dtype}"
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    try:
        if expected.dtype == object:
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:400]
    return ""


def outcome(engine: str, case: Case) -> dict[str, Any]:
    """{"result": "passed" | "failed" | "refused", "why": TEXT}."""
    import mlbridge

    try:
        model = mlbridge.Model.open(f"{engine}:{case.model}")
    except mlbridge.errors.Unsupported as error:
        return {"result": "refused", "why": str(error)}
    except Exception as error:
        return {"result": "failed", "why": f"opening: {type(error).__name__}: {error}"}
    if not case.has_tensors():
        return {"result": "failed", "why": "opened, though not all inputs and outputs are tensors"}
    try:
        signature = model.model_signature
        assert signature
        model.bind(signature)
        runner = model.new_runner()
        given = case.inputs()
        for name, value in given.items():
            if value.dtype.name == "bfloat16":
                given[name] = value.astype(np.float32)
        found = runner.evaluate(**given)
    except Exception as error:
        return {"result": "failed", "why": f"{type(error).__name__}: {error}"}
    expected = case.outputs()
    rounding = False
    if set(found) != set(expected):
        return {"result": "failed", "why": f"outputs {list(found)}, expected {list(expected)}"}
    for name, value in expected.items():
        array = np.asarray(found[name])
        units = {"float16": HALF, "bfloat16": BFLOAT16}.get(value.dtype.name)
        if value.dtype.name == "bfloat16":
            value = value.astype(np.float32)
        relative, absolute = case.tolerance()
        if case.name in NOISY:
            absolute = float(np.finfo(np.float32).eps * np.abs(value).max())
        wrong = different(array, value, relative, absolute)
        if wrong and units and not different(array, value, units, 0):
            rounding, wrong = True, ""
        if wrong:
            return {"result": "failed", "why": f"output '{name}': {wrong}"}
    return {"result": "passed", "why": "", "rounding": rounding}


def work(engine: str) -> None:
    cases = {case.name: case for case in all_cases()}
    answer_lines(lambda name: outcome(engine, cases[name]))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--engine", default="native", help="the URI scheme (native)")
    parser.add_argument("--case", default="", help="only cases with this in their name")
    parser.add_argument("--verbose", action="store_true", help="print refused cases as well")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        work(options.engine)
        return 0

    cases = [case for case in all_cases() if options.case in case.name]
    used = {case.name: operators(onnx.load(case.model)) for case in cases}
    claimed: set[str] = set()
    rounded = 0
    failures: dict[str, str] = {}
    refused: dict[str, dict[str, Any]] = {}
    command: list[str | Path] = [sys.executable, __file__, "--child", "--engine", options.engine]
    with Child(command, SECONDS) as child:
        for case in cases:
            answer = child.ask(case.name)
            if "died" in answer:
                answer = {"result": "failed", "why": f"the process died: {answer['died']}"}
            if answer["result"] == "refused":
                refused[case.name] = {"operators": sorted(used[case.name]), "why": answer["why"]}
                if options.verbose:
                    print(f"refused {case.name}: {answer['why']}", flush=True)
                continue
            claimed |= used[case.name]
            rounded += bool(answer.get("rounding"))
            if answer["result"] == "failed":
                failures[case.name] = answer["why"]
                print(f"FAILED {case.name}: {answer['why']}", flush=True)

    run = len(cases) - len(refused)
    report = {
        "engine": options.engine,
        "onnx": onnx.__version__,
        "claimed_operators": sorted(claimed),
        "run": run,
        "passed": run - len(failures),
        "failed": len(failures),
        "not_claimed": len(refused),
        "passed_within_two_units_of_a_half": rounded,
    }
    partly = Counter(op for case in refused.values() for op in case["operators"] if op in claimed)
    if not options.case:
        RESULTS.mkdir(parents=True, exist_ok=True)
        name = "onnx-node-tests" + ("" if options.engine == "native" else f"-{options.engine}")
        path = RESULTS / f"{name}.json"
        path.write_text(json.dumps(report, indent=1) + "\n")
        section(
            path,
            "The ONNX project's node tests (`make test`)",
            f"`{options.engine}:` runs {run} of those of onnx {onnx.__version__}:"
            f" {report['passed']} passed, {len(failures)} failed. It refuses {len(refused)} when"
            " they are opened, because they use operators or types that it doesn't support."
            f" Operators: {', '.join(sorted(claimed))}.",
        )
        (RESULTS / f"{name}-refused.json").write_text(json.dumps(refused, indent=1) + "\n")
        (RESULTS / f"{name}-failed.json").write_text(json.dumps(failures, indent=1) + "\n")
    wholly = sorted({op for case in refused.values() for op in case["operators"]} - claimed)
    print(f"operators never claimed: {' '.join(wholly)}")
    print(f"claimed, but in refused cases too: {dict(partly.most_common())}")
    counts = f"{run} run, {run - len(failures)} passed, {len(failures)} failed"
    print(f"{counts}, {len(refused)} refused")
    if not options.case and run < LEAST:
        print(f"fewer than {LEAST} were run")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
