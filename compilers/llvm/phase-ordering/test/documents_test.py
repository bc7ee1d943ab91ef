# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What README.md says of the features and options is what the source says."""

from __future__ import annotations

import json
import re

from stock import ROOT, Compiler

from mlbridge.cli.request import IN_OBJECTS

HERE = ROOT / "compilers/llvm/phase-ordering"
README = (HERE / "README.md").read_text()


def test_the_table_of_features_is_the_sources() -> None:
    header = (HERE / "ir_features.h").read_text()
    source = (HERE / "ir_features.cpp").read_text()
    (counts,) = re.findall(r"enum class Count : unsigned {(.*?)};", header, re.DOTALL)
    names = re.findall(r"\w+", counts)
    for listed in ("Changes", "Densities", "LastSteps"):
        (body,) = re.findall(rf"{listed}\[\] = {{(.*?)}};", source, re.DOTALL)
        names += re.findall(r"Count::(\w+)", body)
    (table,) = re.findall(r"<!-- features -->(.*?)<!-- /features -->", README, re.DOTALL)
    assert re.findall(r"(\d+)\s(\w+)", table) == [(str(i), n) for i, n in enumerate(names)]
    assert f"| `features` | float32[{len(names)}] |" in README


def test_the_table_of_options_is_the_plugins(compiler: Compiler) -> None:
    told = compiler.run("opt", f"-load-pass-plugin={compiler.plugin}", "-help-hidden").stdout
    options = re.findall(r"^ +--(phase-ordering-[a-z-]+)", told, re.MULTILINE)
    assert len(options) == 15
    table = re.findall(r"^\| `-(phase-ordering-[a-z-]+)[=`]", README, re.MULTILINE)
    assert sorted(table) == sorted(options)


def test_the_built_in_actions_are_small_groups() -> None:
    actions = json.loads((HERE / "actions.json").read_text())["actions"]
    assert f"then {len(actions) - 34} more groups" in " ".join(README.split())
    for action in actions:
        # Names before a comma, a closing parenthesis or the end are passes; the others nest them.
        passes = re.findall(r"[a-z0-9-]+(?:<[^>]*>)?(?=[,)]|$)", action["passes"])
        assert 1 <= len(passes) <= 15, action["name"]
        assert "default<" not in action["passes"] and "attributor" not in action["passes"]
        assert "instcombine" not in passes, "verifies its fixpoint and aborts"


def test_objects_may_name_what_the_command_lets_them() -> None:
    source = (HERE / "options.cpp").read_text()
    (listed,) = re.findall(r"StringLiteral Data\[\] = {(.*?)};", source, re.DOTALL)
    assert re.findall(r'"(\w+)"', listed) == list(IN_OBJECTS)
