# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers and functions of PyTorch, small, with what they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as f
from torch import Tensor, nn


@dataclass(frozen=True)
class Given:
    """An input: its shape, and for integers the range of its elements."""

    shape: tuple[int, ...]
    low: int = 0
    high: int = 0  # 0: of floating point

    def example(self) -> Tensor:
        if self.high:
            return torch.randint(self.low, self.high, self.shape)
        return torch.randn(self.shape)


@dataclass(frozen=True)
class Layer:
    make: Callable[[], nn.Module]
    inputs: tuple[Given, ...]


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs)


def of(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Layer:
    return Layer(make, tuple(Given(shape) for shape in shapes))


def fn(function: Callable[..., Any], *inputs: Given | tuple[int, ...]) -> Layer:
    given = tuple(i if isinstance(i, Given) else Given(i) for i in inputs)
    return Layer(lambda: Function(function), given)


def within(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function of numbers for which it is defined, and less than 1."""
    return lambda x: function(x.abs().clamp(0.1, 0.9))


class First(nn.Module):
    """The first of several results."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Any:
        return self.module(*inputs)[0]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


X, IMAGE, SEQUENCE = (2, 6), (1, 3, 8, 8), (2, 5, 8)
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    name: getattr(nn, name)
    for name in (
        "ReLU", "ReLU6", "LeakyReLU", "PReLU", "RReLU", "ELU", "SELU", "CELU", "GELU", "SiLU",
        "Mish", "Sigmoid", "LogSigmoid", "Tanh", "Hardtanh", "Hardsigmoid", "Hardswish", "Softplus",
        "Softsign", "Softshrink", "Hardshrink", "Tanhshrink",
    )
}  # fmt: skip
UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "frac",
    "isnan", "log1p", "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt",
    "square", "tan", "trunc",
)  # fmt: skip
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "pow": lambda a, b: torch.pow(a.abs() + 0.5, b),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "atan2": torch.atan2,
    "less": torch.lt,
    "equal": torch.eq,
    "logical_and": lambda a, b: torch.logical_and(a > 0, b > 0),
}
INDEX = Given((2, 4), 0, 6)

