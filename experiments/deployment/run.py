# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds to compile the same modules with the same policy, asked in every way that there is.

    run.py [--set NAME] [--model FILE.onnx] [--modules N] [--sizes N] [--rounds N]

`stock` is plain -Oz, the floor. `environment` steps the Gymnasium environment and asks ONNX Runtime
in Python, as a gym is deployed, with code generated for the reward of each step; `environment,
rewards at the end` generates it once. `a process each` starts llvm-ir2vec and opt for each step,
which is how the published POSET-RL began, without the time of its model. The others are stock clang
with the plugin. Then `--sizes` modules are compiled once with and once without the policy, for
their bytes of code. Writes build/experiments/deployment.json, also with the seconds of each
program's modules.
The first run fetches and compiles the 17 programs of test-A, which takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from result_tables import section

from mlbridge.corpus import Module
from mlbridge.elf import executable_bytes
from mlbridge.gym import PhaseOrdering
from mlbridge.ratio import Ratio
from mlbridge.recording import Recording
from programs.catalog import ROOT
from programs.corpus import extracted
from programs.plugin import compiled, plugin_flags
from programs.server import ModelServer

REPORT = ROOT / "build/experiments/deployment.json"
#: The transports of the servers, and the options of their addresses.
SERVED = {
    "grpc": ("grpc", ""),
    "pipe, json": ("pipe", "?serdes=json"),
    "pipe, bitstream": ("pipe", ""),
    "unix": ("unix", ""),
    "shm": ("shm", ""),
}


