# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports the layers of layers.py by both of PyTorch's exporters.

    export.py FOLDER [--only PART] [--sample]

--sample: only those that are in tests/golden/torch-exports, which this made. Needs what
`make nightly` installs into build/venv-train.
What an exporter can't do is printed. Integers have the range in the model's metadata `inputs`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import warnings
from pathlib import Path

import onnx
import torch
from layers import LAYERS, Layer

# The newest operator sets that both make.
OPSETS = {"script": 17, "dynamo": 20}
SAMPLE = Path(__file__).resolve().parents[1] / "golden" / "torch-exports"


def slim(model: onnx.ModelProto) -> None:
    """Without what only people read: where in a program a node comes from, above all."""
    model.doc_string = ""
    del model.metadata_props[:]
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        graph.doc_string = ""
        del graph.value_info[:], graph.metadata_props[:]
        for value in [*graph.input, *graph.output, *graph.initializer]:
            value.doc_string = ""
            del value.metadata_props[:]
        for node in graph.node:
            node.doc_string = ""
            del node.metadata_props[:]
            for attribute in node.attribute:
                attribute.doc_string = ""
                graphs += [attribute.g] if attribute.HasField("g") else []
    assert not model.functions


def export(layer: Layer, how: str, file: Path) -> onnx.ModelProto:
    torch.manual_seed(1)
    module = layer.make().eval()
    for name, buffer in module.named_buffers():
        if "running" in name:
            torch.nn.init.uniform_(buffer, 0.5, 1.5)
    names = [f"x{i}" for i in range(len(layer.inputs))]
    given = tuple(i.example() for i in layer.inputs)
    made = module(*given)
    results = made if isinstance(made, (tuple, list)) else (made,)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), torch.no_grad():
        if how == "dynamo":
            program = torch.onnx.export(
                module,
                given,
                dynamo=True,
                opset_version=OPSETS[how],
                input_names=names,
                verbose=False,
            )
            assert program
            model = program.model_proto
        else:
            torch.onnx.export(
                module,
                given,
                file,
                dynamo=False,
                opset_version=OPSETS[how],
                input_names=names,
            )
            model = onnx.load(file)
    slim(model)
    for output, result in zip(model.graph.output, results, strict=True):
        stated = output.type.tensor_type.shape
        if [d.dim_value for d in stated.dim] != list(result.shape):
            print(f"{file.name} states a wrong shape for a result")
            del stated.dim[:]
            for length in result.shape:
                stated.dim.add(dim_value=length)
    ranges = {n: [g.low, g.high] for n, g in zip(names, layer.inputs, strict=True) if g.high}
    model.metadata_props.add(key="inputs", value=json.dumps(ranges))
    model.producer_version = torch.__version__
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    options.folder.mkdir(parents=True, exist_ok=True)
    exported = 0
    for name, layer in LAYERS.items():
        for how in OPSETS:
            file = f"{name}.{how}.onnx"
            if options.only not in name or (options.sample and not (SAMPLE / file).exists()):
                continue
            try:
                model = export(layer, how, options.folder / file)
            except Exception as error:
                (options.folder / file).unlink(missing_ok=True)
                why = str(error).strip().splitlines() or [type(error).__name__]
                print(f"{name} isn't exported by {how}: {why[0][:160]}", flush=True)
                continue
            (options.folder / file).write_bytes(model.SerializeToString())
            exported += 1
    print(f"{exported} exported: {len(LAYERS)} layers by PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
