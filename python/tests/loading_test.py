# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models from files: ONNX, PyTorch, Python; and the command that serves them."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlbridge
from mlbridge import LoadedModel, Signature, TensorSpec
from mlbridge.cli import main
from serving import at_once

SIGNATURE = "(x: float32[4]) -> (y: float32[2])"
WEIGHTS = np.arange(8, dtype=np.float32).reshape(4, 2) / 7

needs_onnx = pytest.mark.skipif(
    not importlib.util.find_spec("onnxruntime") or not importlib.util.find_spec("onnx"),
    reason="needs onnx and onnxruntime",
)


def save_onnx(path: Path, shape: list[Any], weights: Any = WEIGHTS, **properties: str) -> Path:
    """y = x @ weights."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rows, columns = weights.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*shape, rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape, columns])],
        [numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, properties)
    onnx.save(made, path)
    return path


class Serving:
    """A loaded model on a thread."""

    def __init__(self, model: LoadedModel, uri: str, **options: Any) -> None:
        self.statistics: Any = None
        self._ready = threading.Event()
        self._server: mlbridge.Server | None = None
        self._error: BaseException | None = None

        def ready(server: mlbridge.Server) -> None:
            self._server = server
            self._ready.set()

        def run() -> None:
            try:
                self.statistics = model.serve(uri, ready=ready, **options)
            except BaseException as error:
                self._error = error
                self._ready.set()

        self._thread = threading.Thread(target=run)

    def __enter__(self) -> Serving:
        self._thread.start()
        assert self._ready.wait(60)
        if self._error is not None:
            self._thread.join(60)
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.stop()
        self._thread.join(60)
        assert not self._thread.is_alive()


def ask_together(uri: str, rows: list[Any], **options: Any) -> list[Any]:
    """Everybody is connected before anybody asks: a batch waits for nobody else."""
    answers: list[Any] = [None] * len(rows)
    runners = [mlbridge.open(uri, deadline=60, **options) for _ in rows]

    def one(k: int) -> None:
        answers[k] = runners[k].evaluate(x=np.asarray(rows[k], np.float32))["y"]

    at_once(one, len(rows))
    return answers


@needs_onnx
def test_an_onnx_file_answers_as_in_process(tmp_path: Path, address: str) -> None:
    path = save_onnx(tmp_path / "m.onnx", [1], note="what compilers read")
    with Serving(mlbridge.load(str(path)), address) as serving:
        inside, outside = mlbridge.open(f"onnx:{path}"), mlbridge.open(address)
        assert inside.signature == outside.signature
        for k in range(3):
            x = np.linspace(-k, 1, 4, dtype=np.float32)[None]
            assert inside.evaluate(x=x)["y"].tobytes() == outside.evaluate(x=x)["y"].tobytes()
        assert outside.model.metadata["note"] == "what compilers read"
    assert serving.statistics.replies == 3


@needs_onnx
@pytest.mark.parametrize("columns", [1, 48])
def test_large_weights_are_packed_in_process_and_in_servers_alike(
    tmp_path: Path, columns: int
) -> None:
    numbers = np.random.default_rng(3)
    weights = numbers.uniform(-1, 1, (40_000, columns)).astype("float32")
    path = save_onnx(tmp_path / "m.onnx", [1], weights)
    evaluate = mlbridge.load_onnx(path).policy
    inside, other = (
        mlbridge.open(f"onnx:{path}{options}")
        for options in ("", "?prepack=1" if columns == 1 else "?prepack=0")
    )
    differed = False
    for _ in range(4):
        x = numbers.uniform(-1, 1, (1, 40_000)).astype("float32")
        answer = inside.evaluate(x=x)["y"].tobytes()
        assert evaluate({"x": x}, None)["y"].tobytes() == answer  # type: ignore[arg-type]
        differed |= other.evaluate(x=x)["y"].tobytes() != answer
    assert differed, "this network does not tell the kernels apart"


@needs_onnx
def test_requests_share_a_dynamic_first_dimension(tmp_path: Path, address: str) -> None:
    path = save_onnx(tmp_path / "m.onnx", ["batch"])
    model = mlbridge.load_onnx(path)
    assert str(model.signature) == "(x: float32[?, 4]) -> (y: float32[?, 2])"
    sizes: list[int] = []
    inner = model.batch_policy
    assert inner is not None

    def counting(observations: Mapping[str, Any], contexts: Any) -> Any:
        sizes.append(len(contexts))
        return inner(observations, contexts)

    counted = LoadedModel("m", model.policy, counting, model.signature)
    # Complete with four, or else after longer than any test may take.
    with Serving(counted, address, batch=4, max_wait=600.0):
        rows = [np.full((1 + k % 2, 4), k, np.float32) for k in range(8)]
        for row, answer in zip(rows, ask_together(address, rows), strict=True):
            np.testing.assert_allclose(answer, row @ WEIGHTS, rtol=1e-5)
    assert sum(sizes) == 8 and max(sizes) > 1


@needs_onnx
def test_padded_requests_get_their_own_part(tmp_path: Path, address: str) -> None:
    path = save_onnx(tmp_path / "m.onnx", ["batch", "length"])
    with Serving(mlbridge.load(str(path)), address, batch=3, max_wait=600.0, pad=0.0):
        rows = [np.full((1, n, 4), n, np.float32) for n in (1, 3, 2)]
        for row, answer in zip(rows, ask_together(address, rows), strict=True):
            assert answer.shape == (1, row.shape[1], 2)
            np.testing.assert_allclose(answer, row @ WEIGHTS, rtol=1e-5)


@needs_onnx
def test_a_network_without_a_dynamic_dimension_has_no_batches(
    tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = save_onnx(tmp_path / "m.onnx", [1])
    assert main(["serve", str(path), "--at", address, "--batch", "8"]) == 1
    error = capsys.readouterr().err
    assert "m.onnx cannot take batches: 'x' [1, 4] does not begin with a dynamic dimension" in error


@needs_onnx
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.onnx"], "missing.onnx is not there; expected an ONNX file"),
        (["."], ". is a folder; expected an ONNX file"),
        (["text.onnx"], "text.onnx: not an ONNX model"),
        (["text.pt"], "text.pt: neither TorchScript nor torch.export"),
        (["missing.pt2"], "missing.pt2 is not there"),
        (["no_such_module_1:policy"], "no Python module 'no_such_module_1'"),
        (["missing.py:policy"], "missing.py is not there"),
        (["p.py:nothing"], "p.py has no 'nothing'"),
        (["p.py:number"], "p.py:number is a int; expected a function"),
        (["p.py"], "expected the name of a function too: p.py:FUNCTION"),
        (["p.py:policy", "--signature", "x -> y"], "is not a signature such as"),
        (["p.py:policy", "--signature", "(x: float33) -> (y: int8)"], "'x: float33'"),
        (["p.py:policy", "--batch", "0"], "--batch: expected a number of at least 1"),
        (["p.py:policy", "--batch", "2", "--max-wait", "1"], "--max-wait: expected a time"),
        (["p.py:policy", "--pad", "0"], "add --batch N"),
        (["p.py:policy", "--agent", "p.py:policy"], "--agent: expected NAME=MODEL"),
    ],
)
def test_what_cannot_be_served_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.onnx").write_text("no model")
    Path("text.pt").write_text("no model")
    Path("p.py").write_text("number = 1\ndef policy(observation, context): return 1\n")
    assert main(["serve", *arguments, "--at", "unix:s"]) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("mlbridge serve: ") and error.count("\n") == 1
    assert message in error
    assert not Path("s").exists()


def test_onnx_runtime_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    (tmp_path / "m.onnx").write_bytes(b"")
    assert main(["serve", f"{tmp_path}/m.onnx", "--at", f"unix:{tmp_path}/s"]) == 1
    assert "pip install onnxruntime" in capsys.readouterr().err


def test_an_address_in_use(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(address.partition(":")[2]).with_name("p.py")
    path.write_text("def policy(observation, context): return 1\n")
    with Serving(mlbridge.load(f"{path}:policy"), address):
        assert main(["serve", f"{path}:policy", "--at", address]) == 1
    assert "another server" in capsys.readouterr().err


def test_a_function_with_attributes_and_one_that_makes_policies(
    tmp_path: Path, address: str
) -> None:
    path = tmp_path / "policies.py"
    path.write_text(
        "from mlbridge import parse_signature\n"
        "metadata = {'made': 'by hand'}\n"
        "def policy(observation, context): return observation['x'][:2]\n"
        f"policy.signature = parse_signature('{SIGNATURE}')\n"
        "def make(): return policy, policy.signature\n"
    )
    for name in ("policy", "make"):
        model = mlbridge.load(f"{path}:{name}")
        assert str(model.signature) == SIGNATURE
        with Serving(model, address):
            runner = mlbridge.open(address)
            assert runner.evaluate(x=[1, 2, 3, 4])["y"].tolist() == [1, 2]
            assert runner.model.metadata["made"] == "by hand"


@pytest.mark.parametrize("batch", [None, 2])
def test_agents_have_models_of_their_own(tmp_path: Path, address: str, batch: int | None) -> None:
    path = tmp_path / "policies.py"
    path.write_text(
        "from mlbridge import parse_signature\n"
        f"signature = parse_signature('{SIGNATURE}')\n"
        "def first(o, c): return {'y': o['x'][..., :2]}\n"
        "def last(o, c): return o['x'][..., 2:]\n"
    )
    model, other = (mlbridge.load(f"{path}:{name}") for name in ("first", "last"))
    with Serving(model, address, agents={"inliner": other}, batch=batch):
        x = [1, 2, 3, 4]
        for agent, expected in (("", [1, 2]), ("inliner", [3, 4]), ("unroller", [1, 2])):
            answers = ask_together(address, [x, x], agent=agent)
            assert [a.tolist() for a in answers] == [expected] * 2
    foreign = LoadedModel("foreign", other.policy)
    with pytest.raises(mlbridge.Mismatch, match="agent 'a': foreign has the signature None"):
        model.serve(address, agents={"a": foreign})


@pytest.mark.nightly
@pytest.mark.training
@pytest.mark.parametrize("kind", ["script", "export", "factory"])
@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_torch_modules(tmp_path: Path, address: str, kind: str, batch: int | None) -> None:
    import torch

    module = torch.nn.Linear(4, 2)
    signature = mlbridge.parse_signature(SIGNATURE)
    path = tmp_path / "m.pt2"
    if kind == "script":
        script: Any = torch.jit
        script.trace(module, torch.zeros(3, 4)).save(str(path))
        with pytest.raises(mlbridge.InvalidArgument, match="has no signature: pass one"):
            mlbridge.load(str(path))
        model = mlbridge.load(str(path), signature)
    elif kind == "export":
        dynamic = {"input": {0: torch.export.Dim("batch")}}
        torch.export.save(
            torch.export.export(module, (torch.zeros(3, 4),), dynamic_shapes=dynamic), path
        )
        model = mlbridge.load(str(path))
        assert str(model.signature) == "(input: float32[?, 4]) -> (output: float32[?, 2])"
    else:
        torch.save(module.state_dict(), tmp_path / "weights.pt")
        code = tmp_path / "layers_of_the_user.py"
        code.write_text(
            "import pathlib, torch, mlbridge\n"
            "def make():\n"
            "    net = torch.nn.Linear(4, 2)\n"
            "    net.load_state_dict(torch.load(pathlib.Path(__file__).parent / 'weights.pt'))\n"
            f"    return net, mlbridge.parse_signature('{SIGNATURE}')\n"
        )
        model = mlbridge.load(f"{code}:make")
        with pytest.raises(mlbridge.InvalidModel, match="name a function that makes the module"):
            mlbridge.load(f"{tmp_path}/weights.pt")
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    expected = module(torch.from_numpy(x)).detach().numpy()
    assert model.signature is not None
    name, output = model.signature.inputs[0].name, model.signature.outputs[0].name
    with Serving(model, address, batch=batch):
        runner = mlbridge.open(address, deadline=60)
        rows = x[None] if kind == "export" else x
        answer = runner.evaluate(**{name: rows})[output]
        np.testing.assert_allclose(answer.reshape(2), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "signature",
    [
        Signature([TensorSpec("x", "float32", [-1, 4], [64, None])], [TensorSpec("y", "int64")]),
        Signature([], [TensorSpec("y", "bool", [2])]),
        Signature(
            [TensorSpec("a b", str), TensorSpec("t", str, [3])], [TensorSpec("y", "float16")]
        ),
    ],
    ids=str,
)
def test_a_signature_is_read_as_it_is_printed(signature: Signature) -> None:
    assert mlbridge.parse_signature(str(signature)) == signature


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlbridge", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
@pytest.mark.parametrize("batch", [(), ("--batch", "4")], ids=["single", "batch"])
def test_a_signal_ends_the_command_cleanly(
    tmp_path: Path,
    command: Callable[..., subprocess.Popen[str]],
    number: signal.Signals,
    batch: tuple[str, ...],
) -> None:
    (tmp_path / "p.py").write_text("def policy(o, c): return o['x'][..., :2]\n")
    uri = f"unix:{tmp_path}/s"
    process = command(
        "serve", "p.py:policy", "--at", uri, "--signature", SIGNATURE, "--json", *batch
    )
    assert process.stdout is not None
    assert process.stdout.readline() == f"ready {uri}\n"
    assert mlbridge.open(uri, deadline=60).evaluate(x=[1, 2, 3, 4])["y"].tolist() == [1, 2]
    process.send_signal(number)
    output, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    counts = json.loads(output)
    assert counts["replies"] == 1 and counts["errors"] == 0 and counts["latency-max-us"] > 0
    assert not (tmp_path / "s").exists()
