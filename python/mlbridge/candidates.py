# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists of candidates for `--effort`: measured on a corpus, and the best few chosen.

A candidate is {"name": …, "passes": …, "after_stock": …, "options": […], "target": …}, as the
phase-ordering plugin describes it. What it makes is measured by the plugin itself at -Oz: bytes of
executable sections.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import random
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import files, process_runner
from .corpus import Corpus, Module
from .errors import InvalidArgument, InvalidModel, NotFound
from .outputs import write_whole
from .progress import shown
from .ratio import Ratio
from .reading import parse_json, read_file, read_json, shortly
from .trials import Needs, Options, Trial, evaluate

#: A list of candidates must not hang a measuring; the plugin gives each of them a minute.
_LIMIT = 3600.0
_VERSION = 1
#: The beginning of a line of sizes.
_LINE = b'{"module": "'


@dataclass(frozen=True)
class Candidate:
    """A way to optimize a module; `key` identifies what it does."""

    name: str
    passes: str
    options: tuple[str, ...] = ()
    after_stock: bool = False
    target: str = ""  #: the architecture (of a triple) that it is for, if not for all

    @property
    def key(self) -> str:
        does = [self.passes, sorted(self.options), *[True] * self.after_stock]
        content = json.dumps([*does, self.target] if self.target else does)
        return hashlib.blake2b(content.encode(), digest_size=10).hexdigest()

    def as_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self.name, "passes": self.passes}
        made |= {"after_stock": True} if self.after_stock else {}
        made |= {"options": list(self.options)} if self.options else {}
        return made | ({"target": self.target} if self.target else {})


@dataclass
class Measured:
    """Bytes of a module's code: by the stock pipeline, and by each candidate, by its key.

    None stands for a candidate that is not to be used on it: it crashed, or was refused.
    """

    program: str
    stock: int
    sizes: dict[str, int | None] = field(default_factory=dict)

    def best(self, chosen: Iterable[Candidate]) -> int:
        """The size that the plugin keeps of the stock pipeline and these."""
        sizes = (self.sizes.get(candidate.key) for candidate in chosen)
        return min([self.stock, *(size for size in sizes if size is not None)])


def read(path: str | os.PathLike[str]) -> list[Candidate]:
    """A list, best first. Raises NotFound, or InvalidArgument if it is not one."""
    top = read_json(path)
    try:
        version = top["version"]
        listed = [
            Candidate(
                str(one["name"]),
                str(one["passes"]),
                tuple(map(str, one.get("options", ()))),
                bool(one.get("after_stock", False)),
                str(one.get("target", "")),
            )
            for one in top["candidates"]
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"{path}: not a list of candidates: {shortly(error)}") from None
    if version != _VERSION:
        raise InvalidArgument(f"{path}: expected version {_VERSION}, got {version!r}")
    if not listed or len({c.name for c in listed}) < len(listed):
        raise InvalidArgument(f"{path}: expected candidates with different names")
    return listed


def text(listed: Sequence[Candidate]) -> str:
    """A list as a file has it, a line for each."""
    lines = ",\n".join("  " + json.dumps(c.as_json()) for c in listed)
    return f'{{"version": {_VERSION}, "candidates": [\n{lines}\n]}}\n'


def sample(corpus: Corpus, each: int) -> list[Module]:
    """At most `each` modules of each program: always the same ones, those of the least hash."""
    found: dict[str, list[Module]] = {}
    for module in sorted(corpus, key=lambda m: m.hash):
        found.setdefault(module.program, []).append(module)
    return [module for program in sorted(found) for module in found[program][:each]]


