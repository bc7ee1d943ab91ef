# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mlbridge compile: an ONNX network as an object file or shared object."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from .. import Error, _core
from . import CommandError

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
# From the least to the most preferred: the one that is chosen at run time is the last of those that
# the CPU has.
AVX2 = ["-mavx2", "-mfma", "-mf16c", "-DMLBRIDGE_NATIVE_SPECIALIZE"]
AVX512 = [*(f"-mavx512{part}" for part in ("f", "dq", "bw", "vl")), "-mprefer-vector-width=512"]
INSTRUCTION_SETS = {
    "portable": ("Portable", ["-Os"]),
    "neon": ("Neon", ["-DMLBRIDGE_NATIVE_SPECIALIZE"]),
    "avx2": ("Avx2", AVX2),
    "avx512": ("Avx512", AVX2 + AVX512),
}
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
    only_weights = output.endswith(".weights")
    external = options.weights == "external" or only_weights
    weights_file = os.path.splitext(output)[0] + ".weights"
    check_places(
        options.model,
        [output]
        + ([os.path.abspath(options.header)] if options.header else [])
        + ([weights_file] if external and not only_weights else []),
    )
    try:
        source, header, weights = _core._generate(
            options.model, name, dimensions_of(options), shapes_of(options), external
        )
    except AttributeError as error:
        raise CommandError("this build has no native engine, which the compiler needs") from error
    except Error as error:
        raise CommandError(str(error)) from error
    if only_weights:
        write(output, weights)
        return 0
    with tempfile.TemporaryDirectory(prefix="mlbridge-compile-") as folder:
        write(os.path.join(folder, "model.cpp"), source)
        write(os.path.join(folder, "weights.bin"), weights)
        made = build(options, folder)
        with open(made, "rb") as file:
            write(output, file.read())
    if options.header:
        write(os.path.abspath(options.header), header)
    if external:
        write(weights_file, weights)
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


def build(options: argparse.Namespace, folder: str) -> str:
    """The compiled file's path."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    include = [f"-I{os.path.join(package, part)}" for part in ("include", "kernels")]
    compiler = shlex.split(options.cxx or os.environ.get("CXX") or "c++")
    sets = (
        options.isa.split(",")
        if options.isa
        else OF_MACHINE.get(machine_of(compiler), ["portable"])
    )
    for name in sets:
        if name not in INSTRUCTION_SETS:
            raise CommandError(
                f"no instruction set '{name}'; there are {', '.join(INSTRUCTION_SETS)}"
            )
    ordered = [name for name in INSTRUCTION_SETS if name in sets]
    commands = []
    for name in ordered:
        isa, flags = INSTRUCTION_SETS[name]
        commands.append(
            [
                *(f"-DMLBRIDGE_AOT_ISA={isa}", f'-DMLBRIDGE_AOT_VECTOR="vector_{name}.h"'),
                *(*flags, "-o", f"{name}.o"),
            ]
        )
    listed = " ".join(f"X({INSTRUCTION_SETS[name][0]})" for name in ordered)
    shared = ["-DMLBRIDGE_AOT_SHARED"] if options.shared else []
    commands.append([f"-DMLBRIDGE_AOT_ISAS(X)={listed}", *shared, "-o", "interface.o"])
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        tasks = [
            pool.submit(call, [*compiler, *FLAGS, *include, *command, "-c", "model.cpp"], folder)
            for command in commands
        ]
        for task in tasks:
            task.result()
    objects = [f"{name}.o" for name in [*ordered, "interface"]]
    if options.shared:
        # Nothing is initialised, so start files would only cost symbol look-ups and a finaliser.
        link = [
            "-shared",
            "-nostartfiles",
            "-Wl,--as-needed",
            "-Wl,-z,noexecstack",
            "-s",
            "-o",
            "made",
        ]
    else:
        link = ["-r", "-nostdlib", "-o", "made"]
    call([*compiler, *link, *objects], folder)
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
