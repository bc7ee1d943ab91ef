# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queries that ask models, in SQLite's own program: answers, errors, and what is left then."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from beyond_llvm import ENVIRONMENT, RUNNERS, asked, record
from building import attempt, run
from once import SharedBuild
from onnx import TensorProto, helper, numpy_helper
from sampling import runners_of

import mlbridge

HERE = Path(__file__).parent
ROWS = 200
#: So many models a connection keeps open.
KEPT = 8
TABLE = (
    f"CREATE TABLE t(id INTEGER PRIMARY KEY, x REAL, y REAL); WITH n(i) AS (SELECT 1 UNION ALL "
    f"SELECT i + 1 FROM n WHERE i < {ROWS}) INSERT INTO t SELECT i, i / 8.0, (i * 37 % 101) / 4.0 "
    "FROM n;"
)
KILLED = """
import os, sys, mlbridge
asked = 0

def policy(observation, context):
    global asked
    asked += 1
    if asked == 100:
        os.kill(os.getpid(), 9)
    return float(observation["x"].sum())

specs = mlbridge.TensorSpec
signature = mlbridge.Signature([specs("x", "float32", [2])], [specs("y", "float32")])
with mlbridge.Server("unix:" + sys.argv[1], signature) as server:
    print("ready", flush=True)
    server.serve_forever(policy)
"""


@pytest.fixture(scope="session")
def extension(prefix: Path, shared_build: SharedBuild) -> Path:
    def build(folder: Path) -> None:
        flags = "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror"
        found = f"-DCMAKE_PREFIX_PATH={prefix}"
        run("cmake", "-S", HERE, "-B", folder, "-G", "Ninja", flags, found)
        run("cmake", "--build", folder)

    return shared_build("sqlite", build) / "mlbridge.so"


class Database:
    """A file with a table, and the program sqlite3 with the extension."""

    def __init__(self, extension: Path, file: Path) -> None:
        load = f".load '{extension.with_suffix('')}'"
        self.command = ["sqlite3", "-cmd", load, str(file)]
        self.ask(TABLE)

    def try_(self, query: str) -> subprocess.CompletedProcess[str]:
        return attempt(*self.command, input=query, env=ENVIRONMENT, timeout=120)

    def ask(self, query: str) -> list[list[str]]:
        done = self.try_(query)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    def refused(self, query: str) -> str:
        done = self.try_(query)
        assert done.returncode == 1 and done.stdout == "", done
        return done.stderr

    def contents(self) -> list[list[str]]:
        return self.ask("SELECT * FROM t ORDER BY id")


@pytest.fixture
def database(extension: Path, tmp_path: Path) -> Database:
    return Database(extension, tmp_path / "t.db")


