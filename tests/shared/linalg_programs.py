# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of one operation of linalg, which print what it computed, or how long it took.

Their elements are small integers, also as floating-point numbers, so that sums are exact in any
order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

HEAD = """func.func private @rtclock() -> f64
func.func private @printF64(f64)
func.func private @printI64(i64)
func.func private @printNewline()
"""
FILL = """func.func private @fill_{name}(%to: {memref}) {{
{constants}
{loops}
  %seed = arith.constant {seed} : index
  %seven = arith.constant 7 : index
  %three = arith.constant 3 : i64
  {sum}
  %rest = arith.remui %all, %seven : index
  %wide = arith.index_cast %rest : index to i64
  %small = arith.subi %wide, %three : i64
  {convert}
  memref.store %value, %to[{indices}] : {memref}
{ends}
  return
}}
"""
SUM = """func.func private @digest(%of: {memref}) {{
{constants}
  %base = arith.constant 31 : i64
  %zero = arith.constant 0 : i64
  %digest = memref.alloca() : memref<i64>
  memref.store %zero, %digest[] : memref<i64>
{loops}
  %value = memref.load %of[{indices}] : {memref}
  {convert}
  %before = memref.load %digest[] : memref<i64>
  %scaled = arith.muli %before, %base : i64
  %next = arith.addi %scaled, %wide : i64
  memref.store %next, %digest[] : memref<i64>
{ends}
  %all = memref.load %digest[] : memref<i64>
  call @printI64(%all) : (i64) -> ()
  call @printNewline() : () -> ()
  return
}}
"""


def loops(shape: Sequence[int]) -> dict[str, str]:
    """Around whatever is done to each element."""
    constants = ["  %c0 = arith.constant 0 : index", "  %c1 = arith.constant 1 : index"]
    heads = []
    for depth, length in enumerate(shape):
        constants.append(f"  %n{depth} = arith.constant {length} : index")
        heads.append(f"  scf.for %i{depth} = %c0 to %n{depth} step %c1 {{")
    return {
        "constants": "\n".join(constants),
        "loops": "\n".join(heads),
        "ends": "\n".join("  }" for _ in shape),
        "indices": ", ".join(f"%i{depth}" for depth in range(len(shape))),
    }


