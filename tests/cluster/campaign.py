# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loses nodes of a cluster in the middle of commands: campaign.py SCENARIO FOLDER.

cluster_test.py runs it in namespaces; every scenario prints what it saw, and fails by an exception.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from raylets import LIMIT, Cluster, Node

from mlbridge import DeadlineExceeded, NotFound, Unavailable, candidates, corpus
from mlbridge.candidates import Candidate
from mlbridge.corpus import adding
from mlbridge.errors import InternalError
from mlbridge.specializing import decisions_file
from mlbridge.trials import Options, Trial, evaluate

LISTED = [
    Candidate("small", "default<Os>,mergefunc", ("disable-lsr",)),
    Candidate("after", "mergefunc", ("disable-lsr",), after_stock=True),
]
PROGRAM = (
    "int f{n}(const char *a, int n) {{ int s = {n}; while (*a && n--) s ^= *a++; return s; }}\n"
)
COUNT = """\
#include <stdio.h>
#include <stdlib.h>
static unsigned char text[10000];
int main(int count, char **words) {
  unsigned sum = 0;
  for (int i = 0; i < atoi(words[1]); ++i)
    for (int k = 0; k < 10000; ++k)
      sum = sum * 31 + (text[k] += k ^ i);
  printf("%u\\n", sum);
  return count != 2;
}
"""
MAIN = '#include <stdio.h>\nint main(void) {{ puts("{n}"); return 0; }}\n'