def save(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], **weights: Any
) -> str:
    kept = [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()]
    made = helper.make_graph(nodes, "policy", inputs, outputs, kept)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(made, opset_imports=opset, ir_version=8), path)
    return f"native:{path}"


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network that scores two numbers, and rounds the same in each order of its sums."""
    chance = np.random.default_rng(1)
    return save(
        tmp_path_factory.mktemp("network") / "score.onnx",
        [
            helper.make_node("Gemm", ["x", "first"], ["sums"]),
            helper.make_node("Relu", ["sums"], ["hidden"]),
            helper.make_node("MatMul", ["hidden", "second"], ["score"]),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, [1, 1])],
        first=chance.integers(-9, 9, (2, 8)).astype(np.float32),
        second=chance.integers(-9, 9, (8, 1)).astype(np.float32),
    )


def cast(path: Path, kinds: list[int], to: int, shape: list[int | str] | None = None) -> str:
    """A network whose inputs are scalars, or of a shape, of these types; it answers their sum."""
    names = [f"x{i}" for i in range(len(kinds))]
    nodes = [
        helper.make_node("Cast", [name], [name + "d"], to=TensorProto.DOUBLE) for name in names
    ]
    nodes.append(helper.make_node("Sum", [name + "d" for name in names], ["sum"]))
    nodes.append(helper.make_node("ReduceSum", ["sum"], ["all"], keepdims=0))
    nodes.append(helper.make_node("Cast", ["all"], ["y"], to=to))
    inputs = [
        helper.make_tensor_value_info(name, kind, shape or [])
        for name, kind in zip(names, kinds, strict=True)
    ]
    return save(path, nodes, inputs, [helper.make_tensor_value_info("y", to, [])])


def test_the_answers_are_those_of_the_model(database: Database, network: str) -> None:
    rows = database.ask(f"SELECT x, y, mlbridge('{network}', x, y) FROM t")
    runner = mlbridge.open(network)
    assert len(rows) == ROWS
    for x, y, score in rows:
        expected = float(runner.evaluate(x=[[float(x), float(y)]])["score"][0, 0])
        assert float(score) == pytest.approx(expected, rel=1e-12)


def test_the_type_of_the_answer_is_the_outputs(database: Database, tmp_path: Path) -> None:
    for name, kind, answer in [
        ("bool", TensorProto.BOOL, "integer|1"),
        ("int8", TensorProto.INT8, "integer|-5"),
        ("int16", TensorProto.INT16, "integer|-5"),
        ("int32", TensorProto.INT32, "integer|-5"),
        ("int64", TensorProto.INT64, "integer|-5"),
        ("float16", TensorProto.FLOAT16, "real|-5.0"),
        ("float32", TensorProto.FLOAT, "real|-5.0"),
        ("float64", TensorProto.DOUBLE, "real|-5.0"),
    ]:
        uri = cast(tmp_path / f"{name}.onnx", [TensorProto.INT64, TensorProto.FLOAT], kind)
        (row,) = database.ask(f"SELECT typeof(a), a FROM (SELECT mlbridge('{uri}', 1, -6.0) AS a)")
        assert "|".join(row) == answer, name
    for name, kind in [
        ("uint8", TensorProto.UINT8),
        ("uint16", TensorProto.UINT16),
        ("uint32", TensorProto.UINT32),
    ]:
        uri = cast(tmp_path / f"{name}.onnx", [kind], kind)
        assert database.ask(f"SELECT mlbridge('{uri}', 200)") == [["200"]], name


def test_whole_numbers_stay_exact(database: Database, tmp_path: Path) -> None:
    kinds: list[int] = [TensorProto.INT64, TensorProto.BOOL]
    uri = cast(tmp_path / "exact.onnx", kinds, TensorProto.INT64)
    most = 2**53
    assert database.ask(f"SELECT mlbridge('{uri}', {most}, 0)") == [[str(most)]]
    assert database.ask(f"SELECT mlbridge('{uri}', 3.0, 1)") == [["4"]]
    assert "1.5" in database.refused(f"SELECT mlbridge('{uri}', 1.5, 0)")
    assert "bool" in database.refused(f"SELECT mlbridge('{uri}', 1, 2)")


def test_lengths_that_may_change(database: Database, tmp_path: Path) -> None:
    kind = TensorProto.FLOAT
    one = cast(tmp_path / "one.onnx", [kind], kind, ["n"])
    assert database.ask(f"SELECT mlbridge('{one}', 1, 2, 3), mlbridge('{one}', 5)") == [
        ["6.0", "5.0"]
    ]
    two = cast(tmp_path / "two.onnx", [kind, kind], kind, ["batch", 2])
    assert database.ask(f"SELECT mlbridge('{two}', 1, 2, 3, 4)") == [["10.0"]]
    assert "expected 4 numbers, got 3" in database.refused(f"SELECT mlbridge('{two}', 1, 2, 3)")


MESSAGES = {
    "mlbridge()": "URI ''",
    "mlbridge(NULL, x, y)": "URI ''",
    "mlbridge(7, x, y)": "URI '7'",
    "mlbridge('native:/nowhere.onnx', x, y)": "not found: 'native:/nowhere.onnx'",
    "mlbridge('{0}?deadlin=1s', x, y)": "deadlin",
    "mlbridge('{0}', x)": "expected 2 numbers, got 1; the model is (x: float32[1, 2]) -> (score",
    "mlbridge('{0}', x, y, 1)": "expected 2 numbers, got 3",
    "mlbridge('{0}', x, CASE id WHEN 99 THEN NULL ELSE y END)": "a number for 'x', got NULL",
    "mlbridge('{0}', x, CASE id WHEN 99 THEN '1' ELSE y END)": "a number for 'x', got a text",
    "mlbridge('{0}', x, CASE id WHEN 99 THEN x'31' ELSE y END)": "a number for 'x', got a blob",
    "mlbridge('{0}', x, CASE id WHEN 99 THEN 1e99 ELSE y END)": "not in float32's range",
    "mlbridge('{1}', x, y)": "expected one number as the answer; the model is (x0: float32[2]) -> ",
    "mlbridge('{2}', x, y)": "expected one number as the answer; the model is (x: float32[2]) -> ",
    "mlbridge('{3}', x, y)": "was used as float64",
    "mlbridge('unix:/nowhere.sock', x, y)": "unavailable: 'unix:/nowhere.sock'",
}


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Models that answer two outputs and a vector, and one that takes texts."""
    folder = tmp_path_factory.mktemp("odd")
    info = helper.make_tensor_value_info
    node, kind = helper.make_node, TensorProto.FLOAT
    double = [node("Identity", ["x0"], ["a"]), node("ReduceSum", ["x0"], ["b"], keepdims=0)]
    outputs = [info("a", kind, [2]), info("b", kind, [])]
    vector = [node("Identity", ["x"], ["y"])]
    text = [node("Identity", ["x"], ["y"])]
    return [
        save(folder / "double.onnx", double, [info("x0", kind, [2])], outputs),
        save(folder / "vector.onnx", vector, [info("x", kind, [2])], [info("y", kind, [2])]),
        save(
            folder / "text.onnx",
            text,
            [info("x", TensorProto.STRING, [2])],
            [info("y", TensorProto.STRING, [2])],
        ).replace("native:", "onnx:"),
    ]


