# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes tests/golden/serdes: messages of each serdes, good and bad.

A second implementation of the formats in plain Python, which shares nothing with the library.

    python3 tests/golden/make_serdes.py          # writes the files
    python3 tests/golden/make_serdes.py --check  # fails if they differ from what it would write

index.json lists the cases. A good one has for each tensor of `specs` its shape and its elements:
`bits` are those of numbers, row-major and little-endian, `strings` the bytes of each, all in
hexadecimal digits. If it is `canonical`, writing these values gives exactly the file. A bad one has
the texts that the error message `mentions`; its code is Protocol.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "serdes"
INTEGERS = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
}  # fmt: skip
FLOATS = {"float16": "e", "float32": "f", "float64": "d"}
BITS = {"float16": "H", "float32": "I", "float64": "Q"}
EXPONENT = {"float16": 0x7C00, "float32": 0x7F800000, "float64": 0x7FF0000000000000}
QUIET_NAN = {"float16": 0x7E00, "float32": 0x7FC00000, "float64": 0x7FF8000000000000}
DYNAMIC = -1


@dataclass
class Tensor:
    """`data`: ints for integers, bools for bool, bit patterns for floats, bytes for strings."""

    name: str
    type: str
    shape: list[int]
    data: list[Any]
    declared: list[int] | None = None  # the shape of the spec, if some dimension is dynamic
    maximum: list[int] = field(default_factory=list)

    @property
    def dynamic(self) -> bool:
        return self.declared is not None and DYNAMIC in self.declared

    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "shape": self.shape if self.declared is None else self.declared,
        }
        return spec | ({"maximum": self.maximum} if self.maximum else {})

    def raw(self) -> bytes:
        code = "?" if self.type == "bool" else INTEGERS.get(self.type) or BITS[self.type]
        return struct.pack(f"<{len(self.data)}{code}", *self.data)

    def value(self) -> dict[str, Any]:
        if self.type == "string":
            return {"shape": self.shape, "strings": [s.hex() for s in self.data]}
        return {"shape": self.shape, "bits": self.raw().hex()}


# By name: what the message means; or the specs, the message and what the error mentions.
Same = dict[str, tuple[list[Tensor], bytes]]
Bad = dict[str, tuple[list[dict[str, Any]], bytes, list[str]]]


def bits_of(type_name: str, value: float) -> int:
    """-1 if it is too large."""
    try:
        return int.from_bytes(struct.pack("<" + FLOATS[type_name], value), "little")
    except OverflowError:
        return -1


def float_of(type_name: str, bits: int) -> float:
    raw = bits.to_bytes(struct.calcsize(FLOATS[type_name]), "little")
    return float(struct.unpack("<" + FLOATS[type_name], raw)[0])


def shortest(value: float, type_name: str) -> str:
    """The fewest digits that come back as the same float32 (also for float16) or float64."""
    if type_name == "float64":
        scientific = next(text for p in range(17) if float(text := f"{value:.{p}e}") == value)
    else:
        scientific = next(
            text
            for p in range(10)
            if bits_of("float32", float(text := f"{value:.{p}e}")) == bits_of("float32", value)
        )
    mantissa, exponent = scientific.split("e")
    sign = "-" if mantissa.startswith("-") else ""
    digits = mantissa.lstrip("-").replace(".", "")
    power = int(exponent)
    if len(digits) <= power + 1:
        fixed = str(abs(int(Fraction(value))))
    elif power >= 0:
        fixed = digits[: power + 1] + "." + digits[power + 1 :]
    else:
        fixed = "0." + "0" * (-power - 1) + digits
    return sign + fixed if len(sign + fixed) <= len(scientific) else scientific


def json_float(type_name: str, bits: int) -> str:
    sign = 1 << (8 * struct.calcsize(FLOATS[type_name]) - 1)
    if bits & EXPONENT[type_name] != EXPONENT[type_name]:
        if bits == 0:
            return "0"
        return "-0.0" if bits == sign else shortest(float_of(type_name, bits), type_name)
    if bits == EXPONENT[type_name]:
        return '"Infinity"'
    if bits == EXPONENT[type_name] | sign:
        return '"-Infinity"'
    if bits == QUIET_NAN[type_name]:
        return '"NaN"'
    return f'"NaN:{bits:0{2 * struct.calcsize(FLOATS[type_name])}x}"'


def json_string(raw: bytes) -> str:
    return json.dumps(raw.decode(), ensure_ascii=False)


