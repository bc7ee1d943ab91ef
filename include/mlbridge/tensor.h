// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs and outputs of models: element types, tensor specifications, signatures, and
// owning and borrowed tensors.
#ifndef MLBRIDGE_TENSOR_H
#define MLBRIDGE_TENSOR_H

#include <mlbridge/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mlbridge {

/// The numbers are fixed: they are used on the wire and in the component table.
enum class ElementType : uint8_t {
  Int8 = 1,     ///< 1 byte
  Int16 = 2,    ///< 2 bytes
  Int32 = 3,    ///< 4 bytes
  Int64 = 4,    ///< 8 bytes
  UInt8 = 5,    ///< 1 byte, unsigned
  UInt16 = 6,   ///< 2 bytes, unsigned
  UInt32 = 7,   ///< 4 bytes, unsigned
  UInt64 = 8,   ///< 8 bytes, unsigned
  Float16 = 9,  ///< IEEE 754 binary16, in C++ a Half
  Float32 = 10, ///< IEEE 754 binary32
  Float64 = 11, ///< IEEE 754 binary64
  Bool = 12,    ///< one byte, 0 or 1
  String = 13,  ///< UTF-8 text of any length
};

/// The 16 bits of an IEEE 754 binary16 number.
struct Half {
  uint16_t bits = 0; ///< sign, 5 bits of exponent, 10 of fraction
  friend bool operator==(Half a, Half b) { return a.bits == b.bits; }
  friend bool operator!=(Half a, Half b) { return a.bits != b.bits; }
};
float toFloat(Half half); ///< exact
/// Rounds to nearest, ties to even; overflow gives an infinity; a NaN keeps its upper payload bits.
Half toHalf(float value);

/// "float32", "int64", "string", …; "invalid" for a number outside the enumeration.
const char *name(ElementType type);
/// The type of this name; the inverse of `name`. Errors: InvalidArgument.
Expected<ElementType> elementTypeNamed(std::string_view name);
/// True if it is one of the enumeration; numbers come from files and peers.
bool isValid(ElementType type);
size_t sizeOf(ElementType type); ///< bytes of one element; 0 for String

/// The element type of a C++ type: `ElementTypeOf<float>::value` is ElementType::Float32.
template <typename T> struct ElementTypeOf;
/// The base of its specializations.
template <ElementType Type> using ElementTypeConstant = std::integral_constant<ElementType, Type>;
template <> struct ElementTypeOf<int8_t> : ElementTypeConstant<ElementType::Int8> {};
template <> struct ElementTypeOf<int16_t> : ElementTypeConstant<ElementType::Int16> {};
template <> struct ElementTypeOf<int32_t> : ElementTypeConstant<ElementType::Int32> {};
template <> struct ElementTypeOf<int64_t> : ElementTypeConstant<ElementType::Int64> {};
template <> struct ElementTypeOf<uint8_t> : ElementTypeConstant<ElementType::UInt8> {};
template <> struct ElementTypeOf<uint16_t> : ElementTypeConstant<ElementType::UInt16> {};
template <> struct ElementTypeOf<uint32_t> : ElementTypeConstant<ElementType::UInt32> {};
template <> struct ElementTypeOf<uint64_t> : ElementTypeConstant<ElementType::UInt64> {};
template <> struct ElementTypeOf<Half> : ElementTypeConstant<ElementType::Float16> {};
template <> struct ElementTypeOf<float> : ElementTypeConstant<ElementType::Float32> {};
template <> struct ElementTypeOf<double> : ElementTypeConstant<ElementType::Float64> {};
template <> struct ElementTypeOf<bool> : ElementTypeConstant<ElementType::Bool> {};
template <> struct ElementTypeOf<std::string> : ElementTypeConstant<ElementType::String> {};
// `long` and `long long` are different types of the same width; both are accepted.
static_assert(sizeof(long) == 8 && std::is_same_v<int64_t, long>, "LP64 only");
template <> struct ElementTypeOf<long long> : ElementTypeConstant<ElementType::Int64> {};
template <> struct ElementTypeOf<unsigned long long> : ElementTypeConstant<ElementType::UInt64> {};

/// A borrowed run of elements. (C++17 has no std::span.)
template <typename T> class Span {
public:
  /// Empty.
  constexpr Span() = default;
  /// `size` elements at `data`.
  constexpr Span(T *data, size_t size) : data_(data), size_(size) {}
  /// An array.
  template <size_t N> constexpr Span(T (&array)[N]) : data_(array), size_(N) {}
  /// From anything with data() and size(): std::vector, std::array, llvm::ArrayRef, another Span.
  template <
      typename C, typename D = decltype(std::declval<C &>().data()),
      typename = std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<D> (*)[], T (*)[]>>,
      typename = decltype(std::declval<C &>().size())>
  constexpr Span(C &&container) : data_(container.data()), size_(container.size()) {}

  /// The first element; may be null if there is none.
  constexpr T *data() const { return data_; }
  /// The number of elements, and whether there is none.
  constexpr size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  /// For range-based loops: the first element, and past the last one.
  constexpr T *begin() const { return data_; }
  constexpr T *end() const { return data_ + size_; }
  /// Requires i < size().
  constexpr T &operator[](size_t i) const { return data_[i]; }

private:
  T *data_ = nullptr;
  size_t size_ = 0;
};

/// The length of each dimension; empty for a scalar.
using Shape = std::vector<int64_t>;
/// A dimension whose length changes from call to call.
inline constexpr int64_t Dynamic = -1;

