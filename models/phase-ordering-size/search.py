# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Look ahead with the true size: many short orders of each training file, for a first policy.

    python models/phase-ordering-size/search.py --minutes 60

Builds lookahead/ and walks each file: in each state the groups that the policy of what is known so
far prefers (all of them as long as nothing is known) and a few others are tried, and the walk goes
on with the one that leaves the least code or, in half of the files, mostly with the policy's own
choice. What was found goes to experience-*.jsonl.gz in the work folder.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from corpus import WORK, File, interleaved, load, load_actions
from experience import Sequence, Tree, gather, line
from learning import fit, observation_inputs
from measuring import Lookahead, build_tool
from network import Policy
from tqdm import tqdm


def walk(
    file: File,
    policy: Policy | None,
    stop: int,
    generator: random.Random,
    options: argparse.Namespace,
) -> tuple[Tree, list[str]]:
    """Try orders of one file."""
    tree = Tree(file.program, file.name, file.oz_text)
    follow = policy is not None and generator.random() < 0.5
    with Lookahead(file) as ahead:
        ahead.run([()], tree)
        now: Sequence = ()
        patience = 2
        while len(now) < options.steps and patience > 0:
            groups = [a for a in range(stop) if not now or a != now[-1]]
            if policy is not None:
                votes = observation_inputs(policy, tree.states[now].observation, now)
                groups.sort(key=lambda action: -float(votes[action]))
                groups = groups[: options.top] + generator.sample(groups[options.top :], 2)
            before = tree.states[now]
            done = ahead.run([(*now, action) for action in groups], tree)
            changed = [s for s in done if tree.states[s].digest != before.digest]
            if not changed:
                break
            following = (*now, groups[0])
            if follow and following in changed and generator.random() < 0.8:
                now = following
            else:
                now = min(changed, key=lambda s: (tree.states[s].size or 0, s))
            if (tree.states[now].size or 0) >= (before.size or 0) and len(now) > 1:
                patience -= 1
        return tree, ahead.crashes


def main(arguments: list[str]) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--low", type=int, default=120, help="skip smaller files (-Oz bytes)")
    parser.add_argument("--high", type=int, default=6000, help="skip larger files")
    parser.add_argument("--top", type=int, default=11, help="preferred groups to try")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    WORK.mkdir(parents=True, exist_ok=True)
    build_tool()
    stop = load_actions().stop
    generator = random.Random(options.seed)
    trees = gather(sorted(WORK.glob("experience-*.jsonl.gz")))
    files = interleaved(load("training"), options.seed, options.low, options.high)
    files.sort(key=lambda file: file.name in trees)  # those not seen yet first; order kept
    policy = fit(trees, stop, seed=options.seed, members=2, epochs=60) if trees else None
    target = WORK / f"experience-search-{int(time.time())}.jsonl.gz"
    end = time.monotonic() + 60 * options.minutes
    learned = len(trees)
    with (
        ThreadPoolExecutor(options.jobs) as pool,
        gzip.open(target, "wt") as out,
        tqdm(total=len(files), unit="file") as bar,
    ):
        pending: set[Future[tuple[Tree, list[str]]]] = set()
        queue = iter(files)
        while True:
            while len(pending) < options.jobs and time.monotonic() < end:
                file = next(queue, None)
                if file is None:
                    break
                own = random.Random(generator.random())
                pending.add(pool.submit(walk, file, policy, stop, own, options))
            if not pending:
                break
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                tree, crashes = future.result()
                out.write(line(tree))
                out.flush()
                for crash in crashes:
                    tqdm.write(f"crash: {tree.name}: {crash}")
                if tree.name in trees:
                    trees[tree.name].merge(tree)
                else:
                    trees[tree.name] = tree
                bar.update()
                bar.set_postfix_str(f"{tree.name} {tree.best()[0]:.3f}")
            if len(trees) >= learned + 40:
                learned = len(trees)
                policy = fit(trees, stop, seed=options.seed, members=2, epochs=60)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
