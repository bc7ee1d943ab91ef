# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several trainings with drawn settings, by Ray Tune; those that promise little are ended early."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..errors import Error, InvalidArgument, NotFound, PolicyFailed
from ..files import extra
from .folder import SEARCH, SETTINGS, Folder, same, write_json
from .optimizations import TRAINED
from .run import check, train
from .settings import Settings

TRIALS, BEST = "trials", "best.json"
SEARCHED = ("algorithm", "seed")  # fields of Settings; others are settings of the algorithm


def drawn_from(text: str) -> Any:
    """The domain of `--search NAME=…`: "A..B" is drawn from, logarithmically if both are positive
    and B is at least 10 A, and in whole numbers if both are such; "A,B,C" are choices. Raises
    InvalidArgument."""
    from ray import tune

    if ".." in text:
        try:
            low, high = (number(end) for end in text.split(".."))
        except ValueError:
            raise InvalidArgument(f"'{text}' is no range; expected LOW..HIGH") from None
        if not low < high or not math.isfinite(high - low):
            raise InvalidArgument(f"the range {text} is empty")
        logarithmic = low > 0 and high >= 10 * low
        if isinstance(low, int) and isinstance(high, int):
            return (tune.lograndint if logarithmic else tune.randint)(low, high + 1)
        return (tune.loguniform if logarithmic else tune.uniform)(low, high)
    try:
        choices = json.loads(f"[{text}]")
    except ValueError:
        choices = text.split(",")
    if not choices:
        raise InvalidArgument(f"'{text}' has no choices")
    return tune.choice(choices)


def number(text: str) -> int | float:
    """A whole number, or another one."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def changed(settings: Settings, drawn: Mapping[str, Any]) -> Settings:
    """The settings of a trial."""
    own = {key: value for key, value in drawn.items() if key in SEARCHED}
    others = {key: value for key, value in drawn.items() if key not in SEARCHED}
    return replace(settings, **own, settings={**settings.settings, **others})


def every(settings: Settings, space: Mapping[str, Any]) -> list[Settings]:
    """The settings of each algorithm with each choice, and with the ends of each range."""

    def ends(domain: Any) -> list[Any]:
        return getattr(domain, "categories", None) or [domain.lower, domain.upper]

    algorithms = ends(space["algorithm"]) if "algorithm" in space else [settings.algorithm]
    return [
        changed(settings, {"algorithm": algorithm, name: end})
        for algorithm in algorithms
        for name, domain in space.items()
        for end in ends(domain)
    ]


def one(
    settings: Settings, folder: Path, drawn: Mapping[str, Any], name: str, kept_by: Any = None
) -> None:
    """A trial; Ray Tune hears of each iteration. On a node of a cluster it trains in a folder of
    its own, which `kept_by`, a Collector, gets before Ray Tune may end it."""
    from ray import tune

    from .collecting import Place

    own = changed(settings, drawn)
    place = Place(folder / TRIALS, name, kept_by)

    def shown(row: Mapping[str, Any]) -> None:
        place.keep()
        reward = row["reward"]
        tune.report({**row, "reward": -math.inf if reward is None else reward})

    try:
        train(own, place.path, resume=True, shown=shown)
    except Error as error:
        place.fail(error)
        raise
    place.keep()


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
    On a cluster (`address`) a trial whose node is lost goes on elsewhere, from its last iteration.
    Errors: as of `train`, before any trial starts; Unavailable if a node of the cluster lacks what
    trials need; PolicyFailed if every trial failed.
    """
    if settings.workers:
        raise InvalidArgument("a trial has no workers: run more trials at once instead")
    if not drawn:
        raise InvalidArgument("there is nothing to search")
    if settings.environment in TRAINED:
        raise InvalidArgument(f"{settings.environment} has several agents, for which is no search")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # the other one prints at any verbosity
    try:
        import ray
        from ray import tune
        from ray.tune.schedulers import ASHAScheduler

        from ..cluster import check as check_nodes
        from ..cluster import connect
        from .collecting import collector
        from .environment import make, needs_of
    except ImportError as error:
        raise NotFound(f"tuning needs {extra('train')} ({error})") from None
    space = {name: drawn_from(text) for name, text in drawn.items()}
    possible = every(settings, space)
    for one_of in possible:
        check(one_of)
    # APPO learns in a process of its own.
    cpus = 2 if any(one_of.algorithm == "appo" for one_of in possible) else 1
    make(settings.environment, settings.options).close()
    stated = {**asdict(settings), "search": dict(drawn), "trials": trials, "at_once": at_once}
    path = path.resolve()
    with Folder(path, SEARCH).locked():
        state = path / "ray"
        if any(file.stat().st_size for file in state.glob("*/result.json")):
            if not resume:
                raise InvalidArgument(f"{path} has a search already: --resume goes on with it")
            same(path, stated)
        else:  # no trial came as far as an iteration
            shutil.rmtree(state, ignore_errors=True)
            shutil.rmtree(path / TRIALS, ignore_errors=True)
            write_json(path / SETTINGS, stated)

        def trainable(config: dict[str, Any]) -> None:
            one(settings, path, config, tune.get_context().get_trial_id(), kept_by)

        class Ended(tune.Callback):
            def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **_: Any) -> None:
                shown(row_of(trial.trial_id, trial.last_result or {}, trial.config))

        owns = not ray.is_initialized()
        if owns:
            connect(address, at_once * cpus)
        logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # the rows say why a trial failed
        try:
            kept_by = collector(path / TRIALS) if address else None
            if address:
                check_nodes(needs_of(settings))
            placed = tune.with_resources(
                trainable, tune.PlacementGroupFactory([{"CPU": 1.0}] * cpus)
            )
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
                    str(state), placed, resume_unfinished=True, restart_errored=True,
                    param_space=space,
                )  # fmt: skip
            else:
                tune_run = tune.RunConfig(
                    name="ray",
                    storage_path=str(path),
                    verbose=0,
                    callbacks=[Ended()],
                    # A trial that has failed by itself fails again at once.
                    failure_config=tune.FailureConfig(max_failures=3 if address else 0),
                )
                tuner = tune.Tuner(placed, param_space=space, tune_config=config,
                                   run_config=tune_run)  # fmt: skip
            results = list(tuner.fit())
        finally:
            if owns:
                ray.shutdown()
        return ranked(path, results)


def row_of(name: str, last: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a trial that has ended."""
    return {
        "name": name,
        "reward": last.get("reward"),
        "steps": last.get("steps", 0),
        "drawn": dict(drawn),
    }


def ranked(path: Path, results: Sequence[Any]) -> list[dict[str, Any]]:
    """The rows of a search's results, which it writes with the best policy."""
    rows, failed = [], []
    for result in results:
        last = result.metrics or {}
        row = row_of(Path(result.path).name, last, result.config)
        if result.error is None and math.isfinite(row["reward"] or math.nan):
            rows.append(row)
        else:
            why = str(result.error or "no episode ended").strip().splitlines()[-1]
            why = re.sub(r"^mlbridge\.errors\.\w+: ", "", why)
            failed.append({**row, "reward": None, "error": why})
    if not rows:
        raise PolicyFailed(f"no trial gave a reward: {failed[0]['error']}")
    rows.sort(key=lambda row: (-row["reward"], row["name"]))
    rows += failed
    write_json(path / BEST, rows)
    for row in rows:  # one that ended early has no file
        policy = path / TRIALS / row["name"] / "policy.onnx"
        if policy.exists():
            shutil.copy(policy, path / "policy.onnx")
            break
    return rows