def wait(ready: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


def told(text: str) -> None:
    print(text, flush=True)


class Work:
    """A corpus of tiny modules, and what one machine finds in it."""

    def __init__(self, folder: Path, modules: int) -> None:
        self.folder = folder = folder / "work"
        sources = folder / "sources"
        sources.mkdir(parents=True)
        entries = []
        for number in range(modules):
            (sources / f"{number}.c").write_text(PROGRAM.format(n=number))
            entries.append((str(sources), ["clang-22", "-Oz", "-c", f"{number}.c"]))
        adding.compile_all(folder / "corpus", entries, "tiny", "1", root=str(sources))
        (folder / "list.json").write_text(candidates.text(LISTED))

    def command(self, sizes: str, *more: str) -> list[str]:
        names = [self.folder / "list.json", self.folder / "corpus", "--sizes", self.folder / sizes]
        return ["candidates", *map(str, names), *more]

    def lines(self, sizes: str) -> list[str]:
        """What is kept so far, in a fixed order."""
        file = self.folder / sizes
        return sorted(file.read_text().split("\n")[:-1]) if file.exists() else []

    def expected(self) -> list[str]:
        """What this machine finds by itself."""
        source = corpus.open(self.folder / "corpus")
        candidates.measure(source, list(source), LISTED, self.folder / "here.jsonl")
        return self.lines("here.jsonl")


def started(cluster: Cluster, words: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        cluster.mlbridge(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=2 * LIMIT)
    assert process.returncode == code, (process.returncode, out[-2000:], err[-3000:])
    return out, err


def candidates_with_losses(folder: Path) -> None:
    """Five nodes: one has another LLVM, one is far, one slow, one is killed and one cut off."""
    work = Work(folder, 24)
    expected = work.expected()
    cluster = Cluster(folder)
    other = folder / "other"
    other.mkdir()
    (other / "clang-22").write_text("#!/bin/sh\necho 'Debian clang version 22.0.99'\n")
    (other / "clang-22").chmod(0o755)
    first, killed, cut, slow = (cluster.add() for _ in range(4))
    cluster.add(env={"PATH": f"{other}:{os.environ['PATH']}"})
    told(first.delay(50) or f"{first.address} answers 50 ms late")
    slow.hold()
    process = started(cluster, work.command("there.jsonl", "--ray", cluster.address))

    def busy(node: Node) -> bool:
        assert process.poll() is None, process.communicate()
        return node.runs("module.bc")

    wait(lambda: busy(killed), f"{killed.address} compiles nothing")
    killed.kill()
    told(f"{killed.address} killed after {len(work.lines('there.jsonl'))} of {len(expected)}")
    wait(lambda: busy(cut), f"{cut.address} compiles nothing")
    cut.cut()
    since = time.monotonic()
    told(f"{cut.address} cut off after {len(work.lines('there.jsonl'))} of {len(expected)}")
    out, err = ended(process)
    assert out.startswith("bytes of code over -Oz, "), out
    told(f"ended {time.monotonic() - since:.1f} s later; it said:\n{err}")
    assert work.lines("there.jsonl") == expected
    assert "node 10.77.0.6 is not used: clang-22 is Debian clang version 22.0.99, here " in err
    assert f"node {killed.address} is lost" in err and f"node {cut.address} is lost" in err


def a_cluster_that_ends(folder: Path) -> None:
    """The only node that takes trials is killed, another one lacks the package; clocks differ."""
    work = Work(folder, 12)
    expected = work.expected()
    cluster = Cluster(folder)
    without = folder / "without" / "mlbridge"
    without.mkdir(parents=True)
    (without / "__init__.py").write_text("raise ModuleNotFoundError('No module named mlbridge')\n")
    later = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", "1000000"]
    faketime = shutil.which("faketime")
    told("clocks: " + ("three days" if faketime else "no faketime here, so only the monotonic one"))
    killed = cluster.add(before=[*later, *([faketime, "-f", "+3d"] if faketime else [])])
    cluster.add(env={"PYTHONPATH": f"{without.parent}:{os.environ.get('PYTHONPATH', '')}"})
    wrong = started(cluster, work.command("there.jsonl", "--ray", f"{cluster.head.address}:9"))
    assert f"no Ray cluster answers at {cluster.head.address}:9" in ended(wrong, 1)[1]
    process = started(cluster, work.command("there.jsonl", "--ray", cluster.address))

    def has_kept() -> bool:
        assert process.poll() is None, process.communicate()
        return len(work.lines("there.jsonl")) >= 2

    wait(has_kept, "nothing is measured")
    killed.kill()
    kept = work.lines("there.jsonl")
    _, err = ended(process, 1)
    told(f"{len(kept)} of {len(expected)} kept; it said:\n{err}")
    last = err.splitlines()[-1]
    assert f"no node of the cluster at {cluster.address} has taken trials for 60 s" in last
    assert "10.77.0.3: no mlbridge" in last and f"{killed.address} is lost" in last
    assert set(kept) <= set(work.lines("there.jsonl")) < set(expected)
    ended(started(cluster, work.command("there.jsonl")))
    assert work.lines("there.jsonl") == expected


def fails(trial: Trial) -> object:
    """What can go wrong in a function, each time with a line in the file that the trial names."""
    kind, _, place = trial.inputs.decode().partition(" ")
    with Path(place).open("a") as file:
        file.write(f"{kind}\n")
    if kind == "refused":
        raise NotFound("it is not there")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hangs":
        threading.Event().wait()
    return threading.Lock() if kind == "unpicklable" else kind


def functions_on_nodes(folder: Path, address: str) -> None:
    """What evaluate() says of them."""
    place = folder / "tried"
    kinds = ("good", "refused", "killed", "hangs", "unpicklable", "good")
    trials = [Trial(kind, f"{kind} {place}".encode(), limit=5, retries=1) for kind in kinds]
    results = [*evaluate(fails, trials, Options(cluster=address))]
    told("\n".join(f"{one.key}: {one.error or one.value}" for one in results))
    assert [one.key for one in results] == list(kinds)
    good, refused, killed, hangs, unpicklable, last = results
    assert good.get() == last.get() == "good" and good.node == "10.77.0.2"
    assert isinstance(refused.error, NotFound) and isinstance(unpicklable.error, InternalError)
    assert isinstance(hangs.error, DeadlineExceeded)
    assert isinstance(killed.error, Unavailable) and "killed: was lost 2 times" in str(killed.error)
    counts = Counter(place.read_text().split())
    assert counts == {"good": 2, "refused": 1, "killed": 2, "hangs": 1, "unpicklable": 1}


def functions_that_fail(folder: Path) -> None:
    """Functions of the user's own, on one node."""
    cluster = Cluster(folder)
    cluster.add(cpus=2)
    command = [sys.executable, __file__, "functions_on_nodes", str(folder), cluster.address]
    subprocess.run(cluster.head.command(*command), check=True, timeout=2 * LIMIT)


def corpus_and_validation(folder: Path) -> None:
    """Modules are described by nodes; two programs are validated, one of them again elsewhere. The
    cluster has a token."""
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="ab" * 32)
    cluster = Cluster(folder)
    for name in ("one", "two"):
        tree = folder / "work" / name
        tree.mkdir()
        parts = range(60)  # so that the node is lost before its build ends
        for part in parts:
            (tree / f"{part}.c").write_text(PROGRAM.format(n=part))
        (tree / "main.c").write_text(MAIN.format(n=name))
        objects = " ".join(f"{part}.o" for part in parts)
        (tree / "Makefile").write_text(f"prog: {objects} main.o\n\t$(CC) -o prog $^\n")
    killed, _ = cluster.add(), cluster.add()
    os.chdir(folder / "work" / "one")
    ray = ["--ray", cluster.address]
    add = ["corpus", "add", str(folder / "none"), *ray, "--", "true"]
    stranger = {**os.environ, "RAY_AUTH_TOKEN": "cd" * 32}
    ran = subprocess.run(
        cluster.mlbridge(*add), env=stranger, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1 and f"no Ray cluster answers at {cluster.address}" in ran.stderr, ran
    told(ran.stderr)
    found = []
    for name, more in (("here", []), ("there", ray)):
        place = folder / "work" / f"corpus-{name}"
        build = ["--", "sh", "-c", "for n in 0 1 2 3; do clang-22 -Oz -c -o /dev/null $n.c; done"]
        ended(started(cluster, ["corpus", "add", str(place), "--measure", *more, *build]))
        found.append([replace(module, shard="") for module in corpus.open(place)])
    assert found[0] == found[1] and all(module.oz_code_bytes for module in found[1])
    told(f"{len(found[1])} modules described and measured, as here")

    os.chdir(folder / "work")
    reports = []
    for name, more in (("here", []), ("there", ray)):
        report = folder / "work" / f"{name}.json"
        asked = ["validate", "phase-ordering", "--tree", "one", "--tree", "two", "--repeat", "1"]
        asked += ["--run", "./prog", "--json", str(report), *more, "--", "make"]
        process = started(cluster, asked)
        if more:
            wait(lambda: killed.runs("make"), "nothing is built")
            killed.kill()
        _, err = ended(process)
        reports.append(json.loads(report.read_text()))
    told(f"validated with {killed.address} killed; it said:\n{err}")
    assert f"node {killed.address} is lost" in err
    for one, other in zip(*(report["programs"] for report in reports), strict=True):
        for key in ("name", "tree", "problems", "objects", "decisions", "policy_bytes"):
            assert one[key] == other[key], key


def a_training_and_a_search(folder: Path) -> None:
    """An env runner's node is killed; then the node of a trial."""
    modules = folder / "modules"  # which every node has
    modules.mkdir()
    (modules / "f.c").write_text(PROGRAM.format(n=1) + PROGRAM.format(n=2))
    emit = ["clang-22", "-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "f.c"]
    subprocess.run(emit, cwd=modules, check=True)
    cluster = Cluster(folder)
    first, _ = cluster.add(), cluster.add()
    asked = ["phase-ordering", "--corpus", str(modules), "--ray", cluster.address]
    out = folder / "work" / "policy"
    train = ["train", *asked, "--workers", "2", "--steps", "1500", "-o", str(out)]
    process = started(cluster, train)
    assert process.stdout
    assert process.stdout.readline().startswith("iteration 1, "), process.communicate()
    assert first.runs("opt-22"), "no environment runs there"
    first.kill()
    ended(process)
    assert (out / "policy.onnx").exists()
    told("trained, with a node killed after the first iteration")

    other = cluster.add()
    out = folder / "work" / "tuned"
    tune = ["tune", *asked, "--algorithm", "maskable-ppo", "--steps", "600", "--trials", "2"]
    search = ["--search", "learning_rate=1e-4,1e-3", "--at-once", "2", "-o", str(out)]
    process = started(cluster, [*tune, *search])
    serves = "-phase-ordering-serve"
    wait(lambda: other.runs(serves) or process.poll() is not None, "no trial runs there")
    other.kill()
    said, _ = ended(process)
    rows = json.loads((out / "best.json").read_text())
    told(f"searched, with a node killed:\n{said}")
    assert len(rows) == 2 and not any("error" in row for row in rows)
    for row in rows:
        assert (out / "trials" / row["name"] / "progress.jsonl").exists()
    assert (out / "policy.onnx").exists()


def a_specialization(folder: Path) -> None:
    """Options are tried by nodes that share no files, one of which is killed; then here."""
    tree, file = folder / "work" / "tree", folder / "work" / "app.decisions"
    tree.mkdir(parents=True)
    (tree / "count.c").write_text(COUNT)
    (tree / "Makefile").write_text("app: count.o\n\t$(CC) $(CFLAGS) -o app count.o\n")
    cluster = Cluster(folder)
    killed, _, _ = cluster.add(), cluster.add(), cluster.add()
    asked = ["specialize", "-o", str(file), "--tree", str(tree), "--build", "make", "--time", "2s"]
    asked += ["--run", "./app 300", "--confirm-run", "./app 200", "--objective", "time"]
    asked += ["--without", "tune", "--without", "versions", "--work", str(folder / "work" / "kept")]
    process = started(cluster, [*asked, "--budget", "20s", "--ray", cluster.address])
    wait(lambda: killed.runs("make") or killed.runs("app"), "nothing is tried there")
    killed.kill()
    _, err = ended(process)
    told(f"searched with {killed.address} killed; it said:\n{err}")
    assert f"node {killed.address} is lost" in err

    def tries() -> dict[str, float]:
        timeline = decisions_file.read(file).content["timeline"]
        return {step: took for step, _, took in timeline if step.startswith("tune ")}

    there = tries()
    assert len(there) >= 6 and sum(": " in line and "best" in line for line in err.split("\n")) >= 6
    ended(started(cluster, [*asked, "--budget", "25s"]))
    assert tries().keys() > there.keys(), "it goes on here"


def main() -> None:
    """Runs a scenario in a folder."""
    scenario, folder, *more = sys.argv[1:]
    globals()[scenario](Path(folder), *more)


if __name__ == "__main__":
    main()
