// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of a TensorProto: raw, in typed fields, or in a file beside the model.
#include "engine/native/onnx/model.h"

#include "core/message.h"
#include "engine/file.h"
#include "engine/onnx_format.h"
#include "engine/wire.h"

#include <cstring>

namespace mlbridge::native::onnx {
namespace {

using Message = engine::WireMessage;

constexpr uint64_t ExternalLimit = uint64_t(1) << 33;
constexpr uint64_t ElementLimit = uint64_t(1) << 33; // bytes

constexpr const char *Names[] = {
    "UNDEFINED",      "FLOAT",    "UINT8",        "INT8",           "UINT16",
    "INT16",          "INT32",    "INT64",        "STRING",         "BOOL",
    "FLOAT16",        "DOUBLE",   "UINT32",       "UINT64",         "COMPLEX64",
    "COMPLEX128",     "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2",
    "FLOAT8E5M2FNUZ", "UINT4",    "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0",
    "UINT2",          "INT2"};

/// The typed field that holds elements of a type.
enum Field : uint32_t { Floats = 4, Int32s = 5, Int64s = 7, Doubles = 10, UInt64s = 11 };

Field fieldOf(ElementType type) {
  switch (type) {
  case ElementType::Float32:
    return Floats;
  case ElementType::Float64:
    return Doubles;
  case ElementType::Int64:
    return Int64s;
  case ElementType::UInt32:
  case ElementType::UInt64:
    return UInt64s;
  default:
    return Int32s;
  }
}

/// Writes elements one after the other, and counts those that came too many.
class Elements {
public:
  Elements(uint8_t *to, size_t size, size_t width) : to_(to), left_(size), width_(width) {}
  void add(uint64_t bits) {
    if (left_ < width_) {
      tooMany_ = true;
      return;
    }
    std::memcpy(to_, &bits, width_); // little endian, as everything here
    to_ += width_;
    left_ -= width_;
  }
  bool areComplete() const { return left_ == 0 && !tooMany_; }

private:
  uint8_t *to_;
  size_t left_, width_;
  bool tooMany_ = false;
};

bool readTyped(const Tensor &tensor, ElementType type, Elements out) {
  const Field field = fieldOf(type);
  const size_t fixed = field == Floats ? 4 : field == Doubles ? 8 : 0;
  for (Message m(tensor.message); m.next();) {
    if (m.number != static_cast<uint32_t>(field))
      continue;
    if (m.type != Message::Bytes) {
      out.add(m.value);
      continue;
    }
    std::string_view rest = m.payload;
    if (fixed && rest.size() % fixed)
      return false;
    while (!rest.empty()) {
      uint64_t bits = 0;
      if (fixed) {
        std::memcpy(&bits, rest.data(), fixed);
        rest.remove_prefix(fixed);
      } else if (!Message::takeVarint(rest, bits)) {
        return false;
      }
      out.add(bits);
    }
  }
  return out.areComplete();
}

/// A bool is 0 or 1 in memory, whatever the file has.
void normalize(ElementType type, Buffer &bytes) {
  if (type == ElementType::Bool)
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes.data()[i] = bytes.data()[i] != 0;
}

} // namespace

std::optional<ElementType> elementType(DataType type) {
  constexpr DataType OnnxBFloat16{16};
  if (type == OnnxBFloat16)
    return BFloat16;
  const std::optional<ElementType> known = engine::fromOnnx(static_cast<int32_t>(type));
  return known == ElementType::String ? std::nullopt : known;
}

std::string name(DataType type) {
  const auto index = static_cast<size_t>(type);
  return index < std::size(Names) ? Names[index]
                                  : "type " + std::to_string(static_cast<int32_t>(type));
}

Expected<std::string_view> ExternalFiles::get(const Place &place, uint64_t size) {
  const std::string where = "the external file '" + std::string(place.location) + "'";
  if (folder_.empty())
    return Status(Code::Unsupported, "the model keeps weights in " + where +
                                         ", but was opened from memory; save it as one file");
  if (!engine::staysInFolder(place.location))
    return Status(Code::InvalidModel, where + " is not in the model's own folder");
  if (place.length && *place.length != size)
    return makeError(Code::InvalidModel, "its part of ", where, " has ", *place.length,
                     " bytes instead of ", size);
  auto file = files_.find(place.location);
  if (file == files_.end()) {
    Expected<Buffer> bytes =
        engine::readFile(std::string(folder_).append(place.location), ExternalLimit, deadline_);
    if (!bytes) // a folder, say, is no fault of the caller
      return bytes.status().code() == Code::InvalidArgument
                 ? Status(Code::InvalidModel, bytes.status().message())
                 : bytes.status();
    size_ += bytes->size();
    file = files_.emplace(std::string(place.location), std::move(*bytes)).first;
  }
  const Buffer &bytes = file->second;
  if (place.offset > bytes.size() || size > bytes.size() - place.offset)
    return makeError(Code::InvalidModel, where, " has ", bytes.size(),
                     " bytes, but the weights need ", size, " bytes from offset ", place.offset);
  return engine::textOf(bytes.span()).substr(place.offset, size);
}

/// The place of a tensor's elements, and how many bytes they are.
static Expected<std::pair<Place, size_t>> locate(const Tensor &tensor, ExternalFiles &files) {
  const std::string who = "the weights " + quoted(tensor.name) + " ";
  const std::optional<ElementType> type = elementType(tensor.type);
  if (!type)
    return Status(Code::Unsupported, who + "have elements of the type " + name(tensor.type));
  const std::optional<size_t> count = elementCount(tensor.shape);
  if (!count || *count > ElementLimit / sizeOf(*type))
    return Status(Code::InvalidModel, who + "have the shape " + toString(tensor.shape) +
                                          ", which is invalid or too large");
  const size_t size = *count * sizeOf(*type);
  Place place = placeOf(tensor);
  if (place.isExternal) {
    if (!place.isReadable)
      return makeError(Code::InvalidModel, who,
                       "have an offset or length in the external file that is not a valid number");
    Expected<std::string_view> external = files.get(place, size);
    if (!external)
      return external.status().withContext(who);
    place.raw = *external;
  }
  return std::pair<Place, size_t>(place, size);
}

Status readExternal(const Tensor &tensor, ExternalFiles &files) {
  return placeOf(tensor).isExternal ? locate(tensor, files).status() : Status();
}

Expected<Buffer> readElements(const Tensor &tensor, ExternalFiles &files) {
  const Expected<std::pair<Place, size_t>> located = locate(tensor, files);
  if (!located)
    return located.status();
  const auto &[place, size] = *located;
  const std::string who = "the weights " + quoted(tensor.name) + " ";
  const ElementType type = *elementType(tensor.type);
  Buffer elements;
  if (place.isExternal || place.hasRaw) {
    const std::string_view bytes = place.raw;
    if (bytes.size() != size)
      return makeError(Code::InvalidModel, who, "have ", bytes.size(), " bytes instead of the ",
                       size, " of ", mlbridge::name(type), toString(tensor.shape));
    if (Status s = elements.append(bytes.data(), bytes.size()); !s)
      return s;
  } else {
    // A number in a typed field takes at least one byte of the file.
    if (size / sizeOf(type) > tensor.message.size())
      return Status(Code::InvalidModel,
                    who + "have fewer elements than their shape " + toString(tensor.shape));
    if (Status s = elements.resize(size); !s)
      return s;
    if (!readTyped(tensor, type, {elements.data(), size, sizeOf(type)}))
      return Status(Code::InvalidModel,
                    who + "do not have as many elements as their shape " + toString(tensor.shape));
  }
  normalize(type, elements);
  if (Status s = elements.reserve(1); !s) // never without an address
    return s;
  return elements;
}

} // namespace mlbridge::native::onnx
