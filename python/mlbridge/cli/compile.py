# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge compile: an ONNX network as sources, an object file or a shared object."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .. import Error, _core
from . import CommandError
from .sources import INSTRUCTION_SETS, write_depfile, write_sources

FLAGS = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-asynchronous-unwind-tables",
    "-fno-math-errno",
    "-fno-trapping-math",
    # Fused operations are where the kernels say so, and nowhere else.
    "-ffp-contract=off",
    "-w",
]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*(f"-mavx512{part}" for part in ("f", "dq", "bw", "vl")), "-mprefer-vector-width=512"]
FLAGS_OF = {"portable": ["-Os"], "neon": [], "avx2": AVX2, "avx512": AVX2 + AVX512}
OF_MACHINE = {
    "x86_64": ["portable", "avx2", "avx512"],
    "aarch64": ["portable", "neon"],
}


def run(options: argparse.Namespace) -> int:
    """Compile what the options say."""
    output = os.path.abspath(options.output)
    if output.endswith(".so"):
        options.shared = True
    elif options.shared and output.endswith((".o", ".weights")):
        raise CommandError(f"-o {options.output}: with --shared it is a shared object, FILE.so")
    name = options.name or identifier_of(output)
    to_folder = options.output.endswith("/")
    only_weights = output.endswith(".weights")
    external = options.weights == "external" or only_weights
    weights_file = os.path.splitext(output)[0] + ".weights"
    check_places(
        options.model,
        [output]
        + ([os.path.abspath(options.header)] if options.header else [])
        + ([weights_file] if external and not only_weights and not to_folder else []),
    )
    try:
        source, header, weights, files = _core._generate(
            options.model, name, dimensions_of(options), shapes_of(options), external
        )
    except AttributeError as error:
        raise CommandError("this build has no native engine, which the compiler needs") from error
    except Error as error:
        raise CommandError(str(error)) from error
    if only_weights:
        write(output, weights)
        return 0
    if to_folder:
        return to_sources(options, Path(output), name, (source, header, weights), files)
    with tempfile.TemporaryDirectory(prefix="mlbridge-compile-") as folder:
        compiler = shlex.split(options.cxx or os.environ.get("CXX") or "c++")
        sets = instruction_sets(options) or OF_MACHINE.get(machine_of(compiler), ["portable"])
        write_sources(Path(folder), name, (source, header, weights), sets)
        made = build(compiler, sets, name, options.shared, folder)
        with open(made, "rb") as file:
            write(output, file.read())
    if options.header:
        write(os.path.abspath(options.header), header)
    if external:
        write(weights_file, weights)
    return 0


def to_sources(
    options: argparse.Namespace,
    folder: Path,
    name: str,
    made: tuple[bytes, bytes, bytes],
    files: list[str],
) -> int:
    """Sources for a build of the user's own."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_sources(folder, name, made, instruction_sets(options))
        if options.weights == "external":
            (folder / f"{name}_weights.bin").rename(folder / f"{name}.weights")
        if options.depfile:
            model = os.path.abspath(options.model)
            write_depfile(Path(options.depfile), folder / f"{name}.cpp", [model, *files])
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error
    return 0


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


def dimensions_of(options: argparse.Namespace) -> dict[str, int]:
    lengths = {}
    for text in options.dim:
        name, _, length = text.partition("=")
        if not name or not length.isdigit():
            raise CommandError(f"--dim takes NAME=N, not '{text}'")
        lengths[name] = int(length)
    return lengths


def shapes_of(options: argparse.Namespace) -> dict[str, list[int]]:
    shapes = {}
    for text in options.shape:
        name, _, lengths = text.rpartition("=")
        try:
            shapes[name] = [int(length) for length in lengths.split(",") if length]
        except ValueError:
            raise CommandError(f"--shape takes INPUT=N,N,..., not '{text}'") from None
    return shapes


def instruction_sets(options: argparse.Namespace) -> list[str]:
    """Those of --isa, the preferred one last."""
    wanted = options.isa.split(",") if options.isa else []
    for name in wanted:
        if name not in INSTRUCTION_SETS:
            raise CommandError(
                f"no instruction set '{name}'; there are {', '.join(INSTRUCTION_SETS)}"
            )
    return [name for name in INSTRUCTION_SETS if name in wanted]


def build(compiler: list[str], sets: list[str], name: str, shared: bool, folder: str) -> str:
    """Compiles the sources in the folder; the made file's path."""
    commands = [[f"{name}_{isa}", *FLAGS_OF[isa]] for isa in sets]
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
        raise CommandError(f"no C++ compiler: {command[0]}: {error.strerror}") from error
    if done.returncode:
        raise CommandError(f"{shlex.join(command)} failed:\n{done.stderr[-4000:]}")


def write(path: str, contents: bytes) -> None:
    """Whole or not at all: nobody sees a part of the file."""
    try:
        handle, partial = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".mlbridge-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
            os.chmod(partial, 0o666 & ~_umask())
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
