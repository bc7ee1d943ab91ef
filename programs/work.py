# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the programs' workloads read: the same ones on every machine.

big.* are some megabytes. The others keep a program busy for some hundredths of a second: medium.txt,
medium.md, medium.xml, medium.json and words.txt; table.csv; photo.ppm, photo.pgm and photo.bmp, an
image of 384 x 256 points; sound.wav, two seconds, two channels of 16 bits; random.bin; formula.cnf,
3-SAT that can be satisfied; genes.fasta.
"""

from __future__ import annotations

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
    """All of them, unless they are there."""
    if (folder / "complete").is_file():
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
    write_inputs_of_cpp(folder)
    (folder / "complete").touch()


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


def write_inputs_of_cpp(folder: Path) -> None:
    """For the programs in C++.

    services.yaml, settings with nested parts; words.dic, a dictionary with affixes; classes.txt, sparse
    vectors of six classes; *.lp, linear programs; *.cnf, formulas; build.ninja.
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
    lines += [" + ".join(f"x{i}_{j}" for j in range(30)) + f" <= {rng.randint(60, 90)};" for i in range(25)]
    lines += [" + ".join(f"x{i}_{j}" for i in range(25)) + f" >= {rng.randint(20, 40)};" for j in range(30)]
    (folder / "transport.lp").write_text("\n".join(lines) + "\n")
    items = [(rng.randint(20, 90), rng.randint(10, 60), rng.randint(5, 50)) for _ in range(22)]
    lines = ["/* values */", "max: " + " + ".join(f"{item[0]} k{n}" for n, item in enumerate(items)) + ";"]
    for part, limit in ((1, 300), (2, 230)):
        weights = " + ".join(f"{item[part]} k{n}" for n, item in enumerate(items))
        lines.append(f"c{part}: {weights} <= {limit};")
    lines += [f"k{n} <= {1 + n % 2};" for n in range(22)]
    lines.append("int " + ",".join(f"k{n}" for n in range(22)) + ";")
    (folder / "knapsack.lp").write_text("\n".join(lines) + "\n")
    size = range(20)
    lines = ["min: " + " + ".join(f"{rng.randint(1, 99)} a{i}b{j}" for i in size for j in size) + ";"]
    lines += [f"row{i}: " + " + ".join(f"a{i}b{j}" for j in size) + " = 1;" for i in size]
    lines += [f"column{j}: " + " + ".join(f"a{i}b{j}" for i in size) + " = 1;" for j in size]
    lines.append("int " + ",".join(f"a{i}b{j}" for i in size for j in size) + ";")
    (folder / "assign.lp").write_text("\n".join(lines) + "\n")


def write_services(path: Path, rng: random.Random) -> None:
    """Settings with nested parts."""
    lines = ["# services", "version: 3", "defaults: &defaults", "  retries: 3", "  timeout: 2.5", "services:"]
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
    """contradiction.cnf, random; pigeons.cnf, 8 in 7 holes; factor.cnf, which factors a number."""
    clauses = [[one if rng.random() < 0.5 else -one for one in rng.sample(range(1, 121), 3)] for _ in range(640)]
    write_cnf(folder / "contradiction.cnf", clauses)
    holes = range(7)
    clauses = [[1 + 7 * pigeon + hole for hole in holes] for pigeon in range(8)]
    pairs = [(a, b) for a in range(8) for b in range(a)]
    clauses += [[-1 - 7 * a - hole, -1 - 7 * b - hole] for a, b in pairs for hole in holes]
    write_cnf(folder / "pigeons.cnf", clauses)
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
    lines = ["cflags = -O2 -Wall", "rule cxx", "  command = c++ $cflags -MD -MF $out.d -c $in -o $out"]
    lines += ["  description = compile $in", "  depfile = $out.d", "rule ar", "  command = ar rcs $out $in"]
    lines += ["rule link", "  command = c++ -o $out $in $libs", "  pool = links", "pool links", "  depth = 2"]
    libraries = []
    for library in range(60):
        objects = []
        for file in range(25):
            name = f"lib{library}/source{file}"
            lines += [f"build {name}.cc: phony", f"build out/{name}.o: cxx {name}.cc | version.h || headers"]
            if file % 5 == 0:
                lines.append(f"  cflags = $cflags -DFILE={file}")
            objects.append(f"out/{name}.o")
        libraries.append(f"out/lib{library}.a")
        lines.append(f"build {libraries[-1]}: ar {' '.join(objects)}")
    lines += ["build version.h: phony", "build headers: phony version.h"]
    lines += [f"build app: link {' '.join(libraries)}", "  libs = -lm", "default app"]
    path.write_text("\n".join(lines) + "\n")
