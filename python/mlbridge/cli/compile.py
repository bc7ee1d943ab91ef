# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge compile: an ONNX network as sources, an object file or a shared object."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import secrets
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import _core, files
from ..errors import Error
from ..reading import open_file
from .common import DONE, CommandError, UsageError

# Fused operations are where the kernels say so, and nowhere else.
FLAGS = """
-std=c++17 -O3 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics
-fno-asynchronous-unwind-tables -fno-math-errno -fno-trapping-math -ffp-contract=off -w
""".split()
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*(f"-mavx512{part}" for part in ("f", "dq", "bw", "vl")), "-mprefer-vector-width=512"]
# From the least to the most preferred: the one that is chosen at run time is the last of those that
# the CPU has. The machine that has it, and the compiler's flags.
INSTRUCTION_SETS: dict[str, tuple[str, list[str]]] = {
    "portable": ("", ["-Os"]),
    "neon": ("aarch64", []),
    "avx2": ("x86_64", AVX2),
    "avx512": ("x86_64", AVX2 + AVX512),
}
PACKAGE = Path(files.PACKAGE)
MADE = b"Made by mlbridge compile"


def run(options: argparse.Namespace) -> int:
    """Compile what the options say."""
    output = os.path.abspath(options.output)
    if output.endswith(".so"):
        options.shared = True
    elif options.shared and output.endswith((".o", ".weights")):
        raise UsageError(f"-o {options.output}: --shared makes a shared object; name it FILE.so")
    name = options.name or identifier_of(output)
    to_folder = options.output.endswith("/")
    only_weights = output.endswith(".weights")
    external = options.weights == "external" or only_weights
    weights_file = os.path.splitext(output)[0] + ".weights"
    header_file = os.path.abspath(options.header) if options.header else None
    others = [header_file] if header_file else []
    if external and not only_weights and not to_folder:
        others.append(weights_file)
    check_places(options.model, [output, *others])
    compiler = shlex.split(options.cxx or os.environ.get("CXX") or "c++")
    wanted = instruction_sets(options.isa, None if to_folder else machine_of(compiler))
    try:
        generate = _core._generate
    except AttributeError as error:
        raise CommandError("this build of mlbridge has no native engine") from error
    lengths, shapes, memory = dict(options.dim), dict(options.shape), options.memory or 0
    try:
        source, header, weights, files = generate(
            options.model, name, lengths, shapes, external, memory
        )
    except Error as error:
        raise CommandError(str(error)) from error
    if only_weights:
        write(output, weights)
        return DONE
    if to_folder:
        sources = Path(output)
        try:
            sources.mkdir(parents=True, exist_ok=True)
            write_sources(sources, name, (source, header, weights), wanted)
            if options.weights == "external":
                (sources / f"{name}_weights.bin").rename(sources / f"{name}.weights")
            if options.depfile:
                read = [os.path.abspath(options.model), *files]
                write_depfile(Path(options.depfile), sources / f"{name}.cpp", read)
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        return DONE
    with tempfile.TemporaryDirectory(prefix="mlbridge-compile-") as folder:
        write_sources(Path(folder), name, (source, header, weights), wanted)
        with open(build(compiler, wanted, name, options.shared, folder), "rb") as file:
            write(output, file.read())
    if header_file:
        write(header_file, header)
    if external:
        write(weights_file, weights)
    return DONE


def write_sources(
    folder: Path, name: str, made: tuple[bytes, bytes, bytes], sets: Iterable[str] = ()
) -> None:
    """NAME.h, NAME.cpp, NAME_ISA.cpp for each instruction set, and what they include.
    Without `sets` they choose by the compiler's target. Files that were made otherwise stay, and
    are an error.
    """
    source, header, weights = made
    listed = " ".join(f"X({isa.capitalize()})" for isa in sets)
    chosen = f"#define MLBRIDGE_AOT_ISAS(X) {listed}\n" if listed else ""
    files = {f"{name}.cpp": chosen.encode() + source, f"{name}.h": header}
    for isa in sets or INSTRUCTION_SETS:
        files[f"{name}_{isa}.cpp"] = evaluation(name, isa).encode()
    for header_file in [*(PACKAGE / "kernels").glob("*.h"), PACKAGE / "include/mlbridge/aot.h"]:
        files[f"{header_file.parent.name}/{header_file.name}"] = header_file.read_bytes()
    made_before = all(is_made(folder / file, data) for file, data in files.items())
    files[f"{name}_weights.bin"] = weights
    for file in (f"{name}_weights.bin", f"{name}.weights"):  # which cannot say what they are
        made_before &= (folder / f"{name}.cpp").is_file() or not os.path.lexists(folder / file)
    if not made_before:
        raise CommandError(f"{folder} has other files of these names; choose another folder")
    for file, data in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(data)


