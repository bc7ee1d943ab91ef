# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What linalg's own tiling would make wrong, invalid or crash on stays as it is, and a remark says
why; whatever else a linalg.generic may be, it computes the same."""

from __future__ import annotations

import re

import pytest
from linalg_generics import drawn, together
from linalg_programs import NAMED, named_operation
from mlir_runs import executed, lowered, optimize, tiling
from sampling import nightly

AGENTS = ("function:constant?size=2&vectorize=0", "function:constant?size=2&vectorize=1")
UNREGISTERED = "--allow-unregistered-dialect"
REMARKS = ("--remarks-filter=mlbridge-tiling", "--remark-format=emitRemark", UNREGISTERED)


def stock(text: str) -> str:
    done = optimize(text, "", UNREGISTERED)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(text: str, model: str, **options: str) -> tuple[str, list[str]]:
    """The module, and what was decided about each operation."""
    told = {"model": model, "on-failure": "fail", **options}
    return decided_by(text, tiling(told))


def decided_by(text: str, passes: str) -> tuple[str, list[str]]:
    done = optimize(text, passes, *REMARKS, "--mlir-print-op-on-diagnostic=false")
    assert done.returncode == 0, done.stderr
    return done.stdout, re.findall(r'Remark="linalg\.\w+(?: is left as it is)?: (.*)"', done.stderr)


def generic(
    maps: str, kinds: str, operands: str, results: str = "", body: str = "", more: str = ""
) -> str:
    """The last operands are outputs if they begin with an o."""
    each = dict(part.split(":", 1) for part in operands.split(";"))
    count = len(kinds.split())
    dims = ", ".join(f"d{at}" for at in range(count))
    listed = ", ".join(f"affine_map<({dims}) -> ({one})>" for one in maps.split(";"))
    iterators = ", ".join(f'"{kind}"' for kind in kinds.split())

    def group(what: str, names: list[str]) -> str:
        types = ", ".join(each[name] for name in names)
        return f"{what}({', '.join(f'%{n}' for n in names)} : {types})" if names else ""

    outs = [name for name in each if name.startswith("o")]
    ins = [name for name in each if name not in outs]
    elements = {name: re.split(r"[x<]", type)[-1].strip("> ") for name, type in each.items()}
    elements = {name: "f32" if "f32" in type else elements[name] for name, type in each.items()}
    arguments = ", ".join(f"%x_{name}: {elements[name]}" for name in each)
    sums = body or "\n".join(
        f"%n_{out} = arith.addf %x_{out}, %x_{ins[0] if ins else out} : f32" for out in outs
    )
    yields = ", ".join(f"%n_{out}" for out in outs)
    types = ", ".join(elements[out] for out in outs)
    arrow = f" -> ({results})" if results else ""
    made = f"%r:{len(outs)} = " if results else ""
    return (
        f"{made}linalg.generic {{indexing_maps = [{listed}], iterator_types = [{iterators}]{more}}}"
        f" {group('ins', ins)} {group('outs', outs)} {{\n^bb0({arguments}):\n{sums}\n"
        f"linalg.yield {yields} : {types}\n}}{arrow}\n"
    )


def function(operands: str, text: str, results: str = "", more: str = "") -> str:
    given = ", ".join(f"%{part.replace(':', ': ', 1)}" for part in operands.split(";"))
    arrow = f" -> ({results})" if results else ""
    count = results.count("tensor<")
    end = ", ".join(f"%r#{at}" for at in range(count))
    ends = f"return {end} : {results}" if results else "return"
    return f"{more}\nfunc.func @f({given}){arrow} {{\n{text}\n{ends}\n}}\n"


def whole(
    maps: str, kinds: str, operands: str, results: str = "", body: str = "", more: str = ""
) -> str:
    return function(operands, generic(maps, kinds, operands, results, body, more), results)


MATRIX = "a:memref<8x6xf32>;o:memref<8xf32>"
ROWS = ("d0, d1;d0", "parallel reduction")
SUM = generic(*ROWS, MATRIX)
CSR = "#sparse_tensor.encoding<{map = (i, j) -> (i : dense, j : compressed)}>"
CALL = "func.func private @g(f32) -> f32"
TWICE = "func.func @twice(%x: memref<8x8xf32>) {\n"
SQUARE = "a:memref<8x8xf32>;o:memref<8x8xf32>"
PRODUCT = "linalg.matmul ins(%a, %a : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>)"
LOOPS = "a parallel loop is in no dimension of an output"
REDUCTION = "a reduction loop is in a dimension of an output"
ACCESS = "an operand is not accessed by sums of loops"
OVERLAP = "an output may also be another operand"
BODY = "%n_o = func.call @g(%x_a) : (f32) -> f32"
BUFFER = "memref<8x8xf32>"
TAKES_TWO = f"({BUFFER}, {BUFFER}) -> ()"
GLOBAL = f'memref.global "private" @g : {BUFFER} = uninitialized\n'
INDIRECT = f"%k = func.constant @f : {TAKES_TWO}\nfunc.call_indirect %k(%x, %x) : {TAKES_TWO}\n"
STRIDED = "memref<8x8xf32, strided<[?, 1]>>"
INTO_STRIDED = PRODUCT.replace("(%o : memref<8x8xf32>)", f"(%o : {STRIDED})")
ZERO = "%c0 = arith.constant 0 : index\n"
REPEATED = (
    f"{ZERO}%y = memref.reinterpret_cast %x to offset: [0], sizes: [8, 8], strides: [%c0, 1] : "
    f"{BUFFER} to {STRIDED}\n"
)
ONCE = f"%y = memref.cast %x : {BUFFER} to {STRIDED}\n"
CALL_STRIDED = f"call @f(%n, %y) : ({BUFFER}, {STRIDED}) -> ()\n"
NEW = f"%n = memref.alloc() : {BUFFER}\n"
#: By name: a module, and why its operation stays.
LEFT = {
    "reduction in outputs": (
        whole(
            "d0, d1;d0;", "reduction reduction",
            "a:tensor<16x32xf32>;o:tensor<16xf32>;ob:tensor<f32>", "tensor<16xf32>, tensor<f32>",
        ),
        REDUCTION,
    ),
    "outputs of different loops": (
        whole(
            "d0, d1;d0;d1", "reduction reduction",
            "a:memref<16x24xf32>;o:memref<16xf32>;ob:memref<24xf32>",
        ),
        REDUCTION,
    ),
    "outputs of different parallel loops": (
        whole(
            "d0, d1, d2;d0;d1", "parallel parallel reduction",
            "a:memref<6x4x5xf32>;o:memref<6xf32>;ob:memref<4xf32>",
        ),
        LOOPS,
    ),
    "parallel in no output": (
        whole("d0, d1;", "parallel reduction", "a:tensor<8x6xf32>;o:tensor<f32>", "tensor<f32>"),
        LOOPS,
    ),
    "parallel in no output, memrefs": (
        whole("d0, d1, d2;d0", "parallel parallel reduction",
              "a:memref<8x6x4xf32>;o:memref<8xf32>"),
        LOOPS,
    ),
    "an output along a sum of loops": (
        whole("d0, d1, d2;d0 + d1", "parallel parallel reduction",
              "a:memref<4x4x4xf32>;o:memref<7xf32>"),
        "an output's elements are not those of loops, one for each dimension",
    ),
    "an output's diagonal": (
        whole("d0, d1;d0, d0", "parallel reduction", "a:memref<8x4xf32>;o:memref<8x8xf32>"),
        "an output's elements are not those of loops, one for each dimension",
    ),
    "remainders": (
        whole("d0, d1 mod 4;d0, d1;d0", "parallel reduction",
              "a:memref<8x4xf32>;b:memref<8x6xf32>;o:memref<8xf32>"), ACCESS,
    ),
    "quotients": (
        whole("d0, d1 floordiv 2;d0, d1;d0", "parallel reduction",
              "a:memref<8x3xf32>;b:memref<8x6xf32>;o:memref<8xf32>"), ACCESS,
    ),
    "backwards": (
        whole("d0, 5 - d1;d0, d1;d0", "parallel reduction",
              "a:memref<8x6xf32>;b:memref<8x6xf32>;o:memref<8xf32>"), ACCESS,
    ),
    "sparse": (
        whole(*ROWS, f"a:tensor<8x6xf32, {CSR}>;o:tensor<8xf32>", "tensor<8xf32>"),
        "a tensor has an encoding, such as a sparse one",
    ),
    "sparse output": (
        whole("d0, d1, d2;d0, d1", "parallel parallel reduction",
              f"a:tensor<8x6x4xf32>;o:tensor<8x6xf32, {CSR}>", f"tensor<8x6xf32, {CSR}>"),
        "a tensor has an encoding, such as a sparse one",
    ),
    "memory of its own": (
        whole(*ROWS, "a:memref<8x6xf32, 3>;o:memref<8xf32>"),
        "a memref is in a memory space of its own",
    ),
    "no strides": (
        whole(*ROWS, "a:memref<8x6xf32, affine_map<(i, j) -> (i, j floordiv 4, j mod 4)>>;"
              "o:memref<8xf32>"),
        "the layout of a memref has no strides",
    ),
    "another operand's length": (
        whole(*ROWS, "a:memref<8x6xf32>;o:memref<?xf32>"), "the length of a loop is not known",
    ),
    "complex": (
        "func.func @f(%a: memref<4xcomplex<f32>>, %o: memref<complex<f32>>) {\n"
        "  linalg.dot ins(%a, %a : memref<4xcomplex<f32>>, memref<4xcomplex<f32>>)\n"
        "    outs(%o : memref<complex<f32>>)\n  return\n}\n",
        "its elements are neither integers nor floating-point numbers",
    ),
    "vectors": (
        whole(*ROWS, "a:memref<8x6xvector<4xf32>>;o:memref<8xvector<4xf32>>",
              body="%n_o = arith.addf %x_a, %x_o : vector<4xf32>")
        .replace(": f32", ": vector<4xf32>")
        .replace("yield %n_o : f32", "yield %n_o : vector<4xf32>"),
        "its elements are neither integers nor floating-point numbers",
    ),
    "no bits": (
        whole(*ROWS, "a:memref<8x6xi0>;o:memref<8xi0>", body="%n_o = arith.addi %x_a, %x_o : i0"),
        "its elements are neither integers nor floating-point numbers",
    ),
    "a library's": (
        whole(*ROWS, MATRIX, more=', library_call = "sums"'),
        "a library function computes it, sums",
    ),
    "calls": (CALL + whole(*ROWS, MATRIX, body=BODY), "its body has func.call"),
    "stores": (
        function(MATRIX + ";c:memref<f32>", generic(*ROWS, MATRIX, body=(
            "memref.store %x_a, %c[] : memref<f32>\n%n_o = arith.addf %x_a, %x_o : f32"))),
        "its body has memref.store",
    ),
    "loads": (
        function(MATRIX, generic(*ROWS, MATRIX, body=(
            "%z = arith.constant 0 : index\n%y = memref.load %o[%z] : memref<8xf32>\n"
            "%n_o = arith.addf %y, %x_o : f32"))),
        "its body has memref.load",
    ),
    "on a GPU": (
        function(MATRIX, "%c = arith.constant 1 : index\ngpu.launch blocks(%i, %j, %k) in (%ii = "
                 "%c, %jj = %c, %kk = %c) threads(%x, %y, %z) in (%xx = %c, %yy = %c, %zz = %c) "
                 "{\n" + SUM + "gpu.terminator\n}"),
        "it is in gpu.launch",
    ),
    "chosen buffers": (
        function(SQUARE + ";c:i1", "%n = memref.alloc() : memref<8x8xf32>\n%s = arith.select %c, "
                 "%n, %a : memref<8x8xf32>\n" + PRODUCT.replace("%o", "%s")),
        OVERLAP,
    ),
    "a loop's buffers": (
        function("a:memref<8x8xf32>;n:index", "%z = arith.constant 0 : index\n%b = memref.alloc() "
                 ": memref<8x8xf32>\n%c:2 = scf.for %i = %z to %n step %n iter_args(%p = %b, %q = "
                 "%a) -> (memref<8x8xf32>, memref<8x8xf32>) {\n"
                 + PRODUCT.replace("%a", "%p").replace("%o", "%q")
                 + "\nscf.yield %q, %p : memref<8x8xf32>, memref<8x8xf32>\n}"),
        OVERLAP,
    ),
    "one global": (
        'memref.global "private" @g : memref<8x8xf32> = uninitialized\n'
        + function("x:f32", "%a = memref.get_global @g : memref<8x8xf32>\n%o = memref.get_global @g"
                   " : memref<8x8xf32>\n" + PRODUCT),
        OVERLAP,
    ),
    "called with one buffer": (
        function(SQUARE, PRODUCT, more=TWICE + "call @f(%x, %x) : (memref<8x8xf32>, "
                 "memref<8x8xf32>) -> ()\nreturn\n}"),
        OVERLAP,
    ),
    "called by what is called with one buffer": (
        function(SQUARE, PRODUCT, more=TWICE + "call @h(%x, %x) : (memref<8x8xf32>, "
                 "memref<8x8xf32>) -> ()\nreturn\n}\n"
                 "func.func @h(%x: memref<8x8xf32>, %y: memref<8x8xf32>) {\n"
                 "call @f(%y, %x) : (memref<8x8xf32>, memref<8x8xf32>) -> ()\nreturn\n}"),
        OVERLAP,
    ),
    "called through a value": (
        function(SQUARE, PRODUCT, more=TWICE + INDIRECT + "return\n}"), OVERLAP,
    ),
    "called through an argument": (
        function(SQUARE, PRODUCT, more=f"func.func @apply(%k: {TAKES_TWO}, %x: {BUFFER}) {{\n"
                 f"func.call_indirect %k(%x, %x) : {TAKES_TWO}\nreturn\n}}\n" + TWICE
                 + f"%k = func.constant @f : {TAKES_TWO}\n"
                 f"call @apply(%k, %x) : ({TAKES_TWO}, {BUFFER}) -> ()\nreturn\n}}"),
        OVERLAP,
    ),
    "called by what is called through a value": (
        function(SQUARE, PRODUCT, more=TWICE + INDIRECT.replace("@f", "@h") + "return\n}\n"
                 f"func.func private @h(%x: {BUFFER}, %y: {BUFFER}) {{\n"
                 f"call @f(%y, %x) : {TAKES_TWO}\nreturn\n}}"),
        OVERLAP,
    ),
    "given a global through a value": (
        function(f"o:{BUFFER}", f"%a = memref.get_global @g : {BUFFER}\n" + PRODUCT, more=GLOBAL
                 + f"func.func @given() {{\n%x = memref.get_global @g : {BUFFER}\n"
                 f"%k = func.constant @f : ({BUFFER}) -> ()\n"
                 f"func.call_indirect %k(%x) : ({BUFFER}) -> ()\nreturn\n}}"),
        OVERLAP,
    ),
    "named by another dialect": (
        function(SQUARE, PRODUCT, more=TWICE + f'"other.run"(%x) {{kernel = @f}} : ({BUFFER}) -> ()'
                 "\nreturn\n}"),
        OVERLAP,
    ),
    "named by a string": (
        function(SQUARE, PRODUCT, more=TWICE + f'"other.run"(%x) {{kernel = "f"}} : ({BUFFER}) -> '
                 "()\nreturn\n}"),
        OVERLAP,
    ),
    "named by a call for something else, too": (
        function(SQUARE, PRODUCT, more=TWICE + NEW
                 + f"call @f(%x, %n) {{again = [@f]}} : {TAKES_TWO}\nreturn\n}}"),
        OVERLAP,
    ),
    "named by an outer module": (
        "module @inner {\n" + function(SQUARE, PRODUCT) + "}\n" + TWICE
        + f'"other.run"(%x) {{kernel = @inner::@f}} : ({BUFFER}) -> ()\nreturn\n}}',
        OVERLAP,
    ),
    "called by itself with one buffer": (
        function(SQUARE + ";c:i1", PRODUCT + "\nscf.if %c {\nfunc.call @f(%o, %o, %c) : "
                 f"({BUFFER}, {BUFFER}, i1) -> ()\n}}"),
        OVERLAP,
    ),
    "results of a call": (
        function(f"x:{BUFFER}", f"%r:2 = call @both(%x) : ({BUFFER}) -> ({BUFFER}, {BUFFER})\n"
                 + PRODUCT.replace("%a", "%r#0").replace("%o", "%r#1"),
                 more=f"func.func @both(%x: {BUFFER}) -> ({BUFFER}, {BUFFER}) {{\n"
                 f"return %x, %x : {BUFFER}, {BUFFER}\n}}"),
        OVERLAP,
    ),
    "a branch's buffers": (
        function(f"a:{BUFFER};c:i1", NEW + f"cf.cond_br %c, ^next(%n : {BUFFER}), ^next(%a : "
                 f"{BUFFER})\n^next(%o: {BUFFER}):\n" + PRODUCT),
        OVERLAP,
    ),
    "one buffer again, in async.execute": (
        function(f"x:{BUFFER}", f"{NEW}%t, %v = async.execute -> !async.value<{BUFFER}> {{\n"
                 f"async.yield %n : {BUFFER}\n}}\n%u = async.execute [%t] (%v as %o: "
                 f"!async.value<{BUFFER}>) {{\n" + PRODUCT.replace("%a", "%n")
                 + "\nasync.yield\n}\nasync.await %u : !async.token"),
        OVERLAP,
    ),
    "one row again and again, given by a call": (
        function(f"a:{BUFFER};o:{STRIDED}", INTO_STRIDED,
                 more=TWICE + NEW + REPEATED + CALL_STRIDED + "return\n}"),
        OVERLAP,
    ),
    "one row again and again, given unranked": (
        function(f"a:{BUFFER};u:memref<*xf32>",
                 f"%o = memref.cast %u : memref<*xf32> to {STRIDED}\n" + INTO_STRIDED,
                 more=TWICE + NEW + REPEATED + f"%u = memref.cast %y : {STRIDED} to memref<*xf32>\n"
                 f"call @f(%n, %u) : ({BUFFER}, memref<*xf32>) -> ()\nreturn\n}}"),
        OVERLAP,
    ),
    "one row again and again, or not": (
        function(f"a:{BUFFER};x:{BUFFER};c:i1", f"%o = scf.if %c -> {STRIDED} {{\n" + REPEATED
                 + f"scf.yield %y : {STRIDED}\n}} else {{\n" + ONCE
                 + f"scf.yield %y : {STRIDED}\n}}\n" + NEW + INTO_STRIDED.replace("%a", "%n")),
        OVERLAP,
    ),
    "one row again and again": (
        whole("d0, d1, d2;d0, d1", "parallel parallel reduction",
              "a:memref<8x6x4xf32>;o:memref<8x6xf32, strided<[0, 1]>>"),
        OVERLAP,
    ),
    "a layout that is a permutation": (
        whole(*ROWS, "a:memref<8x6xf32, affine_map<(i, j) -> (j, i)>>;o:memref<8xf32>"),
        "the layout of a memref has no strides",
    ),
    "a schedule": (
        whole(*ROWS, MATRIX) + "module attributes {transform.with_named_sequence} {\n"
        "transform.named_sequence @__transform_main(%m: !transform.any_op) {\ntransform.yield\n}"
        "\n}",
        "the module has a schedule of its own, of the dialect transform",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_cannot_be_tiled_is_left(name: str) -> None:
    text, why = LEFT[name]
    for model in AGENTS:
        module, decided = asked(text, model)
        assert decided == [why]
        assert module == stock(text)


TILED = {
    "loops of one buffer each": whole(*ROWS, MATRIX),
    "called with two buffers": function(
        SQUARE, PRODUCT, more="func.func @apart(%x: memref<8x8xf32>) {\n%y = memref.alloc() : "
        "memref<8x8xf32>\ncall @f(%x, %y) : (memref<8x8xf32>, memref<8x8xf32>) -> ()\nreturn\n}",
    ),
    "another function's value": function(
        SQUARE, PRODUCT, more=TWICE + INDIRECT.replace("@f", "@h") + NEW
        + f"call @f(%x, %n) : {TAKES_TWO}\nreturn\n}}\n"
        f"func.func private @h({BUFFER}, {BUFFER})",
    ),
    "in an inner module": "module @inner {\n" + function(SQUARE, PRODUCT) + "}\n" + TWICE
    + "return\n}",
    "strides given by a call": function(
        f"a:{BUFFER};o:{STRIDED}", INTO_STRIDED,
        more=TWICE + NEW + ONCE + CALL_STRIDED + "return\n}",
    ),
    "two globals": (
        'memref.global "private" @g : memref<8x8xf32> = uninitialized\n'
        'memref.global "private" @h : memref<8x8xf32> = uninitialized\n'
        + function("x:f32", "%a = memref.get_global @g : memref<8x8xf32>\n%o = memref.get_global @h"
                   " : memref<8x8xf32>\n" + PRODUCT)
    ),
    "strides": whole(*ROWS, "a:memref<8x6xf32, strided<[?, 2], offset: ?>>;o:memref<8xf32>"),
    "two outputs of the same loops": whole(
        "d0, d2, d1;d0, d1;d1, d0", "parallel parallel reduction",
        "a:tensor<8x4x6xf32>;o:tensor<8x6xf32>;ob:tensor<6x8xf32>",
        "tensor<8x6xf32>, tensor<6x8xf32>",
    ),
    "in a parallel loop": function(
        MATRIX, "%z = arith.constant 0 : index\n%n = arith.constant 1 : index\nscf.parallel (%i) = "
        "(%z) to (%n) step (%n) {\n" + SUM + "}",
    ),
    "asynchronous": function(
        MATRIX, "%t = async.execute {\n" + SUM + "async.yield\n}\nasync.await %t : !async.token",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TILED)
def test_what_can_be_tiled_is(name: str) -> None:
    for model, ends in zip(AGENTS, ("2", "vectorized"), strict=True):
        module, decided = asked(TILED[name], model)
        assert len(decided) == 1 and decided[0].startswith("tiles of 2x2")
        assert decided[0].endswith(ends)
        assert "scf.for" in module


def test_what_an_outer_module_may_call() -> None:
    """The pass sees the inner module alone."""
    passes = f"builtin.module({tiling({'model': AGENTS[0], 'on-failure': 'fail'})})"
    public = "module {\nmodule @inner {\n" + function(SQUARE, PRODUCT) + "}\n}\n"
    module, decided = decided_by(public, passes)
    assert decided == [OVERLAP]
    assert module == stock(public)
    _, decided = decided_by(public.replace("func.func", "func.func private"), passes)
    assert decided == ["tiles of 2x2x2"]


#: What an element of the output becomes, if not a sum.
ORDERED = {
    "the last": "%n_o = arith.addf %x_a, %x_a : f32",
    "a polynomial": "%y = arith.addf %x_o, %x_o : f32\n%n_o = arith.addf %y, %x_a : f32",
    "a difference": "%n_o = arith.subf %x_a, %x_o : f32",
    "the first of the largest": "%c = arith.cmpf ogt, %x_a, %x_o : f32\n"
    "%n_o = arith.select %c, %x_a, %x_o : f32",
}
CUBE = "a:memref<8x6x4xf32>;o:memref<8xf32>"


@pytest.mark.parametrize("name", ORDERED)
def test_what_has_an_order_keeps_it(name: str) -> None:
    text = whole("d0, d1, d2;d0", "parallel reduction reduction", CUBE, body=ORDERED[name])
    module, decided = asked(text, "function:constant?size=2")
    assert decided == ["in the tiles that the model chose, its sums would have another order"]
    assert module == stock(text)
    text = whole(*ROWS, MATRIX, body=ORDERED[name])
    module, decided = asked(text, "function:constant?size=2")
    assert decided == ["tiles of 2x2, not vectorized: the order of its sums matters"]
    assert "scf.for" in module and "vector." not in module


def test_float_sums_keep_their_order_if_told_to() -> None:
    text = whole("d0, d1, d2;d0", "parallel reduction reduction", CUBE)
    _, decided = asked(text, "function:constant?size=2", float_sums="reassociate")
    assert decided == ["tiles of 2x2x2, vectorized"]
    module, decided = asked(text, "function:constant?size=2", float_sums="in-order")
    assert decided == ["in the tiles that the model chose, its sums would have another order"]
    assert module == stock(text)
    text = text.replace("f32", "i32").replace("addf", "addi")
    _, decided = asked(text, "function:constant?size=2", float_sums="in-order")
    assert decided == ["tiles of 2x2x2, vectorized"]
    promised = text.replace(": i32\nlinalg", "overflow<nsw> : i32\nlinalg")
    assert promised != text
    _, decided = asked(promised, "function:constant?size=2")
    assert decided == ["in the tiles that the model chose, its sums would have another order"]


@pytest.mark.parametrize("element", ["i1", "i4", "i24", "f8E5M2", "f80"])
def test_elements_that_vectors_hold_differently(element: str) -> None:
    """In memory, eight of an i1 are eight bytes, and a vector of them is one."""
    text = whole(*ROWS, MATRIX).replace("f32", element)
    text = text if element.startswith("f") else text.replace("addf", "addi")
    module, decided = asked(text, "function:constant?size=2")
    assert decided == [f"tiles of 2x2, not vectorized: its elements are of {element}"]
    assert "vector." not in module


def same_results(first: int, count: int, rounds: int, in_order: bool) -> int:
    """How many operations were tiled."""
    made = 0
    for at in range(first, first + count, 20):
        generics = [drawn(seed, in_order) for seed in range(at, min(at + 20, first + count))]
        text = together([one.program() for one in generics])
        expected = executed(lowered(text))
        for seed in range(rounds):
            options = {
                "model": f"function:random?seed={at + seed}",
                "on-failure": "fail",
                "float-sums": "in-order" if in_order else "reassociate",
            }
            assert executed(lowered(text, options)) == expected, (at, options)
            _, decided = asked(text, options["model"], float_sums=options["float-sums"])
            made += sum(one.startswith("tiles of") for one in decided)
    return made


@pytest.mark.parametrize(
    ("first", "count", "rounds"), [(0, 20, 1), nightly(0, 400, 3), nightly(10000, 600, 1)]
)
@pytest.mark.parametrize("in_order", [False, True], ids=["any order", "fractions in order"])
def test_random_generics_compute_the_same(
    first: int, count: int, rounds: int, in_order: bool
) -> None:
    assert same_results(first, count, rounds, in_order) > count * rounds // 5


@pytest.mark.parametrize(("every", "rounds"), [(5, 1), nightly(1, 6)])
@pytest.mark.parametrize("tensors", [False, True], ids=["memrefs", "tensors"])
def test_named_operations_compute_the_same(every: int, rounds: int, tensors: bool) -> None:
    names = sorted(NAMED)[::every]
    programs = [named_operation(name, "f32", tensors).program() for name in names]
    programs += [named_operation(name, "i32", tensors).program() for name in names[::2]]
    text = together(programs)
    expected = executed(lowered(text))
    for seed in range(rounds):
        options = {"model": f"function:random?seed={seed}", "on-failure": "fail"}
        assert executed(lowered(text, options)) == expected, options
        _, decided = asked(text, options["model"])
        assert sum(one.startswith("tiles of") for one in decided) > len(programs) // 2