LAYERS: dict[str, Layer] = {
    "linear": of(lambda: nn.Linear(6, 4), X),
    "linear-no-bias": of(lambda: nn.Linear(6, 4, bias=False), X),
    "bilinear": of(lambda: nn.Bilinear(3, 4, 2), (2, 3), (2, 4)),
    "perceptron": of(lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), X),
    "conv1d": of(lambda: nn.Conv1d(3, 4, 3, padding=1), (1, 3, 8)),
    "conv2d": of(lambda: nn.Conv2d(3, 4, 3, stride=2), IMAGE),
    "conv2d-groups": of(lambda: nn.Conv2d(4, 4, 3, groups=2, dilation=2), (1, 4, 8, 8)),
    "conv3d": of(lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "conv-transpose1d": of(lambda: nn.ConvTranspose1d(3, 2, 3), (1, 3, 5)),
    "conv-transpose2d": of(lambda: nn.ConvTranspose2d(3, 2, 3, stride=2), (1, 3, 4, 4)),
    "batch-norm1d": of(lambda: nn.BatchNorm1d(6), X),
    "batch-norm2d": of(lambda: nn.BatchNorm2d(3), IMAGE),
    "layer-norm": of(lambda: nn.LayerNorm(8), SEQUENCE),
    "layer-norm-two": of(lambda: nn.LayerNorm((5, 8)), SEQUENCE),
    "rms-norm": of(lambda: nn.RMSNorm(8), SEQUENCE),
    "group-norm": of(lambda: nn.GroupNorm(2, 4), (2, 4, 5)),
    "instance-norm": of(lambda: nn.InstanceNorm2d(3, affine=True), IMAGE),
    "local-response-norm": of(lambda: nn.LocalResponseNorm(2), IMAGE),
    "lstm": of(lambda: First(nn.LSTM(8, 5, batch_first=True)), SEQUENCE),
    "lstm-two-ways": of(lambda: First(nn.LSTM(8, 5, num_layers=2, bidirectional=True)), SEQUENCE),
    "gru": of(lambda: First(nn.GRU(8, 5)), SEQUENCE),
    "rnn": of(lambda: First(nn.RNN(8, 5)), SEQUENCE),
    "lstm-cell": of(lambda: First(nn.LSTMCell(6, 5)), X),
    "gru-cell": of(lambda: nn.GRUCell(6, 5), X),
    "attention": of(Attention, SEQUENCE),
    "transformer-encoder": of(
        lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=12, batch_first=True), SEQUENCE
    ),
    "transformer-decoder": of(
        lambda: nn.TransformerDecoderLayer(8, 2, dim_feedforward=12, batch_first=True),
        SEQUENCE,
        SEQUENCE,
    ),
    "scaled-dot-product": fn(
        f.scaled_dot_product_attention, (1, 2, 4, 6), (1, 2, 5, 6), (1, 2, 5, 6)
    ),
    "embedding": Layer(lambda: nn.Embedding(6, 4), (INDEX,)),
    "embedding-bag": Layer(lambda: nn.EmbeddingBag(6, 4, mode="mean"), (INDEX,)),
    "max-pool1d": of(lambda: nn.MaxPool1d(2), (1, 3, 8)),
    "max-pool2d": of(lambda: nn.MaxPool2d(3, stride=2, padding=1), IMAGE),
    "avg-pool2d": of(lambda: nn.AvgPool2d(2), IMAGE),
    "adaptive-avg-pool2d": of(lambda: nn.AdaptiveAvgPool2d(1), IMAGE),
    "adaptive-max-pool2d": of(lambda: nn.AdaptiveMaxPool2d(2), IMAGE),
    "lp-pool2d": of(lambda: nn.LPPool2d(2, 2), IMAGE),
    "softmax": of(lambda: nn.Softmax(dim=-1), X),
    "softmax-first": of(lambda: nn.Softmax(dim=1), SEQUENCE),
    "log-softmax": of(lambda: nn.LogSoftmax(dim=-1), X),
    "softmin": of(lambda: nn.Softmin(dim=-1), X),
    "glu": of(lambda: nn.GLU(), X),
    "dropout": of(lambda: nn.Dropout(), X),
    "flatten": of(lambda: nn.Flatten(), IMAGE),
    "unflatten": of(lambda: nn.Unflatten(1, (2, 3)), X),
    "pixel-shuffle": of(lambda: nn.PixelShuffle(2), (1, 4, 3, 3)),
    "pixel-unshuffle": of(lambda: nn.PixelUnshuffle(2), (1, 1, 4, 4)),
    "channel-shuffle": of(lambda: nn.ChannelShuffle(2), (1, 4, 3, 3)),
    "upsample-nearest": of(lambda: nn.Upsample(scale_factor=2), IMAGE),
    "upsample-bilinear": of(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "fold": of(lambda: nn.Unfold(2), (1, 2, 4, 4)),
    "cosine-similarity": of(lambda: nn.CosineSimilarity(dim=1), X, X),
    "pairwise-distance": of(lambda: nn.PairwiseDistance(), X, X),
    "mse-loss": of(nn.MSELoss, X, X),
    "cross-entropy": Layer(nn.CrossEntropyLoss, (Given((2, 6)), Given((2,), 0, 6))),
    "pad-constant": fn(lambda x: f.pad(x, (1, 2), value=0.5), X),
    "pad-reflect": fn(lambda x: f.pad(x, (1, 2), mode="reflect"), (1, 2, 6)),
    "pad-replicate": fn(lambda x: f.pad(x, (1, 2), mode="replicate"), (1, 2, 6)),
    "pad-circular": fn(lambda x: f.pad(x, (1, 2), mode="circular"), (1, 2, 6)),
    "gather": fn(lambda x, i: torch.gather(x, 1, i), X, INDEX),
    "scatter": fn(lambda x, i, y: torch.scatter(x, 1, i, y), X, Given((2, 1), 0, 6), (2, 1)),
    "scatter-add": fn(lambda x, i, y: x.scatter_add(1, i, y), X, INDEX, (2, 4)),
    "scatter-reduce": fn(
        lambda x, i, y: x.scatter_reduce(1, i, y, reduce="amax"), X, INDEX, (2, 4)
    ),
    "index-select": fn(lambda x, i: torch.index_select(x, 1, i), X, Given((3,), 0, 6)),
    "index-add": fn(lambda x, i, y: x.index_add(1, i, y), X, Given((3,), 0, 6), (2, 3)),
    "index-copy": fn(lambda x, i, y: x.index_copy(1, i, y), X, Given((1,), 0, 6), (2, 1)),
    "index": fn(lambda x, i: x[:, i], X, Given((3,), 0, 6)),
    "index-two": fn(lambda x, i, j: x[i, j], X, Given((3,), 0, 2), Given((3,), 0, 6)),
    "index-put": fn(
        lambda x, i, y: x.index_put((torch.tensor([0, 1]), i), y), X, Given((2,), 0, 6), (2,)
    ),
    "masked-fill": fn(lambda x: x.masked_fill(x > 0, 2.5), X),
    "take-along": fn(lambda x: torch.take_along_dim(x, x.argsort(1), 1), X),
    "where": fn(lambda x, y: torch.where(x > y, x, y), X, X),
    "einsum": fn(lambda x, y: torch.einsum("bij,bjk->bik", x, y), (2, 3, 4), (2, 4, 5)),
    "einsum-outer": fn(lambda x, y: torch.einsum("bi,bj->bij", x, y), X, X),
    "matmul": fn(torch.matmul, (2, 3, 4), (4, 5)),
    "bmm": fn(torch.bmm, (2, 3, 4), (2, 4, 5)),
    "addmm": fn(lambda c, x, y: torch.addmm(c, x, y, beta=0.5), (5,), (2, 3), (3, 5)),
    "baddbmm": fn(torch.baddbmm, (2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "outer": fn(torch.outer, (3,), (4,)),
    "cumsum": fn(lambda x: x.cumsum(1), X),
    "cumprod": fn(lambda x: x.cumprod(1), X),
    "topk": fn(lambda x: x.topk(3, 1), X),
    "sort": fn(lambda x: x.sort(1), X),
    "argmax": fn(lambda x: x.argmax(1), X),
    "argmin": fn(lambda x: x.argmin(0), X),
    "sum": fn(lambda x: x.sum((0, 2)), SEQUENCE),
    "mean": fn(lambda x: x.mean(-1, keepdim=True), X),
    "max": fn(lambda x: x.max(1), X),
    "amax": fn(lambda x: x.amax((0, 2)), SEQUENCE),
    "prod": fn(lambda x: x.prod(1), X),
    "std": fn(lambda x: x.std(1), X),
    "var": fn(lambda x: x.var((0, 1), unbiased=False), SEQUENCE),
    "logsumexp": fn(lambda x: x.logsumexp(1), X),
    "norm": fn(lambda x: x.norm(dim=1), X),
    "any": fn(lambda x: (x > 1).any(1), X),
    "all": fn(lambda x: (x > -1).all(1), X),
    "cat": fn(lambda x, y: torch.cat((x, y), 1), X, X),
    "stack": fn(lambda x, y: torch.stack((x, y), 1), X, X),
    "split": fn(lambda x: x.split(4, 1), X),
    "chunk": fn(lambda x: x.chunk(3, 1), X),
    "unbind": fn(lambda x: x.unbind(0), X),
    "slice": fn(lambda x: x[:, 1:5:2], X),
    "select": fn(lambda x: x[..., -1], X),
    "permute": fn(lambda x: x.permute(2, 0, 1), SEQUENCE),
    "reshape": fn(lambda x: x.reshape(5, -1), SEQUENCE),
    "expand": fn(lambda x: x[:, None].expand(-1, 3, -1), X),
    "repeat": fn(lambda x: x.repeat(2, 3), X),
    "repeat-interleave": fn(lambda x: x.repeat_interleave(2, 1), X),
    "roll": fn(lambda x: x.roll(2, 1), X),
    "flip": fn(lambda x: x.flip(1), X),
    "tril": fn(lambda x: x.tril(1), X),
    "diagonal": fn(lambda x: x.diagonal(), X),
    "squeeze": fn(lambda x: x.squeeze(1).unsqueeze(0), (2, 1, 6)),
    "one-hot": fn(lambda i: f.one_hot(i, 6), INDEX),
    "arange": fn(lambda x: x + torch.arange(6), X),
    "meshgrid": fn(lambda x, y: torch.meshgrid(x, y, indexing="ij"), (3,), (4,)),
    "clamp": fn(lambda x: x.clamp(-0.5, 1.0), X),
    "lerp": fn(lambda x, y: torch.lerp(x, y, 0.25), X, X),
    "addcmul": fn(lambda x, y, z: torch.addcmul(x, y, z, value=0.5), X, X, X),
    "cross": fn(lambda x, y: torch.linalg.cross(x, y), (2, 3), (2, 3)),
    "cdist": fn(torch.cdist, (3, 4), (5, 4)),
    "bucketize": fn(lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), X),
    "nan-to-num": fn(lambda x: torch.nan_to_num(x / (x > 0)), X),
    "cast": fn(lambda x: (x * 4).to(torch.int64) // 2, X),
    "bits": fn(lambda i: (i & 3) | (i << 1), INDEX),
    "trunc-divide": fn(lambda i, j: torch.div(i, j + 1, rounding_mode="trunc"), INDEX, INDEX),
    **{name.lower(): of(make, X) for name, make in ACTIVATIONS.items()},
    **{name: fn(within(getattr(torch, name)), X) for name in UNARY},
    **{name: fn(g, X, X) for name, g in BINARY.items()},
}
