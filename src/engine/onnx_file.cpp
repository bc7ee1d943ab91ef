// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a ModelProto field by field. The file is hostile: every length is held against what is
// left of its message, nesting is bounded, and memory grows with the bytes that are there.
#include "engine/onnx_file.h"

#include "core/message.h"
#include "engine/wire.h"

#include <charconv>
#include <cstring>
#include <set>

namespace mlbridge::engine::onnx {
namespace {

using Message = WireMessage;

constexpr int DeepestGraph = 32, DeepestScanned = 64;
constexpr size_t MostParts = size_t(1) << 19;

float asFloat(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, sizeof value);
  return value;
}

/// A field of a message, by number, and its destination, whose type chooses the `read`. Each of a
/// vector's elements is a field of its own.
template <typename T> struct Field {
  uint32_t number;
  T &to;
};
template <typename T> Field(uint32_t, T &) -> Field<T>;

class Reader {
public:
  /// `isScan`: of scanModel.
  Reader(std::string_view file, const Deadline &deadline, bool isScan)
      : file_(file), deadline_(deadline), isScan_(isScan) {}

  Status model(Model &out) {
    fields(file_, "the model", Field{1, out.irVersion}, Field{2, out.producer},
           Field{4, out.domain}, Field{6, out.description}, Field{7, out.graph},
           Field{8, out.opsets}, Field{14, out.metadata}, Field{25, out.functions});
    if (!status_ || isScan_)
      return status_;
    if (!hasGraph_)
      return makeError(Code::InvalidModel, "it is not an ONNX model: it has no graph");
    if (out.opsets.empty())
      return makeError(Code::InvalidModel, "the model states no opset version (opset_import)");
    for (size_t i = 0; i < out.functions.size(); ++i) {
      const Function &function = out.functions[i];
      if (!out.functionsByName.try_emplace({function.domain, function.name, function.overload}, i)
               .second)
        return makeError(Code::InvalidModel, "the model has two functions '", nameOf(function),
                         "'; functions of one domain and name need different overloads");
    }
    return Status();
  }
  void node(Node &out) { fieldsOf(file_, out); }

private:
  /// The number of a field that only scans read; no field has the number 0.
  uint32_t scanned(uint32_t number) const { return isScan_ ? number : 0; }
  template <typename... T>
  void fields(std::string_view message, const char *name, const Field<T> &...known) {
    for (Message m(message); next(m, name);)
      (void)((m.number == known.number && (read(m, known.to), true)) || ...);
  }

  /// Counts a field. False if something is wrong already or the deadline has passed.
  bool mayGoOn() {
    // It takes time as well to give memory back.
    constexpr Duration ForPart = std::chrono::nanoseconds(128);
    if (++fields_ % 1024 == 0 && status_ &&
        deadline_.left() <= ForPart * static_cast<int64_t>(parts_))
      status_ = makeError(Code::DeadlineExceeded, "the deadline passed while it was read");
    return bool(status_);
  }
  /// The next field, unless something is wrong already or here.
  bool next(Message &m, const char *name) {
    if (!mayGoOn())
      return false;
    if (m.next())
      return true;
    if (!m.isWhole())
      status_ = makeError(Code::InvalidModel, name,
                          " is damaged: the type or length of a protobuf field "
                          "doesn't fit the bytes that are left");
    return false;
  }
  /// Memory grows faster with parts than with bytes.
  void countPart() {
    if (++parts_ > MostParts && status_ && !isScan_)
      status_ = makeError(Code::LimitExceeded, "the model has more than ", MostParts,
                          " nodes, attributes and tensors");
  }
  void damaged(std::string_view at, const std::string &why) {
    if (status_ && !isScan_)
      status_ = makeError(Code::InvalidModel, why, " at byte ", at.data() - file_.data());
  }

  void read(const Message &m, std::string_view &out) { out = m.payload; }
  void read(const Message &m, int64_t &out) { out = static_cast<int64_t>(m.value); }
  void read(const Message &m, int &out) { out = static_cast<int>(m.value); }
  void read(const Message &m, DataType &out) { out = static_cast<DataType>(m.value); }
  void read(const Message &m, float &out) { out = asFloat(m.value); }
  void read(const Message &, bool &isThere) { isThere = true; }

  template <typename T> void read(const Message &m, std::vector<T> &out) {
    out.emplace_back();
    read(m, out.back());
  }

