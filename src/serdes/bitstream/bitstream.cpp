// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads bitstream messages. Every length of a message is checked against the bytes that
// are left before anything is made of it.
#include "core/message.h"
#include "serdes/serdes.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they are");

constexpr size_t Alignment = 8;
constexpr size_t Word = sizeof(uint64_t);
// Below this a copy costs less than one more part of a message.
constexpr size_t LeastExternal = 16 * 1024;

size_t aligned(size_t offset) { return (offset + Alignment - 1) & ~(Alignment - 1); }

uint64_t readWord(const uint8_t *from) {
  uint64_t word;
  std::memcpy(&word, from, Word);
  return word;
}

Status tooShort(const TensorSpec &spec, size_t needed, size_t offset, size_t left) {
  return makeError(Code::Protocol, "bitstream: tensor '", spec.name, "' needs ", needed,
                   " bytes at offset ", offset, ", message has ", left, " left");
}

Status leftover(size_t expected, size_t size) {
  return makeError(Code::Protocol, "bitstream: expected the end at offset ", expected,
                   ", the message has ", size, " bytes");
}

/// The part that does not change from message to message.
struct Plan {
  const TensorSpec &spec;
  size_t elementSize = 0; ///< 0 for strings
  size_t words = 0;       ///< Dynamic dimensions
  size_t count = 0;       ///< elements, if no dimension is Dynamic
};

Status checkPadding(const Plan &plan, const uint8_t *message, size_t from, size_t to) {
  for (size_t i = from; i < to; ++i)
    if (message[i] != 0)
      return makeError(Code::Protocol, "bitstream: padding byte at offset ", i, " before tensor '",
                       plan.spec.name, "' is ", message[i], ", expected 0");
  return Status();
}

Status checkBools(const Plan &plan, const uint8_t *message, size_t offset, size_t size) {
  size_t bad = findNoBool(message + offset, size);
  if (bad == size)
    return Status();
  return makeError(Code::Protocol, "bitstream: tensor '", plan.spec.name, "' element ", bad,
                   " at offset ", offset + bad, " is ", message[offset + bad],
                   ", a bool is 0 or 1");
}

class BitstreamCodec final : public Codec {
public:
  static Expected<std::unique_ptr<Codec>> make(Span<const TensorSpec> specs) {
    auto codec = std::make_unique<BitstreamCodec>();
    codec->specs_.assign(specs.begin(), specs.end());
    size_t end = 0;
    for (const TensorSpec &spec : codec->specs_) {
      if (Status s = spec.check(); !s)
        return s.withContext("bitstream");
      Plan plan{spec};
      plan.elementSize = sizeOf(spec.type);
      for (int64_t length : spec.shape)
        plan.words += length == Dynamic;
      if (plan.words == 0) {
        std::optional<size_t> count = spec.count();
        size_t bytes = 0;
        if (!count ||
            __builtin_mul_overflow(*count, std::max(plan.elementSize, size_t(1)), &bytes) ||
            __builtin_add_overflow(bytes, end + 2 * Alignment, &bytes))
          return makeError(Code::LimitExceeded, "bitstream: tensor '", spec.name,
                           "' is too large: ", spec.toString());
        plan.count = *count;
      }
      codec->fixed_ &= plan.words == 0 && plan.elementSize != 0;
      if (codec->fixed_) {
        codec->layout_.offsets.push_back(aligned(end));
        end = aligned(end) + plan.count * plan.elementSize;
        codec->layout_.size = end;
      }
      codec->plans_.push_back(plan);
    }
    return Expected<std::unique_ptr<Codec>>(std::move(codec));
  }

