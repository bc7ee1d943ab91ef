# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators as ONNX writes them, computed in long double, whose own error is a thousandth of that
of a float64 (on x86-64)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Real = Any  # NDArray[np.longdouble], as which mypy takes few results
Pair = tuple[Real, Real]
EPSILON = np.longdouble(np.float32(1e-5))  # of normalizations
PI = np.longdouble("3.14159265358979323846264338327950288")
SELU_ALPHA, SELU_GAMMA = (np.longdouble(np.float32(n)) for n in (1.6732632, 1.0507010))


def bell(x: Real) -> Real:
    """exp(−x²); the square of the first digits is exact."""
    first = x.astype(np.float32).astype(x.dtype)
    return np.exp(-first * first) * np.exp((first - x) * (first + x))


def erf_near(x: Real) -> Real:
    """By a series, up to 1.5."""
    x = np.clip(x, -1.5, 1.5)
    term = total = x
    for n in range(1, 60):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(PI) * bell(x) * total


def erfc(x: Real) -> Real:
    size = np.clip(np.abs(x), 1, 120)
    fraction = np.zeros_like(size)
    for n in range(160, 0, -1):
        fraction = n / (2 * (size + fraction))
    tail = bell(size) / (np.sqrt(PI) * (size + fraction))
    return np.where(np.abs(x) > 1.5, np.where(x < 0, 2 - tail, tail), 1 - erf_near(x))


def erf(x: Real) -> Real:
    return np.where(np.abs(x) > 1, 1 - erfc(x), erf_near(x))


def sigmoid(x: Real) -> Real:
    return 1 / (1 + np.exp(-x))


def softplus(x: Real) -> Real:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def elu(x: Real) -> Real:
    return np.where(x < 0, np.expm1(x), x)


def gelu(x: Real) -> Real:
    return x * erfc(-x / np.sqrt(np.longdouble(2))) / 2


def quick_gelu(x: Real) -> Real:
    return x * sigmoid(np.longdouble(np.float32(1.702)) * x)


def gelu_tanh(x: Real) -> Real:
    inner = np.sqrt(2 / PI) * (x + np.longdouble("0.044715") * x**3)
    return x * sigmoid(2 * inner)


UNARY: dict[str, Callable[[Real], Real]] = {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Ceil": np.ceil,
    "Celu": elu,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Elu": elu,
    "Erf": erf,
    "Exp": np.exp,
    "Floor": np.floor,
    "Gelu": gelu,
    "LeakyRelu": lambda x: np.where(x < 0, np.float32(0.01) * x, x),
    "Log": np.log,
    "Neg": np.negative,
    "Mish": lambda x: x * np.tanh(softplus(x)),
    "Reciprocal": lambda x: 1 / x,
    "Round": np.rint,
    "Selu": lambda x: SELU_GAMMA * np.where(x < 0, SELU_ALPHA * np.expm1(x), x),
    "Sigmoid": sigmoid,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Softplus": softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Swish": lambda x: x * sigmoid(x),
    "Tan": np.tan,
    "Tanh": np.tanh,
}
BINARY: dict[str, Callable[[Real, Real], Real]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Mod": np.fmod,
    "PRelu": lambda x, slope: np.where(x < 0, x * slope, x),
}


# ---- sums: the result, and the sum of the absolute values of what is added -----------------------


def terms(formula: Callable[..., Real]) -> Callable[..., Pair]:
    """The pair of a formula that adds products."""
    return lambda *x: (formula(*x), formula(*map(np.abs, x)))


def hard_sigmoid(x: Real) -> Pair:
    slope = np.longdouble(np.float32(0.2))
    return np.clip(slope * x + 0.5, 0, 1), np.clip(slope * np.abs(x) + 0.5, 0, 1)


def hard_swish(x: Real) -> Pair:
    first, second = (x * np.clip(y / 6 + 0.5, 0, 1) for y in (x, np.abs(x)))
    return first, np.abs(second)


def log_sum_exp(x: Real) -> Pair:
    most = x.max(-1, keepdims=True)
    log = np.log(np.exp(x - most).sum(-1, keepdims=True))
    return most + log, np.abs(most) + log


def log_softmax(x: Real) -> Pair:
    total, size = log_sum_exp(x)
    return x - total, np.abs(x) + size


SUMS: dict[str, Callable[[Real], Pair]] = {
    "ReduceSum": terms(lambda x: x.sum(-1, keepdims=True)),
    "ReduceMean": terms(lambda x: x.mean(-1, keepdims=True)),
    "ReduceSumSquare": terms(lambda x: (x * x).sum(-1, keepdims=True)),
    "ReduceL1": terms(lambda x: np.abs(x).sum(-1, keepdims=True)),
    "ReduceL2": terms(lambda x: np.sqrt((x * x).sum(-1, keepdims=True))),
    "ReduceLogSumExp": log_sum_exp,
    "CumSum": terms(lambda x: np.cumsum(x, -1)),
}


def normalized(x: Real, axes: int | tuple[int, ...]) -> Pair:
    mean = x.mean(axes, keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + EPSILON)
    return (x - mean) / deviation, (np.abs(x) + np.abs(mean)) / deviation


