# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of affine loops at random, for training the policy of Polly's tile sizes.

    models/polly-tiling/nests.py SEED    prints one for experiments/polly/main.c to fill and time

Each is of one of FAMILIES, with random lengths, orders of loops, types of numbers and statements.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable

#: The most innermost statements that a call executes, roughly: some milliseconds.
WORK = 24_000_000
FEWEST = 400_000
#: The most bytes of all arrays.
BYTES = 160_000_000


class Nest:
    """A kernel in the making."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.type = self.rng.choice(("double", "double", "double", "float", "float", "unsigned"))
        self.lengths: dict[str, int] = {}
        self.arrays: dict[str, tuple[str, ...]] = {}
        self.lines: list[str] = []
        self.known = self.rng.random() < 0.75  #: whether the compiler knows the lengths

    def length(self, name: str, value: int) -> str:
        self.lengths[name] = value
        return name

    def array(self, name: str, *shape: str) -> str:
        self.arrays[name] = shape
        return name

    def number(self, value: float) -> str:
        if self.type == "unsigned":
            return str(1 + round(value * 4))
        return str(float(f"{value:.3g}")) + ("f" if self.type == "float" else "")

    @property
    def factor(self) -> str:
        return self.number(self.rng.uniform(0.05, 0.9))

    def loops(self, *heads: tuple[str, str, str], body: Iterable[str], depth: int = 1) -> None:
        """Adds loops (variable, first, end) around statements."""
        for at, (variable, first, end) in enumerate(heads):
            self.lines.append(
                "  " * (depth + at) + f"for (int {variable} = {first}; {variable} < {end}; "
                f"++{variable}) {{"
            )
        self.lines += ["  " * (depth + len(heads)) + line for line in body]
        self.lines += ["  " * (depth + at) + "}" for at in reversed(range(len(heads)))]

    def shuffled(self, *heads: tuple[str, str, str]) -> list[tuple[str, str, str]]:
        """Often as written, or else in any order."""
        order = list(heads)
        if self.rng.random() < 0.6:
            self.rng.shuffle(order)
        return order

    def source(self) -> str:
        names = ", ".join(f"{name} = {value}" for name, value in self.lengths.items())
        text = f'#include "kernel.h"\n#include <math.h>\nenum {{ {names} }};\n'
        for name, shape in self.arrays.items():
            text += f"{self.type} {name}{''.join(f'[{n}]' for n in shape)};\n"
        listed = ", ".join(f"ARRAY({name}, {self.type})" for name in self.arrays)
        text += f"ARRAYS({listed});\n"
        body = "\n".join(self.lines)
        if self.known:
            return text + f"void kernel(void) {{\n{body}\n}}\n"
        text += "".join(f"UNKNOWN(of_{name}, {name});\n" for name in self.lengths)
        taken = [f"int l_{name}" for name in self.lengths]
        taken += [
            f"{self.type} {name}[restrict l_{shape[0]}]"
            + "".join(f"[{self.argument(n)}]" for n in shape[1:])
            for name, shape in self.arrays.items()
        ]
        for name in self.lengths:
            body = body.replace(name, f"l_{name}")
        given = ", ".join([*(f"of_{name}" for name in self.lengths), *self.arrays])
        text += f"PART part({', '.join(taken)}) {{\n{body}\n}}\n"
        return text + f"void kernel(void) {{ part({given}); }}\n"

    def argument(self, shape: str) -> str:
        for name in self.lengths:
            shape = shape.replace(name, f"l_{name}")
        return shape


def spread(rng: random.Random, low: int, high: int) -> int:
    """As many small ones as large ones."""
    ratio: float = (high / low) ** rng.random()
    return round(low * ratio)


def lengths(of: Nest, names: str, low: int, high: int, times: int = 1) -> list[str]:
    """So that an iteration over all of them, so many times, is neither too short nor too long."""
    for _ in range(1000):
        values = [spread(of.rng, low, high) for _ in names]
        if of.rng.random() < 0.4:
            values = [values[0]] * len(names)
        work = times
        for value in values:
            work *= value
        if FEWEST < work < WORK:
            break
    return [of.length(f"{name}_", value) for name, value in zip(names, values, strict=True)]


def product(of: Nest) -> None:
    n, m, k = lengths(of, "NMK", 16, 900)
    rng = of.rng
    a, b = ("a[i][k]", (n, k)), ("b[k][j]", (k, m))
    if rng.random() < 0.3:
        a = ("a[k][i]", (k, n))
    if rng.random() < 0.3:
        b = ("b[j][k]", (m, k))
    of.array("a", *a[1]), of.array("b", *b[1]), of.array("c", n, m)
    heads = [("i", "0", n), ("j", "0", m), ("k", "0", k)]
    kind = rng.choice(("plain", "plain", "scaled", "sum", "zeroed"))
    factor = f"{of.factor} * " if rng.random() < 0.4 else ""
    if kind == "sum":
        of.loops(
            *heads[:2],
            body=[f"{of.type} sum = 0;", f"for (int k = 0; k < {k}; ++k)",
                  f"  sum += {a[0]} * {b[0]};", f"c[i][j] = {factor}sum;"],
        )  # fmt: skip
    elif kind == "zeroed":
        of.loops(
            *heads[:2],
            body=["c[i][j] = 0;", f"for (int k = 0; k < {k}; ++k)",
                  f"  c[i][j] += {factor}{a[0]} * {b[0]};"],
        )  # fmt: skip
    else:
        if kind == "scaled":
            of.loops(*heads[:2], body=[f"c[i][j] *= {of.factor};"])
        of.loops(*of.shuffled(*heads), body=[f"c[i][j] += {factor}{a[0]} * {b[0]};"])


def two_products(of: Nest) -> None:
    n, m, k, p = lengths(of, "NMKP", 16, 300)
    for name, shape in {"a": (n, k), "b": (k, m), "c": (m, p), "d": (n, m), "e": (n, p)}.items():
        of.array(name, *shape)
    of.lengths.update({x: min(of.lengths[x], 260) for x in (n, m, k, p)})
    inside = of.rng.random() < 0.5
    for (to, x, y), (first, second, third) in (("dab", (n, m, k)), ("edc", (n, p, m))):
        heads = [("i", "0", first), ("j", "0", second), ("k", "0", third)]
        if inside:
            of.loops(
                *heads[:2],
                body=[f"{to}[i][j] = 0;", f"for (int k = 0; k < {third}; ++k)",
                      f"  {to}[i][j] += {x}[i][k] * {y}[k][j];"],
            )  # fmt: skip
        else:
            of.loops(*of.shuffled(*heads), body=[f"{to}[i][j] += {x}[i][k] * {y}[k][j];"])


def triangle(of: Nest) -> None:
    """Updates and products of which a half is computed."""
    n, k = lengths(of, "NK", 24, 500, times=200)
    of.lengths.update({x: min(of.lengths[x], 420) for x in (n, k)})
    rng = of.rng
    of.array("a", n, k), of.array("c", n, n)
    upper = rng.random() < 0.4
    j = ("j", "i", n) if upper else ("j", "0", "i + 1")
    value = "a[i][k] * a[j][k]"
    if rng.random() < 0.4:
        of.array("b", n, k)
        value = "a[i][k] * b[j][k] + b[i][k] * a[j][k]"
    if rng.random() < 0.4:
        of.loops(("i", "0", n), j, body=[f"c[i][j] *= {of.factor};"])
    heads = [("i", "0", n), j, ("k", "0", k)]
    order = rng.choice(((0, 1, 2), (0, 2, 1), (2, 0, 1)))
    of.loops(*(heads[x] for x in order), body=[f"c[i][j] += {of.factor} * ({value});"])


def triangular_product(of: Nest) -> None:
    n, m = lengths(of, "NM", 24, 500, times=200)
    of.lengths.update({x: min(of.lengths[x], 420) for x in (n, m)})
    rng = of.rng
    of.array("a", n, n), of.array("b", n, m), of.array("c", n, m)
    to = rng.choice("bc")
    k = rng.choice((("k", "i + 1", n), ("k", "0", "i")))
    a = rng.choice(("a[i][k]", "a[k][i]"))
    heads = [("i", "0", n), ("j", "0", m), k]
    order = rng.choice(((0, 1, 2), (0, 2, 1))) if to == "b" else rng.choice(
        ((0, 1, 2), (0, 2, 1), (1, 0, 2))
    )  # fmt: skip
    of.loops(*(heads[x] for x in order), body=[f"{to}[i][j] += {of.number(0.01)} * {a} * b[k][j];"])


def vectors(of: Nest) -> None:
    """Products of matrices and vectors, one or several, in one nest or in several."""
    n, m = lengths(of, "NM", 60, 4000)
    rng = of.rng
    of.array("a", n, m)
    for name in "xz":
        of.array(name, n)
    for name in "yw":
        of.array(name, m)
    possible = [
        "x[i] += a[i][j] * y[j];",
        "w[j] += a[i][j] * z[i];",
        f"a[i][j] += {of.factor} * z[i] * y[j];",
    ]
    chosen = rng.sample(possible, rng.choice((1, 1, 2, 3)))
    heads = [("i", "0", n), ("j", "0", m)]
    if rng.random() < 0.5:
        of.loops(*of.shuffled(*heads), body=chosen)
    else:
        for line in chosen:
            of.loops(*of.shuffled(*heads), body=[line])


def transposes(of: Nest) -> None:
    n, m = lengths(of, "NM", 60, 3000)
    rng = of.rng
    of.array("a", m, n), of.array("b", n, m), of.array("c", n, m)
    value = rng.choice(
        ("a[j][i]", "a[j][i] + c[i][j]", f"a[j][i] * {of.factor} + b[i][j]", "c[i][j] + b[i][j]")
    )
    of.loops(*of.shuffled(("i", "0", n), ("j", "0", m)), body=[f"b[i][j] = {value};"])
    if rng.random() < 0.3:
        of.loops(*of.shuffled(("i", "0", n), ("j", "0", m)), body=["c[i][j] -= a[j][i];"])


def permutation(of: Nest) -> None:
    n, m, k = lengths(of, "NMK", 20, 260)
    rng = of.rng
    of.array("a", n, m, k), of.array("b", n, m, k)
    index, shape = ["i", "j", "k"], [n, m, k]
    order = [0, 1, 2]
    rng.shuffle(order)
    of.array("c", *(shape[x] for x in order))
    read = "c" + "".join(f"[{index[x]}]" for x in order)
    value = rng.choice((read, f"{read} + b[i][j][k]", f"{of.factor} * {read} - a[i][j][k]"))
    heads = [("i", "0", n), ("j", "0", m), ("k", "0", k)]
    of.loops(*of.shuffled(*heads), body=[f"a[i][j][k] = {value};"])


def chain(of: Nest) -> None:
    """Elements of matrices, in several nests."""
    n, m = lengths(of, "NM", 60, 2600)
    rng = of.rng
    count = rng.randint(2, 4)
    for name in "abcd"[:count]:
        of.array(name, n, m)
    turned = rng.random() < 0.4
    for _ in range(rng.randint(1, 4)):
        to, x, y = (rng.choice("abcd"[:count]) for _ in range(3))
        heads = [("i", "0", n), ("j", "0", m)]
        line = f"{to}[i][j] = {of.factor} * {x}[i][j] {rng.choice('+-')} {y}[i][j];"
        of.loops(*(reversed(heads) if turned and rng.random() < 0.6 else heads), body=[line])


def points(of: Nest, name: str, dims: int, radius: int, box: bool) -> str:
    """The weighted sum of an element's neighbours."""
    index = "ijk"[:dims]
    shifts: list[tuple[int, ...]] = [(0,) * dims]
    if box:
        shifts = [()]
        for _ in range(dims):
            shifts = [(*shift, by) for shift in shifts for by in range(-radius, radius + 1)]
    else:
        for dim in range(dims):
            for by in range(1, radius + 1):
                for sign in (-by, by):
                    shifts.append(tuple(sign if at == dim else 0 for at in range(dims)))
    if of.rng.random() < 0.2:
        shifts = of.rng.sample(shifts, max(2, len(shifts) // 2))
    at = [
        name + "".join(f"[{x}{f' {by:+d}' if by else ''}]" for x, by in zip(index, s, strict=True))
        for s in shifts
    ]
    if of.type == "unsigned":
        return f"({' + '.join(at)}) / {len(at)}"
    return f"{of.number(1 / len(at))} * ({' + '.join(at)})"


def stencil(of: Nest, dims: int) -> None:
    rng = of.rng
    steps = of.length("T_", rng.choice((1, 2, 4, 10, 30) if dims > 1 else (4, 30, 100, 300)))
    most = {1: 200_000, 2: 1500, 3: 150}[dims]
    shape = lengths(of, "NMK"[:dims], {1: 400, 2: 40, 3: 16}[dims], most, of.lengths[steps])
    radius = rng.choice((1, 1, 1, 2))
    box = dims == 2 and radius == 1 and rng.random() < 0.25
    for name in "ab":
        of.array(name, *shape)
    heads = [(x, str(radius), f"{n} - {radius}") for x, n in zip("ijk"[:dims], shape, strict=True)]
    index = "".join(f"[{x}]" for x in "ijk"[:dims])
    time = rng.random() < 0.85
    if time:
        of.lines.append(f"  for (int t = 0; t < {steps}; ++t) {{")
    kind = rng.choice(("two", "two", "copy", "place"))
    if kind == "place":
        of.loops(*heads, body=[f"a{index} = {points(of, 'a', dims, radius, box)};"], depth=2)
    else:
        order = heads if rng.random() < 0.8 else list(reversed(heads))
        of.loops(*order, body=[f"b{index} = {points(of, 'a', dims, radius, box)};"], depth=2)
        back = points(of, "b", dims, radius, box) if kind == "two" else f"b{index}"
        of.loops(*order, body=[f"a{index} = {back};"], depth=2)
    if time:
        of.lines.append("  }")


def fields(of: Nest) -> None:
    """Several arrays that change in turns, over time."""
    rng = of.rng
    steps = of.length("T_", rng.choice((1, 4, 12, 40)))
    n, m = lengths(of, "NM", 40, 1200, of.lengths[steps])
    names = "abcd"[: rng.randint(2, 4)]
    for name in names:
        of.array(name, n, m)
    of.lines.append(f"  for (int t = 0; t < {steps}; ++t) {{")
    for name in names:
        other = rng.choice([x for x in names if x != name])
        by = rng.choice(("[i][j - 1]", "[i - 1][j]", "[i + 1][j]", "[i][j + 1]"))
        line = f"{name}[i][j] -= {of.factor} * ({other}[i][j] - {other}{by});"
        of.loops(("i", "1", f"{n} - 1"), ("j", "1", f"{m} - 1"), body=[line], depth=2)
    of.lines.append("  }")


def solve(of: Nest) -> None:
    """Triangular systems with one or several right-hand sides."""
    rng = of.rng
    several = rng.random() < 0.7
    n, m = lengths(of, "NM", 30, 500, times=200)
    of.lengths.update({x: min(of.lengths[x], 400) for x in (n, m)})
    of.array("a", n, n), of.array("b", n, m)
    of.array("x", n)
    small = of.number(0.01)
    if not several:
        of.lengths[n] = spread(rng, 300, 2500)
        of.loops(
            ("i", "0", n),
            body=["for (int k = 0; k < i; ++k)", f"  x[i] -= {small} * a[i][k] * x[k];",
                  "x[i] /= a[i][i];"],
        )  # fmt: skip
        return
    k = ("k", "0", "i")
    inner = [("j", "0", m), k] if rng.random() < 0.5 else [k, ("j", "0", m)]
    a = rng.choice(("a[i][k]", "a[k][i]"))
    of.loops(("i", "0", n), *inner, body=[f"b[i][j] -= {small} * {a} * b[k][j];"])
    if rng.random() < 0.6:  # within the loop over rows
        last = of.lines.pop()
        of.loops(("j", "0", m), body=["b[i][j] /= a[i][i];"], depth=2)
        of.lines.append(last)


def factors(of: Nest) -> None:
    """Factors of a matrix, in place."""
    rng = of.rng
    n = of.length("N_", spread(rng, 40, 420))
    of.array("a", n, n)
    big = of.number(float(of.lengths[n]))
    of.loops(("i", "0", n), body=[f"a[i][i] += {big};"])
    if rng.random() < 0.5:
        of.lines.append(f"  for (int k = 0; k < {n}; ++k) {{")
        of.loops(("i", "k + 1", n), body=["a[i][k] /= a[k][k];"], depth=2)
        end = rng.choice((n, "i + 1"))
        other = "a[k][j]" if end == n else "a[j][k]"
        heads = [("i", "k + 1", n), ("j", "k + 1", end)]
        of.loops(*heads, body=[f"a[i][j] -= a[i][k] * {other};"], depth=2)
        of.lines.append("  }")
    else:
        other = rng.choice(("a[j][k]", "a[k][j]"))
        of.loops(
            ("i", "0", n),
            body=["for (int j = 0; j < i; ++j) {", "  for (int k = 0; k < j; ++k)",
                  f"    a[i][j] -= a[i][k] * {other};", "  a[i][j] /= a[j][j];", "}"],
        )  # fmt: skip


def sums(of: Nest) -> None:
    """Over rows, columns or planes."""
    rng = of.rng
    if rng.random() < 0.5:
        n, m = lengths(of, "NM", 60, 3000)
        of.array("a", n, m), of.array("x", n), of.array("y", m)
        lines = rng.sample(("x[i] += a[i][j];", "y[j] += a[i][j];"), rng.choice((1, 2)))
        of.loops(*of.shuffled(("i", "0", n), ("j", "0", m)), body=lines)
        if rng.random() < 0.4:
            of.loops(
                *of.shuffled(("i", "0", n), ("j", "0", m)),
                body=["a[i][j] -= " + rng.choice(("x[i]", "y[j]")) + f" * {of.factor};"],
            )
        return
    n, m, k = lengths(of, "NMK", 20, 260)
    of.array("a", n, m, k), of.array("x", n, m), of.array("y", n, k), of.array("z", m, k)
    possible = ("x[i][j] += a[i][j][k];", "y[i][k] += a[i][j][k];", "z[j][k] += a[i][j][k];")
    heads = [("i", "0", n), ("j", "0", m), ("k", "0", k)]
    of.loops(*of.shuffled(*heads), body=rng.sample(possible, rng.randint(1, 3)))


def statistics(of: Nest) -> None:
    """Products of the columns of a table, or of its rows."""
    rng = of.rng
    n, m = lengths(of, "NM", 30, 500, times=150)
    of.lengths.update({x: min(of.lengths[x], 360) for x in (n, m)})
    of.array("a", n, m), of.array("x", m), of.array("c", m, m)
    of.loops(*of.shuffled(("j", "0", m), ("i", "0", n)), body=["x[j] += a[i][j];"])
    of.loops(("i", "0", n), ("j", "0", m), body=[f"a[i][j] -= {of.number(0.01)} * x[j];"])
    mirrored = ["c[j][i] = c[i][j];"] if rng.random() < 0.5 else []
    body = ["c[i][j] = 0;", f"for (int k = 0; k < {n}; ++k)", "  c[i][j] += a[k][i] * a[k][j];"]
    of.loops(("i", "0", m), ("j", "i", m), body=[*body, *mirrored])


def contraction(of: Nest) -> None:
    """Contraction of a tensor and a matrix."""
    rng = of.rng
    n, m, k, p = lengths(of, "NMKP", 8, 120)
    of.array("a", n, m, k), of.array("b", k, p), of.array("c", n, m, p)
    heads = [("i", "0", n), ("j", "0", m), ("q", "0", p), ("k", "0", k)]
    if rng.random() < 0.5:
        heads[2], heads[3] = heads[3], heads[2]
    elif rng.random() < 0.3:
        heads = of.shuffled(*heads)
    of.loops(*heads, body=["c[i][j][q] += a[i][j][k] * b[k][q];"])


def window(of: Nest) -> None:
    """A convolution."""
    rng = of.rng
    width = rng.choice((3, 3, 5, 9))
    n, m = lengths(of, "NM", 40, 1600, width * width)
    w = of.length("W_", width)
    of.array("a", f"{n} + {w}", f"{m} + {w}"), of.array("b", w, w), of.array("c", n, m)
    if of.known is False:
        of.known = True  # the lengths of `a` are sums
    heads = [("i", "0", n), ("j", "0", m), ("p", "0", w), ("q", "0", w)]
    if rng.random() < 0.5:
        of.loops(*heads, body=["c[i][j] += a[i + p][j + q] * b[p][q];"])
    else:
        of.loops(
            *heads[:2],
            body=[f"{of.type} sum = 0;", f"for (int p = 0; p < {w}; ++p)",
                  f"  for (int q = 0; q < {w}; ++q)", "    sum += a[i + p][j + q] * b[p][q];",
                  "c[i][j] = sum;"],
        )  # fmt: skip


def blur(of: Nest) -> None:
    """Along rows, along columns, and what differs."""
    rng = of.rng
    n, m = lengths(of, "NM", 60, 1800)
    for name in "abcd":
        of.array(name, n, m)
    rows, columns = ("i", "1", f"{n} - 1"), ("j", "1", f"{m} - 1")
    third = of.number(1 / 3)
    body = [f"b[i][j] = (a[i][j - 1] + a[i][j] + a[i][j + 1]) * {third};"]
    of.loops(*of.shuffled(rows, columns), body=body)
    body = [f"c[i][j] = (b[i - 1][j] + b[i][j] + b[i + 1][j]) * {third};"]
    of.loops(*of.shuffled(rows, columns), body=body)
    if rng.random() < 0.5:
        of.loops(rows, columns, body=[f"d[i][j] = a[i][j] - {of.factor} * c[i][j];"])


def paths(of: Nest) -> None:
    """Minima and maxima, in place."""
    rng = of.rng
    if rng.random() < 0.5:
        n = of.length("N_", spread(rng, 40, 270))
        of.array("a", n, n)
        more = "a[i][k] + a[k][j]"
        of.loops(
            ("k", "0", n), ("i", "0", n), ("j", "0", n),
            body=[f"a[i][j] = a[i][j] < {more} ? a[i][j] : {more};"],
        )  # fmt: skip
        return
    n, m = lengths(of, "NM", 60, 2500)
    of.array("a", n, m), of.array("b", n, m)
    before = rng.sample(("a[i - 1][j]", "a[i][j - 1]", "a[i - 1][j - 1]"), 2)
    body = [f"a[i][j] = b[i][j] + ({before[0]} > {before[1]} ? {before[0]} : {before[1]});"]
    if of.type != "unsigned":
        body = [f"a[i][j] = {of.factor} * b[i][j] + {of.number(0.3)} * ({' + '.join(before)});"]
    of.loops(*of.shuffled(("i", "1", n), ("j", "1", m)), body=body)


def scans(of: Nest) -> None:
    """Recurrences along rows or columns."""
    rng = of.rng
    n, m = lengths(of, "NM", 60, 2000)
    for name in "abc":
        of.array(name, n, m)
    for to in rng.sample("bc", rng.choice((1, 2))):
        down = rng.random() < 0.5
        before, rows, columns = (
            (f"{to}[i - 1][j]", ("i", "1", n), ("j", "0", m))
            if down
            else (f"{to}[i][j - 1]", ("i", "0", n), ("j", "1", m))
        )
        body = [f"{to}[i][j] = a[i][j] * {of.factor} + {of.number(0.3)} * {before};"]
        of.loops(*of.shuffled(rows, columns), body=body)


def batch(of: Nest) -> None:
    """Many products of small matrices, or of these and vectors."""
    rng = of.rng
    size = rng.choice((4, 8, 12, 16, 24, 32, 48))
    n = of.length("N_", size)
    e = of.length("E_", max(4, min(WORK // 2 // size**3, BYTES // 4 // (8 * size * size))))
    of.array("a", e, n, n), of.array("b", e, n, n), of.array("c", e, n, n)
    other = rng.choice(("b[e][k][j]", "b[e][k][j]", "b[e][j][k]"))
    heads = [("i", "0", n), ("j", "0", n), ("k", "0", n)]
    if rng.random() < 0.4:
        body = [f"{of.type} sum = 0;", f"for (int k = 0; k < {n}; ++k)",
                f"  sum += a[e][i][k] * {other};", "c[e][i][j] = sum;"]  # fmt: skip
        of.loops(("e", "0", e), *heads[:2], body=body)
    else:
        of.loops(("e", "0", e), *of.shuffled(*heads), body=[f"c[e][i][j] += a[e][i][k] * {other};"])


def stencil_of(dims: int) -> Callable[[Nest], None]:
    return lambda of: stencil(of, dims)


def named(*families: Callable[[Nest], None]) -> dict[str, Callable[[Nest], None]]:
    return {family.__name__.replace("_", " "): family for family in families}


FAMILIES: dict[str, Callable[[Nest], None]] = {
    **named(product, two_products, triangle, triangular_product, vectors, transposes),
    **named(permutation, chain),
    **{f"stencil {dims}": stencil_of(dims) for dims in (1, 2, 3)},
    **named(fields, solve, factors, sums, statistics, contraction, window, blur, paths, scans),
    **named(batch),
}


def family(seed: int) -> str:
    return list(FAMILIES)[seed % len(FAMILIES)]


def kernel(seed: int) -> str:
    """The kernel of this number, in C."""
    made = Nest(seed)
    FAMILIES[family(seed)](made)
    return made.source()


if __name__ == "__main__":
    print(kernel(int(sys.argv[1])), end="")
