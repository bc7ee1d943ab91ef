# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where things lie, and the environment in which the tools run programs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"


def version() -> str:
    header = (ROOT / "include" / "mlbridge" / "version.h").read_text()
    return ".".join(re.findall(r"VERSION_[MP]\w+ (\d+)", header))


def cache() -> Path:
    """The user's folder of what compilers and linters found out, which clones share: everything in
    it is looked up by the content that it is about. In the tree, where that can't be written."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = (base if base.is_absolute() else Path.home() / ".cache") / "mlbridge"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: nobody knows where home is
        return BUILD / "cache"


CACHE = cache()
CHECKED = CACHE / "checks"  # what linters keep


def ccache() -> dict[str, str]:
    """Settings with which a second clone has the results of the first: paths below the tree are
    relative, and the folder of a compilation is no part of it. No file of settings is read, so that
    a broken one is no error."""
    return {
        "CCACHE_DIR": str(CACHE / "ccache"),
        "CCACHE_CONFIGPATH": os.devnull,
        "CCACHE_MAXSIZE": "3G",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_NOHASHDIR": "1",
    }


def environment() -> dict[str, str]:
    """The tree's own tools and Debian's go first."""
    env = dict(os.environ)
    path = [str(VENV / "bin"), "/usr/bin", "/bin"]
    path += [p for p in env.get("PATH", "").split(os.pathsep) if p and p not in path]
    env["PATH"] = os.pathsep.join(path)
    env.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    if shutil.which("ccache", path=env["PATH"]):
        for name, value in ccache().items():
            env.setdefault(name, value)
        env.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")
        env.setdefault("CMAKE_CXX_COMPILER_LAUNCHER", "ccache")
    # What a developer has set for a compiler of his own must not reach the tests.
    for name in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MLBRIDGE_COMPONENT_PATH"):
        env.pop(name, None)
    return env


def recording() -> dict[str, str]:
    """What makes programs write down that they were started; read by tests/closure."""
    library = BUILD / "test" / "record-programs.so"
    source = ROOT / "tests/closure/record_programs.c"
    if not library.is_file() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        fresh = library.with_suffix(f".{os.getpid()}")
        compiler = ["cc", "-shared", "-fPIC", "-O1", str(source), "-o", str(fresh)]
        subprocess.run(compiler, env=environment(), check=True)
        fresh.rename(library)
    preload = os.environ.get("LD_PRELOAD", "").split()
    preload = preload if str(library) in preload else [str(library), *preload]
    programs = str(library.with_name("programs.txt"))
    return {"LD_PRELOAD": " ".join(preload), "MLBRIDGE_PROGRAMS": programs}


def run_logged(
    log: Path, *command: str | Path, seconds: float, env: dict[str, str] | None = None
) -> int:
    """Runs a program into the log, and ends what it has started if this ends; 124 if it doesn't end
    in time."""
    with log.open("a") as out:
        out.write("$ " + " ".join(map(str, command)) + "\n")
        out.flush()
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=ROOT,
            env=environment() | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            out.write(f"ended: took longer than {seconds:.0f} s\n")
            return 124
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def jobs() -> int:
    try:
        return max(1, int(os.environ.get("JOBS", "")))
    except ValueError:
        return len(os.sched_getaffinity(0))


def source_files(*suffixes: str) -> list[Path]:
    """The project's own files with these suffixes, also where there is no git."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [d for d in folders if d not in ("build", "__pycache__") and d[0] != "."]
        found += [Path(folder) / f for f in files if f.endswith(suffixes)]
    return sorted(found)
