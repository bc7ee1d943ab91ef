# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Corpora from Parquet files in the format of ComPile: copied and in place, chosen, damaged."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import Command, disassembled

from mlbridge import InvalidArgument, InvalidModel, NotFound, candidates, corpus
from mlbridge.corpus.parquet_adding import parquet
from mlbridge.corpus.parquet_files import BATCH_BYTES, Damage
from mlbridge.gym import PhaseOrdering

COLUMNS = (
    *("content", "license_expression", "license_source", "license_files"),
    *("package_source", "language"),
)
Rows = list[tuple[Any, ...]]


def compiled(folder: Path, number: int, *flags: str, clang: str = "clang-22") -> bytes:
    source, bitcode = folder / f"f{number}.c", folder / f"f{number}.bc"
    source.write_text(f"int f{number}(int x) {{ return x % {number + 3}; }}\n")
    line = [clang, *(flags or ("-Oz",)), "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"]
    subprocess.run([*line, source.name, "-o", bitcode.name], check=True, cwd=folder)
    return bitcode.read_bytes()


def row(content: Any, package: str = "spack:p", spoken: str = "c", licence: str = "MIT") -> Any:
    return (content, licence, "spack", ["./license-ab.txt"], package, spoken)


def written(file: Path, rows: Rows, **options: Any) -> Path:
    table = pa.table(dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, file, **{"compression": "NONE", **options})
    return file


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("modules")
    return [compiled(folder, number, "-Oz", *["-g"] * (number == 3)) for number in range(4)]


@pytest.fixture
def file(modules: list[bytes], tmp_path: Path) -> Path:
    """Rows of three languages, packages and licences; one module is there twice."""
    return written(
        tmp_path / "train-0.parquet",
        [
            row(modules[0]),
            row(modules[1], "spack:q", "cpp", "Apache-2.0 OR MIT"),
            row(modules[2], "https://x.org/r.tar.xz", "rust", "Apache-2.0"),
            row(modules[3]),
            row(modules[0], "spack:q"),
        ],
    )


@pytest.mark.parametrize("how", [(), ("--in-place",)])
@pytest.mark.parametrize("compression", ["NONE", "zstd"])
def test_rows_are_a_corpus_like_others(
    command: Command, modules: list[bytes], tmp_path: Path, how: tuple[str, ...], compression: str
) -> None:
    rows = [row(modules[n], f"spack:{'pq'[n % 2]}") for n in (0, 1, 2, 3, 0)]
    file = written(tmp_path / "train-0.parquet", rows, compression=compression)
    done = command("add", "mine", *how, "--parquet", file)
    assert done.stdout == "mine: 4 modules added, 1 were there, 0 have no code, 0 not recorded\n"
    made = corpus.open("mine")
    assert [m.name for m in made][:2] == ["spack:p/train-0.parquet:0", "spack:q/train-0.parquet:1"]
    # The hash is that of the same source compiled for a corpus.
    folder = tmp_path / "again"
    folder.mkdir()
    compiled(folder, 2)
    command("add", "other", "--", "clang-22", "-Oz", "-c", "f2.c", cwd=folder)
    assert [m.hash for m in corpus.open("other")] == [made.modules[2].hash]
    for number, module in enumerate(made):
        text = disassembled(made.extract(module))
        assert f"@f{number}(" in text and "!DILocation" not in text
        assert (module.language, module.flags) == ("c", ("-Oz",))
        assert module.target.startswith(subprocess.getoutput("uname -m"))
    assert not (made.path / "shards").exists() if how else (made.path / "shards").is_dir()
    # Training, environments and candidates take it as they take others.
    parts = made.split({"training": 1, "test": 1}, seed=1)
    env = PhaseOrdering("mine", part="training")
    assert env.reset(seed=1)[1]["unit"].removesuffix(".bc")[-40:] in {m.hash for m in parts}
    env.close()
    listed = [candidates.Candidate("one", "default<Oz>")]
    sizes = candidates.measure(made, made.modules[:1], listed, tmp_path / "kept")
    assert sizes[made.modules[0].hash].stock > 0


def test_it_goes_on_where_it_was(command: Command, file: Path) -> None:
    command("add", "mine", "--limit", "2", "--parquet", file)
    assert len(corpus.open("mine")) == 2
    done = command("add", "mine", "--in-place", "--parquet", file)  # both kinds in one corpus
    assert done.stdout.startswith("mine: 2 modules added, 3 were there")
    made = corpus.open("mine")
    assert len({made.read(m) for m in made}) == 4


