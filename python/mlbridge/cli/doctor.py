# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge doctor`: tries each part as a user would and says what is missing."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution

from .. import files
from ..optimizations import OPTIMIZATIONS, Optimization
from ..uri import for_each
from .arguments import JSON, Parser
from .common import DONE, FAILED, CommandError, version
from .flags import flags_line
from .parser import parser

# An ONNX model of 65 bytes: y = Identity(x), float32[1].
IDENTITY = bytes.fromhex(
    "08073a370a100a017812017922084964656e746974791201675a0f0a0178120a"
    "0a08080112040a020801620f0a0179120a0a08080112040a02080142040a00100d"
)
#: Components that have a line of their own.
TRIED = {"json", "protobuf", "grpc", "onnx"}
PROGRAM = "int square(int x) { int y = x; return y * y; }\n"

LLVM = "apt-get install clang-22 (Debian; stock Debian 12 has it in bookworm-security)"


def add_arguments(arguments: Parser) -> None:
    """The options of `mlbridge doctor`."""
    arguments.describe(
        """\
Checks what is installed and says what to run to get what is missing. Exits with 0 if unmodified
clang can ask the shipped model.""",
        "example:\n  mlbridge doctor --json",
    )
    arguments.option("--json", JSON)


@dataclass
class Check:
    """A part that was tried."""

    part: str
    ok: bool
    detail: str
    needed_for: str
    #: The command that installs it; empty if it is there.
    fix: str = ""
    #: True if the default set-up (unmodified clang, the shipped candidates) needs it.
    required: bool = True
    #: True if it is there and doesn't work.
    broken: bool = False


class Missing(Exception):
    """A part is missing; the second argument says what to run."""


class Broken(Missing):
    """A part is there and doesn't work; likewise."""


def first_line(text: object) -> str:
    return (str(text).strip().splitlines() or [""])[0]


def extension() -> str:
    from .. import _core

    return f"{_core.version}, Python {platform.python_version()}"


def round_trip(serdes: str, transport: str = "unix", get: str = "") -> str:
    for kind, name in (("serdes", serdes), ("transport", transport)):
        if name in TRIED and files.find_component(kind, name) is None:
            raise Missing(f"libmlbridge-{kind}-{name}.so is not there", get)
    from .._core import Signature, TensorSpec
    from ..client import open
    from ..server import Server

    signature = Signature([TensorSpec("x", "float32", [4])], [TensorSpec("y", "int64")])
    with tempfile.TemporaryDirectory(prefix="mlbridge-doctor-") as folder:
        place = "localhost:0" if transport == "grpc" else f"{folder}/s"
        with Server(f"{transport}:{place}", signature) as server:
            thread = threading.Thread(
                target=server.serve_forever, args=(lambda o, _: int(o["x"].sum()),)
            )
            thread.start()
            try:
                with open(f"{server.address}?serdes={serdes}", signature, deadline=5) as runner:
                    answer = runner.evaluate_scalar(x=[1, 2, 3, 4])
            finally:
                server.stop()
                thread.join()
    if answer != 10:
        raise Broken(f"a round trip gave {answer}, not 10", "report a bug")
    return f"a query over {transport}: was answered"


def onnx_engine() -> str:
    from .. import client
    from ..errors import Error

    with tempfile.TemporaryDirectory(prefix="mlbridge-doctor-") as folder:
        path = os.path.join(folder, "identity.onnx")
        with open(path, "wb") as file:
            file.write(IDENTITY)
        try:
            answer = client.open(f"onnx:{path}").evaluate_scalar(x=[42.0])
        except Error as error:
            fix = files.onnx_runtime_advice()
            if files.find_component("engine", "onnx") is None:
                fix = files.again("mlbridge-components")
            elif files.has_onnx_runtime():
                raise Broken(str(error), fix) from None
            raise Missing(str(error), fix) from None
    if answer != 42.0:
        raise Broken(f"a model gave {answer}, not 42.0", "report a bug")
    return "a model was opened and evaluated"


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        package = "llvm-22" if name.startswith("opt") else name.removeprefix("ld.")
        raise Missing(f"{name} is not on the PATH", LLVM.replace("clang-22", package))
    output = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    line = next((x for x in output.splitlines() if "version" in x), first_line(output))
    return f"{line.strip()} ({path})"


def shipped_models(optimization: Optimization) -> str:
    """Opens its model, or that of each of its agents."""
    from .._core import Model
    from ..errors import Error

    name, scheme, agents = optimization.model or "", optimization.engine, optimization.agents
    pattern = files.shipped_agents(name) if agents else files.shipped_model(name)
    counts = []
    for path in for_each(pattern, agents):
        if not os.path.isfile(path):
            raise Missing(
                f"{path} is not there", "install mlbridge again from a complete source tree"
            )
        try:
            signature = Model.open(f"{scheme}:{path}").model_signature
        except Error as error:
            if scheme == "onnx":
                raise Missing(str(error), "see the line on onnx above") from None
            raise Broken(str(error), "report a bug") from None
        counts.append(str(len(signature.inputs) if signature else 0))
    return f"{pattern}: {', '.join(counts)} inputs"


