# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes an ONNX file of a policy that LLVM's MLGO has as a SavedModel of TensorFlow.

    python saved_model.py FOLDER --for inliner --signature action -o policy.onnx

Run by a Python that has TensorFlow and tf2onnx, which need not have mlbridge; so this file stands
alone. What MLGO's training writes (compiler_opt/rl/policy_saver.py in
https://github.com/google/ml-compiler-opt, by PolicySaver of TF-Agents with a batch of one) becomes
what the plugins ask:

- Only the decision is left of the outputs, as int64[1].
- `discount`, `reward` and `step_type`, which TF-Agents adds and LLVM leaves at zero, are zeros.
- Inputs on which the decision does not depend are gone, so that nobody computes them.
- Bucketize, which ONNX lacks, is comparisons and a sum: the same numbers, also for NaN.
- ArgMax passes over NaN, as TensorFlow's does.
- Inputs without a batch, as LLVM's scripts for tests make them, get one.

Prints a line of JSON: inputs, what was left out. Exits with 1, and says why on stderr, if the
model has features that LLVM 22's plugin has not, or other types, shapes or decisions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

#: What TF-Agents adds to every policy.
ADDED = ("discount", "reward", "step_type")
OPSET = 17


class Problem(Exception):
    """The model cannot be converted; the text says why."""


class Optimization(NamedTuple):
    """What the plugin of an optimization asks (LLVM 22)."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]  #: type and shape, by name
    decision: str  #: int64[1]


#: llvm/Analysis/InlineModelFeatureMaps.h of LLVM 22.
_INLINER = """
    callee_basic_block_count callsite_height node_count nr_ctant_params cost_estimate edge_count
    caller_users caller_conditionally_executed_blocks caller_basic_block_count
    callee_conditionally_executed_blocks callee_users is_callee_avail_external
    is_caller_avail_external inlining_default
    sroa_savings sroa_losses load_elimination call_penalty call_argument_setup
    load_relative_intrinsic lowered_call_arg_setup indirect_call_penalty jump_table_penalty
    case_cluster_penalty switch_default_dest_penalty switch_penalty
    unsimplified_common_instructions num_loops dead_blocks simplified_instructions constant_args
    constant_offset_ptr_args callsite_cost cold_cc_penalty last_call_to_static_bonus
    is_multiple_blocks nested_inlines nested_inline_cost_estimate threshold
""".split()
#: RA_EVICT_FEATURES_LIST in llvm/lib/CodeGen/MLRegAllocEvictAdvisor.cpp of LLVM 22.
_EVICTION_INTEGERS = "mask is_free is_hint is_local max_stage min_stage".split()
_EVICTION_FLOATS = """
    nr_urgent nr_broken_hints nr_rematerializable nr_defs_and_uses weighed_reads_by_max
    weighed_writes_by_max weighed_read_writes_by_max weighed_indvars_by_max hint_weights_by_max
    start_bb_freq_by_max end_bb_freq_by_max hottest_bb_freq_by_max liverange_size use_def_density
