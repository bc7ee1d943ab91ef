# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles one signature of a TensorFlow SavedModel for mlbridge_tensorflow_aot of CMake.

Writes into --out a static library of the model and of what it needs of XLA's run time, and the
source that registers it as tfaot:NAME. TensorFlow lies in a virtual environment in --folder, which
is made the first time; objects of the run time are kept there too. Needs Python 3.9 to 3.11.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VERSION = "2.15.1"
PACKAGE = f"tensorflow-cpu=={VERSION}"
PYTHONS = ("python3.11", "python3.10", "python3.9")
# What every model needs of XLA's run time, beside what its object asks for.
BASE = (
    "tensorflow/compiler/tf2xla/xla_compiled_cpu_function.cc",
    "xla/cpu_function_runtime.cc",
    "xla/executable_run_options.cc",
    "xla/service/custom_call_status.cc",
)
CONTRACTION = "tsl/framework/contraction/eigen_contraction_kernel.cc"
RUNTIME_SYMBOL = re.compile(r"\b(__xla_cpu_runtime_\w+|__gnu_[fh]2[hf]_ieee|__truncdfhf2)\b")
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": ""}

# Run by the Python that has TensorFlow: the signature as JSON.
DESCRIBE = """
import json, sys
from tensorflow.core.framework import types_pb2
from tensorflow.python.tools import saved_model_utils
graph = saved_model_utils.get_meta_graph_def(sys.argv[1], "serve")
if sys.argv[2] not in graph.signature_def:
    sys.exit(f"{sys.argv[1]} has no signature {sys.argv[2]!r}; it has "
             + ", ".join(sorted(k for k in graph.signature_def if not k.startswith("__"))))
def side(tensors):
    return [[name, types_pb2.DataType.Name(info.dtype),
             None if info.tensor_shape.unknown_rank else [d.size for d in info.tensor_shape.dim]]
            for name, info in sorted(tensors.items())]
signature = graph.signature_def[sys.argv[2]]
print(json.dumps([side(signature.inputs), side(signature.outputs)]))
"""
TYPES = {
    "DT_FLOAT": "Float32",
    "DT_DOUBLE": "Float64",
    "DT_HALF": "Float16",
    "DT_BOOL": "Bool",
    **{f"DT_INT{bits}": f"Int{bits}" for bits in (8, 16, 32, 64)},
    **{f"DT_UINT{bits}": f"UInt{bits}" for bits in (8, 16, 32, 64)},
}
Port = tuple[str, str, "list[int] | None"]


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    """The output of a program that must succeed."""
    done = subprocess.run(
        [str(c) for c in command],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise SystemExit(
            f"tensorflow_aot: {Path(command[0]).name} failed:\n" + "\n".join(lines[-20:])
        )
    return done.stdout


def find_python() -> str:
    """One that this TensorFlow has wheels for."""
    if (3, 9) <= sys.version_info[:2] <= (3, 11):
        return sys.executable
    for name in PYTHONS:
        if found := shutil.which(name):
            return found
    raise SystemExit(
        f"tensorflow_aot: {PACKAGE} needs Python 3.9 to 3.11; there is {sys.version.split()[0]} "
        f"and none of {', '.join(PYTHONS)}"
    )


def set_up(folder: Path) -> Path:
    """The Python that has TensorFlow, installed once."""
    venv = folder / "venv"
    python = venv / "bin" / "python"
    stamp = folder / f"{PACKAGE}.ok"
    if not stamp.is_file():
        shutil.rmtree(venv, ignore_errors=True)
        run(find_python(), "-m", "venv", venv)
        pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(python, *pip, PACKAGE, "setuptools<81")
        (package,) = venv.glob("lib/python3.*/site-packages/tensorflow")
        for name, target in (("include", "include"), ("runtime", "xla_aot_runtime_src")):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(os.path.relpath(package / target, folder))
        stamp.write_text(run(python, "-m", "pip", "freeze"))
    return python


def compile_model(python: Path, options: argparse.Namespace, work: Path) -> None:
    """The class and its objects: NAME.h, NAME*.o."""
    tool = python.parent / "saved_model_cli"
    run(
        *(tool, "aot_compile_cpu", "--multithreading", "false", "--tag_set", "serve"),
        *("--dir", options.saved_model, "--signature_def_key", options.signature),
        *("--output_prefix", work / options.name, "--cpp_class", f"mlbridge_tfaot::{options.name}"),
        *("--target_triple", options.triple, "--target_cpu", options.cpu),
        env=QUIET,
    )
    if not (work / f"{options.name}.o").is_file():
        raise SystemExit("tensorflow_aot: the compiler wrote no object")


def for_processor(cxx: str, cpu: str) -> list[str]:
    """What makes this compiler use the processor as LLVM does, if it knows it."""
    flag = f"-march={cpu}"
    known = subprocess.run([cxx, flag, "-E", "-xc++", os.devnull], capture_output=True, check=False)
    return [] if known.returncode else [flag]


def runtime_objects(folder: Path, cxx: str, cpu: str, objects: list[Path]) -> list[Path]:
    """The compiled sources of XLA's run time that these objects need."""
    wanted = set(RUNTIME_SYMBOL.findall(run("nm", "--undefined-only", *objects)))
    root = folder / "runtime"
    sources = set(BASE)
    for source in root.rglob("*.cc"):
        name = source.relative_to(root).as_posix()
        if wanted & set(RUNTIME_SYMBOL.findall(source.read_text(errors="replace"))):
            sources.add(name)
            if "matmul" in name or "conv" in name:
                sources.add(CONTRACTION)
    flags = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-w", "-DNDEBUG"]
    flags += for_processor(cxx, cpu)
    key = hashlib.sha256(f"{run(cxx, '--version')}{flags}{VERSION}".encode()).hexdigest()[:12]
    kept = folder / "objects" / key
    kept.mkdir(parents=True, exist_ok=True)

    def build(name: str) -> Path:
        made = kept / (name.replace("/", "-") + ".o")
        if not made.is_file():
            fresh = made.with_suffix(f".{os.getpid()}")
            include = f"-I{folder / 'include'}"
            run(cxx, *flags, include, f"-I{root}", "-c", root / name, "-o", fresh)
            fresh.rename(made)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(build, sorted(sources)))


