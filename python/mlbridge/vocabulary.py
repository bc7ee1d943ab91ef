# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vocabularies: seed vectors of opcodes, types and kinds of operands, of LLVM's IR for IR2Vec or of
machine code.

Tools state what stands beside what in modules, as triplets (head, relation, tail): for `collect`
LLVM's own llvm-ir2vec, for `collect_machine` the plugin for register allocation. `train` finds
vectors by TransE (Bordes et al., "Translating Embeddings for Modeling Multi-relational Data", NIPS
2013): the head's and the relation's together come close to the tail's. docs/embeddings.md describes
the command that does both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import files
from .claiming import file_errors
from .corpus.resolve import module_files, opened
from .errors import InvalidArgument, InvalidModel, NotFound
from .outputs import write_whole
from .progress import shown
from .reading import parse_json, read_file, shortly

_log = logging.getLogger("mlbridge")

TOOL, OPT, LLC = "llvm-ir2vec-22", "opt-22", "llc-22"
#: The pipelines that modules go through first. An episode sees IR before and after such.
PIPELINES = ("", "default<Oz>", "default<O3>")
SECTIONS = ("Opcodes", "Types", "Arguments")
#: Machine code is of optimized modules. Its targets, with features in addition to the modules' own.
MACHINE_PIPELINES = PIPELINES[1:]
MACHINES = (
    ("x86_64-linux-gnu", ""),
    ("x86_64-linux-gnu", "+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt"),
    ("aarch64-linux-gnu", "+neon"),  # which a processor that it does not know lacks
)
#: Parameters of TransE.
MARGIN, RATE, BATCH = 1.0, 0.01, 128
DIGITS = 3
#: Seconds for a tool on a module.
LIMIT = 600.0

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Graph:
    """The distinct triplets of some modules."""

    modules: int
    counted: int  #: triplets, each as often as it occurs
    triplets: NDArray[np.int64]  #: (n, 3): head, tail, relation; sorted
    names: dict[str, list[str]]  #: of the entities in each section, in the order of their numbers


@dataclass(frozen=True)
class Training:
    """The result of a training. Figures are of the triplets that it learned from."""

    vectors: dict[str, dict[str, list[float]]]  #: by section and name
    entities: int  #: that occur in triplets; the vectors of the others are random
    loss: float  #: mean of a triplet in the last epoch
    mean_reciprocal_rank: (
        float  #: of the true head or tail among all entities, others true left out
    )
    hits_at_10: float  #: how often it is among the first ten

    def text(self) -> str:
        """The vocabulary as LLVM reads it: JSON, with a line for each entity."""
        parts = []
        for section, vectors in self.vectors.items():
            lines = (
                f"{json.dumps(n)}:{json.dumps(v, separators=(',', ':'))}"
                for n, v in vectors.items()
            )
            parts.append(f"{json.dumps(section)}:{{\n" + ",\n".join(lines) + "}")
        return "{" + ",\n".join(parts) + "}\n"


def collect(corpus: Any, part: str = "", *, jobs: int = 2, progress: bool = False) -> Graph:
    """The triplets of the modules in a corpus or a part of it, or in files and folders.

    A module that they cannot read is left out, with a warning in the log `mlbridge`. NotFound if
    LLVM's tools are not there, InvalidModel if there is no module. `progress` shows a bar.
    """
    _must_be_there(TOOL, OPT)
    names = _names(_run([TOOL, "entities"], b"", TOOL).decode())

    def triplets_in(given: bytes, name: str) -> Counter[bytes]:
        found = Counter[bytes]()
        for pipeline in PIPELINES:
            bitcode = _run([OPT, f"-passes={pipeline}"], given, name) if pipeline else given
            found.update(_run([TOOL, "triplets", "-"], bitcode, name).splitlines()[1:])
        return found

    modules, lines = _count(corpus, part, triplets_in, jobs, progress)
    triplets = np.array(sorted([int(n) for n in line.split()] for line in lines), np.int64)
    return Graph(modules, lines.total(), triplets, names)