def json_element(tensor: Tensor, element: Any) -> str:
    if tensor.type == "bool":
        return "true" if element else "false"
    if tensor.type == "string":
        return json_string(element)
    return json_float(tensor.type, element) if tensor.type in FLOATS else str(element)


def to_json(tensors: list[Tensor]) -> bytes:
    members = []
    for tensor in tensors:
        elements = ",".join(json_element(tensor, e) for e in tensor.data)
        if tensor.dynamic:
            shape = ",".join(map(str, tensor.shape))
            elements = f'{{"shape":[{shape}],"data":[{elements}]}}'
        elif tensor.shape:
            elements = f"[{elements}]"
        members.append(json_string(tensor.name.encode()) + ":" + elements)
    return ("{" + ",".join(members) + "}").encode()


def to_bitstream(tensors: list[Tensor]) -> bytes:
    message = bytearray()
    for tensor in tensors:
        message += bytes(-len(message) % 8)
        for length, declared in zip(tensor.shape, tensor.declared or tensor.shape, strict=True):
            if declared == DYNAMIC:
                message += struct.pack("<Q", length)
        if tensor.type == "string":
            for element in tensor.data:
                message += struct.pack("<Q", len(element))
            message += b"".join(tensor.data)
        else:
            message += tensor.raw()
    return bytes(message)


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


def length_delimited(field_number: int, content: bytes) -> bytes:
    return varint(field_number << 3 | 2) + varint(len(content)) + content


def protobuf_number(field_number: int, number: int) -> bytes:
    return varint(field_number << 3) + varint(number)


def protobuf_tensor(tensor: Tensor) -> bytes:
    """The content of a mlbridge.v1.Tensor."""
    message = length_delimited(1, tensor.name.encode())
    message += protobuf_number(2, ALL_TYPES.index(tensor.type) + 1)
    if tensor.shape:
        message += length_delimited(3, b"".join(map(varint, tensor.shape)))
    if tensor.type == "string":
        return message + b"".join(length_delimited(5, element) for element in tensor.data)
    return message + (length_delimited(4, tensor.raw()) if tensor.data else b"")


def to_protobuf(tensors: list[Tensor]) -> bytes:
    return b"".join(length_delimited(1, protobuf_tensor(tensor)) for tensor in tensors)


def extremes(type_name: str) -> list[Any]:
    if type_name in INTEGERS:
        size = struct.calcsize(INTEGERS[type_name]) * 8
        if type_name.startswith("u"):
            return [0, 1, 2**size - 1, 2 ** (size - 1)]
        return [0, -1, 2 ** (size - 1) - 1, -(2 ** (size - 1))]
    if type_name in FLOATS:
        size = struct.calcsize(FLOATS[type_name]) * 8
        exponent = EXPONENT[type_name]
        positive = [0, 1, exponent - 1, exponent, exponent + 1, QUIET_NAN[type_name]]
        plain = [bits_of(type_name, v) for v in (0.1, 1.0, -2.5, 1 / 3, 65504.0, 2.0**-14)]
        large = [bits_of(type_name, v) for v in (99999.0, 1e5, 123456.0, 2.0**24, 1e22, 2.0**70)]
        large = [bits for bits in large if bits >= 0]
        signed = [bits | 1 << (size - 1) for bits in positive]
        return positive + signed + plain + large
    if type_name == "bool":
        return [True, False]
    texts = ["", "a", "\0", '"\\/\b\f\n\r\t\x1f\x7f', "é€😀", "x" * 100]
    return [text.encode() for text in texts]


ALL_TYPES = [*INTEGERS, *FLOATS, "bool", "string"]


