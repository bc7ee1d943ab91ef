// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Field by field through a ModelProto. The file is hostile: every length is held against what is
// left of its message, nesting is bounded, and memory grows with the bytes that are there.
#include "engine/native/kernels/kernel.h"
#include "engine/native/onnx/model.h"

#include "engine/wire.h"

#include <cstring>

namespace mlbridge::native::onnx {
namespace {

using Message = engine::WireMessage;

constexpr int DeepestGraph = 32;
constexpr size_t MostParts = size_t(1) << 19;

float asFloat(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, sizeof value);
  return value;
}

class Reader {
public:
  Reader(std::string_view file, const Deadline &deadline) : file_(file), deadline_(deadline) {}

  Status model(Model &out) {
    bool hasGraph = false;
    for (Message m(file_); next(m, "the model");) {
      switch (m.number) {
      case 1:
        out.irVersion = static_cast<int64_t>(m.value);
        break;
      case 2:
        out.producer = m.payload;
        break;
      case 4:
        out.domain = m.payload;
        break;
      case 6:
        out.description = m.payload;
        break;
      case 7:
        if (hasGraph)
          return damaged(m.payload, "the model has a second graph");
        hasGraph = true;
        graph(m.payload, out.graph, 0);
        break;
      case 8:
        opset(m.payload, out.opsets);
        break;
      case 14:
        property(m.payload, out.metadata);
        break;
      case 25:
        out.functions.emplace_back();
        function(m.payload, out.functions.back());
        out.functionsByName.emplace(
            std::make_pair(out.functions.back().domain, out.functions.back().name),
            out.functions.size() - 1);
        break;
      default:
        break;
      }
    }
    if (!status_)
      return status_;
    if (!hasGraph)
      return {Code::InvalidModel, "it is no ONNX model: there is no graph in it"};
    if (out.opsets.empty())
      return {Code::InvalidModel, "the model says no version of ONNX's operators (opset_import)"};
    return Status();
  }

private:
  /// The next field, unless something is wrong already or here.
  bool next(Message &m, const char *what) {
    // What was made takes time as well to be given back.
    constexpr Duration ForPart = std::chrono::nanoseconds(128);
    if (++fields_ % 1024 == 0 && status_ &&
        deadline_.left() <= ForPart * static_cast<int64_t>(parts_))
      status_ = {Code::DeadlineExceeded, "the deadline passed while it was read"};
    if (!status_)
      return false;
    if (m.next())
      return true;
    if (!m.isWhole())
      status_ = {Code::InvalidModel, std::string(what) +
                                         " is damaged: expected a field of protobuf, and its "
                                         "length or type doesn't fit what is left of it"};
    return false;
  }
  /// Memory grows faster with parts than with bytes.
  void countPart() {
    if (++parts_ > MostParts && status_)
      status_ = {Code::LimitExceeded, "the model has more than " + std::to_string(MostParts) +
                                          " nodes, attributes and tensors"};
  }
  const Status &damaged(std::string_view at, const std::string &why) {
    if (status_)
      status_ = {Code::InvalidModel, why + " at byte " + std::to_string(at.data() - file_.data())};
    return status_;
  }

  void opset(std::string_view bytes, Opsets &out) {
    std::string_view domain;
    int64_t version = 0;
    for (Message m(bytes); next(m, "an operator set");) {
      if (m.number == 1)
        domain = m.payload;
      else if (m.number == 2)
        version = static_cast<int64_t>(m.value);
    }
    if (domain == "ai.onnx")
      domain = {};
    out[domain] = version;
  }

  void property(std::string_view bytes,
                std::vector<std::pair<std::string_view, std::string_view>> &out) {
    std::pair<std::string_view, std::string_view> entry;
    for (Message m(bytes); next(m, "a metadata property");) {
      if (m.number == 1)
        entry.first = m.payload;
      else if (m.number == 2)
        entry.second = m.payload;
    }
    out.push_back(entry);
  }

  void graph(std::string_view bytes, Graph &out, int depth) {
    if (depth > DeepestGraph) {
      status_ = {Code::Unsupported,
                 "graphs are nested more than " + std::to_string(DeepestGraph) + " deep"};
      return;
    }
    for (Message m(bytes); next(m, "a graph");) {
      switch (m.number) {
      case 1:
        if (depth == 0 && out.nodes.size() == MostNodes && status_)
          status_ = tooManyNodes();
        out.nodes.emplace_back();
        node(m.payload, out.nodes.back(), depth);
        break;
      case 2:
        out.name = m.payload;
        break;
      case 5:
        out.initializers.emplace_back();
        tensor(m.payload, out.initializers.back());
        break;
      case 11:
        out.inputs.emplace_back();
        valueInfo(m.payload, out.inputs.back());
        break;
      case 12:
        out.outputs.emplace_back();
        valueInfo(m.payload, out.outputs.back());
        break;
      case 13: {
        ValueInfo between;
        valueInfo(m.payload, between);
        break;
      }
      case 15:
        status_ = {Code::Unsupported, "the model has sparse weights"};
        break;
      default:
        break;
      }
    }
  }

  void function(std::string_view bytes, Function &out) {
    countPart();
    for (Message m(bytes); next(m, "a function");) {
      switch (m.number) {
      case 1:
        out.name = m.payload;
        break;
      case 4:
        out.inputs.push_back(m.payload);
        break;
      case 5:
        out.outputs.push_back(m.payload);
        break;
      case 7:
        out.nodes.emplace_back();
        node(m.payload, out.nodes.back(), 0);
        break;
      case 9:
        opset(m.payload, out.opsets);
        break;
      case 10:
        out.domain = m.payload == "ai.onnx" ? std::string_view() : m.payload;
        break;
      case 11:
        out.defaults.emplace_back();
        attribute(m.payload, out.defaults.back(), 0);
        if (!out.defaults.back().reference.empty())
          damaged(m.payload, "the default of a function's attribute is a reference");
        break;
      default:
        break;
      }
    }
  }

