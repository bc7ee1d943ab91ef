# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a machine has that results depend on. It is sent to nodes as source: it imports nothing of
this package unless it is there."""

from __future__ import annotations


def facts(programs: list[str], plugins: list[str], files: list[str]) -> dict[str, str]:
    """Versions of Python, mlbridge and programs, digests of plugins and files; "" is not there."""
    import hashlib
    import os
    import platform
    import shutil
    import subprocess
    from pathlib import Path

    def version_of(program: str) -> str:
        path = shutil.which(program)
        if path is None:
            return ""
        try:
            ran = subprocess.run(
                [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=60, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            return f"broken: {error}"
        lines = [line.strip() for line in ran.stdout.splitlines() if line.strip()]
        telling = [line for line in lines if "version" in line]
        return (telling or lines or [f"broken: {ran.stderr.strip()[:100]}"])[0]

    def digest_of(path: str) -> str:
        hashed = hashlib.blake2b(digest_size=6)
        top = Path(path)
        if top.is_dir():
            for file in sorted(file for file in top.rglob("*") if file.is_file()):
                name = os.fsencode(file.relative_to(top))
                hashed.update(b"%s\0%d\n" % (name, file.stat().st_size))
        elif top.is_file():
            with top.open("rb") as content:
                while chunk := content.read(1 << 20):
                    hashed.update(chunk)
        else:
            return ""
        return hashed.hexdigest()

    found = {"Python": platform.python_version()}
    place_of = None
    try:
        import mlbridge
        from mlbridge import files as package

        found["mlbridge"] = mlbridge.__version__
        place_of = package.plugin
    except Exception as error:  # also one that is half installed
        missing = isinstance(error, ImportError)
        found["mlbridge"] = "" if missing else f"broken: {type(error).__name__}: {error}"
    found |= {program: version_of(program) for program in programs}
    for name in plugins:
        found[f"plugin {name}"] = digest_of(place_of(name)) if place_of else ""
    return found | {path: digest_of(path) for path in files}


def differences(here: dict[str, str], there: dict[str, str]) -> list[str]:
    """What another machine lacks, or has otherwise than this one."""
    return [
        f"no {name}" if not there.get(name) else f"{name} is {there[name]}, here {value or 'none'}"
        for name, value in here.items()
        if there.get(name) != value
    ]
