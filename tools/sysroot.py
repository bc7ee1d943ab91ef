# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What wheels for all distributions of the last five years are compiled against: the C library of
Debian 11, and what else there must be, of Debian 12, in build/deps/sysroot.

GCC 12 compiles, as for everything else. What its C++ library has that Debian 11's lacks is linked
statically, from a linker script, as compilers for such wheels do. Packages are fetched by apt-get
through sources made from the machine's own. Needs no root and installs nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from bare_machine import apt_settings, machine_sources
from common import BUILD

ROOT = BUILD / "deps/sysroot"
OLD, NEW = "bullseye", "bookworm"
#: What every program runs with, from the old release.
BELOW = "libc6 libc6-dev libcrypt1 libcrypt-dev libstdc++6 libgcc-s1".split()
ABOVE = ["linux-libc-dev", "libstdc++-12-dev", "libgmp-dev", "libsimdjson-dev"]
LIBRARIES = ROOT / "usr/lib/x86_64-linux-gnu"
TOOLCHAIN = ROOT / "toolchain.cmake"
STAMP = ROOT / "complete"


class SysrootError(Exception):
    """There is no sysroot; the message says why."""


def run(*command: str | Path, **env: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT / "apt", env=os.environ | env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SysrootError(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-2000:]}")


def fetch() -> None:
    """Unpacks the packages, and the sources of simdjson, of which Debian has no static library."""
    apt = ROOT / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    sources = [*machine_sources(OLD), *machine_sources(NEW)]
    sources += [line.replace("deb ", "deb-src ", 1) for line in machine_sources(NEW)]
    (apt / "sources.list").write_text("\n".join(sources) + "\n")
    (apt / "apt.conf").write_text(
        f'Dir::State "{apt}"; Dir::State::lists "{apt}/lists"; Dir::State::status "/dev/null";\n'
        f'Dir::Cache "{apt}/cache"; Dir::Etc::sourcelist "{apt}/sources.list";\n'
        f'Dir::Etc::sourceparts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";\n'
        f"{apt_settings()}"
    )
    env = {"APT_CONFIG": str(apt / "apt.conf"), "LC_ALL": "C"}
    run("apt-get", "update", **env)
    run("apt-get", "download", *(f"{package}/{OLD}" for package in BELOW), *ABOVE, **env)
    run("apt-get", "source", "--download-only", "simdjson", **env)
    for package in sorted(apt.glob("*.deb")):
        run("dpkg-deb", "-x", package, ROOT)
    (description,) = apt.glob("*.dsc")
    run("dpkg-source", "-x", description, "simdjson")


def make_links_relative() -> None:
    for folder, folders, files in os.walk(ROOT):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink() and path.readlink().is_absolute():
                target = ROOT / str(path.readlink())[1:]
                path.unlink()
                path.symlink_to(os.path.relpath(target, path.parent))


def add_python() -> None:
    """Debian's headers of Python include others in the system's folder of headers."""
    for folder in Path("/usr/include/x86_64-linux-gnu").glob("python3.*"):
        (ROOT / "usr/include/x86_64-linux-gnu" / folder.name).symlink_to(folder)


def link_simdjson_statically() -> None:
    """Compiles it, and has its package for CMake say so."""
    flags = "-std=c++17 -O3 -DNDEBUG -fPIC -Isimdjson/include -Isimdjson/src -c".split()
    run("g++-12", f"--sysroot={ROOT}", *flags, "simdjson/src/simdjson.cpp", "-o", "simdjson.o")
    run("ar", "rcs", LIBRARIES / "libsimdjson.a", "simdjson.o")
    for file in (LIBRARIES / "cmake/simdjson").glob("simdjsonTargets*.cmake"):
        text = re.sub(r"libsimdjson\.so[\d.]*\"", 'libsimdjson.a"', file.read_text())
        # Headers are where the compiler looks anyway; named, the folder would hide those of C.
        text = re.sub(r"\n *(IMPORTED_SONAME|INTERFACE_INCLUDE_DIRECTORIES).*", "", text)
        file.write_text(text.replace("SHARED IMPORTED", "STATIC IMPORTED"))


def write_toolchain() -> None:
    newer = ROOT / "newer"
    newer.mkdir()
    libraries = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6 /usr/lib/gcc/x86_64-linux-gnu/12"
    (newer / "libstdc++.so").write_text(f"INPUT ( {libraries}/libstdc++.a )\n")
    flags = f"-B{LIBRARIES} -L{newer} -L{ROOT}/lib/x86_64-linux-gnu -L{LIBRARIES}"
    lines = [
        f"set(CMAKE_SYSROOT {ROOT})",
        *(
            f"set(CMAKE_{name}_COMPILER {gcc})"
            for name, gcc in (("C", "gcc-12"), ("CXX", "g++-12"))
        ),
        "set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)",
        *(
            f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "{flags} -Wl,--exclude-libs,ALL")'
            for kind in ("MODULE", "SHARED", "EXE")
        ),
    ]
    TOOLCHAIN.write_text("\n".join(lines) + "\n")


def prepare() -> Path:
    """Makes it, unless it is there; the file for CMAKE_TOOLCHAIN_FILE."""
    if not STAMP.is_file():
        shutil.rmtree(ROOT, ignore_errors=True)
        fetch()
        make_links_relative()
        add_python()
        link_simdjson_statically()
        write_toolchain()
        STAMP.touch()
    return TOOLCHAIN