class Deployment:
    """The policy, the modules, and how they are compiled."""

    def __init__(self, model: Path, modules: list[Path], folder: Path) -> None:
        self.model, self.modules, self.folder = model, modules, folder
        properties = {p.key: p.value for p in onnx.load(str(model)).metadata_props}
        listed = json.loads(properties["phase-ordering.actions"])
        (folder / "actions.json").write_text(json.dumps(listed))
        self.groups = {group["name"]: group["passes"] for group in listed["actions"]}
        self.kind = properties.get("phase-ordering.observation", "counts")
        self.orders = {module: self._order(module) for module in modules}

    def compile(self, module: Path, *flags: str) -> Path:
        """The object, by stock clang."""
        command = ["clang-22", "-Oz", "-Wno-override-module", "-x", "ir", "-c", str(module)]
        made = self.folder / "out.o"
        subprocess.run([*command, "-o", str(made), *flags], check=True)
        return made

    def _order(self, module: Path) -> list[str]:
        """The groups that the policy chooses."""
        log = self.folder / "log"
        self.compile(module, *plugin_flags(f"native:{self.model}", "--log", str(log)))
        (path,) = log.iterdir()
        (episode,) = Recording(path).episodes()
        path.unlink()
        names = [*self.groups, "stop"]
        chosen = [names[action] for action in episode.stacked("action").ravel()]
        return [name for name in chosen if name != "stop"]

    def sizes(self, found: list[tuple[Module, Path]]) -> dict[str, Any]:
        """Bytes of code with the policy over those without, by program."""
        flags = plugin_flags(f"native:{self.model}")
        totals: dict[str, list[int]] = {}
        for module, path in tqdm(found, desc="sizes", unit="module"):
            total = totals.setdefault(module.program, [0, 0])
            for which, options in enumerate(([], flags)):
                made = self.compile(path, *options)
                total[which] += executable_bytes(made.read_bytes(), str(made))
        of_all = [sum(total[which] for total in totals.values()) for which in (0, 1)]
        by_program = {name: asked / max(1, stock) for name, (stock, asked) in totals.items()}
        ratio = Ratio.of(by_program.values())
        assert ratio is not None
        print(f"bytes over -Oz: {ratio} (geometric mean of {ratio.count} programs)")
        return {
            "modules": len(found),
            "stock": of_all[0],
            "policy": of_all[1],
            "over_oz": ratio.as_json(),
            "shown": str(ratio),
            "programs": by_program,
        }

    def with_plugin(self, uri: str) -> Callable[[Path], Path]:
        """By clang, which asks the model there."""
        flags = [*plugin_flags(uri), "-Werror=backend-plugin"]
        return lambda module: self.compile(module, *flags)

    def a_process_each(self, module: Path) -> None:
        """Two processes for each step, and one for the code."""
        before = module
        for number, name in enumerate(self.orders[module]):
            embed = ["llvm-ir2vec-22", "triplets", str(before), "-o", str(self.folder / "t")]
            subprocess.run(embed, check=True)
            after = self.folder / f"{number % 2}.bc"
            run = ["opt-22", f"-passes={self.groups[name]}", str(before), "-o", str(after)]
            subprocess.run(run, check=True)
            before = after
        self.compile(before, "-Xclang", "-disable-llvm-passes")

    def environment(self, rewards: str) -> Callable[[Path], None]:
        """The Gymnasium environment, and ONNX Runtime in this process."""
        session = onnxruntime.InferenceSession(self.model, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        kind = {"ir2vec-flow-aware-1": "ir2vec", "ir2vec-symbolic-1": "ir2vec-symbolic"}
        env = PhaseOrdering(
            self.modules,
            actions=self.folder / "actions.json",
            observation=kind.get(self.kind, "counts"),
            rewards=rewards,
        )
        types = {spec.name: spec.type for spec in env.layout.signature.inputs}

        def play(module: Path) -> None:
            seen, _ = env.reset(options={"unit": str(module), "seed": 0})
            over = False
            while not over:
                inputs = {name: np.asarray(seen[name], types[name]) for name in names}
                [action] = session.run(None, inputs)
                seen, _, terminated, truncated, _ = env.step(int(action.item()))
                over = terminated or truncated

        play.close = env.close  # type: ignore[attr-defined]
        return play


def main() -> int:
    """Measure, write, print."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("--set", default="test-A", help="a set of programs, or one of them")
    arguments.add_argument("--model", type=Path, default=ROOT / "models/poset-rl/policy.onnx")
    arguments.add_argument("--modules", type=int, default=24)
    arguments.add_argument("--sizes", type=int, default=200)
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    found = sorted(extracted(options.set), key=lambda pair: (pair[0].bytes, pair[0].name))
    most = min(len(found), max(options.modules, options.sizes))
    sample = random.Random(1).sample(found, most)
    modules = [path for _, path in sample[: options.modules]]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mlbridge-bench-")))
        deployed = Deployment(options.model, modules, folder)
        played = {rewards: deployed.environment(rewards) for rewards in ("each", "last")}
        for environment in played.values():
            stack.enter_context(closing(environment))  # type: ignore[type-var]
        ways: dict[str, Callable[[Path], object]] = {
            "stock -Oz": deployed.compile,
            "a process each": deployed.a_process_each,
            "environment": played["each"],
            "environment, rewards at the end": played["last"],
        }
        for name, (transport, serdes) in SERVED.items():
            log = folder / f"{transport}.log"
            server = stack.enter_context(ModelServer(options.model, log, transport))
            ways[name] = deployed.with_plugin(server.uri + serdes)
        shared = compiled(options.model, folder / "policy.so")
        for name, uri in {
            "onnx": f"onnx:{options.model}",
            "native": f"native:{options.model}",
            "aot": f"aot:{shared}",
        }.items():
            ways[name] = deployed.with_plugin(uri)
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        programs = {path: module.program for module, path in sample[: options.modules]}
        by_program: dict[str, dict[str, list[float]]] = {
            program: {name: [] for name in ways} for program in sorted(set(programs.values()))
        }
        with tqdm(total=options.rounds * len(ways), desc="deployment", unit="turn") as bar:
            for _ in range(options.rounds):
                for name, way in ways.items():
                    taken = dict.fromkeys(by_program, 0.0)
                    for module in modules:
                        start = time.perf_counter()
                        way(module)
                        taken[programs[module]] += time.perf_counter() - start
                    seconds[name].append(sum(taken.values()))
                    for program, one in taken.items():
                        by_program[program][name].append(one)
                    bar.update()
        sizes = deployed.sizes(sample[: options.sizes])
    rows: list[dict[str, Any]] = [
        {
            "way": name,
            "seconds": round(statistics.median(taken), 2),
            "over native": round(
                statistics.median(a / b for a, b in zip(taken, seconds["native"], strict=True)), 3
            ),
        }
        for name, taken in seconds.items()
    ]
    steps = sum(len(order) for order in deployed.orders.values())
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "modules": len(modules),
        "steps": steps,
        "ways": rows,
        "sizes": sizes,
        "programs": {
            program: {name: round(statistics.median(taken), 3) for name, taken in ways_.items()}
            for program, ways_ in by_program.items()
        },
    }
    REPORT.write_text(json.dumps(report, indent=1) + "\n")
    text = section(
        REPORT,
        "Compiling with a policy (`experiments/deployment/run.py`)",
        f"{len(modules)} modules of {options.set}, {steps} decisions of a policy of POSET-RL, the"
        " same ones in every way. `a process each` starts an embedder and opt for each step,"
        " `environment` is the Gymnasium environment with ONNX Runtime in Python. Medians of"
        f" rounds. Code of {sizes['modules']} modules of {len(sizes['programs'])} programs:"
        f" {sizes['policy']} bytes against {sizes['stock']} with -Oz; geometric mean of the"
        f" programs {sizes['shown']}.",
        rows,
    )
    print(f"{len(modules)} modules, {steps} steps\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
