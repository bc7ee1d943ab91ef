# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever sizes a model chooses, programs do what they did, and a model that fails changes
nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine_programs import program
from beyond_llvm import ENVIRONMENT, RUNNERS, TILES, asked, record, tiles_network
from compiler import Compiled, Compiler, loading, printed_flags, serving
from sampling import nightly, runners_of

import mlbridge
from mlbridge.files import shipped_model

PROGRAMS = 20
FEW = 3
BENCH = Path(__file__).resolve().parents[4] / "experiments/polly/kernels"
PRODUCT = """
enum { N = 200 };
void product(double a[restrict N][N], double b[restrict N][N], double c[restrict N][N]) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j)
      for (int k = 0; k < N; ++k)
        c[i][j] += a[i][k] * b[k][j];
}
int straight(int x) { return x * 3; }
"""


def chosen(made: Compiled) -> list[str]:
    return re.findall(r"remark: (tile sizes [\d, ]+|Polly is left out of \w+) \[", made.stderr)


class PollyCompiler(Compiler):
    def text(self, text: str, *flags: str, level: str = "", **settings: str) -> Compiled:
        """Compiles this text."""
        source = self.folder / "source.c"
        source.write_text(text)
        return self.clang(source, *flags, level=level, **settings)


@pytest.fixture
def compiler(tmp_path: Path) -> PollyCompiler:
    flags = ("-O3", "-mllvm", "-polly", "-Rpass=polly-tiling", "-fno-caret-diagnostics")
    return PollyCompiler("polly-tiling", tmp_path, flags=flags, environment=ENVIRONMENT)


@pytest.mark.parametrize("count", [FEW, nightly(PROGRAMS)])
def test_generated_programs_do_the_same(compiler: PollyCompiler, count: int) -> None:
    changed, decisions = 0, 0
    for seed in range(count):
        text = program(seed)
        printed = compiler.output(compiler.text(text, "-mllvm", "-polly=false"))
        stock = compiler.text(text).object
        path = tiles_network(compiler.folder / "tiles.onnx", seed)
        made = compiler.text(text, model=f"native:{path}", on_failure="fail")
        assert compiler.output(made) == printed, seed
        changed += made.object != stock
        decisions += len(chosen(made))
    assert changed > count // 2 and decisions >= 4 * count
    record("polly", "native", count, decisions, True)


@pytest.mark.parametrize(
    ("runner", "count"), runners_of("polly-tiling", RUNNERS[1:], few=FEW, many=PROGRAMS)
)
def test_every_runner_chooses_the_same(compiler: PollyCompiler, runner: str, count: int) -> None:
    path, decisions = tiles_network(compiler.folder / "tiles.onnx"), 0
    with asked(runner, path, compiler.folder) as uri:
        for seed in range(count):
            expected = compiler.text(program(seed), model=f"native:{path}", on_failure="fail")
            before, sizes = expected.object, chosen(expected)
            made = compiler.text(program(seed), model=uri, on_failure="fail")
            assert made.object == before and chosen(made) == sizes
            decisions += len(sizes)
    record("polly", runner, count, decisions, True)


def test_what_a_model_sees_and_decides(compiler: PollyCompiler) -> None:
    seen: list[Any] = []
    stock = compiler.text(PRODUCT).object
    plain = compiler.text(PRODUCT, "-mllvm", "-polly=false").object
    fixed = compiler.text(PRODUCT, "-mllvm", "-polly-tile-sizes=16,24,32").object
    answers = iter([[16, 24, 32], [1, 1, 1], [32, 32, 32]])

    def policy(observation: Any, context: mlbridge.CallContext) -> list[int]:
        seen.append(np.array(observation["loops"]))
        return [*next(answers), 0, 0, 0, 0, 0]

    with serving(policy, compiler.folder, TILES) as uri:
        made = compiler.text(PRODUCT, model=uri, on_failure="fail")
        assert chosen(made) == ["tile sizes 16, 24, 32"] and made.object == fixed != stock
        left = compiler.text(PRODUCT, model=uri, on_failure="fail")
        assert chosen(left) == ["Polly is left out of product"] and left.object == plain != stock
        assert compiler.text(PRODUCT, model=uri, on_failure="fail").object == stock
    assert len(seen) == 3, "a function without loops is not asked about"
    assert seen[0][:, 0].tolist() == [200, 200, 200, 0, 0, 0, 0, 0]
    assert seen[0][:3, 3].tolist() == [1, 1, 0]
    assert not seen[0][3:].any() and (seen[0][:3, 8] == 1).all()


