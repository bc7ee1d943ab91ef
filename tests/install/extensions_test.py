# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An engine and a serdes made outside the tree (examples/): linked in, and as plugins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from building import ROOT, run
from once import SharedBuild


def build(prefix: Path, example: str, shared_build: SharedBuild) -> Path:
    def make(folder: Path) -> None:
        source = folder / "source"
        shutil.copytree(ROOT / "examples" / example, source)
        options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"]
        run("cmake", "-G", "Ninja", "-S", source, "-B", folder / "build", *options)
        run("cmake", "--build", folder / "build")

    return shared_build(example, make) / "build"


@pytest.fixture(scope="session")
def graph(prefix: Path, shared_build: SharedBuild) -> Path:
    return build(prefix, "graph-engine", shared_build)


@pytest.fixture(scope="session")
def yaml(prefix: Path, shared_build: SharedBuild) -> Path:
    return build(prefix, "yaml-serdes", shared_build)


def environment(plugins: Path | None) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k != "MLBRIDGE_COMPONENT_PATH"}
    return env | ({"MLBRIDGE_COMPONENT_PATH": str(plugins)} if plugins else {})


def output(*command: str | Path, plugins: Path | None = None) -> str:
    env = environment(plugins)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


@pytest.mark.parametrize("linked", [True, False])
def test_the_engine_decides(graph: Path, tmp_path: Path, linked: bool) -> None:
    # The plugin lies where only the variable says; beside the program it is found without it.
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    shutil.copy(graph / "libmlbridge-engine-graph.so", plugins)
    program = tmp_path / ("ask-linked" if linked else "ask")
    shutil.copy(graph / program.name, program)
    policy = ROOT / "examples" / "graph-engine" / "policy.graph"
    where = None if linked else plugins
    assert output(program, f"graph:{policy}", plugins=where) == "1 ok\n"
    assert output(program, "graph:/nowhere", plugins=where).startswith("-1 not found: ")
    assert "takes no option 'x'" in output(program, f"graph:{policy}?x=1", plugins=where)
    if not linked:
        assert "unknown scheme 'graph'" in output(program, f"graph:{policy}")


def test_broken_graphs(graph: Path, tmp_path: Path) -> None:
    whole = (ROOT / "examples" / "graph-engine" / "policy.graph").read_text()
    broken = tmp_path / "broken.graph"
    texts = ["", "graph 2\n", whole.replace("dense 4", "dense 99999999"), whole.replace("3", "-3")]
    texts += [whole.replace("1 1 1 -3", "1 1 x -3"), whole.replace("argmax", "")]
    texts += [whole[:n] for n in range(0, len(whole) - 8, 7)]
    for text in texts:
        broken.write_text(text)
        got = output(graph / "ask-linked", f"graph:{broken}")
        assert got.startswith(("-1 invalid model: ", "-1 not found: ", "-1 mismatch: ")), text


@pytest.mark.parametrize("server", ["converse-linked", "converse"])
@pytest.mark.parametrize("compiler", ["converse-linked", "converse"])
def test_a_conversation_in_yaml(yaml: Path, tmp_path: Path, server: str, compiler: str) -> None:
    address = f"unix:{tmp_path}/yaml.sock"
    with subprocess.Popen(
        [yaml / server, "serve", address],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(yaml),
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            got = output(yaml / compiler, "ask", f"{address}?serdes=yaml", plugins=yaml)
            assert got == '2 ok\nlargest of 4 in "main.c\t# not a comment"\n'
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_without_the_plugin(yaml: Path, tmp_path: Path) -> None:
    program = tmp_path / "converse"
    shutil.copy(yaml / "converse", program)
    got = output(program, "ask", f"unix:{tmp_path}/s?serdes=yaml")
    assert got.startswith("-1 not found: ") and "no serializer 'yaml'" in got


def test_plugins_need_nothing_of_the_library(graph: Path, yaml: Path) -> None:
    for plugin in (graph / "libmlbridge-engine-graph.so", yaml / "libmlbridge-serdes-yaml.so"):
        symbols = run("nm", "-D", "--defined-only", plugin)
        names = [line.split()[-1] for line in symbols.splitlines()]
        assert [n for n in names if "mlb" in n] == ["mlb_component_entry"]
