# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""debian/ agrees with the tree. `make nightly` builds the packages and tries them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import debian_packages
import pytest
import tomllib
from building import DEV, ROOT, run

from mlbridge import files
from mlbridge.optimizations import OPTIMIZATIONS

RULES = (ROOT / "debian/rules").read_text()
CONTROL = (ROOT / "debian/control").read_text()
PACKAGES = set(re.findall(r"^Package: (\S+)", CONTROL, re.MULTILINE))
COMPILERS = set(re.findall(r"foreach compiler,([^,]+),", RULES)[0].split())
#: The components of CMake's installation that packages have.
COMPONENTS = {*re.findall(r"call install,(\w+),", RULES), *COMPILERS}


def test_the_version_is_the_projects() -> None:
    first = (ROOT / "debian/changelog").read_text().splitlines()[0]
    assert first.startswith(f"mlbridge ({version('ml-compiler-bridge')}-"), first


def test_the_python_package_has_all_of_its_files(tmp_path: Path) -> None:
    site, libraries = "site", "lib"
    plugins = tmp_path / site / "mlbridge" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "list.json").write_text("{}")
    root = os.path.relpath(tmp_path, ROOT)  # as debian/rules gives it
    run("debian/python-package", root, site, libraries, "1", cwd=ROOT)
    package = ROOT / "python" / "mlbridge"
    for path in (
        *package.rglob("*.py"),
        *(package / "report").glob("page.*"),
        package / "py.typed",
    ):
        assert (tmp_path / site / path.relative_to(package.parent)).is_file(), path
    assert (tmp_path / site / "mlbridge/report/treemap.json").is_file()


def test_every_installed_file_is_in_one_package(tmp_path: Path) -> None:
    scripts = DEV.rglob("cmake_install.cmake")
    found = {
        name for s in scripts for name in re.findall(r'COMPONENT STREQUAL "(\S+)"', s.read_text())
    }
    assert found <= COMPONENTS, "debian/rules installs no such component of CMake"
    owners: dict[Path, str] = {}
    for name in sorted(found):
        folder = tmp_path / name
        run("cmake", "--install", DEV, "--component", name, "--prefix", folder)
        for file in (f.relative_to(folder) for f in folder.rglob("*") if not f.is_dir()):
            assert file not in owners, f"{file} is in {owners[file]} and in {name}"
            owners[file] = name
    assert {"development", "runtime", "components"} <= set(owners.values())


def test_every_compiler_has_a_package() -> None:
    wanted = set()
    for file in (ROOT / "compilers").rglob("optimization.toml"):
        for one in tomllib.loads(file.read_text()).values():
            wanted |= {f"{one.get('compiler', 'llvm')}-{version}" for version in one["versions"]}
    assert wanted == COMPILERS
    assert {f"mlbridge-{name}" for name in COMPILERS} <= PACKAGES


def test_every_package_is_filled() -> None:
    filled = set(re.findall(r"call install,\w+,([\w-]+)", RULES)) | {
        f"mlbridge-{c}" for c in COMPILERS
    }
    assert filled | {"mlbridge-tools"} == PACKAGES


def test_the_copyright_file_names_what_is_under_another_licence() -> None:
    marked = r"SPDX-License-Identifier: GPL-3.0-or-later"
    listed = ["git", "grep", "-l", f"^// {marked}"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    text = (ROOT / "debian/copyright").read_text()
    stanza = next(s for s in text.split("\n\n") if "\nLicense: GPL-3+" in s)
    assert set(found.split()) == set(re.findall(r"compilers/\S+", stanza))


def test_what_is_missing_is_installed_by_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.extra("clang22").startswith("pip install")
    assert files.onnx_runtime_advice() == "pip install onnxruntime"
    monkeypatch.setattr(files, "PACKAGE", "/usr/lib/python3/dist-packages/mlbridge")
    for optimization in OPTIMIZATIONS.values():
        for number in optimization.versions:
            advice = files.extra(optimization.extra(number))
            assert advice.startswith("apt-get install mlbridge-") and advice.split()[-1] in PACKAGES
    assert files.onnx_runtime_advice().startswith("apt-get install libonnxruntime1.21 (Debian 13)")
    assert files.again("mlbridge-components") == "apt-get install --reinstall mlbridge-components"
    assert set(files.DEBIAN.values()) <= PACKAGES


def test_the_campaign_needs_root_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "argv", ["debian_packages.py", str(tmp_path / "out")])
    assert debian_packages.main() == 1
    said = capsys.readouterr()
    assert said.out == "" and len(said.err.splitlines()) == 1 and "needs root" in said.err
    assert not (tmp_path / "out").exists()