  const Layout *layout() const override { return fixed_ ? &layout_ : nullptr; }
  Status check(Span<const uint8_t> message) const override {
    if (!fixed_)
      return makeError(Code::Unsupported, "bitstream: these tensors have no fixed layout");
    size_t at = 0;
    for (size_t i = 0; i < plans_.size(); ++i) {
      const Plan &plan = plans_[i];
      size_t start = layout_.offsets[i], bytes = plan.count * plan.elementSize;
      if (start > message.size() || bytes > message.size() - start)
        return tooShort(plan.spec, bytes, start, message.size() - std::min(start, message.size()));
      if (Status s = checkPadding(plan, message.data(), at, start); !s)
        return s;
      if (plan.spec.type == ElementType::Bool)
        if (Status s = checkBools(plan, message.data(), start, bytes); !s)
          return s;
      at = start + bytes;
    }
    return at == message.size() ? Status() : leftover(at, message.size());
  }
  Status encode(Span<const TensorView> tensors, Buffer &out) const override {
    std::vector<ExternalSpan> none;
    return encodeAround(tensors, out, 0, none);
  }
  Status encodeAround(Span<const TensorView> tensors, Buffer &out, size_t most,
                      std::vector<ExternalSpan> &external) const override {
    if (Status s = checkViews("bitstream", specs_, tensors); !s)
      return s;
    external.clear();
    const auto isExternal = [](const TensorView &view) { return view.bytes() >= LeastExternal; };
    size_t size = 0, left = 0; // of the whole message; of that, what is not copied
    for (size_t i = 0; i < plans_.size(); ++i) {
      const Plan &plan = plans_[i];
      size = aligned(size) + plan.words * Word;
      if (plan.elementSize) {
        size += tensors[i].bytes();
        if (external.size() < most && isExternal(tensors[i])) {
          external.push_back({0, tensors[i].data, tensors[i].bytes()});
          left += tensors[i].bytes();
        }
        continue;
      }
      size += tensors[i].count * Word;
      for (const std::string &s : tensors[i].as<std::string>())
        size += s.size();
    }

    const size_t start = out.size();
    if (Status s = out.resize(start + size - left); !s)
      return s;
    uint8_t *const message = out.data() + start;
    size_t at = 0, skipped = 0, span = 0; // `at` counts what is in the buffer
    auto put = [&](const void *bytes, size_t count) {
      if (count)
        std::memcpy(message + at, bytes, count);
      at += count;
    };
    auto putWord = [&](uint64_t word) { put(&word, Word); };
    for (size_t i = 0; i < plans_.size(); ++i) {
      const Plan &plan = plans_[i];
      const TensorView &view = tensors[i];
      const size_t padding = aligned(at + skipped) - (at + skipped);
      std::fill_n(message + at, padding, uint8_t(0));
      at += padding;
      for (size_t d = 0; d < plan.spec.shape.size(); ++d)
        if (plan.spec.shape[d] == Dynamic)
          putWord(static_cast<uint64_t>(view.shape[d]));
      if (plan.elementSize) {
        size_t bad = plan.spec.type == ElementType::Bool
                         ? findNoBool(static_cast<const uint8_t *>(view.data), view.count)
                         : view.count;
        if (bad != view.count) {
          Status s = makeError(Code::InvalidArgument, "bitstream: tensor '", plan.spec.name,
                               "' element ", bad, " is ",
                               static_cast<const uint8_t *>(view.data)[bad], ", a bool is 0 or 1");
          (void)out.resize(start);
          external.clear();
          return s;
        }
        if (span < external.size() && isExternal(view)) {
          external[span++].offset = start + at;
          skipped += view.bytes();
        } else {
          put(view.data, view.bytes());
        }
        continue;
      }
      Span<std::string> strings = view.as<std::string>();
      for (const std::string &s : strings)
        putWord(s.size());
      for (const std::string &s : strings)
        put(s.data(), s.size());
    }
    return Status();
  }
  Status decode(Span<const uint8_t> message, TensorSink &sink) const override {
    return decodeAround(message, {}, sink);
  }
  bool goesAround() const override { return true; }
  Status decodeAround(Span<const uint8_t> message, Span<const ExternalSpan> external,
                      TensorSink &sink) const override {
    size_t at = 0, skipped = 0; // `at` counts what is in `message`
    const ExternalSpan *span = external.begin();
    Shape shape;
    for (size_t i = 0; i < plans_.size(); ++i) {
      const Plan &plan = plans_[i];
      size_t start = aligned(at + skipped) - skipped;
      if (start > message.size())
        return makeError(Code::Protocol, "bitstream: tensor '", plan.spec.name,
                         "' starts at offset ", start, ", message has ", message.size(), " bytes");
      if (Status s = checkPadding(plan, message.data(), at, start); !s)
        return s;
      at = start;
      size_t count = 0;
      if (Status s = readShape(plan, message, at, shape, count); !s)
        return s;
      if (plan.elementSize == 0) {
        if (Status s = readStrings(i, message, at, shape, count, sink); !s)
          return s;
        continue;
      }
      if (count && span != external.end() && span->offset == at) {
        if (plan.spec.type == ElementType::Bool || span->bytes % plan.elementSize != 0 ||
            span->bytes / plan.elementSize != count)
          return makeError(Code::Protocol, "bitstream: tensor '", plan.spec.name, "' of shape ",
                           shape, " is stated to have ", span->bytes,
                           " bytes outside of the message");
        if (!sink.adopt(i, shape, static_cast<const uint8_t *>(span->data)))
          return makeError(Code::Protocol, "bitstream: tensor '", plan.spec.name,
                           "' cannot have the shape ", shape);
        skipped += span->bytes;
        ++span;
        continue;
      }
      size_t left = message.size() - at;
      if (count > left / plan.elementSize)
        return tooShort(plan.spec, count * plan.elementSize, at, left);
      size_t bytes = count * plan.elementSize;
      if (plan.spec.type == ElementType::Bool)
        if (Status s = checkBools(plan, message.data(), at, bytes); !s)
          return s;
      if (!sink.adopt(i, shape, message.data() + at)) {
        TensorView view;
        if (Status s = prepare(i, shape, count, sink, view); !s)
          return s;
        if (bytes)
          std::memcpy(view.data, message.data() + at, bytes);
      }
      at += bytes;
    }
    if (span != external.end())
      return makeError(Code::Protocol, "bitstream: no tensor begins at offset ", span->offset,
                       ", where the request says that one lies outside of the message");
    return at == message.size() ? Status() : leftover(at, message.size());
  }

private:
  Status readShape(const Plan &plan, Span<const uint8_t> message, size_t &at, Shape &shape,
                   size_t &count) const {
    const TensorSpec &spec = plan.spec;
    shape = spec.shape;
    count = plan.count;
    if (plan.words == 0)
      return Status();
    if (plan.words > (message.size() - at) / Word)
      return tooShort(spec, plan.words * Word, at, message.size() - at);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (spec.shape[d] != Dynamic)
        continue;
      uint64_t length = readWord(message.data() + at);
      uint64_t most = static_cast<uint64_t>(INT64_MAX);
      if (!spec.maximum.empty() && spec.maximum[d] > 0)
        most = static_cast<uint64_t>(spec.maximum[d]);
      if (length > most)
        return makeError(Code::Protocol, "bitstream: tensor '", spec.name, "' dimension ", d,
                         " at offset ", at, " is ", length, ", at most ", most, " is allowed");
      shape[d] = static_cast<int64_t>(length);
      at += Word;
    }
    std::optional<size_t> product = elementCount(shape);
    if (!product)
      return makeError(Code::Protocol, "bitstream: tensor '", spec.name,
                       "' has more elements than any message: its shape is ", shape,
                       " before offset ", at);
    count = *product;
    return Status();
  }
  Status readStrings(size_t index, Span<const uint8_t> message, size_t &at, const Shape &shape,
                     size_t count, TensorSink &sink) const {
    const TensorSpec &spec = plans_[index].spec;
    if (count > (message.size() - at) / Word)
      return tooShort(spec, count * Word, at, message.size() - at);
    const uint8_t *lengths = message.data() + at;
    at += count * Word;
    size_t left = message.size() - at;
    for (size_t k = 0; k < count; ++k) {
      uint64_t length = readWord(lengths + k * Word);
      if (length > left)
        return makeError(Code::Protocol, "bitstream: tensor '", spec.name, "' element ", k,
                         " needs ", length, " bytes, message has ", left, " left");
      left -= length;
    }
    TensorView view;
    if (Status s = prepare(index, shape, count, sink, view); !s)
      return s;
    Span<std::string> strings = view.as<std::string>();
    for (size_t k = 0; k < count; ++k) {
      size_t length = readWord(lengths + k * Word);
      strings[k].assign(reinterpret_cast<const char *>(message.data() + at), length);
      at += length;
    }
    return Status();
  }
  Status prepare(size_t index, const Shape &shape, size_t count, TensorSink &sink,
                 TensorView &view) const {
    Expected<TensorView> prepared = sink.prepare(index, shape);
    if (!prepared)
      return prepared.status();
    view = *prepared;
    if (view.count != count || view.type != plans_[index].spec.type)
      return makeError(Code::Internal, "bitstream: tensor '", plans_[index].spec.name,
                       "' got storage for ", view.count, " ", name(view.type),
                       " elements, asked for ", count);
    return Status();
  }

  std::vector<TensorSpec> specs_;
  std::vector<Plan> plans_; ///< of these
  bool fixed_ = true;
  Layout layout_;
};

class BitstreamSerDes final : public SerDes {
public:
  Expected<std::unique_ptr<Codec>> newCodec(Span<const TensorSpec> specs) const override {
    return BitstreamCodec::make(specs);
  }
};

} // namespace

const SerDes &bitstreamSerDes() {
  static const SerDes &instance = *new BitstreamSerDes; // outlives every thread
  return instance;
}

} // namespace mlbridge
