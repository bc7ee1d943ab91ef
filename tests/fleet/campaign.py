# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles while the servers of their model are replaced and killed: none may fail or do without.

    tests/fleet/campaign.py --compiles N --out FILE.json [--compilers 2] [--optimization NAME]

Stock clang with the plugin of an optimization asks three servers over grpc:, several compilers at
once. A fourth address of the list serves a model of another signature all the time. Each of the
three is replaced once, by the same model as another file; then one is killed, and later another one
stands still for a while (SIGSTOP). An object must be that of the model in process.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
from servers import ServerProcess, uri_of

from mlbridge import files
from mlbridge.optimizations import OPTIMIZATIONS

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "phase-ordering": (ROOT / "models/phase-ordering-size/policy.onnx", ("-effort=0",)),
    "inliner": (ROOT / "models/inliner-size/policy.onnx", ()),
}
SOURCE = """\
static int add(int a, int b) { return a + b; }
static int twice(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += add(values[i], values[i]);
  return total;
}
int sum(const int *values, int count) { return twice(values, count) + add(count, 1); }
int more(const int *values, int count) { return twice(values + 1, count - 1); }
"""
COMPILE = 300  # seconds that a compiler may take on a busy machine
DEADLINE = "20s"


class Campaign:
    """The compilers and what came of them."""

    def __init__(self, optimization: str, folder: Path) -> None:
        self.optimization, self.folder = optimization, folder
        self.model, self.more = MODELS[optimization]
        self.source = folder / "f.c"
        self.source.write_text(SOURCE)
        self.counts: Counter[str] = Counter()
        self.said: list[str] = []
        self._lock = threading.Lock()
        self._done = threading.Condition(self._lock)

    def compile(self, uri: str | None, name: str) -> tuple[int, str, str]:
        """Exit code, what was said, and the hash of the object."""
        output = self.folder / f"{name}.o"
        words: list[str] = []
        if uri is not None:
            own = (f"-{self.optimization}{option}" for option in self.more)
            words = files.clang_words(
                OPTIMIZATIONS[self.optimization].file(22),
                f"-{self.optimization}-model={uri}",
                *own,
                llvm=22,
            )
        done = subprocess.run(
            ["clang-22", "-Oz", *words, "-c", self.source, "-o", output],
            capture_output=True,
            text=True,
            timeout=COMPILE,
            check=False,
        )
        made = output.read_bytes() if output.exists() else b""
        output.unlink(missing_ok=True)
        return done.returncode, done.stderr, hashlib.sha256(made).hexdigest()

    def expect(self) -> None:
        """Compile without a server: with the model in process, and without it."""
        code, said, self.expected = self.compile(f"native:{self.model}", "expected")
        assert code == 0 and not said, said
        _, _, stock = self.compile(None, "stock")
        assert stock != self.expected, "the model changes nothing, so nothing would be seen"

    def one(self, uri: str, number: int) -> None:
        try:
            code, said, made = self.compile(uri, f"f{number}")
        except subprocess.TimeoutExpired as late:
            code, said, made = 1, str(late), ""
        with self._lock:
            self.counts["compiles"] += 1
            self.counts["failed"] += code != 0
            self.counts["fell_back"] += code == 0 and bool(said)
            self.counts["other_objects"] += code == 0 and not said and made != self.expected
            if (code or said) and len(self.said) < 5:
                self.said.append(said)
            self._done.notify_all()

    def wait_for(self, compiles: int) -> None:
        """Until so many have ended."""
        with self._done:
            self._done.wait_for(lambda: self.counts["compiles"] >= compiles)


def renewed(model: Path, to: Path) -> Path:
    """The model, as another training would have written it: the same decisions."""
    network = onnx.load(model)
    entry = network.metadata_props.add()
    entry.key, entry.value = "mlbridge.made", "anew"
    onnx.save(network, to)
    return to


def stranger(to: Path) -> Path:
    """A model of another signature."""
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["thickness"], ["colour"])],
        "stranger",
        [onnx.helper.make_tensor_value_info("thickness", onnx.TensorProto.FLOAT, [1])],
        [onnx.helper.make_tensor_value_info("colour", onnx.TensorProto.FLOAT, [1])],
    )
    imports = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), to)
    return to


def replies(printed: str) -> int:
    """The number of replies in the statistics that a server prints at its end, as JSON."""
    return int(json.loads(printed.splitlines()[-1])["replies"])


def run(optimization: str, compiles: int, compilers: int, folder: Path) -> dict[str, Any]:
    campaign = Campaign(optimization, folder)
    campaign.expect()
    new = renewed(campaign.model, folder / "new.onnx")
    three = [ServerProcess(campaign.model, folder / f"server-{i}.log") for i in range(3)]
    wrong = ServerProcess(stranger(folder / "stranger.onnx"), folder / "stranger.log")
    answered: list[int] = []
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        for server in (*three, wrong):
            server.start("--json")
            stack.callback(server.end, signal.SIGKILL)
        uri = f"{uri_of(*three, wrong)}?deadline={DEADLINE}"
        ready = time.monotonic()
        with ThreadPoolExecutor(compilers) as pool:
            work = [pool.submit(campaign.one, uri, number) for number in range(compiles)]
            for i, server in enumerate(three):
                campaign.wait_for(compiles * (i + 1) // 8)
                answered.append(replies(server.end()))
                server.start("--json", model=new)
            campaign.wait_for(compiles * 5 // 8)
            three[0].end(signal.SIGKILL)
            campaign.wait_for(compiles * 6 // 8)
            three[1].send(signal.SIGSTOP)
            campaign.wait_for(compiles * 7 // 8)
            three[1].send(signal.SIGCONT)
            for one in work:
                one.result()
        seconds = time.monotonic() - ready
        answered += [replies(server.end()) for server in three[1:]]
        by_stranger = replies(wrong.end())
    return {
        **{k: campaign.counts[k] for k in ("compiles", "failed", "fell_back", "other_objects")},
        "answered_by_wrong_signature": by_stranger,
        "replaced": 3,
        "killed": 1,
        "stood_still": 1,
        "replies": answered,
        "compiles_per_second": round(compiles / seconds, 2),
        "seconds": round(time.monotonic() - began, 1),
        "said": campaign.said,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiles", type=int, required=True)
    parser.add_argument("--compilers", type=int, default=2)
    parser.add_argument("--optimization", choices=sorted(MODELS), default="phase-ordering")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(options.optimization, options.compiles, options.compilers, Path(folder))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))
    wrong = ("failed", "fell_back", "other_objects", "answered_by_wrong_signature")
    return 1 if any(found[key] for key in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