def test_sizes_are_of_one_function(compiler: PollyCompiler) -> None:
    """The option is the process's: what the last function got must not reach the next one."""
    two = PRODUCT + PRODUCT.replace("product", "again").replace("straight", "other").replace(
        "enum { N = 200 };", ""
    )
    answers = iter([[16, 24, 32], [32, 32, 32]])
    with serving(lambda *_: [*next(answers), 1, 1, 1, 1, 1], compiler.folder, TILES) as uri:
        made = compiler.text(two, "-fno-inline", model=uri, on_failure="fail")
    assert chosen(made) == ["tile sizes 16, 24, 32", "tile sizes 32, 32, 32"]
    lengths = re.findall(
        r"\w+ ([0-9a-f]+) T (again|product)\n".replace("\\w+ ", ""),
        compiler.run("llvm-nm-22", "-S", made.path).stdout,
    )
    assert len(lengths) == 2 and lengths[0][0] != lengths[1][0]


@pytest.mark.parametrize("sizes", [[0] * 8, [-1] * 8, [4097] * 8])
@pytest.mark.parametrize("on_failure", ["stock", "fail"])
def test_sizes_that_cannot_be_used(
    compiler: PollyCompiler, sizes: list[int], on_failure: str
) -> None:
    stock = compiler.text(PRODUCT).object
    with serving(lambda *_: sizes, compiler.folder, TILES) as uri:
        made = compiler.text(PRODUCT, "-Werror", model=uri, on_failure=on_failure)
        relaxed = compiler.text(PRODUCT, model=uri, on_failure=on_failure)
    assert f"sizes: {sizes[0]} for loop 0" in relaxed.stderr
    if on_failure == "fail":
        assert made.code != 0 and relaxed.code != 0
    else:
        assert relaxed.stderr.count("warning: ") == 1 and relaxed.object == stock


def test_sizes_above_the_trips_are_these(compiler: PollyCompiler) -> None:
    with serving(lambda *_: [4096, 7, 201, 0, 0, 0, 0, 0], compiler.folder, TILES) as uri:
        made = compiler.text(PRODUCT, model=uri, on_failure="fail")
    assert chosen(made) == ["tile sizes 200, 7, 200"]


def test_of_deep_nests_the_innermost_loops_are_asked_about(compiler: PollyCompiler) -> None:
    names = [f"i{number}" for number in range(10)]
    loops = "".join(f"for (int {x} = 0; {x} < {at + 2}; ++{x})" for at, x in enumerate(names))
    text = f"void deep(int *a) {{ {loops} a[{' + '.join(names)}] += 1; }}"
    seen: list[Any] = []

    def policy(observation: Any, context: mlbridge.CallContext) -> list[int]:
        seen.append(np.array(observation["loops"]))
        return [1] * 8

    with serving(policy, compiler.folder, TILES) as uri:
        made = compiler.text(text, "-fno-unroll-loops", level="-O1", model=uri, on_failure="fail")
    assert chosen(made) == ["Polly is left out of deep"] and len(seen) == 1
    trips = seen[0][:, 0].tolist()
    assert trips == sorted(trips) and trips[-1] == 11 and 0 not in trips


def test_functions_without_polly_are_those_of_plain_clang(compiler: PollyCompiler) -> None:
    """Also where the passes that clean up after Polly would have changed them."""
    differ = 0
    with serving(lambda *_: [1] * 8, compiler.folder, TILES) as uri:
        for seed in range(FEW):
            plain = compiler.text(program(seed), "-mllvm", "-polly=false").object
            assert compiler.text(program(seed), model=uri, on_failure="fail").object == plain
        window = (BENCH / "convolution.c").read_text()
        include = f"-I{BENCH}"
        plain = compiler.text(window, include, "-mllvm", "-polly=false").object
        assert compiler.text(window, include, model=uri, on_failure="fail").object == plain
        differ += compiler.text(window, include).object != plain
    assert differ


def test_vectors_of_unknown_length(compiler: PollyCompiler) -> None:
    """Whose bytes are a multiple of a number that only the processor knows."""
    (compiler.folder / "scalable.ll").write_text("""
target triple = "riscv64-unknown-linux-gnu"
define void @f(ptr %p, ptr %q, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = load <vscale x 1 x i8>, ptr %p
  store <vscale x 1 x i8> %a, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}
""")
    asking = [
        f"-load-pass-plugin={compiler.plugin}",
        f"-polly-tiling-model=native:{shipped_model('polly-tiling')}",
        "-polly-tiling-on-failure=fail",
    ]
    line = ("opt-22", "-passes=default<O3>", "-polly", *asking)
    compiler.run(*line, "-S", "scalable.ll", "-o", "made.ll")


