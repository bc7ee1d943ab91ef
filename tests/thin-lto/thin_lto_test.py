# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A parallel ThinLTO link whose threads all ask one model, over each transport."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from once import SharedBuild

import mlbridge

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "build" / "cmake" / "dev"
PLUGIN = Path(os.environ.get("MLBRIDGE_PARALLEL_TEST", DEV / "tests" / "mlbridge-parallel-test.so"))
MODULES, FUNCTIONS = 16, 5
SIGNATURE = mlbridge.Signature(
    [mlbridge.TensorSpec("instructions", "int64"), mlbridge.TensorSpec("function", "str")],
    [mlbridge.TensorSpec("for_size", "int64")],
)


def compile_modules(folder: Path) -> None:
    made = []
    for module in range(MODULES):
        lines = [
            f"__attribute__((noinline)) int f{module}_{k}(int x)"
            f" {{ int s = {k}; for (int i = 0; i < x; ++i) s += s * {module + 3} ^ i; return s; }}"
            for k in range(FUNCTIONS)
        ]
        made.append(folder / f"m{module}.c")
        made[-1].write_text("\n".join(lines) + "\n")
    names = [f"f{module}_{k}" for module in range(MODULES) for k in range(FUNCTIONS)]
    main = folder / "main.c"
    main.write_text(
        "#include <stdio.h>\n"
        + "".join(f"int {name}(int);\n" for name in names)
        + "int main(void) { unsigned s = 0;\n"
        + "".join(f"  s = s * 31 + (unsigned){name}(9);\n" for name in names)
        + '  printf("%u\\n", s); return 0; }\n'
    )
    made.append(main)
    for source in made:
        command = ["clang-22", "-O2", "-flto=thin", "-c", source.name]
        subprocess.run(command, cwd=folder, check=True)


@pytest.fixture(scope="module")
def objects(shared_build: SharedBuild) -> list[str]:
    """ThinLTO objects of a program of many modules."""
    folder = shared_build("thin-lto-modules", compile_modules)
    return [str(path) for path in sorted(folder.glob("*.o"))]


def link(objects: list[str], target: Path, *options: str, **env: str) -> str:
    """What the linked program prints."""
    command = ["clang-22", "-O2", "-flto=thin", "-fuse-ld=lld", "-Wl,--thinlto-jobs=8", *options]
    done = subprocess.run(
        [*command, *objects, "-o", str(target)],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return subprocess.run([target], capture_output=True, text=True, check=True).stdout


@pytest.mark.timeout(240)
@pytest.mark.parametrize("transport", ["unix", "pipe", "shm", "grpc"])
def test_all_threads_of_a_link_ask_one_server(
    transport: str, objects: list[str], tmp_path: Path
) -> None:
    assert PLUGIN.is_file(), f"{PLUGIN} is missing: build the preset dev"
    expected = link(objects, tmp_path / "plain")
    place = {"grpc": "localhost:0", "pipe": f"{tmp_path}/r/"}.get(transport, f"{tmp_path}/s")
    asked: list[tuple[str, str]] = []

    def policy(observation: object, context: mlbridge.CallContext) -> int:
        name = str(observation["function"])  # type: ignore[index]
        asked.append((Path(context.unit).name, name))
        return int(name.endswith("3"))

    with mlbridge.Server(f"{transport}:{place}", SIGNATURE) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        try:
            printed = link(
                objects,
                tmp_path / "asked",
                f"-Wl,--load-pass-plugin={PLUGIN}",
                MLBRIDGE_TEST_MODEL=server.address,
                MLBRIDGE_COMPONENT_PATH=str(DEV / "lib" / "mlbridge"),
            )
        finally:
            server.stop()
            thread.join(30)
        statistics = server.statistics
    assert printed == expected
    names = {name for _, name in asked}
    assert {f"f{m}_{k}" for m in range(MODULES) for k in range(FUNCTIONS)} <= names
    assert len(asked) == statistics.replies == statistics.requests
    assert statistics.errors == statistics.dropped == 0
    assert statistics.connections == 1, "all threads of the linker share a connection"
    assert statistics.streams >= MODULES, "each module's pass has a stream of its own"
