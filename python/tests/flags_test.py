# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `mlbridge flags` prints, as a shell, make and a compiler driver see it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from advised import constant_policy

from mlbridge import files
from mlbridge.cli import main
from mlbridge.decisions import read_decisions
from mlbridge.optimizations import OPTIMIZATIONS, Optimization


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a plugin and a model, as far as `flags` looks at them."""
    (tmp_path / "plugin.so").write_bytes(b"")
    (tmp_path / "policy.onnx").write_bytes(b"")
    return tmp_path


def flags(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["flags", "phase-ordering", *arguments])
    out, err = capsys.readouterr()
    assert (code, err) == (0, ""), err
    assert out.count("\n") == 1 and out.endswith("\n")
    return out.strip()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """1 for what files and programs are there, otherwise 2."""
    code = main(["flags", *arguments])
    out, err = capsys.readouterr()
    fails = re.search(
        "there is no (file|command)|not there|a folder|be opened|can't ask|quoted", err
    )
    assert (code, out) == (1 if fails else 2, ""), err
    assert err.startswith("mlbridge flags: ") and err.count("\n") == 1
    return err


def options(line: str) -> dict[str, str]:
    """What cc1 is told; every such word must come through -Xclang."""
    words = shlex.split(line)
    assert words.pop(0) == "--start-no-unused-arguments"
    assert words.pop() == "--end-no-unused-arguments"
    assert words.pop() == "-Wno-error=backend-plugin"
    assert words[0::2] == ["-Xclang"] * (len(words) // 2)
    told = [word for word in words[1::2] if word != "-mllvm"]
    given = dict(word.lstrip("-").split("=", 1) for word in told)
    for name in [name for name in given if name.endswith("-fingerprint")]:
        assert re.fullmatch("[0-9a-f]{32}", given.pop(name))
    return given


def test_all_options(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [])
    line = flags(
        capsys,
        *("--plugin", "plugin.so", "--model", "onnx:policy.onnx", "--max-steps", "7"),
        *("--deadline", "250ms", "--on-failure", "fail", "--log", "decisions"),
        *("--levels", "O2,Oz", "--vocabulary", "policy.onnx", "--effort", "3"),
    )
    assert options(line) == {
        "fpass-plugin": f"{place}/plugin.so",
        "phase-ordering-model": f"onnx:{place}/policy.onnx?record={place}/decisions",
        "phase-ordering-max-steps": "7",
        "phase-ordering-deadline": "250ms",
        "phase-ordering-on-failure": "fail",
        "phase-ordering-log": f"{place}/decisions",
        "phase-ordering-levels": "O2,Oz",
        "phase-ordering-effort": "3",
        "phase-ordering-vocabulary": f"{place}/policy.onnx",
    }
    assert "'" not in line  # plain paths need no quotes, so that $CC without eval works too


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("unix:s?serdes=json", "unix:{place}/s?serdes=json"),
        ("unix:/run/policy.sock", "unix:/run/policy.sock"),
        ("shm:policy.sock", "shm:{place}/policy.sock"),
        ("pipe:base", "pipe:{place}/base"),
        ("pipe:folder/", "pipe:{place}/folder/"),
        ("function:stop", "function:stop"),
        ("onnx:./policy.onnx", "onnx:{place}/policy.onnx"),
        ("onnx:my%20model.onnx", "onnx:{place}/my%20model.onnx"),
        ("onnx:my model.onnx", "onnx:{place}/my%20model.onnx"),
        ("onnx:zażółć$`'\"&;.onnx", None),
        ("native:policy.onnx?reload=1s", "native:{place}/policy.onnx?reload=1s"),
        ("aot:policy.so", "aot:{place}/policy.so"),
        ("aot:linked_in", "aot:linked_in"),
    ],
)
def test_models(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    printed: str | None,
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [])
    for name in ("policy.so", "my model.onnx", "zażółć$`'\"&;.onnx"):
        (place / name).write_bytes(b"")
    line = flags(capsys, "--plugin", "plugin.so", "--model", given)
    uri = options(line)["phase-ordering-model"]
    if printed is not None:
        assert uri == printed.format(place=place)
    assert line.isascii() and not set(line) & set("'\"$`&; \\") - {" "}


def test_another_optimization_has_options_of_its_own_name(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIMIZATIONS, "unrolling", Optimization("unrolling", "", (22,)))
    plugin = ("--plugin", f"{place}/plugin.so")
    assert "no model comes with unrolling" in refused(capsys, "unrolling", *plugin)
    assert main(["flags", "unrolling", *plugin, "--model", "unix:/s", "--deadline", "1s"]) == 0
    assert options(capsys.readouterr().out.strip()) == {
        "fpass-plugin": f"{place}/plugin.so",
        "unrolling-model": "unix:/s",
        "unrolling-deadline": "1s",
    }
    assert ", unrolling" in refused(capsys, "vectorize-everything")


def test_agents_may_have_models_of_their_own(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    (place / "colour.onnx").write_bytes(b"")
    command = ["flags", "register-allocation", "--plugin", f"{place}/plugin.so", "--model"]
    for given, expected in (
        ("unix:s", f"unix:{place}/s"),
        ("function:heuristic", "function:heuristic"),
        (
            "colour=native:colour.onnx; *=function:heuristic",
            f"colour=native:{place}/colour.onnx;*=function:heuristic",
        ),
    ):
        assert main([*command, given]) == 0
        words = shlex.split(capsys.readouterr().out)
        assert f"-register-allocation-model={expected}" in words
    said = refused(capsys, *command[1:], "colour=native:other.onnx;*=function:heuristic")
    assert "other.onnx is not there" in said
    said = refused(capsys, *command[1:], "native:{agent}.onnx")
    assert "node.onnx is not there" in said
    for name in ("node", "task", "split"):
        (place / f"{name}.onnx").write_bytes(b"")
    assert main([*command, "native:{agent}.onnx"]) == 0
    assert f"-register-allocation-model=native:{place}/{{agent}}.onnx " in capsys.readouterr().out
    assert main(command[:-1]) == 0  # the shipped ones
    shipped = files.shipped_agents("register-allocation")
    said = capsys.readouterr().out
    assert f"-register-allocation-model=native:{shipped} " in said
    assert "-register-allocation-effort=1 " in said
    assert "--missing" in refused(capsys, *command[1:], "unix:s", "--missing", "zero")
    file = str(place / "colour.onnx")
    assert main([*command, "unix:s", "--vocabulary", file]) == 0
    assert f"-register-allocation-vocabulary={file}" in capsys.readouterr().out
    said = refused(capsys, "inliner", *command[2:], "unix:s", "--vocabulary", file)
    assert (
        "--vocabulary is for one of loop-distribution, phase-ordering, register-allocation" in said
    )


def test_several_optimizations(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = place / "plugins"
    plugins.mkdir()
    for name in ("phase-ordering", "inliner", "inliner-19", "regalloc-advice"):
        (plugins / f"mlbridge-{name}.so").write_bytes(b"")
    monkeypatch.setattr(files, "PACKAGE", str(place))
    two = ["regalloc-eviction", "regalloc-priority"]
    models = ["--model", "regalloc-eviction=unix:/e", "--model", "regalloc-priority=unix:/p"]
    assert main(["flags", *two, *models, "--missing", "zero"]) == 0
    line = capsys.readouterr().out.strip()
    assert line.count("-fpass-plugin=") == 1, "one plugin asks both"
    assert options(line) == {
        "fpass-plugin": f"{plugins}/mlbridge-regalloc-advice.so",
        "regalloc-eviction-model": "unix:/e",
        "regalloc-eviction-missing": "zero",
        "regalloc-priority-model": "unix:/p",
        "regalloc-priority-missing": "zero",
    }
    mixed = ["phase-ordering", "inliner", "--model", "inliner=unix:/i", "--effort", "2"]
    assert "policy" in refused(capsys, *mixed), "the candidates are not shipped here"
    assert main(["flags", *mixed, "--model", "phase-ordering=unix:/s"]) == 0
    told = options(capsys.readouterr().out.strip())
    assert told["phase-ordering-effort"] == "2" and "inliner-effort" not in told
    own = ["regalloc-eviction", "--model", f"native:{place}/policy.onnx"]
    assert main(["flags", *own, "--effort", "7"]) == 0
    assert options(capsys.readouterr().out.strip())["regalloc-eviction-effort"] == "7"
    assert main(["flags", *own]) == 0
    assert "regalloc-eviction-effort" not in options(capsys.readouterr().out.strip())
    assert main(["flags", "inliner", "--model", "unix:/i", "--llvm", "19"]) == 0
    assert capsys.readouterr().out.split()[:4] == [
        *("--start-no-unused-arguments", "-Xclang", "-load", "-Xclang")
    ]
    for wrong, says in (
        (["inliner", "inliner"], "each optimization once"),
        (["inliner", "regalloc-eviction", "--model", "unix:/s"], "expected OPTIMIZATION=URI"),
        (["inliner", "--model", "phase-ordering=unix:/s"], "is not one of inliner"),
        (["inliner", "--effort", "3", "--model", "unix:/s"], "is for phase-ordering, regalloc-"),
        (
            ["regalloc-eviction", "--effort", "1", "--model", "unix:/s"],
            "regalloc-eviction's connection",
        ),
        (
            [
                *(*two, "--effort", "2", *models[2:]),
                *("--model", f"regalloc-eviction=native:{place}/policy.onnx"),
            ],
            "can't share regalloc-priority's connection",
        ),
        (["inliner", "regalloc-eviction", "--plugin", "x.so"], "several plugins"),
        (["phase-ordering", "--missing", "zero"], "--missing is not for phase-ordering"),
        (["regalloc-priority", "--llvm", "19"], "has no plugin for LLVM 19"),
        (["regalloc-priority"], "no model comes with"),
        (["hotness"], "or a profile with --profile"),
        (["inliner", "--compiler", "clang-19", "--model", "unix:/s"], "add --llvm 19"),
        (["inliner", "--compiler", "clang-99"], "is for clang-22, clang++-22"),
        (["inliner", "--compiler", "/usr/bin/gcc-12"], "is for clang-22, clang++-22"),
        (
            ["inliner", "--compiler", "no-compiler", "--model", "unix:/s"],
            "there is no command no-compiler; state another, such as clang-22",
        ),
    ):
        assert says in refused(capsys, *wrong), wrong


def test_several_options_of_a_uri_need_no_quotes(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = flags(capsys, "--plugin", f"{place}/plugin.so", "--model", "unix:/s?serdes=json&wait=5s")
    assert options(line)["phase-ordering-model"] == "unix:/s?serdes=json?wait=5s"
    assert "'" not in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["phase-odering"], "did you mean 'phase-ordering'"),
        (["vectorize-everything"], "there is hotness, inliner, "),
        (["phase-ordering", "--plugin", "no.so"], "there is no file"),
        (["gcc-settings", "--compiler", "/opt/clang"], "is for gcc-12, g++-12"),
        (["mlir-tiling", "--compiler", "clang-22"], "is for mlir-opt-22"),
        (["phase-ordering", "--model", "onnx:no.onnx"], "is not there"),
        (["phase-ordering", "--model", "native:no.onnx"], "expected an ONNX file"),
        (["phase-ordering", "--model", "aot:no.so"], "a shared object of mlbridge aot"),
        (["phase-ordering", "--model", "policy.onnx"], "did you mean 'onnx:policy.onnx'"),
        (["phase-ordering", "--model", "onxx:policy.onnx"], "did you mean 'onnx'"),
        (["phase-ordering", "--model", "onnx:"], "names nothing"),
        (["phase-ordering", "--model", ""], "not a URI"),
        (["phase-ordering", "--model", "candidates:no"], "there is no file"),
        (["phase-ordering", "--model", "unix:/s", "--deadline", "5"], "such as 5s"),
        (["phase-ordering", "--model", "unix:/s", "--deadline", "0s"], "such as 5s"),
        (["phase-ordering", "--model", "unix:/s", "--levels", "O2,O4"], "O3, Os, Oz, or several"),
        (["phase-ordering", "--model", "unix:/s", "--levels", ""], "got ''"),
        (["phase-ordering", "--require", "--model", "unix:/nowhere"], "can't be opened"),
        (["phase-ordering", "--require", "--model", "native:policy.onnx"], "policy.onnx"),
        (["phase-ordering", "--model", "unix:/s", "--max-steps", "0"], "of at least 1"),
        (["phase-ordering", "--model", "unix:/s", "--max-steps", "many"], "of at least 1"),
        (["phase-ordering", "--effort", "101"], "expected 0 to 100, got '101'"),
        (["phase-ordering", "--effort", "-1"], "--effort"),
        (["phase-ordering", "--model", "candidates:/nowhere"], "there is no file /nowhere"),
        (["phase-ordering", "--model", "unix:/s", "--log", "a'b"], "cannot be quoted"),
        (["phase-ordering", "--model", "unix:/s", "--log", "a$b"], "cannot be quoted"),
    ],
)
def test_refusals(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(place)
    if "--plugin" not in arguments:
        arguments = [*arguments, "--plugin", "plugin.so"]
    assert message in refused(capsys, *arguments)


def test_a_package_without_plugin_or_model(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PACKAGE", str(place))
    monkeypatch.setattr(files, "_folders", lambda kind: [str(place / kind)])
    assert "ml-compiler-bridge[clang22]" in refused(capsys, "phase-ordering")
    plugin = ["--plugin", f"{place}/plugin.so"]
    assert "--model" in refused(capsys, "phase-ordering", *plugin)
    (place / "models" / "phase-ordering-size").mkdir(parents=True)
    for scheme, name, effort in (
        ("onnx", "policy.onnx", "0"),
        ("candidates", "candidates.json", "1"),
    ):
        shipped = place / "models" / "phase-ordering-size" / name
        shipped.write_bytes(b"")
        uri = options(flags(capsys, *plugin, "--effort", effort))["phase-ordering-model"]
        assert uri.partition("?")[0] == f"{scheme}:{shipped}"


def test_the_default_model_without_onnx_runtime_is_noted(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PACKAGE", str(place / "mlbridge"))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delenv("MLBRIDGE_ONNXRUNTIME", raising=False)
    shipped = place / "mlbridge" / "models" / "phase-ordering-size"
    shipped.mkdir(parents=True)
    (shipped / "policy.onnx").write_bytes(b"")
    command = ["flags", "phase-ordering", "--effort", "0", "--plugin"]
    assert main([*command, f"{place}/plugin.so"]) == 0
    out, err = capsys.readouterr()
    assert "policy.onnx" in out and "pip install onnxruntime" in err


def test_onnx_runtime_in_another_place_is_told(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    capi = place / "else where" / "onnxruntime" / "capi"
    capi.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(place), str(place / "else where")])
    monkeypatch.setattr(files, "PACKAGE", str(place / "site" / "mlbridge"))
    monkeypatch.delenv("MLBRIDGE_ONNXRUNTIME", raising=False)
    model = f"onnx:{place}/policy.onnx"
    told = flags(capsys, "--plugin", f"{place}/plugin.so", "--model", model)
    assert options(told)["phase-ordering-model"] == (
        f"{model}?runtime={place}/else%20where/onnxruntime/capi"
    )
    assert options(
        flags(capsys, "--plugin", f"{place}/plugin.so", "--model", model + "?runtime=/x")
    )["phase-ordering-model"] == (f"{model}?runtime=/x")


@pytest.mark.parametrize("folder", ["plain", "with blank", "semi;colon (1) & [2]"])
def test_cc_in_make_compile_assemble_and_link(tmp_path: Path, folder: str) -> None:
    """CC="… $(mlbridge flags …)" with a stand-in for the compiler that shows its words."""
    place = tmp_path / folder
    place.mkdir()
    (place / "plugin.so").write_bytes(b"")
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$OUT"\n')
    compiler.chmod(0o755)
    (tmp_path / "Makefile").write_text("all:\n\t@$(CC) -c x.c\n")
    command = (
        f'make -C {tmp_path} CC="{compiler} $({sys.executable} -m mlbridge flags phase-ordering'
        f' --plugin {shlex.quote(str(place / "plugin.so"))} --model unix:/s --log logs)"'
    )
    environment = {**os.environ, "OUT": str(tmp_path / "words"), "MAKEFLAGS": ""}
    subprocess.run(["/bin/sh", "-c", command], env=environment, check=True, timeout=60)
    words = (tmp_path / "words").read_text().splitlines()
    assert f"-fpass-plugin={place}/plugin.so" in words
    assert words[-3:] == ["--end-no-unused-arguments", "-c", "x.c"]


@pytest.mark.parametrize("site", ["inliner", "regalloc-eviction"])
def test_a_blank_in_a_log_or_model_needs_no_quotes(
    site: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = place / "my model.onnx"
    model.write_bytes(b"")
    named = ("--plugin", f"{place}/plugin.so", "--model", f"native:{model}")
    assert main(["flags", site, *named, "--log", f"{place}/my log"]) == 0
    out, err = capsys.readouterr()
    assert f"-{site}-model=native:{place}/my%20model.onnx?record={place}/my%20log" in out.split()
    assert err == ""
    # The logs of phase ordering are paths.
    assert main(["flags", "phase-ordering", *named, "--log", f"{place}/my log"]) == 0
    out, err = capsys.readouterr()
    assert f"'-phase-ordering-log={place}/my log'" in out
    assert "choose a path without blanks" in err and err.count("\n") == 1


def test_the_path_of_the_plugin(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PACKAGE", str(place))
    monkeypatch.setattr(files, "_folders", lambda kind: [str(place / kind)])
    assert main(["path", "phase-ordering"]) == 1
    assert "ml-compiler-bridge[clang22]" in capsys.readouterr().err
    assert main(["path", "phase-odering"]) == 2
    assert "did you mean" in capsys.readouterr().err
    plugin = place / "plugins" / "mlbridge-phase-ordering.so"
    plugin.parent.mkdir()
    plugin.write_bytes(b"")
    assert main(["path", "phase-ordering"]) == 0
    assert capsys.readouterr().out == f"{plugin}\n"


def test_flags_starts_neither_numpy_nor_the_extension(place: Path) -> None:
    code = (
        "import sys; from mlbridge.cli import main\n"
        f"main(['flags', 'phase-ordering', '--plugin', {str(place / 'plugin.so')!r},"
        " '--model', 'unix:/s'])\n"
        "main(['path', 'phase-ordering'])\n"
        "loaded = {'numpy', 'mlbridge._core', 'asyncio', 'rich', 'importlib.metadata'}"
        " & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words, shows in ((["--version"], "mlbridge 0."), (["--help"], "flags")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0 and shows in capsys.readouterr().out


clang = pytest.mark.skipif(
    not Path(files.plugin("phase-ordering")).is_file() or not shutil.which("clang-22"),
    reason="needs the compiler plugin and clang-22",
)


@clang
def test_a_model_that_is_required_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = options(flags(capsys, "--model", "function:stop", "--require"))
    assert told["phase-ordering-on-failure"] == "fail"
    told = options(flags(capsys, "--require", "--on-failure", "stock"))
    assert told["phase-ordering-on-failure"] == "stock"
    golden = Path(__file__).parents[2] / "tests/golden/onnx/linear.onnx"
    for model, says in (("function:nobody", "nobody"), (f"native:{golden}", "features")):
        text = refused(capsys, "phase-ordering", "--require", "--model", model)
        assert "can't ask the model" in text and says in text, text
    why = refused(capsys, "phase-ordering", "--require", "--compiler", "no-compiler")
    assert "there is no command no-compiler" in why


@clang
def test_clang_takes_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compile, assemble, link under -Werror; without a server a warning and the stock object."""
    line = flags(capsys, "--model", f"unix:{tmp_path}/nobody")
    (tmp_path / "a.c").write_text("int f(int x) { return x * 2; }\nint main(void) { return 0; }\n")
    (tmp_path / "b.S").write_text(".text\n.globl g\ng: ret\n.section .note.GNU-stack\n")
    script = (
        f"set -e; cd {tmp_path}; clang-22 {line} -Werror -Oz -c a.c -o a.o 2> warnings;"
        " clang-22 -Oz -c a.c -o stock.o; cmp a.o stock.o;"
        f" clang-22 {line} -Werror -c b.S; clang-22 {line} -Werror a.o b.o -o a.out; ./a.out"
    )
    subprocess.run(["/bin/sh", "-c", script], check=True, timeout=100)
    assert (tmp_path / "warnings").read_text().count("warning:") == 1


