# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the site in build/docs/site/: the pages of the tree, and the reference of the C++, C and
Python interfaces.

Doxygen reads the headers, Sphinx what it found, the docstrings of the installed package, and the
pages. A public name without a comment, a page that no other leads to, or a link to nothing, is an
error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from common import BUILD, PYTHON, ROOT, environment, version

SITE = BUILD / "docs" / "site"
DOXYGEN = BUILD / "docs" / "doxygen"


def by_header(folder: Path) -> None:
    """Doxygen calls headers by their names, which C++ and C share, and keeps namespaces apart. Here
    a header has its path, and all that it declares."""
    index = ET.parse(folder / "index.xml")
    for entry in index.iterfind("compound[@kind='file']"):
        path = folder / f"{entry.get('refid')}.xml"
        header = ET.parse(path)
        (compound,) = header.iterfind("compounddef")
        (location,) = compound.iterfind("location")
        (name,) = entry.iterfind("name")
        name.text = location.get("file")
        for namespace in compound.findall("innernamespace"):
            compound.remove(namespace)
        spaces = [ET.parse(space) for space in folder.glob("namespace*.xml")]
        for section in [s for space in spaces for s in space.iterfind("*/sectiondef")]:
            for member in section.findall("memberdef"):
                if any(at.get("file") != name.text for at in member.iterfind("location")):
                    section.remove(member)
            compound.extend([section] if section.findall("memberdef") else [])
        header.write(path)
    index.write(folder / "index.xml")


def main() -> int:
    for folder in (SITE, DOXYGEN):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    doxygen: list[str | Path] = ["doxygen", ROOT / "docs/reference/Doxyfile"]
    flags = "--quiet --nitpicky --fail-on-warning --keep-going --fresh-env".split()
    flags += ["--conf-dir", str(ROOT / "docs/site"), "--doctree-dir", str(BUILD / "cache/docs")]
    values = environment() | {"MLBRIDGE_VERSION": version()}
    sphinx: list[str | Path] = [PYTHON, "-m", "sphinx", *flags, ROOT, SITE]
    for name, command in (("Doxygen", doxygen), ("Sphinx", sphinx)):
        print(f"== {name}", flush=True)
        if subprocess.run(command, cwd=ROOT, env=values, check=False).returncode != 0:
            print(f"failed: {name}", file=sys.stderr)
            return 1
        if name == "Doxygen":
            by_header(DOXYGEN / "xml")
    print((SITE / "index.html").relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
