// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the tests and the fuzzer of serdes: a sink of tensors, comparison by bits, and random
// specs and values from a seed.
#ifndef MLBRIDGE_TESTING_TENSORS_H
#define MLBRIDGE_TESTING_TENSORS_H

#include "serdes/serdes.h"

#include <cstring>
#include <random>

namespace mlbridge::testing {

inline constexpr ElementType AllTypes[] = {
    ElementType::Int8,    ElementType::Int16,   ElementType::Int32,   ElementType::Int64,
    ElementType::UInt8,   ElementType::UInt16,  ElementType::UInt32,  ElementType::UInt64,
    ElementType::Float16, ElementType::Float32, ElementType::Float64, ElementType::Bool,
    ElementType::String};

/// Makes a tensor for each that is read, and counts what a message made it allocate.
class Tensors : public TensorSink {
public:
  explicit Tensors(Span<const TensorSpec> specs) : specs_(specs.begin(), specs.end()) {
    tensors.resize(specs_.size());
    prepared.resize(specs_.size());
  }
  Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) override {
    Expected<Tensor> result = Tensor::make(specs_[index], shape);
    if (!result)
      return result.status();
    tensors[index] = std::move(*result);
    ++prepared[index];
    largest = std::max(largest, tensors[index].count());
    return tensors[index].view();
  }

  std::vector<Tensor> tensors;
  std::vector<int> prepared;
  size_t largest = 0;

private:
  std::vector<TensorSpec> specs_;
};

inline std::vector<TensorView> viewsOf(std::vector<Tensor> &tensors) {
  std::vector<TensorView> views;
  for (Tensor &t : tensors)
    views.push_back(t.view());
  return views;
}

/// Same type, shape and bits.
inline bool same(Tensor &a, Tensor &b) {
  TensorView x = a.view(), y = b.view();
  if (x.type != y.type || x.count != y.count ||
      !std::equal(x.shape.begin(), x.shape.end(), y.shape.begin(), y.shape.end()))
    return false;
  if (x.type != ElementType::String)
    return x.bytes() == 0 || std::memcmp(x.data, y.data, x.bytes()) == 0;
  auto s = x.as<std::string>(), t = y.as<std::string>();
  return std::equal(s.begin(), s.end(), t.begin(), t.end());
}

/// A decode of bytes that do not lie in a Buffer yet.
inline Status decode(const Codec &codec, std::string_view bytes, TensorSink &sink,
                     uint8_t after = 0xaa) {
  Buffer message;
  if (Status s = message.append(bytes.data(), bytes.size()); !s)
    return s;
  if (Status s = message.reserve(bytes.size() + 1); !s)
    return s;
  std::memset(message.data() + bytes.size(), after, Buffer::Padding);
  return codec.decode(message.span(), sink);
}

inline std::string textOf(const Buffer &buffer) {
  return {reinterpret_cast<const char *>(buffer.data()), buffer.size()};
}

using Random = std::mt19937_64;

/// A number below `end`.
inline uint64_t below(Random &random, uint64_t end) { return random() % end; }

/// UTF-8 with some of what needs escaping.
inline std::string randomText(Random &random) {
  static const std::string_view pieces[] = {"a",
                                            "Z",
                                            " ",
                                            "\"",
                                            "\\",
                                            "/",
                                            "\n",
                                            "\t",
                                            "\x01",
                                            "\x7f",
                                            "\xc3\xa9",
                                            "\xe2\x82\xac",
                                            "\xf0\x9f\x98\x80",
                                            std::string_view("\0", 1),
                                            "\r",
                                            "\b"};
  std::string text;
  for (uint64_t n = below(random, 12); n > 0; --n)
    text += pieces[below(random, std::size(pieces))];
  return text;
}

inline std::vector<TensorSpec> randomSpecs(Random &random) {
  std::vector<TensorSpec> specs(below(random, 6));
  for (size_t i = 0; i < specs.size(); ++i) {
    TensorSpec &spec = specs[i];
    spec.name = randomText(random) + std::to_string(i);
    spec.type = AllTypes[below(random, std::size(AllTypes))];
    bool limited = below(random, 2);
    for (uint64_t rank = below(random, 4); rank > 0; --rank) {
      bool dynamic = below(random, 3) == 0;
      spec.shape.push_back(dynamic ? Dynamic : static_cast<int64_t>(below(random, 5)));
      if (limited)
        spec.maximum.push_back(dynamic ? 4 : 0);
    }
  }
  return specs;
}

/// Any bits, often those of an extreme.
inline Tensor randomTensor(Random &random, const TensorSpec &spec) {
  Shape shape = spec.shape;
  for (int64_t &length : shape)
    if (length == Dynamic)
      length = static_cast<int64_t>(below(random, 5));
  Expected<Tensor> result = Tensor::make(spec, shape);
  if (!result)
    return {};
  Tensor tensor = std::move(*result);
  TensorView view = tensor.view();
  if (spec.type == ElementType::String) {
    for (std::string &s : view.as<std::string>())
      s = randomText(random);
    return tensor;
  }
  auto *bytes = static_cast<uint8_t *>(view.data);
  const size_t size = sizeOf(spec.type);
  for (size_t k = 0; k < view.count; ++k) {
    uint64_t bits = random();
    switch (below(random, 6)) {
    case 0:
      bits = 0;
      break;
    case 1:
      bits = ~uint64_t(0);
      break;
    case 2:
      bits = uint64_t(1) << (8 * size - 1);
      break;
    case 3:
      bits = (uint64_t(1) << (8 * size - 1)) - 1;
      break;
    default:
      break;
    }
    if (spec.type == ElementType::Bool)
      bits &= 1;
    std::memcpy(bytes + k * size, &bits, size);
  }
  return tensor;
}

} // namespace mlbridge::testing

#endif