def collect_machine(corpus: Any, part: str = "", *, jobs: int = 2, progress: bool = False) -> Graph:
    """The triplets of the modules' machine code before registers are allocated, for MACHINES.

    The entities are those that occur. What no code can be generated of for a target, such as
    inline assembly of another, is left out for it, with a warning in the log.
    """
    _must_be_there(OPT, LLC)
    plugin = files.plugin("register-allocation")
    if not Path(plugin).is_file():
        raise NotFound(f"{plugin} is not there; it states the triplets")
    tell = "-register-allocation-triplets=/dev/stdout"

    def triplets_in(given: bytes, name: str) -> Counter[bytes]:
        found = Counter[bytes]()
        wrong: list[InvalidModel] = []
        for pipeline in MACHINE_PIPELINES:
            bitcode = _run([OPT, f"-passes={pipeline}"], given, name)
            for target, features in MACHINES:
                command = [LLC, "-load", plugin, f"-mtriple={target}", f"-mattr={features}", tell]
                command += ["-stop-before=greedy", "-o", os.devnull]
                try:
                    printed = _run(command, bitcode, name)
                except InvalidModel as error:
                    wrong.append(error)
                    continue
                for line in printed.splitlines():
                    count, _, triplet = line.partition(b"\t")
                    found[triplet] += int(count)
        if len(wrong) == len(MACHINE_PIPELINES) * len(MACHINES):
            raise wrong[0]
        if wrong:
            _log.warning("left out %d times: %s", len(wrong), wrong[0])
        return found

    modules, lines = _count(corpus, part, triplets_in, jobs, progress)
    stated = sorted(line.decode().split("\t") for line in lines)
    opcodes = sorted({h for h, _, _ in stated} | {t for _, r, t in stated if r == "Next"})
    operands = sorted({t for _, r, t in stated if r != "Next"})
    opcode = {name: i for i, name in enumerate(opcodes)}
    operand = {name: len(opcodes) + i for i, name in enumerate(operands)}
    relation = {name: i for i, name in enumerate(sorted({r for _, r, _ in stated}))}
    triplets = sorted(
        (opcode[h], (opcode if r == "Next" else operand)[t], relation[r]) for h, r, t in stated
    )
    names = {"Opcodes": opcodes, "Operands": operands}
    return Graph(modules, lines.total(), np.array(triplets, np.int64), names)


