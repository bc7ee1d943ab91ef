# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples, exit codes and errors on one line: the common part of all commands."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mlbridge.cli import main
from mlbridge.cli.common import EXIT_CODES
from mlbridge.cli.parser import COMMANDS as NAMES
from mlbridge.cli.parser import GROUPS, parser

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "onnx"


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (a for a in parser(NAMES)._actions if isinstance(a, argparse._SubParsersAction))
    return dict(found.choices)


COMMANDS = sorted(commands())


def complaint(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> str:
    """The line on stderr of a call that goes wrong."""
    assert main(words) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith(f"mlbridge {words[0]}: "), err
    return err


def test_the_commands_are_these() -> None:
    names = "aot candidates convert corpus doctor flags inspect log path replay report run serve"
    assert [
        *names.split(),
        "specialize",
        "stats",
        "train",
        "tune",
        "validate",
        "vocabulary",
        "wrapper",
    ] == COMMANDS


def test_help_says_where_to_start_and_has_the_commands_in_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    usage, start, *rest = capsys.readouterr().out.split("\n\n")
    assert usage.startswith("usage: mlbridge [-h] [--version] COMMAND ...")
    assert start.startswith("To start: mlbridge doctor")
    for group, commands in GROUPS.items():
        (section,) = (lines.splitlines()[1:] for lines in rest if lines.startswith(f"{group}:\n"))
        assert [line.split()[0] for line in section] == list(commands)
    assert list(GROUPS) == ["compile", "models", "training", "diagnosis"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_the_exit_codes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert EXIT_CODES in text
    examples = re.findall(r"^  .*?mlbridge (.*)$", text.partition("\nexample:\n")[2], re.MULTILINE)
    assert examples
    assert any(example.startswith(name) for example in examples)
    for example in examples:
        words = shlex.split(example.split("#")[0].split(")")[0])
        parser(words[:1]).parse_args(words)  # what it shows is understood


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_line_is_2_on_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert f"see mlbridge {name} --help" in complaint(capsys, 2, name, "--no-such-option", "x", "y")


def test_without_a_command_and_with_an_unknown_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "exit codes:" in capsys.readouterr().out
    assert "'flegs'" in complaint(capsys, 2, "flegs")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("flags phase-ordering --model onnx:/no/such/file", "is not there; expected an ONNX file"),
        ("flags phase-ordering --vocabulary /no/such/file", "--vocabulary: there is no file /no/"),
        ("wrapper phase-ordering -o cc --compiler no-such-compiler", "state another"),
        ("serve /no/such/file.onnx --at unix:/tmp/s", "/no/such/file.onnx"),
        ("serve unix:/nobody?record=/no/such/folder/r --at unix:/tmp/s", "unix:/nobody"),
        ("replay /no/such/recording --at unix:/tmp/s", "cannot be read"),
        ("inspect /no/such/file", "No such file"),
        ("aot /no/such/file.onnx -o x.o", "/no/such/file.onnx"),
        ("stats unix:/nobody", "unix:/nobody"),
        ("log /no/such/file", "cannot be read"),
        ("serve unix:/no/s --at llvm-interactive:/no/folder/c", "no FIFO can be made"),
    ],
)
def test_what_cannot_be_done_is_1_on_one_line(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in complaint(capsys, 1, *words.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("path nothing", "there is no optimization"),
        ("path regalloc-priority --llvm 19", "has no plugin for LLVM 19"),
        ("wrapper nothing -o cc", "there is no optimization"),
        ("validate nothing --run true", "there is no optimization"),
        ("flags phase-ordering --model nothing", "is not a URI"),
        ("stats nobody", "expected unix:SOCKET, grpc:HOST:PORT, …, got 'nobody'"),
        ("serve p.py:f --signature x --at unix:/s", "--signature: 'x' is not a signature"),
        ("serve p.py:f --signature x --at llvm-interactive:/s", "--signature: 'x' is not a"),
        ("serve m.onnx --at onnx:x", "'onnx:x' is the URI of a model; expected one of"),
        ("serve m.onnx --at nowhere", "'nowhere' is not an address to listen at; expected"),
        (
            "serve m.onnx --at unix:/s --batch 0",
            "--batch: expected a number of at least 1, got '0'",
        ),
        ("serve m.onnx --at unix:/s --batch 2 --max-wait 1", "--max-wait: expected a time such as"),
        ("serve m.onnx --at unix:/s --max-wait 1ms", "add --batch N"),
        ("serve m.onnx --at unix:/s --limit max_events", "--limit: expected NAME=NUMBER"),
        ("serve m.onnx --at unix:/s --agent a", "--agent: expected NAME=MODEL"),
        ("serve m.onnx --at llvm-interactive:/s --batch 2", "--batch is not for llvm-interactive:"),
        ("run --advise inliner -- clang-22", "--advise: expected OPTIMIZATION=POLICY"),
        ("run --advise inliner=p.py:f -- make", "is not clang, opt or llc"),
        ("serve unix:/m?record=r --at function:x", "'function:x' is the URI of a model"),
        ("aot m.onnx -o m.o --dim batch", "--dim: expected NAME=N, got 'batch'"),
        ("aot m.onnx -o m.o --shape x=a", "--shape: expected INPUT=N,N,…, got 'x=a'"),
        ("aot m.onnx -o m.o --isa sse9", "there is no instruction set 'sse9'; there are"),
        ("aot m.onnx -o m.o --memory much", "--memory: expected a number of at least 1"),
        ("aot m.onnx -o m.o --shared", "--shared makes a shared object"),
    ],
)
def test_wrong_values_are_2_and_named(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in complaint(capsys, 2, *words.split())


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["serve", f"{GOLDEN}/linear.onnx", "--at"], "numpy"),
        (["inspect", f"{GOLDEN}/linear.onnx"], "mlbridge.inspection"),
        (["serve", "native:", "--at"], "mlbridge.forwarding"),
        (["doctor"], "mlbridge.cli.doctor"),
    ],
    ids=["serve", "inspect", "forward", "doctor"],
)
def test_an_interrupt_while_modules_are_imported_is_130_and_quiet(
    tmp_path: Path, words: list[str], module: str
) -> None:
    """Ctrl-C comes when the module is looked for."""
    program = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background