def measure(
    corpus: Corpus,
    modules: Sequence[Module],
    listed: Sequence[Candidate],
    kept: Path,
    *,
    jobs: int = 2,
    cluster: str = "",
    progress: bool = False,
    warned: Callable[[str], None] = lambda text: None,
) -> dict[str, Measured]:
    """Measure modules, by their hash, here or on the nodes of a Ray cluster.

    What has been measured is read from the file `kept`, and what is missing is appended to it, a
    line for each module, so that a killed measuring goes on where it was. `warned` is told which
    nodes are not used. Raises NotFound (no compiler or plugin), InvalidModel (a module that doesn't
    compile), InvalidArgument (the file), Unavailable (no node of the cluster).
    """
    found = _read_kept(kept)
    keys = {c.key: c for c in listed}
    missing = [m for m in modules if m.hash not in found or keys.keys() - found[m.hash].sizes]
    if not missing:
        return {m.hash: found[m.hash] for m in modules}

    def trials() -> Iterator[Trial]:
        for module in missing:
            known = found.get(module.hash)
            wanted = [c for key, c in keys.items() if known is None or key not in known.sizes]
            content = (module.program, module.source, wanted, corpus.extract(module).read_bytes())
            yield Trial(module.hash, pickle.dumps(content), limit=_LIMIT)

    needs = Needs(programs=("clang-22",), plugins=("phase-ordering",))
    options = Options(jobs=jobs, cluster=cluster, needs=needs, warned=warned)
    of_hash = {module.hash: module for module in missing}
    # Nodes may be lost at any time, so what one of them has measured is kept at once.
    results = evaluate(measured_of, trials(), options, ordered=not cluster)
    with kept.open("a", encoding="utf-8") as file, contextlib.closing(results):
        for result in shown(results, len(missing), "module", progress):
            module, measured = of_hash[result.key], result.get()
            line = {"module": module.hash, "program": module.program, "stock": measured.stock}
            file.write(json.dumps({**line, "bytes": measured.sizes}) + "\n")
            file.flush()
            found.setdefault(module.hash, measured).sizes.update(measured.sizes)
    return {m.hash: found[m.hash] for m in modules}


def measured_of(trial: Trial) -> Measured:
    """Measures the module of a trial."""
    program, source, wanted, bitcode = pickle.loads(trial.inputs)
    with tempfile.TemporaryDirectory(prefix="mlbridge-candidates-") as folder:
        place = Path(folder) / "module.bc"
        place.write_bytes(bitcode)
        return _measure(place, program, source, wanted)


def _from_line(entry: Mapping[str, Any]) -> Measured:
    sizes = {str(key): None if size is None else int(size) for key, size in entry["bytes"].items()}
    return Measured(str(entry["program"]), int(entry["stock"]), sizes)


def _read_kept(kept: Path) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    if not kept.exists():
        return found
    lines = read_file(kept).split(b"\n")
    half = lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            entry = parse_json(line)
            measured = _from_line(entry)
            found.setdefault(entry["module"], measured).sizes.update(measured.sizes)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            why = shortly(error)
            raise InvalidArgument(f"{kept}:{number}: not a line of sizes: {why}") from None
    if half:
        if not (half.startswith(_LINE) or _LINE.startswith(half)):
            raise InvalidArgument(f"{kept}:{len(lines) + 1}: not a line of sizes")
        # A killed measuring has left half a line. What is before it has been read.
        write_whole(kept, b"".join(line + b"\n" for line in lines))
    return found


def _measure(bitcode: Path, program: str, source: str, wanted: Sequence[Candidate]) -> Measured:
    """Measure a module. What takes too long ends a comparison; those after it are compared anew."""
    measured = Measured(program, 0)
    left = list(wanted)
    while left:
        log = _compare(bitcode, source, left)
        measured.stock = log["stock_bytes"]
        again = []
        trials = {trial["name"]: trial for trial in log["trials"]}
        for number, candidate in enumerate(left):
            trial = trials.get(str(number), {"end": "for another target"})
            if trial["end"] == "not tried" and "problem" in log:
                again.append(candidate)
            else:
                measured.sizes[candidate.key] = trial.get("bytes")
        if len(again) == len(left):
            raise InvalidModel(f"{source}: no candidate can be tried: {log['problem']}")
        left = again
    return measured


def _compare(bitcode: Path, source: str, wanted: Sequence[Candidate]) -> Any:
    plugin = Path(files.plugin("phase-ordering"))
    if not plugin.is_file():
        raise NotFound(f"{plugin} is not there: {files.extra('clang22')}")
    with tempfile.TemporaryDirectory(prefix="mlbridge-candidates-") as folder:
        place = Path(folder)
        numbered = [replace(c, name=str(i)) for i, c in enumerate(wanted)]
        (place / "list.json").write_text(text(numbered), encoding="utf-8")
        told = {
            "model": f"candidates:{place}/list.json",
            "effort": len(wanted),
            "log": place / "log",
        }
        command = [
            "clang-22",
            "-Oz",
            "-Wno-everything",
            "-Wbackend-plugin",
            "-x",
            "ir",
            "-c",
            str(bitcode),
            "-o",
            os.devnull,
        ]
        options = (f"-phase-ordering-{name}={value}" for name, value in told.items())
        command += files.clang_words(str(plugin), *options)
        ran = process_runner.run(command, timeout=_LIMIT)
        logs = list((place / "log").glob("*.trials.json")) if (place / "log").is_dir() else []
        log = json.loads(logs[0].read_text(encoding="utf-8")) if len(logs) == 1 else {"trials": []}
        if ran.code != 0 or not log["trials"]:
            why = ran.stderr.text.partition("phase-ordering: ")[2].split("\n")[0] or ran.reason
            why = re.sub(
                r"candidate '(\d+)'", lambda m: f"candidate '{wanted[int(m[1])].name}'", why
            )
            raise InvalidModel(f"{source}: clang-22 can't compare candidates: {why}")
        return log


