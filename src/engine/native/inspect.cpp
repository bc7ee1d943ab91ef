// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tools ask of a file. Apart from what a compiler needs, which is not to carry it along.
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/native/nodes.h"
#include "engine/native/registry.h"

#include <algorithm>
#include <map>

namespace mlbridge::native {

Expected<Inspection> inspect(const std::string &path) {
  const Limits limits = toolLimits();
  Expected<Buffer> file = engine::readFile(path, ModelLimit, limits.deadline);
  if (!file)
    return file.status();
  Expected<onnx::Model> model = onnx::readModel(textOf(*file), limits.deadline);
  if (!model)
    return model.status().withContext(path);
  Inspection report;
  std::map<std::string, Inspection::Use> uses;
  const auto count = [&](const onnx::Opsets &opsets) {
    return [&](const onnx::Node &node) {
      const auto version = opsets.find(node.domain);
      const std::string name =
          (node.domain.empty() ? "" : std::string(node.domain) + ".") + std::string(node.op);
      Inspection::Use &use = uses[name];
      use.op = name;
      ++use.nodes;
      use.isSupported =
          model->function(node.domain, node.op) ||
          (version != opsets.end() && findOperator(node.domain, node.op, version->second));
    };
  };
  eachNode(model->graph.nodes, count(model->opsets));
  for (const onnx::Function &function : model->functions)
    eachNode(function.nodes, count(function.opsets));
  for (auto &[name, use] : uses)
    report.operators.push_back(std::move(use));
  for (const onnx::Tensor &tensor : model->graph.initializers) {
    const uint64_t elements = elementCount(tensor.shape).value_or(0);
    const std::optional<ElementType> type = onnx::elementType(tensor.type);
    report.parameters += elements;
    report.parameterBytes += elements * (type ? sizeOf(*type) : 0);
  }
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
  Expected<std::shared_ptr<const Plan>> planned = (*network)->plan(shapes, limits.deadline);
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
