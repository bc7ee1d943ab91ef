# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Longer campaigns, not part of CI: all floats through JSON, fuzzers, random networks, soaks.

    tools/nightly.py [--seconds N]    N: for each fuzzer and the soak; 600 unless given

Each campaign has a log in build/nightly/; results are in build/nightly/summary.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cmake_build import build
from common import BUILD, PYTHON, ROOT, environment

RESULTS = BUILD / "nightly"


def run(log: Path, command: list[str | Path], timeout: float) -> bool:
    with log.open("a") as out:
        out.write("$ " + " ".join(map(str, command)) + "\n")
        out.flush()
        try:
            done = subprocess.run(
                [str(c) for c in command],
                cwd=ROOT,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            out.write(f"ended: took longer than {timeout:.0f} s\n")
            return False
    return done.returncode == 0


def program(preset: str, name: str) -> Path | None:
    found = [p for p in (BUILD / "cmake" / preset).rglob(name) if p.is_file()]
    return found[0] if found else None


def all_floats(log: Path, _: int) -> bool:
    """Each of the 2^32 float32 values is the same after JSON."""
    if build("dev", []) != 0:
        return False
    sweep = program("dev", "serdes_json_all_floats")
    if sweep is None:
        log.write_text("no program serdes_json_all_floats in the dev build\n")
        return False
    components = BUILD / "cmake" / "dev" / "lib" / "mlbridge"
    return run(log, ["env", f"MLBRIDGE_COMPONENT_PATH={components}", sweep], 4 * 3600)


def seeds(target: str, log: Path) -> list[Path]:
    """Where a fuzzer starts from besides what earlier nights have found."""
    if target != "native_fuzz":
        return []
    folder = RESULTS / "random-models"
    run(log, [PYTHON, ROOT / "tests/random-networks/generate.py", "300", folder], 600)
    return [folder, ROOT / "tests/golden/hostile", ROOT / "tests/golden/onnx"]


def fuzzers(log: Path, seconds: int) -> bool:
    if build("fuzz", []) != 0:
        return False
    folder = BUILD / "cmake" / "fuzz" / "fuzz"
    targets = sorted(p for p in folder.glob("*_fuzz") if p.is_file())
    good = bool(targets)
    for target in targets:
        corpus = RESULTS / f"corpus-{target.name}"
        corpus.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={seconds}", "-print_final_stats=1", "-timeout=10"]
        options.append(f"-artifact_prefix={RESULTS}/{target.name}-")
        start = seeds(target.name, log)
        good &= run(log, [target, *options, corpus, *start], seconds + 600)
    return good


def thread_soak(log: Path, seconds: int) -> bool:
    """The unit tests under ThreadSanitizer, again and again, in another order each time."""
    if build("tsan", []) != 0:
        return False
    end = time.monotonic() + seconds
    good, rounds = True, 0
    while good and (rounds == 0 or time.monotonic() < end):
        command: list[str | Path] = ["ctest", "--test-dir", BUILD / "cmake" / "tsan"]
        command += ["-j", "4", "--output-on-failure", "--schedule-random", "--timeout", "900"]
        good = run(log, command, 7200)
        rounds += 1
    return good


def random_networks(log: Path, _: int) -> bool:
    """The native engine against ONNX Runtime; other networks each night."""
    first = int(time.time()) // 86400 * 100000
    command: list[str | Path] = [PYTHON, ROOT / "tests/random-networks/run.py"]
    command += ["--networks", "20000", "--first", str(first)]
    return run(log, [*command, "--out", RESULTS / "random-networks.json"], 4 * 3600)


def random_aliases(log: Path, _: int) -> bool:
    """Branches and loops that give out what they see, by the native engine and compiled."""
    first = int(time.time()) // 86400 * 100000
    command: list[str | Path] = [PYTHON, ROOT / "tests/random-networks/run.py"]
    command += ["--first", str(first), "--kind"]
    out = RESULTS / "random-aliases.json", RESULTS / "compiled-aliases.json"
    aot = ["many-aliases", "--engine", "aot", "--networks", "30"]
    return all(
        (
            run(log, [*command, "aliases", "--networks", "10000", "--out", out[0]], 2 * 3600),
            run(log, [*command, *aot, "--out", out[1]], 3600),
        )
    )


def torch_exports(log: Path, _: int) -> bool | str:
    """Layers of PyTorch, as its exporters write them, by the native engine."""
    if not run(log, [PYTHON, "-c", "import torch, onnxscript"], 120):
        return "PyTorch isn't there: tools/setup --train"
    folder = RESULTS / "torch"
    shutil.rmtree(folder, ignore_errors=True)
    command: list[str | Path] = [PYTHON, ROOT / "tests/random-networks/run.py", "--files", folder]
    command += ["--out", RESULTS / "torch-exports.json"]
    exported = run(log, [PYTHON, ROOT / "tests/torch-exports/export.py", folder], 3600)
    return exported and run(log, command, 3600)


def own_builds(log: Path, _: int) -> bool:
    """Real programs by their own build systems, also with the server killed in between."""
    command: list[str | Path] = [sys.executable, "-m", "programs.own_builds"]
    return run(log, command, 4 * 3600) and run(log, [*command, "--kill-server"], 4 * 3600)


def aarch64(log: Path, _: int) -> bool | str:
    """The kernels and a compiled network for AArch64, cross-compiled and run under qemu-user."""
    if not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")):
        return "there is no cross compiler: apt-get install g++-aarch64-linux-gnu qemu-user"
    kernels: list[str | Path] = [ROOT / "src/engine/native/kernels/neon_test.sh", ROOT]
    test: list[str | Path] = [PYTHON, "-m", "pytest", ROOT / "tests/install/compile_model_test.py"]
    return (
        build("dev", []) == 0
        and run(log, [*kernels, RESULTS / "neon"], 3600)
        and run(log, [*test, "-k", "another_machine"], 1800)
    )


# Each says whether it passed, or why it was left out.
CAMPAIGNS: dict[str, Callable[[Path, int], bool | str]] = {
    "all-floats": all_floats,
    "fuzzers": fuzzers,
    "random-networks": random_networks,
    "random-aliases": random_aliases,
    "torch-exports": torch_exports,
    "thread-soak": thread_soak,
    "own-builds": own_builds,
    "aarch64": aarch64,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--only", choices=sorted(CAMPAIGNS))
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = []
    for name, campaign in CAMPAIGNS.items():
        if arguments.only and name != arguments.only:
            continue
        log = RESULTS / f"{name}.log"
        log.write_text("")
        start = time.monotonic()
        print(f"{name} ... (log: {log.relative_to(ROOT)})", flush=True)
        passed = campaign(log, arguments.seconds)
        spent = time.monotonic() - start
        if isinstance(passed, str):
            print(f"{name}: left out: {passed}", flush=True)
            results.append({"name": name, "passed": True, "left_out": passed})
        else:
            print(f"{name}: {'ok' if passed else 'FAILED'}, {spent / 60:.1f} min", flush=True)
            results.append({"name": name, "passed": passed, "seconds": round(spent, 1)})
        (RESULTS / "summary.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(r["passed"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
