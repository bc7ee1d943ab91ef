# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs of one linalg.generic with random loops, accesses, elements and body, which print what
it computed: also what nothing but a generic may have, and what can't be tiled.

Numbers are small, so that sums are exact in any order, unless fractions are asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from linalg_programs import loops

ELEMENTS = ("f32", "f32", "f64", "i32", "i32", "i64", "i16", "i8", "i1", "f16", "bf16")
SMALL = ("f16", "bf16", "i1")
FILL = """func.func private @fill_{name}(%to: {memref}, %seed: i64) {{
{constants}
{loops}
  {sums}
  %wide = arith.index_cast %s{rank} : index to i64
  %all = arith.addi %wide, %seed : i64
  %range = arith.constant {range} : i64
  %less = arith.constant {less} : i64
  %rest = arith.remui %all, %range : i64
  %small = arith.subi %rest, %less : i64
  {convert}
  memref.store %value, %to[{indices}] : {memref}
{ends}
  return
}}
"""
PRINT = """func.func private @print_{name}(%of: {memref}) {{
{constants}
{loops}
  %value = memref.load %of[{indices}] : {memref}
  {convert}
  func.call @{printer}(%shown) : ({shown}) -> ()
  func.call @printComma() : () -> ()
{ends}
  func.call @printNewline() : () -> ()
  return
}}
"""
HEAD = """func.func private @printI64(i64)
func.func private @printF64(f64)
func.func private @printComma()
func.func private @printNewline()
"""


def is_float(element: str) -> bool:
    return "f" in element


def bits(element: str) -> int:
    return 16 if element == "bf16" else int(element[1:])


def converted(value: str, of: str, to: str, name: str) -> str:
    """Statements that make %name."""
    if of == to:
        return f"%{name} = arith.bitcast {value} : {of} to {to}"
    if is_float(of) and is_float(to):
        narrow = bits(to) < bits(of)
        return f"%{name} = arith.{'truncf' if narrow else 'extf'} {value} : {of} to {to}"
    if is_float(of) or is_float(to):
        which = "fptosi" if is_float(of) else "uitofp" if of == "i1" else "sitofp"
        return f"%{name} = arith.{which} {value} : {of} to {to}"
    narrow = bits(to) < bits(of)
    return f"%{name} = arith.{'trunci' if narrow else 'extsi'} {value} : {of} to {to}"


@dataclass
class Operand:
    map: str  #: the results of its affine map
    shape: tuple[int, ...]
    element: str
    stride: int = 1  #: the last dimension's, as a part of a larger memref, if that isn't 1

    def shaped(self, kind: str) -> str:
        return f"{kind}<{''.join(f'{n}x' for n in self.shape)}{self.element}>"

    @property
    def memref(self) -> str:
        if self.stride == 1:
            return self.shaped("memref")
        strides, step = [], self.stride
        for length in reversed(self.shape):
            strides.append(step)
            step *= length
        listed = ", ".join(map(str, reversed(strides)))
        return self.shaped("memref")[:-1] + f", strided<[{listed}]>>"