@pytest.mark.parametrize("call", MESSAGES)
def test_a_call_that_fails_changes_nothing(
    database: Database, network: str, odd: list[str], call: str
) -> None:
    before = database.contents()
    asks = call.format(network, *odd)
    for change in (f"UPDATE t SET x = {asks}", f"INSERT INTO t SELECT id + 1000, {asks}, y FROM t"):
        assert MESSAGES[call] in database.refused(change)
        # What the transaction did before is kept.
        database.refused(f"BEGIN; DELETE FROM t WHERE id = 7;\n{change};\nCOMMIT;")
        restored = f"INSERT INTO t VALUES ({', '.join(before[6])})"
        assert database.contents() == before[:6] + before[7:]
        database.ask(restored)
    assert database.contents() == before


def test_files_and_servers_are_not_for_a_schema(database: Database, network: str) -> None:
    database.ask(f"CREATE VIEW v AS SELECT mlbridge('{network}', x, y) FROM t")
    assert "unsafe use of mlbridge()" in database.refused("SELECT * FROM v")


@contextlib.contextmanager
def killed_server(folder: Path) -> Iterator[str]:
    """One that kills itself when it is asked for the hundredth time."""
    (folder / "server.py").write_text(KILLED)
    command = [sys.executable, str(folder / "server.py"), str(folder / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield f"unix:{folder / 's'}"
            assert process.wait(60) == -9
        finally:
            process.kill()


@pytest.mark.parametrize(
    "change", ["UPDATE t SET y = {}", "INSERT INTO t SELECT id + 999, x, {} FROM t"]
)
def test_a_server_that_is_killed_in_mid_query(
    database: Database, tmp_path: Path, change: str
) -> None:
    before = database.contents()
    with killed_server(tmp_path) as uri:
        assert "mlbridge: " in database.refused(change.format(f"mlbridge('{uri}', x, y)"))
    assert database.contents() == before
    # A new one at the same place is found.
    with killed_server(tmp_path) as uri:
        lines = [change.format(f"mlbridge('{uri}', x, y)") + " WHERE id < 90;"] * 2
        done = database.try_("\n".join(lines))
        assert done.returncode == 1 and "mlbridge: " in done.stderr


def signature() -> mlbridge.Signature:
    spec = mlbridge.TensorSpec
    return mlbridge.Signature([spec("x", "float32", [2])], [spec("y", "float32")])


@contextlib.contextmanager
def serving(
    address: str, policy: Callable[..., Any], **limits: Any
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A server on a thread: its address, and what ends it and tells its statistics."""
    result: list[Any] = []
    with mlbridge.Server(address, signature(), **limits) as server:
        thread = threading.Thread(target=lambda: result.append(server.serve_forever(policy)))

        def end() -> Any:
            server.stop()
            thread.join(60)
            return result[0] if result else None

        thread.start()
        try:
            yield server.address, end
        finally:
            end()


def test_a_model_is_opened_once_and_not_too_many_are_kept(
    database: Database, tmp_path: Path
) -> None:
    def policy(observation: Any, context: Any) -> float:
        return float(observation["x"].sum())

    # While one more is opened, the oldest is still there.
    with serving(f"unix:{tmp_path / 's'}", policy, max_connections=KEPT + 1) as (address, end):
        asks = f"SELECT sum(mlbridge('{address}', x, y)) FROM t;"
        assert len(database.ask(asks * 3)) == 3
        uris = f"'{address}?retries=9?deadline=' || (10 + id % {{}}) || 's'"
        few, many = uris.format(KEPT), uris.format(2 * KEPT)
        database.ask(f"SELECT sum(mlbridge({few}, x, y)) FROM t")
        database.ask(f"SELECT sum(mlbridge({many}, x, y)) FROM t WHERE id <= {4 * KEPT}")
        assert end().connections == 1 + KEPT + 4 * KEPT


def test_the_deadline_ends_a_query(database: Database, tmp_path: Path) -> None:
    over = threading.Event()

    def policy(observation: Any, context: Any) -> float:
        over.wait(60)
        return 0.0

    with serving(f"unix:{tmp_path / 's'}", policy) as (address, _):
        said = database.refused(f"UPDATE t SET x = mlbridge('{address}?deadline=50ms', x, y)")
        over.set()
    assert "deadline exceeded" in said


def generated(seed: int) -> str:
    """A query in which {} is a row's score."""
    draw = random.Random(seed)
    limit = draw.randrange(-400, 400)
    where = draw.choice(
        [f"id % {draw.randrange(2, 6)} = 1", f"{{}} > {limit}", f"x < y OR {{}} < {limit}", "1"]
    )
    group = draw.randrange(3, 9)
    return draw.choice(
        [
            f"SELECT id, {{}} FROM t WHERE {where} ORDER BY {{}} DESC, id LIMIT {group}",
            f"SELECT count(*), sum({{}}), min({{}}), max({{}}) FROM t WHERE {where}",
            f"SELECT id % {group}, avg({{}}) FROM t WHERE {where} GROUP BY 1 ORDER BY 1",
            f"SELECT id, CASE WHEN {where} THEN {{}} ELSE -{{}} END FROM t ORDER BY id",
            f"SELECT max(s) FROM (SELECT {{}} + x AS s FROM t WHERE {where} UNION ALL SELECT -9e9)",
            f"WITH s(id, its) AS (SELECT id, {{}} FROM t WHERE {where}) "
            f"SELECT count(*) FROM s AS a JOIN s AS b ON b.id = a.id + {group} AND b.its > a.its",
        ]
    )


def scores(network: str) -> list[float]:
    """The network's scores by NumPy, which are exact, as all of the sums are short."""
    first, second = (
        numpy_helper.to_array(w) for w in onnx.load(network.partition(":")[2]).graph.initializer
    )
    rows = np.array([[i / 8, (i * 37 % 101) / 4] for i in range(1, ROWS + 1)])
    return [float(score) for score in (np.maximum(rows @ first, 0) @ second)[:, 0]]


@pytest.mark.parametrize(("runner", "count"), runners_of("sqlite", RUNNERS, few=10, many=20))
def test_every_runner_gives_the_same_answers(
    database: Database, network: str, tmp_path: Path, runner: str, count: int
) -> None:
    """In generated queries, in place of a column that has the right ones."""
    rows = ", ".join(f"({i}, {score!r})" for i, score in enumerate(scores(network), 1))
    database.ask(
        f"CREATE TABLE right(id INTEGER PRIMARY KEY, score REAL); INSERT INTO right VALUES {rows}"
    )
    queries = [generated(seed) for seed in range(count)]
    stored = "(SELECT score FROM right WHERE right.id = t.id)"
    expected = [database.ask(query.replace("{}", stored)) for query in queries]
    assert sum(len(answer) for answer in expected) > 5 * count
    with asked(runner, Path(network.partition(":")[2]), tmp_path) as uri:
        called = f"mlbridge('{uri}', x, y)"
        answers = [database.ask(query.replace("{}", called)) for query in queries]
    rows_given = sum(map(len, answers))
    record("sqlite", runner, count, rows_given, answers == expected)
    assert answers == expected
