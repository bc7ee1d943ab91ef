# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Longer campaigns, not part of CI: tests of which `make test` runs a sample, whole installations,
LLVM 19, all floats through JSON, fuzzers, random networks, soaks.

    tools/nightly.py [--minutes N] [--only CAMPAIGN ...]

What has no end of its own has a share of the minutes, 20 unless given; on two cores the others,
and building what is not there, take some hours more. Each campaign has a log in build/nightly/;
results are in build/nightly/summary.json.
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

import train_venv
from cmake_build import build
from common import BUILD, PYTHON, ROOT, jobs, run_logged

RESULTS = BUILD / "nightly"
RANDOM_NETWORKS = ROOT / "tests/random-networks/run.py"
COMPARE = (PYTHON, "-m", "experiments.compare")
FEW = ("zlib", "bzip2", "lz4", "byacc", "expat")
LONG_BUILD = "MLBRIDGE_LONG_TESTS=ON"  # C++ tests that `make test` doesn't build
LONG = {"MLBRIDGE_LONG_TESTS": "1"}  # of C++ tests of which `make test` runs a sample
# Python tests that `make test` leaves out, in any folder: which campaign runs which marks.
MARKED = {
    "whole-tests": "nightly and not llvm19 and not training",
    "llvm-19": "llvm19",
    "training": "training",
}
HOURS = 3600  # seconds
TONIGHT = int(time.time()) // 86400  # from which seeds are made, others each night
Campaign = Callable[[Path, float], bool]
COMPONENTS = {"MLBRIDGE_COMPONENT_PATH": str(BUILD / "cmake" / "dev" / "lib" / "mlbridge")}


def run(
    log: Path, *command: str | Path, seconds: float = 1800, env: dict[str, str] | None = None
) -> bool:
    """Runs a program into the log; false if it fails, or doesn't end in this time."""
    return run_logged(log, *command, seconds=seconds, env=env) == 0


def all_floats(log: Path, seconds: float) -> bool:
    """Each of the 2^32 float32 values is the same after JSON; a seventh of them each night."""
    if build("dev", ["serdes_json_all_floats", "mlbridge-serdes-json"]) != 0:
        return False
    sweep = BUILD / "cmake/dev/src/serdes/json/serdes_json_all_floats"
    first = TONIGHT % 7
    return run(log, sweep, "7", str(first), seconds=4 * seconds, env=COMPONENTS)


def seeds(target: str, log: Path) -> list[Path]:
    """Where a fuzzer starts from besides what earlier nights have found."""
    if target != "native_fuzz":
        return []
    folder = RESULTS / "random-models"
    run(log, PYTHON, ROOT / "tests/random-networks/generate.py", "300", folder)
    run(log, PYTHON, ROOT / "tests/classical/classical_models.py", folder)
    return [folder, ROOT / "tests/golden/hostile", ROOT / "tests/golden/onnx"]


def fuzzers(log: Path, seconds: float) -> bool:
    if build("fuzz", []) != 0:
        return False
    targets = sorted((BUILD / "cmake/fuzz/fuzz").glob("*_fuzz"))
    good = bool(targets)
    for target in targets:
        corpus = RESULTS / f"corpus-{target.name}"
        corpus.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={int(seconds / len(targets))}", "-print_final_stats=1"]
        options += ["-timeout=10", f"-artifact_prefix={RESULTS}/{target.name}-"]
        own = RESULTS / f"{target.name}.log"
        own.unlink(missing_ok=True)
        code = run_logged(own, target, *options, corpus, *seeds(target.name, log), seconds=HOURS)
        count = (ROOT / "tests/outside/damaged.py", own, target.name, str(code))
        good &= run(log, PYTHON, *count, "--artifacts", RESULTS) and code == 0
    return good


def random_networks(log: Path, kind: str, count: int, out: str, *options: str) -> bool:
    """The native engine, or a compiled model, against ONNX Runtime; others each night."""
    first = TONIGHT * 100000
    command = ["--networks", str(count), "--first", str(first), "--kind", kind, *options]
    return run(log, PYTHON, RANDOM_NETWORKS, *command, "--out", RESULTS / f"{out}.json")