@dataclass
class Generic:
    kinds: list[str]
    inputs: list[Operand]
    outputs: list[Operand]
    body: list[str] = field(default_factory=list)
    yields: list[str] = field(default_factory=list)
    tensors: bool = False
    fractions: bool = False
    same: tuple[int, int] | None = None  #: two operands that are one buffer
    hidden: str = "call"  #: how that is hidden

    def text(self) -> str:
        operands = [*self.inputs, *self.outputs]
        count = len(self.inputs)
        dims = ", ".join(f"d{at}" for at in range(len(self.kinds)))
        maps = ", ".join(f"affine_map<({dims}) -> ({o.map})>" for o in operands)
        kinds = ", ".join(f'"{kind}"' for kind in self.kinds)
        types = [o.shaped("tensor") if self.tensors else o.memref for o in operands]
        names = [f"%a{at}" for at in range(len(operands))]

        def listed(what: str, first: int, last: int) -> str:
            if first == last:
                return ""
            return f"{what}({', '.join(names[first:last])} : {', '.join(types[first:last])})"

        arguments = ", ".join(f"%x{at}: {o.element}" for at, o in enumerate(operands))
        results = ", ".join(types[count:])
        arrow = f" -> ({results})" if self.tensors else ""
        made = f"%r:{len(self.outputs)} = " if self.tensors else ""
        yielded = ", ".join(self.yields)
        elements = ", ".join(o.element for o in self.outputs)
        body = "\n    ".join([*self.body, f"linalg.yield {yielded} : {elements}"])
        gives = ", ".join(f"%r#{at}" for at in range(len(self.outputs)))
        end = f"return {gives} : {results}" if self.tensors else "return"
        parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
        return (
            f"func.func private @kernel({parameters}){arrow} {{\n"
            f"  {made}linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
            f"{listed('ins', 0, count)} {listed('outs', count, len(operands))} {{\n"
            f"  ^bb0({arguments}):\n    {body}\n  }}{arrow}\n  {end}\n}}\n"
        )

    def program(self) -> str:
        operands = [*self.inputs, *self.outputs]
        text, main = HEAD + self.text(), []
        buffers: list[str] = []
        for at, operand in enumerate(operands):
            memref = operand.memref
            text += self.fill(at, operand) + self.print(at, operand)
            if self.same is not None and at == self.same[1]:
                main.append(f"%c{at} = memref.cast %b{self.same[0]} : {memref} to {memref}")
                if self.hidden == "select":
                    main += [
                        f"%o{at} = memref.alloc() : {memref}",
                        "%yes = arith.constant true",
                        f"%b{at} = arith.select %yes, %c{at}, %o{at} : {memref}",
                    ]
                else:
                    main.append(f"%b{at} = memref.cast %c{at} : {memref} to {memref}")
            elif operand.stride == 1:
                main.append(f"%b{at} = memref.alloc() : {memref}")
            else:
                wide = Operand("", (*operand.shape[:-1], operand.shape[-1] * operand.stride), "")
                whole = wide.shaped("memref")[:-1] + operand.element + ">"
                zeros = ", ".join("0" for _ in operand.shape)
                ones = ", ".join(["1"] * (len(operand.shape) - 1) + [str(operand.stride)])
                sizes = ", ".join(map(str, operand.shape))
                main += [
                    f"%w{at} = memref.alloc() : {whole}",
                    f"%b{at} = memref.subview %w{at}[{zeros}] [{sizes}] [{ones}] : {whole} to "
                    + memref,
                ]
            main += [
                f"%seed{at} = arith.constant {at + 2} : i64",
                f"call @fill_{at}(%b{at}, %seed{at}) : ({memref}, i64) -> ()",
            ]
            buffers.append(f"%b{at}")
        types = [o.memref for o in operands]
        if self.tensors:
            shaped = [o.shaped("tensor") for o in operands]
            for at, operand in enumerate(operands):
                main.append(
                    f"%t{at} = bufferization.to_tensor %b{at} restrict writable : "
                    f"{operand.memref} to {shaped[at]}"
                )
            given = ", ".join(f"%t{at}" for at in range(len(operands)))
            first = len(self.inputs)
            main.append(
                f"%made:{len(self.outputs)} = call @kernel({given}) : ({', '.join(shaped)}) -> "
                f"({', '.join(shaped[first:])})"
            )
            for at in range(len(self.outputs)):
                main.append(
                    f"bufferization.materialize_in_destination %made#{at} in restrict writable "
                    f"{buffers[first + at]} : ({shaped[first + at]}, {types[first + at]}) -> ()"
                )
        else:
            main.append(f"call @kernel({', '.join(buffers)}) : ({', '.join(types)}) -> ()")
        for at in range(len(self.inputs), len(operands)):
            main.append(f"call @print_{at}(%b{at}) : ({types[at]}) -> ()")
        lines = "\n  ".join([*main, "return"])
        return f"{text}func.func @main() {{\n  {lines}\n}}\n"

    def fill(self, name: int, operand: Operand) -> str:
        sums = ["%s0 = arith.constant 0 : index"]
        for depth in range(len(operand.shape)):
            sums += [
                f"%f{depth} = arith.constant {2 * depth + 3} : index",
                f"%m{depth} = arith.muli %i{depth}, %f{depth} : index",
                f"%s{depth + 1} = arith.addi %s{depth}, %m{depth} : index",
            ]
        element, small = operand.element, operand.element in SMALL
        convert = converted("%small", "i64", element, "value")
        if is_float(element):
            divided = "%part" if self.fractions else "%float"
            convert = (
                "%float = arith.sitofp %small : i64 to f64\n  %by = arith.constant 7.0 : f64\n"
                "  %part = arith.divf %float, %by : f64\n  "
                + converted(divided, "f64", element, "value")
            )
        return FILL.format(
            name=name,
            memref=operand.memref,
            rank=len(operand.shape),
            sums="\n  ".join(sums),
            range=3 if small else 7,
            less=1 if small else 3,
            convert=convert,
            **loops(operand.shape),
        )

    def print(self, name: int, operand: Operand) -> str:
        shown = "f64" if is_float(operand.element) else "i64"
        convert = converted("%value", operand.element, shown, "shown")
        if shown == "f64":  # all bits, not some digits
            convert = convert.replace("%shown", "%exact")
            convert += "\n  %shown = arith.bitcast %exact : f64 to i64"
        return PRINT.format(
            name=name,
            memref=operand.memref,
            convert=convert,
            printer="printI64",
            shown="i64",
            **loops(operand.shape),
        )


