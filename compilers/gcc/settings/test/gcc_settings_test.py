# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stock gcc-12 with the plugin: without a model, with one, and with one that fails."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from beyond_llvm import ENVIRONMENT, RUNNERS, asked, record
from building import ROOT, attempt, run
from sampling import nightly, runners_of
from settings_programs import ASKED, PROGRAM, SETTINGS, generated, network

from mlbridge import files
from mlbridge.cli import main
from mlbridge.recording import Episode, Recording

README = Path(__file__).parents[1] / "README.md"
SOURCE = Path(__file__).parents[1] / "gcc_settings.cpp"
PLUGIN = files.gcc_plugin("gcc_settings")
PREFIX = "-fplugin-arg-gcc_settings"
#: Ends when it is asked about the third function.
KILLED = """
import os, sys, mlbridge
asked = 0

def policy(observation, context):
    global asked
    asked += 1
    if asked == 3:
        os.kill(os.getpid(), 9)
    return 1

spec = mlbridge.TensorSpec
signature = mlbridge.Signature([spec("features", "float32", [25])], [spec("setting", "int64")])
with mlbridge.Server("unix:" + sys.argv[1], signature) as server:
    print("ready", flush=True)
    server.serve_forever(policy)
"""


def flags(model: str | None = None, plugin: str | Path = PLUGIN, **told: str) -> list[str]:
    options = ({} if model is None else {"model": model}) | told
    return [
        f"-fplugin={plugin}",
        *(f"{PREFIX}-{key.replace('_', '-')}={value}" for key, value in options.items()),
    ]


