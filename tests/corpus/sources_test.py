# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compile_commands.json, bitcode in objects, and source packages from archives made here."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
from running import Command

from mlbridge import InvalidModel, NotFound, Unsupported, corpus
from mlbridge.corpus import adding, packages
from mlbridge.elf import file_executable_bytes


def test_compile_commands_in_both_forms(command: Command, program: Path) -> None:
    (program / "build").mkdir()
    (program / "bad.c").write_text("int bad(\n")
    entries = [
        {"directory": "build", "file": "../a.c", "command": "gcc -O2 '-DX=\"1 2\"' -c ../a.c -o a"},
        {"directory": str(program), "file": "c.cc", "arguments": ["/x/g++", "-c", "c.cc"]},
        {"directory": str(program), "file": "bad.c", "arguments": ["cc", "-c", "bad.c"]},
    ]
    (program / "compile_commands.json").write_text(json.dumps(entries))
    listed = ("--compile-commands", "compile_commands.json", "--measure")
    done = command("add", "mine", *listed, "--program", "twins")
    assert "2 modules added, 0 were there, 0 have no code, 1 not recorded" in done.stdout
    assert "bad.c:" in done.stderr and "error: expected" in done.stderr
    made = {m.name: m for m in corpus.open("mine")}
    assert list(made) == ["twins/a.c", "twins/c.cc"]
    assert made["twins/a.c"].flags == ("-O2", '-DX="1 2"')
    assert not [p for p in program.rglob("*") if p.suffix in (".o", ".bc")]
    plain = program / "plain.o"
    subprocess.run(["clang++-22", "-Oz", "-c", program / "c.cc", "-o", plain], check=True)
    assert made["twins/c.cc"].oz_code_bytes == file_executable_bytes(plain) > 0


@pytest.mark.parametrize("text", ["{", "[1]", '[{"directory": "x"}]', '[{"file": "x"}]'])
def test_what_is_no_compile_commands(tmp_path: Path, text: str) -> None:
    file = tmp_path / "commands.json"
    file.write_text(text)
    with pytest.raises(InvalidModel, match=r"commands\.json: not (a compile_commands\.json|JSON)"):
        adding.compile_commands(tmp_path / "c", file, "p")
    with pytest.raises(NotFound, match="cannot be read"):
        adding.compile_commands(tmp_path / "c", tmp_path / "none", "p")


def test_bitcode_in_objects(command: Command, program: Path) -> None:
    embed = ["-Xclang", "-fembed-bitcode=all", "-g"]
    for source, level in (("a.c", "-Oz"), ("c.cc", "-O2"), ("b.c", "-O0")):
        line = ["clang-22", level, *embed, "-c", source, "-o", source + ".o"]
        subprocess.run(line, cwd=program, check=True)
    subprocess.run(["clang-22", "-c", "a.c", "-o", "none.o"], cwd=program, check=True)
    (program / "cut.o").write_bytes((program / "a.c.o").read_bytes()[:900])
    damaged = bytearray((program / "a.c.o").read_bytes())
    at = damaged.index(b"BC\xc0\xde")
    damaged[at + 100 : at + 200] = bytes(100)
    (program / "damaged.o").write_bytes(damaged)
    names = ["a.c.o", "c.cc.o", "b.c.o", "none.o", "cut.o", "damaged.o", "absent.o"]
    done = command("add", "mine", "--embedded", *names)
    assert "2 modules added" in done.stdout and "5 not recorded" in done.stdout
    for why in (
        "b.c.o: compiled at -O0",
        "none.o: no bitcode (.llvmbc)",
        "cut.o: section table ends",
        "damaged.o: opt-22 ended with 1",
        "absent.o: cannot be read: No such file",
    ):
        assert why in done.stderr, why
    made = {m.source: m for m in corpus.open("mine")}
    assert made["a.c"].language == "c" and made["c.cc"].language == "c++"
    assert "-Oz" in made["a.c"].flags


CONTROL = """\
Source: tiny
Maintainer: Nobody <nobody@example.org>
{depends}
Package: tiny
Architecture: any
Description: tiny
"""
RULES = """\
#!/usr/bin/make -f
%:
	cc -O2 -c tiny.c
	$(CXX) -O2 -c more.cc
"""


