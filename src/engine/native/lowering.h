// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interface for operators: the node with its inputs, of known type and shape, and the calls
// that say which kernels compute its outputs.
#ifndef MLBRIDGE_ENGINE_NATIVE_LOWERING_H
#define MLBRIDGE_ENGINE_NATIVE_LOWERING_H

#include "core/message.h"
#include "engine/native/onnx/model.h"
#include "engine/native/plan.h"

#include <initializer_list>

namespace mlbridge::native {

class Planner;
struct Value;
using Values = std::vector<Value *>;

/// A tensor of the network while it is planned. Owned by the planner; addresses are stable.
struct Value {
  uint32_t id = 0;
  ElementType type = ElementType::Float32;
  Shape shape;
  size_t count = 0;
  Place place = Place::Workspace;
  uint32_t index = 0;                        ///< of an input or output
  Value *root = this;                        ///< whose bytes these are
  uint64_t offset = 0;                       ///< into them
  size_t capacity = 0;                       ///< bytes of a root
  SharedBytes constant;                      ///< of a root
  const void *settled = nullptr;             ///< what the value is in this plan
  const onnx::Tensor *initializer = nullptr; ///< where a constant root comes from
  int producer = -1;                         ///< the last step that wrote it
  /// What a result of DequantizeLinear was made of; null for others.
  Value *quantized = nullptr, *scale = nullptr, *zero = nullptr;
  int64_t scaledAxis = 0; ///< of a scale with more than one element
  uint32_t uses = 0;      ///< by nodes and as an output of the graph; 0 for an inner value
  /// Nobody knows its type and shape before values are settled; see Planner::settle.
  bool isUnknown = false;

  size_t rank() const { return shape.size(); }
  bool isConstant() const { return root->constant != nullptr; }
  const uint8_t *constantBytes() const { return root->constant->data() + offset; }
};

/// Converts the elements of a value, which lie at `bytes`, as the kernel Cast does.
void convert(const Value &value, const uint8_t *bytes, ElementType type, void *out);

/// The result of invalid() and unsupported(): the failure, or false where a bool tells.
struct Refused {
  const Status &status;
  operator Status() const { return status; }
  operator bool() const { return false; }
};

/// The node at hand. What fails is remembered and makes the whole plan fail, so that most calls
/// need no check: values can still be made and steps emitted, to no effect.
class Lowering {
public:
  Lowering(Planner &planner, const onnx::Node &node) : planner(planner), node(node) {}

  Planner &planner;
  const onnx::Node &node;
  Values inputs;
  Values results;

  /// Null if it was left out.
  Value *in(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  /// True if output i has a name, by which somebody may read it.
  bool wants(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  void setResult(size_t i, Value *value);
  /// Makes a value the node's only result.
  Status give(Value *value) {
    setResult(0, value);
    return status();
  }

  // Attributes. One of another type than asked for is a failure.
  const onnx::Attribute *attribute(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t fallback);
  double real(std::string_view name, double fallback);
  std::string_view text(std::string_view name, std::string_view fallback);
  const Integers *integers(std::string_view name);
  // Lists; empty without the attribute.
  const Integers &list(std::string_view name);
  const std::vector<float> &reals(std::string_view name);
  const std::vector<std::string_view> &texts(std::string_view name);
  /// Null without it, or on failure.
  Value *tensor(std::string_view name);
  /// A tensor's elements; nothing without it. `isDouble` becomes true if it is float64. False on
  /// failure.
  bool readNumbers(std::string_view name, std::vector<double> &out, bool *isDouble);

  // Failures.
  const Status &status() const;
  template <typename... Parts> Refused invalid(const Parts &...why) {
    return fail(makeError(Code::InvalidModel, why...));
  }
  template <typename... Parts> Refused unsupported(const Parts &...why) {
    return fail(makeError(Code::Unsupported, why...));
  }

  /// From −rank … rank − 1 to 0 … rank − 1.
  bool axis(int64_t &axis, size_t rank);
  bool axes(Integers &axes, size_t rank);
  /// The shape that all can be broadcast to.
  bool broadcast(const std::vector<const Value *> &values, Shape &out);

  /// Numbers that are input i or, in older versions, an attribute. False without them unless they
  /// are optional, and on failure.
  bool read(size_t i, std::string_view attribute, Integers &out, bool isOptional = false);
  /// The value of an int32 or int64 tensor on which shapes depend.
  bool read(Value *value, Integers &out);
  /// Reads one such number.
  bool read(Value *value, int64_t &out);
  /// Reads one number of any type.
  bool read(Value *value, double &out);

  /// A new tensor in the workspace.
  Value *make(ElementType type, const Shape &shape);
  Value *make(ElementType type, std::initializer_list<int64_t> shape);
  /// A new tensor that is output i of the node.
  Value *output(size_t i, ElementType type, const Shape &shape);
  /// The same elements in another shape of as many; `offset` bytes into them.
  Value *view(Value *value, const Shape &shape, uint64_t offset = 0);
  Value *view(Value *value, std::initializer_list<int64_t> shape, uint64_t offset = 0);
  Value *constant(ElementType type, const Shape &shape, const void *elements);
  template <typename T> Value *constantOf(const Shape &shape, const std::vector<T> &elements) {
    return constant(ElementTypeOf<T>::value, shape, elements.data());
  }
  Value *constantReal(ElementType type, double value);
  /// An int64 that a kernel sets to 1 when it meets bad data.
  Value *fault();

  /// Operands are results, then what is read. Null operands are allowed.
  const Status &emit(KernelId kernel, const Values &results, const Values &reads,
                     const Integers &parameters);
  /// The same: lists in braces make less code than vectors that the caller makes of them.
  const Status &emit(KernelId kernel, std::initializer_list<Value *> results,
                     std::initializer_list<Value *> reads,
                     std::initializer_list<int64_t> parameters);

private:
  Refused fail(const Status &why);
};

/// Makes float32 of a half, or rounds float32 to it.
inline KernelId halfKernel(ElementType half, bool widens) {
  if (half == BFloat16)
    return widens ? KernelId::F32FromBF16 : KernelId::BF16FromF32;
  return widens ? KernelId::F32FromF16 : KernelId::F16FromF32;
}
/// The float32 kernel of a pair, or the float64 one.
inline KernelId pick(KernelId float32, ElementType type) {
  return type == ElementType::Float64 ? static_cast<KernelId>(static_cast<int>(float32) + 1)
                                      : float32;
}
inline bool isFloat(ElementType type) {
  return type == ElementType::Float32 || type == ElementType::Float64;
}
inline int64_t product(const Shape &shape, size_t from, size_t to) {
  int64_t count = 1;
  for (size_t i = from; i < to; ++i)
    count *= shape[i];
  return count;
}

} // namespace mlbridge::native

#endif
