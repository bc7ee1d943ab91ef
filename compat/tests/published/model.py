# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model as users of the 2024 release wrote it: model.py MODULE WHAT FORMAT PIPE

MODULE is the package of PyPI or ours; nothing else differs.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from typing import Any

module, what, data_format, pipe_name = sys.argv[1:]
CI = importlib.import_module(module)

expected: list[Any] = [
    11,
    1234567890,
    3.14,
    0.123456789123456789,
    ord("a"),
    True,
    [11, 22, 33],
    [123456780, 222, 333],
    [11.1, 22.2, 33.3],
    [-1.1111111111, -2.2222222222, -3.3333333333],
]
json_advice: list[Any] = [
    12,
    ctypes.c_long(12345),
    4.14,
    ctypes.c_double(1.123456789123456789),
    ord("b"),
    False,
    [12, 23, 34],
    [ctypes.c_long(123456780), ctypes.c_long(123456781), ctypes.c_long(123456782)],
    [1.11, 2.22, -3.33, 0],
    [ctypes.c_double(1.12345678912345670), ctypes.c_double(-1.12345678912345671)],
]
bytes_advice = list(json_advice)
bytes_advice[1] = ctypes.c_long(1234567891)
bytes_advice[8] = [1.11, 2.22, -3.33, 0.0]


def flat(data: Any) -> Any:
    if data_format == "json":
        return data[next(iter(data))]
    values = list(data[0])
    return values[0] if len(values) == 1 else values


def check(want: Any, got: Any) -> None:
    if isinstance(want, list):
        assert len(want) == len(got), (want, got)
        assert all(abs(w - g) < 1e-5 for w, g in zip(want, got, strict=True)), (want, got)
    else:
        assert abs(want - got) < 1e-5, (want, got)


def types() -> None:
    interface = CI.PipeCompilerInterface(data_format, pipe_name)
    print("ready", flush=True)
    interface.reset_pipes()
    advice = json_advice if data_format == "json" else bytes_advice
    for want, answer in zip(expected, advice, strict=True):
        check(want, flat(interface.evaluate()))
        interface.populate_buffer(answer)
    data = interface.evaluate()
    if data_format == "json":
        assert data == {
            "request_text": 'näme "quoted"\n',
            "request_flags": [True, False, True],
            "request_large": 1 << 53,
        }, data
    else:
        by_name = {tensor.spec().name: list(tensor) for tensor in data}
        assert by_name == {
            "request_text": list('näme "quoted"\n'.encode()),
            "request_flags": [1, 0, 1],
            "request_large": [1 << 53],
        }, by_name
    interface.populate_buffer(42)
    interface.evaluate(mode="exit")


def episode() -> None:
    interface = CI.PipeCompilerInterface(data_format, pipe_name)
    print("ready", flush=True)
    interface.reset_pipes()
    actions = [7, 3, 7, 0, -1]
    seen = [0.5] * 300
    while True:
        data = interface.evaluate()
        embedding = data["embedding"] if data_format == "json" else list(data[0])
        assert list(embedding) == seen
        action = actions.pop(0)
        interface.populate_buffer(action)
        if action == -1:
            interface.evaluate(mode="exit")
            break
        seen[action] += 1


def pluto() -> None:
    interface = CI.PipeCompilerInterface(data_format, pipe_name)
    print("ready", flush=True)
    interface.reset_pipes()
    assert list(flat(interface.evaluate())) == [0, 0.5, 1, 1.5, 2]
    interface.populate_buffer(4)
    assert list(flat(interface.evaluate())) == [1, 2, 3]
    interface.populate_buffer(0.25)
    interface.evaluate(mode="exit")


{"types": types, "episode": episode, "pluto": pluto}[what]()
print("good", flush=True)
