# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whatever sizes a model chooses, programs do what they did, and a model that fails changes
nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine_programs import program
from beyond_llvm import ENVIRONMENT, RUNNERS, asked, record, tiles_network
from sampling import nightly, runners_of

import mlbridge
from mlbridge.files import plugin, shipped_model

PLUGIN = Path(plugin("polly-tiling"))
PROGRAMS = 20
FEW = 3
BENCH = Path(__file__).resolve().parents[4] / "bench/polly/kernels"
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


@dataclass
class Made:
    code: int
    said: str
    path: Path

    @property
    def object(self) -> bytes:
        assert self.code == 0, self.said
        return self.path.read_bytes()

    @property
    def sizes(self) -> list[str]:
        return re.findall(r"remark: (tile sizes [\d, ]+|Polly is left out of \w+) \[", self.said)


@dataclass
class Compiler:
    folder: Path

    def clang(self, text: str, *flags: str, level: str = "-O3", **settings: str) -> Made:
        """With Polly, and with the plugin if there are settings, which are its options."""
        source, made = self.folder / "source.c", self.folder / "source.o"
        source.write_text(text)
        made.unlink(missing_ok=True)
        line = ["-Xclang", f"-fpass-plugin={PLUGIN}"] if settings else []
        for name, value in settings.items():
            option = f"-polly-tiling-{name.replace('_', '-')}={value}"
            line += ["-Xclang", "-mllvm", "-Xclang", option]
        command = ["clang-22", level, "-mllvm", "-polly", "-Rpass=polly-tiling", *line, *flags]
        done = subprocess.run(
            [*command, "-fno-caret-diagnostics", "-c", "source.c", "-o", made],
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Made(done.returncode, done.stderr, made)

    def output(self, made: Made) -> str:
        assert made.code == 0, made.said
        linked = made.path.with_suffix(".program")
        subprocess.run(["clang-22", made.path, "-o", linked], check=True)
        return subprocess.run([linked], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    assert PLUGIN.is_file(), f"the plugin is not there: {PLUGIN}"
    return Compiler(tmp_path)


@contextmanager
def serving(folder: Path, policy: Callable[[Any, mlbridge.Context], list[int]]) -> Iterator[str]:
    spec = mlbridge.TensorSpec
    signature = mlbridge.Signature(
        [spec("loops", "float32", [8, 9])], [spec("sizes", "int64", [8])]
    )
    with mlbridge.Server(f"unix:{folder}/s", signature) as server:
        thread = threading.Thread(target=server.serve_forever, args=(policy,))
        thread.start()
        try:
            yield f"unix:{folder}/s"
        finally:
            server.stop()
            thread.join()


@pytest.mark.parametrize("count", [FEW, nightly(PROGRAMS)])
def test_generated_programs_do_the_same(compiler: Compiler, count: int) -> None:
    changed, decisions = 0, 0
    for seed in range(count):
        text = program(seed)
        printed = compiler.output(compiler.clang(text, "-mllvm", "-polly=false"))
        stock = compiler.clang(text).object
        path = tiles_network(compiler.folder / "tiles.onnx", seed)
        made = compiler.clang(text, model=f"native:{path}", on_failure="fail")
        assert compiler.output(made) == printed, seed
        changed += made.object != stock
        decisions += len(made.sizes)
    assert changed > count // 2 and decisions >= 4 * count
    record("polly", "native", count, decisions, True)


@pytest.mark.parametrize(
    ("runner", "count"), runners_of("polly-tiling", RUNNERS[1:], few=FEW, many=PROGRAMS)
)
def test_every_runner_chooses_the_same(compiler: Compiler, runner: str, count: int) -> None:
    path, decisions = tiles_network(compiler.folder / "tiles.onnx"), 0
    with asked(runner, path, compiler.folder) as uri:
        for seed in range(count):
            expected = compiler.clang(program(seed), model=f"native:{path}", on_failure="fail")
            before, sizes = expected.object, expected.sizes
            made = compiler.clang(program(seed), model=uri, on_failure="fail")
            assert made.object == before and made.sizes == sizes
            decisions += len(sizes)
    record("polly", runner, count, decisions, True)


def test_what_a_model_sees_and_decides(compiler: Compiler) -> None:
    seen: list[Any] = []
    stock = compiler.clang(PRODUCT).object
    plain = compiler.clang(PRODUCT, "-mllvm", "-polly=false").object
    fixed = compiler.clang(PRODUCT, "-mllvm", "-polly-tile-sizes=16,24,32").object
    answers: Iterator[list[int]] = iter([[16, 24, 32], [1, 1, 1], [32, 32, 32]])

    def policy(observation: Any, context: mlbridge.Context) -> list[int]:
        seen.append(np.array(observation["loops"]))
        return [*next(answers), 0, 0, 0, 0, 0]

    with serving(compiler.folder, policy) as uri:
        made = compiler.clang(PRODUCT, model=uri, on_failure="fail")
        assert made.sizes == ["tile sizes 16, 24, 32"] and made.object == fixed != stock
        left = compiler.clang(PRODUCT, model=uri, on_failure="fail")
        assert left.sizes == ["Polly is left out of product"] and left.object == plain != stock
        assert compiler.clang(PRODUCT, model=uri, on_failure="fail").object == stock
    assert len(seen) == 3, "a function without loops is not asked about"
    assert seen[0][:, 0].tolist() == [200, 200, 200, 0, 0, 0, 0, 0]
    assert seen[0][:3, 3].tolist() == [1, 1, 0]
    assert not seen[0][3:].any() and (seen[0][:3, 8] == 1).all()


def test_sizes_are_of_one_function(compiler: Compiler) -> None:
    """The option is the process's: what the last function got must not reach the next one."""
    two = PRODUCT + PRODUCT.replace("product", "again").replace("straight", "other").replace(
        "enum { N = 200 };", ""
    )
    answers = iter([[16, 24, 32], [32, 32, 32]])
    with serving(compiler.folder, lambda *_: [*next(answers), 1, 1, 1, 1, 1]) as uri:
        made = compiler.clang(two, "-fno-inline", model=uri, on_failure="fail")
    assert made.sizes == ["tile sizes 16, 24, 32", "tile sizes 32, 32, 32"]
    lengths = re.findall(
        r"\w+ ([0-9a-f]+) T (again|product)\n".replace("\\w+ ", ""),
        subprocess.run(
            ["llvm-nm-22", "-S", made.path], capture_output=True, text=True, check=True
        ).stdout,
    )
    assert len(lengths) == 2 and lengths[0][0] != lengths[1][0]


@pytest.mark.parametrize("sizes", [[0] * 8, [-1] * 8, [4097] * 8])
@pytest.mark.parametrize("on_failure", ["stock", "fail"])
def test_sizes_that_cannot_be_used(compiler: Compiler, sizes: list[int], on_failure: str) -> None:
    stock = compiler.clang(PRODUCT).object
    with serving(compiler.folder, lambda *_: sizes) as uri:
        made = compiler.clang(PRODUCT, "-Werror", model=uri, on_failure=on_failure)
        relaxed = compiler.clang(PRODUCT, model=uri, on_failure=on_failure)
    assert f"sizes: {sizes[0]} for loop 0" in relaxed.said
    if on_failure == "fail":
        assert made.code != 0 and relaxed.code != 0
    else:
        assert relaxed.said.count("warning: ") == 1 and relaxed.object == stock


def test_sizes_above_the_trips_are_these(compiler: Compiler) -> None:
    with serving(compiler.folder, lambda *_: [4096, 7, 201, 0, 0, 0, 0, 0]) as uri:
        made = compiler.clang(PRODUCT, model=uri, on_failure="fail")
    assert made.sizes == ["tile sizes 200, 7, 200"]


def test_of_deep_nests_the_innermost_loops_are_asked_about(compiler: Compiler) -> None:
    names = [f"i{number}" for number in range(10)]
    loops = "".join(f"for (int {x} = 0; {x} < {at + 2}; ++{x})" for at, x in enumerate(names))
    text = f"void deep(int *a) {{ {loops} a[{' + '.join(names)}] += 1; }}"
    seen: list[Any] = []

    def policy(observation: Any, context: mlbridge.Context) -> list[int]:
        seen.append(np.array(observation["loops"]))
        return [1] * 8

    with serving(compiler.folder, policy) as uri:
        made = compiler.clang(text, "-fno-unroll-loops", level="-O1", model=uri, on_failure="fail")
    assert made.sizes == ["Polly is left out of deep"] and len(seen) == 1
    trips = seen[0][:, 0].tolist()
    assert trips == sorted(trips) and trips[-1] == 11 and 0 not in trips


def test_functions_without_polly_are_those_of_plain_clang(compiler: Compiler) -> None:
    """Also where the passes that clean up after Polly would have changed them."""
    differ = 0
    with serving(compiler.folder, lambda *_: [1] * 8) as uri:
        for seed in range(FEW):
            plain = compiler.clang(program(seed), "-mllvm", "-polly=false").object
            assert compiler.clang(program(seed), model=uri, on_failure="fail").object == plain
        window = (BENCH / "convolution.c").read_text()
        include = f"-I{BENCH}"
        plain = compiler.clang(window, include, "-mllvm", "-polly=false").object
        assert compiler.clang(window, include, model=uri, on_failure="fail").object == plain
        differ += compiler.clang(window, include).object != plain
    assert differ


def test_vectors_of_unknown_length(compiler: Compiler) -> None:
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
    line = [
        "-load-pass-plugin",
        str(PLUGIN),
        f"-polly-tiling-model=native:{shipped_model('polly-tiling')}",
    ]
    command = ["opt-22", "-passes=default<O3>", "-polly", *line, "-polly-tiling-on-failure=fail"]
    done = subprocess.run(
        [*command, "-S", "scalable.ll", "-o", "made.ll"],
        cwd=compiler.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_lto(compiler: Compiler) -> None:
    """The plugin is for the linker then. ThinLTO links in threads: one warning, and as without."""
    main = "void product(double *, double *, double *); double x[40000]; "
    main += "int main(void) { product(x, x, x); return 0; }"
    path = tiles_network(compiler.folder / "tiles.onnx")
    asking = {"MLBRIDGE_POLLY_TILING_MODEL": f"native:{path}"}
    for kind, says in (("full", "tile sizes "), ("thin", "ThinLTO links in threads")):
        objects: list[Path] = []
        for name, text in (("p", PRODUCT.split("int straight")[0]), ("m", main)):
            made = compiler.clang(text, f"-flto={kind}", level="-O3")
            assert made.code == 0, made.said
            objects.append(made.path.rename(compiler.folder / f"{name}.{kind}.o"))
        command: list[str | Path] = ["clang-22", "-O3", f"-flto={kind}", "-fuse-ld=lld"]
        command += [*objects, "-o"]
        command += [compiler.folder / kind, f"-Wl,--load-pass-plugin={PLUGIN}"]
        for option in ("-polly", "-pass-remarks=polly-tiling"):
            command += ["-Wl,-mllvm", f"-Wl,{option}"]
        linked = subprocess.run(
            command, env=dict(os.environ) | asking, capture_output=True, text=True, check=True
        )
        assert (linked.stdout + linked.stderr).count(says) == 1
        subprocess.run([compiler.folder / kind], check=True)


def test_a_slow_server_is_given_up(compiler: Compiler) -> None:
    stock, slow = compiler.clang(program(1)).object, threading.Event()

    def policy(observation: Any, context: mlbridge.Context) -> list[int]:
        slow.wait(60)
        return [1] * 8

    with serving(compiler.folder, policy) as uri:
        made = compiler.clang(program(1), model=uri, deadline="200ms")
        slow.set()
    assert made.said.count("warning: ") == 1 and made.object == stock


def command_line(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "mlbridge", "flags", "polly-tiling", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_command_line_asks_the_shipped_model(compiler: Compiler) -> None:
    made = compiler.clang(PRODUCT, "-Werror", *command_line("--on-failure", "fail"))
    shipped = f"native:{shipped_model('polly-tiling')}"
    assert made.sizes and made.object == compiler.clang(PRODUCT, model=shipped).object
    # Where there is nothing to do, there is nothing to say.
    assert compiler.clang("", "-Werror", *command_line()).code == 0
    stock = compiler.clang(PRODUCT).object
    made = compiler.clang(PRODUCT, "-Werror", *command_line("--model", "unix:nobody"))
    assert made.said.count("warning: ") == 1 and made.object == stock


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


def test_a_required_model_must_fit(compiler: Compiler) -> None:
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


def test_models_that_do_not_fit_and_wrong_options(compiler: Compiler) -> None:
    stock = compiler.clang(PRODUCT).object
    other = tiles_network(compiler.folder / "other.onnx", rows=4)
    (compiler.folder / "damaged.onnx").write_bytes(b"\x08")
    for uri in (f"native:{other}", f"native:{compiler.folder}/damaged.onnx", "unix:nobody"):
        made = compiler.clang(PRODUCT, model=uri)
        assert made.said.count("warning: ") == 1 and made.object == stock
    good = f"native:{tiles_network(compiler.folder / 'tiles.onnx')}"
    for wrong in ({"deadline": "soon"}, {"on_failure": "cry"}, {"levels": "O9"}):
        made = compiler.clang(PRODUCT, model=good, **wrong)
        assert made.code != 0 and "-polly-tiling-" in made.said
    made = compiler.clang(PRODUCT, "-mllvm", "-polly-tile-sizes=8", model=good)
    assert made.code != 0 and "-polly-tile-sizes is given as well" in made.said


def test_without_polly_or_optimization_nothing_is_asked(compiler: Compiler) -> None:
    nobody = {"model": "unix:nobody", "on_failure": "fail"}
    for level, flags in (("-O3", ["-mllvm", "-polly=false"]), ("-O0", []), ("-Os", [])):
        made = compiler.clang(PRODUCT, *flags, level=level, **nobody)
        assert made.object == compiler.clang(PRODUCT, *flags, level=level).object


def test_a_server_that_dies(compiler: Compiler) -> None:
    stock = compiler.clang(program(1)).object
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
        made = compiler.clang(program(1), model=f"unix:{compiler.folder}/s", deadline="20s")
        server.wait(timeout=60)
    assert made.said.count("warning: ") == 1 and made.object == stock


def kernel_prints(compiler: Compiler, text: str, *flags: str, **settings: str) -> str:
    """The checksum of a kernel of bench/polly."""
    made = compiler.clang(text, f"-I{BENCH}", f"-I{BENCH.parent}", "-w", *flags, **settings)
    assert made.code == 0, made.said
    command: list[str | Path] = [
        "clang-22",
        "-O1",
        made.path,
        BENCH.parent / "main.c",
        "-o",
        "kernel",
        "-lm",
    ]
    subprocess.run(command, cwd=compiler.folder, check=True)
    return subprocess.run(
        [compiler.folder / "kernel"], capture_output=True, text=True, check=True
    ).stdout


def same_kernel(compiler: Compiler, text: str) -> None:
    plain = kernel_prints(compiler, text, "-mllvm", "-polly=false")
    shipped = f"native:{shipped_model('polly-tiling')}"
    assert kernel_prints(compiler, text, model=shipped, on_failure="fail") == plain


@pytest.mark.parametrize("name", ["elimination", "covariance"])
def test_kernels_compute_the_same_with_the_shipped_model(compiler: Compiler, name: str) -> None:
    same_kernel(compiler, (BENCH / f"{name}.c").read_text())


@pytest.mark.nightly
def test_all_kernels_compute_the_same_with_the_shipped_model(compiler: Compiler) -> None:
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
    line = ["-mllvm", "-polly", "-Xclang", f"-fpass-plugin={PLUGIN}"]
    for option in (f"model=native:{path}", "on-failure=fail"):
        line += ["-Xclang", "-mllvm", "-Xclang", f"-polly-tiling-{option}"]
    names = ["zlib", "bzip2", "lz4", "cjson", "expat"]
    for program_ in fetch(select(load(), names)):
        outputs = []
        for way, flags in (("stock", []), ("asked", line)):
            folder = tmp_path / program_.name / way
            made = compile_program(program_, folder, flags=["-O3", *flags])
            link_program(program_, made, folder)
            outputs.append(run_test(program_, folder, tmp_path / "work"))
        assert outputs[0] == outputs[1], program_.name
    record("polly, real programs", "native", len(names), 0, True)
