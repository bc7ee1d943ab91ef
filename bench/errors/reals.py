# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators with inputs and the true results, and how far native: and ONNX Runtime are from these.

The truth is computed from ONNX's formulas in long double (formulas.py). An error is counted in
units in the last place (ulp) of the true result, or of what is said instead: of an operator that
adds up, the sum of the absolute values of what it adds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import formulas as f
import numpy as np
import onnx
from formulas import Real
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import mlbridge

Array = NDArray[Any]
Row = dict[str, Any]
TYPES = ("float32", "float64", "float16")
MICROSOFT, CLASSICAL = "com.microsoft", "ai.onnx.ml"
OPSETS = {"": 23, MICROSOFT: 1}
COUNT = 4096
LENGTHS = (7, 64, 1000, 20000)
FAR, LEAST = 4.0, 4.0  # times ONNX Runtime's error, and ulp
RESULT, SUM, ONE = "result", "sum", "1"


@dataclass(frozen=True)
class Case:
    """An operator with inputs and the truth; an error is in ulp of `unit`."""

    name: str
    dtype: str
    node: onnx.NodeProto
    inputs: list[Array]
    truth: Real
    unit: Real
    of: str
    fixed: Sequence[int]  #: inputs that the file holds

    def model(self) -> bytes:
        kinds = [helper.np_dtype_to_tensor_dtype(x.dtype) for x in self.inputs]
        made = [
            helper.make_tensor_value_info(f"x{i}", kinds[i], x.shape)
            for i, x in enumerate(self.inputs)
            if i not in self.fixed
        ]
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        result = helper.make_tensor_value_info("y", kind, self.truth.shape)
        constants = [numpy_helper.from_array(self.inputs[i], f"x{i}") for i in self.fixed]
        graph = helper.make_graph([self.node], "operator", made, [result], constants)
        versions = OPSETS | ({"": 24} if self.node.op_type == "Swish" else {})
        opsets = [helper.make_opsetid(*pair) for pair in versions.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()  # type: ignore[no-any-return]

    def feeds(self) -> dict[str, Array]:
        return {f"x{i}": x for i, x in enumerate(self.inputs) if i not in self.fixed}


class Maker:
    """The cases of one type."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.numbers = np.random.default_rng(1)

    def case(
        self,
        kind: str,
        inputs: Sequence[Array],
        formula: Callable[..., Any],
        of: str = RESULT,
        *,
        name: str = "",
        fixed: Sequence[int] = (),
        domain: str = "",
        **options: Any,
    ) -> Case:
        """A sum's formula gives two results; inputs that the file holds aren't its operands."""
        with np.errstate(all="ignore"):
            real = [x.astype(np.longdouble) for i, x in enumerate(inputs) if i not in fixed]
            found = formula(*real)
        truth, unit = found if of == SUM else (found, np.ones_like(found) if of == ONE else found)
        names = [f"x{i}" if x.size else "" for i, x in enumerate(inputs)]
        node = helper.make_node(kind, names, ["y"], domain=domain, **options)
        return Case(name or kind, self.dtype, node, list(inputs), truth, unit, of, fixed)

    # ---- inputs ----

    def ordinary(self, *shape: int, low: float = -3.0, high: float = 3.0) -> Array:
        return self.numbers.uniform(low, high, shape).astype(self.dtype)

    def rows(self, length: int) -> Array:
        """Ordinary ones, of sizes that differ, and far from zero."""
        signs = self.numbers.choice((-1, 1), (4, length))
        wide = np.exp(self.numbers.normal(0, 1.5, (4, length))) * signs
        far = self.ordinary(4, length, low=9, high=11)
        return np.concatenate([self.ordinary(4, length), wide.astype(self.dtype), far])

    def everything(self) -> Array:
        """All exponents, the range that networks have, and where functions turn, overflow or
        vanish, with their neighbours."""
        info = np.finfo(self.dtype)
        points = [0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 16, 20, 40, *(np.pi / 2 * k for k in range(1, 9))]
        limits = np.array([info.max, info.tiny, info.smallest_subnormal], np.longdouble)
        points += [float(x) for x in np.abs(np.log(limits))]
        near = np.multiply.outer(points, 1 + float(info.eps) * np.arange(-8, 9)).ravel()
        ends = [0, info.smallest_subnormal, info.tiny, info.max, np.inf, np.nan]
        some = np.concatenate([near, np.array(ends, np.float64)]).astype(self.dtype)
        bits = self.numbers.integers(0, 256, COUNT * info.bits // 8, np.uint8).view(self.dtype)
        usual = self.numbers.normal(0, 3, COUNT).astype(self.dtype)
        return np.concatenate([bits, usual, some, -some])

    # ---- operators ----

    def elementwise(self) -> Iterator[Case]:
        with np.errstate(all="ignore"):
            x = self.everything()
        for kind, formula in f.UNARY.items():
            yield self.case(kind, [x], formula)
        yield self.case("HardSigmoid", [x], f.hard_sigmoid, SUM)
        yield self.case("HardSwish", [x], f.hard_swish, SUM)
        yield self.case("Gelu", [x], f.gelu_tanh, name="Gelu (tanh)", approximate="tanh")
        yield self.case("QuickGelu", [x], f.quick_gelu, domain=MICROSOFT)
        y = np.concatenate([self.numbers.permutation(x[:-COUNT]), self.ordinary(COUNT)])
        for kind, formula2 in f.BINARY.items():
            options: dict[str, Any] = {"fmod": 1} if kind == "Mod" else {}
            yield self.case(kind, [x, y], formula2, **options)
        some = [self.ordinary(COUNT) for _ in range(3)]
        yield self.case("Sum", some, f.terms(lambda a, b, c: a + b + c), SUM)
        yield self.case("Mean", some, f.terms(lambda a, b, c: (a + b + c) / 3), SUM)
        to = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        for other in TYPES:
            if other != self.dtype:
                with np.errstate(all="ignore"):
                    z = Maker(other).everything()
                yield self.case("Cast", [z], np.positive, name="Cast", to=to)

    def along(self, n: int) -> Iterator[Case]:
        x = self.rows(n)
        for kind, formula in f.SUMS.items():
            last = np.array(-1 if kind == "CumSum" else [-1], np.int64)
            yield self.case(kind, [x, last], formula, SUM, fixed=(1,))
        yield self.case("Softmax", [x], f.softmax)
        yield self.case("LogSoftmax", [x], f.log_softmax, SUM)
        scale, bias = self.ordinary(n), self.ordinary(n)
        yield self.case("LayerNormalization", [x, scale, bias], f.layer_normalization, SUM)
        yield self.case("RMSNormalization", [x, scale], f.root_mean_square)
        inputs = [x[None], self.ordinary(1, *x.shape), scale, bias]
        options: dict[str, Any] = {"domain": MICROSOFT, "epsilon": 1e-5}
        yield self.case("SkipLayerNormalization", inputs, f.skip_normalization, SUM, **options)
        yield self.case("LpNormalization", [x], lambda v: v / np.abs(v).sum(-1, keepdims=True), p=1)
        yield self.case("LpNormalization", [x], f.unit_length)
        if n < 100:
            y, last = self.ordinary(16, n, low=0.5, high=1.5), np.array([-1], np.int64)
            yield self.case(
                "ReduceProd", [y, last], lambda v: v.prod(-1, keepdims=True), fixed=(1,)
            )

    def products(self, n: int) -> Iterator[Case]:
        x, y, bias = self.rows(n), self.rows(n), self.ordinary(12)
        right = np.ascontiguousarray(y.T)
        product = f.terms(np.matmul)
        yield self.case("MatMul", [x, right], product, SUM)
        yield self.case("MatMul", [x[:1], right], product, SUM)
        yield self.case("Gemm", [x, y, bias], f.terms(lambda a, b, c: a @ b.T + c), SUM, transB=1)
        dots = f.terms(lambda a, b: np.einsum("ij,kj->ik", a, b))
        yield self.case("Einsum", [x, y], dots, SUM, equation="ij,kj->ik")
        if n > 1000:
            return
        q, k, v = (self.ordinary(1, 2, n, 16) for _ in range(3))
        yield self.case("Attention", [q, k, v], f.attention, SUM)
        steps = self.ordinary(n, 2, 8)
        for kind, gates, formula in (("LSTM", 4, f.lstm), ("GRU", 3, f.gru), ("RNN", 1, f.rnn)):
            w, r = (
                self.ordinary(1, gates * 8, 8),
                self.ordinary(1, gates * 8, 8, low=-0.3, high=0.3),
            )
            yield self.case(kind, [steps[:64], w, r], formula, ONE, hidden_size=8)

    def spatial(self) -> Iterator[Case]:
        x = self.rows(400)[::3].reshape(1, 4, 20, 20)
        scale, bias, mean = (self.ordinary(4) for _ in range(3))
        yield self.case("InstanceNormalization", [x, scale, bias], f.instance_normalization, SUM)
        moments = [mean, self.ordinary(4, low=0.1)]
        inputs = [x, scale, bias, *moments]
        yield self.case("BatchNormalization", inputs, f.batch_normalization, SUM)
        inputs = [x, self.ordinary(8, 4, 3, 3), self.ordinary(8)]
        yield self.case("Conv", inputs, f.terms(f.convolution), SUM)
        inputs = [x, self.ordinary(4, 8, 3, 3), self.ordinary(8)]
        yield self.case("ConvTranspose", inputs, f.terms(f.transposed_convolution), SUM)
        three: dict[str, Any] = {"kernel_shape": [3, 3]}
        mean_of = f.terms(lambda v: f.windows(v).mean(-1))
        yield self.case("AveragePool", [x], mean_of, SUM, **three)
        mean_of = f.terms(lambda v: v.mean((2, 3), keepdims=True))
        yield self.case("GlobalAveragePool", [x], mean_of, SUM)
        yield self.case("LpPool", [x], lambda v: np.sqrt((f.windows(v) ** 2).sum(-1)), **three)
        yield self.case("LRN", [x], f.local_response, size=3, alpha=1.0, beta=0.75)
        sizes = [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)]
        twice = f.terms(f.interpolated)
        yield self.case("Resize", [x, *sizes], twice, SUM, fixed=(1, 2), mode="linear")
        angles = self.ordinary(2, 1, 30, 8)
        inputs = [self.ordinary(1, 4, 30, 16), np.cos(angles[0]), np.sin(angles[1])]
        yield self.case("RotaryEmbedding", inputs, f.rotated, SUM)
        scores, first = self.rows(20), np.zeros(12, np.int64)
        options: dict[str, Any] = {"fixed": (1,)}
        yield self.case("SoftmaxCrossEntropyLoss", [scores, first], f.cross_entropy, SUM, **options)

    def all(self) -> Iterator[Case]:
        yield from self.elementwise()
        for n in LENGTHS:
            yield from self.along(n)
            yield from self.products(n)
        yield from self.spatial()


def of_native(case: Case) -> Array | None:
    """None if ONNX has no such operator for this type."""
    try:
        model = mlbridge.Model.from_bytes("native:operator.onnx", case.model())
    except mlbridge.errors.Unsupported:
        return None
    assert model.model_signature
    model.bind(model.model_signature)
    return np.array(model.new_runner().evaluate(**case.feeds())["y"])


def of_onnxruntime(case: Case) -> Array | None:
    """None if it has no such operator for this type."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            case.model(), options, providers=["CPUExecutionProvider"]
        )
        [found] = session.run(None, case.feeds())
    except Exception:
        return None
    return np.asarray(found)