def good_messages() -> dict[str, list[Tensor]]:
    messages: dict[str, list[Tensor]] = {"nothing": []}
    data: list[Any]
    for type_name in ALL_TYPES:
        data = extremes(type_name)
        messages[f"extremes-{type_name}"] = [Tensor("x", type_name, [len(data)], data)]
    messages["scalars"] = [Tensor(f"s {t}", t, [], extremes(t)[-1:]) for t in ALL_TYPES]
    messages["shapes"] = [
        Tensor("none", "float32", [0], []),
        Tensor("none either", "string", [3, 0], []),
        Tensor("row-major", "int16", [2, 3], [1, 2, 3, 4, 5, 6]),
        Tensor("ones", "uint8", [1, 1, 1], [7]),
    ]
    messages["dynamic"] = [
        Tensor("flag", "bool", [1], [True]),
        Tensor("nodes", "uint16", [3, 2], [1, 2, 3, 4, 5, 6], [DYNAMIC, 2], [3, 0]),
        Tensor("empty", "float64", [0, 4], [], [DYNAMIC, DYNAMIC]),
        Tensor("words", "string", [2], [b"ab", b"c"], [DYNAMIC], [9]),
        Tensor("last", "int8", [2], [-1, 1], [DYNAMIC]),
    ]
    messages["names"] = [Tensor('a "b"\n\\', "int8", [], [1]), Tensor("é😀", "int8", [], [2])]
    generator = random.Random(20)
    for number in range(4):
        tensors = []
        for k in range(6):
            type_name = generator.choice(ALL_TYPES)
            shape = [generator.randrange(4) for _ in range(generator.randrange(4))]
            declared = [DYNAMIC if generator.random() < 0.4 else length for length in shape]
            count = 1
            for length in shape:
                count *= length
            if type_name in FLOATS:
                size = struct.calcsize(FLOATS[type_name]) * 8
                data = [generator.getrandbits(size) for _ in range(count)]
            else:
                data = [generator.choice(extremes(type_name)) for _ in range(count)]
            tensors.append(Tensor(f"t{k}", type_name, shape, data, declared))
        messages[f"random-{number}"] = tensors
    return messages


def same_json() -> Same:
    """Messages that mean these tensors, but are not how the library writes them."""
    point = [Tensor("x", "float32", [2], [bits_of("float32", v) for v in (1.0, 0.25)])]
    both = [
        Tensor("a", "int64", [], [5]),
        Tensor("b", "uint8", [2], [7, 8], [DYNAMIC]),
        Tensor("c", "string", [], ["é😀".encode()]),
    ]
    halves = [Tensor("x", "float32", [3], [0x3F800000, 0x3F800001, 0x3F800000])]
    return {
        "white-space": (point, b' {\t"x" :\r\n[ 1 , 0.25 ] } \n'),
        "other-numbers": (point, b'{"x":[1.0e0,2500E-4]}'),
        "any-order": (
            both,
            rb'{"c":"\u00e9\ud83d\ude00","b":{"data":[7,8],"shape":[2]},"\u0061":5}',
        ),
        "rounded-once": (
            halves,  # at the middle of two floats, and just above and below it
            b'{"x":[1.000000059604644775390625,1.00000005960464477539062500000000000000001,'
            b"1.00000005960464477539062499999999999999999]}",
        ),
        "many-digits": (
            [Tensor("x", "float64", [1], [bits_of("float64", 0.061877368018031120300292968750)])],
            b'{"x":[0.061877368018031120300292968750]}',
        ),
    }