def together(programs: Sequence[str]) -> str:
    """One program of them all, which declares each function of others once."""
    declared: dict[str, None] = {}
    text, main = "", []
    for at, one in enumerate(programs):
        for line in re.findall(r"^func\.func private @\w+\([^%\n]*\)[^{\n]*$\n", one, re.M):
            declared[line] = None
            one = one.replace(line, "")
        own = re.findall(r"^func\.func (?:private )?@(\w+)\(", one, re.M)
        for name in own:
            one = one.replace(f"@{name}(", f"@{name}_{at}(")
        text += one
        main.append(f"call @main_{at}() : () -> ()")
    lines = "\n  ".join([*main, "return"])
    return f"{''.join(declared)}{text}func.func @main() {{\n  {lines}\n}}\n"


def _accesses(choose: random.Random, trips: Sequence[int], odd: bool) -> tuple[str, int]:
    """One dimension of an input: what accesses it, and its length."""
    one, two = choose.randrange(len(trips)), choose.randrange(len(trips))
    n, m = trips[one], trips[two]
    forms = [(f"d{one}", n)] * 6
    if one != two:
        forms += [(f"d{one} + d{two}", n + m - 1), (f"d{one} * 2 + d{two}", 2 * n + m - 2)]
    forms += [("0", choose.randint(1, 3)), (f"d{one} + 2", n + 2), (f"d{one} * 3", 3 * n - 2)]
    if odd:
        forms = [(f"{n - 1} - d{one}", n), (f"d{one} floordiv 2", n), (f"d{one} mod 3", max(3, n))]
        forms += [(f"(d{one} + d{two}) floordiv 2", n + m)] if one != two else []
    return choose.choice(forms)


def _combined(choose: random.Random, t: str, odd: bool) -> list[str]:
    """Ways in which %sum and %term become %next."""
    f = "f" if is_float(t) else "i"
    ways = [f"arith.add{f} %sum, %term"] * 4 + [f"arith.add{f} %term, %sum"]
    ways += [f"arith.sub{f} %sum, %term"]
    ways += (
        ["arith.maximumf %sum, %term", "arith.minimumf %term, %sum", "arith.maxnumf %sum, %term"]
        if f == "f"
        else [f"arith.{o} %sum, %term" for o in ("maxsi", "minui", "muli", "andi", "ori", "xori")]
    )
    if odd:
        ways = [f"arith.sub{f} %term, %sum"]
    lines = [f"%next = {choose.choice(ways)} : {t}"]
    if odd and choose.random() < 0.5:
        three = "3.0" if f == "f" else "true" if t == "i1" else "3"
        kind = "" if t == "i1" else f" : {t}"
        lines = [
            f"%three = arith.constant {three}{kind}",
            f"%scaled = arith.mul{f} %sum, %three : {t}",
            f"%next = arith.add{f} %scaled, %term : {t}",
        ]
    return lines


