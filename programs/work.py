# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the programs' workloads read: the same ones on every machine.

big.* are some megabytes. The others keep a program busy for some hundredths of a second: medium.txt,
medium.md, medium.xml, medium.json and words.txt; table.csv; photo.ppm, photo.pgm and photo.bmp, an
image of 384 x 256 points; sound.wav, two seconds, two channels of 16 bits; random.bin; formula.cnf,
3-SAT that can be satisfied; genes.fasta.

Those of write_held_out are for programs of the held-out sets: big.txt.gz and big.txt.bz2; records.json,
numbers.json and strings.json, and the same with two letters before (*.cjson), that say how to print it;
records.xml with attributes, entities and namespaces; page.html and broken.html; grammar.y, of many expressions, and statements.y; pairs.dump and
shuffled.dump, keys and values as mdb_load reads them; genome.fasta, and reads.fasta of it; proteins.fasta, related ones,
family.fasta and family.phy, aligned ones; russian, japanese, chinese and french.CODE.txt, and languages.txt of all
as UTF-8; song.mod, four voices; code.c, without headers; keys.txt, some of the words; rows.json, one object
with a list; strains.fasta, aligned genes.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import math
import random
import struct
import wave
from html import escape
from pathlib import Path

LINES = 60_000


def text() -> list[str]:
    """Lines of words of which some are frequent, as in a language."""
    rng = random.Random(1)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(4000)]
    weights = [1 / (1 + rank) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=rng.randint(4, 14))) for _ in range(LINES)]


