# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`mlbridge specialize` on small programs; what the clock says is made up, except for one test."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from small_program import (
    ALIGNED,
    COUNT,
    MAIN,
    OTHER,
    RUN,
    broken_compiler,
    made_with,
    settings,
    specialized,
    timing,
)

from mlbridge import files
from mlbridge.cli import main
from mlbridge.clock import Timing
from mlbridge.errors import Busy, DeadlineExceeded, InvalidArgument, NotFound
from mlbridge.ratio import Ratio
from mlbridge.specializing import decisions_file
from mlbridge.specializing.choosing import Measured, choose
from mlbridge.specializing.recipes import Recipe, first, recipes
from mlbridge.specializing.search import specialize
from mlbridge.specializing.steps import processor
from mlbridge.specializing.workplace import Workplace
from mlbridge.workspace import BuildFailed, Variant, Workspace


def test_the_fastest_way_that_is_confirmed_is_in_the_file(
    tree: Path, clock: Callable[..., list[str]], tmp_path: Path
) -> None:
    commands = clock({"profile-full": 0.8, "profile-thin": 0.9})
    found = specialized(tree)
    assert found.chosen == Recipe(profile=True, link="full") and not found.problems
    assert set(commands) == {RUN, OTHER} and commands[-1] == OTHER
    assert not (tmp_path / "work").exists() and not (tree / "app").exists()
    decisions = decisions_file.read(tmp_path / "app.decisions")
    assert decisions.recipe == found.chosen and "clang version 22" in decisions.compiler
    show = ["llvm-profdata-22", "show", "--all-functions", str(tmp_path / "app.decisions")]
    shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    assert "count:" in shown and "main:" in shown

    first = made_with(tmp_path / "app.decisions", tree)
    elsewhere = tmp_path / "elsewhere" / "deeper"
    elsewhere.parent.mkdir()
    subprocess.run(["cp", "-r", tree, elsewhere], check=True)
    copied = tmp_path / "elsewhere" / "copy.decisions"
    copied.write_bytes((tmp_path / "app.decisions").read_bytes())
    assert made_with(copied, elsewhere, jobs=8) == first
    assert made_with(copied, elsewhere, jobs=1) == first
    subprocess.run(["make", "-B", "CC=clang-22", "CFLAGS=-O3"], cwd=tree, check=True)
    assert (tree / "app").read_bytes() != first


@pytest.mark.parametrize(
    ("times", "confirmed", "chosen"),
    [
        ({}, {}, "none"),
        ({"profile-full": 0.8}, {"profile-full": 1.0, "profile": 1.0}, "none"),
        ({"profile-full": 0.8}, {"profile-full": 1.3, "profile": 0.9}, "profile"),
        ({"profile-full": 0.8}, {"profile-full": 1.3, "partial-full": 0.95}, "partial-full"),
        ({"profile-full": 0.8}, {"profile-full": 0.995}, "none"),
    ],
)
def test_what_is_not_confirmed_is_not_used(
    tree: Path,
    clock: Callable[..., list[str]],
    times: Mapping[str, float],
    confirmed: Mapping[str, float],
    chosen: str,
) -> None:
    clock(times, confirmed)
    found = specialized(tree)
    assert found.chosen.name == chosen and found.notes
    decisions = tree.parent / "app.decisions"
    if chosen == "none":
        assert decisions_file.read(decisions).words() == []
        plain = ["make", "-B", "CC=clang-22", "CFLAGS=-O3"]
        subprocess.run(plain, cwd=tree, check=True, capture_output=True)
        assert made_with(decisions, tree) == (tree / "app").read_bytes()


