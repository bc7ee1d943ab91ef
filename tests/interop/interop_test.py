# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every transport with every serdes, both languages on both sides, in both directions.

What came of each combination is written to build/test/interop.json. The two sides are processes
of their own; they exchange tensors of every element type, of fixed and of changing shapes, and an
error.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from reports import add_row
from result_tables import section
from sampling import nightly

ROOT = Path(__file__).resolve().parents[2]
DEV = ROOT / "build" / "cmake" / "dev"
REPORT = ROOT / "build" / "test" / "interop.json"
SECONDS = 60

TRANSPORTS = ("pipe", "unix", "shm", "grpc")
SERDES = ("json", "bitstream", "protobuf")
LANGUAGES = ("C++", "Python")
# "client": the compiler connects and asks. "server": the compiler listens and is driven.
DIRECTIONS = ("client", "server")
VALUES = (TRANSPORTS, SERDES, LANGUAGES, LANGUAGES, DIRECTIONS)
COMBINATIONS = list(itertools.product(*VALUES))


def is_sampled(transport: str, serdes: str, *sides: str) -> bool:
    """Each pair of transport and serdes runs with two of the eight kinds of sides, each pair with
    others."""
    pair = 3 * TRANSPORTS.index(transport) + SERDES.index(serdes)
    kinds: list[tuple[str, ...]] = list(itertools.product(*VALUES[2:]))
    return kinds.index(sides) % 4 == pair % 4


def program(language: str) -> list[str]:
    """The peer in a language."""
    if language == "C++":
        return [os.environ.get("MLBRIDGE_INTEROP_PEER", str(DEV / "tests" / "interop-peer"))]
    return [sys.executable, str(Path(__file__).with_name("peer.py"))]


def environment(language: str) -> dict[str, str]:
    """Each language has components of its own build."""
    components = os.environ.get("MLBRIDGE_COMPONENT_PATH", str(DEV / "lib" / "mlbridge"))
    return dict(
        os.environ, **({"MLBRIDGE_COMPONENT_PATH": components} if language == "C++" else {})
    )


@contextlib.contextmanager
def listening(language: str, role: str, uri: str) -> Iterator[str]:
    """A peer that listens; where."""
    with subprocess.Popen(
        [*program(language), role, uri],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(language),
    ) as process:
        try:
            assert process.stdout is not None
            word, _, address = process.stdout.readline().strip().partition(" ")
            assert word == "ready", f"{word} {address}"
            yield address
        finally:
            process.kill()


def outcome(
    folder: Path, transport: str, serdes: str, compiler: str, model: str, direction: str
) -> str:
    """ "passed", or what went wrong."""
    place = "localhost:0" if transport == "grpc" else str(folder / "s")
    waits, serves = (model, "serve") if direction == "client" else (compiler, "environment")
    comes, asks = (compiler, "ask") if direction == "client" else (model, "drive")
    with listening(waits, serves, f"{transport}:{place}") as address:
        done = subprocess.run(
            [*program(comes), asks, f"{address}?serdes={serdes}"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=environment(comes),
            check=False,
        )
    return (done.stdout + done.stderr).strip() or f"ended with {done.returncode}"


def test_each_two_values_are_sampled_together() -> None:
    sampled = [row for row in COMBINATIONS if is_sampled(*row)]
    assert len(sampled) == len(COMBINATIONS) // 4
    for one, other in itertools.combinations(range(len(VALUES)), 2):
        together = {(row[one], row[other]) for row in sampled}
        assert together == set(itertools.product(VALUES[one], VALUES[other]))


@pytest.mark.timeout(SECONDS * 2)
@pytest.mark.parametrize(
    ("transport", "serdes", "compiler", "model", "direction"),
    [row if is_sampled(*row) else nightly(*row) for row in COMBINATIONS],
    ids=["-".join(row) for row in COMBINATIONS],
)
def test_combination(
    transport: str,
    serdes: str,
    compiler: str,
    model: str,
    direction: str,
    tmp_path: Path,
) -> None:
    try:
        result = outcome(tmp_path, transport, serdes, compiler, model, direction)
    except (AssertionError, subprocess.TimeoutExpired) as error:
        result = f"failed: {error}"
    row = {
        "transport": transport,
        "serdes": serdes,
        "compiler_side": compiler,
        "model_side": model,
        "direction": direction,
    }

    def tell(rows: list[dict[str, str]]) -> None:
        passed = sum(one["result"] == "passed" for one in rows)
        section(
            REPORT,
            "Interoperability and fault injection (`make test`, `make nightly`)",
            f"{passed} of {len(rows)} combinations of transport, serdes, language on each side and"
            " direction passed.",
        )

    add_row(REPORT, {**row, "result": result}, *row, tell=tell)
    assert result == "passed"
