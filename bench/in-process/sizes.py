# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the library adds to a plugin that exports one function, which asks a model: its base, and
each scheme and its model on top of that.

The plugin is linked with the scheme and without any, and stripped. ONNX Runtime is not part of it:
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
#ifdef WITHOUT
extern "C" [[gnu::visibility("default")]] float ask(const char *) { return 0.0F; }
#else
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
#endif
"""


#: What the linker is asked for, as MLBridge::NAME of src/CMakeLists.txt does it.
PARTS = {
    "base": (),
    "aot": ("aot",),
    "native": ("native",),
    "unix": ("remote", "unix"),
    "core": (
        *("aot", "native", "remote", "unary", "pipe", "shm", "unix", "components", "engines"),
        *("choose", "record", "reload", "rename"),
    ),
}


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
        definition = f"-DCOMPILED={NAME}_model" if objects else "-DNOTHING"
        parts = [f"-Wl,--undefined=mlbridge_link_{part}" for part in PARTS[engine]]
        library: tuple[str | Path, ...] = (*parts, self.build / "src/libmlbridge.a")
        without = self._without() if engine == "base" else self._base()
        return self._plugin(engine, (*objects, *library), definition) - without

    @functools.cache  # noqa: B019 - lives as long as the program
    def _base(self) -> float:
        return self._plugin("base", (self.build / "src/libmlbridge.a",), "-DNOTHING")

    @functools.cache  # noqa: B019
    def _without(self) -> float:
        return self._plugin("without", (), "-DWITHOUT")

    def _plugin(self, name: str, objects: tuple[str | Path, ...], definition: str) -> float:
        source, script = self.folder / "plugin.cpp", self.folder / "plugin.map"
        source.write_text(PLUGIN)
        script.write_text("{ global: ask; local: *; };\n")
        out = self.folder / f"{name}.plugin"
        options = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-s", definition]
        options += [f"-I{ROOT / 'include'}", f"-Wl,--version-script={script}"]
        options += ["-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-pthread"]
        run("g++", *options, "-o", out, source, *objects, "-ldl", "-lm")
        return out.stat().st_size / 1024