/// One named input or output. An empty shape is a scalar. Elements are stored row-major.
struct TensorSpec {
  std::string name;                        ///< unique among the inputs, or the outputs
  ElementType type = ElementType::Float32; ///< of each element
  Shape shape;                             ///< lengths; some may be Dynamic
  /// Empty, or one entry per dimension: the largest length a Dynamic dimension may take, 0 where
  /// none is declared.
  Shape maximum;

  /// With the element type of T.
  template <typename T>
  static TensorSpec of(std::string name, Shape shape = {}, Shape maximum = {}) {
    return {std::move(name), ElementTypeOf<T>::value, std::move(shape), std::move(maximum)};
  }

  bool isDynamic() const; ///< whether a dimension is
  /// The number of elements; nothing if a dimension is Dynamic or the product overflows.
  std::optional<size_t> count() const;
  /// Name not empty, type valid, dimensions >= -1, `maximum` consistent.
  Status check() const;
  /// "embedding: float32[300]", "nodes: float32[?<=600, 100]", "step: int64".
  std::string toString() const;
  friend bool operator==(const TensorSpec &a, const TensorSpec &b);
  friend bool operator!=(const TensorSpec &a, const TensorSpec &b) { return !(a == b); }
};

/// True if a value of this shape may be used for the spec: same rank, equal lengths, Dynamic ones
/// within their maximum. The message names the tensor.
Status checkShape(const TensorSpec &spec, Span<const int64_t> shape);
/// The product of the dimensions; nothing if one is negative or the product overflows.
std::optional<size_t> elementCount(Span<const int64_t> shape);
std::string toString(Span<const int64_t> shape); ///< "[2, 3]"; a Dynamic length is "?"

/// The ordered inputs and outputs of a model, stated once and respected by both sides.
struct Signature {
  std::vector<TensorSpec> inputs;  ///< what the model is given
  std::vector<TensorSpec> outputs; ///< what it answers

  /// Each spec is valid, of at most 32 dimensions, and the names on a side differ.
  Status check() const;
  /// "(embedding: float32[300], step: int64) -> (action: int64)".
  std::string toString() const;
  /// The index, or -1.
  int findInput(std::string_view name) const;
  int findOutput(std::string_view name) const;
  friend bool operator==(const Signature &a, const Signature &b) {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  }
  friend bool operator!=(const Signature &a, const Signature &b) { return !(a == b); }
};

/// One of several agents: what it observes (the inputs) and decides (the outputs).
struct AgentSpec {
  std::string name;    ///< unique among the agents
  Signature signature; ///< the inputs are the observation, the outputs the action
  friend bool operator==(const AgentSpec &a, const AgentSpec &b) {
    return a.name == b.name && a.signature == b.signature;
  }
  friend bool operator!=(const AgentSpec &a, const AgentSpec &b) { return !(a == b); }
};

/// Each has a name of its own and a signature that is valid.
Status checkAgents(Span<const AgentSpec> agents);
/// The index, or -1.
int findAgent(Span<const AgentSpec> agents, std::string_view name);

/// A borrowed tensor: numbers are `count` elements of the type at `data`; for String, `data` is an
/// array of std::string. Valid as long as its owner says.
struct TensorView {
  ElementType type = ElementType::Float32; ///< of each element
  void *data = nullptr;                    ///< the first element
  size_t count = 0;                        ///< number of elements
  Span<const int64_t> shape;               ///< current lengths, none Dynamic

  /// The size of the numbers; 0 for String.
  size_t bytes() const { return count * sizeOf(type); }
  /// Empty if T is not the element type.
  template <typename T> Span<T> as() const {
    if (ElementTypeOf<T>::value != type)
      return {};
    return {static_cast<T *>(data), count};
  }
};

/// An owning tensor of fixed shape. Numbers are zero, strings empty at first; storage is aligned to
/// 64 bytes.
class Tensor {
public:
  /// No elements, no name.
  Tensor() = default;
  /// A spec that is Dynamic or too large to allocate gives an empty tensor; use `make` to get the
  /// error.
  explicit Tensor(TensorSpec spec);
  /// With these lengths in the place of Dynamic ones. Errors: InvalidArgument (checkShape),
  /// LimitExceeded (too large).
  static Expected<Tensor> make(TensorSpec spec, Span<const int64_t> shape);
  /// With these elements; those that `values` does not have are zero.
  template <typename T> static Tensor of(std::string name, Shape shape, Span<const T> values) {
    Tensor t(TensorSpec::of<T>(std::move(name), std::move(shape)));
    auto to = t.as<T>();
    for (size_t i = 0; i < to.size() && i < values.size(); ++i)
      to[i] = values[i];
    return t;
  }

  /// With the current lengths as shape.
  const TensorSpec &spec() const { return spec_; }
  size_t count() const { return count_; } ///< the number of elements
  TensorView view();                      ///< valid until the tensor is reshaped or destroyed
  /// The elements, as valid as view(); empty if T is not the element type.
  template <typename T> Span<T> as() { return view().as<T>(); }
  template <typename T> Span<const T> as() const {
    auto s = const_cast<Tensor *>(this)->view().as<T>();
    return {s.data(), s.size()};
  }
  /// Changes the lengths of Dynamic dimensions of `spec` (the declared one, which may be Dynamic).
  /// Contents are lost. Allocates only when it grows.
  Status reshape(const TensorSpec &declared, Span<const int64_t> shape);

private:
  struct Chunk {
    alignas(64) unsigned char bytes[64];
  };
  TensorSpec spec_; // shape is the current one, never Dynamic
  size_t count_ = 0;
  std::vector<Chunk> numbers_;
  std::vector<std::string> strings_;
};

} // namespace mlbridge

#endif
