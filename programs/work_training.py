# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that the workloads of programs of the sets training, validation and test-A read, beside
those of work.py.

formula.cnf and hard.cnf, 3-SAT with a solution; pigeons.cnf and few-pigeons.cnf, without;
contradiction.cnf, random, and factor.cnf, which factors a number; services.yaml, settings with
nested parts, and medium.yaml; words.dic, a dictionary with affixes; classes.txt, sparse vectors of
six classes; *.lp, linear programs; build.ninja.
"""

from __future__ import annotations

import random
from pathlib import Path


def write(folder: Path, lines: list[str], seed: int = 0) -> None:
    """All of them, of the lines of big.txt and of words.txt."""
    write_formula(folder / "formula.cnf", random.Random(seed + 5))
    write_more_formulas(folder, seed)
    write_inputs_of_cpp(folder, seed)
    write_yaml(folder / "medium.yaml", lines[: len(lines) // 60])


def write_formula(path: Path, rng: random.Random, variables: int = 220, clauses: int = 900) -> None:
    """3-SAT near the ratio at which it gets hard, made around a solution."""
    solution = [rng.random() < 0.5 for _ in range(variables)]
    lines = [f"p cnf {variables} {clauses}"]
    while len(lines) <= clauses:
        chosen = rng.sample(range(variables), 3)
        signs = [rng.random() < 0.5 for _ in chosen]
        if any(solution[one] == sign for one, sign in zip(chosen, signs, strict=True)):
            literals = (
                one + 1 if sign else -one - 1 for one, sign in zip(chosen, signs, strict=True)
            )
            lines.append(" ".join(map(str, literals)) + " 0")
    path.write_text("\n".join(lines) + "\n")


def write_more_formulas(folder: Path, seed: int) -> None:
    """hard.cnf is 3-SAT with a solution; pigeons.cnf and few-pigeons.cnf have none."""
    write_formula(folder / "hard.cnf", random.Random(seed + 7), 320, 1340)
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


def write_inputs_of_cpp(folder: Path, seed: int) -> None:
    """For the programs in C++.

    services.yaml, settings with nested parts; words.dic, a dictionary with affixes; classes.txt,
    sparse vectors of six classes; *.lp, linear programs; *.cnf, formulas; build.ninja.
    """
    rng = random.Random(seed + 3)
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


def write_yaml(path: Path, lines: list[str]) -> None:
    """Records of lines, with anchors, quoted and folded scalars, and a second document."""
    entries = [
        "%YAML 1.1",
        "---",
        "defaults: &defaults {kind: line, tags: [a, 'b', \"c\\t\"]}",
        "lines:",
    ]
    for n, line in enumerate(lines):
        first, *rest = line.split()
        entries += [
            f"  - number: {n}",
            f"    first: '{first}'",
            "    <<: *defaults",
            "    text: >-",
        ]
        entries += [f"      {line}", f"    words: [{', '.join(rest)}]"]
    path.write_text("\n".join([*entries, "...", "--- !done |", "  the end", "..."]) + "\n")
