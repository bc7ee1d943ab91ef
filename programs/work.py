# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the programs' workloads read: the same ones on every machine.

big.* are some megabytes. The others keep a program busy for some hundredths of a second: medium.txt,
medium.md, medium.xml, medium.json and words.txt; table.csv; photo.ppm, photo.pgm and photo.bmp, an
image of 384 x 256 points; sound.wav, two seconds, two channels of 16 bits; random.bin; formula.cnf,
3-SAT that can be satisfied; genes.fasta. hard.cnf, pigeons.cnf and few-pigeons.cnf are harder
formulas; medium.yaml has records of the first lines.
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
    write_more_formulas(folder)
    write_yaml(folder / "medium.yaml", lines[: LINES // 60])
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


def write_yaml(path: Path, lines: list[str]) -> None:
    """Records with anchors, quoted and folded scalars, and a short document at the end."""
    defaults = "defaults: &defaults {kind: line, tags: [a, 'b', \"c\\t\"]}"
    entries = ["%YAML 1.1", "---", defaults, "lines:"]
    for n, line in enumerate(lines):
        first, *rest = line.split()
        entries += [f"  - number: {n}", f"    first: '{first}'", "    <<: *defaults"]
        entries += ["    text: >-", f"      {line}", f"    words: [{', '.join(rest)}]"]
    path.write_text("\n".join([*entries, "...", "--- !done |", "  the end", "..."]) + "\n")
