# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""clang with a plugin makes an object wherever plain clang does: with few descriptors, processes
and little memory, over each runner."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnxruntime
import pytest
from compiler import loading
from sampling import nightly
from users import need_another_user

import mlbridge

PACKAGE = Path(mlbridge.__file__).parent
MODEL = PACKAGE / "models" / "inliner-size" / "policy.onnx"
SOURCE = """
static int square(int x) { return x * x; }
static int twice(int x) { return square(x) + square(x + 1); }
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += twice(values[i]) + square(i);
  return total;
}
"""
RUNNERS = ("native", "aot", "onnx", "unix", "shm", "pipe", "folder", "grpc")
#: Has no other processes.
OTHER = 54321
HANGS = 120


@dataclass
class Place:
    """A folder with a source, and the models that it is compiled with."""

    folder: Path
    uris: dict[str, str]

    def flags(self, runner: str, package: Path = PACKAGE) -> list[str]:
        network = self.folder / "policy.so"
        if runner == "aot" and not network.exists():
            command = [sys.executable, "-m", "mlbridge", "aot"]
            subprocess.run([*command, MODEL, "-o", network], check=True)
        own = package / "plugins" / "mlbridge-inliner.so"
        return loading("inliner", own=own, model=self.uris[runner])

    def compile(
        self, name: str, limit: tuple[str, int], flags: list[str], user: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`limit`: an option of the shell's ulimit."""
        output = self.folder / name
        output.unlink(missing_ok=True)
        compiler = ["clang-22", "-Oz", "-c", self.folder / "f.c", "-o", output, *flags]
        env = dict(os.environ)
        if user is not None:  # who may not look where a preloaded library lies
            env.pop("LD_PRELOAD", None)
        words = ["bash", "-c", f'ulimit -{limit[0]} {limit[1]} && exec "$@"', "bash", *compiler]
        return subprocess.run(
            [str(word) for word in words],
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
            cwd=self.folder,
            env=env,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )

    def must_compile(
        self, runner: str, limit: tuple[str, int], user: int | None = None, package: Path = PACKAGE
    ) -> str:
        """What the compiler says, if plain clang can do it."""
        if self.compile("plain.o", limit, [], user).returncode:
            return "plain clang can't"
        done = self.compile("f.o", limit, self.flags(runner, package), user)
        where = f"{runner}, ulimit -{limit[0]} {limit[1]}"
        assert done.returncode == 0, f"{where}: {done.returncode}: {done.stderr[-2000:]}"
        assert (self.folder / "f.o").stat().st_size, where
        return done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("limits")
    (folder / "f.c").write_text(SOURCE)
    served = {
        "unix": f"unix:{folder}/u",
        "shm": f"shm:{folder}/s",
        "pipe": f"pipe:{folder}/p",
        "folder": f"pipe:{folder}/d/",
        "grpc": "grpc:127.0.0.1:0",
    }
    uris = {"native": f"native:{MODEL}", "aot": f"aot:{folder}/policy.so", "onnx": f"onnx:{MODEL}"}
    servers, threads = [], []
    try:
        for name, at in served.items():
            server = mlbridge.Server(at)
            servers.append(server)
            uris[name] = server.address
            policy = threading.Thread(target=server.serve_forever, args=(lambda f, context: 1,))
            policy.start()
            threads.append(policy)
        yield Place(folder, uris)
    finally:
        for server in servers:
            server.stop()
        for thread in threads:
            thread.join(HANGS)
        for server in servers:
            server.close()


@pytest.fixture(scope="module")
def least(place: Place) -> int:
    """KiB of address space that plain clang needs, and a plugin fits into."""
    low, high = 1 << 10, 4 << 20
    while high - low > 1 << 12:
        middle = (low + high) // 2
        done = place.compile("plain.o", ("v", middle), [])
        low, high = (low, middle) if done.returncode == 0 else (middle, high)
    return high + (8 << 10)


@pytest.mark.parametrize(
    ("runner", "limits"),
    [
        ("grpc", [5, 6, 7, 8, 16]),
        ("onnx", [5, 7]),
        *(nightly(runner, range(3, 25)) for runner in RUNNERS),
    ],
)
def test_descriptors(runner: str, limits: list[int], place: Place) -> None:
    assert place.must_compile(runner, ("n", 1024)) == ""
    said = [place.must_compile(runner, ("n", limit)) for limit in limits]
    if runner == "grpc":
        assert any("descriptors of gRPC: Too many open files" in text for text in said)


@pytest.mark.parametrize(
    ("runner", "more"),
    [
        ("onnx", [40]),
        ("grpc", [60]),
        *(nightly(runner, [*range(0, 100, 4), *range(100, 700, 25)]) for runner in RUNNERS),
    ],
)
def test_memory(runner: str, more: list[int], place: Place, least: int) -> None:
    """`more` MiB than the compiler needs."""
    said = [place.must_compile(runner, ("v", least + (mib << 10))) for mib in more]
    if runner in ("onnx", "grpc"):
        assert any("MiB for" in text for text in said)


@pytest.mark.parametrize(
    ("runner", "limits"),
    [
        ("grpc", [1, 6]),
        ("onnx", [1]),
        *(nightly(runner, range(1, 30)) for runner in ("native", "aot", "onnx", "grpc")),
    ],
)
def test_processes(
    runner: str, limits: list[int], place: Place, common: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user, as the superuser has no limit."""
    need_another_user()
    package = common / "package"
    for part in (
        "plugins/mlbridge-inliner.so",
        "components/libmlbridge-engine-onnx.so",
        "components/libmlbridge-transport-grpc.so",
    ):
        (package / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / part, package / part)
    (library,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so*")
    shutil.copy(library, common / "libonnxruntime.so")
    monkeypatch.setenv("MLBRIDGE_ONNXRUNTIME", str(common / "libonnxruntime.so"))
    monkeypatch.setenv("MLBRIDGE_COMPONENT_PATH", str(package / "components"))
    shutil.copy(place.folder / "f.c", common)
    shutil.copy(MODEL, common)
    uris = {
        "native": f"native:{common}/{MODEL.name}",
        "onnx": f"onnx:{common}/{MODEL.name}",
        "aot": f"aot:{common}/policy.so",
        "grpc": place.uris["grpc"],
    }
    common.chmod(0o777)
    theirs = Place(common, uris)
    assert theirs.must_compile(runner, ("u", 1000), OTHER, package) == ""
    said = [theirs.must_compile(runner, ("u", limit), OTHER, package) for limit in limits]
    if runner == "grpc":
        assert any("start the threads of gRPC" in text for text in said)