def aliases(log: Path, seconds: float) -> bool:
    """Branches and loops that give out what they see, by the native engine and compiled."""
    native = random_networks(log, "aliases", int(seconds * 20), "random-aliases")
    compiled = ("compiled-aliases", "--engine", "aot")
    return random_networks(log, "many-aliases", max(3, int(seconds / 10)), *compiled) and native


def torch_exports(log: Path, _: float) -> bool:
    """Layers of PyTorch, as its exporters write them, by the native engine."""
    train_venv.prepare()
    folder = RESULTS / "torch"
    shutil.rmtree(folder, ignore_errors=True)
    out = RESULTS / "torch-exports.json"
    exported = run(log, train_venv.PYTHON, ROOT / "tests/torch-exports/export.py", folder)
    return exported and run(log, PYTHON, RANDOM_NETWORKS, "--files", folder, "--out", out)


def classical_exports(log: Path, _: float) -> bool:
    """Models of scikit-learn, LightGBM and XGBoost as exported, by the native engine."""
    train_venv.prepare()
    folder = RESULTS / "classical"
    shutil.rmtree(folder, ignore_errors=True)
    script = ROOT / "tests/classical/exports.py"
    exported = run(log, train_venv.PYTHON, script, "export", folder)
    return exported and run(log, PYTHON, script, "compare", folder)


def tests(
    log: Path, *options: str, python: Path = PYTHON, env: dict[str, str] | None = None
) -> bool:
    """Runs pytest, by default in all folders."""
    command: list[str | Path] = [python, "-m", "pytest", *options, "--durations=20"]
    return run(log, *command, seconds=4 * HOURS, env=env)


def training(log: Path, _: float) -> bool:
    """Every algorithm, small; many episodes with killed compilers; trainers' own checks. What else
    there is of environments is tested beside the libraries of trainers, too."""
    train_venv.prepare()
    marked = tests(log, "-m", MARKED["training"], python=train_venv.PYTHON)
    return tests(log, "tests/training", "tests/gym", python=train_venv.PYTHON) and marked


def whole_tests(log: Path, _: float) -> bool:
    """The tests of which `make test` runs a sample, whole, also with sanitizers: every byte of
    hostile models, every fault, every runner of every optimization, TensorFlow's models,
    installations. Other random loops each night."""
    if build("dev", []) != 0 or build("asan", [], LONG_BUILD) != 0:
        return False
    seed = {"MLBRIDGE_FIRST_SEED": str(TONIGHT * 1000)}
    good = tests(log, "-n", str(jobs()), "-m", MARKED["whole-tests"], env=seed)
    for preset, options in (("dev", ["-L", "slow"]), ("asan", ["-L", "slow|unit"])):
        command = ["ctest", "--preset", preset, *options, "--parallel", str(jobs())]
        good &= run(log, *command, env=LONG)
    return good


def llvm_19(log: Path, _: float) -> bool:
    """What plugins and hosts do with the older LLVM."""
    if build("dev", [], LONG_BUILD) != 0:
        return False
    good = run(log, "ctest", "--preset", "dev", "-R", "^llvm_19")
    return tests(log, "-n", str(jobs()), "-m", MARKED["llvm-19"]) and good


def clang_tidy(log: Path, _: float) -> bool:
    """All files, of which `make test` looks at those that differ from main."""
    return build("dev", []) == 0 and run(
        log, PYTHON, ROOT / "tools/tidy.py", "--all", seconds=HOURS
    )


def listed_packages(log: Path, _: float) -> bool:
    """What builds read and commands start is in the list of packages."""
    return build("dev", []) == 0 and tests(log, "tests/closure", "-m", "")


def thread_soak(log: Path, seconds: float) -> bool:
    """The unit tests under ThreadSanitizer, again and again, in another order each time."""
    if build("tsan", [], LONG_BUILD, "MLBRIDGE_NATIVE=ON") != 0:
        return False
    end = time.monotonic() + seconds
    good = True
    while good and time.monotonic() < end:
        good = run(log, "ctest", "--preset", "tsan", "-j", "4", "--schedule-random")
    return good


