# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The networks of agents that choose among rows: their inputs, their imitation, their files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._core import Signature
from ..errors import InvalidModel
from ..gym.layout import MASK
from ..recording import Tensors
from .export import written

FORBIDDEN = -1.0e9
BLOCKS = 21  # the column of loop distribution that says if the vectorizer is likely to refuse
Inputs = Mapping[str, Tensor]


def _beside(rows: Tensor, *vectors: Tensor) -> Tensor:
    """Each row with the same vectors after it."""
    zeros = rows[:, :1] * 0
    return torch.cat([rows, *(zeros + vector[None] for vector in vectors)], 1)


def _earlier(mask: Tensor) -> Tensor:
    """The number of allowed rows up to each: the heuristics take the first of equals."""
    return torch.cumsum(mask.float(), 0)[:, None]


def _best(column: Tensor, mask: Tensor) -> Tensor:
    """1 for the most of the allowed rows, by which the heuristics choose, 0 for the others."""
    most = torch.where(mask[:, None], column, -1e30).amax(0, keepdim=True)
    return (column >= most).float()


def _two(second: Tensor) -> Tensor:
    """Two choices: zeros for the one, the inputs for the other."""
    row = torch.cat([torch.ones(1), second])[None]
    return torch.cat([row * 0, row])


def _range(seen: Inputs) -> Tensor:
    weights, notes = seen["spill_weights"][:, None], seen["annotations"]
    urgent = torch.where(notes[:, 0:1] > 0, 1e9, weights)  # ranges that can't be spilled
    mask = seen[MASK]
    return torch.cat([_best(urgent, mask), urgent, notes, _earlier(mask)], 1)


def _task(seen: Inputs) -> Tensor:
    properties = seen["node_properties"]
    executions, evicts, saved = properties[6:7], properties[7:8], properties[8:9]
    least = torch.where(evicts < 0, executions, torch.minimum(evicts, executions))
    return _two(torch.cat([least - (executions - saved), properties]))


def _colour(seen: Inputs) -> Tensor:
    rows, properties = seen["registers"], seen["node_properties"]
    is_stack = torch.zeros(rows.shape[0], 1)
    is_stack[0] = 1
    has_free = (properties[0:1] > 0).float()[None]
    lost = rows[:, 4:5] + is_stack * properties[4:5][None]
    first = _earlier(seen[MASK])
    return _beside(torch.cat([is_stack, is_stack * has_free, lost, rows, first], 1), properties)


def _point(seen: Inputs) -> Tensor:
    points, mask = seen["points"], seen[MASK]
    saved = points[:, 0:1] - points[:, 2:3]
    return torch.cat([_best(saved, mask), saved, points, _earlier(mask)], 1)


def _part(seen: Inputs) -> Tensor:
    nodes, previous = seen["nodes"], seen["previous"]
    node_blocks, loop_blocks = nodes[:, BLOCKS : BLOCKS + 1], previous[BLOCKS : BLOCKS + 1][None]
    alike = (torch.abs(node_blocks - loop_blocks) < 0.5).float()
    return _beside(torch.cat([alike, nodes, _earlier(seen[MASK])], 1), previous)


def _distribute(seen: Inputs) -> Tensor:
    differs = torch.abs(seen["node"][BLOCKS : BLOCKS + 1] - seen["previous"][BLOCKS : BLOCKS + 1])
    vectors = [seen[name] for name in ("node", "previous", "together", "rest", "whole")]
    return _two(torch.cat([differs, *vectors, seen["checks"].float().reshape(1)]))


#: The row of each choice that an agent sees, from the inputs of the plugin.
ROWS: dict[str, dict[str, Callable[[Inputs], Tensor]]] = {
    "register-allocation": {"node": _range, "task": _task, "colour": _colour, "split": _point},
    "loop-distribution": {"node": _part, "distribute": _distribute},
}


def packed(rows: Callable[[Inputs], Tensor], seen: Tensors, most: int) -> Any:
    """The input of a network in training, float32 [most, columns + 1]: the rows, with a last column
    that is 1 for those that are allowed; zeros after the last."""
    given = {name: torch.from_numpy(np.array(value)) for name, value in seen.items()}
    values = rows(given).numpy()
    out = np.zeros((most, values.shape[1] + 1), np.float32)
    out[: len(values), :-1] = values
    out[: len(values), -1] = seen[MASK]
    return out


def learned(
    rows: Callable[[Inputs], Tensor], decisions: Sequence[tuple[Tensors, int]], most: int
) -> tuple[Any, Any]:
    """The inputs of all decisions, `packed`, and the choices."""
    shown = [packed(rows, seen, most) for seen, _ in decisions]
    return np.array(shown), np.array([choice for _, choice in decisions], np.int64)


def squashed(rows: Tensor) -> Tensor:
    """Logarithms with a sign of columns of any size, such as executions."""
    return torch.sign(rows) * torch.log(1 + 1e5 * torch.clamp(torch.abs(rows), max=1e30))


