# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the workloads of programs of the held-out sets read, beside those of work.py.

big.txt.gz and big.txt.bz2; records.json, numbers.json and strings.json, and the same with two
letters before that say how to print it (*.cjson); rows.json, one object with a list; records.xml
with attributes, entities and namespaces; page.html and broken.html; grammar.y, of many expressions,
and statements.y; pairs.dump and shuffled.dump, keys and values as mdb_load reads them; keys.txt,
some of the words; genome.fasta, and reads.fasta of it; strains.fasta,
aligned genes; russian, japanese, chinese and french.CODE.txt, and languages.txt of all as UTF-8;
song.mod, four voices; code.c, without headers.
"""

from __future__ import annotations

import bz2
import gzip
import json
import math
import random
import struct
from pathlib import Path


def write(folder: Path, lines: list[str], seed: int = 0) -> None:
    """All of them, of the lines of big.txt."""
    rng = random.Random(seed + 3)
    big = (folder / "big.txt").read_bytes()
    (folder / "big.txt.gz").write_bytes(gzip.compress(big, 6, mtime=0))
    (folder / "big.txt.bz2").write_bytes(bz2.compress(big[: len(big) // 6]))
    write_records(folder, lines, rng)
    write_pages(folder, lines)
    write_grammar(folder / "grammar.y", 150, 60)
    write_grammar(folder / "statements.y", 350, 4)
    head = "VERSION=3\nformat=print\ntype=btree\nmapsize=16777216\nHEADER=END\n"
    pairs = [f" {n * 977:08x}-{lines[n][:12]}\n {lines[n]} {lines[n + 1]}\n" for n in range(4000)]
    (folder / "pairs.dump").write_text(head + "".join(pairs) + "DATA=END\n")
    rng.shuffle(pairs)
    (folder / "shuffled.dump").write_text(head + "".join(pairs) + "DATA=END\n")
    words = {word for line in lines for word in line.split()}
    (folder / "keys.txt").write_text("\n".join(rng.sample(sorted(words), 250)) + "\n")
    write_sequences(folder, rng)
    write_languages(folder, rng)
    write_module(folder / "song.mod", rng)
    write_code(folder / "code.c")


def write_records(folder: Path, lines: list[str], rng: random.Random) -> None:
    """JSON of records, of numbers and of strings; XML with attributes, entities and namespaces."""
    records = [
        {
            "id": n,
            "name": line[:20],
            "active": n % 3 == 0,
            "parent": None if n % 5 else n // 5,
            "place": {"x": round(rng.gauss(0, 100), 3), "y": round(rng.gauss(0, 100), 3)},
            "tags": line.split()[:5],
        }
        for n, line in enumerate(lines[:6000])
    ]
    numbers = [
        [rng.gauss(0, 10 ** (n % 12 - 4)), rng.randrange(10 ** (n % 15 + 1)), n / 7]
        for n in range(12000)
    ]
    marks = ("\u00e9", "\u20ac", "\U0001f600", '"', "\n", "\t", "\\", "/", "\x01", "\u4e2d\u6587")
    strings = [line.replace(" ", marks[n % len(marks)]) for n, line in enumerate(lines[:9000])]
    for name, value in (("records", records), ("numbers", numbers), ("strings", strings)):
        content = json.dumps(value)
        (folder / f"{name}.json").write_text(content)
        for how in ("bf", "uu"):  # formatted from a buffer, or neither
            (folder / f"{name}.{how}.cjson").write_text(how + content)
    kinds = ("plain", "fancy", "odd")
    rows = [
        {key: one[key] for key in ("id", "name", "active", "place", "tags")}
        | {"kind": kinds[n % 3], "counts": [n, 7, n % 100]}
        for n, one in enumerate(records[:3000])
    ]
    (folder / "rows.json").write_text(json.dumps({"rows": rows}, indent=1))
    items = (
        f'  <r:record id="{one["id"]}" r:active="{one["active"]}" place="{one["place"]}"'
        f' from="&#8364;&org;"><!-- {n} --><t:name t:lang="en">{one["name"]} &amp; &org;</t:name>'
        f"<![CDATA[<{lines[n]}>]]><?note {n}?><t:empty/></r:record>"
        for n, one in enumerate(records)
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE r:list [\n<!ENTITY who "one of us">\n'
    head += '<!ENTITY org "the &who; \u00e9t\u00e9">\n<!ATTLIST r:record kind CDATA "plain">\n]>\n'
    body = "\n".join(items)
    spaces = 'xmlns:r="http://example.com/r" xmlns:t="http://example.com/t"'
    document = f"{head}<r:list {spaces}>\n{body}\n</r:list>\n"
    (folder / "records.xml").write_text(document, encoding="utf-8")


def write_pages(folder: Path, lines: list[str]) -> None:
    """A page of HTML as it should be, and one as a word processor of old wrote it."""
    good, bad = [], []
    for n, line in enumerate(lines[:1200]):
        words = line.split()
        kind = n % 6
        if kind == 0:
            good.append(f'<h2 id="h{n}">{line}</h2>')
            bad.append(f"<H2><FONT color=red size=+1>{line}</FONT><P>")
        elif kind == 1:
            cells = "".join(f"<td>{word}</td>" for word in words)
            good.append(f"<table><tbody><tr>{cells}</tr><tr>{cells}</tr></tbody></table>")
            bad.append(
                "<table border=1><tr>"
                + "".join(f"<td align=center>{word}" for word in words)
                + "</table>"
            )
        elif kind == 2:
            good.append("<ul>" + "".join(f"<li>{word}</li>" for word in words) + "</ul>")
            bad.append(
                "<ul>" + "".join(f"<li><b>{word}</b>" for word in words) + f"<li><b>{n}<i></b></i>"
            )
        else:
            link = f'<a href="page.html?n={n}&amp;k=1">{words[0]}</a>'
            good.append(f'<p class="c{n % 9}">{line} {link} <em>{words[1]}</em> &eacute;</p>')
            link = (
                f"<a href=page.html?n={n}&k=1>{words[0]}</p><center>&eacute &nosuch;</center></a>"
            )
            bad.append(f'<p class=Mso style="margin:{n % 9}pt">{line} {link}')
    head = "<!DOCTYPE html>\n<html lang='en'><head><title>A page</title>"
    head += "<style>p { margin: 1em }</style></head><body>\n"
    (folder / "page.html").write_text(head + "\n".join(good) + "\n</body></html>\n")
    (folder / "broken.html").write_text(
        "<title>A page<body bgcolor=white>\n" + "\n".join(bad[:400]) + "\n"
    )


def write_grammar(path: Path, kinds: int, levels: int) -> None:
    """A grammar of many kinds of statements, and of expressions of many levels, with actions."""
    lines = [
        "%{",
        "#include <stdio.h>",
        "%}",
        "%union { int number; char *name; }",
        "%token <name> NAME",
        "%token <number> NUMBER",
    ]
    lines += [f"%token KEY{n}" for n in range(kinds)] + [f"%token OP{n}" for n in range(levels)]
    lines += [f"%type <number> level{n}" for n in range(levels + 1)]
    lines += ["%%", "unit : unit statement | statement ;", "block : '{' unit '}' | '{' '}' ;"]
    for n in range(kinds):
        start = "statement :" if n == 0 else "  |"
        forms = (
            "level0 ';'",
            "'(' level0 ')' statement",
            "NAME '=' level0 ';'",
            "'(' list ')' block",
            "block",
            "NAME ',' list ';'",
        )
        lines.append(
            f'{start} KEY{n} {forms[n % len(forms)]} {{ printf("statement %d\\n", {n}); }}'
        )
        lines.append(f"  | KEY{n} error ';' {{ yyerrok; }}")
    lines += ["  ;", "list : level0 | list ',' level0 ;"]
    for n in range(levels):
        lines.append(f"level{n} : level{n + 1} {{ $$ = $1; }}")
        lines.append(f"  | level{n} OP{n} level{n + 1} {{ $$ = $1 * {n} + $3; }} ;")
    lines.append(f"level{levels} : NUMBER {{ $$ = $1; }} | NAME {{ $$ = 0; }}")
    lines += ["  | '(' level0 ')' { $$ = $2; } ;", "%%"]
    path.write_text("\n".join(lines) + "\nint main(void) { return yyparse(); }\n")


def write_sequences(folder: Path, rng: random.Random) -> None:
    """A genome and reads of it; strains that come from one another."""

    def mutate(sequence: str, letters: str, rate: float, gaps: float) -> str:
        made = []
        for letter in sequence:
            if rng.random() < gaps:
                made.append(rng.choice(("", letter + rng.choice(letters))))
            else:
                made.append(rng.choice(letters) if rng.random() < rate else letter)
        return "".join(made)

    def fasta(name: str, sequences: list[str], label: str) -> None:
        content = "".join(f">{label}{n:03d}\n{sequence}\n" for n, sequence in enumerate(sequences))
        (folder / name).write_text(content)

    bases = "ACGT"
    genome = "".join(rng.choices(bases, k=200_000))
    fasta("genome.fasta", [genome], "chromosome")
    starts = [rng.randrange(len(genome) - 4000) for _ in range(80)]
    fasta(
        "reads.fasta", [mutate(genome[at : at + 3000], bases, 0.03, 0.03) for at in starts], "read"
    )
    strains = ["".join(rng.choices(bases, k=280))]
    while len(strains) < 24:
        strains.append(mutate(strains[len(strains) // 2], bases, 0.08, 0))
    fasta("strains.fasta", strains, "strain")


def write_languages(folder: Path, rng: random.Random) -> None:
    """Texts in the codes of their countries."""
    words = {
        "russian": "это было в начале года когда снег уже лежал"
        " на улицах города и люди шли домой через мост очень тихо",
        "japanese": "これは 日本語の 文章です。 私は 毎日 新聞を 読みます。"
        " 東京の 天気は とても 良い でした、 そして カメラと テレビを 買いました。",
        "chinese": "我们 在 城市 里 工作 和 学习， 今天 的 天气 很好。"
        " 他们 不 知道 这个 问题 应该 怎么 解决， 可是 大家 都 来 帮助。",
        "french": "le café était déjà fermé à midi et les élèves préférèrent"
        " où l’été naïf brûlait la forêt près du château",
    }
    codes = {
        "russian": ("koi8-r", "cp1251"),
        "japanese": ("shift_jis", "euc_jp"),
        "chinese": ("gb18030", "big5"),
        "french": ("latin-1", "cp1252"),
    }
    texts = []
    for language, sample in words.items():
        lines = (" ".join(rng.choices(sample.split(), k=9)) for _ in range(1200))
        texts.append("\n".join(lines) + "\n")
        for code in codes.get(language, ()):
            (folder / f"{language}.{code}.txt").write_bytes(texts[-1].encode(code, "ignore"))
    (folder / "languages.txt").write_text("".join(texts), encoding="utf-8")


def write_module(path: Path, rng: random.Random, patterns: int = 6) -> None:
    """Music as a tracker of four voices saved it."""
    size = 4000
    shapes = (
        [int(90 * math.sin(n * math.tau / 64)) for n in range(size)],
        [(n * 4) % 181 - 90 for n in range(size)],
        [int(rng.randrange(-90, 91) * (1 - n / size)) for n in range(size)],
    )
    samples = b"".join(
        f"wave {n}".encode().ljust(22, b"\0")
        + struct.pack(">HBBHH", size // 2, n, 50 + n, 0, size // 2)
        for n in range(3)
    )
    samples += (bytes(22) + struct.pack(">HBBHH", 0, 0, 0, 0, 1)) * 28
    notes = (856, 762, 678, 570, 508, 428, 381, 339, 285, 254)
    effects = ((0, 0), (0, 0x37), (4, 0x46), (10, 0x04), (1, 2), (3, 8), (12, 40))
    cells = b""
    for n in range(patterns * 64 * 4):
        effect, value = effects[rng.randrange(len(effects))]
        played = (n // 4) % (2 + n % 4) == 0
        period, sample = (rng.choice(notes), 1 + n % 3) if played else (0, 0)
        cells += struct.pack(">HBB", period, (sample << 4) | effect, value)
    order = bytes(range(patterns)).ljust(128, b"\0")
    head = b"a song".ljust(20, b"\0") + samples + bytes((patterns, 127)) + order + b"M.K."
    waves = b"".join(struct.pack(f"{size}b", *shape) for shape in shapes)
    path.write_bytes(head + cells + waves)


def write_code(path: Path, functions: int = 900) -> None:
    """Functions in C, one calling the other."""
    parts = [
        "#define SQUARE(x) ((x) * (x))",
        "#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))",
        "struct point { int x, y; double weight; struct point *next; };",
        "static struct point points[64];",
        'static const char *const names[] = {"zero", "one", "two", "three"};',
        "static int f0(int n) { return n + 1; }",
    ]
    for n in range(1, functions):
        parts.append(
            f"""/* Function {n} of many. */
static int f{n}(int n)
{{
  struct point *p = &points[n & 63];
  unsigned hash = {n * 2654435761 % 2**32}u;
  double sum = {n}.25;
  for (int i = 0; i < 4; ++i) {{
    hash = (hash ^ (unsigned)names[i & 3][0]) * 16777619u;
    sum += SQUARE(i - 1.5) / (i + 1);
  }}
  switch ((n + {n}) % 5) {{
  case 0: p->x += CLAMP(n, -{n}, {n}); break;
  case 1: p->y -= (int)(hash >> 20); break;
  case 2: p->weight = sum * 0.5; p->next = &points[{n % 64}]; break;
  default: while (p->x > 1000) p->x /= 2;
  }}
  return n > 0 ? f{n - 1}(n - 1) + p->x - p->y + (int)p->weight : (int)(hash & 0xff);
}}"""
        )
    parts.append(f"int work(int n) {{ return f{functions - 1}(n); }}")
    path.write_text("\n".join(parts) + "\n")
