# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the examples at the heads of the public headers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "include"
EXAMPLES = {
    header.name: code
    for header in sorted((INCLUDE / "mlbridge").glob("*.h"))
    if header.name != "llvm_model_runner.h"  # needs LLVM's headers
    and (code := re.findall(r"^//     (.*)$", header.read_text().partition("#ifndef")[0], re.M))
}
# What the examples take for granted.
AROUND = """
#include <mlbridge/environment.h>
#include <mlbridge/function.h>
#include <mlbridge/server.h>
#include <vector>
const mlbridge::Signature Loop;
mlbridge::Status unroll(mlbridge::Expected<int64_t> factor);
int64_t decide(mlbridge::Span<float> embedding);
void apply(int64_t action);
void report(const std::string &why);
int64_t heuristic();
void example(mlbridge::Signature signature, std::vector<float> embedding, mlbridge::Model model) {
%s
}
"""


@pytest.mark.parametrize("header", EXAMPLES)
def test_the_example_compiles(header: str, tmp_path: Path) -> None:
    code = "\n".join(EXAMPLES[header])
    # A model of the example's own hides the one that others take for granted.
    source = tmp_path / "example.cpp"
    source.write_text(f"#include <mlbridge/{header}>" + AROUND % f"{{\n{code}\n}}")
    options = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-fsyntax-only")
    done = subprocess.run(
        ["g++", *options, f"-I{INCLUDE}", source],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_the_headers_that_people_start_with_have_one() -> None:
    start = {f"{name}.h" for name in ("model", "runner", "server", "environment", "function")}
    assert start <= set(EXAMPLES)
