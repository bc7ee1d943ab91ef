# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The places of this package's files: components, compiler plugins, models."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

PACKAGE = os.path.dirname(os.path.abspath(__file__))
#: The name of this package for pip. (PyPI's "mlbridge" is somebody else's.)
DISTRIBUTION = "ml-compiler-bridge"
#: Those with the other files of this package: compiler plugins and components.
ADD_ONS = tuple(f"{DISTRIBUTION}-{of}" for of in ("llvm22", "llvm19", "mlir22", "gcc12", "grpc"))


#: Debian's packages for some of the extras; the others need what Debian doesn't have.
DEBIAN = {
    "clang22": "mlbridge-llvm-22",
    "clang19": "mlbridge-llvm-19",
    "mlir22": "mlbridge-mlir-22",
    "gcc12": "mlbridge-gcc-12",
    "grpc": "mlbridge-components",
}


def is_of_debian() -> bool:
    """Whether this is a package of apt's, not of pip's."""
    return PACKAGE.startswith("/usr/lib/python3/")


def again(debian: str) -> str:
    """The command that installs this package again, or what Debian has a part of it in."""
    if is_of_debian():
        return f"apt-get install --reinstall {debian}"
    return f"pip install --force-reinstall {DISTRIBUTION}"


def extra(name: str) -> str:
    """The command that installs an optional part of this package, or what it needs."""
    if is_of_debian() and name in DEBIAN:
        return f"apt-get install {DEBIAN[name]}"
    return f'pip install "{DISTRIBUTION}[{name}]"'


def onnx_runtime_advice() -> str:
    """What brings ONNX Runtime."""
    if is_of_debian():
        return (
            "apt-get install libonnxruntime1.21 (Debian 13), or one of PyPI's that "
            "MLBRIDGE_ONNXRUNTIME names"
        )
    return "pip install onnxruntime"


def _folders(kind: str) -> list[str]:
    """This package's folder of "plugins" or "components", and then those of other places of Python
    packages, the user's or the system's, in which a distribution of these is installed."""
    own = os.path.join(PACKAGE, kind)
    found = {os.path.realpath(own): own}
    for place in filter(None, sys.path):
        other = os.path.join(os.path.abspath(place), "mlbridge", kind)
        if os.path.isdir(other):
            found.setdefault(os.path.realpath(other), other)
    return list(found.values())


def plugin_file(name: str) -> str:
    """The file of a plugin ("gcc_settings.so"), whether or not it is there."""
    files = [os.path.join(folder, name) for folder in _folders("plugins")]
    return next(filter(os.path.isfile, files), files[0])


def plugin(name: str, llvm: int = 22) -> str:
    """The compiler plugin ("phase-ordering") for an LLVM version, whether or not it is there."""
    ending = "" if llvm == 22 else f"-{llvm}"
    return plugin_file(f"mlbridge-{name}{ending}.so")


def gcc_plugin(name: str) -> str:
    """A plugin of GCC ("gcc_settings"), whose options begin with its name, likewise."""
    return plugin_file(f"{name}.so")


def clang_words(plugin: str, *options: str, llvm: int = 22) -> list[str]:
    """Has stock clang load a plugin, and gives options to LLVM."""
    # The older one reads options of LLVM before it loads pass plugins.
    early = ["-Xclang", "-load", "-Xclang", plugin] if llvm < 22 else []
    return [*early, "-Xclang", f"-fpass-plugin={plugin}", *llvm_words(*options)]


def linker_words(plugins: Iterable[str], key: str) -> list[str]:
    """Has stock clang link by lld, which loads plugins; `key` becomes part of the keys of ThinLTO's
    cache, which don't know what a plugin does."""
    load = [f"--load-pass-plugin={plugin}" for plugin in plugins]
    # The option names a function for a debugging aid of LLVM that is off.
    line = [*load, "-mllvm", f"-print-bfi-func-name=mlbridge-{key}"]
    return [word for one in line for word in ("-Xlinker", one)]


