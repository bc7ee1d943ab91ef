# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shows Doxygen a public header as people read it: `comments.py HEADER` writes to standard output.

- The comment at the top, after the licence, describes the file.
- Comments of C headers, which have no special form, belong to what follows them, or, at the end of
  a line, to what stands before them.
- A comment before several functions without a blank line between them is about each of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

# A comment, or something in which /* or // is none.
TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
# Members that every class has in the same sense.
SPECIAL = (
    (re.compile(r"\s*(virtual )?~\w+\("), "Destroys the object."),
    (
        re.compile(r"\s*(\w+)\(\1 &&\)|\s*(\w+) &operator=\(\2 &&\)"),
        "Moves; the moved-from object can only be assigned to or destroyed.",
    ),
    (re.compile(r"\s*friend bool operator[!=]=\("), "Compares all parts."),
    (re.compile(r"\s*explicit operator bool\("), "True if it is a success, or has a value."),
)
TRAILING = re.compile(r"/\*\*<|///<")


def marked(text: str) -> str:
    """The text with every documenting comment in Doxygen's form."""
    is_first = True

    def replace(match: re.Match[str]) -> str:
        nonlocal is_first
        comment = match[0]
        if not comment.startswith("/*") or comment.startswith(("/**", "/* ----")):
            return comment
        if is_first:
            is_first = False
            return re.sub(r"SPDX-License-Identifier:[^\n]*", "@file", "/**" + comment[2:], count=1)
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if before.startswith(("}", "#")):
            return comment
        return ("/**<" if before else "/**") + comment[2:]

    if text.startswith("//"):
        head = re.match(r"//[^\n]*\n((?://[^\n]*\n)*)", text)
        assert head
        role = re.sub(r"^//", "///", head[1], flags=re.MULTILINE)
        return f"/// @file\n{role}\n" + text[head.end() :]
    return TOKEN.sub(replace, text)


def is_documentation(comment: str) -> bool:
    return comment.startswith(("/**", "///")) and not comment.startswith(("/**<", "///<"))


def repeated(text: str) -> str:
    """The text with a comment before each of the functions that it is about.

    In formatted headers these have the comment's indentation; bodies and continued lines have more.
    """
    out: list[str] = []
    documentation: list[str] = []  # the last comment of this paragraph
    own: list[str] = []  # the comment right before what comes next
    previous = ";"
    blank = TOKEN.sub(blanked, text)
    for line, code in zip(text.splitlines(), map(str.strip, blank.splitlines()), strict=True):
        if not line.strip():
            documentation, own = [], []
        elif not code:
            if own or is_documentation(line.strip()):
                own.append(line)
        elif not code.startswith(("#", "}")) and previous.endswith((";", "}", "{", ":")):
            if own:
                documentation = own if looks_like_function(code) else []
            elif meaning := meaning_of(code):
                out.append(f"/// {meaning}")
            elif is_beside(line, documentation) and looks_like_function(code):
                out += documentation
            own = []
        out.append(line)
        if code and not code.startswith("#"):
            previous = code
    return "\n".join(out) + "\n"


def is_beside(line: str, documentation: list[str]) -> bool:
    """True if a comment may be about this line, which has none of its own."""
    if not documentation or TRAILING.search(line):
        return False
    indentations = [len(text) - len(text.lstrip()) for text in (line, documentation[0])]
    return indentations[0] == indentations[1]


def meaning_of(code: str) -> str | None:
    return next((text for pattern, text in SPECIAL if pattern.match(code)), None)


def blanked(match: re.Match[str]) -> str:
    """Removes comments and the contents of strings, and keeps the number of lines."""
    return '""' if match[0][0] in "\"'" else "\n" * match[0].count("\n")


def looks_like_function(code: str) -> bool:
    """Judges by the first line, which may end after the type."""
    if re.match(r"\s*(template <> )?(struct|class|enum|using)\b", code):
        return False
    return "(" in code or not code.rstrip().endswith((";", ",", "{"))


def main() -> int:
    sys.stdout.write(repeated(marked(Path(sys.argv[1]).read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