@dataclass(frozen=True)
class Operation:
    """`text` is the operation with {ins}, {outs}, {result} and {t} to be filled in."""

    name: str
    text: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    element: str  #: f32, f64 or i32
    tensors: bool = False

    def type(self, shape: Sequence[int]) -> str:
        return self.shaped("tensor" if self.tensors else "memref", shape)

    def shaped(self, kind: str, shape: Sequence[int]) -> str:
        return f"{kind}<{''.join(f'{length}x' for length in shape)}{self.element}>"

    def kernel(self, name: str = "kernel") -> str:
        """The function of this name that has the operation."""
        types = [self.type(shape) for shape in (*self.inputs, self.output)]
        names = [f"%a{at}" for at in range(len(self.inputs))] + ["%out"]
        arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
        result = f" -> {types[-1]}" if self.tensors else ""
        body = self.text.format(
            ins=f"ins({', '.join(names[:-1])} : {', '.join(types[:-1])})",
            outs=f"outs(%out : {types[-1]})",
            result=result,
            t=self.element,
            add="arith.addi" if self.element == "i32" else "arith.addf",
            mul="arith.muli" if self.element == "i32" else "arith.mulf",
            max="arith.maxsi" if self.element == "i32" else "arith.maximumf",
        )
        ends = f"  return %made : {types[-1]}\n" if self.tensors else "  return\n"
        made = "%made = " if self.tensors else ""
        noinline = 'attributes {passthrough = ["noinline"]}'
        return f"func.func @{name}({arguments}){result} {noinline} {{\n  {made}{body}\n{ends}}}\n"

    def program(self) -> str:
        """Prints a digest of what the kernel computes."""
        text, main = self.data()
        out, memref = f"%b{len(self.inputs)}", self.shaped("memref", self.output)
        main += [*self.call(), f"call @digest({out}) : ({memref}) -> ()"]
        return HEAD + self.kernel() + text + self.main(main)

    def timed(self, kernels: int, rounds: int, calls: int) -> str:
        """Prints in each round, for each of so many kernels in turn, the seconds of the calls."""
        text, main = self.data()
        main += [
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            f"%rounds = arith.constant {rounds} : index",
            f"%calls = arith.constant {calls} : index",
            "scf.for %round = %c0 to %rounds step %c1 {",
        ]
        for at in range(kernels):
            main += [
                f"%start{at} = func.call @rtclock() : () -> f64",
                "scf.for %call = %c0 to %calls step %c1 {",
                *self.call(f"kernel{at}"),
                "}",
                f"%end{at} = func.call @rtclock() : () -> f64",
                f"%spent{at} = arith.subf %end{at}, %start{at} : f64",
                f"func.call @printF64(%spent{at}) : (f64) -> ()",
                "func.call @printNewline() : () -> ()",
            ]
        all_kernels = "".join(self.kernel(f"kernel{at}") for at in range(kernels))
        return HEAD + all_kernels + text + self.main([*main, "}"])

    @staticmethod
    def main(lines: Sequence[str]) -> str:
        return "func.func @main() {\n  " + "\n  ".join(lines) + "\n  return\n}\n"

    def data(self) -> tuple[str, list[str]]:
        """Functions that fill and read buffers; statements that make and fill them."""
        shapes = [*self.inputs, self.output]
        text = ""
        main: list[str] = []
        for at, shape in enumerate(shapes):
            memref = self.shaped("memref", shape)
            sums = ["%s0 = arith.constant 0 : index"]
            for depth in range(len(shape)):
                sums += [
                    f"%f{depth} = arith.constant {2 * depth + 3} : index",
                    f"%m{depth} = arith.muli %i{depth}, %f{depth} : index",
                    f"%s{depth + 1} = arith.addi %s{depth}, %m{depth} : index",
                ]
            sums.append(f"%all = arith.addi %s{len(shape)}, %seed : index")
            convert = (
                "%value = arith.trunci %small : i64 to i32"
                if self.element == "i32"
                else f"%value = arith.sitofp %small : i64 to {self.element}"
            )
            text += FILL.format(
                name=at,
                memref=memref,
                seed=at + 1,
                sum="\n  ".join(sums),
                convert=convert,
                **loops(shape),
            )
            main += [
                f"%b{at} = memref.alloc() {{alignment = 64}} : {memref}",
                f"func.call @fill_{at}(%b{at}) : ({memref}) -> ()",
            ]
        text += SUM.format(
            memref=self.shaped("memref", self.output),
            convert="%wide = arith.extsi %value : i32 to i64"
            if self.element == "i32"
            else f"%wide = arith.fptosi %value : {self.element} to i64",
            **loops(self.output),
        )
        return text, main

    def call(self, name: str = "kernel") -> list[str]:
        shapes = [*self.inputs, self.output]
        types = [self.type(shape) for shape in shapes]
        if not self.tensors:
            names = ", ".join(f"%b{at}" for at in range(len(shapes)))
            return [f"func.call @{name}({names}) : ({', '.join(types)}) -> ()"]
        lines = [
            f"%t{at} = bufferization.to_tensor %b{at} restrict writable : "
            f"{self.shaped('memref', shape)} to {self.type(shape)}"
            for at, shape in enumerate(shapes)
        ]
        names = ", ".join(f"%t{at}" for at in range(len(shapes)))
        out, memref = f"%b{len(self.inputs)}", self.shaped("memref", self.output)
        return [
            *lines,
            f"%made = func.call @{name}({names}) : ({', '.join(types)}) -> {types[-1]}",
            f"bufferization.materialize_in_destination %made in restrict writable {out} : "
            f"({types[-1]}, {memref}) -> ()",
        ]


Built = tuple[str, Sequence[Sequence[int]], Sequence[int]]