def bad_json() -> Bad:
    x = [{"name": "x", "type": "float32", "shape": [2]}]
    i8 = [{"name": "x", "type": "int8", "shape": [1]}]
    i64 = [{"name": "x", "type": "int64", "shape": []}]
    u64 = [{"name": "x", "type": "uint64", "shape": []}]
    text = [{"name": "x", "type": "string", "shape": []}]
    dynamic = [{"name": "x", "type": "float32", "shape": [DYNAMIC], "maximum": [4]}]
    endless = [{"name": "x", "type": "float32", "shape": [DYNAMIC, DYNAMIC]}]
    return {
        "empty": (x, b"", []),
        "cut": (x, b'{"x":[1,2', []),
        "not-an-object": (x, b"[1,2]", ["object"]),
        "missing": (x, b"{}", ["'x'", "missing"]),
        "twice": (x, b'{"x":[1,2],"x":[1,2]}', ["'x'", "twice"]),
        "unknown": (x, b'{"x":[1,2],"y":1}', ["'y'", "unknown"]),
        "after": (x, b'{"x":[1,2]}}', []),
        "too-few": (x, b'{"x":[1]}', ["'x'", "expected 2"]),
        "too-many": (x, b'{"x":[1,2,3]}', ["'x'", "expected 2"]),
        "nested": (x, b'{"x":[[1],[2]]}', ["'x' element 0"]),
        "null": (x, b'{"x":[1,null]}', ["'x' element 1", "null"]),
        "bare-nan": (x, b'{"x":[1,NaN]}', ["'x' element 1", "NaN"]),
        "nan-of-other-size": (x, b'{"x":[1,"NaN:7e01"]}', ["'x' element 1"]),
        "nan-that-is-none": (x, b'{"x":[1,"NaN:3f800000"]}', ["'x' element 1"]),
        "float32-overflow": (x, b'{"x":[1,3.5e38]}', ["'x' element 1", "3.5e38"]),
        "int8-overflow": (i8, b'{"x":[128]}', ["'x' element 0", "128"]),
        "int8-fraction": (i8, b'{"x":[1.5]}', ["'x' element 0", "1.5"]),
        "int8-exponent": (i8, b'{"x":[1e1]}', ["'x' element 0", "1e1"]),
        "int64-overflow": (i64, b'{"x":9223372036854775808}', ["'x'", "int64"]),
        "uint64-overflow": (u64, b'{"x":18446744073709551616}', ["'x'", "uint64"]),
        "uint64-negative": (u64, b'{"x":-1}', ["'x'", "uint64", "-1"]),
        "not-utf-8": (text, b'{"x":"\xff"}', []),
        "half-a-surrogate": (text, rb'{"x":"\ud800"}', ["'x'"]),
        "raw-control-character": (text, b'{"x":"\n"}', []),
        "no-shape": (dynamic, b'{"x":[1,2]}', ["'x'", "shape"]),
        "over-maximum": (
            dynamic, b'{"x":{"shape":[5],"data":[1,2,3,4,5]}}', ["'x'", "at most 4", "5"],
        ),
        "shape-and-data-differ": (
            dynamic, b'{"x":{"shape":[3],"data":[1,2]}}', ["'x'", "expected 3"],
        ),
        "endless": (endless, b'{"x":{"shape":[1073741824,1073741824],"data":[]}}', ["'x'"]),
        "large": (endless, b'{"x":{"shape":[65536,65536],"data":[]}}', ["'x'", "4294967296"]),
    }  # fmt: skip


def bad_bitstream() -> Bad:
    x = [{"name": "x", "type": "float32", "shape": [100]}]
    flags: list[dict[str, Any]] = [
        {"name": "a", "type": "bool", "shape": [1]},
        {"name": "b", "type": "bool", "shape": []},
    ]
    dynamic = [{"name": "x", "type": "float32", "shape": [DYNAMIC], "maximum": [4]}]
    endless = [{"name": "x", "type": "float32", "shape": [DYNAMIC, DYNAMIC]}]
    words = [{"name": "s", "type": "string", "shape": [2]}]
    many = [{"name": "s", "type": "string", "shape": [DYNAMIC]}]

    def numbers(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}Q", *values)

    return {
        "empty": (x, b"", ["'x'", "needs 400 bytes", "has 0 left"]),
        "cut": (x, bytes(399), ["'x'", "needs 400 bytes at offset 0", "has 399 left"]),
        "after": (x, bytes(401), ["offset 400", "401 bytes"]),
        "bool-2": (flags, b"\x02" + bytes(8), ["'a' element 0", "is 2"]),
        "padding": (flags, b"\x01\0\0\x09" + bytes(5), ["offset 3", "'b'", "is 9"]),
        "no-padding": (flags, b"\x01\x01", ["'b'", "offset 8"]),
        "no-length": (dynamic, bytes(7), ["'x'", "needs 8 bytes"]),
        "over-maximum": (dynamic, numbers(5) + bytes(20), ["'x'", "is 5", "at most 4"]),
        "negative": (endless, numbers(2**64 - 1, 1), ["'x'", "18446744073709551615"]),
        "endless": (endless, numbers(2**30, 2**30) + bytes(64), ["'x'", "1073741824"]),
        "large": (endless, numbers(2**16, 2**16) + bytes(64), ["'x'", "needs 17179869184 bytes"]),
        "2-to-the-60": (many, numbers(2**60), ["'s'", "1152921504606846976"]),
        "long-string": (words, numbers(1, 2**60) + b"ab", ["'s' element 1", "has 1 left"]),
        "cut-string": (words, numbers(1, 2) + b"ab", ["'s' element 1", "needs 2 bytes"]),
    }


