# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vocabularies for IR2Vec: a seed vector for each opcode, type and kind of operand of LLVM's IR.

`collect` has LLVM's own llvm-ir2vec state what stands beside what in modules, as triplets (head,
relation, tail), and `train` finds vectors by TransE (Bordes et al., "Translating Embeddings for
Modeling Multi-relational Data", NIPS 2013): the head's and the relation's together come close to
the tail's. docs/embeddings.md describes the command that does both.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .corpus.places import module_files, opened
from .corpus.store import write
from .errors import InvalidArgument, InvalidModel, NotFound

_log = logging.getLogger("mlbridge")

TOOL, OPT = "llvm-ir2vec-22", "opt-22"
#: Of each module as it is, and as these pipelines leave it: an episode sees both kinds of IR.
PIPELINES = ("", "default<Oz>", "default<O3>")
SECTIONS = ("Opcodes", "Types", "Arguments")
#: Of TransE.
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
    """What came of a training. Figures are of the triplets that it learned from."""

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
    for tool in (TOOL, OPT):
        if shutil.which(tool) is None:
            raise NotFound(f"{tool} is not there (Debian: llvm-22)")
    found = opened(corpus, part)
    names = _names(_run([TOOL, "entities"], b"", TOOL).decode())

    def of(module: Any) -> tuple[int, set[bytes]]:
        """How many triplets a module has, and which."""
        name = str(module) if found is None else module.name
        given = Path(module).read_bytes() if found is None else found.read(module)
        count, distinct = 0, set()
        for pipeline in PIPELINES:
            bitcode = _run([OPT, f"-passes={pipeline}"], given, name) if pipeline else given
            lines = _run([TOOL, "triplets", "-"], bitcode, name).splitlines()[1:]
            count += len(lines)
            distinct.update(lines)
        return count, distinct

    modules: Sequence[Any] = list(found) if found is not None else module_files(corpus)

    bad: list[str] = []

    def tried(module: Any) -> tuple[int, set[bytes]] | None:
        try:
            return of(module)
        except InvalidModel as error:
            bad.append(str(error))
            _log.warning("left out: %s", error)
            return None

    with ThreadPoolExecutor(jobs) as pool:
        try:
            done = list(
                _shown(pool.map(tried, modules), len(modules), "triplets", "module", progress)
            )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    good = [one for one in done if one is not None]
    if not good:
        raise InvalidModel(f"no module can be read: {bad[0]}")
    lines = set[bytes]().union(*(distinct for _, distinct in good))
    triplets = np.array(sorted([int(n) for n in line.split()] for line in lines), np.int64)
    if not len(triplets):
        raise InvalidModel(f"{corpus}: its modules have no instruction")
    counted = sum(count for count, _ in good)
    return Graph(len(good), counted, triplets.reshape(-1, 3), names)


def _run(command: Sequence[str], given: bytes, name: str) -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        raise InvalidModel(f"{name}: {command[0]} took more than {LIMIT:g} s") from None
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())[:500]
        raise InvalidModel(f"{name}: {command[0]} ended with {done.returncode}: {said}")
    return done.stdout


def _shown(items: Iterable[Any], total: int, what: str, unit: str, progress: bool) -> Iterable[Any]:
    """With a bar on a terminal, if tqdm is installed."""
    with contextlib.suppress(ImportError):
        from tqdm import tqdm

        hidden = None if progress else True
        items = tqdm(items, what, total, unit=unit, disable=hidden, leave=False)
    return items


def _names(listed: str) -> dict[str, list[str]]:
    """What llvm-ir2vec calls the entities: opcodes, then types, which end in Ty, then operands."""
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
    for _ in _shown(range(epochs), epochs, "training", "epoch", progress):
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
    vectors: dict[str, dict[str, list[float]]] = {section: {} for section in SECTIONS}
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
    """Of each triplet's tail and head among the entities seen, other true answers left out."""
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
    write(path, data)
    return hashlib.sha256(data).hexdigest()


def read(path: str | os.PathLike[str]) -> tuple[int, str]:
    """The dimensions of a vocabulary, and its digest: the SHA-256 of the file.

    The compiler checks the rest. NotFound, InvalidModel.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror}") from None
    try:
        vector = next(iter(json.loads(data)[SECTIONS[0]].values()))
        if not isinstance(vector, list) or not vector:
            raise ValueError("a vector has no numbers")
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        StopIteration,
        RecursionError,
    ) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        raise InvalidModel(f"{path}: not a vocabulary of IR2Vec: {why}") from None
    return len(vector), hashlib.sha256(data).hexdigest()
