// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inspection of a file by tools: in a file of its own, since a compiler is not to carry it.
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/native/onnx/model.h"
#include "engine/native/registry.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace mlbridge::native {
namespace {

void addWeights(const onnx::Tensor &tensor, Inspection &report) {
  const uint64_t elements = elementCount(tensor.shape).value_or(0);
  const std::optional<ElementType> type = onnx::elementType(tensor.type);
  report.parameters += elements;
  report.parameterBytes += elements * (type ? sizeOf(*type) : 0);
  const onnx::Place place = onnx::placeOf(tensor);
  const std::string file(place.isExternal ? place.location : "");
  auto &files = report.externalFiles;
  if (!file.empty() && std::find(files.begin(), files.end(), file) == files.end())
    files.push_back(file);
}

std::string toString(const onnx::ValueInfo &value) {
  const std::optional<ElementType> type = onnx::elementType(value.type);
  std::string kind = type ? name(*type) : onnx::name(value.type);
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string text = std::string(value.name) + ": " + kind;
  if (!value.hasShape)
    return text + "[...]";
  return value.shape.empty() ? text : text + mlbridge::toString(value.shape);
}

/// Weights with a name of their own are no inputs.
std::string signatureOf(const onnx::Graph &graph) {
  const auto isWeight = [&](const onnx::ValueInfo &input) {
    return std::any_of(graph.initializers.begin(), graph.initializers.end(),
                       [&](const onnx::Tensor &weights) { return weights.name == input.name; });
  };
  std::string inputs, outputs;
  for (const onnx::ValueInfo &input : graph.inputs)
    if (!isWeight(input))
      inputs += (inputs.empty() ? "" : ", ") + toString(input);
  for (const onnx::ValueInfo &output : graph.outputs)
    outputs += (outputs.empty() ? "" : ", ") + toString(output);
  return "(" + inputs + ") -> (" + outputs + ")";
}

} // namespace

Expected<Inspection> inspect(const std::string &path) {
  const Limits limits = toolLimits();
  Expected<Buffer> file = engine::readModelFile(path, nullptr, onnx::ModelLimit, limits.deadline);
  if (!file)
    return file.status();
  Expected<onnx::Model> model = onnx::readModel(file->span(), limits.deadline);
  if (!model)
    return model.status().withContext(path);
  Inspection report;
  std::map<std::string, Inspection::Use> uses;
  onnx::eachNode(*model, [&](const onnx::Node &node, const onnx::Opsets &opsets) {
    const auto version = opsets.find(node.domain);
    const std::string name =
        (node.domain.empty() ? "" : std::string(node.domain) + "::") + std::string(node.op);
    Inspection::Use &use = uses[name];
    use.op = name;
    ++use.nodes;
    use.isSupported =
        model->function(node) || name == "ai.onnx.ml::ZipMap" || // whose input is given instead
        (version != opsets.end() && findOperator(node.domain, node.op, version->second));
  });
  for (auto &[name, use] : uses)
    report.operators.push_back(std::move(use));
  onnx::eachTensor(*model, [&](const onnx::Tensor &tensor) { addWeights(tensor, report); });
  for (const auto &[domain, version] : model->opsets)
    report.opsets[domain.empty() ? "ai.onnx" : std::string(domain)] = version;
  report.signature = signatureOf(model->graph);
  report.metadata = onnx::metadataOf(*model);
  Expected<std::shared_ptr<Network>> network = Network::open(path, limits);
  if (!network) {
    report.native = network.status();
    return report;
  }
  std::vector<Shape> shapes;
  for (const TensorSpec &spec : (*network)->signature().inputs) {
    shapes.push_back(spec.shape);
    std::replace(shapes.back().begin(), shapes.back().end(), Dynamic, int64_t(1));
  }
  Expected<SharedPlan> planned = (*network)->plan(shapes, limits.deadline);
  if (!planned && !(*network)->someShapes().empty())
    planned = (*network)->plan((*network)->someShapes(), limits.deadline);
  if (planned && (*planned)->decisions.empty()) {
    report.multiplyAdds = (*planned)->multiplyAdds;
    report.steps = (*planned)->steps.size();
    report.workspace = (*planned)->workspace;
  }
  return report;
}

Limits toolLimits() {
  Limits limits;
  limits.deadline = Deadline::after(std::chrono::minutes(1));
  return limits;
}

} // namespace mlbridge::native
