# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheels of all distributions: what each holds and says of itself."""

from __future__ import annotations

import re
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from pathlib import Path

import packing
import pytest
from building import ROOT, run
from descriptions import plugins

WHEELS = ROOT / "build/wheels"
MIB = 1 << 20
OURS = "Apache-2.0 WITH LLVM-exception"
NAMES = ("", *(f"_{name}" for name in packing.ADD_ONS), "_compat")
#: The files of those that hold plugins or components.
FILES = {f"_{name}": files for name, files in plugins().items()} | {
    "_grpc": {
        "components/libmlbridge-serdes-protobuf.so",
        "components/libmlbridge-transport-grpc.so",
    }
}
FILES["_gcc12"] |= {"plugins/libmlbridge-c.so.0"}
FILES["_llvm22"] |= {"plugins/mlbridge-multiversioning.so"}  # which asks no model


@dataclass
class Wheel:
    """A wheel: its file, the files in it, and its metadata."""

    file: Path
    files: set[str]
    metadata: Message

    def text(self, name: str) -> str:
        (found,) = [file for file in self.files if file.endswith(f".dist-info/{name}")]
        return zipfile.ZipFile(self.file).read(found).decode()


def read(name: str) -> Wheel:
    (file,) = WHEELS.glob(f"ml_compiler_bridge{name}-*.whl")
    wheel = Wheel(file, set(zipfile.ZipFile(file).namelist()), Message())
    wheel.metadata = message_from_string(wheel.text("METADATA"))
    return wheel


@pytest.mark.parametrize("name", FILES)
def test_an_add_on_holds_these_files(name: str) -> None:
    files = {file for file in read(name).files if ".dist-info/" not in file}
    assert files == {f"mlbridge/{file}" for file in (*FILES[name], f"{name[1:]}.md")}


def test_no_file_is_in_two_wheels() -> None:
    counts = Counter(file for name in NAMES for file in read(name).files)
    assert [file for file, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_metadata_is_complete(name: str) -> None:
    wheel = read(name)
    said = wheel.metadata
    assert said["Name"] == f"ml-compiler-bridge{name.replace('_', '-')}"
    assert said["Author"] == "The MLBridge authors"
    for key in ("Summary", "Keywords", "Requires-Python", "License-Expression"):
        assert said[key], key
    assert said["Description-Content-Type"] == "text/markdown" and said.get_payload()
    assert {"Development Status", "Intended Audience", "Operating System", "Topic"} <= {
        classifier.partition(" :: ")[0] for classifier in said.get_all("Classifier", [])
    }
    for file in said.get_all("License-File", []):
        assert wheel.text(f"licenses/{file}")
    assert "Apache License" in wheel.text("licenses/LICENSE")


@pytest.mark.parametrize("name", NAMES)
def test_the_licence(name: str) -> None:
    wheel = read(name)
    if name == "_gcc12":
        assert wheel.metadata["License-Expression"] == f"GPL-3.0-or-later AND ({OURS})"
        assert "GNU GENERAL PUBLIC LICENSE" in wheel.text("licenses/COPYING")
    else:
        assert wheel.metadata["License-Expression"] == OURS


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small(name: str) -> None:
    limit = 4 * MIB if name == "" else 6 * MIB
    assert read(name).file.stat().st_size <= limit


@pytest.mark.parametrize("name", [name for name in NAMES if name])
def test_it_is_for_the_library_of_its_version_and_any_python(name: str) -> None:
    wheel = read(name)
    version = wheel.metadata["Version"]
    minor = version.rpartition(".")[0]
    assert wheel.metadata.get_all("Requires-Dist", [])[0] == f"ml-compiler-bridge=={minor}.*"
    tag = "py3-none-any" if name == "_compat" else "py3-none-linux_"
    assert f"-{version}-{tag}" in wheel.file.name


def test_extras_install_the_others_in_the_same_version() -> None:
    said = read("").metadata
    needs = "\n".join(said.get_all("Requires-Dist", []))
    minor = said["Version"].rpartition(".")[0]
    for name, of in (
        *(("clang22", "llvm22"), ("clang19", "llvm19"), ("mlir22", "mlir22")),
        *(("gcc12", "gcc12"), ("grpc", "grpc"), ("compat", "compat")),
    ):
        assert f"ml-compiler-bridge-{of}=={minor}.* ; extra == '{name}'" in needs.replace(
            '"', "'"
        ).replace("; extra", " ; extra").replace("  ;", " ;")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_compiled_is_stripped(name: str, tmp_path: Path) -> None:
    wheel = read(name)
    with zipfile.ZipFile(wheel.file) as packed:
        for file in sorted(file for file in wheel.files if re.search(r"\.so(\.\d+)?$", file)):
            sections = run("readelf", "--sections", "--wide", packed.extract(file, tmp_path))
            assert ".symtab" not in sections and ".debug" not in sections, file


def test_parts_in_several_places_are_found(wheel: Path, tmp_path: Path) -> None:
    """As where the library is the system's, and plugins and components are the user's."""
    places = [tmp_path / "system", tmp_path / "user", tmp_path / "my own"]
    for place, name in zip(places, ("", "_llvm22", "_grpc"), strict=True):
        with zipfile.ZipFile(read(name).file) as packed:
            packed.extractall(place)
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "import mlbridge\n"
        "from mlbridge import _core, files\n"
        "print(files.plugin('inliner'), files.find_component('transport', 'grpc'), sep='\\n')\n"
        "print(*_core._component_names('transport'), *_core._component_names('engine'))"
    )
    said = run(sys.executable, "-c", code, *reversed(places), cwd=tmp_path).splitlines()
    assert said == [
        f"{places[1]}/mlbridge/plugins/mlbridge-inliner.so",
        f"{places[2]}/mlbridge/components/libmlbridge-transport-grpc.so",
        "grpc onnx",
    ]
