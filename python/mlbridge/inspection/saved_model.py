# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a TensorFlow SavedModel says, without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .report import Report
from .wire import fields, signed, text

FILE = "saved_model.pb"
# DataType of TensorFlow
TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    7: "string",
    9: "int64",
    10: "bool",
    14: "bfloat16",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
USUAL = "serving_default"
INITIALIZER = "__saved_model_init_op"


def entries(payload: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    """Keys and values of a map."""
    for f in fields(payload):
        if f.number == number:
            entry = {e.number: e.payload for e in fields(f.payload)}
            yield text(entry.get(1, b"")), entry.get(2, b"")


def tensor(name: str, info: bytes) -> str:
    kind, shape, known = 0, [], True
    for f in fields(info):
        if f.number == 2:
            kind = f.value
        for d in fields(f.payload) if f.number == 3 else ():
            if d.number == 2:
                shape.append(next((signed(e.value) for e in fields(d.payload) if e.number == 1), 0))
            known &= d.number != 3
    lengths = ", ".join("?" if n < 0 else str(n) for n in shape) if known else "..."
    return f"{name}: {TYPES.get(kind, f'type {kind}')}" + (f"[{lengths}]" if lengths else "")


def read_saved_model(folder: str, report: Report) -> None:
    """Fills in what the folder says. Errors: InvalidModel, OSError."""
    report.format = "TensorFlow SavedModel"
    data = Path(folder, FILE).read_bytes()
    for f in fields(data):
        for g in fields(f.payload) if f.number == 2 else ():
            if g.number == 2:
                count_operators(g.payload, report)
        for key, definition in entries(f.payload, 5) if f.number == 2 else ():
            inputs = sorted(tensor(*entry) for entry in entries(definition, 1))
            outputs = sorted(tensor(*entry) for entry in entries(definition, 2))
            if key != INITIALIZER:
                report.signatures[key] = f"({', '.join(inputs)}) -> ({', '.join(outputs)})"
    first = next(iter(report.signatures.values()), None)
    report.signature = report.signatures.get(USUAL, first)
    report.file_bytes = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file())
    report.embedded = "the machine code and weights that TensorFlow's compiler makes (tfaot)"


def count_operators(graph: bytes, report: Report) -> None:
    for f in fields(graph):
        if f.number == 1:
            count(f.payload, report)
        for function in fields(f.payload) if f.number == 2 else ():
            for n in fields(function.payload) if function.number == 1 else ():
                if n.number == 3:
                    count(n.payload, report)


def count(node: bytes, report: Report) -> None:
    report.operators[next((text(f.payload) for f in fields(node) if f.number == 2), "")] += 1
