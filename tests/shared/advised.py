# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A program with much to inline, and small networks that answer compilers' questions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

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
