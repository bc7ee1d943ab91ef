# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps that work on windows of images and signals: convolutions, pools, resizing."""

from __future__ import annotations

import math
from typing import Any

from network import MICROSOFT, Builder, Shape, Value

_ACTIVATIONS: tuple[tuple[str, list[float]], ...] = (
    ("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.1]), ("Clip", [-0.5, 1.0]),
    ("HardSigmoid", [0.2, 0.5]),
)  # fmt: skip


def image(net: Builder, *ranks: int) -> Value:
    """[batch, channels, lengths…], a value so far or a new input."""
    rank = net.random.choice(ranks)
    x = net.pick("float32", rank=rank)
    if x is None or not x.fixed or max(x.ints[2:]) < 3 or math.prod(x.ints) > 3000:
        most = {3: 33, 4: 12, 5: 5}[rank]
        lengths = [net.random.randint(3, most) for _ in range(rank - 2)]
        return net.input("float32", (net.random.randint(1, 2), net.random.randint(1, 6), *lengths))
    return net.tame(x)


def window(net: Builder, lengths: Shape, *, rounds_up: bool = False) -> dict[str, Any]:
    """Attributes of a window that fits."""
    kernel = [net.random.randint(1, min(int(n), 4)) for n in lengths]
    options: dict[str, Any] = {"kernel_shape": kernel}
    strides = [net.random.choice((1, 1, 2, 3)) for _ in kernel]
    if net.chance(0.6):
        options["strides"] = strides
    # ONNX Runtime leaves out the first elements if the stride is longer than the window.
    if net.chance(0.2) and all(s <= k for s, k in zip(strides, kernel, strict=True)):
        options["auto_pad"] = net.random.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        return options
    if net.chance(0.6):
        options["pads"] = [net.random.randrange(k) for k in kernel * 2]
    if rounds_up and net.chance(0.3):
        options["ceil_mode"] = 1
    return options


def places(lengths: Shape, options: dict[str, Any]) -> list[int]:
    """How many windows there are along each axis."""
    kernel, counts = options["kernel_shape"], []
    for i, n in enumerate(lengths):
        stride = options.get("strides", [1] * len(kernel))[i]
        reach = options.get("dilations", [1] * len(kernel))[i] * (kernel[i] - 1) + 1
        way = options.get("auto_pad", "NOTSET")
        if way.startswith("SAME"):
            counts.append(-(-int(n) // stride))
            continue
        pads = options.get("pads", [0] * 2 * len(kernel))
        rest = int(n) + pads[i] + pads[i + len(kernel)] - reach
        count = rest // stride + 1
        if options.get("ceil_mode") and rest % stride and count * stride < int(n) + pads[i]:
            count += 1
        counts.append(count)
    return counts


def convolution(net: Builder) -> bool:
    """Conv, and at times what ONNX Runtime makes of it and of an activation."""
    x = image(net, 3, 4, 4, 5)
    n, channels, *lengths = x.ints
    groups = net.random.choice([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    options = window(net, tuple(lengths))
    if net.chance(0.3) and "auto_pad" not in options:
        fits = all(2 * (k - 1) < m for k, m in zip(options["kernel_shape"], lengths, strict=True))
        options["dilations"] = [2 if fits else 1 for _ in lengths]
    outputs = groups * net.random.choice((1, 2, 4, 5, 17))
    weight = net.weight((outputs, channels // groups, *options["kernel_shape"]), 0.7)
    if weight.dtype != "float32":
        return False
    inputs = [x, weight, *([net.weight((outputs,))] if net.chance(0.7) else [])]
    most = 0.7 * x.largest * math.prod(weight.ints[1:]) + 1
    shape = (n, outputs, *places(tuple(lengths), options))
    if net.chance(0.2):
        kind, parameters = net.random.choice(_ACTIVATIONS)
        options |= (
            {"activation": kind, "activation_params": parameters}
            if parameters
            else {"activation": kind}
        )
        net.node(
            "FusedConv", inputs, x.dtype, shape, -most, most, group=groups, domain=MICROSOFT,
            **options,
        )  # fmt: skip
        return True
    y = net.node("Conv", inputs, x.dtype, shape, -most, most, group=groups, **options)
    if net.chance(0.4):
        net.node("Relu", [y], y.dtype, y.shape, 0, most)
    return True


def transposed(net: Builder) -> bool:
    x = image(net, 3, 4, 4)
    n, channels, *lengths = x.ints
    groups = net.random.choice([g for g in (1, 2, channels) if channels % g == 0])
    kernel = [net.random.randint(1, 4) for _ in lengths]
    strides = [net.random.choice((1, 2, 3)) for _ in lengths]
    pads = [net.random.randrange(k) if k > 1 else 0 for k in kernel]
    more = [net.random.randrange(s) for s in strides]
    shape = [
        (m - 1) * s + k - 2 * p + o
        for m, s, k, p, o in zip(lengths, strides, kernel, pads, more, strict=True)
    ]
    outputs = net.random.choice((1, 2, 3))
    if min(shape) < 1 or net.float != "float32":
        return False
    weight = net.weight((channels, outputs, *kernel), 0.7)
    inputs = [x, weight, *([net.weight((outputs * groups,))] if net.chance(0.7) else [])]
    most = 0.7 * x.largest * channels * math.prod(kernel) + 1
    result: Shape = (n, outputs * groups, *shape)
    net.node(
        "ConvTranspose", inputs, x.dtype, result, -most, most, group=groups, strides=strides,
        pads=pads * 2, output_padding=more, kernel_shape=kernel,
    )  # fmt: skip
    return True


def pool(net: Builder) -> bool:
    x = image(net, 3, 4, 4, 5)
    kind = net.random.choice(("MaxPool", "AveragePool", "LpPool", "Global"))
    low, high = min(x.low, 0.0), max(x.high, 0.0)
    if kind == "Global":
        kind = net.random.choice(("GlobalMaxPool", "GlobalAveragePool"))
        shape = (*x.shape[:2], *[1] * (x.rank - 2))
        net.node(kind, [x], x.dtype, shape, low, high)
        return True
    options = window(net, x.shape[2:], rounds_up=kind != "LpPool")
    shape = (*x.shape[:2], *places(x.shape[2:], options))
    if kind == "AveragePool" and net.chance(0.5):
        options["count_include_pad"] = 1
    if kind == "LpPool":
        options["p"] = net.random.choice((1, 2, 3))
        low, high = 0.0, x.largest * math.prod(options["kernel_shape"])
    net.node(kind, [x], x.dtype, shape, low, high, **options)
    return True


def resize(net: Builder) -> bool:
    x = image(net, 4)
    if net.opset < 13:
        return False
    mode = net.random.choice(("nearest", "linear", "cubic"))
    # Others have places that rounding decides.
    scales = [net.random.choice((0.5, 1, 2, 4)) for _ in range(2)]
    lengths = [max(1, int(n * by)) for n, by in zip(x.ints[2:], scales, strict=True)]
    ways = ["half_pixel", "asymmetric"]
    if 1 not in lengths:  # ONNX Runtime takes another place then
        ways.append("pytorch_half_pixel")
    options = {"mode": mode, "coordinate_transformation_mode": net.random.choice(ways)}
    if mode == "nearest":
        options["nearest_mode"] = net.random.choice(("floor", "ceil", "round_prefer_floor"))
    sizes = net.constant([*x.ints[:2], *lengths], "int64")
    shape, most = (*x.shape[:2], *lengths), 2 * x.largest
    net.node("Resize", [x, "", "", sizes], x.dtype, shape, -most, most, **options)
    return True


def sampled(net: Builder) -> bool:
    x = image(net, 4)
    if net.opset < 16:
        return False
    n, channels, *_ = x.ints
    height, width = net.random.randint(1, 5), net.random.randint(1, 5)
    grid = net.weight((n, height, width, 2), 1.3, "float32")
    linear = "linear" if net.opset >= 20 else "bilinear"
    options = {
        "mode": net.random.choice((linear, "nearest")),
        "padding_mode": net.random.choice(("zeros", "border", "reflection")),
        "align_corners": net.random.randint(0, 1),
    }
    shape = (n, channels, height, width)
    low, high = min(x.low, 0.0), max(x.high, 0.0)
    net.node("GridSample", [x, grid], x.dtype, shape, low, high, **options)
    return True


def local_response(net: Builder) -> bool:
    x = image(net, 4)
    size = net.random.choice((1, 3, 5))
    net.node("LRN", [x], x.dtype, x.shape, x.low, x.high, size=size, alpha=0.5, bias=1.0)
    return True