def drawn(seed: int, fractions: bool = False) -> Generic:
    choose = random.Random(seed)
    kinds = [choose.choice(("parallel", "reduction")) for _ in range(choose.randint(1, 4))]
    kinds[choose.randrange(len(kinds))] = "reduction"
    trips = [choose.choice((1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19)) for _ in kinds]
    if len(kinds) == 4:
        trips = [min(trip, 6) for trip in trips]
    t = choose.choice(("f32", "f64") if fractions else ELEMENTS)
    odd = choose.random() < 0.25
    twisted = choose.random() < 0.15  # an output that can't be tiled
    parallel = [at for at, kind in enumerate(kinds) if kind == "parallel"]
    reductions = [at for at, kind in enumerate(kinds) if kind == "reduction"]

    def operand(dims: Sequence[tuple[str, int]], element: str) -> Operand:
        made = Operand(", ".join(e for e, _ in dims), tuple(n for _, n in dims), element)
        if made.shape and choose.random() < 0.15:
            made.stride = 2
        return made

    inputs = []
    for _ in range(choose.randint(0, 3)):
        dims = [
            _accesses(choose, trips, odd and choose.random() < 0.3)
            for _ in range(choose.randint(0, 3))
        ]
        element = t if choose.random() < 0.7 or t in SMALL else choose.choice(("i32", "i8", "f32"))
        inputs.append(operand(dims, element))
    outputs = []
    for _ in range(choose.choice((1, 1, 1, 2))):
        follows = parallel[:]
        choose.shuffle(follows)
        if twisted and choose.random() < 0.5 and follows:
            follows.pop()
        elif twisted:
            follows.append(choose.choice(reductions))
        outputs.append(operand([(f"d{at}", trips[at]) for at in follows], t))
        if choose.random() < 0.05:
            outputs[-1].map += ", 0" if follows else "0"
            outputs[-1].shape += (1,)
    plain = {p.strip() for o in (*inputs, *outputs) for p in o.map.split(",")}
    missing = [(f"d{at}", n) for at, n in enumerate(trips) if f"d{at}" not in plain]
    if missing:
        choose.shuffle(missing)
        inputs.append(operand(missing, t))
    made = Generic(kinds, inputs, outputs, tensors=choose.random() < 0.5, fractions=fractions)
    terms = []
    for at, one in enumerate(inputs):
        made.body.append(converted(f"%x{at}", one.element, t, f"y{at}"))
        terms.append(f"%y{at}")
    if choose.random() < 0.25 and t not in SMALL:
        loop = choose.randrange(len(kinds))
        made.body += [
            f"%i = linalg.index {loop} : index",
            "%iw = arith.index_cast %i : index to i64",
            converted("%iw", "i64", t, "yi"),
        ]
        terms.append("%yi")
    products = t not in SMALL and choose.random() < 0.6
    f = "f" if is_float(t) else "i"
    for which in range(len(outputs)):
        old = f"%x{len(inputs) + which}"
        term = terms[0] if terms else old
        for at, other in enumerate(terms[1:]):
            operation = "mul" if products and at == 0 else "max" if t in SMALL else "add"
            if operation == "max":
                operation = "maximumf" if f == "f" else "ori"
            else:
                operation += f
            made.body.append(f"%p{which}_{at} = arith.{operation} {term}, {other} : {t}")
            term = f"%p{which}_{at}"
        if which and choose.random() < 0.2:
            old = f"%x{len(inputs)}"  # of the other output
        lines = [
            line.replace("%sum", old).replace("%term", term).replace("%next", f"%next{which}")
            for line in _combined(choose, t, odd and choose.random() < 0.6)
        ]
        made.body += [
            line.replace("%three", f"%three{which}").replace("%scaled", f"%scaled{which}")
            for line in lines
        ]
        made.yields.append(f"%next{which}")
        if choose.random() < 0.05 and terms:
            made.yields[-1] = term  # the last one stays
    if not made.tensors and choose.random() < 0.3:
        for at, one in enumerate(inputs):
            if (one.memref, one.stride) == (outputs[0].memref, 1):
                made.same = (at, len(inputs))
                made.hidden = choose.choice(("call", "select"))
                break
    return made
