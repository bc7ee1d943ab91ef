// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Given a model in memory, ONNX Runtime would look for external data in the current folder of the
// process, whatever that is, and map what it finds. So the names are read from the model here, and
// the files handed over as bytes.
#include "model.h"

#include "engine/onnx_fields.h"
#include "engine/wire.h"

#include <algorithm>
#include <string_view>

namespace mlbridge::onnx {
namespace {

using Message = engine::WireMessage;

namespace field = engine::field;

constexpr int DeepestGraph = 64;

class Walk {
public:
  Status model(std::string_view bytes) {
    for (Message m(bytes); status_.ok() && m.next();) {
      if (m.number == field::ModelGraph)
        graph(m.payload, true, 0);
      else if (m.number == field::ModelFunctions)
        function(m.payload);
    }
    return status_;
  }
  ExternalFiles files;

private:
  void graph(std::string_view bytes, bool main, int depth) {
    if (depth > DeepestGraph) {
      status_ =
          makeError(Code::InvalidModel, "graphs are nested more than ", DeepestGraph, " deep");
      return;
    }
    for (Message m(bytes); status_.ok() && m.next();) {
      if (m.number == field::GraphNode)
        node(m.payload, depth);
      else if (m.number == field::GraphInitializer)
        tensor(m.payload, main);
      else if (m.number == field::GraphSparseInitializer)
        sparse(m.payload);
    }
  }
  void function(std::string_view bytes) {
    for (Message m(bytes); status_.ok() && m.next();) {
      if (m.number == field::FunctionNode)
        node(m.payload, 0);
      else if (m.number == field::FunctionAttribute)
        attribute(m.payload, 0);
    }
  }
  void node(std::string_view bytes, int depth) {
    for (Message m(bytes); status_.ok() && m.next();)
      if (m.number == field::NodeAttribute)
        attribute(m.payload, depth);
  }
  void attribute(std::string_view bytes, int depth) {
    for (Message m(bytes); status_.ok() && m.next();) {
      if (m.number == field::AttributeTensor || m.number == field::AttributeTensors)
        tensor(m.payload, false);
      else if (m.number == field::AttributeGraph || m.number == field::AttributeGraphs)
        graph(m.payload, false, depth + 1);
      else if (m.number == field::AttributeSparse || m.number == field::AttributeSparses)
        sparse(m.payload);
    }
  }
  void sparse(std::string_view bytes) {
    for (Message m(bytes); status_.ok() && m.next();)
      if (m.number == field::SparseValues || m.number == field::SparseIndices)
        tensor(m.payload, false);
  }

  void tensor(std::string_view bytes, bool supported) {
    std::string_view name;
    engine::ExternalPlace place;
    bool external = false;
    for (Message m(bytes); m.next();) {
      if (m.number == field::TensorName)
        name = m.payload;
      else if (m.number == field::TensorLocation)
        external = m.value == 1;
      else if (m.number == field::TensorExternal)
        place.add(m.payload);
    }
    if (!external)
      return;
    const std::string location(place.location);
    const uint64_t length = place.length.value_or(0);
    const std::string who = std::string("the weights '")
                                .append(name)
                                .append("' lie in the external file '" + location + "'");
    if (!supported)
      status_ = makeError(Code::Unsupported, who,
                          ", which is supported for the initializers of the main graph only; "
                          "save the model as one file");
    else if (!engine::staysInFolder(location))
      status_ = makeError(Code::InvalidModel, who, ", which is not in the model's own folder");
    else if (!place.isReadable || place.offset + length < length)
      status_ = makeError(Code::InvalidModel, who,
                          ", at an offset or with a length that is not a valid number");
    else
      files[location] = std::max(files[location], place.offset + length);
  }

  Status status_;
};

} // namespace

Expected<ExternalFiles> externalFiles(Span<const uint8_t> model) {
  Walk walk;
  if (Status s = walk.model({reinterpret_cast<const char *>(model.data()), model.size()}); !s)
    return s;
  return std::move(walk.files);
}

} // namespace mlbridge::onnx
