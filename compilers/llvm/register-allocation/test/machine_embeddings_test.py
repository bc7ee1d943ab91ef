# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Live ranges as vectors: for agents whose model asks for them, and for no others."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from compiler import Compiler, serving
from numpy.typing import NDArray
from onnx import TensorProto, helper

import mlbridge
import mlbridge.files
from mlbridge import Signature, TensorSpec

HEURISTIC = "function:heuristic"
SHIPPED = Path(__file__).resolve().parents[2] / "embeddings/machine_vocabulary.json"
DIMENSION = 100
#: The outputs of the agents, and what they are given here besides embeddings.
OUTPUTS = {"node": "node", "task": "task", "colour": "colour", "split": "point"}
LENGTHS = {"node": None, "task": 2, "colour": 33, "split": None}


def name_of(agent: str) -> str:
    return "embeddings" if agent == "node" else "embedding"


def agents(dimension: int = DIMENSION, *, embeds: bool = True) -> dict[str, Signature]:
    """For servers."""
    made = {}
    for agent, output in OUTPUTS.items():
        inputs = [TensorSpec("action_mask", "bool", [LENGTHS[agent]])]
        shape: list[int | None] = [None, dimension] if agent == "node" else [dimension]
        if embeds:
            inputs.append(TensorSpec(name_of(agent), "float32", shape))
        made[agent] = Signature(inputs, [TensorSpec(output, "int64")])
    return made


def scores(agent: str, embedding: NDArray[Any], choices: int) -> NDArray[Any]:
    """What the networks below compute: of nodes a column, of choices the first numbers."""
    if agent == "node":
        return np.asarray(embedding[:, 3])
    return np.resize(embedding[:33], choices) if agent != "split" else embedding[:1]


def largest(observation: Any, context: mlbridge.CallContext) -> int:
    mask = observation["action_mask"]
    score = scores(context.agent, observation[name_of(context.agent)], len(mask))
    if context.agent == "split":
        return 0
    return int(np.argmax(np.where(mask, score, -np.inf)))