""".split()
OPTIMIZATIONS = {
    "inliner": Optimization(dict.fromkeys(_INLINER, ("int64", (1,))), "inlining_decision"),
    "regalloc-eviction": Optimization(
        {
            **dict.fromkeys(_EVICTION_INTEGERS, ("int64", (1, 33))),
            **dict.fromkeys(_EVICTION_FLOATS, ("float32", (1, 33))),
            "progress": ("float32", (1,)),
        },
        "index_to_evict",
    ),
}


def adapt(model: Any, name: str) -> dict[str, Any]:
    """Change an ONNX model that tf2onnx made into what the plugin of an optimization asks; what was
    changed. Raises Problem, and lists all that does not fit."""
    import onnx

    wanted, graph = OPTIMIZATIONS[name], model.graph
    problems = []
    for value in graph.input:
        if value.name not in ADDED:
            problems += _misfits(value, wanted.inputs.get(value.name))
    problems += _keep_decision(graph, wanted.decision)
    if problems:
        raise Problem(f"LLVM 22's {name} cannot ask this model:\n  " + "\n  ".join(problems))
    _replace_bucketize(graph)
    _pass_over_nan(model)
    left_out = _drop_unused(model, set(ADDED))
    for value in graph.input:
        _shape_input(graph, value, wanted.inputs[value.name])
    for value in [*graph.value_info]:  # shapes that were those of another batch
        graph.value_info.remove(value)
    model.metadata_props.extend(
        onnx.StringStringEntryProto(key=key, value=text)
        for key, text in (("mlgo.optimization", name), ("mlgo.left_out", " ".join(left_out)))
    )
    onnx.checker.check_model(model, full_check=True)
    return {"inputs": [value.name for value in graph.input], "left_out": left_out}


def _type_of(value: Any) -> tuple[str, tuple[Any, ...]]:
    import onnx

    tensor = value.type.tensor_type
    kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    dims = tensor.shape.dim
    return kind, tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or -1 for d in dims)


def _text(kind: str, shape: tuple[Any, ...]) -> str:
    return f"{kind}[{','.join(map(str, shape))}]"


def _misfits(value: Any, expected: tuple[str, tuple[int, ...]] | None) -> list[str]:
    kind, shape = _type_of(value)
    if expected is None:
        return [f"it has no feature '{value.name}' ({_text(kind, shape)})"]
    # Without the batch of one, and with one whose size is open.
    open_batch = shape[1:] == expected[1][1:] and shape and not isinstance(shape[0], int)
    fits = shape in (expected[1], expected[1][1:]) or open_batch or shape == (-1, *expected[1][1:])
    if kind != expected[0] or not fits:
        return [f"'{value.name}' is {_text(kind, shape)}, and LLVM's is {_text(*expected)}"]
    return []


def _keep_decision(graph: Any, decision: str) -> list[str]:
    """Leave one output, named as the plugin asks it, with a shape of [1]."""
    import numpy as np
    import onnx

    named = [value for value in graph.output if value.name == decision]
    if not named:  # of a signature whose outputs have other names
        named = [value for value in graph.output if _type_of(value)[0] == "int64"]
    if len(named) != 1 or _type_of(named[0])[0] != "int64":
        there = ", ".join(f"'{v.name}' {_text(*_type_of(v))}" for v in graph.output)
        return [f"expected the output '{decision}' int64[1]; there is {there or 'none'}"]
    made_by = named[0].name
    del graph.output[:]
    inner = f"{decision}/chosen"
    for node in graph.node:
        for names in (node.input, node.output):
            for index, one in enumerate(names):
                if one == made_by:
                    names[index] = inner
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), f"{decision}/shape"))
    graph.node.append(
        onnx.helper.make_node("Reshape", [inner, f"{decision}/shape"], [decision], name=decision)
    )
    graph.output.append(onnx.helper.make_tensor_value_info(decision, onnx.TensorProto.INT64, [1]))
    return []


def _replace_bucketize(graph: Any) -> None:
    """The number of boundaries that a value has reached, or all for NaN, as TensorFlow counts them:
    it compares in float32. Boundaries that are there several times have weights."""
    import numpy as np
    import onnx

    nodes = []
    for number, node in enumerate(graph.node):
        if node.op_type != "Bucketize":
            nodes.append(node)
            continue
        stated = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        boundaries = np.array(stated["boundaries"], np.float32)
        distinct, counts = np.unique(boundaries, return_counts=True)
        own = f"{node.name or 'Bucketize'}/{number}"
        for what, array in (
            ("boundaries", distinct),
            ("counts", counts.astype(np.float32)),
            ("axis", np.array([-1])),
        ):
            graph.initializer.append(onnx.numpy_helper.from_array(array, f"{own}/{what}"))
        make, to = onnx.helper.make_node, onnx.TensorProto
        nodes += [
            make("Cast", [node.input[0]], [f"{own}/0"], f"{own}/value", to=to.FLOAT),
            make("Unsqueeze", [f"{own}/0", f"{own}/axis"], [f"{own}/1"], f"{own}/last"),
            make("Less", [f"{own}/1", f"{own}/boundaries"], [f"{own}/2"], f"{own}/below"),
            make("Not", [f"{own}/2"], [f"{own}/3"], f"{own}/reached"),
            make("Cast", [f"{own}/3"], [f"{own}/4"], f"{own}/number", to=to.FLOAT),
            make("MatMul", [f"{own}/4", f"{own}/counts"], [f"{own}/5"], f"{own}/sum"),
            make("Cast", [f"{own}/5"], [node.output[0]], f"{own}/bucket", to=to.INT32),
        ]
    del graph.node[:]
    graph.node.extend(nodes)


def _pass_over_nan(model: Any) -> None:
    """TensorFlow's ArgMax passes over NaN. ONNX says nothing of it, and engines differ."""
    import numpy as np
    import onnx

    graph, nodes = model.graph, []
    inferred = onnx.shape_inference.infer_shapes(model).graph
    kinds = {v.name: _type_of(v)[0] for v in (*inferred.value_info, *inferred.input)}
    for number, node in enumerate(graph.node):
        if node.op_type == "ArgMax" and kinds.get(node.input[0], "float32") == "float32":
            own, scores = f"{node.name or 'ArgMax'}/{number}", node.input[0]
            least = onnx.numpy_helper.from_array(np.array(-np.inf, np.float32), f"{own}/least")
            graph.initializer.append(least)
            make = onnx.helper.make_node
            nodes += [
                make("IsNaN", [scores], [f"{own}/0"], f"{own}/nan"),
                make("Where", [f"{own}/0", least.name, scores], [f"{own}/1"], f"{own}/scores"),
            ]
            node.input[0] = f"{own}/1"
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _drop_unused(model: Any, zero: set[str]) -> list[str]:
    """Leave out nodes and inputs on which the outputs do not depend; make inputs zero. Returns the
    inputs that are gone."""
    import numpy as np
    import onnx

    graph = model.graph
    needed = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_reads(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    gone = []
    for value in [*graph.input]:
        if value.name in zero and value.name in needed:
            kind, shape = _type_of(value)
            sizes = [size if isinstance(size, int) and size > 0 else 1 for size in shape]
            zeros = np.zeros(sizes, np.dtype(kind))
            graph.initializer.append(onnx.numpy_helper.from_array(zeros, value.name))
        elif value.name in needed:
            continue
        graph.input.remove(value)
        gone.append(value.name)
    for tensor in [*graph.initializer]:
        if tensor.name not in needed:
            graph.initializer.remove(tensor)
    domains = {node.domain for node in graph.node}
    for opset in [*model.opset_import]:
        if opset.domain not in domains and opset.domain:
            model.opset_import.remove(opset)
    return gone


def _reads(node: Any) -> set[str]:
    """What a node uses, also inside its branches and loops."""
    names = set(node.input)
    for attribute in node.attribute:
        for inside in [attribute.g, *attribute.graphs]:
            for inner in inside.node:
                names |= _reads(inner)
            names.update(value.name for value in inside.output)
    return names


def _shape_input(graph: Any, value: Any, expected: tuple[str, tuple[int, ...]]) -> None:
    """Give an input the shape that the plugin asks with; the graph sees the one that it had."""
    import numpy as np
    import onnx

    _, shape = _type_of(value)
    dims = value.type.tensor_type.shape
    del dims.dim[:]
    for size in expected[1]:
        dims.dim.add().dim_value = size
    if shape != expected[1][1:]:  # it has a batch
        return
    inner, target = f"{value.name}/one", f"{value.name}/shape"
    for node in graph.node:
        for index, one in enumerate(node.input):
            if one == value.name:
                node.input[index] = inner
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape, np.int64), target))
    graph.node.insert(0, onnx.helper.make_node("Reshape", [value.name, target], [inner], inner))


