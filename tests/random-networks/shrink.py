# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a network that fails as small as it can be while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from network import Array, Network, names_used
from onnx import helper
from reference import NoReference, Reference

Fails = Callable[[Network], bool]


def _prune(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without what no output needs."""
    graph = model.graph
    needed = {output.name for output in graph.output}
    nodes = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            needed |= names_used(node)
            nodes.append(node)
    kept = [[v for v in vs if v.name in needed] for vs in (graph.initializer, graph.input)]
    for field, values in (
        (graph.node, list(reversed(nodes))),
        (graph.initializer, kept[0]),
        (graph.input, kept[1]),
    ):
        del field[:]
        field.extend(values)
    return model


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _with_feeds(net: Network, model: onnx.ModelProto, feeds: list[dict[str, Array]]) -> Network:
    names = {i.name for i in model.graph.input}
    return Network(net.seed, model, [{k: v for k, v in f.items() if k in names} for f in feeds])


def _of_outputs(net: Network, names: list[str]) -> Network:
    model = _copy(net.model)
    kept = [o for o in model.graph.output if o.name in names]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    return _with_feeds(net, _prune(model), net.feeds)


def _info(name: str, arrays: list[Array]) -> onnx.ValueInfoProto:
    lengths = zip(*(a.shape for a in arrays), strict=True)
    shape = [of[0] if len(set(of)) == 1 else f"{name}_{i}" for i, of in enumerate(lengths)]
    kind = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    return helper.make_tensor_value_info(name, kind, shape)


def _cut(net: Network, name: str, values: list[Array]) -> Network | None:
    """The network with an intermediate value as an input; None if nothing becomes smaller."""
    if len({v.ndim for v in values}) != 1 or name in {o.name for o in net.model.graph.output}:
        return None
    model = _copy(net.model)
    before = len(model.graph.node)
    for node in model.graph.node:
        for i, output in enumerate(node.output):
            if output == name:
                node.output[i] = f"{name}_unused"
    model.graph.input.append(_info(name, values))
    model = _prune(model)
    if len(model.graph.node) >= before or name not in {i.name for i in model.graph.input}:
        return None
    feeds = [{**f, name: np.asarray(v)} for f, v in zip(net.feeds, values, strict=True)]
    return _with_feeds(net, model, feeds)


def _as_output(net: Network, name: str, values: list[Array]) -> Network:
    model = _copy(net.model)
    del model.graph.output[:]
    model.graph.output.append(_info(name, values))
    return _with_feeds(net, _prune(model), net.feeds)


def _candidates(net: Network) -> Iterator[Network]:
    if len(net.feeds) > 1:
        for i in range(len(net.feeds)):
            yield Network(net.seed, net.model, [net.feeds[i]])
    outputs = [o.name for o in net.model.graph.output]
    if len(outputs) > 1:
        for name in outputs:
            yield _of_outputs(net, [name])
    try:
        reference = Reference(net)
        answers = [reference.answers(feed) for feed in net.feeds]
    except NoReference:
        return
    made = [name for node in net.model.graph.node for name in node.output]
    known = [name for name in made if all(name in answer for answer in answers)]
    for name in known:  # what already fails early
        if name not in outputs:
            yield _as_output(net, name, [answer[name] for answer in answers])
    for name in reversed(known):
        smaller = _cut(net, name, [answer[name] for answer in answers])
        if smaller is not None:
            yield smaller


def shrink(net: Network, fails: Fails) -> Network:
    """The smallest that was found; `fails` says whether one still does."""
    while True:
        for candidate in _candidates(net):
            if candidate.model.graph.node and fails(candidate):
                net = candidate
                break
        else:
            return net
