# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the blocks of pages, each page in an empty folder and one terminal.

    page.py [--prefix PREFIX] PAGE ...

Follows paths by this Python and the programs beside it, with nothing but what is installed, and
says how long each took. Needs no other file than blocks.py and the pages.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from blocks import TESTED, Block, blocks, commands, fits

ROOT = Path(__file__).resolve().parents[2]

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


def follow(path: Path, folder: Path, prefix: Path) -> None:
    """Runs every block of a page; an AssertionError says which one went wrong."""
    page = Page(folder, prefix)
    try:
        for block in blocks(path):
            if block.language in TESTED or "file" in block.options:
                page.run(block, whole=True)
        page.close()
    finally:
        page.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prefix", type=Path, default=Path("/usr"), help="of the library")
    parser.add_argument("page", type=Path, nargs="+")
    options = parser.parse_args()
    failed = 0
    for path in options.page:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="page-") as folder:
            try:
                follow(path, Path(folder), options.prefix)
                end = "ok"
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed += 1
                end = f"FAILED: {error}"
        print(f"followed {path.name} in {time.monotonic() - start:.0f} s: {end}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
