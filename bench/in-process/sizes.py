# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an engine and its model add to a plugin that exports one function, which asks a model.

The plugin is linked with the engine and without any, and stripped. ONNX Runtime is not part of it:
its engine is a component, a file beside the plugin, and the library itself is another.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

NAME = "linked_in"
PLUGIN = """
#include <mlbridge/compiled.h>
#include <mlbridge/model.h>
#ifdef COMPILED
extern "C" const mlb_aot_model *COMPILED(void);
#endif
extern "C" [[gnu::visibility("default")]] float ask(const char *uri) {
#ifdef COMPILED
  if (!mlbridge::registerCompiled(COMPILED()))
    return -1;
#endif
  mlbridge::Runner runner = mlbridge::open(uri, {{mlbridge::TensorSpec::of<float>("x", {16})},
                                                 {mlbridge::TensorSpec::of<float>("y", {2})}});
  return runner.evaluateOr<float>([] { return 0.0F; });
}
"""


def run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    return subprocess.run(
        list(map(str, command)), env=env, capture_output=True, text=True, check=True
    ).stdout


def compiled(model: Path, env: dict[str, str]) -> Path:
    """The network compiled ahead of time, to be linked in."""
    out = model.with_suffix(".o")
    run(sys.executable, "-m", "mlbridge", "compile", model, "-o", out, "--name", NAME, env=env)
    return out


def kilobytes(path: Path, stripped: Path) -> float:
    """Of a file without its symbols."""
    run("strip", "-o", stripped, path)
    return stripped.stat().st_size / 1024


@dataclass(frozen=True)
class Sizes:
    """Of engines of the library in `build`, in kilobytes; `folder` takes what is built."""

    build: Path
    folder: Path

    def native(self) -> float:
        return self._added("native", self._archive(native=True))

    def aot(self, network: Path) -> float:
        """The object that `compiled` made, which has its weights."""
        return self._added("aot", network, self._archive(), definition=f"-DCOMPILED={NAME}_model")

    def tfaot(self, *objects: Path) -> float:
        """The object of the network and what it needs of XLA's run time."""
        return self._added("tfaot", *objects, self._archive())

    def onnx(self) -> float:
        """The component."""
        component = self.build / "lib/mlbridge/libmlbridge-engine-onnx.so"
        return kilobytes(component, self.folder / "component.so")

    def _added(self, name: str, *objects: Path, definition: str = "-DNOTHING") -> float:
        return self._plugin(name, objects, definition) - self._bare()

    @functools.cache  # noqa: B019 - lives as long as the program
    def _bare(self) -> float:
        return self._plugin("bare", (self._archive(),), "-DNOTHING")

    def _plugin(self, name: str, objects: tuple[Path, ...], definition: str) -> float:
        source, script = self.folder / "plugin.cpp", self.folder / "plugin.map"
        source.write_text(PLUGIN)
        script.write_text("{ global: ask; local: *; };\n")
        out = self.folder / f"{name}.plugin"
        options = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-s", definition]
        options += [f"-I{ROOT / 'include'}", f"-Wl,--version-script={script}"]
        options += ["-Wl,--exclude-libs,ALL", "-pthread"]
        run("g++", *options, "-o", out, source, *objects, "-ldl", "-lm")
        return out.stat().st_size / 1024

    @functools.cache  # noqa: B019
    def _archive(self, *, native: bool = False) -> Path:
        """The library's objects, with the native engine's or without."""
        listed = run("ninja", "-C", self.build, "-t", "query", "src/libmlbridge.a").split()
        objects = [self.build / word for word in listed if word.endswith(".o")]
        if not native:
            objects = [o for o in objects if "native" not in o.parts]
        out = self.folder / f"library-{native}.a"
        run("ar", "rcsD", out, *objects)
        return out
