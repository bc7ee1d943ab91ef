# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C programs with random loops, which print what they computed.

Everything in them is defined: integers wrap, indices stay within their arrays, divisors are not
zero, and no floating-point value is infinite.
"""

from __future__ import annotations

import random

WIDTHS = {"unsigned char": 1, "short": 2, "unsigned": 4, "long": 8, "float": 4, "double": 8}
TYPES = tuple(WIDTHS)
SIZE = 600  #: elements of an array, besides 20 before it
STRIDE = (SIZE + 40) * 8  #: bytes between two arrays
TRIPS = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 129)

HEAD = """\
#include <stdio.h>
#include <string.h>
typedef unsigned char u8; typedef unsigned u32; typedef unsigned long u64;
static _Alignas(64) u8 memory[MEMORY];
static u64 state = SEED;
static u64 next(void) {
  state = state * 6364136223846793005ul + 1442695040888963407ul;
  return state >> 33;
}
static inline double bounded(double v) { return v * v < 1e6 ? v : 1; }
__attribute__((noinline)) static u64 hash(void) {
  u64 h = 1469598103934665603ul;
  for (u64 i = 0; i < sizeof memory; ++i) h = (h ^ memory[i]) * 1099511628211ul;
  return h;
}
"""


class Loop:
    """A function with one loop over several arrays."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng = rng
        self.name = f"loop{number}"
        self.shape = rng.choice(("up", "up", "up", "down", "by2", "unsigned", "fixed", "nested"))
        count = rng.randint(2, 6)
        one = rng.random() < 0.5
        first = rng.choice(TYPES)
        self.types = [first if one else rng.choice(TYPES) for _ in range(count)]
        self.restrict = [rng.random() < 0.4 for _ in range(count)]
        self.sums: list[str] = []

    def real(self, array: int) -> bool:
        return self.types[array] in ("float", "double")

    def index(self) -> str:
        """Within the array, whatever i of at most 129 is."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.45:
            return "i"
        if kind < 0.75:
            return f"i + {rng.randint(-9, 12)}"
        if kind < 0.83:
            return f"2 * i + {rng.randint(-9, 9)}"
        if kind < 0.87:
            return f"{rng.randint(140, 300)} - i"
        if kind < 0.91:
            return "i + k"
        if kind < 0.94:
            return str(rng.randint(-9, 200))
        if kind < 0.97:
            return "(map[i] & 127)"
        return f"(i & {rng.choice((1, 3, 7, 63))})"

    def operand(self, real: bool) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.65:
            array = rng.randrange(len(self.types))
            text = f"p{array}[{self.index()}]"
            # A double may be anything an overlapping array has stored; an integer of it may not.
            if self.real(array) and not real:
                return "(u32)i"
            if real and not self.real(array):
                return f"(int)({text} & 7)"
            return text
        if kind < 0.8:
            return str(rng.randint(1, 9))
        if kind < 0.9 and not real:
            return "(u32)i"
        return "k"

    def expression(self, real: bool, depth: int = 2) -> str:
        rng = self.rng
        if depth == 0 or rng.random() < 0.25:
            return self.operand(real)
        left, right = self.expression(real, depth - 1), self.expression(real, depth - 1)
        if real:
            kind = rng.choice("+-*?")
            if kind == "?":
                return f"({left} < {right} ? {right} : 2)"
            return f"({left} {kind} {right})"
        kind = rng.choice("++-*&|^><?/")
        if kind == "?":
            return f"(((u64){left} & 31) < 11 ? (u64){right} : (u64){left})"
        if kind == "/":
            return f"((u64){left} / (((u64){right} & 15) + 1))"
        if kind in "><":
            return f"((u64){left} {kind * 2} ((u64){right} & 7))"
        return f"((u64){left} {kind} (u64){right})"

    def statement(self) -> str:
        rng = self.rng
        kind = rng.random()
        array = rng.randrange(len(self.types))
        if kind < 0.08:
            name = f"s{len(self.sums)}"
            self.sums.append(name)
            return f"{name} += {self.expression(False)};"
        if kind < 0.14:
            name = f"s{len(self.sums)}"
            self.sums.append(name)
            at = rng.randrange(len(self.types))
            if self.real(at):
                at = array
            if self.real(at):
                return f"{name} ^= {self.expression(False)};"
            return f"{name} = {name} * 3 + p{at}[{self.index()}]; p{at}[{self.index()}] = {name};"
        if kind < 0.2:
            name = f"s{len(self.sums)}"
            self.sums.append(name)
            return f"{name} = {self.expression(False)};"
        to = f"p{array}[{self.index()}]"
        value = self.expression(self.real(array))
        if not self.real(array) and kind < 0.3:
            return f"{to} += {value};"
        cast = "bounded" if self.real(array) else f"({self.types[array]})"
        return f"{to} = {cast}({value});"

    def function(self) -> str:
        body = " ".join(self.statement() for _ in range(self.rng.randint(2, 7)))
        arrays = ", ".join(
            f"{t} *{'restrict ' if r else ''}p{i}"
            for i, (t, r) in enumerate(zip(self.types, self.restrict, strict=True))
        )
        head = {
            "up": "for (int i = 0; i < n; ++i)",
            "down": "for (int i = n - 1; i >= 0; --i)",
            "by2": "for (int i = 0; i < n; i += 2)",
            "unsigned": "for (unsigned j = 0; j < (unsigned)n; ++j)",
            "fixed": f"for (int i = 0; i < {self.rng.choice(TRIPS[1:])}; ++i)",
            "nested": "for (int o = 0; o < 3; ++o) for (int i = o; i < n; ++i)",
        }[self.shape]
        inner = "int i = (int)j; " if self.shape == "unsigned" else ""
        declared = "".join(f"  u64 {name} = k;\n" for name in self.sums)
        result = " ^ ".join(["0ul", *(f"({s} * {i + 3})" for i, s in enumerate(self.sums))])
        return (
            f"__attribute__((noinline)) u64 {self.name}({arrays}, "
            "const u8 *restrict map, int n, int k) {\n"
            f"{declared}  {head} {{ {inner}{body} }}\n  return {result};\n}}\n"
        )

    def place(self, array: int, kind: str, earlier: list[int]) -> int:
        """Where an array begins. Those that are not restrict may overlap others of their type."""
        rng = self.rng
        type_ = self.types[array]
        others = [
            place
            for i, place in enumerate(earlier)
            if self.types[i] == type_ and not self.restrict[i]
        ]
        if kind == "apart" or self.restrict[array] or not others:
            return (array + 1) * STRIDE
        elements = rng.randint(-3, 3) if kind == "near" else rng.choice((0, 0, 16, 64))
        return rng.choice(others) + elements * WIDTHS[type_]

    def calls(self) -> str:
        """With arrays apart, overlapping and equal."""
        lines = []
        for n in self.rng.sample(TRIPS, 4):
            for kind in ("apart", "overlapping", "near"):
                places: list[int] = []
                for array in range(len(self.types)):
                    places.append(self.place(array, kind, places))
                arrays = ", ".join(
                    f"({t} *)(memory + {p})" for t, p in zip(self.types, places, strict=True)
                )
                call = f"{self.name}({arrays}, map, {n}, {self.rng.randint(0, 9)})"
                lines.append(
                    f'  fill_{self.name}(); printf("{self.name} %d %lx", {n}, {call}); '
                    'printf(" %lx\\n", hash());\n'
                )
        return "".join(lines)

    def fill(self) -> str:
        """Small numbers, so that floating-point arithmetic is exact."""
        text = f"__attribute__((noinline)) static void fill_{self.name}(void) {{\n"
        text += "  memset(memory, 0, sizeof memory);\n"
        for i, t in enumerate(self.types):
            text += f"  {t} *const p{i} = ({t} *)(memory + {(i + 1) * STRIDE});\n"
            text += f"  for (int i = -20; i < {SIZE}; ++i) p{i}[i] = ({t})(next() & 7);\n"
        return text + "}\n"


def program(seed: int, loops: int = 8) -> str:
    rng = random.Random(seed)
    made = [Loop(rng, i) for i in range(loops)]
    head = HEAD.replace("MEMORY", str(STRIDE * 9)).replace("SEED", str(seed + 1))
    text = head + "static u8 map[256];\n"
    calls = ""
    for loop in made:
        text += loop.function() + loop.fill()
        calls += loop.calls()
    return (
        text
        + "int main(void) {\n  for (int i = 0; i < 256; ++i) map[i] = (u8)next();\n"
        + calls
        + "  return 0;\n}\n"
    )
