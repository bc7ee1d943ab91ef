# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which installed Debian packages a list of packages brings along, and whose a file is."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ALWAYS = ("apt", "dpkg")
# Another GCC beside Debian's default is taken by Clang; its headers are those of the listed one.
OF_GCC = re.compile(r"^(libstdc\+\+|libgcc|gcc|g\+\+|cpp)-\d+(-dev|-base|)$")


@dataclass(frozen=True)
class Package:
    """An installed package."""

    name: str
    depends: str = ""
    provides: str = ""
    essential: bool = False


def names_in(field: str) -> list[list[str]]:
    """Alternatives of each dependency, without versions and architectures."""
    groups = [group.split("|") for group in field.split(",") if group.strip()]
    return [[re.split(r"[\s(:\[]", one.strip())[0] for one in group] for group in groups]


def closure(installed: Iterable[Package], wanted: Iterable[str]) -> set[str]:
    """The installed packages that `wanted` stands for, with Essential ones and all dependencies.

    Of alternatives, and of those that provide a virtual package, one is counted: one that is in
    anyway, else the first that is installed.
    """
    packages = {package.name: package for package in installed}
    providers: dict[str, list[str]] = {}
    for package in packages.values():
        for (virtual,) in names_in(package.provides):
            providers.setdefault(virtual, []).append(package.name)
    groups = [[name] for name in [*wanted, *ALWAYS]]
    groups += [[package.name] for package in packages.values() if package.essential]
    found: set[str] = set()
    choices: list[list[str]] = []
    while groups or choices:
        if not groups:  # nothing is certain any more: what is open is decided in order
            names = choices.pop(0)
            if not found.intersection(names):
                groups.append(names[:1])
            continue
        group = groups.pop()
        names = [n for one in group for n in ([one] if one in packages else providers.get(one, []))]
        if len(names) > 1:
            choices.append(names)
        elif names and names[0] not in found:
            found.add(names[0])
            groups += names_in(packages[names[0]].depends)
    return found


def installed_packages() -> list[Package]:
    fields = (
        "${Package}\t${Pre-Depends}, ${Depends}\t${Provides}\t${Essential}\t${db:Status-Status}\n"
    )
    text = subprocess.run(
        ["dpkg-query", "-W", f"-f={fields}"], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    return [Package(r[0], r[1], r[2], r[3] == "yes") for r in rows if r[4] == "installed"]


@functools.cache
def real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def place(path: str) -> str:
    """The path with links of its folders resolved, such as /lib to /usr/lib."""
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(real_folder(folder), name)


def links(path: str) -> Iterator[str]:
    """The file's place; if it is a link, then also what it leads to."""
    for _ in range(40):
        path = place(path)
        yield path
        if not os.path.islink(path):
            return
        path = os.path.join(os.path.dirname(path), os.readlink(path))


class Files:
    """The files of some packages."""

    def __init__(self, packages: set[str]) -> None:
        self.gcc = [match.groups() for name in packages if (match := OF_GCC.match(name))]
        command = ["dpkg-query", "-L", *sorted(packages)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.places = {place(line) for line in text.splitlines() if line.startswith("/")}

    def stranger(self, path: str) -> str | None:
        """None if the file belongs to these packages; else whose it is instead."""
        for step in links(path):
            alternative = step.startswith("/etc/alternatives/") or (
                os.path.islink(step) and os.readlink(step).startswith("/etc/alternatives/")
            )
            if step in self.places or alternative:
                continue
            others = owners(step)
            if not any(self.stands_for(other) for other in others):
                return f"{path}: {step} is of {', '.join(others) or 'no package'}"
        return None

    def stands_for(self, other: str) -> bool:
        match = OF_GCC.match(other)
        return match is not None and match.groups() in self.gcc


def owners(step: str) -> list[str]:
    """The packages that a file belongs to."""
    # dpkg knows it by the name that it was packed with.
    for name in (step, step.removeprefix("/usr")):
        command = ["dpkg-query", "-S", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return re.split(r"(?::\w+)?(?:, |: )", done.stdout.splitlines()[0])[:-1]
    return []


def listed(text: str) -> list[str]:
    """The names in tools/requirements/apt.txt."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return [words[0] for words in lines if words]


def is_below(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)