def debian_archive(folder: Path, depends: str, rules: str = RULES) -> packages.Apt:
    """An apt that has the source package tiny, version 1.0."""
    tree = folder / "tiny-1.0"
    (tree / "debian" / "source").mkdir(parents=True)
    (tree / "tiny.c").write_text("int tiny(int x) { return x + 1; }\n")
    (tree / "more.cc").write_text("int more(int x) { return x + 2; }\n")
    changes = "tiny (1.0) unstable; urgency=low\n\n  * All.\n\n"
    changes += " -- Nobody <nobody@example.org>  Mon, 01 Jan 2024 00:00:00 +0000\n"
    for name, text in (
        ("control", CONTROL.format(depends=depends)),
        ("changelog", changes),
        ("rules", rules),
        ("source/format", "3.0 (native)\n"),
    ):
        (tree / "debian" / name).write_text(text)
    (tree / "debian" / "rules").chmod(0o755)
    repository = folder / "repository"
    repository.mkdir()
    quiet = {"check": True, "capture_output": True}
    subprocess.run(["dpkg-source", "-b", str(tree)], cwd=repository, **quiet)  # type: ignore[call-overload]
    listing = subprocess.run(["dpkg-scansources", "."], cwd=repository, **quiet)  # type: ignore[call-overload]
    (repository / "Sources").write_bytes(listing.stdout)
    etc = folder / "etc"
    etc.mkdir()
    (etc / "sources.list").write_text(f"deb [trusted=yes] file:{repository} ./\n")
    return packages.Apt(folder / "apt", etc)


def test_a_debian_source_package(tmp_path: Path) -> None:
    apt = debian_archive(tmp_path, "")
    added = packages.debian(corpus.place_of("mine"), "tiny", apt=apt)
    assert added.new == 2 and not added.problems
    assert [(m.program, m.version, m.source) for m in corpus.open("mine")] == [
        ("tiny", "1.0", "tiny.c"),
        ("tiny", "1.0", "more.cc"),
    ]


def test_what_a_debian_build_lacks_is_named(tmp_path: Path) -> None:
    apt = debian_archive(tmp_path, "Build-Depends: make, no-such-package (>= 2), neither-this\n")
    with pytest.raises(
        NotFound,
        match=r"tiny: .*: no-such-package \(>= 2\) neither-this; .* apt-get build-dep tiny",
    ):
        packages.debian(tmp_path / "c", "tiny", apt=apt)
    with pytest.raises(NotFound, match=r"(?s)apt-get source other failed:.*Unable to find"):
        packages.debian(tmp_path / "c", "other", apt=apt)


def test_a_debian_build_that_fails(tmp_path: Path) -> None:
    rules = RULES + "\techo it went wrong; false\n"
    apt = debian_archive(tmp_path, "", rules)
    with pytest.raises(Unsupported, match=r"build ended with 2 .*2 modules(?s:.*)it went wrong"):
        packages.debian(tmp_path / "c", "tiny", apt=apt)
    assert len(corpus.open(tmp_path / "c")) == 2


@pytest.mark.parametrize("name", ["-ox", "", "a/b", "A B", "../x", "x;y", "--help"])
def test_names_of_packages(command: Command, name: str) -> None:
    for option, what in (
        ("--debian", "no Debian source package"),
        ("--pypi", "no package of PyPI"),
    ):
        done = command("add", "mine", f"{option}={name}", code=1)
        assert what in done.stderr and len(done.stderr.splitlines()) == 1


BACKEND = """
import os, subprocess, zipfile

def build_wheel(folder, settings=None, metadata=None):
    subprocess.run([*os.environ.get("CC", "true").split(), "-O2", "-c", "fast.c"], check=True)
    name = "tiny_ext-2.1-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for file, text in {
            "METADATA": "Metadata-Version: 2.1\\nName: tiny-ext\\nVersion: 2.1\\n",
            "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
            "RECORD": "",
        }.items():
            wheel.writestr("tiny_ext-2.1.dist-info/" + file, text)
    return name
"""


def test_a_source_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tiny_ext-2.1"
    tree.mkdir()
    system = 'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    for name, text in {
        "fast.c": "int fast(int x) { return x + 3; }\n",
        "backend.py": BACKEND,
        "pyproject.toml": f"[build-system]\n{system}",
        "PKG-INFO": "Metadata-Version: 2.1\nName: tiny-ext\nVersion: 2.1\n",
    }.items():
        (tree / name).write_text(text)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with tarfile.open(wheels / "tiny_ext-2.1.tar.gz", "w:gz") as archive:
        archive.add(tree, arcname=tree.name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    added = packages.pypi(tmp_path / "c", "tiny-ext==2.1")
    assert added.new == 1, added
    [module] = corpus.open(tmp_path / "c")
    assert (module.program, module.version, module.source) == ("tiny-ext", "2.1", "fast.c")
    with pytest.raises(NotFound, match=r"absent-thing: pip gave no source distribution"):
        packages.pypi(tmp_path / "c", "absent-thing")