def same_protobuf() -> Same:
    """Messages that mean these tensors, but are not how the library writes them."""
    point = Tensor("x", "float32", [2, 1], [bits_of("float32", v) for v in (1.0, 0.25)])
    words = Tensor("w", "string", [3], [b"ab", b"", b"\xff"], [DYNAMIC])
    name, kind = length_delimited(1, b"x"), protobuf_number(2, 10)
    shape, contents = length_delimited(3, b"\2\1"), length_delimited(4, point.raw())
    unknown = (
        protobuf_number(6, 2**64 - 1)
        + length_delimited(7, b"\0more")
        + varint(8 << 3 | 1)
        + bytes(8)
        + varint(16 << 3 | 5)
        + bytes(4)
        + varint(9 << 3 | 3)
        + protobuf_number(1, 1)
        + varint(9 << 3 | 4)
    )

    def one(*fields: bytes) -> bytes:
        return length_delimited(1, b"".join(fields))

    strings = [length_delimited(5, element) for element in words.data]
    head = length_delimited(1, b"w") + protobuf_number(2, 13)
    return {
        "any-order": ([point, words], to_protobuf([words, point])),
        "fields-in-any-order": ([point], one(contents, shape, kind, name)),
        "strings-between": (
            [words],
            one(strings[0], head, strings[1], protobuf_number(3, 3), strings[2]),
        ),
        "shape-not-packed": (
            [point],
            one(name, kind, protobuf_number(3, 2), protobuf_number(3, 1), contents),
        ),
        "shape-in-parts": (
            [point],
            one(name, length_delimited(3, b"\2"), kind, protobuf_number(3, 1), contents),
        ),
        "last-one-counts": (
            [point],
            one(
                length_delimited(1, b"y"),
                protobuf_number(2, 1),
                length_delimited(4, b"abc"),
                name,
                kind,
                shape,
                contents,
            ),
        ),
        "unknown-fields": (
            [point],
            unknown[len(protobuf_number(6, 2**64 - 1)) :]
            + one(unknown, name, kind, unknown, shape, contents)
            + protobuf_number(2, 1),
        ),
        # A known number with another wire type is an unknown field, too.
        "other-wire-types": (
            [point],
            protobuf_number(1, 5)
            + one(protobuf_number(1, 1), length_delimited(2, b"a"), name, kind, shape, contents),
        ),
        "long-varints": (
            [point],
            b"\x8a\0"
            + varint(len(name + shape + contents) + 5)
            + name
            + b"\x90\x80\0"
            + b"\x8a\0"
            + shape
            + contents,
        ),
    }