  void read(const Message &m, std::vector<float> &out) {
    if (m.type == Message::Fixed32) {
      out.push_back(asFloat(m.value));
      return;
    }
    if (m.payload.size() % 4)
      return damaged(m.raw, "a list of floats ends within a float");
    if (m.payload.empty())
      return;
    const size_t before = out.size();
    out.resize(before + m.payload.size() / 4);
    std::memcpy(out.data() + before, m.payload.data(), m.payload.size());
  }

  void read(Message &m, std::vector<int64_t> &out) {
    if (m.type == Message::Varint) {
      out.push_back(static_cast<int64_t>(m.value));
      int64_t more[128];
      for (size_t count; mayGoOn() && (count = m.takeAlike(more)) > 0;)
        out.insert(out.end(), more, more + count);
      return;
    }
    std::string_view rest = m.payload;
    while (!rest.empty()) {
      uint64_t value = 0;
      if (!Message::takeVarint(rest, value))
        return damaged(m.raw, "a list of integers ends within one");
      out.push_back(static_cast<int64_t>(value));
    }
  }

  void read(const Message &m, Opsets &out) {
    std::string_view domain;
    int64_t version = 0;
    fields(m.payload, "an operator set", Field{1, domain}, Field{2, version});
    out[own(domain)] = version;
  }

  void read(const Message &m, std::pair<std::string_view, std::string_view> &out) {
    fields(m.payload, "a metadata property", Field{1, out.first}, Field{2, out.second});
  }

  void read(const Message &m, Graph &out) {
    if (depth_ > (isScan_ ? DeepestScanned : DeepestGraph)) {
      status_ = makeError(Code::Unsupported, "graphs are nested more than ", DeepestGraph, " deep");
      return;
    }
    if (depth_ == 0 && hasGraph_ && !isScan_)
      return damaged(m.raw, "the model has a second graph");
    hasGraph_ |= depth_ == 0;
    Between between;
    bool hasSparse = false;
    SparseParts sparse{out.sparse};
    fields(m.payload, "a graph", Field{1, out.nodes}, Field{2, out.name},
           Field{5, out.initializers}, Field{11, out.inputs}, Field{12, out.outputs},
           Field{scanned(13), out.between}, Field{13, between}, Field{scanned(15), sparse},
           Field{15, hasSparse});
    if (status_ && hasSparse)
      status_ =
          makeError(Code::Unsupported, "the model has sparse weights; save it with dense ones");
  }

  void read(const Message &m, Function &out) {
    countPart();
    fields(m.payload, "a function", Field{1, out.name}, Field{4, out.inputs}, Field{5, out.outputs},
           Field{7, out.nodes}, Field{9, out.opsets}, Field{10, out.domain},
           Field{11, out.defaults}, Field{13, out.overload});
    out.domain = own(out.domain);
    for (const Attribute &attribute : out.defaults)
      if (!attribute.reference.empty())
        damaged(m.raw, "the default of a function's attribute is a reference");
  }

  void read(const Message &m, Node &out) {
    countPart();
    fieldsOf(m.payload, out);
    if (status_ && out.op.empty())
      damaged(m.raw, "a node names no operator");
  }

  void fieldsOf(std::string_view message, Node &out) {
    fields(message, "a node", Field{1, out.inputs}, Field{2, out.outputs}, Field{3, out.name},
           Field{4, out.op}, Field{5, out.attributes}, Field{7, out.domain},
           Field{8, out.overload});
    out.domain = own(out.domain);
  }

  void read(const Message &m, Attribute &out) {
    countPart();
    SparseParts sparse{out.tensors};
    fields(m.payload, "an attribute", Field{1, out.name}, Field{2, out.real}, Field{3, out.integer},
           Field{4, out.text}, Field{5, out.tensor}, Field{6, out.graph}, Field{7, out.reals},
           Field{8, out.integers}, Field{9, out.texts}, Field{20, out.type},
           Field{21, out.reference}, Field{scanned(10), out.tensors},
           Field{scanned(11), out.graphs}, Field{scanned(22), sparse}, Field{scanned(23), sparse});
  }
  /// The values and indices of sparse weights.
  struct SparseParts {
    std::vector<Tensor> &tensors;
  };
  void read(const Message &m, SparseParts &out) {
    fields(m.payload, "sparse weights", Field{1, out.tensors}, Field{2, out.tensors});
  }
  void read(const Message &m, std::unique_ptr<Tensor> &out) {
    out = std::make_unique<Tensor>();
    read(m, *out);
  }
  void read(const Message &m, std::shared_ptr<Graph> &out) {
    auto graph = std::make_shared<Graph>();
    ++depth_;
    read(m, *graph);
    --depth_;
    out = std::move(graph);
  }