def errors(found: Array, case: Case) -> tuple[Array, int]:
    """In ulp, and how many are numbers where the truth is NaN, or the other way round. Infinity
    counts as the number after the greatest."""
    info = np.finfo(found.dtype)
    end = np.ldexp(np.longdouble(1), int(info.maxexp))
    with np.errstate(all="ignore"):
        last = np.spacing(np.minimum(np.abs(case.unit), info.max).astype(found.dtype))
        distance = np.abs(
            np.clip(found.astype(np.longdouble), -end, end) - np.clip(case.truth, -end, end)
        )
        ulps = (distance / last).astype(float)
    odd = np.isnan(found) != np.isnan(case.truth)
    return ulps[~np.isnan(ulps)], int(odd.sum())


def measured(cases: Iterable[Case]) -> list[Row]:
    """A row for each operator and type; cases of the same are put together."""
    rows: dict[tuple[str, str], Row] = {}
    parts: defaultdict[tuple[str, str, str], list[Array]] = defaultdict(list)
    for case in cases:
        key = case.name, case.dtype
        row = rows.setdefault(key, {"operator": case.name, "type": case.dtype, "of": case.of})
        for side, found in (("native", of_native(case)), ("onnxruntime", of_onnxruntime(case))):
            if found is not None:
                ulps, odd = errors(found, case)
                parts[(*key, side)].append(ulps)
                row[f"{side}_nan"] = row.get(f"{side}_nan", 0) + odd
    for (name, dtype, side), found_ulps in parts.items():
        all_ = np.concatenate([ulps.ravel() for ulps in found_ulps])
        rows[name, dtype] |= {
            f"{side}_max": float(all_.max()),
            f"{side}_mean": float(all_.mean()),
            "elements": all_.size,
        }
    return list(rows.values())


def number(value: float) -> str:
    return f"{value:.2g}" if value < 1e3 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def table(rows: list[Row]) -> list[Row]:
    """One row for each operator."""
    heads = {kind: {"native": kind, "onnxruntime": f"ORT {kind}"} for kind in TYPES}
    columns = {head: None for pair in heads.values() for head in pair.values()}
    found: dict[str, Row] = {}
    for row in rows:
        first = {"operator": row["operator"], "ulp of": row["of"]}
        line = found.setdefault(row["operator"], first | columns)
        for side, head in heads[row["type"]].items():
            if f"{side}_max" in row:
                pair = (number(row[f"{side}_{what}"]) for what in ("max", "mean"))
                line[head] = "{} ({})".format(*pair)
    return list(found.values())


def far(rows: list[Row]) -> list[str]:
    """Where the error is far above ONNX Runtime's, or a result is NaN in only one of truth and
    native:."""
    return [
        f"{row['operator']} {row['type']}"
        for row in rows
        if row.get("native_nan")
        or row.get("native_max", 0) > max(LEAST, FAR * row.get("onnxruntime_max", np.inf))
    ]
