# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge vocabulary`: small ones, the same again, and what is no module."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlbridge import InvalidArgument, InvalidModel, NotFound, corpus, files, vocabulary
from mlbridge.cli import main
from mlbridge.corpus import adding

SOURCE = "int f{0}(int *x, int n) {{ int s = {0}; while (n--) s += x[n] * {0}; return s; }}\n"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two programs, in two parts."""
    folder = tmp_path_factory.mktemp("vocabulary")
    for part, number in (("training", 2), ("test", 3)):
        source = folder / f"{part}.c"
        source.write_text(
            SOURCE.format(number) + "float g(float x) { return x / 2; }\n" * (part == "test")
        )
        command = ["clang-22", "-Oz", "-c", str(source)]
        added = adding.compile_all(
            folder / "c", [(str(folder), command)], part, "1", root=str(folder)
        )
        assert added.new == 1, added.problems
        corpus.assign(folder / "c", {part: part})
    return folder / "c"


def test_a_vocabulary(modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "vocabulary",
        str(modules),
        "--part",
        "training",
        "--dimensions",
        "12",
        "--epochs",
        "80",
    ]
    said: list[str] = []
    texts: list[bytes] = []
    for seed in ("7", "7", "8"):
        path = tmp_path / f"{len(texts)}.json"
        assert main([*asked, "--seed", seed, "-o", str(path)]) == 0
        said.append(capsys.readouterr().out.replace(path.name, ""))
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] != texts[2] and said[0] == said[1] != said[2]
    digest = hashlib.sha256(texts[0]).hexdigest()
    assert "12 dimensions, of 1 modules" in said[0] and digest in said[0]
    assert vocabulary.read(tmp_path / "0.json") == (12, digest)
    made = json.loads(texts[0])
    assert {s: len(v) for s, v in made.items()} == {"Opcodes": 68, "Types": 12, "Arguments": 30}
    assert {"Load", "PHI"} <= made["Opcodes"].keys() and "IntegerTy" in made["Types"]
    assert {"Variable", "ICMP_eq"} <= made["Arguments"].keys()
    vectors = np.array([vector for section in made.values() for vector in section.values()])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=0.01)
    assert len({tuple(vector) for vector in vectors}) == len(vectors), "it tells all apart"


def test_a_vocabulary_of_machine_code(
    modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["vocabulary", "--machine", str(modules), "--epochs", "80", "--jobs", "1"]
    texts: list[bytes] = []
    for seed in ("7", "7", "8"):
        path = tmp_path / f"{len(texts)}.json"
        assert main([*asked, "--seed", seed, "-o", str(path)]) == 0
        assert "100 dimensions, of 2 modules" in capsys.readouterr().out
        texts.append(path.read_bytes())
    assert texts[0] == texts[1] != texts[2]
    made = json.loads(texts[0])
    assert list(made) == ["Opcodes", "Operands"]
    # The opcodes are of both targets, and those of AVX have SSE's names.
    assert {"ADD", "COPY", "JCC", "CBZ", "LDR", "MULSS"} <= made["Opcodes"].keys()
    assert {"VirtualInteger32", "VirtualFloat32", "Load", "Block"} <= made["Operands"].keys()
    vectors = np.array([vector for section in made.values() for vector in section.values()])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=0.01)


def test_machine_code_of_the_targets_that_take_a_module(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "x86.ll").write_text(
        'target triple = "x86_64-linux-gnu"\n'
        "define i32 @f(i32 %x) {\n"
        '  %y = call i32 asm "popcnt $1, $0", "={ax},{dx}"(i32 %x)\n'
        "  %z = mul i32 %x, %y\n  ret i32 %z\n}\n"
    )
    with caplog.at_level("WARNING", "mlbridge"):
        graph = vocabulary.collect_machine(tmp_path)
    assert "left out 2 times" in caplog.text and "x86.ll: llc-22 ended with" in caplog.text
    assert "ignoring" not in caplog.text
    assert graph.modules == 1 and {"INLINEASM", "IMUL"} <= set(graph.names["Opcodes"])
    assert "MADD" not in graph.names["Opcodes"]
    (tmp_path / "x86.ll").write_text("define nothing")
    with pytest.raises(
        InvalidModel, match=r"no module can be read: .*x86\.ll: opt-22 ended with 1"
    ):
        vocabulary.collect_machine(tmp_path)


def test_a_folder_that_is_not_there_is_said_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "none" / "v.json"
    assert main(["vocabulary", str(tmp_path / "no.bc"), "-o", str(output)]) == 1
    said = f"mlbridge vocabulary: -o: {output} can't be written: no such folder, or not yours\n"
    assert capsys.readouterr().err == said
    assert not output.parent.exists()


def test_training_fits_the_triplets(modules: Path) -> None:
    both = vocabulary.collect(modules)
    part = vocabulary.collect(corpus.open(modules).part("training"), jobs=1)
    assert (both.modules, part.modules) == (2, 1)
    assert both.counted > part.counted > len(part.triplets)
    floats = both.names["Opcodes"].index("FDiv")
    assert floats in both.triplets[:, 0] and floats not in part.triplets[:, 0]
    begun, trained = (vocabulary.train(both, dimensions=32, epochs=n) for n in (1, 300))
    assert trained.mean_reciprocal_rank > 2 * begun.mean_reciprocal_rank
    assert trained.hits_at_10 > 0.9 and trained.loss < begun.loss / 2


def test_modules_in_files_do_as_well(modules: Path, tmp_path: Path) -> None:
    found = corpus.open(modules)
    for module in found:
        found.extract(module, tmp_path)
    of_files, of_corpus = vocabulary.collect(tmp_path), vocabulary.collect(found)
    assert np.array_equal(of_files.triplets, of_corpus.triplets)


def test_what_cannot_be_used(
    modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match="no part 'other'"):
        vocabulary.collect(modules, "other")
    (tmp_path / "bad.bc").write_bytes(b"BC\xc0\xde and then nothing")
    with pytest.raises(InvalidModel, match=r"bad\.bc: llvm-ir2vec-22 ended with 1"):
        vocabulary.collect(tmp_path)
    (tmp_path / "bad.bc").unlink()
    (tmp_path / "empty.ll").write_text("")
    with pytest.raises(InvalidModel, match="no instruction"):
        vocabulary.collect(tmp_path)
    graph = vocabulary.collect(modules)
    wrongs: list[dict[str, Any]] = [{"dimensions": 0}, {"epochs": 0}, {"seed": -1}]
    for wrong in wrongs:
        with pytest.raises(InvalidArgument, match="expected"):
            vocabulary.train(graph, **wrong)
    for text in ("", "[]", "{}", '{"Opcodes": {}}', '{"Opcodes": {"Add": []}}', "[" * 100_000):
        (tmp_path / "v.json").write_text(text)
        with pytest.raises(InvalidModel, match=r"v\.json: not a vocabulary"):
            vocabulary.read(tmp_path / "v.json")
    with pytest.raises(NotFound, match="No such file"):
        vocabulary.read(tmp_path / "none.json")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotFound, match=r"llvm-ir2vec-22 is not there \(Debian: llvm-22\)"):
        vocabulary.collect(modules)
    with pytest.raises(NotFound, match=r"opt-22 is not there \(Debian: llvm-22\)"):
        vocabulary.collect_machine(modules)
    monkeypatch.undo()
    monkeypatch.setattr(files, "plugin", lambda name: str(tmp_path / f"{name}.so"))
    with pytest.raises(NotFound, match=r"register-allocation\.so is not there"):
        vocabulary.collect_machine(modules)