def plugin(optimization: Optimization, llvm: int) -> str:
    """Finds a plugin. GCC and MLIR also load it, which only the version that it is for does."""
    path, get = optimization.file(llvm), files.extra(optimization.extra(llvm))
    if not os.path.isfile(path):
        raise Missing(f"{path} is not there", get)
    if optimization.compiler == "llvm":
        return path
    is_gcc, command = optimization.compiler == "gcc", optimization.command()
    compiler = shutil.which(command)
    if compiler is None:
        install = command if is_gcc else f"mlir-{optimization.versions[0]}-tools"
        raise Missing(f"{command} is not on the PATH", f"apt-get install {install}")
    load = [f"-fplugin={path}", "-S", "-x", "c"] if is_gcc else [f"--load-pass-plugin={path}"]
    words = [compiler, *load, os.devnull, "-o", os.devnull]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode or done.stderr:
        if is_gcc and not files.is_of_debian():  # a wheel's is for the GCC that it was built with
            get = (
                "in the source tree, with gcc-12-plugin-dev: "
                "pip install ./python/distributions/gcc12"
            )
        raise Broken(first_line(done.stderr), get)
    return path


def plugins() -> list[Check]:
    """The plugins of each version; those of LLVM 22, GCC and MLIR under their names alone."""
    return [
        attempt(
            f"plugin {name}" + (f", LLVM {llvm}" if llvm != 22 else ""),
            f"mlbridge flags {name}" + (f" --llvm {llvm}" if llvm != 22 else ""),
            partial(plugin, optimization, llvm),
            required=(name, llvm) == ("phase-ordering", 22),
        )
        for llvm in (22, 19)
        for name, optimization in OPTIMIZATIONS.items()
        if llvm in optimization.versions or (optimization.compiler != "llvm" and llvm == 22)
    ]


def models() -> list[Check]:
    """The shipped models, each opened with the engine that `mlbridge flags` takes."""
    return [
        attempt(
            f"model {optimization.model}",
            f"mlbridge flags {name}{' --effort 0; ONNX Runtime' * (optimization.engine == 'onnx')}",
            partial(shipped_models, optimization),
            required=False,
        )
        for name, optimization in OPTIMIZATIONS.items()
        if optimization.model is not None
    ]


def llvm_19() -> str:
    """Finds clang 19, and says which optimizations it has."""
    of_llvm = [one for one in OPTIMIZATIONS.values() if one.compiler == "llvm"]
    able = ", ".join(one.name for one in of_llvm if 19 in one.versions)
    unable = ", ".join(one.name for one in of_llvm if 19 not in one.versions)
    return (
        f"{program('clang-19')}: {able}, and mlbridge run; not {unable}, IR2Vec embeddings, "
        "which need LLVM 22"
    )