def signature_of(folder: str, key: str) -> None:
    """Check that a folder is a SavedModel with a signature. Raises Problem."""
    from tensorflow.python.tools import saved_model_utils

    if not (Path(folder) / "saved_model.pb").is_file():
        lite = (
            " (model.tflite is another format)" if (Path(folder) / "model.tflite").exists() else ""
        )
        raise Problem(f"{folder}: no SavedModel: saved_model.pb is not there{lite}")
    try:
        graph = saved_model_utils.get_meta_graph_def(folder, "serve")
    except Exception as error:  # of TensorFlow's own
        raise Problem(f"{folder}: not a SavedModel: {error}") from None
    if key not in graph.signature_def:
        there = ", ".join(sorted(k for k in graph.signature_def if not k.startswith("__")))
        raise Problem(f"{folder} has no signature '{key}'; it has {there or 'none'}")


def converted(folder: str, key: str, target: Path) -> None:
    """Have tf2onnx write an ONNX file. Raises Problem."""
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", folder]
    command += ["--tag", "serve", "--signature_def", key, "--opset", str(OPSET)]
    command += ["--custom-ops", "Bucketize", "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not target.is_file():
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Problem(f"{folder}: tf2onnx failed: " + "\n".join(lines[-5:]))


def main(words: list[str] | None = None) -> int:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--for", dest="optimization", choices=sorted(OPTIMIZATIONS), required=True)
    parser.add_argument("--signature", default="action")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(words)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    try:
        try:
            import onnx
            import tf2onnx  # noqa: F401 - that it is there

            signature_of(options.folder, options.signature)
        except ImportError as error:
            raise Problem(
                f"{sys.executable} lacks what converts ({error}): pip install "
                "'tensorflow-cpu==2.15.1' && pip install --no-deps 'tf2onnx<1.18' 'onnx<1.18'"
            ) from None
        with tempfile.TemporaryDirectory(prefix="mlbridge-convert-") as place:
            first = Path(place) / "first.onnx"
            converted(options.folder, options.signature, first)
            model = onnx.load(first)
            # tf2onnx calls a tensor NAME or NAME:0.
            for value in [*model.graph.input, *model.graph.output]:
                _rename(model.graph, value.name, value.name.removesuffix(":0"))
            made = adapt(model, options.optimization)
            made["operators"] = sorted({node.op_type for node in model.graph.node})
            partial = options.output.with_name(f".{options.output.name}.{os.getpid()}")
            partial.write_bytes(model.SerializeToString())
            partial.replace(options.output)
    except (Problem, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(made))
    return 0


def _rename(graph: Any, old: str, new: str) -> None:
    if old == new:
        return
    for node in graph.node:
        for names in (node.input, node.output):
            for index, one in enumerate(names):
                if one == old:
                    names[index] = new
    for value in [*graph.input, *graph.output]:
        if value.name == old:
            value.name = new


if __name__ == "__main__":
    sys.exit(main())