def named(name: str, attributes: str = "") -> str:
    return f"linalg.{name}{attributes} {{ins}} {{outs}}{{result}}"


def generic(maps: Sequence[str], kinds: Sequence[str], body: str) -> str:
    """`maps` are the results of each operand's, over d0 to the number of kinds."""
    dims = ", ".join(f"d{at}" for at in range(len(kinds)))
    all_maps = ", ".join(f"affine_map<({dims}) -> ({results})>" for results in maps)
    names = ", ".join(f'"{kind}"' for kind in kinds)
    arguments = ", ".join(f"%x{at}: {{t}}" for at in range(len(maps) - 1))
    return (
        f"linalg.generic {{{{indexing_maps = [{all_maps}], iterator_types = [{names}]}}}} "
        f"{{ins}} {{outs}} {{{{\n  ^bb0({arguments}, %sum: {{t}}):\n    {body}\n"
        "    linalg.yield %next : {t}\n  }}{result}"
    )


P, R = "parallel", "reduction"
MULTIPLY_ADD = "%p = {mul} %x0, %x1 : {t}\n    %next = {add} %sum, %p : {t}"


def conv(name: str, stride: int) -> str:
    return named(
        name,
        f" {{{{dilations = dense<1> : tensor<2xi64>, strides = dense<{stride}> : tensor<2xi64>}}}}",
    )


def wide(length: int, window: int, stride: int) -> int:
    """What a convolution that has this many results reads."""
    return (length - 1) * stride + window


#: By name: from a draw of lengths, the operation's text, shapes of inputs, shape of the output.
Draw = Callable[[int, int], int]
OPERATIONS: dict[str, Callable[[Draw], Built]] = {}


def operation(make: Callable[[Draw], Built]) -> Callable[[Draw], Built]:
    OPERATIONS[make.__name__] = make
    return make


@operation
def matmul(draw: Draw) -> Built:
    m, n, k = draw(8, 512), draw(8, 512), draw(8, 512)
    return named("matmul"), [(m, k), (k, n)], (m, n)


@operation
def batch_matmul(draw: Draw) -> Built:
    b, m, n, k = draw(2, 8), draw(8, 256), draw(8, 256), draw(8, 256)
    return named("batch_matmul"), [(b, m, k), (b, k, n)], (b, m, n)


@operation
def matmul_by_rows(draw: Draw) -> Built:
    """The second matrix is transposed."""
    m, n, k = draw(8, 384), draw(8, 384), draw(8, 384)
    text = generic(("d0, d2", "d1, d2", "d0, d1"), (P, P, R), MULTIPLY_ADD)
    return text, [(m, k), (n, k)], (m, n)


@operation
def matvec(draw: Draw) -> Built:
    m, k = draw(16, 2048), draw(16, 2048)
    return named("matvec"), [(m, k), (k,)], (m,)


@operation
def vecmat(draw: Draw) -> Built:
    n, k = draw(16, 2048), draw(16, 2048)
    return named("vecmat"), [(k,), (k, n)], (n,)


@operation
def conv_2d_nhwc_hwcf(draw: Draw) -> Built:
    n, h, w, c, f = 1 + draw(2, 3) % 2, draw(4, 32), draw(4, 32), draw(2, 64), draw(4, 96)
    window, stride = (1, 3, 3, 5)[draw(4, 7) - 4], 1 + draw(2, 5) // 4
    shape = (n, wide(h, window, stride), wide(w, window, stride), c)
    return conv("conv_2d_nhwc_hwcf", stride), [shape, (window, window, c, f)], (n, h, w, f)


@operation
def conv_2d_nchw_fchw(draw: Draw) -> Built:
    n, h, w, c, f = 1, draw(4, 32), draw(8, 48), draw(2, 48), draw(4, 64)
    window, stride = (1, 3, 3, 5)[draw(4, 7) - 4], 1 + draw(2, 5) // 4
    shape = (n, c, wide(h, window, stride), wide(w, window, stride))
    return conv("conv_2d_nchw_fchw", stride), [shape, (f, c, window, window)], (n, f, h, w)