def test_rows_are_chosen(file: Path, modules: list[bytes]) -> None:
    def chosen(**wanted: Any) -> list[int]:
        return [r.number for r in corpus.stream([file], corpus.Selection(**wanted))]

    assert chosen() == [0, 1, 2, 3, 4]
    assert chosen(languages=("C++",)) == chosen(languages=("cpp",)) == [1]
    assert chosen(languages=("c", "rust")) == [0, 2, 3, 4]
    assert chosen(licenses=("MIT",)) == [0, 3, 4]  # an expression, not a part of one
    assert chosen(limit=2) == [0, 1]
    size = len(modules[1])
    assert chosen(largest=size - 1) == [n for n in range(5) if len(modules[n % 4]) < size]
    assert 1 in chosen(smallest=size, largest=size)
    first = next(corpus.stream([file]))
    assert first.content == modules[0] and first.license_files == ("./license-ab.txt",)
    assert [r.language for r in corpus.stream([file])] == ["c", "c++", "rust", "c", "c"]
    left_out: Counter[str] = Counter()
    assert not [*corpus.stream([file], corpus.Selection(("swift",)), left_out=left_out)]
    assert left_out == {"another language or licence": 5}
    with pytest.raises(InvalidArgument, match=r"'pascal' is none of c, c\+\+"):
        corpus.Selection(("pascal",))
    with pytest.raises(InvalidArgument, match="worker 2 of 2"):
        corpus.Selection(worker=2, workers=2)
    with pytest.raises(InvalidArgument, match="limit is 0"):
        corpus.Selection(limit=0)