def test_lto(compiler: PollyCompiler) -> None:
    """The plugin is for the linker then. ThinLTO links in threads: one warning, and as without."""
    main = "void product(double *, double *, double *); double x[40000]; "
    main += "int main(void) { product(x, x, x); return 0; }"
    path = tiles_network(compiler.folder / "tiles.onnx")
    asking = {"MLBRIDGE_POLLY_TILING_MODEL": f"native:{path}"}
    for kind, says in (("full", "tile sizes "), ("thin", "ThinLTO links in threads")):
        objects: list[Path] = []
        for name, text in (("p", PRODUCT.split("int straight")[0]), ("m", main)):
            made = compiler.text(text, f"-flto={kind}", level="-O3")
            assert made.code == 0, made.stderr
            objects.append(made.path.rename(compiler.folder / f"{name}.{kind}.o"))
        command: list[str | Path] = ["clang-22", "-O3", f"-flto={kind}", "-fuse-ld=lld"]
        command += [*objects, "-o"]
        command += [compiler.folder / kind, f"-Wl,--load-pass-plugin={compiler.plugin}"]
        for option in ("-polly", "-pass-remarks=polly-tiling"):
            command += ["-Wl,-mllvm", f"-Wl,{option}"]
        linked = compiler.run(*command, environment=asking)
        assert (linked.stdout + linked.stderr).count(says) == 1
        compiler.run(compiler.folder / kind)


def test_a_slow_server_is_given_up(compiler: PollyCompiler) -> None:
    stock, slow = compiler.text(program(1)).object, threading.Event()

    def policy(observation: Any, context: mlbridge.CallContext) -> list[int]:
        slow.wait(60)
        return [1] * 8

    with serving(policy, compiler.folder, TILES) as uri:
        made = compiler.text(program(1), model=uri, deadline="200ms")
        slow.set()
    assert made.stderr.count("warning: ") == 1 and made.object == stock


def test_the_command_line_asks_the_shipped_model(compiler: PollyCompiler) -> None:
    made = compiler.text(PRODUCT, "-Werror", *printed_flags("polly-tiling", "--on-failure", "fail"))
    shipped = f"native:{shipped_model('polly-tiling')}"
    assert chosen(made) and made.object == compiler.text(PRODUCT, model=shipped).object
    # Where there is nothing to do, there is nothing to say.
    assert compiler.text("", "-Werror", *printed_flags("polly-tiling")).code == 0
    stock = compiler.text(PRODUCT).object
    made = compiler.text(
        PRODUCT, "-Werror", *printed_flags("polly-tiling", "--model", "unix:nobody")
    )
    assert made.stderr.count("warning: ") == 1 and made.object == stock


def test_what_the_page_says(tmp_path: Path) -> None:
    """Its commands, in a folder with the files that they name."""
    (tmp_path / "f.c").write_text(PRODUCT)
    tiles_network(tmp_path / "tiles.onnx")
    for name, text in (("a", "int f(void) { return 0; }"), ("b", "int main(void) { return 0; }")):
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["clang-22", "-O3", "-flto", "-c", f"{name}.c"], cwd=tmp_path, check=True)
    page = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", "".join(blocks)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr
    assert "[-Rpass=polly-tiling]" in done.stderr and (tmp_path / "a.out").is_file()


