// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Outputs of a type that no tensor here has: classifiers from scikit-learn end with them.
#include "engine/native/onnx/model.h"
#include "engine/onnx_format.h"

#include <algorithm>
#include <set>

namespace mlbridge::native::onnx {
namespace {

std::string jsonOf(std::string_view text) {
  constexpr char Digits[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20)
      json.append("\\u00").append({Digits[byte >> 4], Digits[byte & 15]});
    else
      json.append(c == '"' || c == '\\' ? "\\" : "").append({c});
  }
  return json + '"';
}

/// The labels of a ZipMap as a list in JSON.
std::string labelsOf(const Node &node) {
  std::string list;
  for (const Attribute &attribute : node.attributes) {
    for (const int64_t label : attribute.integers)
      list.append(list.empty() ? "" : ", ").append(std::to_string(label));
    for (const std::string_view label : attribute.texts)
      list.append(list.empty() ? "" : ", ").append(jsonOf(label));
  }
  return "[" + list + "]";
}

/// The columns that a ZipMap would name are the output instead.
void unzip(Model &model, Metadata &said) {
  constexpr DataType Float{1};
  for (Node &node : model.graph.nodes) {
    if (node.domain != "ai.onnx.ml" || node.op != "ZipMap" || node.outputs.size() != 1)
      continue;
    for (ValueInfo &output : model.graph.outputs) {
      if (output.name != node.outputs[0])
        continue;
      output.isTensor = true;
      output.type = Float;
      output.hasShape = false;
      said.emplace(ClassesKey + std::string(output.name), labelsOf(node));
    }
    node.op = "Identity";
    node.domain = {};
    node.attributes.clear();
    model.opsets.emplace("", 1);
  }
}

void addUses(const Node &node, std::set<std::string_view> &used) {
  used.insert(node.inputs.begin(), node.inputs.end());
  for (const Attribute &attribute : node.attributes)
    eachGraph(attribute, [&](const Graph &graph) {
      for (const ValueInfo &output : graph.outputs)
        used.insert(output.name);
      for (const Node &inner : graph.nodes)
        addUses(inner, used);
    });
}

} // namespace

Metadata leaveOut(Model &model) {
  Metadata said;
  unzip(model, said);
  // Exporters state wrong shapes for them, at which ONNX Runtime doesn't look.
  if (model.opsets.count("ai.onnx.ml") != 0)
    for (ValueInfo &output : model.graph.outputs)
      output.hasShape = false;
  std::vector<ValueInfo> kept, left;
  for (ValueInfo &output : model.graph.outputs)
    (output.isTensor && elementType(output.type) ? kept : left).push_back(std::move(output));
  if (kept.empty() || left.empty()) {
    model.graph.outputs = std::move(kept.empty() ? left : kept);
    return said;
  }
  for (const ValueInfo &output : left)
    said.emplace(engine::LeftOutKey + std::string(output.name),
                 output.isTensor
                     ? "it has elements of the type " + name(output.type)
                     : "it is a sequence, a map or optional; only tensors are supported");
  model.graph.outputs = std::move(kept);
  std::set<std::string_view> used;
  for (const ValueInfo &output : model.graph.outputs)
    used.insert(output.name);
  std::vector<Node> nodes;
  for (size_t i = model.graph.nodes.size(); i-- > 0;) {
    Node &node = model.graph.nodes[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](std::string_view output) {
          return !output.empty() && used.count(output) != 0;
        }))
      continue;
    addUses(node, used);
    nodes.push_back(std::move(node));
  }
  std::reverse(nodes.begin(), nodes.end());
  model.graph.nodes = std::move(nodes);
  return said;
}

} // namespace mlbridge::native::onnx
