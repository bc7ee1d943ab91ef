# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the small ONNX files that the onnx engine's test reads.

    python tests/golden/onnx/make.py [DEST]

Each holds one thing that the engine has to do or to refuse. DEST is this folder if not given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
# Where tf2onnx puts operators that ONNX does not have.
TENSORFLOW = "ai.onnx.converters.tensorflow"

Info = onnx.ValueInfoProto
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {}


def model(function: Callable[[], onnx.ModelProto]) -> Callable[[], onnx.ModelProto]:
    """Register a model under the function's name."""
    MODELS[function.__name__.replace("_", "-")] = function
    return function


def floats(name: str, *shape: int | str | None) -> Info:
    """A float32 input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def ints(name: str, *shape: int | str | None) -> Info:
    """An int64 input or output."""
    return helper.make_tensor_value_info(name, TensorProto.INT64, shape)


def constant(name: str, values: object, kind: type = np.float32) -> onnx.TensorProto:
    """An initializer."""
    return numpy_helper.from_array(np.asarray(values, kind), name)


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[Info],
    outputs: Sequence[Info],
    initializers: Sequence[onnx.TensorProto] = (),
    opsets: Sequence[tuple[str, int]] = (("", OPSET),),
) -> onnx.ModelProto:
    """A model of these nodes."""
    graph = helper.make_graph(
        list(nodes), "golden", list(inputs), list(outputs), list(initializers)
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets],
        producer_name="tests/golden",
    )
    made.ir_version = IR_VERSION
    return made


@model
def linear() -> onnx.ModelProto:
    """y = x · (1, 2, 3, 4) + 0.5, with metadata."""
    made = build(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        [floats("x", 1, 4)],
        [floats("y", 1, 1)],
        [constant("w", [[1], [2], [3], [4]]), constant("b", [0.5])],
    )
    made.doc_string = "A linear model"
    helper.set_model_props(made, {"actions": "a,b", "unit": "µs", "empty": ""})
    return made


@model
def policy() -> onnx.ModelProto:
    """Two inputs of two types, two outputs of two types, scalars among them."""
    return build(
        [
            helper.make_node("Cast", ["step"], ["step_float"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["features", "step_float"], ["logits"]),
            helper.make_node("ArgMax", ["logits"], ["action"], axis=0, keepdims=0),
        ],
        [floats("features", 3), ints("step")],
        [floats("logits", 3), ints("action")],
    )


@model
def types() -> onnx.ModelProto:
    """Each fixed-size element type, passed through."""
    names = ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"]
    names += ["FLOAT16", "FLOAT", "DOUBLE", "BOOL"]
    nodes, inputs, outputs = [], [], []
    for name in names:
        kind, low = TensorProto.DataType.Value(name), name.lower()
        nodes.append(helper.make_node("Identity", [low], [low + "_out"]))
        inputs.append(helper.make_tensor_value_info(low, kind, [2]))
        outputs.append(helper.make_tensor_value_info(low + "_out", kind, [2]))
    return build(nodes, inputs, outputs)


@model
def dynamic() -> onnx.ModelProto:
    """A dimension that changes from call to call, in and out, and an output that stays."""
    return build(
        [
            helper.make_node("Add", ["nodes", "nodes"], ["doubled"]),
            helper.make_node("ReduceSum", ["nodes", "axis"], ["total"], keepdims=0),
        ],
        [floats("nodes", "N", 2)],
        [floats("doubled", "N", 2), floats("total", 2)],
        [constant("axis", [0], np.int64)],
    )


@model
def nonzero() -> onnx.ModelProto:
    """An output whose length depends on the values."""
    return build(
        [helper.make_node("NonZero", ["x"], ["where"])], [floats("x", 4)], [ints("where", 1, "K")]
    )


@model
def log() -> onnx.ModelProto:
    """Gives NaN and infinities."""
    return build([helper.make_node("Log", ["x"], ["y"])], [floats("x", 3)], [floats("y", 3)])


@model
def gather() -> onnx.ModelProto:
    """Fails in an evaluation when the index is out of range."""
    return build(
        [helper.make_node("Gather", ["data", "index"], ["y"])],
        [floats("data", 3), ints("index", 1)],
        [floats("y", 1)],
    )


@model
def lies() -> onnx.ModelProto:
    """Declares the shapes [2, 2] and [?, 2], and gives what the input says."""
    return build(
        [
            helper.make_node("Reshape", ["x", "shape"], ["fixed"]),
            helper.make_node("Reshape", ["x", "other"], ["open"]),
        ],
        [floats("x", 4), ints("shape", 2), ints("other", 2)],
        [floats("fixed", 2, 2), floats("open", "N", 2)],
    )


@model
def lies_fixed() -> onnx.ModelProto:
    """Declares the shape [2, 2], and gives what the input says."""
    return build(
        [helper.make_node("Reshape", ["x", "shape"], ["fixed"])],
        [floats("x", 4), ints("shape", 2)],
        [floats("fixed", 2, 2)],
    )


@model
def pool() -> onnx.ModelProto:
    """A dimension that changes from call to call in, none out."""
    return build(
        [helper.make_node("ReduceSum", ["nodes", "axis"], ["total"], keepdims=0)],
        [floats("nodes", "N", 2)],
        [floats("total", 2)],
        [constant("axis", [0], np.int64)],
    )


@model
def strings() -> onnx.ModelProto:
    """A string, passed through."""
    text = helper.make_tensor_value_info("text", TensorProto.STRING, [1])
    out = helper.make_tensor_value_info("text_out", TensorProto.STRING, [1])
    return build([helper.make_node("Identity", ["text"], ["text_out"])], [text], [out])


@model
def words() -> onnx.ModelProto:
    """Strings of a number that changes and of a fixed one, in and out, and numbers beside them."""
    kind = TensorProto.STRING
    return build(
        [
            helper.make_node("Concat", ["many", "pair"], ["all"], axis=0),
            helper.make_node("Identity", ["pair"], ["same"]),
            helper.make_node("Identity", ["word"], ["alone"]),
            helper.make_node("Size", ["all"], ["count"]),
        ],
        [
            helper.make_tensor_value_info("many", kind, ["N"]),
            helper.make_tensor_value_info("pair", kind, [2]),
            helper.make_tensor_value_info("word", kind, []),
        ],
        [
            helper.make_tensor_value_info("all", kind, ["M"]),
            helper.make_tensor_value_info("same", kind, [2]),
            helper.make_tensor_value_info("alone", kind, []),
            ints("count"),
        ],
    )


@model
def bucketize() -> onnx.ModelProto:
    """The operator of examples/bucketize."""
    node = helper.make_node(
        "Bucketize", ["x"], ["bucket"], domain=TENSORFLOW, boundaries=[0.0, 10.0, 100.0]
    )
    out = helper.make_tensor_value_info("bucket", TensorProto.INT32, [3, 2])
    return build([node], [floats("x", 3, 2)], [out], opsets=(("", OPSET), (TENSORFLOW, 1)))


@model
def scalars() -> onnx.ModelProto:
    """A scalar of each fixed-size element type, passed through."""
    names = ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"]
    names += ["FLOAT16", "FLOAT", "DOUBLE", "BOOL"]
    nodes, inputs, outputs = [], [], []
    for name in names:
        kind, low = TensorProto.DataType.Value(name), name.lower()
        nodes.append(helper.make_node("Identity", [low], [low + "_out"]))
        inputs.append(helper.make_tensor_value_info(low, kind, []))
        outputs.append(helper.make_tensor_value_info(low + "_out", kind, []))
    return build(nodes, inputs, outputs)


@model
def bfloat16() -> onnx.ModelProto:
    """An element type that has no counterpart."""
    brain = helper.make_tensor_value_info("brain", TensorProto.BFLOAT16, [1])
    out = helper.make_tensor_value_info("brain_out", TensorProto.BFLOAT16, [1])
    return build([helper.make_node("Identity", ["brain"], ["brain_out"])], [brain], [out])


@model
def sequence() -> onnx.ModelProto:
    """An output that is no tensor."""
    out = helper.make_tensor_sequence_value_info("many", TensorProto.FLOAT, [2])
    return build([helper.make_node("SequenceConstruct", ["x"], ["many"])], [floats("x", 2)], [out])


@model
def unknown_operator() -> onnx.ModelProto:
    """An operator that nobody registered."""
    return build(
        [helper.make_node("Teleport", ["x"], ["y"], domain="nowhere")],
        [floats("x", 1)],
        [floats("y", 1)],
        opsets=(("", OPSET), ("nowhere", 1)),
    )


@model
def future_opset() -> onnx.ModelProto:
    """A version of the operators that is not there yet."""
    return build(
        [helper.make_node("Identity", ["x"], ["y"])],
        [floats("x", 1)],
        [floats("y", 1)],
        opsets=(("", 9999),),
    )


def external(location: str, *, offset: str = "8", length: str = "16") -> onnx.TensorProto:
    """Four weights in another file."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 1])
    weights.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        weights.external_data.add(key=key, value=value)
    return weights


