# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A trained network as an ONNX file that any runner takes."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._core import Signature
from ..errors import InvalidModel
from ..gym.layout import MASK
from ..outputs import replace_whole

MASKED = -1.0e9
TRIES = 500


class Policy(nn.Module):
    """Takes the inputs of the pass by name, concatenates them as in training, and gives the allowed
    action with the largest value."""

    def __init__(
        self,
        network: nn.Module,
        signature: Signature,
        parts: Mapping[str, Any],
        compressed: Collection[str],
    ) -> None:
        super().__init__()
        self.network, self.compressed = network, compressed
        self.parts = list(parts)
        self.inputs = [s.name for s in signature.inputs if s.name in parts or s.name == MASK]
        self.shape = list(signature.outputs[0].shape)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The number of the action."""
        given = dict(zip(self.inputs, inputs, strict=True))
        for name in self.compressed:
            x = given[name].float()
            given[name] = torch.sign(x) * torch.log(1 + torch.abs(x))
        values = self.network(torch.cat([given[n].reshape(-1).float() for n in self.parts])[None])
        if MASK in given:
            values = torch.where(given[MASK].reshape(1, -1) > 0, values, MASKED)
        return torch.argmax(values, dim=-1).reshape(self.shape)


def export(
    network: nn.Module,
    signature: Signature,
    parts: Mapping[str, Any],
    metadata: Mapping[str, str],
    path: Path,
    compressed: Collection[str] = (),
) -> None:
    """Writes the file, if ONNX Runtime decides as PyTorch does on random observations.

    `network` maps a batch of vectors to a value for each choice. `compressed`: those of AsVector.
    """
    policy = Policy(network.eval().cpu(), signature, parts, compressed).eval()
    specs = {s.name: s for s in signature.inputs if s.name in policy.inputs}
    random = np.random.default_rng(0)

    def observation() -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in policy.inputs:
            spec = specs[name]
            if name == MASK:
                value: Any = random.random(spec.shape) < 0.7
                value.flat[-1] = True
            elif spec.type.startswith("float"):
                value = random.normal(0, 1, spec.shape)
            else:
                value = random.integers(0, 12, spec.shape)
            values[name] = np.asarray(value, spec.type)
        return values

    output = signature.outputs[0].name
    with written(policy, observation(), output, metadata, path) as session:
        for _ in range(TRIES):
            values = observation()
            with torch.no_grad():
                expected = policy(*(torch.from_numpy(value) for value in values.values()))
            [got] = session.run(None, values)
            if not np.array_equal(got, expected.numpy()):
                raise InvalidModel(f"{path}: decides {got}, PyTorch {expected.numpy()}")


@contextmanager
def written(
    policy: nn.Module,
    example: Mapping[str, Any],
    output: str,
    metadata: Mapping[str, str],
    path: Path,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
) -> Iterator[Any]:
    """Writes a policy as an ONNX file, and gives a session of ONNX Runtime to compare it; the file
    appears if the body doesn't raise. `example` has an array for each input."""
    import onnx
    import onnxruntime

    exported = io.BytesIO()
    with torch.no_grad():
        torch.onnx.export(
            policy, tuple(torch.from_numpy(np.array(value)) for value in example.values()),
            exported, dynamo=False, opset_version=17, input_names=list(example),
            output_names=[output], dynamic_axes=dynamic,
        )  # fmt: skip
    model = onnx.load_from_string(exported.getvalue())
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.checker.check_model(model, full_check=True)
    contents = model.SerializeToString()
    yield onnxruntime.InferenceSession(contents, providers=["CPUExecutionProvider"])
    replace_whole(path, contents)
