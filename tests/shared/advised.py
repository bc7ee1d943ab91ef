# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilers whose questions are answered by models, and models that answer them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import mlbridge.files

#: The plugin of each question, and what its options begin with.
PLUGINS = {
    "inliner": ("inliner", "inliner"),
    "regalloc-eviction": ("regalloc-advice", "regalloc-eviction"),
    "regalloc-priority": ("regalloc-advice", "regalloc-priority"),
    "register-allocation": ("register-allocation", "register-allocation"),
    "loop-distribution": ("loop-distribution", "loop-distribution"),
}
MAIN = """
#include <cstdio>
#include <string>
#include <vector>
#include <algorithm>
#include <map>

namespace {
struct Item { std::string name; int weight; };
int twice(int x) { return 2 * x; }
int mix(int a, int b) { return twice(a) ^ (b * 31 + twice(b)); }
template <typename T> T total(const std::vector<T> &all) {
  T sum{};
  for (const T &one : all) sum += one;
  return sum;
}
int depth(int n) { return n < 2 ? n : mix(depth(n - 1), depth(n - 2)) & 1023; }
}

int main(int count, char **) {
  std::vector<Item> items;
  for (int i = 0; i < 40; ++i) items.push_back({std::to_string(mix(i, count)), mix(count, i)});
  std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
    return a.weight != b.weight ? a.weight < b.weight : a.name < b.name;
  });
  std::map<std::string, int> seen;
  std::vector<int> weights;
  for (const Item &item : items) { seen[item.name] += item.weight; weights.push_back(item.weight); }
  std::printf("%d %zu %d %s\\n", total(weights), seen.size(), depth(12), items[7].name.c_str());
  return 0;
}
"""


def plugin(site: str, version: int = 22) -> Path:
    """The plugin's file, which must be there."""
    path = Path(mlbridge.files.plugin(PLUGINS[site][0], version))
    assert path.is_file(), f"the plugin is not there: {path}"
    return path


def options(
    site: str, model: str, version: int = 22, own: str | Path | None = None, **settings: Any
) -> list[str]:
    """What `mlbridge flags` would print; `own` is another plugin."""
    prefix = PLUGINS[site][1]
    path = own or plugin(site, version)
    line = [] if version >= 22 else ["-Xclang", "-load", "-Xclang", str(path)]
    line += ["-Xclang", f"-fpass-plugin={path}"]
    for key, value in {"model": model, **settings}.items():
        line += ["-Xclang", "-mllvm", "-Xclang", f"-{prefix}-{key.replace('_', '-')}={value}"]
    return line


def run(*command: str | Path, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
    """At most ten minutes."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
        check=False,
        **more,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def threshold_policy(path: Path, limit: int = 25, feature: str = "callsite_cost") -> Path:
    """Inlines where a feature is below the limit."""
    nodes = [
        helper.make_node("Less", [feature, "limit"], ["below"]),
        helper.make_node("Cast", ["below"], ["inlining_decision"], to=TensorProto.INT64),
    ]
    given = helper.make_tensor_value_info(feature, TensorProto.INT64, [1])
    made = helper.make_tensor_value_info("inlining_decision", TensorProto.INT64, [1])
    constant = helper.make_tensor("limit", TensorProto.INT64, [1], [limit])
    return save(path, helper.make_graph(nodes, "policy", [given], [made], [constant]))


def constant_policy(path: Path, output: str, value: float, dtype: str = "int64") -> Path:
    """Answers this, whatever it is asked; it has an input that no compiler sends."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [helper.make_node("Identity", ["value"], [output])]
    made = helper.make_tensor_value_info(output, kind, [1])
    constant = helper.make_tensor("value", kind, [1], [value])
    return save(path, helper.make_graph(nodes, "policy", [], [made], [constant]))


def save(path: Path, graph: onnx.GraphProto) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path
