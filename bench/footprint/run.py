# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the bridge adds to a compiler: bytes, memory, build time; writes build/bench/footprint.json.

    run.py [--build FOLDER]

A small opt is built with LLVM's static libraries, with and without the bridge; then it compiles the
same module without a model, and with `native:` and a network of 16-8-2. The plugin for stock clang
is held against a bare one that runs the same passes. Sizes are of stripped files.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "in-process")]

from networks import perceptron  # noqa: E402
from shared import ROOT, parser, report, used  # noqa: E402
from sizes import kilobytes  # noqa: E402
from tfaot import run  # noqa: E402

ROUNDS = 7
FUNCTIONS = 400
LIBRARIES = ("passes", "irreader", "bitwriter")
SOURCE = """
int f{0}(const int *p, int n) {{
  int sum = {0};
  for (int i = 0; i < n; ++i)
    sum += p[i] > {0} ? p[i] * {1} : sum / ({1} + 1);
  return sum;
}}
"""


class Tool:
    """Builds and runs the small opt."""

    def __init__(self, build: Path, folder: Path) -> None:
        self.folder = folder
        config = "llvm-config-22"
        flags = ["-I" + run(config, "--includedir").strip(), "-O2", "-std=c++17", "-fno-rtti"]
        words = run(config, "--link-static", "--libs", "--system-libs", *LIBRARIES).split()
        # Debian's llvm-22-dev doesn't bring zstd's link, only the library itself.
        libraries = ["-l:libzstd.so.1" if word == "-lzstd" else word for word in words]
        self.link = [f"-L{run(config, '--libdir').strip()}", *libraries, "-fuse-ld=lld"]
        self.compile = ["clang++-22", *flags, "-DNDEBUG", str(HERE / "opt_like.cpp")]
        native = "-Wl,--undefined=mlbridge_link_native"  # as MLBridge::native links it
        bridge = ["-DWITH_BRIDGE", f"-I{ROOT}/include", native, str(build / "src/libmlbridge.a")]
        self.bridge = [*bridge, "-ldl", "-pthread"]

    def build(self, *, bridge: bool) -> tuple[Path, float]:
        """The program, and the seconds that compiling and linking took."""
        program = self.folder / ("with" if bridge else "without")
        command = [*self.compile, *(self.bridge if bridge else []), "-o", str(program)]
        return program, statistics.median(used([*command, *self.link])[0] for _ in range(3))

    def run(self, program: Path, ir: Path, *uri: str) -> tuple[float, float]:
        """Seconds and megabytes of one compilation."""
        command = [str(program), str(ir), str(self.folder / "out.bc"), *uri]
        runs = [used(command) for _ in range(ROUNDS)]
        return statistics.median(s for s, _ in runs), statistics.median(m for _, m in runs)


def measure(build: Path, folder: Path) -> dict[str, Any]:
    source, ir, model = folder / "many.c", folder / "many.ll", folder / "policy.onnx"
    stripped = folder / "stripped"
    source.write_text("".join(SOURCE.format(i, i % 7 + 1) for i in range(FUNCTIONS)))
    command = ["clang-22", "-O2", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-S"]
    run(*command, source, "-o", ir)
    model.write_bytes(perceptron(16, 8, 2).SerializeToString())
    tool = Tool(build, folder)
    found: dict[str, Any] = {"opt_like": [], "plugin": []}
    for name, bridge, uri in (
        ("without the bridge", False, []),
        ("with the bridge, no model", True, []),
        ("with the bridge, native:", True, [f"native:{model}"]),
    ):
        program, seconds = tool.build(bridge=bridge)
        compile_seconds, megabytes = tool.run(program, ir, *uri)
        found["opt_like"].append(
            {
                "what": name,
                "kb": round(kilobytes(program, stripped), 1),
                "rss_mb": round(megabytes, 2),
                "build_seconds": round(seconds, 2),
                "compile_seconds": round(compile_seconds, 3),
            }
        )
    for name in ("bare-phase-ordering", "mlbridge-phase-ordering"):
        path = build / f"lib/mlbridge/{name}.so"
        if path.exists():
            found["plugin"].append({"what": name, "kb": round(kilobytes(path, stripped), 1)})
    return found


def main() -> int:
    """Measure, write, print."""
    options = parser(__doc__).parse_args()
    if not shutil.which("llvm-config-22"):
        print("llvm-config-22 is not there: Debian's llvm-22-dev")
        return 1
    with tempfile.TemporaryDirectory(prefix="mlbridge-bench-") as folder:
        found = measure(options.build, Path(folder))
    heads = {"": "what", "KB": "kb", "peak MB": "rss_mb"}
    heads |= {"build, CPU s": "build_seconds", "compile, CPU s": "compile_seconds"}
    report(
        "footprint",
        found,
        "What the bridge adds to a compiler",
        "A small opt with LLVM's static libraries, and the plugin beside a bare one that runs the"
        " same passes. Sizes are of stripped files.",
        [
            {head: row.get(key) for head, key in heads.items()}
            for row in (*found["opt_like"], *found["plugin"])
        ],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
