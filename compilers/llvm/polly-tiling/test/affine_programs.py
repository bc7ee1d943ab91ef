# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated programs of affine loops over integers, which print what they have computed."""

from __future__ import annotations

import random

HEAD = """#include <stdint.h>
#include <stdio.h>
enum { N = %d };
static int64_t a[N][N], b[N][N], c[N][N];
"""
MAIN = """
int main(void) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      a[i][j] = i * 7 %% 31 - j, b[i][j] = i - j * 5 %% 29, c[i][j] = i ^ j;
%s
  uint64_t sum = 0;
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      sum = sum * 31 + (uint64_t)(a[i][j] + 3 * b[i][j] + 7 * c[i][j]);
  printf("%%llu\\n", (unsigned long long)sum);
}
"""


def nest(draw: random.Random, name: str) -> str:
    """A function of two or three loops around one or two statements."""
    loops = "ijk"[: draw.choice((2, 2, 3))]

    def at() -> str:
        row, column = draw.choice(loops), draw.choice(loops)
        shift = draw.choice(("", "", " - 1", " + 1"))
        return f"[{row}{shift}][{column}]"

    lines = []
    for _ in range(draw.choice((1, 1, 2))):
        written, first, second = draw.choice("abc"), draw.choice("abc"), draw.choice("abc")
        kind, operation = draw.choice(("=", "+=")), draw.choice("+-*")
        lines.append(f"{written}{at()} {kind} {first}{at()} {operation} {second}{at()} % 1009;")
    text = f"static __attribute__((noinline)) void {name}(void) {{\n"
    for depth, loop in enumerate(loops):
        text += "  " * (depth + 1) + f"for (int {loop} = 1; {loop} < N - 1; ++{loop})"
        text += " {\n" if loop == loops[-1] else "\n"
    text += "".join("  " * (len(loops) + 1) + line + "\n" for line in lines)
    return text + "  " * len(loops) + "}\n}\n"


def program(seed: int) -> str:
    """The source of a program of four functions."""
    draw = random.Random(seed)
    names = [f"f{number}" for number in range(4)]
    head = HEAD % draw.choice((40, 64, 97))
    return (
        head
        + "".join(nest(draw, name) for name in names)
        + MAIN % "\n".join(f"  {name}();" for name in names)
    )