def flags(optimization: str, *options: str) -> str:
    """What `mlbridge flags` prints."""
    command = [str(PYTHON), "-m", "mlbridge", "flags", optimization, *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def demo(log: Path, _: float) -> bool:
    """All programs of the demo by all engines; `make demo` compares some of them on a few."""
    return run(log, PYTHON, ROOT / "demo/run.py", "--all-engines", "--output", RESULTS / "demo")


def paper(log: Path, _: float) -> bool:
    """The evaluation of the paper in its short form: every table and figure, of small inputs."""
    if build("bench", []) != 0 or build("dev", []) != 0:
        return False
    page = RESULTS / "paper" / "evaluation.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = [PYTHON, "-m", "experiments.paper.run", "--short", "--again"]
    made = run(log, *command, "--page", page, seconds=2 * HOURS)
    return made and "Not measured" not in page.read_text()


def own_builds(log: Path, _: float) -> bool:
    """Real programs by their own build systems, also with the server killed in between."""
    command = [sys.executable, "-m", "experiments.own_builds"]
    return run(log, *command) and run(log, *command, "--kill-server")


def links(log: Path, _: float) -> bool:
    """Real programs linked as a whole with one and ten candidates, in full LTO and ThinLTO."""
    command: list[str | Path] = [PYTHON, "-m", "experiments.link", *FEW, "--effort", "1", "10"]
    return all([run(log, *command), run(log, *command, "--lto", "thin")])


def loop_distribution(log: Path, _: float) -> bool:
    """Real programs at -O3, with agents that decide so."""
    models = {"always": "function:always", "random": f"function:random?seed={TONIGHT * 1000}"}
    ways = [
        f"--way={name}={flags('loop-distribution', '--model', model)}"
        for name, model in models.items()
    ]
    return run(log, *COMPARE, *FEW, "--level", "O3", *ways)


def allocations() -> dict[str, str]:
    """Flags of agents that allocate registers, the machine verifier behind them."""
    models = {
        "shipped": ["--effort", "0"],
        "heuristic": ["--model", "function:heuristic"],
        "random": ["--model", f"function:random?seed={TONIGHT}"],
    }
    asked = {
        name: flags("register-allocation", *model, "--on-failure", "fail")
        for name, model in models.items()
    }
    verify = "-Xclang -mllvm -Xclang -verify-machineinstrs"
    return {name: f"{line} {verify}" for name, line in asked.items()}


def register_allocation(log: Path, _: float) -> bool:
    """Real programs by three agents: the demo's, also for AArch64; those of own_builds.toml by one
    of the agents, another each night. All functions, some thousands, by random agents as well."""
    ways = allocations()
    options = ["--level", "O2", *(f"--way={name}={line}" for name, line in ways.items())]
    good = run(log, *COMPARE, "demo", *options)
    cross = [
        "--compiler=clang-22 --target=aarch64-linux-gnu -I/usr/aarch64-linux-gnu/include",
        "--emulator=qemu-aarch64 -L /usr/aarch64-linux-gnu",
    ]
    good &= run(log, *COMPARE, *FEW, *cross, *options)
    asked = list(ways.values())[TONIGHT % len(ways)]
    return run(log, PYTHON, "-m", "experiments.own_builds", f"--flags={asked}") and good


def outside(script: str, *options: object) -> tuple[Campaign, float]:
    """A campaign over what others wrote; its counts are in build/nightly/outside.json."""
    command: list[str | Path] = [PYTHON, ROOT / "tests/outside" / script, *map(str, options)]
    return lambda log, _: run(log, *command, seconds=2 * HOURS), 0.0


def debian_packages(log: Path, _: float) -> bool:
    """Built in one minimal Debian; installed, used, upgraded and purged in another. Needs root."""
    script = ROOT / "tests/debian/debian_packages.py"
    return run(log, PYTHON, script, RESULTS / "debian-packages", seconds=4 * HOURS)


def two_releases(log: Path, _: float) -> bool:
    """Compilers and servers of the release before and of this one, on every transport."""
    return run(log, PYTHON, ROOT / "tests/interop/two_releases.py", seconds=HOURS)


def fleet(log: Path, _: float) -> bool:
    """Ten thousand compiles while the servers of their model are replaced and killed."""
    script = ROOT / "tests/fleet/campaign.py"
    command = (PYTHON, script, "--compiles", "10000", "--out", RESULTS / "fleet.json")
    return run(log, *command, seconds=4 * HOURS)


def aarch64(log: Path, _: float) -> bool:
    """The kernels for AArch64, cross-compiled and run under qemu-user."""
    return run(log, ROOT / "src/engine/native/kernels/neon_test.sh", ROOT, RESULTS / "neon")


def wheels(log: Path, _: float) -> bool:
    """Wheels for other machines, in minimal Debians. Needs root."""
    made = run(log, PYTHON, ROOT / "tools/wheels.py", seconds=2 * HOURS)
    return made and run(log, PYTHON, ROOT / "tools/try_wheels.py", seconds=2 * HOURS)


# Each says whether it passed. Its share of the minutes.
CAMPAIGNS: dict[str, tuple[Campaign, float]] = {
    "whole-tests": (whole_tests, 0.0),
    "llvm-19": (llvm_19, 0.0),
    "training": (training, 0.0),
    "clang-tidy": (clang_tidy, 0.0),
    "listed-packages": (listed_packages, 0.0),
    "all-floats": (all_floats, 0.05),
    "fuzzers": (fuzzers, 0.15),
    "random-networks": (
        lambda log, s: random_networks(log, "networks", int(s * 50), "random-networks"),
        0.1,
    ),
    "random-aliases": (aliases, 0.05),
    "torch-exports": (torch_exports, 0.05),
    "classical-exports": (classical_exports, 0.0),
    "thread-soak": (thread_soak, 0.1),
    "demo": (demo, 0.0),
    "own-builds": (own_builds, 0.15),
    "paper": (paper, 0.0),
    "links": (links, 0.0),
    "loop-distribution": (loop_distribution, 0.05),
    "register-allocation": (register_allocation, 0.05),
    "aarch64": (aarch64, 0.05),
    "debian-packages": (debian_packages, 0.0),
    "two-releases": (two_releases, 0.0),
    "fleet": (fleet, 0.0),
    "wheels": (wheels, 0.0),
    # Random C programs by every optimization; the demo's with unexecuted code changed.
    "csmith": outside("csmith.py", "--first", TONIGHT * 10000),
    "emi": outside("emi.py", "--first", TONIGHT * 100),
    # Random ONNX graphs with extreme values by the native engine, some compiled.
    "onnx-graphs": outside(
        "onnx_graphs.py", "--first", TONIGHT * 20000, "--count", 8000, "--compiled", 24
    ),
    # Tests of GCC by every optimization; those of MLIR with linalg tiled by random decisions.
    "gcc-torture": outside("gcc_torture.py", "--seed", TONIGHT, "--minutes", 10),
    "mlir-tests": outside("mlir_tests.py", "--seed", TONIGHT * 10),
    # Both with a profile and versions for newer processors, on emulated ones.
    "versions": outside("versions.py", "--seed", TONIGHT, "--minutes", 10),
    # Random C programs in which nothing is decided that changes them.
    "unchanged": outside("unchanged.py", "--first", TONIGHT * 10000),
    # LLVM's own tests through llc and opt, behind LLVM's verifiers.
    "llvm-tests": outside("llvm_tests.py", "--first", TONIGHT),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--minutes",
        type=float,
        default=20,
        help="for campaigns without an end; the others and the builds take longer",
    )
    parser.add_argument("--only", nargs="+", metavar="CAMPAIGN", choices=sorted(CAMPAIGNS))
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = []
    for name, (campaign, share) in CAMPAIGNS.items():
        if arguments.only and name not in arguments.only:
            continue
        log = RESULTS / f"{name}.log"
        log.write_text("")
        start = time.monotonic()
        print(f"{name} ... (log: {log.relative_to(ROOT)})", flush=True)
        passed = campaign(log, arguments.minutes * 60 * share)
        spent = time.monotonic() - start
        print(f"{name}: {'ok' if passed else 'FAILED'}, {spent / 60:.1f} min", flush=True)
        results.append({"name": name, "passed": passed, "seconds": round(spent, 1)})
        (RESULTS / "summary.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(r["passed"] for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
