# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libmlbridge-c.so: what it exports is what symbols.txt says, and Python's ctypes can use it."""

from __future__ import annotations

import ctypes
import subprocess
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path

import pytest
from headers import ROOT, c_functions, constants

LIBRARY = ROOT / "build" / "cmake" / "dev" / "lib" / "libmlbridge-c.so"
SYMBOLS = Path(__file__).parent / "symbols.txt"
FLOAT32 = 10
OK, POLICY_FAILED, INVALID_ARGUMENT, NOT_FOUND = 0, 5, 7, 10


def test_exported_symbols_are_those_of_the_list() -> None:
    """A name may be added to symbols.txt; taking one away breaks programs."""
    done = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True
    )
    found = {line.split()[-1] for line in done.stdout.splitlines()}
    versions = {name for name in found if name.startswith("MLBRIDGE_C_")}
    exported = sorted(name.partition("@@")[0] for name in found - versions)
    assert exported == SYMBOLS.read_text().split()


def test_the_list_is_that_of_the_headers() -> None:
    assert SYMBOLS.read_text().split() == sorted(f.name for f in c_functions())


def test_constants_are_those_of_the_list() -> None:
    """A constant may be added to constants.txt; a program has the number of each compiled in."""
    lines = (Path(__file__).parent / "constants.txt").read_text().splitlines()
    assert lines == [f"{name} {number}" for name, number in sorted(constants().items())]


class TensorSpec(Structure):
    _fields_ = (
        ("size", c_uint64),
        ("name", c_char_p),
        ("type", c_uint32),
        ("rank", c_uint32),
        ("shape", c_void_p),
        ("maximum", c_void_p),
    )


class Signature(Structure):
    _fields_ = (
        ("size", c_uint64),
        ("inputs", POINTER(TensorSpec)),
        ("inputs_size", c_uint64),
        ("outputs", POINTER(TensorSpec)),
        ("outputs_size", c_uint64),
    )


class FunctionModel(Structure):
    _fields_ = (
        ("size", c_uint64),
        ("signature", POINTER(Signature)),
        ("function", c_void_p),
        ("data", c_void_p),
        ("metadata", POINTER(c_char_p)),
        ("metadata_size", c_uint64),
    )


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """Opened with dlopen, its symbols local."""
    found = ctypes.CDLL(str(LIBRARY))
    pointers = "mlbridge_open mlbridge_model_open mlbridge_runner_output mlbridge_call_input"
    for name in [*pointers.split(), "mlbridge_call_output"]:
        getattr(found, name).restype = c_void_p
    for name in ("mlbridge_runner_message", "mlbridge_model_message", "mlbridge_code_name"):
        getattr(found, name).restype = c_char_p
    return found


def outputs(library: ctypes.CDLL, runner: c_void_p, name: bytes) -> list[float]:
    count = c_uint64()
    address = library.mlbridge_runner_output(runner, name, FLOAT32, ctypes.byref(count))
    assert address, library.mlbridge_runner_message(runner)
    return list((c_float * count.value).from_address(address))


def test_a_network_is_evaluated(library: ctypes.CDLL) -> None:
    """golden/onnx/linear.onnx by the library's own engine: y = x · w + b."""
    file = ROOT / "tests" / "golden" / "onnx" / "linear.onnx"
    runner = c_void_p(library.mlbridge_open(f"native:{file}".encode(), None, None))
    x = (c_float * 4)(1, 10, 100, 1000)
    assert library.mlbridge_runner_set(runner, b"x", FLOAT32, x, c_uint64(4)) == OK
    assert library.mlbridge_runner_evaluate(runner) == OK, library.mlbridge_runner_message(runner)
    assert outputs(library, runner, b"y") == [4321.5]
    library.mlbridge_runner_destroy(runner)


def test_a_python_function_is_a_model(library: ctypes.CDLL) -> None:
    def double(call: int, data: int | None) -> int:
        count = c_uint64()
        source = library.mlbridge_call_input(c_void_p(call), b"x", FLOAT32, ctypes.byref(count))
        target = library.mlbridge_call_output(c_void_p(call), b"y", FLOAT32, None)
        if not source or not target:
            return int(library.mlbridge_call_fail(c_void_p(call), POLICY_FAILED, b"no x"))
        c_float.from_address(target).value = 2 * c_float.from_address(source).value
        return OK

    callback = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)(double)
    x_spec = TensorSpec(ctypes.sizeof(TensorSpec), b"x", FLOAT32)
    y_spec = TensorSpec(ctypes.sizeof(TensorSpec), b"y", FLOAT32)
    signature = Signature(
        ctypes.sizeof(Signature), ctypes.pointer(x_spec), 1, ctypes.pointer(y_spec), 1
    )
    model = FunctionModel(
        ctypes.sizeof(FunctionModel), ctypes.pointer(signature), ctypes.cast(callback, c_void_p)
    )
    register = library.mlbridge_register_function
    assert register(b"from-ctypes", ctypes.byref(model), None, c_uint64(0)) == OK
    assert register(b"from-ctypes", ctypes.byref(model), None, c_uint64(0)) == INVALID_ARGUMENT

    runner = c_void_p(library.mlbridge_open(b"function:from-ctypes", None, None))
    x, answer = c_float(21), c_float()
    assert library.mlbridge_runner_set(runner, b"x", FLOAT32, ctypes.byref(x), c_uint64(1)) == OK
    assert library.mlbridge_evaluate_float(runner, ctypes.byref(answer)) == OK
    assert answer.value == 42
    library.mlbridge_runner_destroy(runner)


def test_failures_are_codes_and_messages(library: ctypes.CDLL) -> None:
    library.mlbridge_c_version.restype = c_uint32
    assert library.mlbridge_c_version() >= 1
    model = c_void_p(library.mlbridge_model_open(b"native:/nowhere/x.onnx", None))
    assert library.mlbridge_model_code(model) == NOT_FOUND
    assert b"/nowhere/x.onnx" in library.mlbridge_model_message(model)
    assert library.mlbridge_code_name(NOT_FOUND) == b"not found"
    library.mlbridge_model_close(model)