SOURCE = """\
int sum(const int *values, int count) {
  int total = 0;
  for (int i = 0; i < count; ++i)
    total += values[i];
  return total;
}
"""


def wrapper(folder: Path, *arguments: str) -> Path:
    made = folder / "the cc"
    assert main(["wrapper", "phase-ordering", "-o", str(made), *arguments]) == 0
    return made


@clang
def test_the_flags_of_the_shipped_model_at_each_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At -O2 they change no byte; at -Oz there are decisions, with an effort none is larger."""
    line = flags(capsys, "--effort", "0")
    (tmp_path / "f.c").write_text(SOURCE)
    for level in ("-O0", "-O1", "-O2", "-O3", "-Oz"):
        made = [tmp_path / "with.o", tmp_path / "without.o"]
        for target, extra in zip(made, (line, ""), strict=True):
            command = f"cd {tmp_path}; clang-22 {extra} {level} -c f.c -o {target}"
            subprocess.run(["/bin/sh", "-c", command], check=True, timeout=60)
        same = made[0].read_bytes() == made[1].read_bytes()
        assert same or level == "-Oz"
    command = f"cd {tmp_path}; clang-22 {line} -Oz -Rpass=phase-ordering -c f.c"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert "step 0: " in done.stderr


def test_what_is_compared_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    shipped = files.shipped_candidates("phase-ordering-size")
    told = options(flags(capsys))
    assert told["phase-ordering-model"] == f"candidates:{shipped}"
    assert told["phase-ordering-effort"] == "1"
    told = options(flags(capsys, "--effort", "0"))
    assert told["phase-ordering-model"].startswith("onnx:") and "phase-ordering-effort" not in told
    told = options(flags(capsys, "--model", f"candidates:{shipped}"))
    assert told["phase-ordering-effort"] == "1"
    unasked = refused(capsys, "phase-ordering", "--model", f"candidates:{shipped}", "--effort", "0")
    assert "give --effort 1 or more" in unasked
    told = options(flags(capsys, "--model", "unix:/tmp/s"))
    assert "phase-ordering-effort" not in told, "a model of one's own is believed"


@clang
@pytest.mark.parametrize("effort", [1, 3, 10])
def test_with_effort_the_shipped_candidates_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], effort: int
) -> None:
    line = flags(capsys, "--effort", str(effort), "--require", "--log", str(tmp_path / "log"))
    shipped = files.shipped_candidates("phase-ordering-size")
    assert options(line)["phase-ordering-model"] == f"candidates:{shipped}"
    (tmp_path / "f.c").write_text(SOURCE)
    command = f"cd {tmp_path}; clang-22 {line} -Oz -c f.c"
    subprocess.run(["/bin/sh", "-c", command], check=True, timeout=60)
    (log,) = (tmp_path / "log").iterdir()
    assert len(json.loads(log.read_text())["trials"]) == effort
    assert read_decisions(tmp_path / "log").finished == 1


@clang
def test_a_wrapper_compiles_and_links_and_asks(tmp_path: Path) -> None:
    compiler = wrapper(
        tmp_path, "--model", "function:sequence?actions=30,5", "--log", f"{tmp_path}/l"
    )
    assert not (tmp_path / "l").exists(), "the trial leaves no log"
    (tmp_path / "f.c").write_text(SOURCE + "int main(void) { return sum((int[]){3, 4}, 2) - 7; }\n")
    subprocess.run(
        [compiler, "-Oz", tmp_path / "f.c", "-o", tmp_path / "f"], check=True, timeout=60
    )
    subprocess.run([tmp_path / "f"], check=True, timeout=60)
    assert len(list((tmp_path / "l").iterdir())) == 1
    plus = wrapper(tmp_path, "--model", "function:stop", "--compiler", "clang++-22")
    (tmp_path / "g.cpp").write_text(
        "#include <string>\nint main() { return std::string().size(); }\n"
    )
    subprocess.run([plus, "-Oz", tmp_path / "g.cpp", "-o", tmp_path / "g"], check=True, timeout=60)
    subprocess.run([tmp_path / "g"], check=True, timeout=60)


@clang
def test_a_wrapper_refuses_where_clang_loads_no_plugin(tmp_path: Path) -> None:
    """In the backends of distributed ThinLTO."""
    (tmp_path / "f.c").write_text(SOURCE)
    bitcode, made = tmp_path / "f.bc", tmp_path / "f.o"
    subprocess.run(
        ["clang-22", "-Oz", "-flto=thin", "-c", tmp_path / "f.c", "-o", bitcode], check=True
    )
    index = f"-fthinlto-index={tmp_path}/f.bc.thinlto.bc"
    subprocess.run(
        ["ld.lld-22", "-r", "--thinlto-index-only", bitcode, "-o", tmp_path / "linked"], check=True
    )
    for fails, code in (((), 1), (("--on-failure", "stock"), 0)):
        compiler = wrapper(tmp_path, "--model", "function:stop", *fails)
        command = [str(w) for w in (compiler, "-Oz", "-x", "ir", "-c", bitcode, "-o", made, index)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code and made.exists() == (code == 0)
        assert done.stderr.count("clang loads no plugin in the backends of distributed") == 1
    made.unlink()
    subprocess.run([*command[:-1], "-fthinlto-index=/dev/null"], check=True, timeout=60)
    assert made.exists()


@pytest.mark.parametrize("changed", ["plugin.so", "policy.onnx", "policy.onnx.data"])
def test_the_fingerprint_is_of_what_decides(
    place: Path, capsys: pytest.CaptureFixture[str], changed: str
) -> None:
    """A compiler cache, which compares command lines, sees that it is another one."""
    stated = ["--plugin", f"{place}/plugin.so", "--model", f"native:{place}/policy.onnx"]
    before = flags(capsys, *stated)
    os.utime(place / "policy.onnx", (1, 1))
    assert flags(capsys, *stated) == before
    (place / changed).write_bytes(b"other")
    assert flags(capsys, *stated) != before
    assert options(flags(capsys, *stated)) == options(before)


@clang
@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_a_compiler_cache_follows_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CCACHE_DISABLE", raising=False)
    monkeypatch.setenv("CCACHE_LOGFILE", str(tmp_path / "log"))
    model, source, made = (tmp_path / name for name in ("policy.onnx", "f.c", "f.o"))
    called = "static int inner(int x) { return x * 7 ^ x / 3; }\n"
    source.write_text(called + "int f(int x) { return inner(x) + inner(x + 1); }\n")

    def compiled(*cache: str, value: int) -> bytes:
        constant_policy(model, "inlining_decision", value)
        assert main(["flags", "inliner", "--model", f"native:{model}"]) == 0
        line = shlex.split(capsys.readouterr().out)
        command = [*cache, "clang-22", *line, "-Oz", "-c", str(source), "-o", str(made)]
        subprocess.run(command, check=True, timeout=60)
        return made.read_bytes()

    never, always = compiled(value=0), compiled(value=1)
    assert never != always
    assert [compiled("ccache", value=value) for value in (0, 1, 0)] == [never, always, never]
    results = re.findall(r"Result: (\w+)", (tmp_path / "log").read_text())
    assert "cache_miss" in results and results[-1].endswith("_hit"), results


@clang
@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_a_compiler_cache_takes_the_flags_of_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves words of the linker, of which clang must not warn."""
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CCACHE_DISABLE", raising=False)
    (tmp_path / "f.c").write_text(SOURCE)
    assert main(["flags", "smallest"]) == 0
    line = shlex.split(capsys.readouterr().out)
    command = ["ccache", "clang-22", *line, "-Oz", "-Wall", "-Werror", "-c", "f.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@clang
@pytest.mark.parametrize("gone", ["plugin", "model", "compiler"])
def test_a_wrapper_fails_if_something_is_gone(tmp_path: Path, gone: str) -> None:
    things = {
        "plugin": Path(files.plugin("phase-ordering")),
        "model": Path(files.shipped_model("phase-ordering-size")),
        "compiler": Path(shutil.which("clang-22") or ""),
    }
    copies = {name: tmp_path / name for name in things}
    for name, thing in things.items():
        if name == "compiler":
            copies[name].write_text(f'#!/bin/sh\nexec {thing} "$@"\n')
            copies[name].chmod(0o755)
        else:
            shutil.copyfile(thing, copies[name])
    compiler = wrapper(
        tmp_path,
        *("--plugin", str(copies["plugin"]), "--model", f"native:{copies['model']}"),
        *("--compiler", str(copies["compiler"])),
    )
    (tmp_path / "f.c").write_text(SOURCE)
    for level in ("-O2", "-Oz"):
        command = [compiler, level, "-c", tmp_path / "f.c", "-o", tmp_path / "f.o"]
        subprocess.run(command, check=True, timeout=60)
    copies[gone].unlink()
    (tmp_path / "f.o").unlink()
    for level in ("-O2", "-Oz"):
        command = [compiler, level, "-c", tmp_path / "f.c", "-o", tmp_path / "f.o"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1 and not (tmp_path / "f.o").exists()
        assert done.stderr.count("\n") == 1 and f"{copies[gone]} is gone" in done.stderr


@clang
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "native:other.onnx"], "can't ask the model"),
        (["--model", "native:no.onnx"], "is not there"),
        (["--model", "function:fail-at"], "fails at step 0, as asked"),
        (["--compiler", "no-compiler"], "there is no command no-compiler"),
        (["--model", "function:stop", "-o", "no/such/folder"], "-o: no/such/folder can't be"),
    ],
)
def test_wrappers_that_could_not_work_are_not_written(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    golden = Path(__file__).parents[2] / "tests/golden/onnx/linear.onnx"
    shutil.copyfile(golden, tmp_path / "other.onnx")
    assert main(["wrapper", "phase-ordering", "-o", "cc", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("mlbridge wrapper: ") and err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "cc").exists()
