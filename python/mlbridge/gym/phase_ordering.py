# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Phase ordering in stock opt as a Gymnasium environment."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import files
from .._core import Signature, TensorSpec
from ..corpus import Corpus
from ..corpus.resolve import module_files, opened
from ..errors import InvalidArgument, InvalidModel, NotFound, Unavailable, Unsupported
from ..reading import read_json
from ..rewards import Cache
from ..vocabulary import read as read_vocabulary
from .compiler import CompilerEnv
from .objectives import Measure, Objective, objective_of
from .session import CompilerBroken, OtherSignature

FEATURES = 120
EMBEDDING = "embedding"
SIZES = ("code_bytes", "oz_code_bytes")  # a model in the compiler does not see them
RULES = ("repeat", "stop", "max_steps")  # keys of a list of groups
#: Kinds of observation, and their names in models.
OBSERVATIONS = {
    "counts": "phase-ordering-counts-1",
    "ir2vec": "ir2vec-flow-aware-1",
    "ir2vec-symbolic": "ir2vec-symbolic-1",
}


class PhaseOrdering(CompilerEnv):
    """`gymnasium.make("mlbridge/PhaseOrdering-v0", corpus=FOLDER)`: LLVM's passes on modules.

    Each step runs a group of passes on a module, in a stock opt-22 of this environment's own;
    observation, groups and `stop`, the last action, are those of the phase-ordering plugin
    (compilers/llvm/phase-ordering/README.md). The reward is the decrease of the executable bytes of
    its object, divided by those at the reset; `info` has them as `code_bytes`, and as
    `oz_code_bytes` those that plain -Oz gives. With IR2Vec, `embedding` takes the place of
    `features`, which are then in `info`. With `rewards="last"`, which is many times faster, code is
    generated only when the compiler ends an episode, by `stop` or at the limit of steps: that step
    has the reward of all, and in others `info` has no `code_bytes`.
    """

    def __init__(
        self,
        corpus: str | os.PathLike[str] | Corpus | Sequence[str | os.PathLike[str]],
        *,
        part: str = "",
        largest: int | None = None,
        objective: str | Measure | Objective = "size",
        observation: str = "counts",
        vocabulary: str | os.PathLike[str] | None = None,
        actions: str | os.PathLike[str] | None = None,
        max_steps: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        keep_states: bool = False,
        rewards: str = "each",
        opt: str = "opt-22",
        deadline: float = 60.0,
        retries: int = 5,
        render_mode: str | None = None,
    ) -> None:
        """`corpus`: a corpus of `mlbridge corpus add` (its name or folder, or what
        `mlbridge.corpus.open` gave), whose modules are extracted when their turn comes; or modules
        (bitcode or text) as `clang -Oz -Xclang -disable-llvm-passes` leaves them, or folders of
        such. `part`: of the corpus, and `largest`: its modules with at most so many bytes of
        bitcode. `observation`: "counts", or the embedding of the module by
        LLVM's IR2Vec: "ir2vec" (flow-aware) or "ir2vec-symbolic", with the vocabulary in a file
        of `mlbridge vocabulary` or the shipped one. `actions`: a JSON file with other groups and
        rules, which may state the limit of steps that `max_steps` overrides. `objective`: "size";
        "throughput", which llvm-mca predicts; "poset-rl", both; or one of mlbridge.gym.objectives,
        such as `Time`; the measured ones keep their figures in `cache`, an SQLite file.
        `keep_states`: `fork` resumes without taking steps again, at the price of a copy of the
        module for each step; not where the objective is measured. `rewards`: "each" step has one,
        or the "last", of the objective "size" alone."""
        if observation not in OBSERVATIONS:
            raise Unsupported(
                f"the observation is {observation!r}; there is {', '.join(OBSERVATIONS)}"
            )
        embeds = observation != "counts"
        if vocabulary is not None and not embeds:
            raise InvalidArgument("a vocabulary is for the observations ir2vec and ir2vec-symbolic")
        self._objective = objective_of(objective, None if cache is None else Cache(cache))
        if rewards not in ("each", "last"):
            raise InvalidArgument(f"rewards is {rewards!r}, expected 'each' or 'last'")
        if rewards == "last" and self._objective is not None:
            raise Unsupported("rewards='last' is for the objective 'size'")
        self._resumes = self._objective is None
        #: The reward is the decrease of bytes.
        self.measures_size = self._objective is None
        plugin = files.plugin("phase-ordering")
        for path, how in ((opt, "Debian: llvm-22"), (plugin, "mlbridge doctor says how to get it")):
            if shutil.which(path, mode=os.F_OK) is None:
                raise NotFound(f"{path} is not there ({how})")
        if not deadline > 0:
            raise InvalidArgument(f"deadline is {deadline}, expected more than 0 seconds")
        self._deadline, self._checked = deadline, False
        if max_steps is not None and max_steps < 1:
            raise InvalidArgument(f"max_steps is {max_steps}, expected 1 or more")
        listed = Path(actions or files.action_list("phase-ordering")).absolute()
        text = read_actions(listed)
        self.actions: list[str] = [
            *(group["name"] for group in json.loads(text)["actions"]),
            "stop",
        ]
        #: The metadata without which the plugin doesn't use a model with these groups.
        self.model_metadata = {
            "phase-ordering.actions": text,
            "phase-ordering.observation": OBSERVATIONS[observation],
        }
        self._command = [
            *(opt, "-load-pass-plugin", plugin, "-passes=phase-ordering", "-disable-output"),
            f"-phase-ordering-actions={listed}",
        ]
        if max_steps is not None:
            self._command.append(f"-phase-ordering-max-steps={max_steps}")
        self._vocabulary = Path()  # for embeddings
        inputs = []
        if embeds:
            # Stated even if it is the shipped one, so that the dimensions are those of this file.
            self._vocabulary = Path(vocabulary or files.vocabulary()).absolute()
            dimensions, digest = read_vocabulary(self._vocabulary)
            inputs.append(TensorSpec(EMBEDDING, "float32", [dimensions]))
            self.model_metadata["phase-ordering.vocabulary"] = digest
            self._command += [
                f"-phase-ordering-observation={observation}",
                f"-phase-ordering-vocabulary={self._vocabulary}",
            ]
        if keep_states:
            self._command.append("-phase-ordering-keep-states")
        if rewards == "last":
            self._command.append("-phase-ordering-rewards=last")
        self._states: tempfile.TemporaryDirectory[str] | None = None
        self._corpus = found = opened(corpus, part)
        if largest is not None and found is None:
            raise InvalidArgument(f"{corpus} is no corpus, which alone knows how large modules are")
        most = math.inf if largest is None else largest
        #: The modules of a corpus by where they are extracted to.
        self._modules = {}
        if found is not None:
            self._modules = {str(found.place(m)): m for m in found if m.bytes <= most}
        if found and not self._modules:
            raise NotFound(f"{found.path}: no module has at most {largest} bytes")
        choices = len(self.actions)
        super().__init__(
            start=self._started,
            units=list(self._modules) if found else module_files(corpus),
            prepare=self._prepared,
            signature=Signature(
                [
                    TensorSpec("features", "float32", [FEATURES]),
                    TensorSpec("action_mask", "float32", [choices]),
                    TensorSpec("history", "float32", [choices]),
                    TensorSpec("step", "int64", [1]),
                    *inputs,
                    *(TensorSpec(name, "int64", [1]) for name in SIZES),
                ],
                [TensorSpec("action", "int64", [1])],
            ),
            aside=(*SIZES, "features") if embeds else SIZES,
            deadline=deadline,
            wait=deadline,
            retries=retries,
            render_mode=render_mode,
        )

    def _prepared(self, unit: str) -> str:
        if self._corpus is not None and (module := self._modules.get(unit)):
            self._corpus.extract(module)
        return unit

    def _started(self, address: str) -> subprocess.Popen[Any]:
        module = self._session.unit  # the process is for its target
        place = address.partition("?")[0]  # options are the driver's
        digest = self.model_metadata.get("phase-ordering.vocabulary")
        if digest is not None and read_vocabulary(self._vocabulary)[1] != digest:
            raise OtherSignature(f"{self._vocabulary} has changed; its digest was {digest}")
        if not self._checked:
            version = self._run_opt("--version")
            if "LLVM version 22" not in version.stdout:
                raise CompilerBroken(f"{self._command[0]} is no opt of LLVM 22")
            self._checked = True
        read = self._run_opt("-passes=verify", "-disable-output", module)
        if read.returncode:
            raise InvalidModel(f"{module}: {' '.join(read.stderr.split()) or 'opt refuses it'}")
        command = [*self._command, f"-phase-ordering-serve={place}"]
        if self._objective is not None:
            if self._states is None:
                self._states = tempfile.TemporaryDirectory(prefix="mlbridge-gym-")
            command.append(f"-phase-ordering-state={self._state}")
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        process: subprocess.Popen[Any] = subprocess.Popen(
            [*command, module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the trainer
        )
        process.stderr = errors
        return process

    def _run_opt(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs opt to its end."""
        command = [self._command[0], *options]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=self._deadline, check=False
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command[0]} took more than {self._deadline:g} s") from None
        except OSError as error:
            raise CompilerBroken(f"{command[0]} can't be run: {error.strerror}") from None
        if done.returncode < 0:
            raise Unavailable(f"{command[0]} was ended by signal {-done.returncode}")
        return done

    def _info(self, **more: Any) -> dict[str, Any]:
        info = super()._info(**more)
        if SIZES[0] in info and info[SIZES[0]][0] < 0:  # not measured
            del info[SIZES[0]]
        return info

    def _begun(self, info: dict[str, Any]) -> None:
        if self._objective is not None:
            self._objective.begin(self._state, Path(self._session.unit), info)

    def _reward(self, given: float, info: dict[str, Any]) -> float:
        return given if self._objective is None else self._objective.step(self._state, info)

    @property
    def _state(self) -> Path:
        assert self._states is not None and self._objective is not None
        return Path(self._states.name, "state" + self._objective.reads)

    def close(self) -> None:
        """End the compiler. May be called twice."""
        super().close()
        if self._states is not None:
            self._states.cleanup()
            self._states = None

    def name_of(self, action: Any) -> str:
        """The name of a group."""
        return self.actions[int(action)]


def read_actions(path: Path) -> str:
    """The list of groups in a file, as compact JSON."""
    listed = read_json(path)
    try:
        groups, rules = listed["actions"], {k: listed[k] for k in RULES if k in listed}
        if unknown := listed.keys() - {"version", "actions", *RULES}:
            raise ValueError(f"there is no {', '.join(sorted(unknown))}")
        if listed.get("version") != 1:
            raise ValueError(f"version is {listed.get('version')!r}, expected 1")
        names = [group["name"] for group in groups]
        if not names or len(set(names)) < len(names) or "stop" in names:
            raise ValueError("expected one group or more, with different names, and none 'stop'")
        if not all(isinstance(group[key], str) for group in groups for key in ("name", "passes")):
            raise ValueError("a name or passes are not a string")
        repeat, stop = rules.get("repeat", "later"), rules.get("stop", True)
        if repeat not in ("later", "never", "always"):
            raise ValueError(f"repeat is {repeat!r}")
        if not isinstance(stop, bool):
            raise ValueError(f"stop is {stop!r}")
        steps = rules.get("max_steps", 1)
        if type(steps) is not int or not 1 <= steps <= 100_000:
            raise ValueError(f"max_steps is {steps!r}, expected 1 to 100000")
        if not stop and repeat == "later" and len(names) == 1:
            raise ValueError("a single group that may not be repeated needs stop")
    except KeyError as error:
        raise InvalidModel(f"{path}: not a list of actions: {error} is missing") from None
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidModel(f"{path}: not a list of actions: {error}") from None
    return json.dumps({"version": 1, "actions": groups, **rules}, separators=(",", ":"))
