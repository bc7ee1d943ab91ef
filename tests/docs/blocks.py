# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The fenced blocks of a Markdown page, and what their info string says of how they are tested.

```sh                     run by bash, in a folder of the page's own
```sh cwd=root            run in the source tree
```sh test=make           each line is `make TARGET`: the target must exist (it is not run)
```sh test=check          the syntax is checked; the block needs what the page says above it
```sh test=nightly        run by `make nightly`, also console; `make test` checks the syntax
```console                `$ ` lines are run; the output must be the lines between, ... = anything
```python                 run by the Python that has mlbridge
```python test=server     run in the background for the later blocks, ended by Ctrl-C
```cpp file=NAME          written to that file (any language); later blocks use it
```cpp                    compiled as a function body with the public headers
```cpp test=quoted        a copy of a source, compared by the test of that page

The shell's blocks of a page share one terminal: folder and exported variables stay.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

TESTED = ("sh", "console", "python", "c", "cpp", "cmake")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    options: dict[str, str]
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found = []
    fence = ""
    start, language, options, text = 0, "", {}, [""]
    for number, line in enumerate(page.read_text().splitlines(), 1):
        match = re.match(r"^(`{3,})(.*)$", line)
        if match and not fence:
            fence, info = match[1], match[2].split()
            language = info[0] if info else ""
            options = dict(word.split("=", 1) for word in info[1:] if "=" in word)
            start, text = number, []
        elif match and match[1] == fence:
            found.append(Block(page, start, language, options, "\n".join(text) + "\n"))
            fence = ""
        elif fence:
            text.append(line)
    assert not fence, f"{page}:{start}: the block does not end"
    return found


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the output that is shown."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block}: output before the first command"
            found[-1][1].append(line)
    return found


def fits(shown: list[str], printed: str) -> bool:
    """Whether the output is what is shown, where ... stands for anything."""
    pattern = ""
    for line in shown:
        if line == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    if printed and not printed.endswith("\n"):
        printed += "\n"
    return re.fullmatch(pattern, printed) is not None
