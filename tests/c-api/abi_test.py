# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What programs were compiled with is still there: the C interface, the tables of components and of
compiled networks, compared with those of the last release (tools/abi-dump) by abidiff."""

from __future__ import annotations

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import abi_dump
import pytest
from building import ROOT
from once import SharedBuild

(RELEASE,) = Path(__file__).parent.glob("*.abi")
GROWN = Path(__file__).parent / "grown.abignore"
INCLUDE = ROOT / "include"


@pytest.fixture(scope="session")
def present(shared_build: SharedBuild) -> Path:
    """The library and its objects."""
    return shared_build("c-abi", abi_dump.build)


def growing() -> list[str]:
    """The structures that begin with their size, which may get fields at their end."""
    found = []
    for struct in ET.parse(RELEASE).iter("class-decl"):
        first = struct.find("data-member/var-decl")
        if first is not None and first.get("name") == "size":
            found.append(str(struct.get("name")))
    return sorted(set(found))


def differences(library: Path, grown: Path = GROWN) -> str:
    """What abidiff has against the library; "" for nothing. More functions are no difference."""
    command: list[str | Path] = [
        "abidiff",
        "--no-architecture",
        "--no-added-syms",
        "--suppressions",
        grown,
    ]
    done = subprocess.run(
        [*command, RELEASE, library], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode in (0, 4, 8, 12), done.stderr
    return done.stdout if done.returncode else ""


def test_nothing_is_missing_or_otherwise(present: Path) -> None:
    found = differences(present / "libmlbridge-c.so")
    assert not found, f"{found}\nIf a structure has grown at its end, it belongs in {GROWN}"


def test_what_has_grown_says_its_size() -> None:
    names = growing()
    assert {"mlb_component", "mlb_engine", "mlb_serdes", "mlb_transport"} <= set(names)
    assert {"mlb_aot_model", "mlbridge_open_options", "mlbridge_tensor_spec"} <= set(names)
    assert not {"mlb_string", "mlb_tensor", "mlbridge_call_context"} & set(names)
    assert set(re.findall(r"(?m)^ *name *= *(.*)$", GROWN.read_text())) <= set(names)


MAY_GROW = """[suppress_type]
  name = mlb_engine
  has_data_member_inserted_at = end
  has_size_change = yes
"""


def changed(present: Path, folder: Path, file: str, old: str, new: str, source: str) -> str:
    """`differences` of a library with one change, in a file and the one source that shows it."""
    include = folder / "include"
    shutil.copytree(INCLUDE, include)
    shutil.copy(ROOT / "src" / "c" / source, folder / source)
    path = folder / file
    text = path.read_text()
    assert text.count(old) == 1, (file, old)
    path.write_text(text.replace(old, new))
    fresh = folder / "changed.o"
    abi_dump.compile_source(folder / source, fresh, include)
    others = [o for o in present.glob("*.o") if o.stem != Path(source).stem]
    library = folder / "libmlbridge-c.so"
    abi_dump.link([*others, fresh], library)
    grown = folder / "grown"
    grown.write_text(GROWN.read_text() + MAY_GROW)
    return differences(library, grown)


@pytest.mark.parametrize(
    ("file", "old", "new", "source", "expected"),
    [
        pytest.param(
            *("values.cpp", "uint32_t mlbridge_c_version(void)", "uint32_t other(void)"),
            *("values.cpp", r"1 Removed function.*\n.*\n.*mlbridge_c_version"),
            id="a function is removed",
        ),
        pytest.param(
            *("include/mlbridge/c/function.h", "  void *data;", "  int inserted;\n  void *data;"),
            *("function.cpp", r"mlbridge_function_model'(?s:.*)'int inserted', at offset"),
            id="a field is inserted",
        ),
        pytest.param(
            *("include/mlbridge/component.h", "  void (*destroy)(void *codec); /* once */", ""),
            *("function.cpp", r"struct mlb_serdes'(?s:.*)1 data member deletion"),
            id="a function of a component's table is removed",
        ),
        pytest.param(
            *("include/mlbridge/aot.h", "uint64_t workspace_size;", "uint32_t workspace_size;"),
            *("function.cpp", r"mlb_aot_model'(?s:.*)workspace_size"),
            id="a field of a compiled network's table has another type",
        ),
        pytest.param(
            *("include/mlbridge/component.h", "} mlb_string;", "  int language;\n} mlb_string;"),
            *("function.cpp", r"struct mlb_string'(?s:.*)'int language', at offset"),
            id="a structure without its size grows",
        ),
        pytest.param(
            *("include/mlbridge/component.h", "} mlb_engine;", "  int more;\n} mlb_engine;"),
            *("function.cpp", ""),
            id="a table grows that is listed",
        ),
        pytest.param(
            *("include/mlbridge/component.h", "} mlb_serdes;", "  int more;\n} mlb_serdes;"),
            *("function.cpp", r"mlb_serdes'(?s:.*)'int more', at offset"),
            id="a table grows that is not listed",
        ),
        pytest.param(
            *("function.cpp", 'extern "C" {', 'extern "C" {\nint mlbridge_more() { return 0; }'),
            *("function.cpp", ""),
            id="a function is added",
        ),
    ],
)
def test_changes(
    present: Path, tmp_path: Path, file: str, old: str, new: str, source: str, expected: str
) -> None:
    """The check itself: changes that break programs are seen, additions are allowed."""
    found = changed(present, tmp_path, file, old, new, source)
    assert re.search(expected, found) if expected else not found, found
