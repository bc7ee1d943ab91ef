# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation ahead of time: an ONNX network as sources, an object file or a shared object."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import _core, files
from .errors import Error, InvalidArgument, InvalidModel, NotFound, Unsupported
from .outputs import write_whole
from .reading import open_file

# Fused operations are where the kernels say so, and nowhere else.
FLAGS = """
-std=c++17 -O3 -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics
-fno-asynchronous-unwind-tables -fno-math-errno -fno-trapping-math -ffp-contract=off -w
""".split()
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*(f"-mavx512{part}" for part in ("f", "dq", "bw", "vl")), "-mprefer-vector-width=512"]
# The machine that has it, and the compiler's flags. The last one that the CPU has is chosen at run
# time.
INSTRUCTION_SETS: dict[str, tuple[str, list[str]]] = {
    "portable": ("", ["-Os"]),
    "neon": ("aarch64", []),
    "avx2": ("x86_64", AVX2),
    "avx512": ("x86_64", AVX2 + AVX512),
}
PACKAGE = Path(files.PACKAGE)
#: The marks of files that this module, or an older version, has written.
WRITTEN = (b"Made by mlbridge aot", b"Made by mlbridge compile")


def compile(
    model: str,
    output: str,
    *,
    name: str | None = None,
    header: str | None = None,
    shared: bool = False,
    external_weights: bool = False,
    lengths: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    instruction_sets: Sequence[str] = (),
    depfile: str | None = None,
    compiler: Sequence[str] = ("c++",),
    memory: int = 0,
) -> None:
    """Compile the network in a file, as `mlbridge aot` does, which describes these options.

    An `output` that ends in / is a folder for sources, in .so a shared object, in .weights the
    weights alone. Raises an Error, also for a C++ compiler that fails; no output is half written.
    """
    to_folder, place = output.endswith("/"), Path(output).absolute()
    only_weights = place.suffix == ".weights"
    external = external_weights or only_weights
    weights_file = place.with_suffix(".weights")
    name = name or identifier_of(place)
    others = [Path(header)] if header else []
    if external and not only_weights and not to_folder:
        others.append(weights_file)
    check_places(Path(model), [place, *others])
    machine = None if to_folder else machine_of(compiler)
    sets = available_sets(instruction_sets, machine)
    try:
        generate = _core._generate
    except AttributeError:
        raise Unsupported("this build of mlbridge has no native engine") from None
    source, header_text, weights, read = generate(
        model, name, dict(lengths or {}), dict(shapes or {}), external, memory
    )
    generated = (source, header_text, weights)
    if only_weights:
        write(place, weights)
        return
    if to_folder:
        place.mkdir(parents=True, exist_ok=True)
        write_sources(place, name, generated, sets)
        if external_weights:
            (place / f"{name}_weights.bin").rename(place / f"{name}.weights")
        if depfile:
            write_depfile(Path(depfile), place / f"{name}.cpp", [Path(model).absolute(), *read])
        return
    with tempfile.TemporaryDirectory(prefix="mlbridge-aot-") as temporary:
        folder = Path(temporary)
        write_sources(folder, name, generated, sets)
        linked = build(compiler, sets, name, shared or place.suffix == ".so", folder)
        write(place, linked.read_bytes())
    if header:
        write(Path(header), header_text)
    if external:
        write(weights_file, weights)


def write_sources(
    folder: Path, name: str, generated: tuple[bytes, bytes, bytes], sets: Iterable[str] = ()
) -> None:
    """Write NAME.h, NAME.cpp, NAME_ISA.cpp for each instruction set, and what they include.

    Without `sets` they choose by the compiler's target. Files of another origin stay, and are an
    error.
    """
    source, header, weights = generated
    listed = " ".join(f"X({isa.capitalize()})" for isa in sets)
    chosen = f"#define MLBRIDGE_AOT_ISAS(X) {listed}\n" if listed else ""
    contents = {f"{name}.cpp": chosen.encode() + source, f"{name}.h": header}
    for isa in sets or INSTRUCTION_SETS:
        contents[f"{name}_{isa}.cpp"] = evaluation(name, isa).encode()
    for header_file in [*(PACKAGE / "kernels").glob("*.h"), PACKAGE / "include/mlbridge/aot.h"]:
        contents[f"{header_file.parent.name}/{header_file.name}"] = header_file.read_bytes()
    is_ours = all(may_replace(folder / file, data) for file, data in contents.items())
    contents[f"{name}_weights.bin"] = weights
    for file in (f"{name}_weights.bin", f"{name}.weights"):  # which cannot say what they are
        is_ours &= (folder / f"{name}.cpp").is_file() or not os.path.lexists(folder / file)
    if not is_ours:
        raise InvalidArgument(f"{folder} has other files of these names; choose another folder")
    for file, data in contents.items():
        (folder / file).parent.mkdir(exist_ok=True)
        write(folder / file, data)


