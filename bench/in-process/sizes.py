# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an engine and its model add to a plugin that exports one function, which asks a model.

The plugin is linked with the engine and without any, and stripped. ONNX Runtime is not part of it:
its engine is a component, a file beside the plugin, and the library itself is another.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from tfaot import run

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

NAME = "linked_in"  # of the network that is compiled ahead of time
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


def kilobytes(path: Path, stripped: Path) -> float:
    """The size of a file without its symbols."""
    run("strip", "-o", stripped, path)
    return stripped.stat().st_size / 1024


@dataclass(frozen=True)
class Sizes:
    """Kilobytes of engines of the library in `build`; `folder` takes what is built."""

    build: Path
    folder: Path

    def of(self, engine: str, *objects: Path) -> float:
        """The engine with the objects of its network, or for onnx the component."""
        if engine == "onnx":
            component = self.build / "lib/mlbridge/libmlbridge-engine-onnx.so"
            return kilobytes(component, self.folder / "component.so")
        definition = f"-DCOMPILED={NAME}_model" if engine == "aot" else "-DNOTHING"
        archive = self._archive(native=engine == "native")
        return self._plugin(engine, (*objects, archive), definition) - self._bare()

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
            objects = [o for o in objects if "native" not in o.relative_to(self.build).parts]
        out = self.folder / f"library-{native}.a"
        run("ar", "rcsD", out, *objects)
        return out
