# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules for every file of the tree: licence, size, nothing of one machine."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = (".h", ".c", ".cpp", ".py", ".sh")
LONGEST = 700


def files() -> list[Path]:
    """What is committed; in a source archive, what is there."""
    if (ROOT / ".git").exists():
        names = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, check=True, timeout=60
        ).stdout.decode()
        found = [ROOT / name for name in names.split("\0") if name]
    else:
        found = [p for p in ROOT.rglob("*") if not p.is_relative_to(ROOT / "build")]
    return [p for p in found if p.is_file()]


def text(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", errors="replace")


def test_sources_state_their_licence_and_role() -> None:
    bad = []
    for path in files():
        if path.suffix not in CODE or "config" in path.parts or "inputs" in path.parts:
            continue
        head = text(path).splitlines()[:4]
        # A source that includes GCC's headers is under GCC's licence.
        of_gcc = path.suffix == ".cpp" and path.is_relative_to(ROOT / "compilers/gcc")
        licence = "GPL-3.0-or-later" if of_gcc else "Apache-2.0 WITH LLVM-exception"
        if head and not any(f"SPDX-License-Identifier: {licence}" in s for s in head):
            bad.append(str(path.relative_to(ROOT)))
    assert not bad, f"no licence line: {bad}"


def test_no_source_is_too_long() -> None:
    lengths = {
        str(p.relative_to(ROOT)): len(text(p).splitlines()) for p in files() if p.suffix in CODE
    }
    assert not {name: n for name, n in lengths.items() if n > LONGEST}


def test_nothing_names_a_place_of_one_machine() -> None:
    bad = []
    pattern = re.compile(r"/root/|/home/(?!user\b|you\b)\w+/|/tmp/b-|/work/[a-z]+")
    for path in files():
        if path == Path(__file__):
            continue
        for number, line in enumerate(text(path).splitlines(), 1):
            if pattern.search(line):
                bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert not bad, "\n".join(bad)


def test_nobody_is_told_to_install_what_a_stranger_has_published() -> None:
    """On PyPI "mlbridge" isn't ours, nor is another name than those of the distributions here."""
    command = re.compile(
        r"""pip3?\s+(?:install|download|wheel)\b[^\n;|&`()]*?[ \t"'\\]mlbridge
        (?:-compat)?(?=[\s"'\\\[=<>~!,;.`)]|$)(?![./]\w)""",
        re.VERBOSE,
    )
    for wrong in (
        "pip install mlbridge",
        'pip install "mlbridge[corpus]"',
        r"pip install \"mlbridge[gym]\"",
        "pip install --force-reinstall mlbridge.",
        "pip install numpy mlbridge-compat",
    ):
        assert command.search(wrong), wrong
    for right in (
        "pip install '.[train]' in MLBridge's tree",
        "pip install ./mlbridge/x",
        'pip install "ml-compiler-bridge[clang22]"',
    ):
        assert not command.search(right), right
    bad = []
    for path in files():
        if path == Path(__file__):
            continue
        # A command may be continued in the next string, or on the next line of a paragraph.
        joined = re.sub(r'"\n\s*f?"|(?<=install)\s+', " ", text(path))
        for found in command.finditer(joined):
            bad.append(f"{path.relative_to(ROOT)}: {found[0]}")
    assert not bad, "\n".join(bad)


def test_json_files_can_be_read() -> None:
    for path in files():
        if path.suffix == ".json" and not {"bad", "golden", "inputs"} & set(path.parts):
            json.loads(path.read_text())


def test_scripts_can_be_run() -> None:
    for name in (".ci/run", "tools/setup", "tools/bare-machine", "tools/onnxruntime-headers"):
        assert os.access(ROOT / name, os.X_OK), f"{name} is not executable"


def test_ci_runs_the_tests() -> None:
    assert re.search(r"^(exec )?make test$", (ROOT / ".ci/run").read_text(), re.MULTILINE)


def test_the_environment_of_a_user_means_nothing_to_a_program_with_more_rights() -> None:
    """getenv does not know of setuid; secure_getenv does."""
    call = re.compile(r"(?<!secure_)\bgetenv\s*\(")
    assert call.search('std::getenv("HOME")') and not call.search('::secure_getenv("HOME")')
    bad = []
    for path in files():
        place = path.relative_to(ROOT)
        ours = place.parts[0] in ("src", "compilers", "compat", "include")
        if ours and "inputs" not in place.parts and path.suffix in (".h", ".c", ".cpp", ".in"):
            bad += [str(place)] if call.search(text(path)) else []
    assert not bad, bad


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
BARE = re.compile(r"(?:Of|That of|Those of|As of)\b")
NAMES = {"Its", "its", "Of", "Way", "Said", "Right"}
# A comment, text in quotes, or a word.
CXX = re.compile(
    r"/\*.*?\*/|(?://[^\n]*(?:\n\s*(?=//))?)+|\"(?:\\.|[^\"\\\n])*\"|[A-Za-z_]\w*", re.S
)


def comments_and_names(path: Path) -> tuple[list[str], set[str]]:
    """The comments and docstrings of a source, without their marks, and the names in its code."""
    source = text(path)
    if path.suffix != ".py":
        tokens = CXX.findall(source)
        comments = [t for t in tokens if t.startswith("/")]
        return [re.sub(r"^[/*!<\s]+", "", c) for c in comments], set(tokens)
    tree = ast.parse(source)
    nodes = [n for n in ast.walk(tree) if isinstance(n, DOCUMENTED)]
    found = [doc for n in nodes if (doc := ast.get_docstring(n))]
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    lines = {
        t.start[0]
        for t in tokens
        if t.type == tokenize.COMMENT and not t.line[: t.start[1]].strip()
    }
    for token in tokens:
        if token.type == tokenize.COMMENT and token.start[0] - 1 not in lines:
            found.append(token.string.lstrip("#: "))
    return found, {t.string for t in tokens if t.type == tokenize.NAME}


def test_comments_have_a_subject_and_names_are_nouns() -> None:
    bad = []
    for path in files():
        place = path.relative_to(ROOT)
        if path.suffix not in CODE:
            continue
        comments, names = comments_and_names(path)
        bad += [f"{place}: {c.splitlines()[0][:80]}" for c in comments if BARE.match(c)]
        bad += [f"{place}: {name} is no name" for name in sorted(names & NAMES)]
    assert not bad, "\n".join(bad)