def check(side: list[Port], what: str, options: argparse.Namespace) -> None:
    for name, kind, shape in side:
        where = f"tensorflow_aot: {options.saved_model}: {what} {name!r}"
        if kind not in TYPES:
            raise SystemExit(f"{where} has elements of {kind}, which tfaot cannot pass")
        if shape is None or any(length < 0 for length in shape):
            raise SystemExit(
                f"{where} has the shape {shape}; XLA compiles fixed shapes only: export the "
                "signature with an input_signature that states each length"
            )


def engine_source(options: argparse.Namespace, inputs: list[Port], outputs: list[Port]) -> str:
    """What registers the class as tfaot:NAME."""
    shapes, sides = [], []
    for what, prefix, side in (("inputs", "feed_", inputs), ("outputs", "fetch_", outputs)):
        ports = []
        for i, (name, kind, shape) in enumerate(side):
            count = math.prod(shape or [])
            lengths = "nullptr"
            if shape:
                lengths = f"{what}{i}"
                numbers = ", ".join(map(str, shape))
                shapes.append(f"constexpr int64_t {lengths}[] = {{{numbers}}};")
            ports.append(
                f"      {{{json.dumps(name)}, {json.dumps(prefix + name)}, "
                f"mlbridge::ElementType::{TYPES[kind]}, {len(shape or [])}, {lengths}, {count}}},"
            )
        sides += [
            f"  static constexpr size_t {what}Size = {len(side)};",
            f"  static constexpr mlbridge::TensorflowPort {what}[] = {{",
            *ports,
            "  };",
        ]
    return "\n".join(
        [
            "// Written by tensorflow_aot.py of MLBridge.",
            f"#include <{options.name}.h>",
            "",
            "#include <mlbridge/tensorflow_aot.h>",
            "",
            "namespace {",
            *shapes,
            "struct Ports {",
            f"  static constexpr const char *key = {json.dumps(options.signature)};",
            *sides,
            "};",
            "const mlbridge::Status registered = mlbridge::registerEngine(",
            f'    "tfaot", "{options.name}",',
            f"    mlbridge::TensorflowEngine<mlbridge_tfaot::{options.name}, Ports>::table());",
            "} // namespace",
            "",
        ]
    )


def print_python(folder: Path) -> int:
    """`--set-up FOLDER`: installs TensorFlow and prints the Python that has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print(set_up(folder))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("saved-model", "signature", "name", "cpu", "triple", "folder", "out", "cxx", "ar"):
        parser.add_argument(f"--{name}", required=True)
    if sys.argv[1:2] == ["--set-up"]:
        return print_python(Path(sys.argv[2]).absolute())
    options = parser.parse_args()
    options.saved_model = Path(options.saved_model).absolute()
    folder, out = Path(options.folder).absolute(), Path(options.out).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    if not (options.saved_model / "saved_model.pb").is_file():
        raise SystemExit(
            f"tensorflow_aot: {options.saved_model} is no SavedModel: no saved_model.pb"
        )

    with (folder / "lock").open("w") as lock:  # builds may share the folder
        fcntl.flock(lock, fcntl.LOCK_EX)
        python = set_up(folder)
        described = run(python, "-c", DESCRIBE, options.saved_model, options.signature, env=QUIET)
        inputs, outputs = json.loads(described.strip().splitlines()[-1])
        check(inputs, "input", options)
        check(outputs, "output", options)
        with tempfile.TemporaryDirectory(dir=out) as scratch:
            work = Path(scratch)
            compile_model(python, options, work)
            objects = sorted(work.glob(f"{options.name}*.o"))
            objects += runtime_objects(folder, options.cxx, options.cpu, objects)
            library = work / "library.a"
            run(options.ar, "qcs", library, *objects)
            (out / "include").mkdir(exist_ok=True)  # of its own: its warnings are not the user's
            shutil.copy(work / f"{options.name}.h", out / "include")
            library.rename(out / f"lib{options.name}_tfaot.a")
    source = engine_source(options, inputs, outputs)
    (out / f"{options.name}_engine.cpp").write_text(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
