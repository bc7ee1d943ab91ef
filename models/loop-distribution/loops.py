# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C programs with random loops of the kinds that programs have, for training the policy of loop
distribution.

A program measures its loops: "program CALLS ROUNDS" prints for each the least nanoseconds of a
call.
"""

from __future__ import annotations

import random
import re

TYPES = {"F": "float", "D": "double", "I": "int", "S": "short", "C": "unsigned char"}
ARRAYS, SIZE = 8, 2100
LONG = (200, 500, 1000, 2000)
CONSTANT = (8, 14, 20, 28, 40, 60, 90, 150, 300)
SHORT = (12, 20, 32, 50, 100)

HEAD = """\
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef unsigned char u8;
enum { SIZE = SIZE_OF };
static unsigned state = 1;
static unsigned next(void) { return (state = state * 1664525u + 1013904223u) >> 10; }
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}
static int at[SIZE];
static unsigned table[256];
volatile double result;
"""


class Loop:
    """A function with one innermost loop, of several parts."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng = rng
        self.name = f"loop{number}"
        first = rng.choice("FFFDDIIISC")
        self.kinds = [first] if rng.random() < 0.7 else [first, rng.choice("FDISC")]
        self.pool = {k: rng.sample(range(ARRAYS), rng.randint(2, 5)) for k in self.kinds}
        self.free = {k: [a for a in range(ARRAYS) if a not in self.pool.get(k, ())] for k in TYPES}
        self.made: list[str] = []  #: what parts have written, which others may read
        self.used: set[str] = set()
        self.before: list[str] = []
        self.after: list[str] = []
        shape = rng.random()
        self.pointers = shape < 0.12
        self.shape = "long" if shape < 0.78 else "constant" if shape < 0.9 else "short"
        self.trips = rng.choice({"long": LONG, "constant": CONSTANT, "short": SHORT}[self.shape])
        makers = [self.blocking] * rng.choice((0, 1, 1, 1, 1, 2)) + [self.plain] * rng.choice(
            (1, 1, 1, 2, 3)
        )
        rng.shuffle(makers)
        self.body = [make(rng.choice(self.kinds)) for make in makers]

    def array(self, kind: str, index: int) -> str:
        name = f"{kind}{index}"
        self.used.add(name)
        return name

    def target(self, kind: str) -> str:
        free = self.free[kind]
        return self.array(kind, free.pop() if free else self.rng.randrange(ARRAYS))

    def leaf(self, kind: str) -> str:
        rng = self.rng
        real = kind in "FD"
        chance = rng.random()
        if chance < 0.12:
            if not real:
                return str(rng.choice((1, 3, 5, 7, 77)))
            return rng.choice(("1.5", ".25", "3.")) + "f" * (kind == "F")
        if chance < 0.2 and self.made:
            name = rng.choice(self.made)
            return f"{name}[i]" if name[0] == kind else f"({TYPES[kind]}){name}[i]"
        source = rng.choice(self.kinds)
        name = self.array(source, rng.choice(self.pool[source]))
        place = rng.choices(("i", "i + 1", "i - 1", "at[i]", "2 * i"), (20, 3, 3, 1, 1))[0]
        if place == "2 * i" and (self.shape != "long" or self.trips > SIZE // 2 - 10):
            place = "i"
        text = f"{name}[{place}]"
        return text if source == kind else f"({TYPES[kind]}){text}"

    def expression(self, kind: str, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return self.leaf(kind)
        left, right = (
            self.expression(kind, depth - 1),
            self.expression(kind, rng.randint(0, depth - 1)),
        )
        if kind in "FD":
            what = rng.choices("+-*/s?", (6, 4, 8, 1, 1, 1))[0]
            if what == "/":
                return f"({left} / ({right} * {right} + 1))"
            if what == "s":
                return f"({right} + sqrt{'f' * (kind == 'F')}({left} * {left} + 1))"
            if what == "?":
                return f"({left} > {right} ? {left} : {right})"
            return f"({left} {what} {right})"
        what = rng.choices("+-*&^>?", (6, 3, 3, 2, 2, 2, 1))[0]
        if what == ">":
            return f"({left} >> {rng.randint(1, 4)})"
        if what == "?":
            return f"({left} > {right} ? {left} : {right})"
        return f"({left} {what} {right})"

    def plain(self, kind: str) -> str:
        """What can be vectorized, mostly."""
        rng = self.rng
        chance = rng.random()
        if chance < 0.1 and kind in "ISC":
            name = f"x{len(self.before)}"
            self.before.append(f"int {name} = 0;")
            self.after.append(f"result = {name};")
            return f"{name} += {self.expression(kind, rng.randint(0, 2))};"
        value = self.expression(kind, rng.choices((0, 1, 2, 3, 4), (1, 3, 5, 3, 1))[0])
        to = self.target(kind)
        self.made.append(to)
        return f"{to}[i] = {value};"

    def blocking(self, kind: str) -> str:
        """What can't be vectorized, mostly."""
        rng = self.rng
        value = self.expression(kind, rng.choices((0, 1, 2, 3), (4, 4, 2, 1))[0])
        real = kind in "FD"
        f = "f" * (kind == "F")
        name, type_ = f"x{len(self.before)}", TYPES[kind]
        maker = rng.choice(
            ("memory",) * 4 + ("scalar",) * 3 + ("sum", "choice", "coupled", "place")
            if real
            else ("memory",) * 4
            + ("scalar",) * 2
            + ("numbers", "table", "histogram", "scatter", "choice", "place")
        )
        if maker in ("histogram", "table") and rng.random() < 0.3:
            maker = "scatter"
        if maker in ("scalar", "sum", "numbers", "table", "choice"):
            counts = "unsigned" if maker in ("numbers", "table") else "int"
            self.before.append(f"{type_ if real else counts} {name} = 0;")
            self.after.append(f"result = {name};")
        if maker == "sum":
            return f"{name} += {value};"
        to = self.target(kind)
        if maker == "memory":
            by = rng.choice((1, 1, 1, 1, 2, 3, 4))
            before = f"{to}[i - {by}]"
            self.made.append(to)
            if real:
                grown = rng.choice(
                    (f"{before} * .5{f} + V", f"{before} * .25{f} - V", f"V + {before} * .125{f}",
                     f"V / ({before} * {before} + 1)", f"({before} + V) * .3{f}")
                )  # fmt: skip
            else:
                grown = rng.choice(
                    (f"{before} + V", f"({before} ^ V) + 1", f"{before} * 3 + V",
                     f"({before} > V ? {before} : V)", f"V - ({before} >> 1)")
                )  # fmt: skip
            return f"{to}[i] = {grown.replace('V', value)};"
        if maker == "coupled":
            other = self.target(kind)
            return (
                f"{to}[i] = {other}[i - 1] * .5{f} + {value}; "
                f"{other}[i] = {to}[i] * .25{f} + {self.leaf(kind)};"
            )
        if maker == "place":
            return f"{to}[3] = {to}[3] * {f'.5{f}' if real else '3'} + {value};"
        if maker == "scatter":
            return f"{to}[at[i]] {rng.choice(('=', '+='))} {value};"
        if maker == "histogram":
            counted = self.array("C", rng.randrange(ARRAYS))
            return f"{to}[{counted}[i]] += {rng.choice(('1', value))};"
        if maker == "numbers":
            return f"{name} = {name} * 1664525u + 1013904223u; {to}[i] = {name} >> 8;"
        if maker == "table":
            read = self.array("C", rng.randrange(ARRAYS))
            return f"{name} = table[({name} ^ {read}[i]) & 255] ^ ({name} >> 8);"
        if maker == "choice":
            grown = f"{name} * .5{f}" if real else f"({name} >> 1)"
            return f"{name} = {name} > 1 ? {grown} + {self.leaf(kind)} : {name} + {value};"
        grown = rng.choice(
            (f"{name} * .5{f} + {value}", f"({name} + {value}) * .25{f}")
            if real
            else (
                f"{name} * 5 + {value}",
                f"({name} ^ {value}) + ({name} >> 3)",
                f"{name} + {value}",
            )
        )
        self.made.append(to)
        return f"{name} = {grown}; {to}[i] = {name};"

    @property
    def iterations(self) -> int:
        """Iterations of a call."""
        return self.trips if self.shape == "long" else self.trips * (2000 // (self.trips + 4))

    def function(self) -> str:
        body = " ".join(self.body)
        end = f"o + {self.trips + 4}" if self.shape == "constant" else "o + 4 + m"
        head = "for (int i = 4; i < n; ++i)"
        if self.shape != "long":
            head = "for (int o = 0; o + m + 4 <= n; o += m + 4)\n"
            head += f"    for (int i = o + 4; i < {end}; ++i)"
        arguments = "".join(
            f", {TYPES[name[0]]} *{name}" for name in sorted(self.used) if self.pointers
        )
        return (
            f"__attribute__((noinline)) void {self.name}(int n, int m{arguments}) {{\n"
            f"  {' '.join(self.before)}\n  {head} {{ {body} }}\n  {' '.join(self.after)}\n}}\n"
        )

    def call(self) -> str:
        passed = "".join(f", {name}" for name in sorted(self.used) if self.pointers)
        n = self.trips + 4 if self.shape == "long" else 2000
        return f"{self.name}(n{n}, m{self.trips}{passed})"


def loops(seed: int, count: int) -> list[Loop]:
    rng = random.Random(seed)
    return [Loop(rng, i) for i in range(count)]


def program(made: list[Loop]) -> str:
    text = HEAD.replace("SIZE_OF", str(SIZE))
    for kind, type_ in TYPES.items():
        text += "".join(f"static {type_} {kind}{i}[SIZE];\n" for i in range(ARRAYS))
    text += "static void fill(void) {\n  for (int i = 0; i < SIZE; ++i) {\n"
    for kind in TYPES:
        value = "(next() & 1023) / 1024.f" if kind in "FD" else "next() & 127"
        text += "".join(f"    {kind}{i}[i] = {value};\n" for i in range(ARRAYS))
    text += "    at[i] = next() % 2000;\n  }\n"
    text += "  for (int i = 0; i < 256; ++i) table[i] = next() * 2654435761u;\n}\n"
    text += "".join(loop.function() for loop in made)
    numbers = sorted({word for loop in made for word in re.findall(r"\b[nm]\d+", loop.call())})
    # The compiler must not know how often they run.
    text += "".join(f"volatile int v{n} = {n[1:]};\n" for n in numbers)
    text += "int main(int count, char **arguments) {\n"
    text += "  const int calls = atoi(arguments[1]), rounds = atoi(arguments[2]);\n"
    text += "".join(f"  const int {n} = v{n};\n" for n in numbers)
    for loop in made:
        text += (
            "  {\n    double least = 1e30;\n    fill();\n"
            f"    {loop.call()};\n"
            "    for (int r = 0; r < rounds; ++r) {\n      const double start = now();\n"
            f"      for (int c = 0; c < calls; ++c) {loop.call()};\n"
            "      const double spent = now() - start;\n"
            "      if (spent < least) least = spent;\n    }\n"
            f'    printf("{loop.name} %.2f\\n", least / calls);\n  }}\n'
        )
    return text + "  return 0;\n}\n"