def may_replace(place: Path, data: bytes) -> bool:
    """True if a file is missing or of this module: it says so, or is a header that begins as `data`
    does."""
    if not os.path.lexists(place):
        return True
    with contextlib.suppress(Error, OSError), open_file(place) as file:
        head = file.read(4096)
        is_header = head.startswith(data.partition(b"\n")[0]) and b"MLBRIDGE_" in head
        says_so = any(text in head[:200] for text in WRITTEN)
        return not place.is_symlink() and (says_so or is_header)
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
    return "\n".join(["// Made by mlbridge aot.", *lines, ""])


def write_depfile(path: Path, target: Path, read: Iterable[str | Path]) -> None:
    """The files that the sources depend on, for make and Ninja: the model and this very program."""
    tools = [_core.__file__, __file__, PACKAGE / "include/mlbridge/aot.h"]
    tools += sorted((PACKAGE / "kernels").glob("*.h"))
    escaped = [str(name).replace("\\", "\\\\").replace(" ", "\\ ") for name in (*read, *tools)]
    rule = f"{str(target).replace(' ', chr(92) + ' ')}: {' '.join(escaped)}\n"
    write(path, os.fsencode(rule))


def check_places(model: Path, outputs: Iterable[Path]) -> None:
    """InvalidArgument if an output would be written over the model or another one."""
    taken = {os.path.realpath(model): "the model"}
    for output in outputs:
        place = os.path.realpath(output)
        if place in taken:
            raise InvalidArgument(f"{output} would be written over {taken[place]}")
        taken[place] = "another output"


def identifier_of(path: Path) -> str:
    """The default prefix of the symbols: the file's name."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    return name if name and not name[0].isdigit() else "model_" + name


def available_sets(wanted: Sequence[str], machine: str | None) -> list[str]:
    """The instruction sets that are wanted, the preferred one last; if none is, the machine's."""
    if machine is not None:
        known = [name for name, (needed, _) in INSTRUCTION_SETS.items() if needed in ("", machine)]
        if foreign := [name for name in wanted if name not in known]:
            raise InvalidArgument(
                f"--isa: the C++ compiler is for {machine}, which has {', '.join(known)}, not "
                f"{foreign[0]}; state another compiler with --cxx"
            )
        wanted = wanted or known
    return [name for name in INSTRUCTION_SETS if name in wanted]


def build(
    compiler: Sequence[str], sets: Sequence[str], name: str, shared: bool, folder: Path
) -> Path:
    """Compile the sources in the folder, and return the output's path."""
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
    call([*compiler, *link, "-o", "linked", *objects], folder)
    return folder / "linked"


def machine_of(compiler: Sequence[str]) -> str:
    """The machine that it compiles for, which isn't ours if it is a cross compiler."""
    try:
        triple = subprocess.run(
            [*compiler, "-dumpmachine"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return platform.machine()
    return triple.strip().partition("-")[0]


def call(command: Sequence[str], folder: Path) -> None:
    """Run a command of the C++ compiler. NotFound, InvalidModel."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotFound(f"no C++ compiler (--cxx): {command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [done.stderr]
        raise InvalidModel(f"{lines[0][-1000:]}; the C++ compiler failed: {shlex.join(command)}")


def write(path: Path, contents: bytes) -> None:
    """Write an output. NotFound, where that is not possible."""
    try:
        write_whole(path, contents)
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from None