def bad_protobuf() -> Bad:
    x = [{"name": "x", "type": "float32", "shape": [2]}]
    flag = [{"name": "x", "type": "bool", "shape": [3]}]
    text = [{"name": "x", "type": "string", "shape": [2]}]
    dynamic = [{"name": "x", "type": "float32", "shape": [DYNAMIC], "maximum": [4]}]
    endless = [{"name": "x", "type": "float32", "shape": [DYNAMIC, DYNAMIC]}]
    words = [{"name": "x", "type": "string", "shape": [DYNAMIC]}]

    def tensor(
        kind: int, lengths: list[int], contents: bytes = b"", strings: int = 0, more: bytes = b""
    ) -> bytes:
        message = length_delimited(1, b"x") + protobuf_number(2, kind)
        message += length_delimited(3, b"".join(map(varint, lengths)))
        message += length_delimited(4, contents) if contents else b""
        return length_delimited(1, message + length_delimited(5, b"a") * strings + more)

    good = tensor(10, [2], bytes(8))
    return {
        "empty": (x, b"", ["'x'", "missing"]),
        "cut": (x, good[:-1], ["ends within a tensor", "offset 0"]),
        "twice": (x, good + good, ["'x'", "twice", f"offset {len(good)}"]),
        "unknown": (x, good + length_delimited(1, length_delimited(1, b"y")), ["'y'", "unknown"]),
        "no-name": (x, length_delimited(1, protobuf_number(2, 10)), ["unknown tensor ''"]),
        "name-not-utf-8": (x, length_delimited(1, length_delimited(1, b"\xff\n")), ["'??'"]),
        "no-type": (
            x,
            length_delimited(1, length_delimited(1, b"x") + length_delimited(4, bytes(8))),
            ["'x'", "expected float32", "element type 0"],
        ),
        "other-type": (x, tensor(3, [2], bytes(8)), ["'x'", "expected float32", "int32"]),
        "type-of-the-future": (x, tensor(2**40 + 10, [2], bytes(8)), ["'x'", "1099511627786"]),
        "no-shape": (x, tensor(10, [], bytes(8)), ["'x: float32", "shape"]),
        "other-shape": (x, tensor(10, [8], bytes(8)), ["'x: float32", "shape"]),
        "other-rank": (x, tensor(10, [2, 1], bytes(8)), ["'x: float32", "shape"]),
        "many-lengths": (x, tensor(10, [1] * 33, bytes(4)), ["32"]),
        "too-few": (x, tensor(10, [2], bytes(7)), ["'x'", "7 bytes", "expected 8"]),
        "too-many": (x, tensor(10, [2], bytes(9)), ["'x'", "9 bytes", "expected 8"]),
        "no-contents": (x, tensor(10, [2]), ["'x'", "0 bytes", "expected 8"]),
        "strings-of-numbers": (x, tensor(10, [2], bytes(8), 1), ["'x'", "1 strings"]),
        "contents-of-strings": (text, tensor(13, [2], b"ab", 2), ["'x'", "2 bytes"]),
        "too-few-strings": (text, tensor(13, [2], b"", 1), ["'x'", "1 strings", "expected 2"]),
        "too-many-strings": (text, tensor(13, [2], b"", 3), ["'x'", "3 strings", "expected 2"]),
        "bool-2": (flag, tensor(12, [3], b"\0\1\2"), ["'x' element 2", "is 2"]),
        "over-maximum": (dynamic, tensor(10, [5], bytes(20)), ["'x: float32", "shape"]),
        "negative": (dynamic, tensor(10, [-1]), ["'x: float32", "shape"]),
        "endless": (endless, tensor(10, [2**62, 2**62]), ["'x: float32", "too many elements"]),
        "large": (endless, tensor(10, [2**15, 2**15], bytes(64)), ["'x'", "expected 4294967296"]),
        "2-to-the-30-strings": (words, tensor(13, [2**30]), ["'x'", "1073741824"]),
        "field-beyond-the-tensor": (
            x,
            length_delimited(1, length_delimited(1, b"x") + b"\x22\x7f") + bytes(200),
            ["offset 0"],
        ),
        "long-varint": (x, length_delimited(1, b"\x10" + b"\xff" * 10 + b"\1"), ["offset 0"]),
        "field-0": (x, good + b"\2\0", [f"offset {len(good)}"]),
        "end-without-group": (x, good + b"\x4c", [f"offset {len(good)}"]),
        "group-without-end": (x, good + b"\x4b", [f"offset {len(good)}"]),
        "deep-groups": (x, good + b"\x4b" * 5000 + b"\x4c" * 5000, [f"offset {len(good)}"]),
        "wire-type-7": (x, good + b"\x17", [f"offset {len(good)}"]),
    }


# How each serdes writes tensors; messages that mean tensors but that it would write otherwise; and
# messages that it refuses.
FORMATS: dict[str, tuple[Callable[[list[Tensor]], bytes], Same, Bad]] = {
    "json": (to_json, same_json(), bad_json()),
    "bitstream": (to_bitstream, {}, bad_bitstream()),
    "protobuf": (to_protobuf, same_protobuf(), bad_protobuf()),
}


def make() -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    cases: list[dict[str, Any]] = []

    def add(name: str, serdes: str, message: bytes, **more: Any) -> None:
        file = f"{name}.{serdes}"
        assert file not in files
        files[file] = message
        cases.append({"file": file, "serdes": serdes} | more)

    for name, tensors in good_messages().items():
        meaning = {"specs": [t.spec() for t in tensors], "values": [t.value() for t in tensors]}
        for serdes, (write, _, _) in FORMATS.items():
            add(f"good-{name}", serdes, write(tensors), canonical=True, **meaning)
    for serdes, (_, same, _) in FORMATS.items():
        for name, (tensors, message) in same.items():
            meaning = {"specs": [t.spec() for t in tensors], "values": [t.value() for t in tensors]}
            add(f"good-{name}", serdes, message, canonical=False, **meaning)
    for serdes, (_, _, bad) in FORMATS.items():
        for name, (specs, message, mentions) in bad.items():
            add(f"bad-{name}", serdes, message, specs=specs, mentions=mentions)
    lines = ",\n".join(json.dumps(case) for case in cases)
    files["index.json"] = f'{{"cases": [\n{lines}\n]}}\n'.encode()
    return files


def main() -> int:
    files = make()
    if "--check" in sys.argv[1:]:
        present = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
        different = sorted(n for n in files | present if files.get(n) != present.get(n))
        print(f"{len(files)} files, different: {', '.join(different) or 'none'}")
        return 1 if different else 0
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for name, content in files.items():
        (FOLDER / name).write_bytes(content)
    print(f"{len(files)} files in {FOLDER.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
