# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lists of candidates for `--effort`: measured on a corpus, and the best few chosen.

A candidate is {"name": …, "passes": …, "options": […]}, as the phase-ordering plugin describes it.
Sizes are bytes of executable sections of objects at -Oz, measured by the plugin itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files, measuring
from .corpus import Corpus, Module
from .errors import InvalidArgument, InvalidModel, NotFound
from .measuring import Ratio

#: A list of candidates must not hang a measuring; the plugin gives each of them a minute.
_LIMIT = 3600.0
_VERSION = 1


@dataclass(frozen=True)
class Candidate:
    """A way to optimize a module; `key` identifies what it does."""

    name: str
    passes: str
    options: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        content = json.dumps([self.passes, sorted(self.options)])
        return hashlib.blake2b(content.encode(), digest_size=10).hexdigest()

    def as_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self.name, "passes": self.passes}
        return made | ({"options": list(self.options)} if self.options else {})


@dataclass
class Sizes:
    """Of a module: what the stock pipeline makes, and each candidate by its key.

    None stands for a candidate that is not to be used on it: it crashed, or was refused.
    """

    program: str
    stock: int
    bytes: dict[str, int | None] = field(default_factory=dict)

    def best(self, chosen: Iterable[Candidate]) -> int:
        """Of the stock pipeline and these."""
        made = [self.bytes.get(candidate.key) for candidate in chosen]
        return min([self.stock, *(size for size in made if size is not None)])


def read(path: str | os.PathLike[str]) -> list[Candidate]:
    """A list, best first. Raises NotFound, or InvalidArgument if it is not one."""
    try:
        top = json.loads(Path(path).read_text(encoding="utf-8"))
        if top["version"] != _VERSION:
            raise InvalidArgument(f"{path}: expected version {_VERSION}, got {top['version']}")
        listed = [
            Candidate(str(one["name"]), str(one["passes"]), tuple(map(str, one.get("options", ()))))
            for one in top["candidates"]
        ]
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"{path}: not a list of candidates: {error!r}") from None
    if not listed or len({c.name for c in listed}) < len(listed):
        raise InvalidArgument(f"{path}: expected candidates with different names")
    return listed


def text(listed: Sequence[Candidate]) -> str:
    """A list as a file has it, a line for each."""
    lines = ",\n".join("  " + json.dumps(c.as_json()) for c in listed)
    return f'{{"version": {_VERSION}, "candidates": [\n{lines}\n]}}\n'


def sample(corpus: Corpus, each: int) -> list[Module]:
    """Of each program at most `each` modules: always the same ones, those of the least hash."""
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
    progress: bool = False,
) -> dict[str, Sizes]:
    """The sizes of these modules, by their hash.

    What has been measured is read from the file `kept`, and what is missing is appended to it, a
    line for each module, so that a killed measuring goes on where it was. Raises NotFound (no
    compiler or plugin), InvalidModel (a module that doesn't compile), InvalidArgument (the file).
    """
    from tqdm import tqdm

    found = _read_kept(kept)
    keys = {c.key: c for c in listed}
    missing = [m for m in modules if m.hash not in found or keys.keys() - found[m.hash].bytes]
    if not missing:
        return {m.hash: found[m.hash] for m in modules}
    with kept.open("a", encoding="utf-8") as file, ThreadPoolExecutor(jobs) as pool:

        def one(module: Module) -> tuple[Module, Sizes, list[float]]:
            known = found.get(module.hash)
            wanted = [c for key, c in keys.items() if known is None or key not in known.bytes]
            return module, *_measure(corpus.extract(module), module, wanted)

        hidden = None if progress else True
        for module, sizes, features in tqdm(
            pool.map(one, missing), total=len(missing), unit="module", disable=hidden
        ):
            line = {
                "module": module.hash,
                "program": module.program,
                "stock": sizes.stock,
                "bytes": sizes.bytes,
                "features": features,
            }
            file.write(json.dumps(line) + "\n")
            file.flush()
            found.setdefault(module.hash, sizes).bytes.update(sizes.bytes)
    return {m.hash: found[m.hash] for m in modules}


