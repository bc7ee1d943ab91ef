// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes small ONNX models for tests: just enough of protobuf's encoding.
#ifndef MLBRIDGE_ENGINE_NATIVE_TEST_MODELS_H
#define MLBRIDGE_ENGINE_NATIVE_TEST_MODELS_H

#include <mlbridge/tensor.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mlbridge::native {

/// A message being written.
class Message {
public:
  Message() = default;
  explicit Message(std::string begin) : text(std::move(begin)) {}
  Message &number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message &bytes(int field, const std::string &value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    text += value;
    return *this;
  }
  Message &real(int field, float value) {
    varint(static_cast<uint64_t>(field) << 3 | 5);
    text.append(reinterpret_cast<const char *>(&value), 4);
    return *this;
  }
  std::string text;

private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      text += static_cast<char>(value | 0x80);
    text += static_cast<char>(value);
  }
};

// TensorProto.DataType
constexpr int FloatType = 1, Int64Type = 7, BoolType = 9;

inline std::string tensorOf(int type, const std::string &name, const Shape &shape,
                            const std::string &raw) {
  Message m;
  for (const int64_t length : shape)
    m.number(1, length);
  return m.number(2, type).bytes(8, name).bytes(9, raw).text;
}
inline std::string floats(const std::string &name, const Shape &shape,
                          const std::vector<float> &values) {
  return tensorOf(FloatType, name, shape,
                  {reinterpret_cast<const char *>(values.data()), values.size() * 4});
}
inline std::string ints(const std::string &name, const Shape &shape,
                        const std::vector<int64_t> &values) {
  return tensorOf(Int64Type, name, shape,
                  {reinterpret_cast<const char *>(values.data()), values.size() * 8});
}

/// An input or output; -1 is a length that changes.
inline std::string info(const std::string &name, int type, const Shape &shape) {
  Message dimensions, tensor, outer;
  for (const int64_t length : shape)
    dimensions.bytes(1,
                     length < 0 ? Message().bytes(2, "N").text : Message().number(1, length).text);
  tensor.number(1, type).bytes(2, dimensions.text);
  outer.bytes(1, tensor.text);
  return Message().bytes(1, name).bytes(2, outer.text).text;
}

inline std::string integer(const std::string &name, int64_t value) {
  return Message().bytes(1, name).number(3, value).number(20, 2).text;
}
inline std::string graphAttribute(const std::string &name, const std::string &graph) {
  return Message().bytes(1, name).bytes(6, graph).number(20, 5).text;
}

inline std::string node(const std::string &op, const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs,
                        const std::vector<std::string> &attributes = {},
                        const std::string &name = "") {
  Message m;
  for (const std::string &input : inputs)
    m.bytes(1, input);
  for (const std::string &output : outputs)
    m.bytes(2, output);
  if (!name.empty())
    m.bytes(3, name);
  m.bytes(4, op);
  for (const std::string &attribute : attributes)
    m.bytes(5, attribute);
  return m.text;
}

struct Graph {
  std::vector<std::string> nodes, inputs, outputs, initializers;
  std::string write() const {
    Message m;
    for (const std::string &n : nodes)
      m.bytes(1, n);
    m.bytes(2, "graph");
    for (const std::string &t : initializers)
      m.bytes(5, t);
    for (const std::string &i : inputs)
      m.bytes(11, i);
    for (const std::string &o : outputs)
      m.bytes(12, o);
    return m.text;
  }
};

inline std::string modelOf(const Graph &graph, int64_t opset = 17) {
  Message m;
  m.number(1, 8).bytes(7, graph.write());
  m.bytes(8, Message().bytes(1, "").number(2, opset).text);
  m.bytes(14, Message().bytes(1, "note").bytes(2, "hello").text);
  return m.text;
}

/// A file of its own for as long as this object lives.
class ModelFile {
public:
  explicit ModelFile(const std::string &bytes) {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "mlbridge-native-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(path(), std::ios::binary) << bytes;
  }
  explicit ModelFile(const Graph &graph) : ModelFile(modelOf(graph)) {}
  ModelFile(const ModelFile &) = delete;
  ModelFile &operator=(const ModelFile &) = delete;
  ~ModelFile() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/model.onnx"; }
  std::string uri() const { return "native:" + path(); }

private:
  std::string folder_;
};

/// 2 inputs, 3 of a hidden layer with Relu, 1 output: MatMul, Add, Relu, Gemm.
inline Graph smallNetwork() {
  Graph g;
  g.inputs = {info("x", FloatType, {1, 2})};
  g.outputs = {info("y", FloatType, {1, 1})};
  g.initializers = {floats("w1", {2, 3}, {1, 2, -1, 0.5F, -3, 4}), floats("b1", {3}, {0.5F, 1, -2}),
                    floats("w2", {1, 3}, {2, -1, 0.25F}), floats("b2", {1}, {10})};
  g.nodes = {node("MatMul", {"x", "w1"}, {"a"}), node("Add", {"a", "b1"}, {"b"}),
             node("Relu", {"b"}, {"h"}),
             node("Gemm", {"h", "w2", "b2"}, {"y"}, {integer("transB", 1)}, "last")};
  return g;
}

} // namespace mlbridge::native

#endif
