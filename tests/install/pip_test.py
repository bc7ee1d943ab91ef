# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""pip and the wheels of all distributions, in environments that aren't new, or aren't the user's.
Nightly: each makes an environment, and pip downloads NumPy."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from building import ROOT, attempt, run
from sampling import NIGHTLY

pytestmark = NIGHTLY
WHEELS = ROOT / "build/wheels"
OTHER_VERSION = "0.0.9"


@dataclass
class Place:
    """A virtual environment."""

    folder: Path

    def pip(self, *words: str | Path) -> str:
        pip = (self.folder / "bin/python", "-m", "pip", "--disable-pip-version-check")
        return run(*pip, *words)

    def install(self, extras: str = "", *words: str | Path) -> None:
        ours = f"ml-compiler-bridge{extras}=={version()}"
        self.pip("install", f"--find-links={WHEELS}", *words, ours)

    def mlbridge(self, *words: str | Path) -> tuple[int, str]:
        done = attempt(self.folder / "bin/mlbridge", *words, cwd=self.folder)
        return done.returncode, done.stdout + done.stderr

    def left(self) -> list[Path]:
        """What bears our names, such as ml_compiler_bridge and mlbridge."""
        return [path for path in self.folder.rglob("*ml*") if "bridge" in path.name]


def wheel(name: str = "") -> Path:
    (file,) = WHEELS.glob(f"ml_compiler_bridge{name}-*.whl")
    return file


def version() -> str:
    return wheel().name.split("-")[1]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Place]:
    def made(name: str = "venv", *options: str) -> Place:
        run(sys.executable, "-m", "venv", *options, tmp_path / name)
        return Place(tmp_path / name)

    return made


def older(folder: Path, *names: str) -> Path:
    """A wheel of another version of the library, which holds the files of these distributions: all
    were in one before 0.2."""
    file = folder / f"ml_compiler_bridge{names[0]}-{OTHER_VERSION}-py3-none-any.whl"
    said = f"ml_compiler_bridge{names[0]}-{OTHER_VERSION}.dist-info"
    with zipfile.ZipFile(file, "w") as made:
        for name in names:
            with zipfile.ZipFile(wheel(name)) as packed:
                for entry in packed.namelist():
                    if ".dist-info/" not in entry:
                        made.writestr(entry, packed.read(entry))
        distribution = f"ml-compiler-bridge{names[0].replace('_', '-')}"
        head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {OTHER_VERSION}\n"
        made.writestr(f"{said}/METADATA", head)
        made.writestr(
            f"{said}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{said}/RECORD", "".join(f"{name},,\n" for name in made.namelist()))
    return file


def test_over_an_older_version_that_was_one_wheel(
    make: Callable[..., Place], tmp_path: Path
) -> None:
    place = make()
    place.pip("install", "--no-deps", older(tmp_path, "", "_llvm22", "_grpc"))
    place.install("[clang22]")
    code, line = place.mlbridge("flags", "inliner")
    assert code == 0 and "mlbridge-inliner.so" in line
    package = next(place.folder.glob("lib/python3*/site-packages/mlbridge"))
    assert (package / "plugins/mlbridge-phase-ordering.so").is_file()
    assert not list(package.rglob("*grpc*.so")), "what nobody asked for is gone"


def test_uninstalling_leaves_nothing(make: Callable[..., Place]) -> None:
    place = make()
    place.install("[clang22,gcc12,grpc,compat]")
    place.mlbridge("flags", "inliner")
    every = [line.split()[0] for line in place.pip("list").splitlines() if "bridge" in line]
    assert len(every) == 5
    place.pip("uninstall", "--yes", *every)
    assert place.left() == []


def test_two_versions_at_once(make: Callable[..., Place], tmp_path: Path) -> None:
    place = make()
    place.install("[clang22]")
    place.pip("install", "--no-deps", older(tmp_path, "_llvm22"))
    _, said = place.mlbridge("doctor", "--json")
    (check,) = [c for c in json.loads(said)["checks"] if c["part"] == "ml-compiler-bridge-llvm22"]
    assert check["detail"] == (
        f"its version is {OTHER_VERSION}, that of ml-compiler-bridge {version()}"
    )
    assert check["fix"] == f"pip install ml-compiler-bridge-llvm22=={version()}"


def test_the_library_of_the_system_and_a_plugin_of_the_user(
    make: Callable[..., Place], tmp_path: Path
) -> None:
    system = make("system")
    system.install()
    user = Place(tmp_path / "user")
    run(system.folder / "bin/python", "-m", "venv", user.folder)
    # venv's own --system-site-packages means those of the Python that made this environment's.
    (packages,) = user.folder.glob("lib/python3*/site-packages")
    (above,) = system.folder.glob("lib/python3*/site-packages")
    (packages / "above.pth").write_text(f"{above}\n")
    user.pip("install", f"--find-links={WHEELS}", f"ml-compiler-bridge[clang22,grpc]=={version()}")
    assert not (packages / "mlbridge/__init__.py").exists()
    flags = run(user.folder / "bin/python", "-m", "mlbridge", "flags", "inliner")
    assert f"{packages}/mlbridge/plugins/mlbridge-inliner.so" in flags
    doctor = run(user.folder / "bin/python", "-m", "mlbridge", "doctor")
    assert "ok       transport grpc" in doctor


@pytest.mark.parametrize("name", ["venv", "with some blanks"])
def test_a_prefix_that_is_read_only(make: Callable[..., Place], name: str, tmp_path: Path) -> None:
    place = make(name)
    place.install("[clang22]")
    run("chmod", "-R", "a-w", place.folder)
    source = tmp_path / "f.c"
    source.write_text("int f(int x) { return x + 1; }\n")
    assert place.mlbridge("wrapper", "inliner", "-o", tmp_path / "clang") == (0, "")
    run(tmp_path / "clang", "-Oz", "-c", source, "-o", tmp_path / "f.o")
    code, said = place.mlbridge("flags", "inliner")
    assert code == 0 and ("choose a path without blanks" in said) == (" " in name)
    run("chmod", "-R", "u+w", place.folder)


def test_a_compiler_of_another_version(make: Callable[..., Place]) -> None:
    place = make()
    place.install("[clang22]")
    code, said = place.mlbridge("flags", "inliner", "--compiler", "clang-19")
    assert code == 2 and "can't load the plugin of inliner, which is for clang-22" in said
    assert "add --llvm 19" in said
    code, said = place.mlbridge("flags", "inliner", "--llvm", "19")
    assert code == 1 and 'pip install "ml-compiler-bridge[clang19]"' in said
    assert "--llvm 22" in said


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("", "No matching distribution found for ml-compiler-bridge"),
        ("-llvm22", "requires a different Python: 3.9.0 not in '>=3.10'"),
    ],
)
def test_another_python_is_refused(name: str, refusal: str, tmp_path: Path) -> None:
    words = ["download", "--no-deps", "--no-index", f"--find-links={WHEELS}", "--dest"]
    python = ["--python-version", "3.9", "--only-binary=:all:", f"ml-compiler-bridge{name}"]
    done = attempt(sys.executable, "-m", "pip", *words, tmp_path, *python)
    assert done.returncode == 1 and refusal in done.stderr
    assert list(tmp_path.iterdir()) == []
