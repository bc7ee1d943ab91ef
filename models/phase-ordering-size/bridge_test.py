# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Episodes over the bridge with stock clang, and a few steps of training where PyTorch is there."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
from corpus import POLICY, File, load_actions

pytest.importorskip("mlbridge", reason="the package mlbridge isn't installed")
from bridge import Bridge, Episode, asking_flags, compile_with

from mlbridge import files as installed

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("clang-22") is None, reason="no clang-22"),
    pytest.mark.skipif(
        not Path(installed.plugin("phase-ordering")).exists(),
        reason="the phase-ordering plugin isn't built",
    ),
]

SOURCE = """
static int twice(int x) { return x * 2 + 1; }
int sum(const int *p, int n) { int s = 0; for (int i = 0; i < n; ++i) s += twice(p[i]); return s; }
int pick(int k) { switch (k) { case 1: return 7; case 2: return 9; case 3: return sum(&k, 1); }
  return twice(k); }
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[File]:
    folder = tmp_path_factory.mktemp("corpus")
    made: list[File] = []
    for number in range(3):
        source, bitcode = folder / f"f{number}.c", folder / f"f{number}.bc"
        source.write_text(SOURCE.replace("9", str(9 + number)))
        command = ["clang-22", "-Oz", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
        subprocess.run([*command, str(source), "-o", str(bitcode)], check=True)
        file = File("made-up", "1", source.name, str(bitcode), 0)
        size, error = compile_with(file, folder / "plain.o", [])
        assert size, error
        made.append(dataclasses.replace(file, oz_text=size))
    return made


def test_objects_are_matched_with_the_decisions_that_made_them(files: list[File]) -> None:
    actions = load_actions()
    orders = [(), (26,), (39, 6, 0)]
    episodes = [Episode(f, forced=(*o, actions.stop)) for f in files for o in orders]
    with Bridge(actions, jobs=4) as bridge:
        done = list(bridge.run(episodes))
    assert len(done) == len(episodes)
    for episode in done:
        assert episode.error == ""
        assert tuple(episode.actions) == episode.forced
        assert len(episode.observations) == len(episode.actions)
    sizes = {(e.file.source, e.forced): e.size or 0 for e in done}
    for file in files:  # code that nothing has optimized is larger
        assert sizes[file.source, (actions.stop,)] > sizes[file.source, (26, actions.stop)] > 0


def test_a_failed_episode_says_why_and_the_others_end_well(files: list[File]) -> None:
    actions = load_actions()
    episodes = [
        Episode(files[0], forced=(26, 26)),  # a group must not follow itself
        Episode(files[1], forced=(26, actions.stop)),
    ]
    with Bridge(actions) as bridge:
        done = {episode.file.source: episode for episode in bridge.run(episodes)}
    assert done["f0.c"].size is None
    assert "masked" in done["f0.c"].error
    assert done["f1.c"].size


def test_shipped_policy_decides_in_process(files: list[File], tmp_path: Path) -> None:
    flags = asking_flags(f"onnx:{POLICY}")
    size, error = compile_with(files[0], tmp_path / "f.o", flags)
    assert size, error
    assert size <= 1.5 * files[0].oz_text


def test_fixed_orders_are_measured_by_their_objects(files: list[File]) -> None:
    from fixed_orders import Measurer

    actions = load_actions()
    little, good, fails = (0,), (26, 39), (26, 26)  # a group must not follow itself
    with Bridge(actions) as bridge:
        measurer = Measurer(files, bridge, actions.stop)
        measurer.measure([little, good, fails])
    assert measurer.finished()[0] == good
    assert measurer.mean(good) < measurer.mean(little)
    assert measurer.mean(fails) == 0.5
    assert measurer.measured == 3 * len(files)


def test_a_few_rounds_of_training(files: list[File]) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
    from network import Policy
    from train import Memory, chooser

    actions = load_actions()
    torch.manual_seed(0)
    policy = Policy(120, actions.stop + 1, width=8, members=1, dropout=0.0).eval()
    memory = Memory(policy)
    order = (39, 26, actions.stop)
    with Bridge(actions, max_steps=3) as bridge:
        for episode in bridge.run([Episode(file, forced=order) for file in files]):
            memory.keep_to(episode)
        memory.normalise()
        memory.fit(seed=0, epochs=300, rate=1e-2)
        own = {e.file.name: e for e in bridge.run(map(Episode, files), chooser(policy))}
        assert {tuple(e.actions) for e in own.values()} == {order}
        tries = [Episode(f, seed=k, deviate=0) for f in files for k in range(3)]
        for episode in bridge.run(tries, chooser(policy)):
            assert episode.size, episode.error
            assert episode.actions[0] != order[0]
            assert memory.compare(own[episode.file.name], episode) is not None
    # What gains a lot takes over.
    memory.actions = [5] * len(memory.actions)
    memory.changes = [-0.05] * len(memory.changes)
    memory.fit(seed=1, epochs=200, rate=1e-2)
    features = torch.from_numpy(memory.inputs[0][:120])
    chosen = policy(features, torch.ones(54), torch.zeros(54), torch.zeros(1, dtype=torch.int64))
    assert int(chosen) == 5


def test_what_is_exported_decides_the_same(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
    from export import check, write
    from network import Policy

    torch.manual_seed(0)
    policy = Policy(120, 54, width=8).eval()
    write(policy, tmp_path / "policy.onnx", {"phase-ordering.actions": "{}"})
    assert check(policy, tmp_path / "policy.onnx", tries=100) == 0
