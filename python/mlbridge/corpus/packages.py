# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds programs from source packages of Debian and PyPI. Users install their build dependencies."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument, NotFound, Unsupported
from ..process_runner import run
from .adding import Added, build
from .store import cache

#: Seconds that a download or an update of the package lists may take.
LIMIT = 600
DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]+(=[\w.+:~-]+)?", re.ASCII)
PYPI = re.compile(r"([A-Za-z0-9][\w.-]*)(==[\w.!+-]+)?", re.ASCII)


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-5:])


def _call(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """The exit code of a command, and its output."""
    try:
        ran = run(command, folder, env={**os.environ, "LC_ALL": "C"}, timeout=LIMIT)
    except NotFound:
        raise NotFound(f"{command[0]} is not there (Debian: apt, dpkg-dev)") from None
    return ran.code, ran.stdout.text + ran.stderr.text


def source_lists(deb822: list[str], one_line: list[str]) -> tuple[str, str]:
    """The machine's apt sources turned into source-package lists: (deb822 text, one-line text)."""
    stanzas = [re.sub(r"(?im)^Types\s*:.*", "Types: deb-src", text) for text in deb822]
    entries = [line for text in one_line for line in re.findall(r"(?m)^\s*deb(?:-src)? +.*", text)]
    plain = dict.fromkeys(re.sub(r"^\s*deb(-src)? +", "deb-src ", line) for line in entries)
    return "\n\n".join(stanzas), "".join(f"{line}\n" for line in plain)


class Apt:
    """apt-get for source packages, with lists and cache of its own in the folder `home`.

    The lists are those of the machine, read as source lists, so nothing else changes and root is
    not needed. apt checks signatures and hashes.
    """

    def __init__(self, home: Path, etc: Path = Path("/etc/apt")) -> None:
        self._home = home.absolute()
        self._etc = etc
        self._updated = False

    def _run(self, arguments: list[str], folder: Path, tool: str = "apt-get") -> tuple[int, str]:
        home = self._home
        options = {
            "Dir::Etc::sourcelist": home / "none.list",
            "Dir::Etc::sourceparts": home / "sources",
            "Dir::State::Lists": home / "lists",
            "Dir::Cache": home / "cache",
            "Acquire::Retries": 2,
        }
        if os.geteuid() == 0:  # the sandbox user may not enter the folder
            options["APT::Sandbox::User"] = "root"
        listed = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        return _call([tool, *listed, *arguments], folder)

    def update(self) -> None:
        """Write the source lists and read the package indexes."""
        if self._updated:
            return
        for folder in ("sources", "lists/partial", "cache/archives/partial"):
            (self._home / folder).mkdir(parents=True, exist_ok=True)
        (self._home / "none.list").touch()
        parts = self._etc / "sources.list.d"
        deb822 = [path.read_text() for path in sorted(parts.glob("*.sources"))]
        lists = [self._etc / "sources.list", *sorted(parts.glob("*.list"))]
        new, old = source_lists(deb822, [path.read_text() for path in lists if path.exists()])
        (self._home / "sources" / "machine.sources").write_text(new)
        (self._home / "sources" / "machine.list").write_text(old)
        code, output = self._run(["update"], self._home)
        # One broken list, such as a third party's, does not keep the others from being used.
        if code != 0 and not self.have_lists():
            raise NotFound(f"apt-get update of the source lists failed:\n{_tail(output)}")
        self._updated = True

    def have_lists(self) -> bool:
        """True if an update of an earlier run left package indexes."""
        return any((self._home / "lists").glob("*_Sources*"))

    def download(self, package: str, folder: Path, *, whole: bool = False) -> None:
        """Put the upstream archive of `package` into `folder`, and if `whole` Debian's part too."""
        arguments = ["source", "--download-only", *([] if whole else ["--tar-only"])]
        if not self.have_lists():
            self.update()
        code, output = self._run([*arguments, package], folder)
        if code != 0 and not self._updated:  # the indexes of an earlier run may be out of date
            self.update()
            code, output = self._run([*arguments, package], folder)
        if code == 0:
            return
        # An archive may list a version that it doesn't have, beside another suite's that it has.
        for version in self.versions(package):
            if self._run([*arguments, f"{package}={version}"], folder)[0] == 0:
                return
        raise NotFound(f"apt-get source {package} failed:\n{_tail(output)}")

    def versions(self, package: str) -> list[str]:
        """The versions that the source lists offer."""
        output = self._run(["madison", package], self._home, "apt-cache")[1]
        rows = [[cell.strip() for cell in line.split("|")] for line in output.splitlines()]
        versions = [
            r[1] for r in rows if len(r) == 3 and r[0] == package and r[2].endswith("Sources")
        ]
        return list(dict.fromkeys(versions))


def debian(
    corpus: Path, package: str, program: str = "", *, apt: Apt | None = None, **finishing: Any
) -> Added:
    """Add the modules that the build of a Debian source package, NAME or NAME=VERSION, compiles.

    NotFound names the build dependencies that are missing.
    """
    if not DEBIAN.fullmatch(package):
        raise InvalidArgument(
            f"{package!r} is no Debian source package, such as zlib or zlib=1:1.2"
        )
    apt = apt or Apt(cache() / "apt")
    with tempfile.TemporaryDirectory(prefix="mlbridge-debian-") as temporary:
        folder = Path(temporary)
        apt.download(package, folder, whole=True)
        (description,) = folder.glob("*.dsc")
        tree = folder / "source"
        code, output = _call(["dpkg-source", "-x", description.name, tree.name], folder)
        if code != 0:
            raise Unsupported(f"{package}: dpkg-source failed:\n{_tail(output)}")
        code, output = _call(["dpkg-checkbuilddeps", "-B", "-I", "-Pnocheck,nodoc"], tree)
        if code != 0:
            missing = output.strip().rpartition("dependencies: ")[2]
            name = package.partition("=")[0]
            raise NotFound(
                f"{package}: packages are missing that its build needs: {missing}; "
                f"to install them: apt-get build-dep {name}"
            )
        version = re.search(r"(?m)^Version: (.*)$", description.read_text(errors="replace"))
        jobs = finishing.get("jobs", 2)
        return _built(
            corpus,
            [
                "env",
                f"DEB_BUILD_OPTIONS=nocheck nodoc parallel={jobs}",
                "debian/rules",
                "build-arch",
            ],
            package,
            program or package.partition("=")[0],
            version[1] if version else "",
            tree,
            finishing,
        )


def pypi(corpus: Path, name: str, program: str = "", **finishing: Any) -> Added:
    """Add the modules that the build of a source distribution (NAME or NAME==VERSION) compiles."""
    match = PYPI.fullmatch(name)
    if match is None:
        raise InvalidArgument(f"{name!r} is no package of PyPI, such as regex or regex==2024.5.15")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(prefix="mlbridge-pypi-") as temporary:
        folder = Path(temporary)
        source = ["--no-deps", "--no-binary", match[1]]
        code, output = _call([*pip, "download", *source, "-d", "archive", name], folder)
        archives = list(folder.glob("archive/*.tar.gz"))
        if code != 0 or len(archives) != 1:
            raise NotFound(f"{name}: pip gave no source distribution:\n{_tail(output)}")
        unpacked = folder / "source"
        unpacked.mkdir()
        # GNU tar refuses members that lead out of the folder.
        unpack = ["tar", "--no-same-owner", "--no-same-permissions", "-xf", str(archives[0])]
        code, output = _call(unpack, unpacked)
        trees = list(unpacked.iterdir())
        if code != 0 or len(trees) != 1:
            raise Unsupported(f"{archives[0].name}: not a source distribution:\n{_tail(output)}")
        tree = trees[0]
        version = tree.name.rpartition("-")[2]
        command = [*pip, "wheel", "--no-deps", "--no-cache-dir", "-w", str(folder / "wheel"), "."]
        return _built(corpus, command, name, program or match[1], version, tree, finishing)


def _built(
    corpus: Path,
    command: list[str],
    package: str,
    program: str,
    version: str,
    tree: Path,
    finishing: dict[str, Any],
) -> Added:
    code, added, output = build(
        corpus, command, program, version, folder=tree, all_names=True, quiet=True, **finishing
    )
    if code != 0:
        raise Unsupported(
            f"{package}: its build ended with {code} (kept before that: {added.new} modules):\n"
            f"{_tail(output)}"
        )
    return added