def _layers(columns: int, hiddens: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in hiddens:
        layers += [nn.Linear(columns, width), nn.ReLU()]
        columns = width
    return nn.Sequential(*layers)


class Scores(nn.Module):
    """A score for each row, by the same layers and a sum of its columns beside them, so that layers
    need not find the order of rows by one column, in which heuristics choose."""

    def __init__(self, columns: int, hiddens: Sequence[int]) -> None:
        super().__init__()
        self.layers = _layers(columns, hiddens)
        self.last = nn.Linear(hiddens[-1], 1)
        self.beside = nn.Linear(columns, 1, bias=False)
        for start in (self.beside.weight, self.last.weight, self.last.bias):
            nn.init.zeros_(start)

    def scores(self, rows: Tensor) -> Tensor:
        """Scores [..., rows] of [..., rows, columns]."""
        seen = squashed(rows)
        scores: Tensor = (self.last(self.layers(0.1 * seen)) + self.beside(seen)).squeeze(-1)
        return scores

    def forward(self, given: Tensor) -> Tensor:
        """Takes the results of `packed`."""
        return torch.where(given[..., -1] > 0, self.scores(given[..., :-1]), FORBIDDEN)


class Value(nn.Module):
    """The value of a state, by the mean and the maximum of its allowed rows' layers."""

    def __init__(self, columns: int, hiddens: Sequence[int]) -> None:
        super().__init__()
        self.layers = _layers(columns, hiddens)
        self.last = nn.Linear(2 * hiddens[-1], 1)

    def forward(self, given: Tensor) -> Tensor:
        """Takes the results of `packed`."""
        allowed = given[..., -1:]
        seen = self.layers(0.1 * squashed(given[..., :-1])) * allowed
        mean = seen.sum(-2) / torch.clamp(allowed.sum(-2), min=1)
        value: Tensor = self.last(torch.cat([mean, seen.amax(-2)], -1)).squeeze(-1)
        return value


def batches(given: Any, actions: Any, size: int, order: np.random.Generator) -> Any:
    """Batches in random order, without the rows that none of a batch has."""
    for part in np.array_split(order.permutation(len(actions)), math.ceil(len(actions) / size)):
        most = int(given[part, :, -1].any(0).nonzero()[0].max()) + 1
        yield torch.from_numpy(given[part, :most]), torch.from_numpy(actions[part])


def imitate(network: Scores, given: Any, actions: Any, epochs: int, seed: int) -> None:
    """Learns decisions, `packed`."""
    layers = [*network.layers.parameters(), *network.last.parameters()]
    sums = {"params": list(network.beside.parameters()), "lr": 0.1}
    optimizer = torch.optim.Adam([{"params": layers}, sums], lr=1e-3)
    steps = epochs * math.ceil(len(actions) / 128)
    slower = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = np.random.default_rng(seed)
    for _ in range(epochs):
        for seen, chosen in batches(given, actions, 128, order):
            optimizer.zero_grad()
            loss: Any = nn.functional.cross_entropy(network(seen), chosen)
            loss.backward()
            optimizer.step()
            slower.step()


def temper(network: Scores, given: Any, certainty: float) -> None:
    """Scales scores, so that the best choices of these states have this probability in the mean: a
    network that is always certain explores nothing."""
    with torch.no_grad():
        parts = np.array_split(given, math.ceil(len(given) / 128))
        scores = torch.cat([network(torch.from_numpy(part)) for part in parts])
        low, high, scale = 1e-4, 1e2, 1.0
        for _ in range(40):
            scale = math.sqrt(low * high)
            is_below = torch.softmax(scale * scores, -1).amax(-1).mean() < certainty
            low, high = (scale, high) if is_below else (low, scale)
        for part in (network.last.weight, network.last.bias, network.beside.weight):
            part *= scale


def agreement(network: Scores, given: Any, actions: Any) -> int:
    """The number of these decisions that the network makes too."""
    same = 0
    with torch.no_grad():
        for seen, chosen in batches(given, actions, 128, np.random.default_rng(0)):
            same += int((network(seen).argmax(-1) == chosen).sum())
    return same


class _Policy(nn.Module):
    """The inputs of the plugin by name in, the number of the best allowed row out."""

    def __init__(
        self, network: Scores, rows: Callable[[Inputs], Tensor], names: Sequence[str]
    ) -> None:
        super().__init__()
        self.network, self.rows, self.names = network, rows, names

    def forward(self, *inputs: Tensor) -> Tensor:
        """The action."""
        given = dict(zip(self.names, inputs, strict=True))
        return torch.argmax(self.scores(given), dim=0)

    def scores(self, given: Inputs) -> Tensor:
        """The scores of all rows."""
        return torch.where(given[MASK], self.network.scores(self.rows(given)), -3e38)


def export(
    network: Scores,
    rows: Callable[[Inputs], Tensor],
    signature: Signature,
    examples: Sequence[Tensors],
    metadata: Mapping[str, str],
    path: Path,
) -> None:
    """Writes the file, if ONNX Runtime decides as PyTorch does in the examples, or takes a choice
    that is as good but for rounding."""
    names = [spec.name for spec in signature.inputs if spec.name != "edges"]
    policy = _Policy(network.eval().cpu(), rows, names).eval()
    shapes = {spec.name: spec.shape for spec in signature.inputs}
    dynamic = {name: {0: "rows"} for name in names if shapes[name] and shapes[name][0] < 0}
    first = {name: examples[0][name] for name in names}
    with written(policy, first, signature.outputs[0].name, metadata, path, dynamic) as session:
        taken = {one.name for one in session.get_inputs()}
        for seen in examples:
            with torch.no_grad():
                scores = policy.scores({n: torch.from_numpy(np.array(seen[n])) for n in names})
            [got] = session.run(None, {name: seen[name] for name in names if name in taken})
            best = int(scores.argmax())
            if scores[int(got)] < scores[best] - 1e-4 * max(1.0, abs(float(scores[best]))):
                raise InvalidModel(f"{path}: decides {int(got)}, PyTorch {best}")