def test_a_required_model_must_fit(compiler: PollyCompiler) -> None:
    other = tiles_network(compiler.folder / "other.onnx", rows=4)
    command = [sys.executable, "-m", "mlbridge", "flags", "polly-tiling", "--require", "--model"]
    done = subprocess.run(
        [*command, f"native:{other}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "loops" in done.stderr
    fits = tiles_network(compiler.folder / "tiles.onnx")
    assert (
        subprocess.run([*command, f"native:{fits}"], capture_output=True, check=False).returncode
        == 0
    )


def test_models_that_do_not_fit_and_wrong_options(compiler: PollyCompiler) -> None:
    stock = compiler.text(PRODUCT).object
    other = tiles_network(compiler.folder / "other.onnx", rows=4)
    (compiler.folder / "damaged.onnx").write_bytes(b"\x08")
    for uri in (f"native:{other}", f"native:{compiler.folder}/damaged.onnx", "unix:nobody"):
        made = compiler.text(PRODUCT, model=uri)
        assert made.stderr.count("warning: ") == 1 and made.object == stock
    good = f"native:{tiles_network(compiler.folder / 'tiles.onnx')}"
    for wrong in ({"deadline": "soon"}, {"on_failure": "cry"}, {"levels": "O9"}):
        made = compiler.text(PRODUCT, model=good, **wrong)
        assert made.code != 0 and "-polly-tiling-" in made.stderr
    made = compiler.text(PRODUCT, "-mllvm", "-polly-tile-sizes=8", model=good)
    assert made.code != 0 and "-polly-tile-sizes is given as well" in made.stderr


def test_without_polly_or_optimization_nothing_is_asked(compiler: PollyCompiler) -> None:
    nobody = {"model": "unix:nobody", "on_failure": "fail"}
    for level, flags in (("-O3", ["-mllvm", "-polly=false"]), ("-O0", []), ("-Os", [])):
        made = compiler.text(PRODUCT, *flags, level=level, **nobody)
        assert made.object == compiler.text(PRODUCT, *flags, level=level).object


def test_a_server_that_dies(compiler: PollyCompiler) -> None:
    stock = compiler.text(program(1)).object
    script = (
        "import os, sys, mlbridge\n"
        "s = mlbridge.TensorSpec\n"
        "g = mlbridge.Signature([s('loops','float32',[8,9])], [s('sizes','int64',[8])])\n"
        "def policy(observation, context): os.kill(os.getpid(), 9)\n"
        "with mlbridge.Server('unix:' + sys.argv[1], g) as server:\n"
        "    print('ready', flush=True)\n"
        "    server.serve_forever(policy)\n"
    )
    command = [sys.executable, "-c", script, f"{compiler.folder}/s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout and server.stdout.readline() == "ready\n"
        made = compiler.text(program(1), model=f"unix:{compiler.folder}/s", deadline="20s")
        server.wait(timeout=60)
    assert made.stderr.count("warning: ") == 1 and made.object == stock


def kernel_prints(compiler: PollyCompiler, text: str, *flags: str, **settings: str) -> str:
    """The checksum of a kernel of experiments/polly."""
    made = compiler.text(text, f"-I{BENCH}", f"-I{BENCH.parent}", "-w", *flags, **settings)
    assert made.code == 0, made.stderr
    main = BENCH.parent / "main.c"
    compiler.run("clang-22", "-O1", made.path, main, "-o", "kernel", "-lm")
    return compiler.run(compiler.folder / "kernel").stdout


def same_kernel(compiler: PollyCompiler, text: str) -> None:
    plain = kernel_prints(compiler, text, "-mllvm", "-polly=false")
    shipped = f"native:{shipped_model('polly-tiling')}"
    assert kernel_prints(compiler, text, model=shipped, on_failure="fail") == plain


@pytest.mark.parametrize("name", ["elimination", "covariance"])
def test_kernels_compute_the_same_with_the_shipped_model(
    compiler: PollyCompiler, name: str
) -> None:
    same_kernel(compiler, (BENCH / f"{name}.c").read_text())


@pytest.mark.nightly
def test_all_kernels_compute_the_same_with_the_shipped_model(compiler: PollyCompiler) -> None:
    """Also random ones, of each kind."""
    sys.path.insert(0, str(BENCH.parents[2] / "models" / "polly-tiling"))
    import nests

    texts = [path.read_text() for path in sorted(BENCH.glob("*.c"))]
    first = 10_000
    texts += [nests.kernel(first + seed) for seed in range(len(nests.FAMILIES))]
    for text in texts:
        same_kernel(compiler, text)


@pytest.mark.nightly
def test_real_programs_do_the_same(tmp_path: Path) -> None:
    from programs.build import compile_program, link_program, run_test
    from programs.catalog import load, select
    from programs.fetch import fetch

    path = tiles_network(tmp_path / "tiles.onnx", seed=1)
    line = loading("polly-tiling", model=f"native:{path}", on_failure="fail")
    names = ["zlib", "bzip2", "lz4", "cjson", "expat"]
    for program_ in fetch(select(load(), names)):
        outputs = []
        for way, flags in (("stock", []), ("asked", line)):
            folder = tmp_path / program_.name / way
            made = compile_program(program_, folder, flags=["-O3", "-mllvm", "-polly", *flags])
            link_program(program_, made, folder)
            outputs.append(run_test(program_, folder, tmp_path / "work"))
        assert outputs[0] == outputs[1], program_.name
    record("polly, real programs", "native", len(names), 0, True)