  void node(std::string_view bytes, Node &out, int depth) {
    countPart();
    for (Message m(bytes); next(m, "a node");) {
      switch (m.number) {
      case 1:
        out.inputs.push_back(m.payload);
        break;
      case 2:
        out.outputs.push_back(m.payload);
        break;
      case 3:
        out.name = m.payload;
        break;
      case 4:
        out.op = m.payload;
        break;
      case 5:
        out.attributes.emplace_back();
        attribute(m.payload, out.attributes.back(), depth);
        break;
      case 7:
        out.domain = m.payload == "ai.onnx" ? std::string_view() : m.payload;
        break;
      default:
        break;
      }
    }
    if (status_ && out.op.empty())
      damaged(bytes, "a node names no operator");
  }

  void attribute(std::string_view bytes, Attribute &out, int depth) {
    countPart();
    for (Message m(bytes); next(m, "an attribute");) {
      switch (m.number) {
      case 1:
        out.name = m.payload;
        break;
      case 2:
        out.real = asFloat(m.value);
        break;
      case 3:
        out.integer = static_cast<int64_t>(m.value);
        break;
      case 4:
        out.text = m.payload;
        break;
      case 5:
        out.tensor = std::make_unique<Tensor>();
        tensor(m.payload, *out.tensor);
        break;
      case 6: {
        auto inner = std::make_shared<Graph>();
        graph(m.payload, *inner, depth + 1);
        out.graph = std::move(inner);
        break;
      }
      case 7:
        reals(m, out.reals);
        break;
      case 8:
        integers(m, out.integers);
        break;
      case 9:
        out.texts.push_back(m.payload);
        break;
      case 20:
        out.type = static_cast<int>(m.value);
        break;
      case 21:
        out.reference = m.payload;
        break;
      default:
        break;
      }
    }
  }

  void reals(const Message &m, std::vector<float> &out) {
    if (m.type == Message::Fixed32) {
      out.push_back(asFloat(m.value));
      return;
    }
    if (m.payload.size() % 4)
      damaged(m.payload, "a list of floats ends within a float");
    for (size_t i = 0; i + 4 <= m.payload.size(); i += 4) {
      float value;
      std::memcpy(&value, m.payload.data() + i, 4);
      out.push_back(value);
    }
  }

  void integers(const Message &m, std::vector<int64_t> &out) {
    if (m.type == Message::Varint) {
      out.push_back(static_cast<int64_t>(m.value));
      return;
    }
    std::string_view rest = m.payload;
    while (!rest.empty()) {
      uint64_t value = 0;
      if (!Message::takeVarint(rest, value)) {
        damaged(m.payload, "a list of integers ends within one");
        return;
      }
      out.push_back(static_cast<int64_t>(value));
    }
  }

  void tensor(std::string_view bytes, Tensor &out) {
    countPart();
    out.message = bytes;
    for (Message m(bytes); next(m, "a tensor");) {
      if (m.number == 1)
        integers(m, out.shape);
      else if (m.number == 2)
        out.type = static_cast<DataType>(m.value);
      else if (m.number == 8)
        out.name = m.payload;
    }
    check(out.shape, out.name);
  }

  void check(const Shape &shape, std::string_view name) {
    if (status_)
      status_ = checkDimensions(shape.size()).withContext("'" + std::string(name) + "'");
  }

  void valueInfo(std::string_view bytes, ValueInfo &out) {
    countPart();
    for (Message m(bytes); next(m, "an input or output");) {
      if (m.number == 1)
        out.name = m.payload;
      else if (m.number == 2)
        type(m.payload, out);
    }
    check(out.shape, out.name);
  }

  void type(std::string_view bytes, ValueInfo &out) {
    for (Message m(bytes); next(m, "a type");) {
      if (m.number != 1)
        continue;
      out.isTensor = true;
      for (Message t(m.payload); next(t, "a tensor type");) {
        if (t.number == 1) {
          out.type = static_cast<DataType>(t.value);
        } else if (t.number == 2) {
          out.hasShape = true;
          for (Message s(t.payload); next(s, "a shape");)
            if (s.number == 1)
              dimension(s.payload, out);
        }
      }
    }
  }

  void dimension(std::string_view bytes, ValueInfo &out) {
    int64_t value = Dynamic;
    std::string_view name;
    for (Message m(bytes); next(m, "a dimension");)
      if (m.number == 1)
        value = static_cast<int64_t>(m.value);
      else if (m.number == 2)
        name = m.payload;
    out.shape.push_back(value < 0 ? Dynamic : value);
    out.dimensions.push_back(name);
  }

  std::string_view file_;
  Deadline deadline_;
  size_t fields_ = 0, parts_ = 0;
  Status status_;
};

} // namespace

Status tooManyNodes() {
  return {Code::LimitExceeded, "the network takes more than " + std::to_string(MostNodes) +
                                   " nodes, those of functions and loops included"};
}

Status checkDimensions(size_t count) {
  if (count <= size_t{MostDimensions})
    return Status();
  return {Code::Unsupported, "a tensor of " + std::to_string(count) + " dimensions; at most " +
                                 std::to_string(MostDimensions) + " are supported"};
}

Expected<Model> readModel(std::string_view bytes, const Deadline &deadline) {
  Model model;
  if (Status s = Reader(bytes, deadline).model(model); !s)
    return s;
  return model;
}

} // namespace mlbridge::native::onnx
