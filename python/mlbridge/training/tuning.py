# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several trainings with drawn settings, by Ray Tune; those that promise little are ended early."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

from ..errors import InvalidArgument, NotFound, PolicyFailed
from .folder import Folder, replace
from .run import ALGORITHMS, Settings, train

TRIALS, BEST = "trials", "best.json"
SEARCHED = ("algorithm", "seed")  # of Settings itself; others are settings of the algorithm


def drawn_from(text: str) -> Any:
    """What `--search NAME=…` says: "A..B" is drawn from, logarithmically if both are positive and
    B is at least 10 A; "A,B,C" are choices. Raises InvalidArgument."""
    from ray import tune

    if ".." in text:
        try:
            low, high = (float(end) for end in text.split(".."))
        except ValueError:
            raise InvalidArgument(f"'{text}' is no range; expected LOW..HIGH") from None
        if not low < high or not math.isfinite(high - low):
            raise InvalidArgument(f"the range {text} is empty")
        return (
            tune.loguniform(low, high) if low > 0 and high >= 10 * low else tune.uniform(low, high)
        )
    try:
        choices = json.loads(f"[{text}]")
    except ValueError:
        choices = text.split(",")
    return tune.choice(choices)


def one(settings: Settings, folder: Path, drawn: Mapping[str, Any], name: str) -> None:
    """A trial; Ray Tune hears of each iteration."""
    from ray import tune

    own = {key: value for key, value in drawn.items() if key in SEARCHED}
    others = {key: value for key, value in drawn.items() if key not in SEARCHED}
    asked = with_changes(settings, **own, settings={**settings.settings, **others})
    place = folder / TRIALS / name

    def shown(row: Mapping[str, Any]) -> None:
        reward = row["reward"]
        tune.report({**row, "reward": -math.inf if reward is None else reward})

    train(asked, place, resume=(place / "settings.json").exists(), shown=shown)


def search(
    settings: Settings,
    drawn: Mapping[str, str],
    path: Path,
    *,
    trials: int,
    at_once: int = 1,
    resume: bool = False,
    address: str = "",
    shown: Callable[[Mapping[str, Any]], None] = lambda row: None,
) -> list[dict[str, Any]]:
    """The trials, best first: `name`, `reward`, `steps`, and what was `drawn`; last, without a
    reward, those that failed, and the `error`.

    Each trains in PATH/trials/NAME, like `train`; PATH/best.json has the list, PATH/policy.onnx the
    best policy. ASHA ends trials whose reward is behind. `shown` gets a trial's row when it ends.
    Errors: as of `train`; PolicyFailed if every trial failed.
    """
    if settings.algorithm not in ALGORITHMS:
        raise InvalidArgument(f"algorithm {settings.algorithm!r}; there are {ALGORITHMS}")
    if settings.workers:
        raise InvalidArgument("a trial has no workers: run more trials at once instead")
    if not drawn:
        raise InvalidArgument("there is nothing to search")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # the other one prints at any verbosity
    try:
        import ray
        from ray import tune
        from ray.tune.schedulers import ASHAScheduler
    except ImportError as error:
        raise NotFound(f"tuning needs pip install 'mlbridge[train]' ({error})") from None
    space = {name: drawn_from(text) for name, text in drawn.items()}
    path = path.resolve()
    with Folder(path).locked():
        state = path / "ray"
        if state.exists() and not resume:
            raise InvalidArgument(f"{path} has a search already: --resume goes on with it")

        def trainable(config: dict[str, Any]) -> None:
            one(settings, path, config, tune.get_context().get_trial_id())

        class Ended(tune.Callback):
            def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
                shown(row_of(trial.trial_id, trial.last_result or {}, trial.config))

        owns = not ray.is_initialized()
        if owns:
            here = {"num_cpus": at_once, "object_store_memory": 128 << 20}
            ray.init(address=address or "local", include_dashboard=False, log_to_driver=False,
                     logging_level="error", **({} if address else here))  # fmt: skip
        try:
            # Beyond the last step, or it would end trials before they have written their policy.
            most = 4 * settings.steps
            scheduler = ASHAScheduler(
                time_attr="steps", max_t=most, grace_period=max(1, settings.steps // 4)
            )
            config = tune.TuneConfig(
                metric="reward", mode="max", num_samples=trials, scheduler=scheduler,
                max_concurrent_trials=at_once, trial_dirname_creator=lambda trial: trial.trial_id,
            )  # fmt: skip
            if state.exists():
                tuner = tune.Tuner.restore(
                    str(state), trainable, resume_unfinished=True, restart_errored=True,
                    param_space=space,
                )  # fmt: skip
            else:
                tune_run = tune.RunConfig(
                    name="ray", storage_path=str(path), verbose=0, callbacks=[Ended()]
                )
                tuner = tune.Tuner(trainable, param_space=space, tune_config=config,
                                   run_config=tune_run)  # fmt: skip
            results = list(tuner.fit())
        finally:
            if owns:
                ray.shutdown()
        return _kept(path, results)


def row_of(name: str, last: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """A trial as it ended."""
    return {
        "name": name,
        "reward": last.get("reward"),
        "steps": last.get("steps", 0),
        "drawn": dict(drawn),
    }


def _kept(path: Path, results: Sequence[Any]) -> list[dict[str, Any]]:
    rows, failed = [], []
    for result in results:
        last = result.metrics or {}
        row = row_of(Path(result.path).name, last, result.config)
        if result.error is None and math.isfinite(row["reward"] or math.nan):
            rows.append(row)
        else:
            why = str(result.error or "no episode ended").strip().splitlines()[-1]
            failed.append({**row, "reward": None, "error": why})
    if not rows:
        raise PolicyFailed(f"no trial gave a reward: {failed[0]['error']}")
    rows.sort(key=lambda row: row["reward"], reverse=True)
    rows += failed
    replace(path / BEST, json.dumps(rows, indent=1) + "\n")
    for row in rows:  # one that ended early has no file
        policy = path / TRIALS / row["name"] / "policy.onnx"
        if policy.exists():
            shutil.copy(policy, path / "policy.onnx")
            break
    return rows
