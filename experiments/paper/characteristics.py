# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Table 6 of the paper, each of whose cells is said by a test that runs.

    python3 -m experiments.paper.characteristics [-o FILE]

Needs what `make check` builds. FILE gets a row for each characteristic: what is said of each
runner, by which tests, and whether they passed. Where there is nothing to test, such as the other
process that a server is, the test shows that the runner works as said.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from experiments.paper.command import keep, parser_of
from programs.catalog import ROOT

RUNNERS = ("grpc", "local", "onnx", "native", "aot")
BUILD = ROOT / "build/cmake/dev"
THREADS = {
    "grpc": ("yes", "ctest:Grpc.ServesEightThreadsOverOneConnection"),
    "local": ("yes", "ctest:ServerOver.EightThreadsShareOneConnection"),
    "onnx": ("yes", "ctest:Onnx.EightThreadsShareOneModel"),
    "native": ("yes", "ctest:Native.EightThreadsShareAModel"),
    "aot": ("yes", "python/tests/aot_test.py::test_threads_share_one_model"),
}
PLUGIN = "compilers/llvm/phase-ordering/test/server_test.py"
INLINING = "examples/inlining/inlining_test.py::test_the_option_alone_chooses_the_engine"
FAULTS = "tests/faults/faults_test.py::test_no_fault_misleads"
INTEROP = "tests/interop/interop_test.py::test_combination"
#: What the paper says of its runners, in the order gRPC, pipes, ONNX, TensorFlow.
PUBLISHED = {
    "multithreaded compilation": ("no", "no", "yes", "yes"),
    "one model for many compilers": ("", "", "", ""),
    "serializes by itself": ("yes", "yes", "–", "–"),
    "a failure is always told": ("no", "no", "yes", "yes"),
    "independent of an ML framework": ("yes", "yes", "yes", "no"),
    "code in the pass for this runner": ("yes", "no", "yes", "no"),
    "needs another process": ("yes", "yes", "no", "no"),
}
#: For each characteristic: what is said of a runner, and the test that shows it.
SAID: dict[str, dict[str, tuple[str, str]]] = {
    "multithreaded compilation": THREADS,
    "one model for many compilers": {
        "grpc": ("yes", "python/tests/processes_test.py::test_many_compilers_with_many_threads"),
        "local": ("yes", f"{PLUGIN}::test_many_compilers_at_once"),
    },
    "serializes by itself": {"grpc": ("yes", INTEROP), "local": ("yes", INTEROP)},
    "a failure is always told": {
        "grpc": ("yes", FAULTS),
        "local": ("yes", f"{PLUGIN}::test_a_server_that_dies"),
        "onnx": ("yes", "python/tests/onnx_hazards_test.py"),
        "native": ("yes", "python/tests/onnx_hazards_test.py"),
        "aot": ("yes", "python/tests/aot_test.py"),
    },
    "independent of an ML framework": {
        "grpc": ("yes", "python/tests/serve_test.py::test_every_type_comes_back_as_it_was"),
        "local": ("yes", "python/tests/serve_test.py::test_every_type_comes_back_as_it_was"),
        "onnx": ("yes", INLINING),
        "native": ("yes", "tests/install/native_footprint_test.py"),
        "aot": ("yes", "tests/install/compile_model_test.py"),
    },
    "code in the pass for this runner": {
        "grpc": ("no", f"{PLUGIN}::test_a_server_decides_as_a_function_does"),
        "local": ("no", f"{PLUGIN}::test_a_server_decides_as_a_function_does"),
        "onnx": ("no", INLINING),
        "native": ("no", INLINING),
        "aot": ("no", INLINING),
    },
    "needs another process": {
        "grpc": ("yes", f"{PLUGIN}::test_a_server_that_dies"),
        "local": ("yes", f"{PLUGIN}::test_a_server_that_dies"),
        "onnx": ("no", INLINING),
        "native": ("no", INLINING),
        "aot": ("no", INLINING),
    },
}


def passed(test: str) -> str:
    """How many tests passed; the end of the output if one didn't, or none ran."""
    if test.startswith("ctest:"):
        name = re.escape(test.removeprefix("ctest:"))
        command = ["ctest", "--test-dir", str(BUILD), "-R", name]
        pattern = r"tests passed, 0 tests failed out of (\d+)"
    else:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", str(ROOT / test)]
        pattern = r"^(\d+) passed"
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    found = re.search(pattern, done.stdout, re.MULTILINE)
    if done.returncode == 0 and found and int(found[1]):
        return f"{found[1]} passed"
    return "failed: " + (done.stdout + done.stderr)[-1000:]


def rows(results: dict[str, str]) -> Iterable[dict[str, Any]]:
    for name, said in SAID.items():
        cells = {}
        for runner in RUNNERS:
            value, test = said.get(runner, ("–", ""))
            held = not test or results[test].endswith("passed")
            cells[runner] = {"said": value, "test": test, "holds": held}
        yield {"characteristic": name, "published": PUBLISHED[name], "runners": cells}


def main(arguments: list[str]) -> int:
    """Command line; 1 if a test failed."""
    parser = parser_of(__doc__)
    options = parser.parse_args(arguments)
    results: dict[str, str] = {}
    for said in SAID.values():
        for _, test in said.values():
            if test not in results:
                results[test] = passed(test)
                print(f"{test}: {results[test]}", flush=True)
    found = {"tests": results, "rows": list(rows(results))}
    keep(found, options.output)
    return 0 if all(result.endswith("passed") for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
