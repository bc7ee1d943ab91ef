// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mlbridge.v1.TensorList. No message type is registered with libprotobuf, of which the program may
// have a copy of its own; a generated class would also copy every tensor once more. The fields are
// written into and read from the message itself with libprotobuf's coded streams.
#include "core/bind.h"
#include "core/utf8.h"
#include "serdes/protobuf/codec.h"

#include <algorithm>
#include <cstring>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "contents are little-endian");

namespace mlbridge::protobuf {

namespace {

using google::protobuf::io::CodedOutputStream;

constexpr uint32_t tag(int number, WireFormatLite::WireType type) {
  return static_cast<uint32_t>(number) << 3 | static_cast<uint32_t>(type);
}
constexpr auto Varint = WireFormatLite::WIRETYPE_VARINT;
constexpr auto Bytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
/// Fields of TensorList and of Tensor. All are below 16, so that a tag is one byte.
constexpr uint32_t Tensors = tag(1, Bytes), Name = tag(1, Bytes), Type = tag(2, Varint),
                   Shape = tag(3, Bytes), Length = tag(3, Varint), Contents = tag(4, Bytes),
                   Strings = tag(5, Bytes);

size_t varintSize(uint64_t value) { return CodedOutputStream::VarintSize64(value); }
/// Tag, length and bytes.
size_t fieldSize(uint64_t bytes) { return 1 + varintSize(bytes) + bytes; }

uint8_t *writeLength(uint8_t *to, uint32_t tag, uint64_t bytes) {
  return CodedOutputStream::WriteVarint64ToArray(bytes,
                                                 CodedOutputStream::WriteTagToArray(tag, to));
}
uint8_t *writeField(uint8_t *to, uint32_t tag, const void *data, size_t bytes) {
  to = writeLength(to, tag, bytes);
  if (bytes)
    std::memcpy(to, data, bytes);
  return to + bytes;
}

size_t shapeBytes(Span<const int64_t> shape) {
  size_t bytes = 0;
  for (const int64_t length : shape)
    bytes += varintSize(static_cast<uint64_t>(length));
  return bytes;
}

/// The size of a Tensor with `payload` bytes of contents or strings, with tags and lengths.
uint64_t bodySize(const TensorSpec &spec, Span<const int64_t> shape, uint64_t payload) {
  return fieldSize(spec.name.size()) + 2 + (shape.empty() ? 0 : fieldSize(shapeBytes(shape))) +
         payload;
}

/// All that precedes the contents or strings.
uint8_t *writeHead(uint8_t *to, const TensorSpec &spec, Span<const int64_t> shape,
                   uint64_t payload) {
  to = writeLength(to, Tensors, bodySize(spec, shape, payload));
  to = writeField(to, Name, spec.name.data(), spec.name.size());
  *to++ = Type;
  *to++ = static_cast<uint8_t>(spec.type);
  if (shape.empty())
    return to;
  to = writeLength(to, Shape, shapeBytes(shape));
  for (const int64_t length : shape)
    to = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(length), to);
  return to;
}

uint64_t payloadSize(const TensorSpec &spec, const mlb_tensor &tensor) {
  if (spec.type != ElementType::String)
    return tensor.count ? fieldSize(tensor.count * sizeOf(spec.type)) : 0;
  uint64_t size = 0;
  for (uint64_t k = 0; k < tensor.count; ++k)
    size += fieldSize(static_cast<const mlb_string *>(tensor.data)[k].size);
  return size;
}

/// A tensor as it stands in a message.
struct WireTensor {
  std::string_view name;
  uint64_t type = 0;
  int64_t shape[MaxRank];
  size_t rank = 0;
  const uint8_t *contents = nullptr;
  size_t bytes = 0;
  size_t strings = 0;
};

struct Slot {
  TensorSpec spec;
  bool fixed = false;        ///< its size never changes
  std::vector<uint8_t> head; ///< of a fixed one, all that precedes its contents
  size_t bytes = 0;          ///< and those
};

class TensorListCodec final : public Codec {
public:
  Status make(Span<const mlb_tensor_spec> specs) {
    for (const mlb_tensor_spec &from : specs) {
      Expected<TensorSpec> spec = fromComponent(from);
      if (!spec)
        return spec.status();
      if (!isUtf8(spec->name))
        return Status(Code::Unsupported,
                      "the name of tensor " + quoted(spec->name) + " is not UTF-8");
      if (spec->shape.size() > MaxRank)
        return Status(Code::Unsupported, about(*spec) + " has more than 32 dimensions");
      Slot slot;
      slot.spec = std::move(*spec);
      slot.fixed = !slot.spec.isDynamic() && slot.spec.type != ElementType::String;
      if (slot.fixed) {
        const std::optional<size_t> count = slot.spec.count();
        if (!count || *count > MaxMessage / sizeOf(slot.spec.type))
          return Status(Code::Unsupported, about(slot.spec) + " is too large for protobuf");
        slot.bytes = *count * sizeOf(slot.spec.type);
        const uint64_t payload = slot.bytes ? fieldSize(slot.bytes) : 0;
        slot.head.resize(fieldSize(bodySize(slot.spec, slot.spec.shape, payload)) - slot.bytes);
        uint8_t *to = writeHead(slot.head.data(), slot.spec, slot.spec.shape, payload);
        if (slot.bytes)
          writeLength(to, Contents, slot.bytes);
      }
      slots_.push_back(std::move(slot));
    }
    return byName_.make(slots_);
  }
  mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const override {
    uint64_t total = 0;
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].spec.type == ElementType::Bool) {
        const auto *flags = static_cast<const uint8_t *>(tensors[i].data);
        if (const size_t k = findNoBool(flags, tensors[i].count); k != tensors[i].count)
          return fail(error, Code::InvalidArgument, noBool(slots_[i].spec, k, flags[k]));
      }
      const TensorSpec &spec = slots_[i].spec;
      total += slots_[i].fixed ? slots_[i].head.size() + slots_[i].bytes
                               : fieldSize(bodySize(spec, {tensors[i].shape, spec.shape.size()},
                                                    payloadSize(spec, tensors[i])));
    }
    if (mlb_code code = reserve(*out, total, error))
      return code;
    uint8_t *to = out->data + out->size;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const Slot &slot = slots_[i];
      const mlb_tensor &tensor = tensors[i];
      if (slot.fixed) {
        std::memcpy(to, slot.head.data(), slot.head.size());
        to += slot.head.size();
        if (slot.bytes)
          std::memcpy(to, tensor.data, slot.bytes);
        to += slot.bytes;
        continue;
      }
      to = writeHead(to, slot.spec, {tensor.shape, slot.spec.shape.size()},
                     payloadSize(slot.spec, tensor));
      if (slot.spec.type == ElementType::String) {
        const auto *strings = static_cast<const mlb_string *>(tensor.data);
        for (uint64_t k = 0; k < tensor.count; ++k)
          to = writeField(to, Strings, strings[k].data, strings[k].size);
      } else if (tensor.count) {
        to = writeField(to, Contents, tensor.data, tensor.count * sizeOf(slot.spec.type));
      }
    }
    out->size += total;
    return 0;
  }
  mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                  mlb_error *error) const override {
    const Status fits = checkSize(size);
    if (!fits)
      return fail(error, fits);
    const auto at = [](size_t offset) { return " at offset " + std::to_string(offset); };
    std::vector<uint8_t> seen(slots_.size());
    size_t next = 0;
    Reader in(data, size);
    while (true) {
      const auto offset = static_cast<size_t>(in.CurrentPosition());
      const uint32_t tag = in.ReadTag();
      if (!tag && in.ConsumedEntireMessage())
        break;
      if (tag != Tensors) {
        if (!in.skip(tag))
          return fail(error, Code::Protocol, "not a protobuf message", at(offset));
        continue;
      }
      const uint8_t *body = nullptr;
      size_t bytes = 0;
      if (!in.bytes(body, bytes))
        return fail(error, Code::Protocol, "the message ends within a tensor", at(offset));
      WireTensor tensor;
      if (Status s = read(body, bytes, tensor); !s)
        return fail(error, s.code(), s.message(), at(offset));
      const size_t index = byName_.find(slots_, tensor.name, next);
      if (index == slots_.size())
        return fail(error, Code::Protocol, "unknown tensor ", quoted(tensor.name), at(offset));
      if (seen[index])
        return fail(error, Code::Protocol, about(slots_[index].spec),
                    " occurs twice, the second time", at(offset));
      seen[index] = 1;
      if (mlb_code code = deliver(index, tensor, body, bytes, *sink, error))
        return code;
      next = index + 1;
    }
    for (size_t i = 0; i < slots_.size(); ++i)
      if (!seen[i])
        return fail(error, Code::Protocol, about(slots_[i].spec), " is missing");
    return 0;
  }