sys.meta_path.insert(0, Interrupt())
from mlbridge.cli import main
sys.exit(main(sys.argv[1:]))
"""
    place = [f"unix:{tmp_path}/s"] if words[-1] == "--at" else []
    done = subprocess.run(
        [sys.executable, "-c", program, *words, *place],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(("machine", "isa"), [("x86_64", "neon"), ("aarch64", "avx2")])
def test_an_instruction_set_of_another_machine(
    machine: str, isa: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = tmp_path / "cxx"
    compiler.write_text(f"#!/bin/sh\necho {machine}-linux-gnu\n")
    compiler.chmod(0o755)
    words = ["aot", f"{GOLDEN}/linear.onnx", "-o", f"{tmp_path}/m.o", "--cxx", str(compiler)]
    text = complaint(capsys, 1, *words, "--isa", isa)
    assert f"the C++ compiler is for {machine}, which has portable" in text
    assert f"not {isa}; state another compiler with --cxx" in text


def test_a_network_that_takes_more_memory_than_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["aot", f"{GOLDEN}/linear.onnx", "-o", f"{tmp_path}/m.weights", "--memory"]
    assert "too large" in complaint(capsys, 1, *words, "3")
    assert main([*words, "1000000"]) == 0


def test_a_build_file_may_have_the_former_name_of_aot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "m.weights"
    assert main(["compile", f"{GOLDEN}/linear.onnx", "-o", str(output)]) == 0
    assert output.is_file() and capsys.readouterr() == ("", "")
