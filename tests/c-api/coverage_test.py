# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What C++ programs can do, C programs can: covered.toml against the headers.

Writes build/test/c-api.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tomllib
from headers import ROOT, Function, c_functions, cxx_functions

MAPPING = Path(__file__).parent / "covered.toml"
REPORT = ROOT / "build" / "test" / "c-api.json"


@dataclass
class Coverage:
    """Each C++ function is in one of the first three."""

    covered: dict[str, list[str]] = field(default_factory=dict)
    not_needed: dict[str, str] = field(default_factory=dict)
    without_entry: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def judge(mapping: dict[str, Any], cxx: Iterable[Function], c: Iterable[Function]) -> Coverage:
    known = {f.name for f in c}
    entries: dict[str, list[str] | str] = dict(mapping["covered"])
    result = Coverage()
    for group in mapping["not_needed"]:
        for name in group["functions"]:
            if name in entries:
                result.wrong.append(f"{name} stands twice")
            entries[name] = group["reason"]

    used = set()
    for function in cxx:
        scope = function.name.rpartition("::")[0]
        keys = [k for k in (str(function), function.name, f"{scope}::*") if k in entries]
        if not keys:
            result.without_entry.append(f"{function.header}: {function}")
            continue
        used.add(keys[0])
        entry = entries[keys[0]]
        if isinstance(entry, str):
            result.not_needed[str(function)] = entry
        else:
            result.covered[str(function)] = entry
    result.wrong += [f"{name} is no C++ function" for name in entries if name not in used]

    named = {name for names in mapping["covered"].values() for name in names}
    named |= {name for group in mapping["c_only"] for name in group["functions"]}
    result.wrong += [f"{name} is no C function" for name in sorted(named - known)]
    result.wrong += [f"{name} covers nothing" for name in sorted(known - named)]
    return result


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    c = c_functions()
    found = judge(tomllib.loads(MAPPING.read_text()), cxx_functions(), c)
    report = {
        "cxx_functions": len(found.covered) + len(found.without_entry),
        "covered_from_c": len(found.covered),
        "c_functions": len(c),
        "uncovered": found.without_entry,
        "not_needed": [{"function": f, "reason": r} for f, r in found.not_needed.items()],
    }
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    return found


def test_every_function_has_one_in_c_or_a_reason(coverage: Coverage) -> None:
    assert not coverage.without_entry, "\n".join(coverage.without_entry)
    assert len(coverage.covered) > 100 and all(coverage.not_needed.values())


def test_the_mapping_names_what_exists_and_all_of_it(coverage: Coverage) -> None:
    assert not coverage.wrong, "\n".join(coverage.wrong)


def test_what_is_missing_is_seen() -> None:
    """The check itself: a function without an entry, a name that is wrong, one that is unused."""
    mapping = {
        "covered": {"A::f(int)": ["a_f"], "A::gone": ["a_none"]},
        "not_needed": [{"reason": "moves", "functions": ["A::operator="]}],
        "c_only": [],
    }
    cxx = [
        Function("A::f", "int", "a.h"),
        Function("A::f", "long", "a.h"),
        Function("A::operator=", "A &&", "a.h"),
    ]
    found = judge(mapping, cxx, [Function("a_f", "int", "c.h"), Function("a_extra", "", "c.h")])
    assert found.covered == {"A::f(int)": ["a_f"]}
    assert found.not_needed == {"A::operator=(A &&)": "moves"}
    assert found.without_entry == ["a.h: A::f(long)"]
    assert found.wrong == [
        "A::gone is no C++ function",
        "a_none is no C function",
        "a_extra covers nothing",
    ]


def test_the_parser_sees_what_the_headers_have() -> None:
    functions = {str(f) for f in cxx_functions()}
    assert "Runner::evaluate()" in functions and "Runner::evaluate(Deadline)" in functions
    assert "Span::size()" in functions and "TensorSpec::operator==" in {
        f.name for f in cxx_functions()
    }
    assert not [f for f in functions if "setElements" in f], "private"
    assert "mlbridge_runner_evaluate" in {f.name for f in c_functions()}