private:
  /// Reads a message as protobuf does: of a single field the last one counts, repeated ones add up,
  /// a field of another number or wire type is skipped.
  Status read(const uint8_t *data, size_t size, WireTensor &tensor) const {
    Status broken(Code::Protocol, "a tensor is not a protobuf message");
    const auto readLength = [&](Reader &from) {
      uint64_t number = 0;
      if (!from.ReadVarint64(&number))
        return broken;
      if (tensor.rank == MaxRank)
        return Status(Code::Protocol, "a tensor has more than 32 lengths");
      tensor.shape[tensor.rank++] = static_cast<int64_t>(number);
      return Status();
    };
    Reader in(data, size);
    while (const uint32_t tag = in.ReadTag()) {
      const uint8_t *bytes = nullptr;
      size_t length = 0;
      switch (tag) {
      case Name:
        if (!in.bytes(bytes, length))
          return broken;
        tensor.name = {reinterpret_cast<const char *>(bytes), length};
        break;
      case Type:
        if (!in.ReadVarint64(&tensor.type))
          return broken;
        break;
      case Length:
        if (Status s = readLength(in); !s)
          return s;
        break;
      case Shape: {
        if (!in.bytes(bytes, length))
          return broken;
        Reader lengths(bytes, length);
        while (static_cast<size_t>(lengths.CurrentPosition()) < length)
          if (Status s = readLength(lengths); !s)
            return s;
        break;
      }
      case Contents:
        if (!in.bytes(tensor.contents, tensor.bytes))
          return broken;
        break;
      case Strings:
        if (!in.bytes(bytes, length))
          return broken;
        ++tensor.strings;
        break;
      default:
        if (!in.skip(tag))
          return broken;
      }
    }
    return in.ConsumedEntireMessage() ? Status() : broken;
  }
  mlb_code deliver(size_t index, const WireTensor &tensor, const uint8_t *data, size_t size,
                   const mlb_tensor_sink &sink, mlb_error *error) const {
    const TensorSpec &spec = slots_[index].spec;
    const auto bad = [&](const auto &...what) {
      return fail(error, Code::Protocol, about(spec), what...);
    };
    if (tensor.type != static_cast<uint64_t>(spec.type)) {
      const bool known = tensor.type < 256 && isValid(static_cast<ElementType>(tensor.type));
      return bad(": expected ", name(spec.type), ", got ",
                 known ? name(static_cast<ElementType>(tensor.type))
                       : "element type " + std::to_string(tensor.type));
    }
    if (Status s = checkShape(spec, {tensor.shape, tensor.rank}); !s)
      return fail(error, Code::Protocol, s.message());
    const std::optional<size_t> count = elementCount({tensor.shape, tensor.rank});
    if (!count || *count > MaxMessage)
      return bad(" has more elements than any message: its shape is ",
                 toString(Span<const int64_t>(tensor.shape, tensor.rank)));
    const bool isString = spec.type == ElementType::String;
    const size_t bytes = *count * sizeOf(spec.type);
    if (tensor.bytes != bytes)
      return bad(" has ", tensor.bytes, " bytes of contents, expected ", bytes);
    if (tensor.strings != (isString ? *count : 0))
      return bad(" has ", tensor.strings, " strings, expected ", isString ? *count : 0);
    if (isString) {
      if (mlb_code code = sink.strings(sink.context, index, tensor.shape, error))
        return code;
      Reader in(data, size);
      uint64_t k = 0;
      while (const uint32_t tag = in.ReadTag()) {
        const uint8_t *text = nullptr;
        size_t length = 0;
        if (tag != Strings) {
          (void)in.skip(tag);
          continue;
        }
        (void)in.bytes(text, length); // was read before
        const mlb_string value = {reinterpret_cast<const char *>(text), length};
        if (mlb_code code = sink.string(sink.context, index, k++, value, error))
          return code;
      }
      return 0;
    }
    if (spec.type == ElementType::Bool)
      if (const size_t k = findNoBool(tensor.contents, bytes); k != bytes)
        return fail(error, Code::Protocol, noBool(spec, k, tensor.contents[k]));
    void *to = nullptr;
    if (mlb_code code = sink.numbers(sink.context, index, tensor.shape, &to, error))
      return code;
    if (bytes)
      std::memcpy(to, tensor.contents, bytes);
    return 0;
  }

  std::vector<Slot> slots_;
  component::ByName<Slot> byName_;
};

} // namespace

Expected<std::unique_ptr<Codec>> newTensorListCodec(Span<const mlb_tensor_spec> specs) {
  auto codec = std::make_unique<TensorListCodec>();
  if (Status s = codec->make(specs); !s)
    return s;
  return Expected<std::unique_ptr<Codec>>(std::move(codec));
}

} // namespace mlbridge::protobuf