def scaled(normal: Pair, scale: Real, bias: Real) -> Pair:
    return normal[0] * scale + bias, normal[1] * np.abs(scale) + np.abs(bias)


def layer_normalization(x: Real, scale: Real, bias: Real) -> Pair:
    return scaled(normalized(x, -1), scale, bias)


def skip_normalization(x: Real, skip: Real, scale: Real, bias: Real) -> Pair:
    mean = (x + skip).mean(-1, keepdims=True)
    deviation = np.sqrt(((x + skip - mean) ** 2).mean(-1, keepdims=True) + EPSILON)
    size = np.abs(x) + np.abs(skip) + np.abs(mean)
    return scaled(((x + skip - mean) / deviation, size / deviation), scale, bias)


def channel(x: Real) -> Real:
    return x[:, None, None]


def instance_normalization(x: Real, scale: Real, bias: Real) -> Pair:
    return scaled(normalized(x, (2, 3)), channel(scale), channel(bias))


def batch_normalization(x: Real, scale: Real, bias: Real, mean: Real, variance: Real) -> Pair:
    deviation, middle = np.sqrt(channel(variance) + EPSILON), channel(mean)
    normal = (x - middle) / deviation, (np.abs(x) + np.abs(middle)) / deviation
    return scaled(normal, channel(scale), channel(bias))


def convolution(x: Real, w: Real, b: Real) -> Real:
    """Without padding, in two dimensions."""
    windows = sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w) + channel(b)


def transposed_convolution(x: Real, w: Real, b: Real) -> Real:
    around = [(0, 0), (0, 0), *((k - 1, k - 1) for k in w.shape[2:])]
    return convolution(np.pad(x, around), w.transpose(1, 0, 2, 3)[..., ::-1, ::-1], b)


def windows(x: Real) -> Real:
    """Windows of 3 × 3 as the last axis."""
    found = sliding_window_view(x, (3, 3), (2, 3))
    return found.reshape(*found.shape[:4], 9)


def interpolated(x: Real, axes: int = 2) -> Real:
    """Resize by 2, linear, half_pixel, on the last axis and then on the one before."""
    n = x.shape[-1]
    at = np.clip((np.arange(2 * n) + 0.5) / 2 - 0.5, 0, n - 1)
    low = np.minimum(at.astype(int), n - 2)
    y = (x[..., low] * (1 - (at - low)) + x[..., low + 1] * (at - low)).swapaxes(-1, -2)
    return y if axes == 1 else interpolated(y, 1)


def attention(q: Real, k: Real, v: Real) -> Pair:
    scale = 1 / np.sqrt(np.longdouble(q.shape[-1]))
    shares = softmax(np.einsum("bhqd,bhkd->bhqk", q, k) * scale)
    first, second = (np.einsum("bhqk,bhkd->bhqd", shares, w) for w in (v, np.abs(v)))
    return first, second


def rotated(x: Real, cosine: Real, sine: Real) -> Pair:
    a, b = np.split(x, 2, -1)
    products = (a * cosine, -b * sine), (a * sine, b * cosine)
    first, second = (
        np.concatenate([of(p) + of(q) for p, q in products], -1) for of in (np.positive, np.abs)
    )
    return first, second


def cross_entropy(x: Real) -> Pair:
    """The first class is the target."""
    total, size = log_sum_exp(x)
    return (total[:, 0] - x[:, 0]).mean(), (size[:, 0] + np.abs(x[:, 0])).mean()


# ---- others of several elements ------------------------------------------------------------------


def softmax(x: Real) -> Real:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def unit_length(x: Real) -> Real:
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def root_mean_square(x: Real, scale: Real) -> Real:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * scale


def local_response(x: Real) -> Real:
    """LRN over three channels, with alpha 1 and beta 0.75."""
    squares = np.pad(x * x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    return x / (1 + sliding_window_view(squares, 3, 1).sum(-1) / 3) ** np.longdouble(0.75)


def lstm(x: Real, w: Real, r: Real) -> Real:
    h = c = np.zeros((x.shape[1], r.shape[2]), np.longdouble)
    steps = []
    for step in x:
        i, o, f, g = np.split(step @ w[0].T + h @ r[0].T, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        steps.append(h)
    return np.stack(steps)[:, None]


def gru(x: Real, w: Real, r: Real) -> Real:
    h = np.zeros((x.shape[1], r.shape[2]), np.longdouble)
    steps = []
    (wz, wr, wh), (rz, rr, rh) = (np.split(m[0], 3) for m in (w, r))
    for step in x:
        update, reset = sigmoid(step @ wz.T + h @ rz.T), sigmoid(step @ wr.T + h @ rr.T)
        h = (1 - update) * np.tanh(step @ wh.T + (reset * h) @ rh.T) + update * h
        steps.append(h)
    return np.stack(steps)[:, None]


def rnn(x: Real, w: Real, r: Real) -> Real:
    h = np.zeros((x.shape[1], r.shape[2]), np.longdouble)
    steps = []
    for step in x:
        h = np.tanh(step @ w[0].T + h @ r[0].T)
        steps.append(h)
    return np.stack(steps)[:, None]