def is_made(place: Path, data: bytes) -> bool:
    """Whether a file, if it is there, was made by this command: it says so, or is a header of ours
    that begins as `data` does."""
    if not os.path.lexists(place):
        return True
    with contextlib.suppress(Error, OSError), open_file(place) as file:
        there = file.read(4096)
        ours = there.startswith(data.partition(b"\n")[0]) and b"MLBRIDGE_" in there
        return not place.is_symlink() and (MADE in there[:200] or ours)
    return False


def evaluation(name: str, isa: str) -> str:
    """The source of one instruction set; empty for a machine that hasn't got it."""
    machine, _ = INSTRUCTION_SETS[isa]
    lines = [
        f"#define MLBRIDGE_AOT_ISA {isa.capitalize()}",
        f'#define MLBRIDGE_AOT_VECTOR "vector_{isa}.h"',
        *(["#define MLBRIDGE_NATIVE_SPECIALIZE"] if isa != "portable" else []),
        f'#include "{name}.cpp"',
    ]
    if machine:
        lines = [f"#ifdef __{machine}__", *lines, "#endif"]
    return "\n".join(["// Made by mlbridge compile.", *lines, ""])


def write_depfile(path: Path, target: Path, read: Iterable[str]) -> None:
    """What the sources were made of, as make and Ninja read it: the model and this very program."""
    tools = [_core.__file__, __file__, PACKAGE / "include/mlbridge/aot.h"]
    tools += sorted((PACKAGE / "kernels").glob("*.h"))
    escaped = [str(name).replace("\\", "\\\\").replace(" ", "\\ ") for name in (*read, *tools)]
    path.write_text(f"{str(target).replace(' ', chr(92) + ' ')}: {' '.join(escaped)}\n")


def check_places(model: str, outputs: list[str]) -> None:
    """No output is written over the model, or over another one."""
    taken = {os.path.realpath(model): "the model"}
    for output in outputs:
        place = os.path.realpath(output)
        if place in taken:
            raise CommandError(f"{output} would be written over {taken[place]}")
        taken[place] = "another output"


def identifier_of(path: str) -> str:
    """What the symbols begin with unless stated: the file's name."""
    stem = os.path.splitext(os.path.basename(path))[0]
    name = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    return name if name and not name[0].isdigit() else "model_" + name


def instruction_sets(listed: str | None, machine: str | None) -> list[str]:
    """Those of --isa, the preferred one last; if none is listed, all of the machine."""
    wanted = listed.split(",") if listed else []
    if unknown := [name for name in wanted if name not in INSTRUCTION_SETS]:
        raise UsageError(
            f"--isa: there is no instruction set '{unknown[0]}'; there are "
            f"{', '.join(INSTRUCTION_SETS)}"
        )
    if machine is not None:
        known = [name for name, (of, _) in INSTRUCTION_SETS.items() if of in ("", machine)]
        if foreign := [name for name in wanted if name not in known]:
            raise CommandError(
                f"--isa: the C++ compiler is for {machine}, which has {', '.join(known)}, not "
                f"{foreign[0]}; state another compiler with --cxx"
            )
        wanted = wanted or known
    return [name for name in INSTRUCTION_SETS if name in wanted]


def build(compiler: list[str], sets: list[str], name: str, shared: bool, folder: str) -> str:
    """Compiles the sources in the folder; the made file's path."""
    commands = [[f"{name}_{isa}", *INSTRUCTION_SETS[isa][1]] for isa in sets]
    commands.append([name, *(["-DMLBRIDGE_AOT_SHARED"] if shared else [])])
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        tasks = [
            pool.submit(call, [*compiler, *FLAGS, *flags, "-c", f"{file}.cpp"], folder)
            for file, *flags in commands
        ]
        for task in tasks:
            task.result()
    # Nothing is initialised, so start files would only cost symbol look-ups and a finaliser.
    whole = ["-shared", "-nostartfiles", "-Wl,--as-needed", "-Wl,-z,noexecstack", "-s"]
    link = whole if shared else ["-r", "-nostdlib"]
    objects = [f"{file}.o" for file, *_ in commands]
    call([*compiler, *link, "-o", "made", *objects], folder)
    return os.path.join(folder, "made")


def machine_of(compiler: list[str]) -> str:
    """What it compiles for; a cross compiler says another machine than ours."""
    try:
        said = subprocess.run(
            [*compiler, "-dumpmachine"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return platform.machine()
    return said.strip().partition("-")[0]


def call(command: list[str], folder: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CommandError(f"no C++ compiler (--cxx): {command[0]}: {error.strerror}") from error
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise CommandError(f"{said[0][-1000:]}; the C++ compiler failed: {shlex.join(command)}")


def write(path: str, contents: bytes) -> None:
    """Whole or not at all: nobody sees a part of the file."""
    partial = os.path.join(os.path.dirname(path), f".mlbridge-{os.getpid()}-{secrets.token_hex(8)}")
    try:
        try:
            with open(partial, "xb") as file:
                file.write(contents)
            os.replace(partial, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            raise
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error