def outside(weights: onnx.TensorProto) -> onnx.ModelProto:
    """y = x · the weights of the other file."""
    return build(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [floats("x", 1, 4)],
        [floats("y", 1, 1)],
        [weights],
    )


@model
def external_data() -> onnx.ModelProto:
    """Weights in a file of the same folder."""
    return outside(external("external-data.bin"))


@model
def external_missing() -> onnx.ModelProto:
    """Weights in a file that is not there."""
    return outside(external("nowhere.bin"))


@model
def external_escape() -> onnx.ModelProto:
    """Weights outside the model's folder."""
    return outside(external("../onnx/external-data.bin"))


@model
def external_absolute() -> onnx.ModelProto:
    """Weights at an absolute path."""
    return outside(external("/dev/zero"))


@model
def external_beyond() -> onnx.ModelProto:
    """Weights beyond the end of their file."""
    return outside(external("external-data.bin", offset="1152921504606846976"))


@model
def external_overflow() -> onnx.ModelProto:
    """Weights at an offset that overflows when the length is added."""
    return outside(external("external-data.bin", offset="18446744073709551608"))


@model
def external_short() -> onnx.ModelProto:
    """Weights whose stated length is not that of their shape."""
    return outside(external("external-data.bin", length="4"))


@model
def external_constant() -> onnx.ModelProto:
    """Weights of a Constant node in another file."""
    node = helper.make_node("Constant", [], ["w"], value=constant("w", [[1], [2], [3], [4]]))
    node.attribute[0].t.CopyFrom(external("external-data.bin"))
    return build(
        [node, helper.make_node("MatMul", ["x", "w"], ["y"])],
        [floats("x", 1, 4)],
        [floats("y", 1, 1)],
    )


def write_ort(source: Path, dest: Path) -> None:
    """The same model in ONNX Runtime's own format."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(dest)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def main() -> int:
    """The command."""
    dest = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    dest.mkdir(parents=True, exist_ok=True)
    for name, make in MODELS.items():
        (dest / f"{name}.onnx").write_bytes(make().SerializeToString(deterministic=True))
    write_ort(dest / "linear.onnx", dest / "linear.ort")
    weights = np.array([0, 0, 1, 2, 3, 4], np.float32)
    (dest / "external-data.bin").write_bytes(weights.tobytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