@operation
def depthwise_conv_2d_nhwc_hwc(draw: Draw) -> Built:
    h, w, c = draw(4, 64), draw(4, 64), draw(4, 128)
    window, stride = (3, 5)[draw(2, 3) - 2], 1 + draw(2, 5) // 4
    shape = (1, wide(h, window, stride), wide(w, window, stride), c)
    return conv("depthwise_conv_2d_nhwc_hwc", stride), [shape, (window, window, c)], (1, h, w, c)


@operation
def pooling_nhwc_sum(draw: Draw) -> Built:
    h, w, c, window = draw(4, 48), draw(4, 48), draw(4, 96), draw(2, 4)
    shape = (1, wide(h, window, 1), wide(w, window, 1), c)
    return conv("pooling_nhwc_sum", 1), [shape, (window, window)], (1, h, w, c)


@operation
def row_sums(draw: Draw) -> Built:
    m, k = draw(16, 2048), draw(16, 2048)
    return "linalg.reduce {{ {add} }} {ins} {outs} dimensions = [1]", [(m, k)], (m,)


@operation
def column_sums(draw: Draw) -> Built:
    m, k = draw(16, 2048), draw(16, 2048)
    return "linalg.reduce {{ {add} }} {ins} {outs} dimensions = [0]", [(k, m)], (m,)


@operation
def largest(draw: Draw) -> Built:
    """Over the middle of three dimensions."""
    m, k, n = draw(4, 64), draw(8, 512), draw(8, 256)
    text = generic(("d0, d1, d2", "d0, d2"), (P, R, P), "%next = {max} %x0, %sum : {t}")
    return text, [(m, k, n)], (m, n)


@operation
def squares(draw: Draw) -> Built:
    """Sums of products of three factors over two dimensions, one of them an index."""
    m, k, n = draw(4, 64), draw(4, 64), draw(8, 256)
    body = (
        "%p = {mul} %x0, %x0 : {t}\n    %q = {mul} %p, %x1 : {t}\n    %next = {add} %sum, %q : {t}"
    )
    text = generic(("d0, d1, d2", "d1", "d0"), (P, R, R), body)
    return text, [(m, k, n), (k,)], (m,)


def windowed(name: str, count: int) -> str:
    """With steps of 2 along the first dimension, and 1 along others."""
    steps = ", ".join(["2", *["1"] * (count - 1)])
    return named(
        name,
        f" {{{{dilations = dense<1> : tensor<{count}xi64>, "
        f"strides = dense<[{steps}]> : tensor<{count}xi64>}}}}",
    )


