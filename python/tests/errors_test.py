# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python names of errors agree with the C++ library and with Python's own families."""

from __future__ import annotations

import pytest

import mlbridge
from mlbridge import _core, errors


def test_codes_and_next_steps_are_those_of_the_library() -> None:
    codes = _core._codes()
    assert [number for number, _, _ in codes] == [int(code) for code in mlbridge.Code]
    for number, name, step in codes:
        status = mlbridge.Status(mlbridge.Code(number), "why")
        assert status.code.name.lower().replace("_", " ") == name
        assert status.next_step.value == step


def test_every_code_has_an_exception() -> None:
    for code in mlbridge.Code:
        if code is mlbridge.Code.OK:
            continue
        error = errors._error(int(code), "the text")
        assert error.code is code
        assert error.message == str(error) == "the text"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("DeadlineExceeded", TimeoutError),
        ("Unavailable", ConnectionError),
        ("Closed", ConnectionError),
        ("InvalidArgument", ValueError),
        ("Mismatch", ValueError),
        ("NotFound", FileNotFoundError),
        ("PolicyFailed", RuntimeError),
    ],
)
def test_exceptions_belong_to_the_usual_families(name: str, family: type[Exception]) -> None:
    cls = getattr(mlbridge, name)
    assert issubclass(cls, family)
    assert issubclass(cls, mlbridge.Error)


def test_the_package_names_what_it_has() -> None:
    for name in mlbridge.__all__:
        assert getattr(mlbridge, name) is not None
    with pytest.raises(AttributeError, match="no_such"):
        mlbridge.no_such  # noqa: B018
