# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Seconds that llc takes to compile programs whose registers models allocate, program by program.

    python3 -m experiments.paper.allocation [--set NAME] [--files N] [--rounds N] [-o FILE]

The talk "ML-LLVM-Tools" (EuroLLVM 2023) compares RL4ReAl asking over gRPC with asking in process,
program by program; there, Python answers, by RLlib's modules in PyTorch. Here `mlbridge train`
makes four agents (by one iteration of RLlib's PPO, on modules of validation), and llc-22 asks them
where they were trained (gRPC, Python, RLlib), over gRPC where the native engine answers, and in
process by ONNX Runtime and the native engine. FILE gets the seconds of whole compilations and those
of asking, medians of rounds. Needs PyTorch and Ray.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

import mlbridge
import mlbridge.files
from experiments.paper.command import keep, modules_of, parser_of
from experiments.paper.page import RLLIB
from programs.catalog import ROOT
from programs.corpus import extracted

sys.path[:0] = [str(ROOT / part) for part in ("bench", "bench/ask", "tests/shared")]
from agents import SERVERS, answering  # noqa: E402
from compiler import serving  # noqa: E402

registers: Any = importlib.import_module("registers")

WAYS = ("stock", RLLIB, "grpc", "onnx", "native")


def trained(modules: Path, folder: Path) -> Path:
    """The folder of a short training, with ONNX files of its agents and a checkpoint."""
    command = [sys.executable, "-m", "mlbridge", "train", "register-allocation", "--steps", "1"]
    done = subprocess.run(
        [*command, "--corpus", str(modules), "-o", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"mlbridge train: {done.stderr[-2000:]}")
    return folder


def in_rllib(training: Path) -> Any:
    """A policy of the training's modules, asked as RLlib does."""
    import torch
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.rl_module import RLModule

    from mlbridge.training import agent_networks

    rows = agent_networks.ROWS["register-allocation"]
    [checkpoint] = training.glob("checkpoint-*")
    parts = checkpoint / "learner_group/learner/rl_module"
    modules = {name: RLModule.from_checkpoint(str(parts / name)) for name in rows}
    torch.set_num_threads(1)

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        agent = context.agent
        seen = dict(observation)
        packed = agent_networks.packed(rows[agent], seen, seen["action_mask"].size)
        with torch.no_grad():
            batch = {Columns.OBS: torch.from_numpy(packed)[None]}
            scores = modules[agent].forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
        return int(scores.argmax())

    return policy


@contextmanager
def answered(way: str, training: Path, policy: Any, folder: Path) -> Iterator[str]:
    """The URI of the agents while this lasts."""
    if way == RLLIB:
        with serving(policy, folder, place=SERVERS["grpc"]) as uri:
            yield uri
        return
    with answering(way, training, folder) as uri:
        yield uri


def sampled(part: str, most: int) -> dict[str, list[Path]]:
    """So many modules of each program: every nth by size."""
    programs = defaultdict(list)
    for module, path in extracted(part):
        programs[module.program].append((module.bytes, path))
    found = {}
    for name, modules in sorted(programs.items()):
        ordered = [path for _, path in sorted(modules)]
        found[name] = ordered[:: -(-len(ordered) // most)]
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    plugin = mlbridge.files.plugin("register-allocation")
    programs = sampled(options.set, options.files)
    with tempfile.TemporaryDirectory(prefix="mlbridge-allocation-") as made:
        modules = modules_of(options.learned, options.modules, Path(made))
        training = trained(modules, Path(made) / "training")
        return compare(options, plugin, programs, training)


def compare(
    options: argparse.Namespace, plugin: str, programs: dict[str, list[Path]], training: Path
) -> dict[str, Any]:
    """The seconds of each program and way."""
    found: dict[str, Any] = {}
    policy = in_rllib(training)
    with tqdm(total=len(programs) * options.rounds, desc="allocation", unit="program") as bar:
        for name, paths in programs.items():
            bar.set_postfix_str(name)
            seconds: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            with tempfile.TemporaryDirectory(prefix="mlbridge-allocation-") as made:
                folder = Path(made)
                files = registers.prepared(paths, folder)
                for at in range(options.rounds):
                    for way in WAYS[:: 1 if at % 2 else -1]:
                        own = folder / f"{way}-{at}"
                        own.mkdir()
                        if way == "stock":
                            parts = [registers.compiled(file, folder) for file in files]
                        else:
                            with answered(way, training, policy, own) as uri:
                                asks = ["-load", plugin, f"-register-allocation-model={uri}"]
                                asks.append("-register-allocation-on-failure=fail")
                                parts = [registers.compiled(file, folder, *asks) for file in files]
                        seconds[way].append(
                            {part: sum(one[part] for one in parts) for part in ("whole", "asking")}
                        )
                    bar.update()
            found[name] = {"files": len(files)} | {
                way: {
                    part: round(statistics.median(one[part] for one in taken), 4)
                    for part in ("whole", "asking")
                }
                for way, taken in seconds.items()
            }
    return found


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = parser_of(__doc__, "test-A")
    parser.add_argument("--learned", default="validation", help="the set that agents learn from")
    parser.add_argument("--modules", type=int, default=24, help="of that")
    parser.add_argument("--files", type=int, default=8, help="of a program, at most")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    found = measure(options)
    for name, ways in found.items():
        asking = ways[RLLIB]["asking"] / max(ways["onnx"]["asking"], 1e-9)
        whole = ways[RLLIB]["whole"] / ways["onnx"]["whole"]
        print(f"{name}: RLlib over gRPC for ONNX: asking {asking:.1f} times, compiling {whole:.2f}")
    keep(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