#: Other named operations of linalg: shapes of inputs and of the output.
NAMED: dict[str, tuple[str, Sequence[Sequence[int]], Sequence[int]]] = {
    name: (windowed(name, windows) if windows else named(name), inputs, output)
    for name, windows, inputs, output in (
        ("dot", 0, [(37,), (37,)], ()),
        ("batch_matvec", 0, [(3, 7, 10), (3, 10)], (3, 7)),
        ("batch_vecmat", 0, [(3, 10), (3, 10, 9)], (3, 9)),
        ("batch_reduce_matmul", 0, [(3, 5, 6), (3, 6, 9)], (5, 9)),
        ("mmt4d", 0, [(2, 3, 4, 2), (5, 3, 8, 2)], (2, 5, 4, 8)),
        ("batch_mmt4d", 0, [(2, 2, 3, 4, 1), (2, 3, 3, 8, 1)], (2, 2, 3, 4, 8)),
        ("conv_1d", 0, [(20,), (4,)], (17,)),
        ("conv_2d", 0, [(10, 12), (3, 4)], (8, 9)),
        ("conv_3d", 0, [(6, 7, 8), (3, 2, 3)], (4, 6, 6)),
        ("conv_1d_nwc_wcf", 1, [(2, 13, 3), (3, 3, 5)], (2, 6, 5)),
        ("conv_1d_ncw_fcw", 1, [(2, 3, 13), (5, 3, 3)], (2, 5, 6)),
        ("conv_2d_nhwc_fhwc", 2, [(1, 9, 8, 3), (5, 3, 3, 3)], (1, 4, 6, 5)),
        ("conv_2d_ngchw_fgchw", 2, [(1, 2, 3, 9, 8), (4, 2, 3, 3, 3)], (1, 2, 4, 4, 6)),
        ("conv_2d_ngchw_gfchw", 2, [(1, 2, 3, 9, 8), (2, 4, 3, 3, 3)], (1, 2, 4, 4, 6)),
        ("conv_3d_ndhwc_dhwcf", 3, [(1, 7, 6, 5, 2), (3, 2, 2, 2, 4)], (1, 3, 5, 4, 4)),
        ("conv_3d_ncdhw_fcdhw", 3, [(1, 2, 7, 6, 5), (4, 2, 3, 2, 2)], (1, 4, 3, 5, 4)),
        ("depthwise_conv_1d_nwc_wc", 1, [(2, 13, 5), (3, 5)], (2, 6, 5)),
        ("depthwise_conv_1d_ncw_cw", 1, [(2, 5, 13), (5, 3)], (2, 5, 6)),
        ("depthwise_conv_1d_nwc_wcm", 1, [(2, 13, 3), (3, 3, 2)], (2, 6, 3, 2)),
        ("depthwise_conv_2d_nchw_chw", 2, [(1, 4, 9, 8), (4, 3, 3)], (1, 4, 4, 6)),
        ("depthwise_conv_2d_nhwc_hwcm", 2, [(1, 9, 8, 3), (3, 3, 3, 2)], (1, 4, 6, 3, 2)),
        ("depthwise_conv_3d_ndhwc_dhwc", 3, [(1, 7, 6, 5, 3), (3, 2, 2, 3)], (1, 3, 5, 4, 3)),
        ("pooling_nhwc_max", 2, [(1, 9, 8, 5), (3, 3)], (1, 4, 6, 5)),
        ("pooling_nhwc_min", 2, [(1, 9, 8, 5), (3, 3)], (1, 4, 6, 5)),
        ("pooling_nchw_sum", 2, [(1, 5, 9, 8), (3, 3)], (1, 5, 4, 6)),
        ("pooling_nchw_max", 2, [(1, 5, 9, 8), (3, 3)], (1, 5, 4, 6)),
        ("pooling_nwc_sum", 1, [(2, 13, 5), (3,)], (2, 6, 5)),
        ("pooling_ncw_max", 1, [(2, 5, 13), (3,)], (2, 5, 6)),
        ("pooling_ndhwc_sum", 3, [(1, 7, 6, 5, 3), (3, 2, 2)], (1, 3, 5, 4, 3)),
        ("pooling_ndhwc_min", 3, [(1, 7, 6, 5, 3), (3, 2, 2)], (1, 3, 5, 4, 3)),
    )
}


def named_operation(name: str, element: str, tensors: bool) -> Operation:
    text, inputs, output = NAMED[name]
    return Operation(name, text, tuple(map(tuple, inputs)), tuple(output), element, tensors)


def drawn(seed: int, largest_length: int | None = None, name: str | None = None) -> Operation:
    """Lengths are such as programs have: mostly multiples of powers of two, or any."""
    choose = random.Random(seed)

    def draw(lowest: int, highest: int) -> int:
        top = highest if largest_length is None else max(lowest, min(highest, largest_length))
        length = round(lowest * math.pow(top / lowest, choose.random()))
        unit = choose.choice((1, 4, 8, 16, 32))
        return length // unit * unit if length // unit else length

    name = name or choose.choice(sorted(OPERATIONS))
    text, inputs, output = OPERATIONS[name](draw)
    element = choose.choice(("f32", "f32", "f64", "i32"))
    tensors = choose.random() < 0.5
    return Operation(name, text, tuple(map(tuple, inputs)), tuple(output), element, tensors)
