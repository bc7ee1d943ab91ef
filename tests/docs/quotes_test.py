# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the pages quote or list is what the sources say."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from blocks import blocks

import mlbridge

ROOT = Path(__file__).resolve().parents[2]
PASS = ROOT / "compilers/llvm/phase-ordering/ask.cpp"


def three_lines() -> str:
    match = re.search(r"// \[three-lines\]\n(.*?)\n *// \[/three-lines\]", PASS.read_text(), re.S)
    assert match, f"no marked lines in {PASS}"
    return textwrap.dedent(match[1]) + "\n"


def test_the_readme_quotes_the_three_lines() -> None:
    (quoted,) = [b for b in blocks(ROOT / "README.md") if b.options.get("test") == "quoted"]
    assert quoted.text == three_lines()


@pytest.mark.parametrize(
    ("page", "source", "indent"),
    [
        ("docs/llvm-advice.md", "compilers/llvm/plugin/model_runner_test.cpp", 36),
        ("docs/training.md", "examples/train/ppo.py", 4),
    ],
)
def test_the_page_quotes_a_source(page: str, source: str, indent: int) -> None:
    (quoted,) = [b for b in blocks(ROOT / page) if b.options.get("test") == "quoted"]
    assert textwrap.indent(quoted.text, " " * indent) in (ROOT / source).read_text()


def test_they_are_three() -> None:
    statements = [s for s in three_lines().splitlines() if not s.lstrip().startswith("//")]
    assert len(statements) == 3
    assert all(s.endswith(";") and s.count(";") == 1 for s in statements)


def counted(path: str, begin: str, end: str) -> int:
    """The lines between two marks of a file that aren't blank."""
    parts = re.findall(rf"{begin}.*\n((?:.*\n)*?).*{end}", (ROOT / path).read_text())
    return sum(bool(line.strip()) for part in parts for line in part.splitlines())


def test_the_lines_of_each_runner_are_counted() -> None:
    """The README quotes the lines of the plugin's pass; the others are examples/inlining's."""
    inlining = "examples/inlining/"
    in_pass = [counted("README.md", "```cpp test=quoted", "```")]
    in_pass += [counted(f"{inlining}inlining.{c}", r"\[pass\]", r"\[/pass\]") for c in ("cpp", "c")]
    cmake = f"{inlining}CMakeLists.txt"
    in_build = dict.fromkeys(("`grpc:` `unix:` `shm:` `pipe:`", "`onnx:` `native:`"), 0)
    in_build |= {
        "`aot:` as a shared object": 0,
        "`aot:` linked in": counted(cmake, r"\[aot\]", r"\[/aot\]"),
        "`tfaot:`": counted(cmake, r"\[tfaot\]", r"\[/tfaot\]"),
    }
    page = (ROOT / "docs/choosing-a-runner.md").read_text()
    stated = page.partition("| runner | LLVM pass |")[2].partition("\n\n")[0].splitlines()[2:]
    assert stated == [
        f"| {' | '.join(map(str, (name, *in_pass, lines)))} |" for name, lines in in_build.items()
    ]


def table() -> dict[str, tuple[int, str, list[str]]]:
    text = (ROOT / "docs/errors.md").read_text()
    match = re.search(r"<!-- codes.*?-->\n(.*?)<!-- /codes -->", text, re.DOTALL)
    assert match
    rows = {}
    for line in match[1].splitlines()[2:]:
        cells = [c.strip() for c in line.strip("|").split("|")]
        rows[cells[0].strip("`")] = (int(cells[1]), cells[2].strip("`"), cells[3:])
    return rows


def test_every_code_is_explained() -> None:
    header = (ROOT / "include/mlbridge/status.h").read_text()
    enum = re.search(r"enum class Code[^{]*\{(.*?)\};", header, re.DOTALL)
    assert enum
    codes = {name: int(n) for name, n in re.findall(r"^\s*(\w+) = (\d+),", enum[1], re.MULTILINE)}
    assert codes
    assert {name: row[0] for name, row in table().items()} == codes
    for name, (number, _, text) in table().items():
        assert number == 0 or all(text), f"{name} lacks a cause or a remedy"


def test_the_next_steps_are_those_of_both_libraries(tmp_path: Path) -> None:
    stated = {name: step for name, (_, step, _) in table().items()}
    source = tmp_path / "steps.cpp"
    calls = "".join(
        f'  std::printf("{name} %s\\n", name(nextStep(Code::{name})));\n' for name in stated
    )
    source.write_text(
        "#include <mlbridge/status.h>\n#include <cstdio>\n"
        f"using namespace mlbridge;\nint main() {{\n{calls}}}\n"
    )
    program = tmp_path / "steps"
    library = ROOT / "build/cmake/dev/src/libmlbridge.a"
    options: list[str | Path] = ["-std=c++17", f"-I{ROOT}/include", source, library]
    options += ["-o", program]
    subprocess.run(["g++", *options, "-pthread", "-ldl"], check=True, timeout=120)
    printed = subprocess.run([program], capture_output=True, text=True, check=True, timeout=30)
    actual = dict(line.split(" ", 1) for line in printed.stdout.splitlines())

    def words(step: str) -> str:
        return re.sub(r"[^a-z]", "", re.sub(r" (the|a) ", " ", step.lower()))

    assert {n: words(s) for n, s in stated.items()} == {n: words(s) for n, s in actual.items()}
    python = {
        re.sub("_", "", code.name).lower(): words(mlbridge.Status(code).next_step.value)
        for code in mlbridge.Code
    }
    assert {n.lower(): words(s) for n, s in stated.items()} == python


def test_the_tables_of_requirements_agree() -> None:
    """Each Debian and Python package that the tools install is listed with its licence."""
    page = (ROOT / "docs/dependencies.md").read_text()
    for file in sorted((ROOT / "tools/requirements").glob("*.txt")):
        for line in file.read_text().splitlines():
            words = line.split("#")[0].split()
            if words:
                assert f"`{words[0]}`" in page, f"{words[0]} of {file.name} is not explained"


def test_the_reference_has_every_header_and_name() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.rst"))
    headers = sorted(re.findall(r"^\.\. doxygenfile:: (.*)$", pages, re.MULTILINE))
    include = ROOT / "include"
    assert headers == sorted(
        str(h.relative_to(include)) for h in include.rglob("*.h") if h.stem != "mlbridge"
    )
    names = re.findall(
        r"^\.\. auto(?:class|exception|function):: mlbridge\.(\w+)$", pages, re.MULTILINE
    )
    assert sorted(names) == sorted({*mlbridge.__all__} - {"__version__", "corpus", "recording"})