def network(folder: Path, agent: str, *, dimension: int = DIMENSION, **metadata: str) -> str:
    """The allowed choice with the largest score."""
    tensor, node, of = helper.make_tensor_value_info, helper.make_node, onnx.numpy_helper.from_array
    choices = LENGTHS[agent] or "N"
    shape: list[str | int | None] = ["N", dimension] if agent == "node" else [dimension]
    column = {"first": [0, 3], "last": [2**31, 4], "axes": [0, 1], "flat": [-1]}
    some = {"first": [0], "last": [1 if agent == "split" else choices], "axes": [0], "flat": [-1]}
    constants = {n: np.array(v) for n, v in (column if agent == "node" else some).items()}
    graph = helper.make_graph(
        [
            node("Slice", [name_of(agent), "first", "last", "axes"], ["part"]),
            node("Reshape", ["part", "flat"], ["score"]),
            node("Where", ["action_mask", "score", "never"], ["scores"]),
            node("ArgMax", ["scores"], [OUTPUTS[agent]], axis=0, keepdims=0),
        ],
        "largest",
        [
            tensor("action_mask", TensorProto.BOOL, [choices]),
            tensor(name_of(agent), TensorProto.FLOAT, shape),
        ],
        [tensor(OUTPUTS[agent], TensorProto.INT64, [])],
        [of(np.array(-np.inf, np.float32), "never"), *(of(v, n) for n, v in constants.items())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = f"register-allocation.{key}", value
    path = folder / f"{agent}.onnx"
    onnx.save(model, str(path))
    return str(path)


def test_networks_and_a_server_decide_alike(compiler: Compiler) -> None:
    plain = compiler.clang("mixed.c")
    printed, stock = compiler.output(plain), plain.object
    for agent in OUTPUTS:
        network(compiler.folder, agent)
    asked: Counter[str] = Counter()

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        asked[context.agent] += 1
        return largest(observation, context)

    with serving(policy, compiler.folder, agents()) as uri:
        made = compiler.clang("mixed.c", model=uri, on_failure="fail")
    assert not made.stderr
    decided = made.object
    assert set(asked) == set(OUTPUTS)
    assert compiler.output(made) == printed
    for scheme in ("native", "onnx"):
        model = f"{scheme}:{compiler.folder}/{{agent}}.onnx"
        made = compiler.clang("mixed.c", model=model, on_failure="fail")
        assert not made.stderr and made.object == decided, scheme
    # The decisions are the embeddings': other vectors, other code.
    other = vocabulary(compiler, lambda name: [len(name) % 7 - 3, *map(ord, name * 99)][:DIMENSION])
    made = compiler.clang("mixed.c", model=model, on_failure="fail", vocabulary=str(other))
    assert not made.stderr and made.object not in (decided, stock)
    assert compiler.output(made) == printed


def vocabulary(compiler: Compiler, vector_of: Any) -> Path:
    """The shipped vocabulary's names with other vectors."""
    shipped = json.loads(SHIPPED.read_text())
    made = {s: {name: vector_of(name) for name in vectors} for s, vectors in shipped.items()}
    path = compiler.folder / "vocabulary.json"
    path.write_text(json.dumps(made))
    return path


def test_a_model_that_does_not_ask_is_not_charged(compiler: Compiler) -> None:
    """The vocabulary isn't even read, and nothing is computed or sent."""
    wrong = {"vocabulary": "/nowhere.json", "on_failure": "fail"}
    expected = compiler.clang("mixed.c", model=HEURISTIC).object
    made = compiler.clang("mixed.c", model=HEURISTIC, **wrong)
    assert not made.stderr and made.object == expected
    seen: set[str] = set()

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        seen.update(observation)
        return int(np.flatnonzero(observation["action_mask"])[0])

    for signatures in (None, agents(embeds=False)):
        with serving(policy, compiler.folder, signatures) as uri:
            made = compiler.clang("mixed.c", model=uri, **wrong)
        assert not made.stderr
    assert "action_mask" in seen and not {"embedding", "embeddings"} & seen
    # And if one agent asks, the others aren't given any.
    path = network(compiler.folder, "colour")
    with serving(policy, compiler.folder) as uri:
        made = compiler.clang("mixed.c", model=f"colour=native:{path}; *={uri}", on_failure="fail")
    assert not made.stderr and not {"embedding", "embeddings"} & seen


def source_of(compiler: Compiler) -> Path:
    path = compiler.folder / "source.c"
    path.write_text(
        "int search(const int *x, int n, int y, int z) {\n"
        "  for (int i = 0; i < n; ++i) { if (x[i] == y) return i * z; if (x[i] > z) y += x[i]; }\n"
        "  return y;\n}\n"
        "float mean(const float *x, int n) {\n"
        "  float s = 0; for (int i = 0; i < n; ++i) s += x[i] * i; return s / n;\n}\n"
    )
    return path


def first_seen(compiler: Compiler, source: Path | str, words: Path, *flags: str) -> dict[str, Any]:
    """The first observation of the agent `node` for each function."""
    seen: dict[str, Any] = {}

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        if context.agent == "node":
            function = context.unit.rpartition(":")[2]
            seen.setdefault(function, observation["embeddings"].copy())
        return int(np.flatnonzero(observation["action_mask"])[0])

    dimension = len(next(iter(json.loads(words.read_text())["Opcodes"].values())))
    with serving(policy, compiler.folder, agents(dimension)) as uri:
        settings = {"model": uri, "on_failure": "fail", "vocabulary": str(words)}
        made = compiler.clang(source, *flags, **settings)
    assert not made.stderr
    return seen


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_what_is_added_up(compiler: Compiler, target: str) -> None:
    """Against the machine code that llc prints: of each live range's instructions, how many are
    copies, define and use registers of 32 bits, jump, and refer to blocks."""
    flags = (f"--target={target}", "-fno-vectorize", "-fno-unroll-loops")
    compiler.run("clang-22", *flags, "-O2", "-S", "-emit-llvm", source_of(compiler))
    compiler.run("llc-22", "-O2", "-stop-before=greedy", "source.ll", "-o", "source.mir")
    jump = r"JMP_1|B " if target.startswith("x86") else r"B "
    text = (compiler.folder / "source.mir").read_text()
    expected: dict[str, dict[int, list[list[float]]]] = {}
    for function in text.split("\nname: ")[1:]:
        of = expected[function.split()[0]] = defaultdict(list)
        narrow = set(re.findall(r"%(\d+)(?:\.\w+)?:(?:gr|gpr)32", function))
        for line in function.partition("\nbody:")[2].splitlines():
            if not re.match(r"    \S", line) or re.match(r"    (liveins|successors|DBG_)", line):
                continue
            defined, _, rest = line.rpartition(" = ")
            row = [
                float(re.match(r" *COPY ", rest) is not None),
                0.5 * sum(n in narrow for n in re.findall(r"%(\d+)\b", defined))
                + 0.25 * sum(n in narrow for n in re.findall(r"%(\d+)\b", rest)),
                float(re.match(rf" *({jump})", rest) is not None),
                0.25 * len(re.findall(r"%bb\.\d+", rest)),
            ]
            for number in set(re.findall(r"%(\d+)\b", line)):
                of[int(number)].append(row)
    words = compiler.folder / "words.json"
    seeds = {"COPY": 0, "VirtualInteger32": 1, "JMP": 2, "B": 2, "Block": 3}
    unit = {name: [float(i == at) for i in range(4)] for name, at in seeds.items()}
    opcodes = {name: unit.pop(name) for name in ("COPY", "JMP", "B")}
    words.write_text(json.dumps({"Opcodes": opcodes, "Operands": unit}))
    seen = first_seen(compiler, source_of(compiler), words, f"--target={target}")
    assert set(seen) == {"search", "mean"}
    for name, rows in seen.items():
        want = [np.mean(rows, axis=0) for _, rows in sorted(expected[name].items())]
        assert rows.shape == (len(want), 4)
        assert np.allclose(rows, want, atol=1e-6), (rows, want)
        assert np.count_nonzero(rows[:, 0]) > 2 and np.count_nonzero(rows[:, 1]) > 2


def test_what_changes_is_computed_again(compiler: Compiler) -> None:
    """Where something else is spilled, instructions get operands in memory."""
    rows: dict[str, list[Any]] = defaultdict(list)

    def policy(observation: Any, context: mlbridge.CallContext) -> int:
        if context.agent == "node":
            rows[context.unit].append(observation["embeddings"].copy())
        elif context.agent != "split":
            seen = rows[context.unit][-1] if rows[context.unit] else observation["embedding"]
            assert (observation["embedding"] == seen).all(axis=-1).any(), "one of the rows"
        if context.agent == "colour" and observation["action_mask"][0]:
            return 0  # the stack
        return int(np.flatnonzero(observation["action_mask"])[0])

    words = vocabulary(compiler, lambda name: [float(name == "FrameIndex"), 1.0])
    with serving(policy, compiler.folder, agents(2)) as uri:
        settings = {"model": uri, "on_failure": "fail", "vocabulary": str(words)}
        made = compiler.clang("mixed.c", **settings)
    assert not made.stderr
    changed = gone = 0
    for seen in rows.values():
        for before, after in itertools.pairwise(seen):
            same = after[: len(before)]
            gone += int((before.any(axis=1) & ~same.any(axis=1)).sum())
            changed += int((same.any(axis=1) & (before[:, 0] < same[:, 0])).sum())
    assert gone > 20, "what was spilled is zero"
    assert changed > 5, "an older live range's instructions have frame indices that they hadn't"


def test_the_same_bits_with_debug_information_and_in_every_process(compiler: Compiler) -> None:
    first, again, debug = (
        first_seen(compiler, "mixed.c", SHIPPED, *flags) for flags in ((), (), ("-g",))
    )
    assert set(first) == set(again) == set(debug) and len(first) > 5
    for name, rows in first.items():
        assert rows.tobytes() == again[name].tobytes() == debug[name].tobytes()
        assert rows.any(axis=1).all() and np.isfinite(rows).all()


def test_a_parallel_link(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share a vocabulary, and decide as one thread does."""
    flags = ("clang-22", "-O2", "-flto=thin", "-fPIC")
    parts = [compiler.folder / f"part{number}.o" for number in range(4)]
    for part in parts:
        compiler.run(*flags, f"-Dmain={part.stem}", "-c", compiler.inputs / "mixed.c", "-o", part)
    link = (*flags, "-shared", "-fuse-ld=lld", f"-Wl,--load-pass-plugin={compiler.plugin}")
    network(compiler.folder, "node")
    network(compiler.folder, "colour")
    uri = f"native:{compiler.folder}/"
    model = f"node={uri}node.onnx; colour={uri}colour.onnx; *={HEURISTIC}"
    made = {}
    for jobs, uris in ((1, ""), (1, model), (4, model)):
        monkeypatch.setenv("MLBRIDGE_REGISTER_ALLOCATION_MODEL", uris)
        monkeypatch.setenv("MLBRIDGE_REGISTER_ALLOCATION_ON_FAILURE", "fail")
        done = compiler.run(*link, f"-Wl,--thinlto-jobs={jobs}", *parts, "-o", "linked.so")
        assert not done.stderr
        made[jobs, uris] = (compiler.folder / "linked.so").read_bytes()
    assert made[1, model] == made[4, model] != made[1, ""]


def test_the_built_in_vocabulary_is_the_file(compiler: Compiler) -> None:
    assert Path(mlbridge.files.machine_vocabulary()).read_bytes() == SHIPPED.read_bytes()
    digest = hashlib.sha256(SHIPPED.read_bytes()).hexdigest()
    path = network(compiler.folder, "colour", vocabulary=digest)
    model = f"colour=native:{path}; *={HEURISTIC}"
    built_in = compiler.clang("mixed.c", model=model, on_failure="fail")
    assert not built_in.stderr
    decided = built_in.object
    made = compiler.clang("mixed.c", model=model, on_failure="fail", vocabulary=str(SHIPPED))
    assert not made.stderr and made.object == decided
    other = vocabulary(compiler, lambda name: [1.0] * DIMENSION)
    check_falls_back(compiler, model, other, "the model wants '" + digest)


def check_falls_back(compiler: Compiler, model: str, words: Path, says: str) -> None:
    plain = compiler.clang("mixed.c").object
    made = compiler.clang("mixed.c", model=model, vocabulary=str(words))
    assert len(made.warnings) == 1 and says in made.warnings[0], made.stderr
    assert str(words) in made.stderr
    assert made.object == plain
    assert compiler.clang("mixed.c", model=model, vocabulary=str(words), on_failure="fail").code


#: What is in the file, and what is said.
BROKEN: dict[str, tuple[str | None, str]] = {
    "no file": (None, "No such file"),
    "empty": ("", "not JSON"),
    "an array": (
        "[]",
        'expected an object with the objects "Opcodes" and "Operands"; there is no "Opcodes"',
    ),
    "no operands": ('{"Opcodes": {"ADD": [1]}}', 'there is no "Operands"'),
    "no opcode": ('{"Opcodes": {}, "Operands": {"Load": [1]}}', '"Opcodes" is empty'),
    "other operands": (
        '{"Opcodes": {"ADD": [1]}, "Operands": {"Lod": [1]}}',
        "none of its names is a kind of operand, such as 'Load'",
    ),
    "shorter": (
        '{"Opcodes": {"ADD": [1, 2]}, "Operands": {"Load": [1]}}',
        "Operands 'Load': expected 2 numbers as in the first vector, got 1",
    ),
    "infinite": ('{"Opcodes": {"ADD": [1e999]}, "Operands": {"Load": [1]}}', "not a finite number"),
    "deep": ("[" * 100_000, "nested more than three deep"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_vocabulary_that_cannot_be_used(compiler: Compiler, name: str) -> None:
    text, says = BROKEN[name]
    path = compiler.folder / "words.json"
    if text is not None:
        path.write_text(text)
    model = f"colour=native:{network(compiler.folder, 'colour')}; *={HEURISTIC}"
    check_falls_back(compiler, model, path, says)


def test_a_vocabulary_of_another_length(compiler: Compiler) -> None:
    words = vocabulary(compiler, lambda name: [1.0])
    model = f"colour=native:{network(compiler.folder, 'colour')}; *={HEURISTIC}"
    made = compiler.clang("mixed.c", model=model, vocabulary=str(words))
    assert len(made.warnings) == 1, made.stderr
    assert "input 'embedding' is different in dimension 0: 1 in the pass and 100" in made.stderr


def test_numbers_that_no_float_holds_become_the_largest(compiler: Compiler) -> None:
    words = vocabulary(compiler, lambda name: [1e300, -1e300])
    most = np.finfo(np.float32).max
    for rows in first_seen(compiler, "mixed.c", words).values():
        assert np.isfinite(rows).all() and (rows == [most, -most]).any(axis=0).all()


def triplets(compiler: Compiler, *options: str) -> dict[tuple[str, str, str], int]:
    compiler.run("clang-22", "-O2", "-S", "-emit-llvm", source_of(compiler))
    tell = f"-register-allocation-triplets={compiler.folder}/triplets"
    compiler.run("llc-22", "-load", compiler.plugin, tell, "-filetype=null", *options, "source.ll")
    lines = (compiler.folder / "triplets").read_text().splitlines()
    assert lines == sorted(lines, key=lambda line: line.split("\t")[1:])
    split = (line.split("\t") for line in lines)
    return {(head, relation, tail): int(count) for count, head, relation, tail in split}


def test_triplets_have_names_that_targets_share(compiler: Compiler) -> None:
    usual = triplets(compiler)
    assert usual["COPY", "Defines", "VirtualInteger32"] > 2
    assert usual["JCC", "Uses", "Block"] > 2 and ("JCC", "Uses", "Immediate") in usual
    assert ("MOV", "Accesses", "Load") in usual and ("RET", "Uses", "PhysicalInteger32") in usual
    assert any(head == "COPY" and relation == "Next" for head, relation, _ in usual)
    wide = triplets(compiler, "-mattr=+avx512f,+avx512vl")
    arm = triplets(compiler, "-mtriple=aarch64-linux-gnu")
    names, of_wide, of_arm = ({head for head, _, _ in of} for of in (usual, wide, arm))
    assert {"CVTSI", "DIVSS"} <= names & of_wide
    assert {"ADD", "COPY", "LDR", "SUBS"} <= of_arm
    assert {"ADD", "COPY"} <= names & of_arm
    every = names | of_wide | of_arm
    assert not [name for name in every if name not in ("Bcc",) and re.search(r"[a-z0-9]$", name)]


def test_triplets_that_cannot_be_written(compiler: Compiler) -> None:
    compiler.run("clang-22", "-O2", "-S", "-emit-llvm", source_of(compiler))
    tell = "-register-allocation-triplets=/nowhere/t"
    done = compiler.run(
        *("llc-22", "-load", compiler.plugin, tell, "-filetype=null", "source.ll"), check=False
    )
    assert done.returncode == 1
    assert (
        "error: register-allocation: -register-allocation-triplets=/nowhere/t: No su" in done.stderr
    )
