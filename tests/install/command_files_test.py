# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Manual pages and completions, which are made of the command's own help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from building import ROOT, run
from once import SharedBuild

from mlbridge.cli.parser import COMMANDS
from mlbridge.optimizations import OPTIMIZATIONS


@pytest.fixture(scope="session")
def written(shared_build: SharedBuild) -> Path:
    def make(folder: Path) -> None:
        run(sys.executable, ROOT / "tools/command_files.py", folder)

    return shared_build("command-files", make)


def test_every_command_has_a_page_with_its_summary_options_and_example(written: Path) -> None:
    pages = {page.stem: page.read_text() for page in (written / "man1").iterdir()}
    assert {f"mlbridge-{name}" for name in COMMANDS} <= set(pages)
    for name, summary in COMMANDS.items():
        page = pages[f"mlbridge-{name}"].replace("\\-", "-")
        assert f"mlbridge-{name} - {summary}\n" in page
        assert ".B mlbridge\n" in page and '.SS "example:"' in page
    assert "what to add to a compiler's command line" in pages["mlbridge"]
    assert "\\-\\-compile\\-commands" in pages["mlbridge-corpus-add"]


def completed(written: Path, line: str) -> set[str]:
    """What bash offers for the last word of a command line."""
    script = f"""
source {written / "mlbridge"}
COMP_WORDS=({line.replace("|", "''")}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_mlbridge
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_bash_completes_commands_options_optimizations_and_files(
    written: Path, tmp_path: Path
) -> None:
    (tmp_path / "policy.onnx").touch()
    assert completed(written, "mlbridge |") >= set(COMMANDS)
    assert completed(written, "mlbridge fl") == {"flags"}
    assert completed(written, "mlbridge flags --eff") == {"--effort"}
    assert completed(written, "mlbridge flags --on-failure |") >= {"stock", "fail"}
    assert completed(written, "mlbridge flags |") >= set(OPTIMIZATIONS)
    assert completed(written, f"mlbridge inspect {tmp_path}/po") == {f"{tmp_path}/policy.onnx"}


def test_zsh_is_told_the_summaries(written: Path) -> None:
    text = (written / "_mlbridge").read_text()
    assert text.startswith("#compdef mlbridge\n")
    for summary in COMMANDS.values():
        assert summary.replace("'", "'\"'\"'") in text
