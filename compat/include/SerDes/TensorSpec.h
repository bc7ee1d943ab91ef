// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TensorSpec of the 2024 release: name, port, type and shape of a tensor of a bitstream. Neither
// its macros nor its include guard are LLVM's.
#ifndef MLBRIDGE_COMPAT_TENSORSPEC_H
#define MLBRIDGE_COMPAT_TENSORSPEC_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace MLBridge {

enum class TensorType {
  Invalid,
  Float,
  Double,
  Int8,
  UInt8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  Total
};

class TensorSpec final {
public:
  template <typename T>
  static TensorSpec createSpec(const std::string &Name, const std::vector<int64_t> &Shape,
                               int Port = DefaultPort) {
    return TensorSpec(Name, Port, getDataType<T>(), sizeof(T), Shape);
  }
  TensorSpec(const std::string &NewName, const TensorSpec &Other)
      : TensorSpec(NewName, Other.Port, Other.Type, Other.ElementSize, Other.Shape) {}

  const std::string &name() const { return Name; }
  int port() const { return Port; }
  TensorType type() const { return Type; }
  const std::vector<int64_t> &shape() const { return Shape; }
  void setShape(const std::vector<int64_t> &NewShape) {
    Shape = NewShape;
    count();
  }
  bool operator==(const TensorSpec &Other) const {
    return Name == Other.Name && Port == Other.Port && Type == Other.Type && Shape == Other.Shape;
  }
  bool operator!=(const TensorSpec &Other) const { return !(*this == Other); }
  size_t getElementCount() const { return ElementCount; }
  size_t getElementByteSize() const { return ElementSize; }
  size_t getTotalTensorBufferSize() const { return ElementCount * ElementSize; }
  template <typename T> bool isElementType() const { return getDataType<T>() == Type; }

  /// Not in the release: {"name":…,"type":…,"port":…,"shape":[…]}, as it stands in a bitstream.
  std::string toJSON() const;

private:
  static constexpr int DefaultPort = 6020;

  TensorSpec(const std::string &Name, int Port, TensorType Type, size_t ElementSize,
             const std::vector<int64_t> &Shape)
      : Name(Name), Port(Port), Type(Type), Shape(Shape), ElementSize(ElementSize) {
    count();
  }
  void count() {
    ElementCount = 1;
    for (const int64_t Length : Shape)
      ElementCount *= static_cast<size_t>(Length < 0 ? 0 : Length);
  }
  template <typename T> static constexpr TensorType getDataType() {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "no element type of a tensor");
    if (std::is_floating_point_v<T>)
      return sizeof(T) == 4 ? TensorType::Float : TensorType::Double;
    // For each size a signed type, and then the unsigned one.
    constexpr int Size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return static_cast<TensorType>(static_cast<int>(TensorType::Int8) + 2 * Size +
                                   std::is_unsigned_v<T>);
  }

  std::string Name;
  int Port = 0;
  TensorType Type = TensorType::Invalid;
  std::vector<int64_t> Shape;
  size_t ElementCount = 0;
  size_t ElementSize = 0;
};

/// The elements of a buffer, for a person to read: "1,2,3".
std::string tensorValueToString(const char *Buffer, const TensorSpec &Spec);

} // namespace MLBridge

#endif
