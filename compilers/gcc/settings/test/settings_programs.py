# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs and networks for the tests of the plugin for GCC."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FEATURES = 25
SETTINGS = ["stock", "size", "speed", "inline-less", "inline-more", "unroll", "keep-loops"]

#: Loops, calls, a switch, floating point, and a function without any loop.
PROGRAM = """
#include <stdio.h>
static int sum(int n) { int y = 0; for (int i = 0; i < n; ++i) y += i * n; return y; }
float dot(const float *a, const float *b, int n) {
  float s = 0;
  for (int i = 0; i < n; ++i) s += a[i] * b[i];
  return s;
}
void add(float *a, const float *b, int n) { for (int i = 0; i < n; ++i) a[i] += b[i]; }
int pick(int n) {
  switch (n) {
  case 1: return 5;
  case 2: return 9;
  case 3: return 77;
  case 4: return 3;
  default: return sum(n) + sum(n + 1);
  }
}
__attribute__((optimize("O1"))) int own(int n) { return sum(n) * 3; }
int main(int count, char **names) {
  (void)names;
  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  add(a, a, 8);
  printf("%d %d %f\\n", pick(count + 5), own(count), (double)dot(a, a, 8));
  return 0;
}
"""
#: The functions that are asked about: not `own`, whose settings its author states.
ASKED = {"sum", "dot", "add", "pick", "main"}


def network(path: Path, always: int | None = None, seed: int = 0, **metadata: str) -> Path:
    """One that gives the same setting always, or one that depends on the features."""
    chance = np.random.default_rng(seed)
    weights = np.zeros((FEATURES, len(SETTINGS)), np.float32)
    bias = np.zeros(len(SETTINGS), np.float32)
    if always is None:
        weights = chance.integers(-9, 9, weights.shape).astype(np.float32)
    else:
        bias[always] = 1
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["features", "weights"], ["sums"]),
            helper.make_node("Add", ["sums", "bias"], ["scores"]),
            helper.make_node("ArgMax", ["scores"], ["setting"], axis=0, keepdims=0),
        ],
        "settings",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [FEATURES])],
        [helper.make_tensor_value_info("setting", TensorProto.INT64, [])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata)
    onnx.save(model, path)
    return path


def generated(seed: int) -> str:
    """A program of functions that call each other, whose output no optimization may change."""
    chance = random.Random(seed)
    text = "#include <stdio.h>\n#include <stdint.h>\nstatic uint32_t memory[64];\n"
    names: list[str] = []

    def value(depth: int = 2) -> str:
        if depth == 0 or chance.random() < 0.3:
            return chance.choice(["a", "b", "x", str(chance.randrange(1, 99)), "memory[x % 64]"])
        operation = chance.choice(["+", "-", "*", "^", "&", "|", "/", "%", ">>", "<<", "<"])
        right = value(depth - 1)
        if operation in "/%":
            right = f"({right} | 1)"
        elif operation in ("<<", ">>"):
            right = f"({right} % 31)"
        return f"({value(depth - 1)} {operation} {right})"

    def statements(depth: int, loops: int) -> str:
        found = ""
        for _ in range(chance.randrange(2, 5)):
            kind = chance.randrange(7)
            if kind == 0 and depth:
                more = statements(depth - 1, loops)
                found += f"if ({value()} % 3) {{ {more} }} else {{ x += {value()}; }}\n"
            elif kind == 1 and depth and loops < 2:
                i = f"i{depth}"
                more = statements(depth - 1, loops + 1)
                count = chance.randrange(2, 20)
                found += f"for (uint32_t {i} = 0; {i} < {count}; ++{i}) {{ x ^= {i}; {more} }}\n"
            elif kind == 2:
                found += f"for (int k = 0; k < 64; ++k) memory[k] += {value()} + k;\n"
            elif kind == 3 and names and not loops:
                found += f"x += {chance.choice(names)}({value()}, {value()});\n"
            elif kind == 4:
                cases = "".join(f"case {n}: x -= {value()}; break;\n" for n in range(5))
                found += f"switch (x % 7) {{ {cases} default: x ^= 5; }}\n"
            elif kind == 5:
                found += f"{{ double d = x * 0.5 + {value()}; x ^= (uint32_t)(d / 4096); }}\n"
            else:
                found += f"x = {value(3)};\n"
        return found

    for n in range(chance.randrange(4, 9)):
        kind = chance.choice(["static ", "static inline ", "", "__attribute__((noinline)) "])
        body = statements(2, 0)
        text += f"{kind}uint32_t f{n}(uint32_t a, uint32_t b) {{ uint32_t x = a + b;\n{body}"
        text += "return x; }\n"
        names.append(f"f{n}")
    text += "int main(void) { uint32_t x = 1;\nfor (uint32_t a = 0; a < 30; ++a) {\n"
    text += "".join(f"x = x * 31 + {name}(a, x);\n" for name in names)
    text += 'printf("%u\\n", x); }\nfor (int k = 0; k < 64; ++k) printf("%u ", memory[k]);\n'
    return text + "return 0; }\n"