def test_objectives_and_levers(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({"profile-full": 0.8})
    found = specialized(tree, objective="time-at-no-more-bytes")
    links = {"profile-full-cold", "profile-thin-cold", "profile-cold"}
    assert links <= found.raced.keys()  # any of them may have few enough bytes
    assert found.chosen == Recipe() and "with more bytes it may be faster" in found.notes[-1]
    clock({"profile": 0.8})
    assert specialized(tree, levers=("profile",)).chosen.name == "profile"
    assert specialized(tree, levers=()).chosen == Recipe()
    with pytest.raises(InvalidArgument, match="expected one of"):
        specialized(tree, objective="joy")


def test_a_wrong_program_is_reported_and_not_used(
    tree: Path, clock: Callable[..., list[str]]
) -> None:
    clock({"profile-full": 0.5, "profile": 0.8})
    (tree / "main.c").write_text(
        MAIN.replace("return argc", 'if (FULL) puts("other");\n  return argc')
    )
    cases = '*--version*) ;;\n*-flto=full*) set -- "$@" -DFULL=1 ;;\n*) set -- "$@" -DFULL=0 ;;'
    found = specialized(tree, compiler=broken_compiler(tree.parent, cases))
    names = {name for name, text in found.problems.items() if text.startswith("wrong")}
    firsts = {"profile-full", Recipe(True, link="full", tune=processor("clang-22")).name}
    assert names == firsts  # others with this link aren't tried
    assert "standard output differs" in found.problems["profile-full"]
    assert found.chosen.name == "profile"
    assert (tree.parent / "work/trees/profile-full/app").is_file()
    wrong = decisions_file.read(tree.parent / "app.decisions.wrong")
    assert wrong.recipe == Recipe(True, link="full")


def test_a_program_that_hangs_is_wrong(
    tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At once, or when it has run a while; what hangs as it always did is not measured."""
    (tree / "main.c").write_text(
        MAIN.replace("return argc", "if (HANG) for (volatile int i = 0;; i = 1);\n  return argc")
    )
    cases = '*--version*) ;;\n*-flto=full*) set -- "$@" -DHANG=1 ;;\n*) set -- "$@" -DHANG=0 ;;'
    compiler = broken_compiler(tmp_path, cases)

    def timed(
        self: Workspace, variants: Sequence[Variant], command: str, seconds: float, **_: Any
    ) -> Timing:
        names = [variant.name for variant in variants]
        if hangs in names:
            raise DeadlineExceeded(f"{hangs}: `{command}` did not end within 2 s")
        return timing(names, {"profile": 0.8, "profile-thin": 0.7})

    monkeypatch.setattr(Workspace, "time", timed)
    hangs, levers = "profile-thin", ("profile", "link")
    found = specialized(tree, compiler=compiler, levers=levers, timeout=2.0)
    assert found.chosen.name == "profile"
    for name in ("profile-full", "profile-thin"):
        assert found.problems[name].startswith("wrong") and "did not end" in found.problems[name]
    assert (tmp_path / "work/trees/profile-full/app").is_file()
    hangs = "none"
    shutil.rmtree(tmp_path / "work")
    with pytest.raises(InvalidArgument, match=r"none: .* did not end .* the same each time"):
        specialized(tree, compiler=compiler, levers=levers, timeout=2.0)


def test_what_leads_is_made_for_the_processor(
    tree: Path, clock: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("mlbridge.specializing.steps.processor", lambda compiler: "skylake")
    clock({"profile-full": 0.8, "profile-full-for-skylake": 0.7})
    found = specialized(tree)
    assert found.chosen == Recipe(True, link="full", tune="skylake")
    assert {"profile-full", "profile"} <= found.confirmed.keys(), "what each part gave"
    words = decisions_file.read(tmp_path / "app.decisions").words()
    assert "-mtune=skylake" in words and not any("-march" in word for word in words)
    assert specialized(tree, levers=("profile", "link")).chosen == Recipe(True, link="full")


def test_versions_for_newer_processors(
    tree: Path,
    clock: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    clock({"profile-full": 0.8, "profile-full-versions": 0.7})
    levers = ("profile", "link", "versions")
    found = specialized(tree, levers=levers)
    assert found.chosen == Recipe(True, link="full", versions=True)
    assert {"profile-full", "profile"} <= found.confirmed.keys(), "what each part gave"
    file = tmp_path / "app.decisions"
    assert b"x86_64_v3" in made_with(file, tree)
    run = ["qemu-x86_64", "-cpu", "Nehalem", "./app", "bananas"]
    old = subprocess.run(run, cwd=tree, capture_output=True, timeout=60)
    new = subprocess.run(run[3:], cwd=tree, capture_output=True, timeout=60)
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert main(["flags", "--decisions", str(file)]) == 0 and not capsys.readouterr().err
    plugin, other = files.plugin("multiversioning"), tmp_path / "multiversioning"
    monkeypatch.setattr("mlbridge.files.plugin", lambda name: str(other))
    other.write_text("another build")
    assert main(["flags", "--decisions", str(file)]) == 0
    assert "another build of the plugin" in capsys.readouterr().err
    other.unlink()
    with pytest.raises(NotFound, match="clang22"):
        decisions_file.read(file).words()
    for made in (*tree.rglob("*.o"), tree / "app"):
        made.unlink()
    monkeypatch.setattr("mlbridge.files.plugin", lambda name: plugin)
    found = specialized(tree, levers=levers, objective="time-at-no-more-bytes")
    with_versions = [name for name in found.raced if name.endswith("versions")]
    assert len(with_versions) == 1, "for a note"
    assert (found.raced[with_versions[0]].bytes or 0) > 1
    monkeypatch.setattr("mlbridge.files.plugin", lambda name: str(other))
    found = specialized(tree, levers=levers)
    assert found.chosen == Recipe(True, link="full") and "no versions were made" in found.notes[0]


#: It is there when the run ends, and in a session of its own.
SERVER = (
    "./app a; setsid sh -c '> ready; exec sleep 600' & until test -e ready; do :; done; rm ready"
)


def broken_run(text: str) -> dict[str, Any]:
    return {"runs": (text,), "confirm_runs": ()}


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        (broken_run("echo $RANDOM $$"), InvalidArgument, "differs from run to run"),
        (broken_run("./ap"), InvalidArgument, "ended with 127"),
        (broken_run("kill -SEGV $$"), InvalidArgument, "ended with -11"),
        (broken_run("echo nothing"), InvalidArgument, "no run wrote a profile"),
        (broken_run("./app a; date >> log"), InvalidArgument, "makes log larger each time"),
        (broken_run(SERVER), InvalidArgument, "leaves processes running"),
        ({"build": "make fail"}, BuildFailed, "No rule to make target"),
        ({"build": "cp /bin/true app"}, BuildFailed, "called no compiler"),
        ({"check": "false"}, InvalidArgument, "the check `false` ended with 1"),
        ({"runs": ()}, InvalidArgument, "there is no run"),
        ({"runs": (" ",)}, InvalidArgument, "a command is empty"),
        ({"outputs": ("/tmp/x",)}, InvalidArgument, "is no file in the tree"),
        ({"outputs": ("never",)}, InvalidArgument, "no run wrote the file never"),
        ({"confirm_runs": (RUN,)}, InvalidArgument, "should be another input"),
        ({"compiler": "true"}, Exception, "expected a clang"),
    ],
)
def test_what_can_not_be_measured_is_refused(
    tree: Path, more: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text.replace("$", r"\$")):
        specialized(tree, **more)
    assert not (tree.parent / "app.decisions").exists()


def test_runs_that_write_different_files(tree: Path) -> None:
    """With the real clock: what a run leaves is no output of the next one."""
    runs = tuple(f"{run} > {name}; cat {name}" for run, name in ((RUN, "a.out"), (OTHER, "b.out")))
    more = {"runs": runs, "confirm_runs": (f"{OTHER}x > a.out; cp a.out b.out",)}
    found = specialized(tree, outputs=("a.out", "b.out"), seconds=0.05, **more)
    assert not found.problems


def test_a_check_stands_for_the_output(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({"profile": 0.8})
    (tree / "main.c").write_text(MAIN.replace("return argc", 'printf("%p", &sum);\n return argc'))
    with pytest.raises(InvalidArgument, match="differs from run to run"):
        specialized(tree)
    assert specialized(tree, check="./app x > /dev/null").chosen.name == "profile"


def test_a_program_that_ends_in_any_way_is_profiled(
    tree: Path, clock: Callable[..., list[str]]
) -> None:
    clock({"profile": 0.8})
    (tree / "main.c").write_text(
        "#include <unistd.h>\n"
        + MAIN.replace("return argc", "fflush(stdout); _exit(0);\n  return argc")
    )
    assert specialized(tree).chosen.name == "profile"


def test_names_of_compilers_and_archives(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({"profile-thin": 0.8})
    (tree / "Makefile").write_text(
        "CC = gcc\napp: main.o libcount.a\n\tgcc -O3 -o $@ main.o -L. -lcount\n"
        "main.o: main.c\n\t$(CC) -O3 -c main.c\n"
        "libcount.a: src/count.c\n\tcc -O3 -c -o count.o src/count.c\n\tar rcs $@ count.o\n"
    )
    found = specialized(tree)
    assert found.chosen.name == "profile-thin" and not found.problems
    assert "the build calls cc and gcc by name" in found.notes[-1]


def test_cmake(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({"profile-full": 0.8})
    (tree / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(app LANGUAGES C CXX)\n"
        "add_library(count STATIC src/count.c)\nadd_executable(app main.c)\n"
        "target_link_libraries(app count)\n"
    )
    prepare = "cmake -S . -B out -DCMAKE_BUILD_TYPE=Release -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=$PWD"
    found = specialized(tree, prepare=prepare, build="cmake --build out -j2")
    assert found.chosen.name == "profile-full" and not found.problems
    flags = shlex.join(decisions_file.read(tree.parent / "app.decisions").words())
    made = []
    for name, jobs in (("here", "1"), ("there/and/deeper", "8")):
        copy = tree.parent / name
        shutil.copytree(tree, copy)
        words = ["-S", ".", "-B", "out", "-DCMAKE_BUILD_TYPE=Release"]
        words += ["-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22"]
        words += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
        for cmake in (["cmake", *words], ["cmake", "--build", "out", "-j", jobs]):
            done = subprocess.run(cmake, cwd=copy, check=True, capture_output=True, text=True)
            assert "warning" not in done.stderr.lower(), done.stderr
        made.append((copy / "out/app").read_bytes())
    assert made[0] == made[1]


def test_code_that_has_changed_since_is_compiled_without(
    tree: Path, clock: Callable[..., list[str]], tmp_path: Path
) -> None:
    clock({"profile": 0.8})
    specialized(tree)
    (tree / "src/count.c").write_text(
        COUNT.replace("int found = 0;", "int found = 0;\n  if (letter == 'q') return -1;")
    )
    words = decisions_file.read(tmp_path / "app.decisions").words()
    make = ["make", "-B", f"CC=clang-22 {shlex.join(words)}", "CFLAGS=-O3 -Werror"]
    done = subprocess.run(make, cwd=tree, check=True, capture_output=True, text=True)
    assert "count" in done.stderr and "warning" in done.stderr, done.stderr


def measured(bytes_: float, time: float) -> Measured:
    return Measured(bytes_, Ratio(time, time * 0.99, time * 1.01, 50))


@pytest.mark.parametrize(
    ("objective", "chosen"),
    [("time", "partial"), ("bytes", "profile-cold"), ("time-at-no-more-bytes", "profile-full")],
)
def test_the_objective_decides(objective: str, chosen: str) -> None:
    found = {
        "profile": measured(1.3, 0.8),
        "partial": measured(1.2, 0.801),  # as fast
        "profile-thin": measured(1.1, 0.805),  # not quite
        "profile-full": measured(0.99, 0.9),
        "profile-cold": measured(0.7, 1.0),
        "profile-full-cold": measured(0.6, 1.1),
    }
    best = choose(found, recipes(), objective)
    assert best is not None and best.name == chosen


# The decisions file


@pytest.fixture
def decisions(tree: Path, clock: Callable[..., list[str]], tmp_path: Path) -> Path:
    clock({"profile": 0.8})
    specialized(tree, levers=("profile",))
    return tmp_path / "app.decisions"


def damaged(content: bytes, kind: str) -> bytes:
    if kind == "half":
        return content[: len(content) // 2]
    if kind == "profile":
        return content[:100] + bytes([content[100] ^ 1]) + content[101:]
    if kind == "archive":
        at = content.index(b"PK\x03\x04") + 60
        return content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]
    if kind == "empty":
        return b""
    return b"x" + content


@pytest.mark.parametrize("kind", ["half", "profile", "archive", "empty", "longer"])
def test_a_damaged_file_is_refused(
    decisions: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    decisions.write_bytes(damaged(decisions.read_bytes(), kind))
    assert main(["flags", "--decisions", str(decisions)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and str(decisions) in err and err.count("\n") == 1


def test_another_compiler_than_the_file_is_for(
    decisions: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    newer = tmp_path / "clang-23"
    newer.write_text('#!/bin/sh\necho "clang version 23.1.0"\n')
    newer.chmod(0o755)
    assert main(["flags", "--decisions", str(decisions), "--compiler", str(newer)]) == 1
    assert "run mlbridge specialize with that" in capsys.readouterr().err
    newer.write_text('#!/bin/sh\necho "Debian clang version 22.9.9"\n')
    assert main(["flags", "--decisions", str(decisions), "--compiler", str(newer)]) == 0
    out, err = capsys.readouterr()
    assert "-fprofile-use=" in out and "was measured with" in err


def test_flags_and_wrapper(
    decisions: Path, tree: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words in (["phase-ordering"], ["--effort", "1"]):
        assert main(["flags", *words, "--decisions", str(decisions)]) == 2
        assert f"--decisions goes without {words[0]}" in capsys.readouterr().err
    assert main(["flags"]) == 2
    assert "are required: optimization" in capsys.readouterr().err
    assert main(["wrapper", "--decisions", str(decisions), "-o", str(tree / "main.c")]) == 1
    assert "is there, and no script of `mlbridge wrapper`" in capsys.readouterr().err
    script = tmp_path / "cc"
    for _ in range(2):
        assert main(["wrapper", "--decisions", str(decisions), "-o", str(script)]) == 0
    subprocess.run(["make", "-B", f"CC={script}", "CFLAGS=-O3"], cwd=tree, check=True)
    assert (tree / "app").read_bytes() == made_with(decisions, tree)
    content = decisions_file.read(decisions).content
    decisions_file.write(decisions, b"", {**content, "recipe": Recipe()._asdict()})
    done = subprocess.run([script, "-c", "main.c"], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1 and "has changed" in done.stderr
    decisions.rename(tmp_path / "moved")
    done = subprocess.run([script, "-c", "main.c"], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1 and "is gone" in done.stderr


def test_a_strangers_file_has_no_say_in_what_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tmp_path / "clang-22"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    content = {"recipe": Recipe()._asdict(), "compiler": "?", "settings": {"compiler": str(evil)}}
    decisions_file.write(tmp_path / "file", b"", content)
    for command in (["flags"], ["wrapper", "-o", str(tmp_path / "cc")]):
        assert main([*command, "--decisions", str(tmp_path / "file")]) == 1
        assert "is for '?'" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


def test_every_recipe_is_read_back(tmp_path: Path) -> None:
    for recipe in [Recipe(), *recipes(), ALIGNED, Recipe(True, tune="atom", versions=True)]:
        content = {"recipe": recipe._asdict(), "compiler": "clang"}
        profile = b"\xfflprofi\x81" * recipe.profile
        decisions_file.write(tmp_path / "file", profile, content)
        assert decisions_file.read(tmp_path / "file").recipe == recipe
    for odd in (
        *({"link": "sometimes"}, {"profile": 1}, {"more": True}, {"options": 1}),
        *({"tune": "znver5 -fplugin=x"}, {"tune": 1}),
        *({"options": [["load", "evil.so"]]}, {"options": [["unroll-threshold", "1 -load=x"]]}),
    ):
        content = {"recipe": {**Recipe()._asdict(), **odd}, "compiler": "clang"}
        decisions_file.write(tmp_path / "file", b"", content)
        with pytest.raises(InvalidArgument, match=r"decisions\.json"):
            decisions_file.read(tmp_path / "file")
    assert len({recipe.name for recipe in recipes()}) == len(recipes())


# The folder


def test_what_a_killed_one_has_left_running_is_ended(tmp_path: Path) -> None:
    work = tmp_path / "work"
    Workplace(work, {}).close()
    env = {**os.environ, "MLBRIDGE_SPECIALIZATION": str(work.resolve())}
    elsewhere = {**env, "MLBRIDGE_SPECIALIZATION": str(tmp_path / "other")}
    with (
        subprocess.Popen(["sleep", "600"], env=env) as stray,
        subprocess.Popen(["sleep", "600"], env=elsewhere) as stranger,
    ):
        ended = threading.Thread(target=stray.wait)
        ended.start()
        later = Workplace(work, {})
        later.close()
        ended.join()
        assert later.strays == 1
        assert stray.returncode == -signal.SIGKILL and stranger.poll() is None
        stranger.kill()


def test_only_one_works_in_a_folder(tree: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "mlbridge.json").write_text('{"kind": "specialization", "version": 1}')
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Busy, match="another specialization works here"):
            specialized(tree)


def test_another_folder_is_not_touched(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine").write_text("precious")
    with pytest.raises(InvalidArgument, match="has other files in it"):
        specialized(tree)
    assert (tmp_path / "work" / "mine").read_text() == "precious"


def test_what_was_killed_goes_on(tree: Path, tmp_path: Path) -> None:
    def command(name: str) -> list[str]:
        words = [sys.executable, "-m", "mlbridge", "specialize", "-o", f"{name}.decisions"]
        words += ["--tree", "tree", "--build", "make", "--run", RUN, "--time", "100ms"]
        return [*words, "--work", name]

    drawn = random.Random(0)
    kept: dict[str, Any] = {}
    for _ in range(5):
        with subprocess.Popen(
            command("app"),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        ) as killed:
            assert killed.stderr is not None
            new = (line for line in killed.stderr if not line.startswith("kept"))
            list(itertools.islice(new, drawn.randint(1, 4)))
            os.kill(killed.pid, signal.SIGKILL)
        state = json.loads((tmp_path / "app/state.json").read_text())["steps"]
        # A tree that was on its way to the clock is built again.
        assert sum(state.get(name) != result for name, result in kept.items()) <= 1
        kept = state
    profile = (tmp_path / "app/profile.profdata").stat()
    done = subprocess.run(command("app"), cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "chosen:" in done.stdout and "kept: profiled" in done.stderr
    assert (tmp_path / "app/profile.profdata").stat().st_ino == profile.st_ino
    state = json.loads((tmp_path / "app/state.json").read_text())["steps"]
    assert sum(state.get(name) != result for name, result in kept.items()) <= 1

    subprocess.run(command("whole"), cwd=tmp_path, capture_output=True, check=True)
    ends = [decisions_file.read(tmp_path / f"{one}.decisions").content for one in ("app", "whole")]
    for recipe in (Recipe(), *first()):
        assert ends[0]["bytes"][recipe.name] == ends[1]["bytes"][recipe.name]
    assert {step for step, _, _ in ends[0]["timeline"]} >= {"build none", "profile"}


def test_what_has_changed_since(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({})
    said: list[str] = []
    end = [tree.parent / "app.decisions", tree.parent / "work"]

    def again(**more: Any) -> list[str]:
        asked = settings(tree, levers=("profile",), confirm_runs=(), **more)
        said.clear()
        specialize(asked, *end, shown=said.append)
        return [line for line in said if not line.startswith(("kept", "profile", "measuring"))]

    again()
    (tree / ".git").mkdir()
    (tree / ".git/index").write_text("a look at it")
    (tree / ".app.decisions.12-abc").write_text("what a kill has left")
    assert again() == [], "all was kept"
    (tree / "main.c").write_text(MAIN + "int more;\n")
    for more, what in (({}, "its files"), ({"level": "O2"}, "--level, its files")):
        with pytest.raises(InvalidArgument, match=f"other values of these: {what};"):
            again(**more)
    (tree / "main.c").write_text(MAIN)
    specialize(settings(tree, levers=("profile",)), *end, keep=False, shown=said.append)
    assert "begins anew, as these have changed: --confirm-run, its files" in said
    assert [path.name for path in tree.parent.iterdir()] == ["tree", "app.decisions"]


def test_long_commands_are_timed_for_some_builds_at_once(
    tree: Path, clock: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = clock({"profile-full": 0.8, "profile-thin-cold": 0.9})
    whole = specialized(tree, levers=("profile", "link", "cold"))
    count = len(asked)
    asked.clear()
    monkeypatch.setattr("mlbridge.specializing.steps._LONGEST", 0.0)
    monkeypatch.setattr("mlbridge.specializing.steps._LEAST_AT_ONCE", 1)
    parts = specialized(tree, levers=("profile", "link", "cold"))
    assert len(asked) > count
    assert (parts.chosen, parts.raced, parts.confirmed) == (
        *(whole.chosen, whole.raced, whole.confirmed),
    )


def test_a_build_that_failed_is_tried_again(
    tree: Path, clock: Callable[..., list[str]], tmp_path: Path
) -> None:
    clock({"profile": 0.8})
    (tmp_path / "full").touch()
    cases = f"*--version*) ;;\n*-fprofile-use*) test ! -e {tmp_path}/full || exit 1 ;;"
    more: dict[str, Any] = {"compiler": broken_compiler(tmp_path, cases), "levers": ("profile",)}
    work = tmp_path / "work"
    found = specialize(settings(tree, **more), tmp_path / "app.decisions", work)
    assert "profile" in found.problems and found.chosen == Recipe()
    (tmp_path / "full").unlink()
    found = specialize(settings(tree, **more), tmp_path / "app.decisions", work)
    assert not found.problems and found.chosen.name == "profile"


def test_sources_that_change_meanwhile(
    tree: Path, clock: Callable[..., list[str]], tmp_path: Path
) -> None:
    clock({"profile": 0.8})

    def shown(text: str) -> None:
        if text.startswith("built none"):
            (tree / "main.c").write_text(MAIN + "int more;\n")

    with pytest.raises(InvalidArgument, match="files have changed since this began"):
        specialize(settings(tree), tmp_path / "app.decisions", tmp_path / "work", shown=shown)
    assert not (tmp_path / "app.decisions").exists()


def test_a_recipe_that_can_not_be_built(tree: Path, tmp_path: Path) -> None:
    """With the real clock: what failed last isn't in the way."""
    cases = "*--version*) ;;\n*-flto=full*) exit 1 ;;"
    found = specialized(
        tree, compiler=broken_compiler(tmp_path, cases), levers=("profile", "link"), seconds=0.05
    )
    assert found.problems.keys() == {"profile-full"} and "profile-thin" in found.raced


def test_nothing_of_mine_is_overwritten(tree: Path) -> None:
    mine = tree.parent / "app.decisions.wrong"
    mine.write_text("precious")
    with pytest.raises(InvalidArgument, match="wrong is there, and no decisions file"):
        specialized(tree)
    mine.unlink()
    for place in (tree / "main.c", tree):
        with pytest.raises(InvalidArgument, match=r"no decisions file|is no file"):
            specialize(settings(tree), place, tree.parent / "work")
    assert (tree / "main.c").read_text() == MAIN


def test_a_link_without_a_profile(tree: Path, clock: Callable[..., list[str]]) -> None:
    clock({"full": 0.8, "thin": 0.9})
    assert specialized(tree, levers=("link",)).chosen == Recipe(link="full")


def test_the_command(
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tree)
    command = ["specialize", "-o", "app.decisions", "--build", "make"]
    assert main([*command, "--time", "1s"]) == 2
    assert "--run" in capsys.readouterr().err
    assert main([*command, "--run", RUN, "--ray", "127.0.0.1:1"]) == 2
    assert "--budget" in capsys.readouterr().err
    words = ["--run", RUN, "--confirm-run", OTHER, "--time", "100ms", "--without", "link"]
    assert main([*command, *words]) == 0
    out, err = capsys.readouterr()
    assert "over the build's own" in out and "profiled the runs" in err and "-thin" not in out
    assert {path.name for path in tree.iterdir()} == {"main.c", "src", "Makefile", "app.decisions"}
    assert decisions_file.read("app.decisions").content["raced"]
    assert main(["report", "app.decisions", "-o", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "What was tried" in page and "timed: links" in page
    assert main([*command, "--run", "false | exit 3; sleep 100", "--timeout", "1s"]) == 1
    assert capsys.readouterr().err.count("\n") >= 1
