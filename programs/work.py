# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the programs' workloads read: the same ones on every machine.

big.* are some megabytes. The others keep a program busy for some hundredths of a second:
medium.txt, medium.md, medium.xml, medium.json and words.txt; table.csv; photo.ppm, photo.pgm and
photo.bmp, an image of 384 x 256 points; sound.wav, two seconds, two channels of 16 bits;
random.bin; genes.fasta.

work_training.py and work_held_out.py write what single programs read.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
import wave
from html import escape
from pathlib import Path

from programs import work_held_out, work_training

LINES = 60_000
#: Between the seeds of two editions of the files.
EDITION = 1000


def text(edition: int = 0) -> list[str]:
    """Lines of words of which some are frequent, as in a language."""
    rng = random.Random(1 + EDITION * edition)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(4000)]
    weights = [1 / (1 + rank) for rank in range(len(words))]
    return [" ".join(rng.choices(words, weights, k=rng.randint(4, 14))) for _ in range(LINES)]


def write(folder: Path, edition: int = 0) -> None:
    """All of them, unless these very files have written them there. Another edition has other
    contents of the same kinds and sizes."""
    stamp = folder / "complete"
    writers = (__file__, work_training.__file__, work_held_out.__file__)
    made_by = hashlib.sha256(b"".join(Path(file).read_bytes() for file in writers)).hexdigest()
    made_by += f" {edition}" if edition else ""
    if stamp.is_file() and stamp.read_text() == made_by:
        return
    folder.mkdir(parents=True, exist_ok=True)
    lines = text(edition)
    write_texts(folder, "big", lines)
    write_texts(folder, "medium", lines[: LINES // 20])
    rng = random.Random(2 + EDITION * edition)
    words = sorted({word for line in lines for word in line.split()})
    (folder / "words.txt").write_text("\n".join(words) + "\n")
    rows = (
        f"{n},{rng.gauss(0, 9):.4f},{rng.choice(words)},{rng.randrange(10**6)}" for n in range(8000)
    )
    (folder / "table.csv").write_text("number,value,word,count\n" + "\n".join(rows) + "\n")
    (folder / "random.bin").write_bytes(rng.randbytes(200_000))
    write_photo(folder, rng)
    write_sound(folder / "sound.wav", rng)
    genes = ("".join(rng.choices("ACGT", k=900)) for _ in range(40))
    (folder / "genes.fasta").write_text(
        "".join(f">gene{n}\n{gene}\n" for n, gene in enumerate(genes))
    )
    work_training.write(folder, lines, EDITION * edition)
    work_held_out.write(folder, lines, EDITION * edition)
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