@pytest.mark.parametrize("rows_of_a_group", [3, 1000])
@pytest.mark.parametrize("workers", [1, 2, 5, 40])
def test_workers_share_the_rows(tmp_path: Path, rows_of_a_group: int, workers: int) -> None:
    rows = [row(b"BC\xc0\xde" + bytes([n])) for n in range(17)]
    options = {"row_group_size": rows_of_a_group}
    files = [written(tmp_path / f"{n}.parquet", rows, **options) for n in range(2)]
    shares = [
        [(r.file, r.number, r.content[-1]) for r in corpus.stream(files, selection)]
        for selection in (corpus.Selection(worker=w, workers=workers) for w in range(workers))
    ]
    assert sorted(one for share in shares for one in share) == [
        (str(f), n, n) for f in files for n in range(17)
    ]
    if rows_of_a_group == 3 and workers < 12:  # row groups of their own
        groups = [{(f, n // 3) for f, n, _ in share} for share in shares]
        assert sum(map(len, groups)) == len(set.union(*groups)) == 12


def test_modules_are_filtered_by_licence(command: Command, file: Path, home: Path) -> None:
    command("add", "mine", "--parquet", file)
    made = corpus.open("mine")
    assert [m.program for m in made.licensed("MIT")] == ["spack:p", "spack:p"]
    assert [m.language for m in made.licensed("Apache-2.0", "Apache-2.0 OR MIT")] == ["c++", "rust"]
    shown = json.loads(command("show", "mine", "spack:q/train-0.parquet:1", "--json").stdout)
    assert shown["license_expression"] == "Apache-2.0 OR MIT" and shown["row_row"] == 1
    command("add", "permissive", "--license", "MIT", "--language", "c", "--parquet", file)
    assert len(corpus.open("permissive")) == 2


def test_what_is_no_usable_module_is_counted(
    command: Command, modules: list[bytes], tmp_path: Path
) -> None:
    unoptimized = compiled(tmp_path, 8, "-O0")
    foreign = compiled(tmp_path, 9, "-Oz", "--target=aarch64-linux-gnu")
    # Epochs are bits of their own: another one is bitcode that no released LLVM can read.
    newer = incompatible(modules[1])
    contents = [None, b"", b"text", modules[0][:1000], unoptimized, foreign, newer, modules[2]]
    file = written(tmp_path / "t.parquet", [row(content) for content in contents])
    done = command("add", "mine", "--target", "x86_64,i686", "--parquet", file)
    assert done.stdout.startswith("mine: 1 modules added, 0 were there, 0 have no code, 6 not")
    for expected in (
        f"not recorded: {file}: row 2 (row group 0): no bitcode: it begins with 74 65 78 74, "
        "expected 42 43 c0 de",
        "row 6 (row group 0): LLVM 22 cannot read it, written by LLVM22.1.8: Incompatible epoch",
        "rows left out: 2 × no content",
        "rows left out: 1 × another target: aarch64-unknown-linux-gnu",
        "rows left out: 1 × compiled at -O0, so that passes skip its functions",
    ):
        assert expected in done.stderr
    done = command("add", "none", "--limit", "2", "--parquet", file, code=1)
    assert "nothing of the files was recorded" in done.stderr


def incompatible(bitcode: bytes) -> bytes:
    """Bitcode with another epoch: the record is [abbreviation, vbr6 epoch] after the producer's.

    The number whose change llvm-dis calls another epoch is found by trying."""
    bits = int.from_bytes(bitcode, "little")
    for at in range(32 * 4, 32 * 16):
        changed = (bits ^ (1 << at)).to_bytes(len(bitcode), "little")
        said = subprocess.run(["llvm-dis-22", "-o", "-"], input=changed, capture_output=True)
        if b"Incompatible epoch" in said.stderr:
            return changed
    raise AssertionError("no bit is the epoch")


@pytest.mark.parametrize("clang", ["clang-19"])
def test_older_bitcode_is_upgraded(clang: str, tmp_path: Path, home: Path) -> None:
    try:
        old = compiled(tmp_path, 1, clang=clang)
    except FileNotFoundError:
        pytest.skip(f"{clang} is not there (Debian: {clang})")
    added = parquet(tmp_path / "c", [written(tmp_path / "t.parquet", [row(old)])], in_place=True)
    made = corpus.open(tmp_path / "c")
    assert added.new == 1 and "@f1(" in disassembled(made.extract(made.modules[0]))


def test_a_file_that_is_cut_short_does_not_stop_others(
    command: Command, file: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(file.read_bytes()[:-20])
    done = command("add", "mine", "--parquet", cut, file)
    assert done.stdout.startswith("mine: 4 modules added") and "1 not recorded" in done.stdout
    size = cut.stat().st_size
    assert f"{cut}: no whole Parquet file, of which the end says where" in done.stderr
    assert f"it has {size} bytes" in done.stderr
    with pytest.raises(InvalidModel, match="no whole Parquet file"):
        next(corpus.stream([cut]))
    with pytest.raises(NotFound, match=r"absent\.parquet: cannot be read"):
        next(corpus.stream([tmp_path / "absent.parquet"]))


def test_damage_inside_names_file_and_row_group(tmp_path: Path) -> None:
    rows = [row(bytes([n]) * (BATCH_BYTES // 2)) for n in range(12)]
    file = written(
        tmp_path / "t.parquet", rows, row_group_size=6, use_dictionary=False, write_statistics=False
    )
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    data = bytearray(file.read_bytes())
    # The length of a value in the middle of the first row group.
    at = data.index(bytes([3]) * 100, chunk.data_page_offset)
    data[at - 4 : at] = b"\xff" * 4
    file.write_bytes(data)
    damaged: list[Damage] = []
    numbers = [r.number for r in corpus.stream([file], damaged=damaged)]
    assert numbers == [0, 1, 2, *range(6, 12)]
    assert [(d.file, d.group) for d in damaged] == [(str(file), 0)]
    assert f"{file}: row group 0, from row 3 on" in damaged[0].text
    with pytest.raises(InvalidModel, match="row group 0, from row 3 on"):
        [*corpus.stream([file])]


def test_other_columns_are_refused_before_work(
    command: Command, file: Path, tmp_path: Path
) -> None:
    table = pq.read_table(file)
    for changed, expected in (
        (table.drop_columns(["language"]), "column 'language' (string) is missing; there are: c"),
        (
            table.set_column(0, "content", pa.array(["text"] * 5)),
            "column 'content' is string, expected binary",
        ),
        (
            table.set_column(3, "license_files", pa.array(["text"] * 5)),
            "column 'license_files' is string, expected list of strings",
        ),
    ):
        other = tmp_path / "other.parquet"
        pq.write_table(changed, other)
        done = command("add", "mine", "--parquet", file, other, code=1)
        assert f"{other}: the {expected}" in done.stderr
        assert not corpus.is_corpus(corpus.place_of("mine"))
    # Columns of nulls have no type of their own.
    pq.write_table(table.set_column(3, "license_files", pa.nulls(5)), tmp_path / "n.parquet")
    assert next(corpus.stream([tmp_path / "n.parquet"])).license_files == ()


def test_a_file_used_in_place_that_changes_is_noticed(
    file: Path, modules: list[bytes], tmp_path: Path
) -> None:
    parquet(tmp_path / "c", [file], in_place=True)
    made = corpus.open(tmp_path / "c")
    module = made.modules[1]
    assert made.read(module)
    written(file, [row(data) for data in modules[::-1]])
    with pytest.raises(InvalidModel, match="row 1 of row group 0 is not what it was"):
        corpus.open(tmp_path / "c").read(module)
    file.unlink()
    with pytest.raises(NotFound, match=r"train-0\.parquet: cannot be read"):
        made.read(module)


def test_options_and_places_that_do_not_fit(command: Command, file: Path) -> None:
    assert (
        "--largest is for --parquet"
        in command("add", "mine", "--largest", "9", "--pypi", "x", code=2).stderr
    )
    assert (
        "not for --parquet"
        in command("add", "mine", "--program", "p", "--parquet", file, code=2).stderr
    )
    with pytest.raises(InvalidArgument, match=r"mlbridge corpus add NAME --in-place --parquet"):
        PhaseOrdering(str(file))