class Place:
    """A folder with a program, in which GCC is run."""

    def __init__(self, folder: Path, text: str = PROGRAM) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "program.c").write_text(text)

    def gcc(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = ["gcc-12", *words, "-Wall", "-c", "program.c", "-o", "made.o"]
        return attempt(*command, cwd=self.folder, env=ENVIRONMENT, timeout=300)

    def made(self, *words: str | Path, says: str = "") -> bytes:
        """The object; the compiler must say nothing, or one line that has this."""
        (self.folder / "made.o").unlink(missing_ok=True)
        done = self.gcc(*words)
        assert done.returncode == 0, done.stderr
        assert len(done.stderr.splitlines()) == (1 if says else 0), done.stderr
        assert says in done.stderr
        return (self.folder / "made.o").read_bytes()

    def output(self) -> str:
        """What the program prints that was made last."""
        run("gcc-12", "made.o", "-o", "program", cwd=self.folder)
        return run(self.folder / "program", timeout=60)

    def decided(self) -> dict[str, int]:
        """The settings that were recorded in "log", by function."""
        told = self.told()
        return {name: int(one.actions[0]["setting"]) for name, one in told.items()}

    def told(self) -> dict[str, Episode]:
        """What was recorded there."""
        found = {}
        for file in (self.folder / "log").iterdir():
            for question in Recording(file).episodes():
                assert len(question.actions) == 1
                found[question.unit.rpartition(":")[2]] = question
            file.unlink()
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


def native(folder: Path, always: int | None = None, **more: str) -> str:
    return f"native:{network(folder / f'{always}.onnx', always, 0, **more)}"


@pytest.mark.parametrize("debug", [(), ("-g",), ("-flto", "-frandom-seed=1")])
@pytest.mark.parametrize("level", ["-O0", "-Og", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Ofast"])
def test_without_a_decision_the_object_is_stocks(
    place: Place, tmp_path: Path, level: str, debug: tuple[str, ...]
) -> None:
    stock = place.made(level, *debug)
    assert place.made(level, *debug, *flags()) == stock
    assert place.made(level, *debug, *flags(native(tmp_path, 0), levels="O1,O2,Oz")) == stock
    missing = "native:/nowhere.onnx"
    says = (
        "gcc-settings: 'native:/nowhere.onnx': " if level in ("-O2", "-O3", "-Os", "-Ofast") else ""
    )
    assert place.made(level, *debug, *flags(missing), says=says) == stock
    # Its warning is no error, and one of the program's own still is.
    strict = place.made(level, *debug, "-Werror")
    assert place.made(level, *debug, "-Werror", *flags(missing), says=says) == strict


def test_a_warning_of_the_program_stays_an_error(tmp_path: Path) -> None:
    place = Place(
        tmp_path / "place", "static int unused(void) { return 1; }\nint f(void) { return 2; }\n"
    )
    done = place.gcc("-O2", "-Werror", *flags("native:/nowhere.onnx"))
    assert done.returncode == 1 and "error: ‘unused’ defined" in done.stderr
    assert "warning: gcc-settings: " in done.stderr


def test_each_decision_changes_the_object_and_not_what_it_does(
    place: Place, tmp_path: Path
) -> None:
    objects = {"stock": place.made("-O2")}
    expected = place.output()
    for number, name in enumerate(SETTINGS[1:], 1):
        model = native(tmp_path, number) + f"?record={place.folder / 'log'}"
        objects[name] = place.made("-O2", *flags(model))
        assert place.decided() == dict.fromkeys(ASKED, number)
        assert place.output() == expected
    # The program has nothing for the inliner that only larger limits let in.
    assert len({*objects.values()}) >= len(objects) - 1
    assert objects["inline-more"] == objects["stock"] or len({*objects.values()}) == len(objects)


def test_size_is_what_os_makes(tmp_path: Path) -> None:
    place = Place(tmp_path / "place", PROGRAM.replace('__attribute__((optimize("O1")))', ""))
    place.made("-Os")
    size = run("size", place.folder / "made.o").splitlines()[1].split()[0]
    place.made("-O2", *flags(native(tmp_path, 1)))
    assert run("size", place.folder / "made.o").splitlines()[1].split()[0] == size


def test_the_features_are_those_of_the_function(place: Place, tmp_path: Path) -> None:
    model = native(tmp_path, 0) + f"?record={place.folder / 'log'}"
    place.made("-O2", *flags(model))
    told = {}
    for name, question in place.told().items():
        features = question.observations[0]["features"].tolist()
        told[name] = dict(zip(features_listed(), features, strict=True))
    dot, pick, inner = told["dot"], told["pick"], told["sum"]
    assert (dot["loops"], dot["loop-depth"], dot["arguments"]) == (1, 1, 3)
    assert dot["multiplications"] >= 1 and dot["loads"] == 2 and dot["float-operations"] == 2
    assert (dot["is-public"], dot["calls"], dot["level"], dot["is-for-size"]) == (1, 0, 2, 0)
    assert (pick["loops"], pick["switches"], pick["calls"]) == (0, 1, 2)
    assert (inner["is-public"], inner["callers"], inner["calls-in-loops"]) == (0, 3, 0)


def test_levels_say_where_it_asks(place: Place, tmp_path: Path) -> None:
    model = native(tmp_path, 1)
    for level in ("-O1", "-Oz", "-O0", "-Og"):
        assert place.made(level, *flags(model)) == place.made(level)
    assert place.made("-O1", *flags(model, levels="O1")) != place.made("-O1")
    assert place.made("-O2", *flags(model, levels="O3,Os")) == place.made("-O2")


def bad_models(folder: Path) -> dict[str, str]:
    """What the warning has of each."""
    text = folder / "text.onnx"
    text.write_text("no model")
    other = network(folder / "other.onnx", 1, settings="stock,size")
    small = network(folder / "small.onnx", 1)
    return {
        f"native:{text}": "text.onnx",
        f"native:{other}": "expected a model of the settings stock,size,speed,",
        f"native:{small}?rename=wrong:features": "does not give the model's input",
        f"unix:{folder}/nobody": "no server there",
        f"native:{small}?deadline=soon": "'soon' is not a duration",
        "no-uri": "no scheme",
        "function:none": "no function is registered",
    }


def test_models_that_cannot_be_asked(place: Place, tmp_path: Path) -> None:
    stock = place.made("-O2")
    for model, says in bad_models(tmp_path).items():
        done = place.gcc("-O2", *flags(model, on_failure="fail"))
        assert done.returncode == 1 and "error: gcc-settings: " in done.stderr
        assert says in done.stderr
        assert place.made("-O2", *flags(model, on_failure="stock"), says=says) == stock


@contextlib.contextmanager
def killed_server(folder: Path) -> Iterator[str]:
    (folder / "server.py").write_text(KILLED)
    command = [sys.executable, str(folder / "server.py"), str(folder / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield f"unix:{folder / 's'}"
            assert process.wait(60) == -9
        finally:
            process.kill()


def test_a_server_that_ends_in_the_middle_changes_no_function(place: Place, tmp_path: Path) -> None:
    stock = place.made("-O2")
    with killed_server(tmp_path) as model:
        assert place.made("-O2", *flags(model), says="gcc-settings: ") == stock


def test_an_answer_that_is_no_setting(place: Place, tmp_path: Path) -> None:
    chosen = network(tmp_path / "all.onnx")
    stock = place.made("-O2")
    (tmp_path / "policy.py").write_text("def policy(observation, context):\n    return 7\n")
    signature = "(features: float32[25]) -> (setting: int64)"
    command = [sys.executable, "-m", "mlbridge", "serve", f"{tmp_path}/policy.py:policy"]
    command += ["--signature", signature, "--at", f"unix:{tmp_path}/s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdout.readline().startswith("ready ")
        model = f"unix:{tmp_path}/s"
        assert place.made("-O2", *flags(model), says="expected a setting below 7, got 7") == stock
        server.terminate()
    assert chosen.is_file()


def test_wrong_options(place: Place) -> None:
    for option in ("modal=native:x", "model", "on-failure=maybe", "levels=", "levels=O9"):
        done = place.gcc("-O2", f"-fplugin={PLUGIN}", f"{PREFIX}-{option}")
        assert done.returncode == 1
        assert f"{PREFIX}-{option.partition('=')[0]}" in done.stderr
        assert "expected model=URI" in done.stderr


def test_a_plugin_of_another_gcc(place: Place, tmp_path: Path) -> None:
    """Made with the headers of this one, but for what they say which one it is."""
    headers = Path(run("gcc-12", "-print-file-name=plugin").strip()) / "include"
    version = (headers / "plugin-version.h").read_text()
    other_version = version.replace('basever[] = "12.', 'basever[] = "11.')
    assert other_version != version
    (tmp_path / "plugin-version.h").write_text(other_version)
    (library,) = Path(PLUGIN).parent.glob("libmlbridge-c.so.0")
    other = tmp_path / "gcc_settings.so"
    run(
        *("g++", "-std=c++17", "-fno-rtti", "-fno-exceptions", "-fPIC", "-shared", SOURCE),
        *(f"-I{tmp_path}", f"-I{ROOT}/include", f"-I{ROOT}/compilers"),
        *(f"-isystem{headers}", library),
        *(f"-Wl,-rpath,{library.parent}", "-o", other),
    )
    model = native(tmp_path, 1)
    says = "the plugin was built for GCC 11."
    assert place.made("-O2", *flags(model, plugin=other), says=says) == place.made("-O2")
    done = place.gcc("-O2", *flags(model, plugin=other, on_failure="fail"))
    assert done.returncode == 1 and f"error: gcc-settings: {says}" in done.stderr


def test_link_time_optimization(place: Place, tmp_path: Path) -> None:
    expected = [place.made("-O2"), place.output()][1]
    log = place.folder / "log"
    loads = flags(native(tmp_path, 1) + f"?record={log}")
    run("gcc-12", "-O2", "-flto", *loads, "program.c", "-o", "whole", cwd=place.folder)
    assert run(place.folder / "whole") == expected
    # Linking asks nobody.
    assert len(list(log.iterdir())) == 1 and set(place.decided()) == ASKED


def test_what_is_no_compilation_asks_nobody(place: Place) -> None:
    failing = flags("native:/nowhere.onnx", on_failure="fail")
    (place.folder / "empty.S").write_text("nop\n")
    place.made("-O2")
    for words in (
        ["-E", "program.c", "-o", "text"],
        ["-fsyntax-only", "program.c"],
        ["-c", "empty.S", "-o", "empty.o"],
        ["made.o", "-o", "program"],
    ):
        done = attempt("gcc-12", "-O2", *failing, *words, cwd=place.folder)
        assert (done.returncode, done.stderr) == (0, ""), done


def test_cxx(place: Place, tmp_path: Path) -> None:
    (place.folder / "program.cpp").write_text(
        "#include <algorithm>\n#include <cstdio>\n#include <map>\n#include <string>\n"
        "template <typename T> T twice(T x) { return x + x; }\n"
        "int main() { std::map<std::string, int> all; for (int i = 0; i < 9; ++i)\n"
        'all[std::to_string(twice(i))] = i; for (auto &[k, v] : all) std::printf("%s %d\\n", '
        'k.c_str(), v); try { throw 5; } catch (int x) { std::printf("%d\\n", twice(x)); } }\n'
    )
    found = []
    for words in ([], flags(f"native:{network(tmp_path / 'all.onnx', seed=2)}")):
        run("g++-12", "-O2", *words, "program.cpp", "-o", "program", cwd=place.folder)
        found.append(((place.folder / "program").read_bytes(), run(place.folder / "program")))
    assert found[0][1] == found[1][1] and found[0][0] != found[1][0]


@pytest.mark.parametrize("count", [6, nightly(20)])
def test_generated_programs_do_the_same_whatever_is_decided(tmp_path: Path, count: int) -> None:
    decisions: Counter[int] = Counter()
    for seed in range(count):
        place = Place(tmp_path / f"p{seed}", generated(seed))
        level = ("-O2", "-O3", "-Os")[seed % 3]
        place.made(level, "-w")
        expected = place.output()
        model = network(tmp_path / f"{seed}.onnx", seed=seed)
        place.made(level, "-w", *flags(f"native:{model}?record={place.folder / 'log'}"))
        decisions.update(place.decided().values())
        assert place.output() == expected, seed
    assert set(decisions) >= set(range(1, len(SETTINGS))), decisions


@pytest.mark.parametrize(("runner", "count"), runners_of("gcc-settings", RUNNERS, few=4, many=20))
def test_every_runner_decides_the_same(tmp_path: Path, runner: str, count: int) -> None:
    texts = [PROGRAM, *(generated(seed) for seed in range(count))]
    model = network(tmp_path / "all.onnx", seed=5)
    identical, decisions = True, 0
    with asked(runner, model, tmp_path) as uri:
        for number, text in enumerate(texts):
            place = Place(tmp_path / f"p{number}", text)
            log = f"?record={place.folder / 'log'}"
            expected = place.made("-O2", "-w", *flags(f"native:{model}{log}"))
            decided = place.decided()
            found = place.made("-O2", "-w", *flags(f"{uri}{log}", on_failure="fail"))
            identical = identical and found == expected and place.decided() == decided
            decisions += len(decided)
    record("gcc-settings", runner, len(texts), decisions, identical)
    assert identical and decisions > 20


def test_the_command_line_loads_it(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = native(tmp_path, 1)
    line = ["flags", "gcc-settings", "--model", model, "--deadline", "2s", "--levels", "O2"]
    assert main([*line, "--require", "--log", str(place.folder / "log")]) == 0
    words = capsys.readouterr().out.split()
    assert words[0] == f"-fplugin={PLUGIN}" and f"{PREFIX}-deadline=2s" in words
    assert place.made("-O2", *words) == place.made("-O2", *flags(model)) != place.made("-O2")
    assert set(place.decided()) == ASKED
    assert main(["wrapper", "gcc-settings", "--model", model, "-o", f"{place.folder}/cc"]) == 0
    run(place.folder / "cc", "-O2", "-Wall", "-c", "program.c", "-o", "wrapped.o", cwd=place.folder)
    assert (place.folder / "wrapped.o").read_bytes() == place.made("-O2", *flags(model))
    for words, code, says in [
        (["gcc-settings", "inliner", "--model", "unix:/s"], 2, "is for GCC"),
        (["gcc-settings", "--model", model, "--missing", "zero"], 2, "--missing is not for"),
        (["gcc-settings", "--model", f"native:{tmp_path}/none.onnx"], 1, "none.onnx is not there"),
    ]:
        assert main(["flags", *words]) == code
        assert says in capsys.readouterr().err


def test_the_policy_that_is_shipped(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """What nothing in the file calls, and has no loop, is compiled for size."""
    plain = place.made("-O2")
    printed = place.output()
    assert main(["flags", "gcc-settings", "--log", str(place.folder / "log")]) == 0
    assert place.made("-O2", *capsys.readouterr().out.split()) != plain
    assert place.output() == printed
    assert place.decided() == {"sum": 0, "dot": 0, "add": 0, "pick": 0, "main": 1}


@pytest.mark.nightly
def test_real_programs_do_the_same(tmp_path: Path) -> None:
    from programs.build import compile_program, link_program, run_test
    from programs.catalog import load, select
    from programs.fetch import fetch

    names = ["zlib", "bzip2", "lz4", "cjson", "expat"]
    programs = fetch(select(load(), names))
    assert {program.name for program in programs} == set(names)
    model = network(tmp_path / "all.onnx", seed=1)
    ways = {"stock": [], "asked": flags(f"native:{model}", on_failure="fail")}
    for program in programs:
        outputs, objects = [], []
        for way, words in ways.items():
            folder = tmp_path / program.name / way
            made = compile_program(program, folder, ("gcc-12",), ["-O2", *words])
            link_program(program, made, folder, ("g++-12",))
            outputs.append(run_test(replace(program), folder, tmp_path / "work"))
            objects.append([item.object.read_bytes() for item in made])
        assert outputs[0] == outputs[1], program.name
        assert objects[0] != objects[1], program.name
    record("gcc-settings, real programs", "native", len(programs), 0, True)


def features_listed() -> list[str]:
    table = README.read_text().partition("## What the model is told")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d+ \| `([a-z-]+)`", table, re.MULTILINE)


def test_the_readme_lists_what_the_source_has() -> None:
    table = README.read_text().partition("## What it chooses from")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| (\d) \| `([a-z-]+)`", table, re.MULTILINE)
    assert listed == [(str(number), name) for number, name in enumerate(SETTINGS)]
    enum = SOURCE.read_text().partition("enum Feature {")[2].partition("FeatureCount")[0]
    names = ["".join(map(str.title, name.split("-"))) for name in features_listed()]
    assert names == re.findall(r"(\w+),", enum)