def gain(measured: Mapping[str, Measured], chosen: Sequence[Candidate]) -> Ratio | None:
    """The part of the stock pipeline's bytes that is left if the best of these is kept for each
    module: the geometric mean over programs of their modules' sums, with its interval over
    programs. None without modules that have code.
    """
    sums: dict[str, list[int]] = {}
    for module in measured.values():
        if module.stock:
            total = sums.setdefault(module.program, [0, 0])
            total[0] += module.best(chosen)
            total[1] += module.stock
    return Ratio.of(kept / stock for kept, stock in sums.values())


def choose(
    measured: Mapping[str, Measured], listed: Sequence[Candidate], count: int, continuing: int = 0
) -> list[Candidate]:
    """A portfolio: each is the one that gains most beside those before it (greedy, by `gain`).

    The first `continuing` are taken from those that continue the stock pipeline, which cost less.
    """
    chosen: list[Candidate] = []
    while len(chosen) < min(count, len(listed)):
        left = [c for c in listed if c not in chosen]
        if len(chosen) < continuing:
            left = [c for c in left if c.after_stock] or left

        def mean_with(candidate: Candidate) -> float:
            found = gain(measured, [*chosen, candidate])
            return 1.0 if found is None else found.mean

        chosen.append(min(left, key=mean_with))
    return chosen


def search(
    listed: Sequence[Candidate],
    measured_with: Callable[[Sequence[Candidate]], Mapping[str, Measured]],
    tries: int,
    *,
    count: int = 10,
    continuing: int = 0,
    seed: int = 0,
) -> list[Candidate]:
    """The list and `tries` new candidates that descend from its best ones, by evolution.

    In each round the best `count` (by `choose`) are varied: passes are left out, moved, repeated or
    taken over from others, or an option is. `measured_with` measures a list. The same seed and
    sizes give the same candidates.
    """
    rng = random.Random(seed)
    known = list(listed)
    keys = {c.key for c in known}
    while tries > 0:
        parents = choose(measured_with(known), known, count, continuing)
        made: list[Candidate] = []
        for _ in range(100 * len(parents)):  # few variations of a short list are new
            if len(made) == min(tries, len(parents)):
                break
            child = vary(rng.choice(parents), known, rng, f"search-{len(known) + len(made)}")
            if child.key not in keys:
                keys.add(child.key)
                made.append(child)
        if not made:
            break
        known += made
        tries -= len(made)
    return known


def vary(
    parent: Candidate, others: Sequence[Candidate], rng: random.Random, name: str
) -> Candidate:
    """A candidate that differs a little."""
    passes, options = _elements(parent.passes), list(parent.options)
    other = rng.choice(others)
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choice(("leave out", "move", "repeat", "take over", "option"))
        at, to = rng.randrange(len(passes)), rng.randrange(len(passes) + 1)
        if kind == "leave out" and len(passes) > 1:
            del passes[at]
        elif kind == "move":
            passes.insert(min(to, len(passes) - 1), passes.pop(at))
        elif kind == "repeat":
            passes.insert(to, passes[at])
        elif kind == "take over":
            passes.insert(to, rng.choice(_elements(other.passes)))
        elif kind == "option" and other.options:
            taken = rng.choice(other.options)
            same = [o for o in options if o.partition("=")[0] == taken.partition("=")[0]]
            options = [o for o in options if o not in same]
            options += [] if same == [taken] else [taken]
    return replace(parent, name=name, passes=",".join(passes), options=tuple(options))


def _elements(passes: str) -> list[str]:
    """The passes of a pipeline, those in parentheses together."""
    found, depth = [""], 0
    for letter in passes:
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found