def llvm_words(*options: str) -> list[str]:
    """Has clang give options to LLVM, in compilations only."""
    return [word for option in options for word in ("-Xclang", "-mllvm", "-Xclang", option)]


def cmake_module() -> str:
    """The file for CMake that defines mlbridge_optimize, whether or not it is there."""
    return os.path.join(PACKAGE, "cmake", "MLBridgeOptimize.cmake")


def action_list(optimization: str) -> str:
    """The JSON file of the actions that a plugin has built in, whether or not it is there."""
    return os.path.join(PACKAGE, "plugins", f"{optimization}-actions.json")


def vocabulary() -> str:
    """The vocabulary for IR2Vec that the plugins have built in, whether or not it is there."""
    return os.path.join(PACKAGE, "plugins", "ir2vec-vocabulary.json")


def machine_vocabulary() -> str:
    """The vocabulary for machine code, likewise."""
    return os.path.join(PACKAGE, "plugins", "machine-vocabulary.json")


def shipped_model(name: str) -> str:
    """The ONNX file of a shipped model ("phase-ordering-size"), whether or not it is there."""
    return os.path.join(PACKAGE, "models", name, "policy.onnx")


def shipped_agents(name: str) -> str:
    """The files of a model with several agents, likewise: {agent} stands for the name of each."""
    return os.path.join(PACKAGE, "models", name, "{agent}.onnx")


def shipped_candidates(name: str, *, link: bool = False) -> str:
    """The list of candidates of a shipped model, best first, whether or not it is there; `link`:
    those for modules of a link."""
    file = "link-candidates.json" if link else "candidates.json"
    return os.path.join(PACKAGE, "models", name, file)


def component_folders() -> list[str]:
    """The folders in which components are looked for, in this order."""
    listed = os.environ.get("MLBRIDGE_COMPONENT_PATH", "").split(":")
    return [*filter(None, listed), *_folders("components")]


#: What the user has set.
STATED_COMPONENTS = os.environ.get("MLBRIDGE_COMPONENT_PATH")


def share_components() -> None:
    """Has the extension, and compilers that are started, find the components of other places."""
    if len(_folders("components")) > 1:
        os.environ["MLBRIDGE_COMPONENT_PATH"] = ":".join(dict.fromkeys(component_folders()))


def find_onnx_runtime() -> str | None:
    """ONNX Runtime as MLBRIDGE_ONNXRUNTIME names it, or this environment's folder of it."""
    if stated := os.environ.get("MLBRIDGE_ONNXRUNTIME"):
        return os.path.abspath(stated)
    for folder in [os.path.dirname(os.path.realpath(PACKAGE)), *sys.path]:
        capi = os.path.join(folder, "onnxruntime", "capi")
        if folder and os.path.isdir(capi):
            return os.path.abspath(capi)
    return None


def has_onnx_runtime() -> bool:
    """Whether an ONNX Runtime is where find_onnx_runtime() says, if it works or not."""
    found = find_onnx_runtime()
    if found is None or not os.path.isdir(found):
        return found is not None and os.path.isfile(found)
    return any(name.startswith("libonnxruntime.so") for name in os.listdir(found))


def onnx_runtime() -> str | None:
    """The folder of Python's ONNX Runtime, if the engine would not find it by itself."""
    found = find_onnx_runtime()
    beside = os.path.join(os.path.dirname(os.path.realpath(PACKAGE)), "onnxruntime", "capi")
    return None if os.environ.get("MLBRIDGE_ONNXRUNTIME") or found == beside else found


def find_component(kind: str, name: str) -> str | None:
    """The file of a component: `kind` is "engine", "serdes" or "transport"."""
    for folder in component_folders():
        path = os.path.join(folder, f"libmlbridge-{kind}-{name}.so")
        if os.path.isfile(path):
            return path
    return None
