# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs or compiles every example of the README, the contributor's guide and docs/; those that take
long, for `make nightly`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blocks import TESTED, Block, blocks, commands, fits
from sampling import NIGHTLY

ROOT = Path(__file__).resolve().parents[2]
# From an empty folder to a result: every block is run, in one terminal.
PATHS = [ROOT / "docs/first-plugin.md", *sorted((ROOT / "docs/paths").glob("*.md"))]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
PAGES += PATHS[1:]
PAGES += [
    ROOT / f"{at}/README.md"
    for at in ("compat", "examples/sqlite", "examples/tiling", "compilers/gcc/settings")
]

BODY = """
#include <mlbridge/environment.h>
#include <mlbridge/function.h>
#include <mlbridge/model.h>
#include <mlbridge/server.h>
#include <string>
#include <vector>
using namespace std::chrono_literals;
{file_scope}
int main() {{
  std::string uri = "function:none";
  mlbridge::Signature signature;
  std::vector<float> embedding(3);
  auto heuristic = [] {{ return int64_t{{0}}; }};
  (void)uri, (void)signature, (void)embedding, (void)heuristic;
{body}
}}
"""


# Around a block, whose folder and variables are those that the blocks before it left.
TERMINAL = """
[ ! -f "$TERMINAL" ] || . "$TERMINAL"
trap '{ export -p; printf "cd %q\\n" "$PWD"; } >"$TERMINAL"' EXIT
"""


class Page:
    """A folder in which the blocks of one page are run in order, and its servers."""

    def __init__(self, folder: Path, prefix: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        self.prefix = prefix
        self.servers: list[tuple[Block, subprocess.Popen[str]]] = []
        self.env = dict(os.environ, PREFIX=str(prefix), PYTHONUNBUFFERED="1")
        self.env["TERMINAL"] = str(folder / "terminal")
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self.env['PATH']}"

    def call(self, block: Block, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=ROOT if block.options.get("cwd") == "root" else self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=600,
            check=False,
        )

    def shell(self, block: Block, text: str, *options: str) -> subprocess.CompletedProcess[str]:
        around = "" if block.options.get("cwd") == "root" else TERMINAL
        return self.call(block, "bash", *options, "-c", around + text)

    def must(self, block: Block, *command: str) -> None:
        done = self.call(block, *command)
        assert done.returncode == 0, f"{block} gave {done.returncode}:\n{done.stdout}"

    def check(self, block: Block) -> None:
        """What can be said of commands that aren't run."""
        lines = [c for c, _ in commands(block)] if block.language == "console" else [block.text]
        self.must(block, "bash", "-n", "-c", "\n".join(lines))
        presets = json.loads((ROOT / "CMakePresets.json").read_text())
        known = {one["name"] for one in presets["configurePresets"] if not one.get("hidden")}
        assert set(re.findall(r"--preset[ =](\S+)", block.text)) <= known, block

    def run(self, block: Block, whole: bool) -> None:
        kind = block.options.get("test", "")
        if "file" in block.options:
            (self.folder / block.options["file"]).write_text(block.text)
        if kind == "quoted":
            return
        if block.language == "sh" and kind == "make":
            for line in block.text.splitlines():
                words = line.split("#")[0].split()
                assert words[:1] == ["make"], f"{block}: not a make command: {line}"
                self.must(block, "make", "-n", "-C", str(ROOT), *words[1:])
        elif kind == "check" or (kind == "nightly" and not whole):
            self.check(block)
        elif block.language == "sh":
            done = self.shell(block, block.text, "-euo", "pipefail")
            assert done.returncode == 0, f"{block} gave {done.returncode}:\n{done.stdout}"
        elif block.language == "console":
            for command, shown in commands(block):
                done = self.shell(block, command)
                assert fits(shown, done.stdout), f"{block}: {command} printed\n{done.stdout}"
        elif block.language == "python" and kind == "server":
            file = self.folder / block.options.get("file", "server.py")
            file.write_text(block.text)
            self.servers.append((block, self.start(file)))
        elif block.language == "python" and "file" not in block.options:
            self.must(block, sys.executable, "-c", block.text)
        elif block.language == "cpp" and "file" not in block.options:
            self.compile(block)
        else:
            assert "file" in block.options, f"{block}: nothing says how to test it"

    def start(self, file: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, file],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def compile(self, block: Block) -> None:
        source = self.folder / f"line{block.line}.cpp"
        if "int main(" in block.text or block.options.get("test") == "unit":
            source.write_text(block.text)
        elif re.search(r"^(class|struct|template|namespace|#include)\b", block.text, re.MULTILINE):
            source.write_text(BODY.format(file_scope=block.text, body=""))
        else:
            source.write_text(BODY.format(file_scope="", body=block.text))
        options = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-fsyntax-only"]
        includes = [f"-I{self.prefix}/include"]
        self.must(block, "g++", *options, *includes, str(source))

    def close(self) -> None:
        for block, server in self.servers:
            assert server.poll() is None, f"{block}: ended early:\n{server.communicate()[0]}"
            server.send_signal(signal.SIGINT)
            output, _ = server.communicate(timeout=60)
            assert server.returncode in (0, 130), f"{block}: {server.returncode}\n{output}"

    def kill(self) -> None:
        for _, server in self.servers:
            if server.poll() is None:
                server.kill()
                server.wait()


@pytest.fixture
def page_run(tmp_path: Path, prefix: Path) -> Iterator[Page]:
    page = Page(tmp_path, prefix)
    yield page
    page.kill()


def whole(path: Path) -> Any:
    """A page with what takes long. pytest's limit is the quarter of an hour of a path."""
    trains = [pytest.mark.training] if path.stem == "training" and path in PATHS else []
    return pytest.param(path, True, id=f"{path.name}, whole", marks=[NIGHTLY, *trains])


LONG = [p for p in PAGES if any(b.options.get("test") == "nightly" for b in blocks(p))]


@pytest.mark.parametrize(
    ("path", "whole"),
    [
        *(pytest.param(p, False, id=p.name) for p in PAGES),
        *map(whole, LONG),
    ],
)
def test_the_examples_of(path: Path, whole: bool, page_run: Page) -> None:
    for block in blocks(path):
        if block.language in TESTED or "file" in block.options:
            page_run.run(block, whole)
    page_run.close()


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.name)
def test_nothing_of_a_path_is_only_shown(path: Path) -> None:
    for block in blocks(path):
        assert block.language in TESTED or "file" in block.options, block
        assert block.options.get("test", "nightly") in ("nightly", "server"), block


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_the_prefix_is_set_or_explained(path: Path) -> None:
    text = path.read_text()
    assert "$PREFIX" not in text or "export PREFIX=" in text or "README.md#install" in text


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_the_links_of(path: Path) -> None:
    def prose(page: Path) -> str:
        return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)

    for file, anchor in re.findall(r"\]\((?!\w+:)([^)#]*)#?([^)]*)\)", prose(path)):
        target = path.parent / file if file else path
        assert target.exists(), f"{path.name}: no file {file}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(prose(target)), f"{path.name}: no heading {file}#{anchor}"
