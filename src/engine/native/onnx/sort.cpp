// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNX demands that nodes come after those whose results they use, but some who put graphs together
// from pieces leave them as they are, and ONNX Runtime takes them: they are sorted here.
#include "core/message.h"
#include "engine/native/onnx/model.h"
#include "engine/onnx_format.h"

#include <unordered_map>

namespace mlbridge::native::onnx {
namespace {

// The planner's type, so that the library doesn't have the code twice.
using Names = std::unordered_map<std::string_view, uint32_t>;

/// A graph, with those around it.
struct Scope {
  const Scope *outer = nullptr;
  Names producers; ///< GivenBefore, or the node's number

  bool sees(std::string_view name) const {
    for (const Scope *s = this; s; s = s->outer)
      if (s->producers.count(name))
        return true;
    return false;
  }
};
constexpr uint32_t GivenBefore = UINT32_MAX;

class Sorter {
public:
  explicit Sorter(const Deadline &deadline) : deadline_(deadline) {}

  Status graph(Graph &graph, const Scope *outer, Names &free) {
    Scope scope{outer, {}};
    for (const ValueInfo &input : graph.inputs)
      scope.producers.emplace(input.name, GivenBefore);
    for (const Tensor &tensor : graph.initializers)
      scope.producers.emplace(tensor.name, GivenBefore);
    if (Status s = nodes(graph.nodes, scope, free); !s)
      return s;
    // A graph may give out a value from around it.
    for (const ValueInfo &output : graph.outputs)
      if (!scope.producers.count(output.name))
        free.emplace(output.name, 0);
    return Status();
  }

  /// `free`: gets the names that are used, and not made, here.
  Status nodes(std::vector<Node> &nodes, Scope &scope, Names &free) {
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const std::string_view output : nodes[i].outputs)
        if (!output.empty())
          scope.producers.emplace(output, static_cast<uint32_t>(i));
    bool isSorted = true;
    Needs needs;
    needs.first.push_back(0);
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i % 256 == 0 && deadline_.hasPassed())
        return makeError(Code::DeadlineExceeded, "the deadline passed while it was read");
      const auto use = [&](std::string_view name) {
        const auto producer = scope.producers.find(name);
        if (producer == scope.producers.end()) {
          free.emplace(name, 0);
        } else if (producer->second != GivenBefore &&
                   (producer->second < i || !scope.outer || !scope.outer->sees(name))) {
          needs.nodes.push_back(producer->second);
          isSorted = isSorted && producer->second < i;
        }
      };
      for (const std::string_view input : nodes[i].inputs)
        if (!input.empty())
          use(input);
      for (Attribute &attribute : nodes[i].attributes) {
        if (!attribute.graph)
          continue;
        Names inner;
        if (Status s = graph(*attribute.graph, &scope, inner); !s)
          return s;
        for (const auto &[name, unused] : inner)
          use(name);
      }
      needs.first.push_back(needs.nodes.size());
    }
    return isSorted ? Status() : reorder(nodes, needs);
  }

private:
  /// The nodes that node i needs: from nodes[first[i]] to nodes[first[i + 1]].
  struct Needs {
    std::vector<size_t> nodes, first;
  };

  /// Depth first: a node comes right after the last one that it needs, if it isn't there already.
  static Status reorder(std::vector<Node> &nodes, const Needs &needs) {
    enum class State : uint8_t { New, Begun, Done };
    std::vector<State> states(nodes.size());
    std::vector<Node> sorted;
    sorted.reserve(nodes.size());
    std::vector<std::pair<size_t, size_t>> path; // nodes, and which of their needs is next
    for (size_t first = 0; first < nodes.size(); ++first) {
      if (states[first] == State::New)
        path.emplace_back(first, needs.first[first]);
      while (!path.empty()) {
        auto &[node, next] = path.back();
        states[node] = State::Begun;
        if (next == needs.first[node + 1]) {
          states[node] = State::Done;
          sorted.push_back(std::move(nodes[node]));
          path.pop_back();
          continue;
        }
        const size_t need = needs.nodes[next++];
        if (states[need] == State::Begun)
          return makeError(Code::InvalidModel, describe(nodes[node]),
                           need == node ? ": it needs its own result"
                                        : ": it needs what is made from its own result by " +
                                              describe(nodes[need]),
                           "; the nodes of a graph can't form a cycle");
        if (states[need] == State::New)
          path.emplace_back(need, needs.first[need]);
      }
    }
    nodes = std::move(sorted);
    return Status();
  }

  const Deadline deadline_;
};

} // namespace

Metadata metadataOf(const Model &model) {
  Metadata metadata;
  if (const std::vector<std::string> defaults = defaultsOf(model); !defaults.empty())
    metadata.emplace(engine::DefaultsKey, engine::defaultsText(defaults));
  for (const auto &[key, value] : model.metadata)
    metadata.emplace(std::string(key), std::string(value));
  const std::pair<const char *, std::string_view> fields[] = {
      {"onnx.producer", model.producer},
      {"onnx.graph", model.graph.name},
      {"onnx.domain", model.domain},
      {"onnx.description", model.description}};
  for (const auto &[key, value] : fields)
    if (!value.empty())
      metadata.emplace(key, std::string(value));
  return metadata;
}

std::string quoted(std::string_view text) {
  constexpr size_t Most = 200;
  return "'" + std::string(text.substr(0, Most)) + (text.size() > Most ? "...'" : "'");
}

std::string describe(const Node &node) {
  std::string text(node.op.substr(0, 100));
  if (!node.name.empty())
    return text + " " + quoted(node.name);
  for (const std::string_view output : node.outputs)
    if (!output.empty())
      return text + " that makes " + quoted(output);
  return text;
}

Status sortNodes(Model &model, const Deadline &deadline) {
  Sorter sorter(deadline);
  Names free;
  if (Status s = sorter.graph(model.graph, nullptr, free); !s)
    return s;
  for (Function &function : model.functions) {
    Scope scope;
    for (const std::string_view input : function.inputs)
      scope.producers.emplace(input, GivenBefore);
    free.clear();
    if (Status s = sorter.nodes(function.nodes, scope, free); !s)
      return s;
  }
  return Status();
}

} // namespace mlbridge::native::onnx