  void read(const Message &m, Tensor &out) {
    countPart();
    out.message = m.payload;
    fields(m.payload, "a tensor", Field{1, out.shape}, Field{2, out.type}, Field{8, out.name});
    check(out.shape, out.name);
  }

  void check(const Shape &shape, std::string_view name) {
    if (status_ && !isScan_)
      status_ = checkDimensions(shape.size()).withContext(join("'", name, "'"));
  }

  void read(const Message &m, ValueInfo &out) {
    countPart();
    Type type{out};
    fields(m.payload, "an input or output", Field{1, out.name}, Field{2, type});
    check(out.shape, out.name);
  }
  /// A graph's value that is neither input nor output has to be readable.
  struct Between {};
  void read(const Message &m, Between &) {
    ValueInfo value;
    read(m, value);
  }
  struct Type {
    ValueInfo &value;
  };
  void read(const Message &field, Type &out) {
    for (Message m(field.payload); next(m, "a type");) {
      if (m.number != 1)
        continue;
      out.value.isTensor = true;
      for (Message t(m.payload); next(t, "a tensor type");) {
        if (t.number == 1)
          read(t, out.value.type);
        if (t.number != 2)
          continue;
        out.value.hasShape = true;
        for (Message s(t.payload); next(s, "a shape");)
          if (s.number == 1)
            dimension(s.payload, out.value);
      }
    }
  }
  void dimension(std::string_view bytes, ValueInfo &out) {
    int64_t value = Dynamic;
    std::string_view name;
    fields(bytes, "a dimension", Field{1, value}, Field{2, name});
    out.shape.push_back(value < 0 ? Dynamic : value);
    out.dimensions.push_back(name);
  }

  static std::string nameOf(const Function &function) {
    std::string name(function.domain);
    for (const std::string_view part : {function.name, function.overload})
      if (!part.empty())
        name.append(name.empty() ? "" : ".").append(part);
    return name;
  }
  /// ONNX's own domain has two names.
  static std::string_view own(std::string_view domain) {
    return domain == "ai.onnx" ? std::string_view() : domain;
  }

  std::string_view file_;
  const Deadline deadline_;
  const bool isScan_;
  size_t fields_ = 0, parts_ = 0;
  int depth_ = 0; ///< of the graph at hand; 0 is the model's
  bool hasGraph_ = false;
  Status status_;
};

} // namespace

Status checkDimensions(size_t count) {
  if (count <= MostDimensions)
    return Status();
  return makeError(Code::Unsupported, "a tensor of ", count, " dimensions; at most ",
                   MostDimensions, " are supported");
}

Expected<Model> readModel(Span<const uint8_t> bytes, const Deadline &deadline) {
  Model model;
  if (Status s = Reader(textOf(bytes), deadline, false).model(model); !s)
    return s;
  return model;
}

Model scanModel(Span<const uint8_t> bytes) {
  Model model;
  (void)Reader(textOf(bytes), {}, true).model(model);
  return model;
}

Node scanNode(std::string_view message) {
  Node node;
  Reader(message, {}, true).node(node);
  return node;
}

std::vector<std::string> defaultsOf(const Model &model) {
  std::set<std::string_view> weights;
  for (const std::vector<Tensor> *tensors : {&model.graph.initializers, &model.graph.sparse})
    for (const Tensor &tensor : *tensors)
      weights.insert(tensor.name);
  std::vector<std::string> defaults;
  for (const ValueInfo &input : model.graph.inputs)
    if (weights.count(input.name) != 0)
      defaults.emplace_back(input.name);
  return defaults;
}

static bool readDecimal(std::string_view text, uint64_t &out) {
  const char *begin = text.data(), *end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, out);
  return error == std::errc() && stop == end;
}

/// Takes an entry of TensorProto.external_data.
static void readEntry(std::string_view bytes, Place &place) {
  std::string_view key, value;
  for (Message entry(bytes); entry.next();) {
    if (entry.number == 1)
      key = entry.payload;
    else if (entry.number == 2)
      value = entry.payload;
  }
  if (key == "location")
    place.location = value;
  else if (key == "offset")
    place.isReadable &= readDecimal(value, place.offset);
  else if (key == "length")
    place.isReadable &= readDecimal(value, place.length.emplace());
}

Place placeOf(const Tensor &tensor) {
  Place place;
  for (Message m(tensor.message); m.next();) {
    if (m.number == 9) {
      place.hasRaw = true;
      place.raw = m.payload;
    } else if (m.number == 13) {
      readEntry(m.payload, place);
    } else if (m.number == 14) {
      place.isExternal = m.value == 1;
    }
  }
  return place;
}

} // namespace mlbridge::engine::onnx