def _must_be_there(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            raise NotFound(f"{tool} is not there (Debian: llvm-22)")


def _count(
    corpus: Any,
    part: str,
    triplets_in: Callable[[bytes, str], Counter[bytes]],
    jobs: int,
    progress: bool,
) -> tuple[int, Counter[bytes]]:
    """The number of modules that can be read, and their triplets, counted."""
    found = opened(corpus, part)
    modules: Sequence[Any] = list(found) if found is not None else module_files(corpus)
    bad: list[str] = []

    def tried(module: Any) -> Counter[bytes] | None:
        try:
            if found is None:
                return triplets_in(Path(module).read_bytes(), str(module))
            return triplets_in(found.read(module), module.name)
        except InvalidModel as error:
            bad.append(str(error))
            _log.warning("left out: %s", error)
            return None

    lines, good = Counter[bytes](), 0
    with ThreadPoolExecutor(jobs) as pool:
        try:
            each = pool.map(tried, modules)
            for one in shown(each, len(modules), "module", progress, "triplets"):
                if one is not None:
                    good += 1
                    lines.update(one)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if not good:
        raise InvalidModel(f"no module can be read: {bad[0]}")
    if not lines:
        raise InvalidModel(f"{corpus}: its modules have no instruction")
    return good, lines


def _run(command: Sequence[str], given: bytes, name: str) -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise InvalidModel(f"{name}: {command[0]} took more than {LIMIT:g} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines()
        # llc says of each feature of the modules that another target lacks it.
        text = " ".join(" ".join(n for n in lines if "(ignoring " not in n).split())[:500]
        raise InvalidModel(f"{name}: {command[0]} ended with {done.returncode}: {text}")
    return done.stdout


def _names(listed: str) -> dict[str, list[str]]:
    """The entities of llvm-ir2vec: opcodes, then types, which end in Ty, then operands."""
    names = [line.partition("\t")[0] for line in listed.splitlines()[1:]]
    types = [i for i, name in enumerate(names) if name.endswith("Ty")]
    if not types or types != list(range(types[0], types[-1] + 1)):
        raise InvalidModel(f"{TOOL} entities: its types are not beside each other: {types}")
    ends = (0, types[0], types[-1] + 1, len(names))
    return {s: names[ends[i] : ends[i + 1]] for i, s in enumerate(SECTIONS)}


def train(
    graph: Graph,
    *,
    dimensions: int = 300,
    epochs: int = 1000,
    seed: int = 0,
    progress: bool = False,
) -> Training:
    """Vectors of length 1. On one machine, the same graph and seed give the same.

    A triplet's opponent has another head or tail, and is none of the graph's. What occurs in no
    triplet, such as the predicates of comparisons, of which llvm-ir2vec states none, keeps a random
    vector: it still tells one from another.
    """
    if min(dimensions, epochs) < 1:
        raise InvalidArgument(f"{dimensions} dimensions, {epochs} epochs: expected 1 or more")
    if seed < 0:
        raise InvalidArgument(f"the seed is {seed}: expected 0 or more")
    random = np.random.default_rng(seed)
    flat = [(section, name) for section, names in graph.names.items() for name in names]
    heads, tails, stated = graph.triplets.T
    seen = np.unique(graph.triplets[:, :2])
    _, relations = np.unique(stated, return_inverse=True)
    true = np.zeros((len(flat), len(flat), relations.max() + 1), bool)
    true[heads, tails, relations] = True
    bound = 6 / math.sqrt(dimensions)
    entity = random.uniform(-bound, bound, (len(flat), dimensions))
    relation = _normalised(random.uniform(-bound, bound, (true.shape[2], dimensions)))
    batches = math.ceil(len(heads) / BATCH)
    loss = 0.0
    for _ in shown(range(epochs), epochs, "epoch", progress, "training"):
        entity, loss = _normalised(entity), 0.0
        for batch in np.array_split(random.permutation(len(heads)), batches):
            h, t, r = heads[batch], tails[batch], relations[batch]
            other, head = random.choice(seen, len(h)), random.random(len(h)) < 0.5
            oh, ot = np.where(head, other, h), np.where(head, t, other)
            near, far = entity[h] + relation[r] - entity[t], entity[oh] + relation[r] - entity[ot]
            a, b = _lengths(near), _lengths(far)
            counts = (MARGIN + a - b > 0) & ~true[oh, ot, r][:, None]
            loss += float(((MARGIN + a - b) * counts).sum())
            near, far = RATE * counts * near / a, RATE * counts * far / b
            for rows, change in ((h, -near), (t, near), (oh, far), (ot, -far)):
                np.add.at(entity, rows, change)
            np.add.at(relation, r, far - near)
    entity = _normalised(entity).round(DIGITS) + 0.0  # no -0.0
    ranks = _ranks(entity, relation, true, seen, heads, tails, relations)
    vectors: dict[str, dict[str, list[float]]] = {section: {} for section in graph.names}
    for (section, name), vector in zip(flat, entity, strict=True):
        vectors[section][name] = vector.tolist()
    return Training(
        vectors,
        len(seen),
        loss / len(heads),
        float((1 / ranks).mean()),
        float((ranks <= 10).mean()),
    )


def _lengths(rows: Vectors) -> Vectors:
    lengths: Vectors = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.maximum(lengths, 1e-12)


def _normalised(rows: Vectors) -> Vectors:
    return rows / _lengths(rows)


def _ranks(
    entity: Vectors,
    relation: Vectors,
    true: NDArray[np.bool_],
    seen: NDArray[np.int64],
    *triplets: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The ranks of each triplet's tail and head among the entities seen, without the other true."""
    found = []
    for h, t, r in zip(*triplets, strict=True):
        to_tail = np.linalg.norm(entity[h] + relation[r] - entity, axis=1)
        to_head = np.linalg.norm(entity + relation[r] - entity[t], axis=1)
        for distance, at, others in ((to_tail, t, true[h, :, r]), (to_head, h, true[:, t, r])):
            found.append(1 + int(((distance < distance[at]) & ~others)[seen].sum()))
    return np.array(found)


def save(training: Training, path: Path) -> str:
    """Writes a vocabulary; its digest. Nobody ever sees a part of the file."""
    data = training.text().encode()
    with file_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    return hashlib.sha256(data).hexdigest()


def read(path: str | os.PathLike[str]) -> tuple[int, str]:
    """The dimensions of a vocabulary, and its digest: the SHA-256 of the file.

    The compiler checks the rest. NotFound, InvalidModel.
    """
    data = read_file(path)
    try:
        vector = next(iter(parse_json(data)[SECTIONS[0]].values()))
        if not isinstance(vector, list) or not vector:
            raise ValueError("a vector has no numbers")
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration) as error:
        why = f"{type(error).__name__}: {shortly(error)}"
        raise InvalidModel(f"{path}: not a vocabulary: {why}") from None
    return len(vector), hashlib.sha256(data).hexdigest()