def clang_asks() -> str:
    """Compiles a file as `mlbridge flags phase-ordering` says."""
    clang = shutil.which("clang-22")
    if clang is None:
        raise Missing("clang-22 is not on the PATH", LLVM)
    try:
        line = flags_line(parser(["flags"]).parse_args(["flags", "phase-ordering"]))
    except CommandError as error:
        raise Missing(str(error), "see the lines above") from None
    with tempfile.TemporaryDirectory(prefix="mlbridge-doctor-") as folder:
        source = os.path.join(folder, "square.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        # Through a shell, as a build system does it.
        command = f"{clang} {line} -Oz -Rpass=phase-ordering -c {source} -o {folder}/square.o"
        result = subprocess.run(
            ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=120, check=False
        )
    messages = [x.strip() for x in result.stderr.splitlines() if "warning:" in x or "error:" in x]
    if result.returncode != 0 or messages:
        text = messages[0] if messages else f"clang exited with {result.returncode}"
        raise Broken(text, "see the lines above")
    if "-Rpass=phase-ordering" not in result.stderr:
        raise Broken("clang compared nothing", "see the lines above")
    return "compiled a C file, and compared it with the shipped candidate"


def attempt(
    part: str, needed_for: str, test: Callable[[], str | None], fix: str = "", required: bool = True
) -> Check:
    broken = True
    try:
        return Check(part, True, test() or "was loaded", needed_for, required=required)
    except Missing as missing:
        detail, fix = missing.args[0], missing.args[1]
        broken = isinstance(missing, Broken)
    except subprocess.TimeoutExpired as error:
        detail = f"{error.cmd[0]} did not end within {error.timeout:.0f} s"
    except Exception as error:  # whatever is broken is what the user wants to know
        detail = f"{type(error).__name__}: {first_line(error)}"
    return Check(
        part, False, first_line(detail), needed_for, fix or "report a bug", required, broken
    )


def conflicts() -> Iterator[Check]:
    """Distributions that are both installed, and have a package of the same name."""
    for part, names, detail, needed_for, fix in (
        (
            "distribution",
            (files.DISTRIBUTION, "mlbridge"),
            f"the distribution mlbridge is installed as well as {files.DISTRIBUTION}: both "
            "have a package called mlbridge, and one may have overwritten the other",
            "everything",
            f"pip uninstall mlbridge {files.DISTRIBUTION}, then install the latter again",
        ),
        (
            f"{files.DISTRIBUTION}-compat",
            (f"{files.DISTRIBUTION}-compat", "compilerinterface"),
            "it cannot be imported beside PyPI's compilerinterface, which this tree's tests "
            "install, unless MLBRIDGE_COMPAT_BESIDE=1",
            "import CompilerInterface",
            "pip uninstall compilerinterface",
        ),
    ):
        with contextlib.suppress(PackageNotFoundError):
            for name in names:
                distribution(name)
            yield Check(part, False, detail, needed_for, fix, part == "distribution", True)
    own = version()
    for name in files.ADD_ONS:
        with contextlib.suppress(PackageNotFoundError):
            if (other := distribution(name).version) != own:
                detail = f"its version is {other}, that of {files.DISTRIBUTION} {own}"
                fix = f"pip install {name}=={own}"
                yield Check(name, False, detail, "what it has", fix, broken=True)


def checks() -> list[Check]:
    reinstall = files.again("python3-mlbridge")
    results = [
        attempt("library", "everything", extension, reinstall),
        attempt(
            "serdes bitstream",
            "unix:, shm:, pipe: (built in)",
            partial(round_trip, "bitstream"),
            reinstall,
        ),
        *(
            attempt(
                f"serdes {name}",
                f"unix:…?serdes={name}, pipe:…?serdes={name}",
                partial(round_trip, name, get=get),
                get,
                required=False,
            )
            for name, get in (
                ("json", files.again("mlbridge-components")),
                ("protobuf", files.extra("grpc")),
            )
        ),
        attempt(
            "transport grpc",
            "grpc: servers on this or another machine",
            partial(round_trip, "bitstream", "grpc", get=files.extra("grpc")),
            files.extra("grpc"),
            required=False,
        ),
        attempt(
            "engine onnx", "onnx: models in process; ONNX Runtime", onnx_engine, required=False
        ),
        attempt("clang-22", "the LLVM compiler plugins", partial(program, "clang-22")),
        attempt(
            "opt-22", "the plugins on LLVM IR alone", partial(program, "opt-22"), required=False
        ),
        attempt(
            "ld.lld-22", "mlbridge flags smallest", partial(program, "ld.lld-22"), required=False
        ),
        *plugins(),
        attempt("LLVM 19", "mlbridge flags --llvm 19", llvm_19, required=False),
        *models(),
        attempt("clang compares", "the default set-up", clang_asks),
    ]
    results += conflicts()
    with contextlib.suppress(ImportError):  # the first line says so
        from .. import _core

        for kind in ("engine", "serdes", "transport"):
            for name in sorted({*_core._component_names(kind)} - TRIED):
                load = partial(_core._open_component, kind, name)
                fix = "ask whoever made it"
                results.append(attempt(f"{kind} {name}", f"{name}:", load, fix, required=False))
    return results


def run(options: argparse.Namespace) -> int:
    """Print what was found."""
    results = checks()
    ok = all(check.ok for check in results if check.required)
    code = DONE if ok else FAILED
    if options.json:
        report = {"version": version(), "ok": ok, "checks": [asdict(check) for check in results]}
        print(json.dumps(report, indent=2))
        return code
    width = max(len(check.part) for check in results)
    for check in results:
        mark = "ok" if check.ok else "broken" if check.broken else "absent"
        if check.required and not check.ok:
            mark = "BROKEN" if check.broken else "MISSING"
        print(f"{mark:<7}  {check.part:<{width}}  {check.detail}")
        if not check.ok:
            use = "needed for:" if check.required else "optional, for:"
            print(f"{'':<{width + 9}}  {use:<14} {check.needed_for}")
            remedy = "to repair it:" if check.broken else "to get it:"
            print(f"{'':<{width + 9}}  {remedy:<14} {check.fix}")
    if ok and not all(check.ok for check in results):
        kinds = {"broken" if c.broken else "absent" for c in results if not c.ok}
        print(f"What is {' or '.join(sorted(kinds))} is optional, and nothing else needs it.")
    print(
        "Unmodified clang can ask the shipped model."
        if ok
        else "The default set-up does not work yet; see above."
    )
    return code