def write(folder: Path) -> None:
    """All of them, unless this very file has written them there."""
    stamp = folder / "complete"
    made_by = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == made_by:
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines = text()
    write_texts(folder, "big", lines)
    write_texts(folder, "medium", lines[: LINES // 20])
    rng = random.Random(2)
    words = sorted({word for line in lines for word in line.split()})
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    rows = ("{:d},{:.4f},{},{:d}".format(n, rng.gauss(0, 9), rng.choice(words), rng.randrange(10**6)) for n in range(8000))
    (folder / "table.csv").write_text("number,value,word,count\n" + "\n".join(rows) + "\n")
    (folder / "random.bin").write_bytes(rng.randbytes(200_000))
    write_photo(folder, rng)
    write_sound(folder / "sound.wav", rng)
    write_formula(folder / "formula.cnf", rng)
    genes = ("".join(rng.choices("ACGT", k=900)) for _ in range(40))
    (folder / "genes.fasta").write_text("".join(f">gene{n}\n{gene}\n" for n, gene in enumerate(genes)))
    write_more_formulas(folder)
    write_inputs_of_cpp(folder)
    write_held_out(folder, lines)
    stamp.write_text(made_by)


def write_texts(folder: Path, name: str, lines: list[str]) -> None:
    """NAME.txt, NAME.md, NAME.xml and NAME.json."""
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    marks = ("# ", "- ", "> ", "1. ", "    ", "", "", "*", "`")
    paragraphs = (f"{marks[n % len(marks)]}{line} [a](b)" for n, line in enumerate(lines))
    (folder / f"{name}.md").write_text("\n\n".join(paragraphs) + "\n")
    elements = (f'<line number="{n}">{escape(line)}</line>' for n, line in enumerate(lines))
    (folder / f"{name}.xml").write_text("<lines>\n" + "\n".join(elements) + "\n</lines>\n")
    numbered = json.dumps({str(n): line for n, line in enumerate(lines)})
    (folder / f"{name}.json").write_text(numbered)


def write_photo(folder: Path, rng: random.Random, width: int = 384, height: int = 256) -> None:
    """Smooth areas, edges and noise."""

    def point(x: int, y: int) -> tuple[int, int, int]:
        noise = rng.randrange(9)
        red = 128 + 100 * math.sin(x / 31) * math.cos(y / 17)
        green = 255 * ((x // 48 + y // 32) % 2)
        blue = 255 * (x + y) / (width + height)
        return (int(red) + noise, int(green * 0.9) + noise, int(blue * 0.9) + noise)

    rows = [[point(x, y) for x in range(width)] for y in range(height)]
    colours = bytes(value for row in rows for one in row for value in one)
    (folder / "photo.ppm").write_bytes(b"P6\n%d %d\n255\n" % (width, height) + colours)
    greys = bytes(sum(one) // 3 for row in rows for one in row)
    (folder / "photo.pgm").write_bytes(b"P5\n%d %d\n255\n" % (width, height) + greys)
    reversed_rows = bytes(value for row in rows[::-1] for one in row for value in one[::-1])
    sizes = (54 + len(reversed_rows), 0, 54, 40, width, height, 1, 24, 0, len(reversed_rows))
    header = b"BM" + struct.pack("<IIIIiiHHII", *sizes) + bytes(16)
    (folder / "photo.bmp").write_bytes(header + reversed_rows)


def write_sound(path: Path, rng: random.Random, rate: int = 44100, seconds: int = 2) -> None:
    """Some tones that rise and fall, and noise."""
    samples = []
    for n in range(rate * seconds):
        tone = 8000 * math.sin(n * 0.05 + math.sin(n / 9000)) + 3000 * math.sin(n * 0.21)
        fade = math.sin(math.pi * n / (rate * seconds))
        samples += [int(tone * fade) + rng.randrange(400), int(tone * 0.5) + rng.randrange(400)]
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(struct.pack(f"<{len(samples)}h", *samples))


def write_formula(path: Path, rng: random.Random, variables: int = 220, clauses: int = 900) -> None:
    """3-SAT near the ratio at which it gets hard, made around a solution."""
    solution = [rng.random() < 0.5 for _ in range(variables)]
    lines = [f"p cnf {variables} {clauses}"]
    while len(lines) <= clauses:
        chosen = rng.sample(range(variables), 3)
        signs = [rng.random() < 0.5 for _ in chosen]
        if any(solution[one] == sign for one, sign in zip(chosen, signs, strict=True)):
            literals = (one + 1 if sign else -one - 1 for one, sign in zip(chosen, signs, strict=True))
            lines.append(" ".join(map(str, literals)) + " 0")
    path.write_text("\n".join(lines) + "\n")


def write_more_formulas(folder: Path) -> None:
    """hard.cnf is 3-SAT with a solution; pigeons.cnf and few-pigeons.cnf have none."""
    write_formula(folder / "hard.cnf", random.Random(7), 320, 1340)
    write_pigeons(folder / "pigeons.cnf", 8)
    write_pigeons(folder / "few-pigeons.cnf", 7)


def write_pigeons(path: Path, count: int) -> None:
    """Each of `count` pigeons sits in one of the holes, of which there is one less."""
    holes = range(count - 1)
    clauses = [[pigeon * len(holes) + hole + 1 for hole in holes] for pigeon in range(count)]
    for hole in holes:
        sits = [pigeon * len(holes) + hole + 1 for pigeon in range(count)]
        clauses += [[-a, -b] for a in sits for b in sits if a < b]
    lines = [f"p cnf {count * len(holes)} {len(clauses)}"]
    lines += [" ".join(map(str, [*clause, 0])) for clause in clauses]
    path.write_text("\n".join(lines) + "\n")


def write_inputs_of_cpp(folder: Path) -> None:
    """For the programs in C++.

    services.yaml, settings with nested parts; words.dic, a dictionary with affixes; classes.txt,
    sparse vectors of six classes; *.lp, linear programs; *.cnf, formulas; build.ninja.
    """
    rng = random.Random(3)
    write_services(folder / "services.yaml", rng)
    words = (folder / "words.txt").read_text().split()[::2]
    entries = [f"{word}/{''.join(sorted(rng.sample('URSDGLC', 3)))}" for word in words]
    (folder / "words.dic").write_text("\n".join([str(len(entries)), *entries]) + "\n")
    vectors = []
    for n in range(800):
        chosen = sorted(rng.sample(range(1, 400), 20))
        features = (f"{one}:{rng.gauss(one % 6 == n % 6, 0.6):.3f}" for one in chosen)
        vectors.append(f"{n % 6} {' '.join(features)}")
    (folder / "classes.txt").write_text("\n".join(vectors) + "\n")
    write_linear_programs(folder, rng)
    write_formulas(folder, rng)
    write_build(folder / "build.ninja")


def write_linear_programs(folder: Path, rng: random.Random) -> None:
    """transport.lp from 25 places to 30, knapsack.lp with integers, assign.lp of 20 jobs."""
    cells = [(i, j) for i in range(25) for j in range(30)]
    lines = ["min: " + " + ".join(f"{rng.randint(5, 60)} x{i}_{j}" for i, j in cells) + ";"]
    for i in range(25):
        lines.append(" + ".join(f"x{i}_{j}" for j in range(30)) + f" <= {rng.randint(60, 90)};")
    for j in range(30):
        lines.append(" + ".join(f"x{i}_{j}" for i in range(25)) + f" >= {rng.randint(20, 40)};")
    (folder / "transport.lp").write_text("\n".join(lines) + "\n")
    hard = random.Random(1)  # of few that take neither no time nor hours
    weights = [(hard.randint(20, 90), hard.randint(20, 90)) for _ in range(33)]
    values = " + ".join(f"{weight + 10} k{n}" for n, (weight, _) in enumerate(weights))
    lines = ["/* values */", f"max: {values};"]
    for part, limit in ((0, 640), (1, 599)):
        sizes = " + ".join(f"{weight[part]} k{n}" for n, weight in enumerate(weights))
        lines.append(f"c{part}: {sizes} <= {limit};")
    lines += [f"k{n} <= {1 + n % 2};" for n in range(len(weights))]
    lines.append("int " + ",".join(f"k{n}" for n in range(len(weights))) + ";")
    (folder / "knapsack.lp").write_text("\n".join(lines) + "\n")
    size = range(20)
    costs = " + ".join(f"{rng.randint(1, 99)} a{i}b{j}" for i in size for j in size)
    lines = [f"min: {costs};"]
    lines += [f"row{i}: " + " + ".join(f"a{i}b{j}" for j in size) + " = 1;" for i in size]
    lines += [f"column{j}: " + " + ".join(f"a{i}b{j}" for i in size) + " = 1;" for j in size]
    lines.append("int " + ",".join(f"a{i}b{j}" for i in size for j in size) + ";")
    (folder / "assign.lp").write_text("\n".join(lines) + "\n")


def write_services(path: Path, rng: random.Random) -> None:
    """Settings with nested parts."""
    lines = ["# services", "version: 3", "defaults: &defaults", "  retries: 3", "  timeout: 2.5"]
    lines.append("services:")
    for n in range(250):
        lines += [
            f"  - name: service-{n}",
            f"    port: {8000 + n}",
            f"    limit: {rng.random() * 100:.3f}",
            f"    enabled: {rng.choice(('true', 'no', 'on'))}",
            f'    title: "The \\"{rng.randrange(10**6)}th\\" service"',
            "    settings: *defaults",
            f"    tags: [a{n % 7}, 'b c', {{x: {n}, y: ~}}]",
            "    description: |",
            "      Some lines",
            f"      of text {n}",
            "    summary: >-",
            "      folded",
            "      text",
        ]
    path.write_text("\n".join(lines) + "\n")


def write_formulas(folder: Path, rng: random.Random) -> None:
    """contradiction.cnf, random; factor.cnf, which factors a number."""
    chosen = [rng.sample(range(1, 121), 3) for _ in range(640)]
    clauses = [[one if rng.random() < 0.5 else -one for one in three] for three in chosen]
    write_cnf(folder / "contradiction.cnf", clauses)
    write_cnf(folder / "factor.cnf", factoring(3989 * 2903, 12))


def factoring(product: int, bits: int) -> list[list[int]]:
    """A multiplier of two numbers of `bits` bits whose result is `product`."""
    clauses: list[list[int]] = []
    used = 2 * bits

    def new() -> int:
        nonlocal used
        used += 1
        return used

    def both(a: int, b: int) -> int:
        out = new()
        clauses.extend([[-a, -b, out], [a, -out], [b, -out]])
        return out

    def odd(a: int, b: int) -> int:
        out = new()
        clauses.extend([[-a, -b, -out], [a, b, -out], [a, -b, out], [-a, b, out]])
        return out

    columns: list[list[int]] = [[] for _ in range(2 * bits + 1)]
    for i in range(bits):
        for j in range(bits):
            columns[i + j].append(both(1 + i, 1 + bits + j))
    for place in range(2 * bits):
        column = columns[place]
        while len(column) > 1:
            a, b = column.pop(0), column.pop(0)
            half = odd(a, b)
            column.append(half)
            columns[place + 1].append(both(a, b))
        if column:
            clauses.append([column[0] if product >> place & 1 else -column[0]])
    clauses.extend([[bits], [2 * bits]])
    return clauses


def write_cnf(path: Path, clauses: list[list[int]]) -> None:
    """In the format of DIMACS."""
    variables = max(abs(one) for clause in clauses for one in clause)
    lines = [f"p cnf {variables} {len(clauses)}"]
    lines += [" ".join(map(str, clause)) + " 0" for clause in clauses]
    path.write_text("\n".join(lines) + "\n")


def write_build(path: Path) -> None:
    """build.ninja of a program with 60 libraries of 25 files."""
    lines = ["cflags = -O2 -Wall", "rule cxx"]
    lines += ["  command = c++ $cflags -MD -MF $out.d -c $in -o $out", "  depfile = $out.d"]
    lines += ["  description = compile $in", "rule ar", "  command = ar rcs $out $in"]
    lines += ["rule link", "  command = c++ -o $out $in $libs", "  pool = links"]
    lines += ["pool links", "  depth = 2"]
    libraries = []
    for library in range(60):
        objects = []
        for file in range(25):
            name = f"lib{library}/source{file}"
            lines.append(f"build {name}.cc: phony")
            lines.append(f"build out/{name}.o: cxx {name}.cc | version.h || headers")
            if file % 5 == 0:
                lines.append(f"  cflags = $cflags -DFILE={file}")
            objects.append(f"out/{name}.o")
        libraries.append(f"out/lib{library}.a")
        lines.append(f"build {libraries[-1]}: ar {' '.join(objects)}")
    lines += ["build version.h: phony", "build headers: phony version.h"]
    lines += [f"build app: link {' '.join(libraries)}", "  libs = -lm", "default app"]
    path.write_text("\n".join(lines) + "\n")


def write_held_out(folder: Path, lines: list[str]) -> None:
    """What the programs of the held-out sets read beside the above."""
    rng = random.Random(3)
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
    numbers = [[rng.gauss(0, 10 ** (n % 12 - 4)), rng.randrange(10 ** (n % 15 + 1)), n / 7] for n in range(12000)]
    marks = ("\u00e9", "\u20ac", "\U0001f600", '"', "\n", "\t", "\\", "/", "\x01", "\u4e2d\u6587")
    strings = [line.replace(" ", marks[n % len(marks)]) for n, line in enumerate(lines[:9000])]
    for name, value in (("records", records), ("numbers", numbers), ("strings", strings)):
        content = json.dumps(value)
        (folder / f"{name}.json").write_text(content)
        for how in ("bf", "uu"):
            (folder / f"{name}.{how}.cjson").write_text(how + content)
    kinds = ("plain", "fancy", "odd")
    rows = [
        {key: one[key] for key in ("id", "name", "active", "place", "tags")} | {"kind": kinds[n % 3], "counts": [n, 7, n % 100]}
        for n, one in enumerate(records[:3000])
    ]
    (folder / "rows.json").write_text(json.dumps({"rows": rows}, indent=1))
    items = (
        f'  <r:record id="{one["id"]}" r:active="{one["active"]}" place="{one["place"]}" from="&#8364;&org;">'
        f'<!-- {n} --><t:name t:lang="en">{one["name"]} &amp; &org;</t:name><![CDATA[<{lines[n]}>]]><?note {n}?>'
        f"<t:empty/></r:record>"
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
            bad.append("<table border=1><tr>" + "".join(f"<td align=center>{word}" for word in words) + "</table>")
        elif kind == 2:
            good.append("<ul>" + "".join(f"<li>{word}</li>" for word in words) + "</ul>")
            bad.append("<ul>" + "".join(f"<li><b>{word}</b>" for word in words) + f"<li><b>{n}<i></b></i>")
        else:
            good.append(f'<p class="c{n % 9}">{line} <a href="page.html?n={n}&amp;k=1">{words[0]}</a> <em>{words[1]}</em> &eacute;</p>')
            bad.append(f'<p class=Mso style="margin:{n % 9}pt">{line} <a href=page.html?n={n}&k=1>{words[0]}</p><center>&eacute &nosuch; <br></center></a>')
    head = "<!DOCTYPE html>\n<html lang='en'><head><title>A page</title><style>p { margin: 1em }</style></head><body>\n"
    (folder / "page.html").write_text(head + "\n".join(good) + "\n</body></html>\n")
    (folder / "broken.html").write_text("<title>A page<body bgcolor=white>\n" + "\n".join(bad[:400]) + "\n")


def write_grammar(path: Path, kinds: int, levels: int) -> None:
    """A grammar of many kinds of statements, and of expressions of many levels, with actions."""
    lines = ["%{", "#include <stdio.h>", "%}", "%union { int number; char *name; }", "%token <name> NAME", "%token <number> NUMBER"]
    lines += [f"%token KEY{n}" for n in range(kinds)] + [f"%token OP{n}" for n in range(levels)]
    lines += [f"%type <number> level{n}" for n in range(levels + 1)]
    lines += ["%%", "unit : unit statement | statement ;", "block : '{' unit '}' | '{' '}' ;"]
    for n in range(kinds):
        start = "statement :" if n == 0 else "  |"
        forms = ("level0 ';'", "'(' level0 ')' statement", "NAME '=' level0 ';'", "'(' list ')' block", "block", "NAME ',' list ';'")
        lines.append(f'{start} KEY{n} {forms[n % len(forms)]} {{ printf("statement %d\\n", {n}); }}')
        lines.append(f"  | KEY{n} error ';' {{ yyerrok; }}")
    lines += ["  ;", "list : level0 | list ',' level0 ;"]
    for n in range(levels):
        lines.append(f"level{n} : level{n + 1} {{ $$ = $1; }}")
        lines.append(f"  | level{n} OP{n} level{n + 1} {{ $$ = $1 * {n} + $3; }} ;")
    lines += [f"level{levels} : NUMBER {{ $$ = $1; }} | NAME {{ $$ = 0; }} | '(' level0 ')' {{ $$ = $2; }} ;", "%%"]
    path.write_text("\n".join(lines) + "\nint main(void) { return yyparse(); }\n")


def write_sequences(folder: Path, rng: random.Random) -> None:
    """A genome and reads of it; proteins that come from one another."""

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

    bases, acids = "ACGT", "ACDEFGHIKLMNPQRSTVWY"
    genome = "".join(rng.choices(bases, k=200_000))
    fasta("genome.fasta", [genome], "chromosome")
    starts = [rng.randrange(len(genome) - 4000) for _ in range(80)]
    fasta("reads.fasta", [mutate(genome[at : at + 3000], bases, 0.03, 0.03) for at in starts], "read")
    ancestor = "".join(rng.choices(acids, k=120))
    proteins, aligned = [ancestor], [ancestor]
    while len(proteins) < 24:
        proteins.append(mutate(proteins[len(proteins) // 2], acids, 0.15, 0.02))
        aligned.append(mutate(aligned[len(aligned) // 2], acids, 0.15, 0))
    fasta("proteins.fasta", proteins, "protein")
    fasta("family.fasta", aligned, "protein")
    strains = ["".join(rng.choices(bases, k=400))]
    while len(strains) < 60:
        strains.append(mutate(strains[len(strains) // 2], bases, 0.08, 0))
    fasta("strains.fasta", strains, "strain")
    rows = "".join(f"protein{n:03d}  {sequence}\n" for n, sequence in enumerate(aligned))
    (folder / "family.phy").write_text(f" {len(aligned)} {len(ancestor)}\n{rows}")


def write_languages(folder: Path, rng: random.Random) -> None:
    """Texts in the codes of their countries."""
    words = {
        "russian": "это было в начале года когда снег уже лежал на улицах города и люди шли домой через мост очень тихо",
        "japanese": "これは 日本語の 文章です。 私は 毎日 新聞を 読みます。 東京の 天気は とても 良い でした、 そして カメラと テレビを 買いました。",
        "chinese": "我们 在 城市 里 工作 和 学习， 今天 的 天气 很好。 他们 不 知道 这个 问题 应该 怎么 解决， 可是 大家 都 来 帮助。",
        "french": "le café était déjà fermé à midi et les élèves préférèrent où l’été naïf brûlait la forêt près du château",
    }
    codes = {"russian": ("koi8-r", "cp1251"), "japanese": ("shift_jis", "euc_jp"), "chinese": ("gb18030", "big5"), "french": ("latin-1", "cp1252")}
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
    samples = b"".join(f"wave {n}".encode().ljust(22, b"\0") + struct.pack(">HBBHH", size // 2, n, 50 + n, 0, size // 2) for n in range(3))
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
        "static const char *const names[] = {\"zero\", \"one\", \"two\", \"three\"};",
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