def _read_kept(kept: Path) -> dict[str, Sizes]:
    found: dict[str, Sizes] = {}
    if not kept.exists():
        return found
    lines = kept.read_bytes().split(b"\n")
    if lines.pop():  # a killed measuring has left half a line
        kept.write_bytes(b"".join(line + b"\n" for line in lines))
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            sizes = Sizes(entry["program"], int(entry["stock"]), dict(entry["bytes"]))
            found.setdefault(entry["module"], sizes).bytes.update(sizes.bytes)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidArgument(f"{kept}:{number}: not a line of sizes: {error!r}") from None
    return found


def _measure(
    bitcode: Path, module: Module, wanted: Sequence[Candidate]
) -> tuple[Sizes, list[float]]:
    """A crash ends the comparison, so those after it are compared once more."""
    sizes = Sizes(module.program, 0)
    left = list(wanted)
    features: list[float] = []
    while left:
        log = _compare(bitcode, left)
        sizes.stock, features = log["stock_bytes"], log["features"]
        again = []
        for candidate, trial in zip(left, log["trials"], strict=True):
            if trial["end"] == "not tried" and "problem" in log:
                again.append(candidate)
            else:
                sizes.bytes[candidate.key] = trial.get("bytes")
        if len(again) == len(left):
            raise InvalidModel(f"{module.source}: no candidate can be tried: {log['problem']}")
        left = again
    return sizes, features


def _compare(bitcode: Path, wanted: Sequence[Candidate]) -> Any:
    plugin = Path(files.plugin("phase-ordering"))
    if not plugin.is_file():
        raise NotFound(f"{plugin} is not there: this package was built without LLVM 22")
    with tempfile.TemporaryDirectory(prefix="mlbridge-candidates-") as folder:
        place = Path(folder)
        numbered = [Candidate(str(i), c.passes, c.options) for i, c in enumerate(wanted)]
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
        command += ["-Xclang", f"-fpass-plugin={plugin}"]
        for name, value in told.items():
            command += ["-Xclang", "-mllvm", "-Xclang", f"-phase-ordering-{name}={value}"]
        ran = measuring.run(command, timeout=_LIMIT)
        logs = list((place / "log").glob("*.trials.json")) if (place / "log").is_dir() else []
        if ran.code != 0 or len(logs) != 1:
            said = ran.stderr.text.partition("phase-ordering: ")[2].split("\n")[0] or ran.reason
            raise InvalidModel(f"{bitcode}: clang-22 can't compare candidates: {said}")
        return json.loads(logs[0].read_text(encoding="utf-8"))


def gain(sizes: Mapping[str, Sizes], chosen: Sequence[Candidate]) -> Ratio | None:
    """Bytes over the stock pipeline's if the best of these is kept for each module: the geometric
    mean of the programs' sums, with its interval. None without modules that have code."""
    best: dict[str, int] = {}
    stock: dict[str, int] = {}
    for its in sizes.values():
        best[its.program] = best.get(its.program, 0) + its.best(chosen)
        stock[its.program] = stock.get(its.program, 0) + its.stock
    return Ratio.of(best[p] / stock[p] for p in stock if best[p])


def choose(sizes: Mapping[str, Sizes], listed: Sequence[Candidate], count: int) -> list[Candidate]:
    """A portfolio: each is the one that gains most beside those before it (greedy, by `gain`)."""
    chosen: list[Candidate] = []
    while len(chosen) < min(count, len(listed)):

        def mean_with(candidate: Candidate) -> float:
            found = gain(sizes, [*chosen, candidate])
            return 1.0 if found is None else found.mean

        chosen.append(min((c for c in listed if c not in chosen), key=mean_with))
    return chosen
