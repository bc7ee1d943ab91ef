// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages of the user's. They are not parsed into objects: values go from the wire to the tensors,
// in two passes, of which the first finds the shapes, and back.
#include "core/message.h"
#include "core/utf8.h"
#include "serdes/protobuf/codec.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::protobuf {
namespace {

using google::protobuf::io::CodedOutputStream;
constexpr auto Bytes = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;

/// True if the bits of the elements in memory are those on the wire.
bool isRaw(WireFormatLite::FieldType type) {
  const auto wire = WireFormatLite::WireTypeForFieldType(type);
  return wire == WireFormatLite::WIRETYPE_FIXED32 || wire == WireFormatLite::WIRETYPE_FIXED64;
}

/// The varint of an element.
uint64_t toVarint(WireFormatLite::FieldType type, const void *data, size_t k) {
  switch (type) {
  case WireFormatLite::TYPE_INT32:
  case WireFormatLite::TYPE_ENUM:
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<const int32_t *>(data)[k]));
  case WireFormatLite::TYPE_UINT32:
    return static_cast<const uint32_t *>(data)[k];
  case WireFormatLite::TYPE_SINT32:
    return WireFormatLite::ZigZagEncode32(static_cast<const int32_t *>(data)[k]);
  case WireFormatLite::TYPE_SINT64:
    return WireFormatLite::ZigZagEncode64(static_cast<const int64_t *>(data)[k]);
  case WireFormatLite::TYPE_BOOL:
    return static_cast<const uint8_t *>(data)[k];
  default:
    return static_cast<const uint64_t *>(data)[k];
  }
}

uint64_t fromVarint(WireFormatLite::FieldType type, uint64_t value) {
  switch (type) {
  case WireFormatLite::TYPE_SINT32:
    return static_cast<uint32_t>(WireFormatLite::ZigZagDecode32(static_cast<uint32_t>(value)));
  case WireFormatLite::TYPE_SINT64:
    return static_cast<uint64_t>(WireFormatLite::ZigZagDecode64(value));
  case WireFormatLite::TYPE_BOOL:
    return value != 0;
  default:
    return value;
  }
}

// ---- writing ------------------------------------------------------------------------------------

/// A message is first counted, then written.
struct Counter {
  uint64_t size = 0;
  void number(uint64_t value) { size += CodedOutputStream::VarintSize64(value); }
  void raw(const void *, size_t bytes) { size += bytes; }
};

struct Output {
  uint8_t *to;
  void number(uint64_t value) { to = CodedOutputStream::WriteVarint64ToArray(value, to); }
  void raw(const void *from, size_t bytes) {
    if (bytes)
      std::memcpy(to, from, bytes);
    to += bytes;
  }
};

class Writer {
public:
  Writer(const Plan &plan, const mlb_tensor *tensors)
      : plan_(plan), tensors_(tensors), counts_(plan.fields), cursors_(plan.fields) {}

  /// How often each message occurs, on which its tensors must agree. Errors: InvalidArgument.
  Status prepare() { return prepare(plan_.root); }
  uint64_t measure() {
    Counter out;
    put(plan_.root, out);
    return out.size;
  }
  void write(uint8_t *to) {
    std::fill(cursors_.begin(), cursors_.end(), 0);
    Output out{to};
    put(plan_.root, out);
  }

private:
  Status prepare(const Field &message) {
    for (const Field &field : message.fields)
      if (Status s = field.isMessage() ? prepare(field) : prepareLeaf(field); !s)
        return s;
    return Status();
  }

  Status prepareLeaf(const Field &leaf) {
    const TensorSpec &spec = plan_.specs[leaf.tensor];
    const mlb_tensor &tensor = tensors_[leaf.tensor];
    const auto bad = [&](const auto &...what) {
      return makeError(Code::InvalidArgument, about(spec), what...);
    };
    for (size_t level = 0; level < leaf.around.size(); ++level) {
      const auto length =
          leaf.lengths ? tensors_[*leaf.lengths].count : static_cast<uint64_t>(tensor.shape[level]);
      auto &[known, by] = said_[leaf.around[level]];
      if (!by.empty() && known != length)
        return bad(" is for ", length, " messages, but tensor '", by, "' for ", known);
      known = length;
      by = spec.name;
      counts_[leaf.around[level]] = length;
    }
    if (leaf.lengths) {
      const mlb_tensor &lengths = tensors_[*leaf.lengths];
      uint64_t left = tensor.count / leaf.unit;
      for (uint64_t row = 0; row < lengths.count; ++row) {
        const int64_t length = static_cast<const int64_t *>(lengths.data)[row];
        if (length < 0 || static_cast<uint64_t>(length) > left)
          return bad(" does not fit its lengths: row ", row, " has the length ", length,
                     ", but only ", left, " are left");
        left -= static_cast<uint64_t>(length);
      }
      if (left)
        return bad(" has ", left, " more elements than its lengths add up to");
    } else if (leaf.repeated) {
      size_t row = 1;
      for (size_t d = leaf.around.size(); d < spec.shape.size(); ++d)
        row *= static_cast<size_t>(tensor.shape[d]);
      counts_[leaf.id] = row;
    }
    if (leaf.type == WireFormatLite::TYPE_BOOL) {
      const auto *flags = static_cast<const uint8_t *>(tensor.data);
      if (const size_t k = findNoBool(flags, tensor.count); k != tensor.count)
        return Status(Code::InvalidArgument, noBool(spec, k, flags[k]));
    }
    if (leaf.utf8)
      for (uint64_t k = 0; k < tensor.count; ++k)
        if (!isUtf8(fromComponent(static_cast<const mlb_string *>(tensor.data)[k])))
          return bad(
              " element ", k,
              " is not UTF-8, which a string field requires; use a bytes field for other data");
    return Status();
  }
  template <typename Out> void put(const Field &message, Out &out) {
    for (const Field &field : message.fields) {
      if (field.isMessage()) {
        for (size_t n = field.repeated ? counts_[field.id] : 1; n > 0; --n)
          putNested(field, out, [&](auto &inner) { put(field, inner); });
        continue;
      }
      size_t first;
      const size_t count = take(field, first);
      if (!count || isLeftOut(field, first))
        continue;
      if (field.packed) {
        putNested(field, out, [&](auto &inner) { putElements(field, first, count, inner); });
        continue;
      }
      for (size_t k = first; k < first + count; ++k) {
        out.number(field.tag(field.wire()));
        putElements(field, k, 1, out);
      }
    }
  }
  template <typename Out>
  void putElements(const Field &leaf, size_t first, size_t count, Out &out) const {
    const void *data = tensors_[leaf.tensor].data;
    if (isRaw(leaf.type) || leaf.type == WireFormatLite::TYPE_BOOL) {
      const size_t size = sizeOf(plan_.specs[leaf.tensor].type);
      return out.raw(static_cast<const uint8_t *>(data) + first * size, count * size);
    }
    for (size_t k = first; k < first + count; ++k) {
      if (leaf.wire() == Bytes) {
        const mlb_string &text = static_cast<const mlb_string *>(data)[k];
        out.number(text.size);
        out.raw(text.data, text.size);
      } else {
        out.number(toVarint(leaf.type, data, k));
      }
    }
  }
  /// A tag, the length of what `body` puts, and that.
  template <typename Out, typename Body>
  void putNested(const Field &field, Out &out, const Body &body) {
    out.number(field.tag(Bytes));
    if constexpr (std::is_same_v<Out, Counter>) {
      const size_t place = sizes_.size();
      sizes_.push_back(0);
      Counter inner;
      body(inner);
      sizes_[place] = inner.size;
      out.number(inner.size);
      out.size += inner.size;
    } else {
      out.number(sizes_[next_++]);
      body(out);
    }
  }

  /// The elements that belong into the next occurrence of the field, first and number.
  size_t take(const Field &leaf, size_t &first) {
    size_t count = 1;
    if (leaf.lengths) {
      size_t &row = counts_[leaf.id];
      const auto *lengths = static_cast<const int64_t *>(tensors_[*leaf.lengths].data);
      if (row == tensors_[*leaf.lengths].count)
        row = 0; // the second pass
      count = static_cast<size_t>(lengths[row++]) * leaf.unit;
    } else if (leaf.repeated) {
      count = counts_[leaf.id];
    }
    first = cursors_[leaf.id];
    cursors_[leaf.id] += count;
    return count;
  }
  /// A field without presence is left out where it is zero, as protobuf's own classes do.
  bool isLeftOut(const Field &leaf, size_t k) const {
    if (leaf.repeated || leaf.presence)
      return false;
    const mlb_tensor &tensor = tensors_[leaf.tensor];
    if (leaf.wire() == Bytes)
      return static_cast<const mlb_string *>(tensor.data)[k].size == 0;
    const size_t size = sizeOf(plan_.specs[leaf.tensor].type);
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const uint8_t *>(tensor.data) + k * size, size);
    return bits == 0;
  }

  const Plan &plan_;
  const mlb_tensor *tensors_;
  std::vector<size_t> counts_;
  std::vector<size_t> cursors_;
  std::vector<uint64_t> sizes_; ///< of what is nested, in the order in which it begins
  std::vector<std::pair<size_t, std::string>> said_ = std::vector<std::pair<size_t, std::string>>(
      counts_.size()); ///< what a tensor said of a message, and which one
  size_t next_ = 0;
};

// ---- reading ------------------------------------------------------------------------------------

class Parser {
public:
  Parser(const Plan &plan, const mlb_tensor_sink &sink, mlb_error *error)
      : plan_(plan), sink_(sink), error_(error), state_(plan.fields), data_(plan.specs.size()) {}

  mlb_code parse(const uint8_t *data, size_t size) {
    if (mlb_code code = message(plan_.root, data, size))
      return code;
    if (mlb_code code = deliver(plan_.root, 1))
      return code;
    fills_ = true;
    for (State &state : state_)
      state.count = state.start = 0;
    return message(plan_.root, data, size);
  }

private:
  /// The state of a field, in the repeated message around it that is read now, and before.
  struct State {
    size_t count = 0; ///< elements or messages so far
    size_t start = 0; ///< before this message
    size_t row = 0;   ///< in each of the messages, once there was one
    bool hasRow = false;
    bool seen = false;
    uint64_t bits = 0; ///< of a single value
    mlb_string text = {nullptr, 0};
  };

  template <typename... Parts> mlb_code bad(const Parts &...what) {
    return fail(error_, Code::Protocol, what...);
  }
  void store(const Field &field, size_t k, const void *from, size_t count) {
    const size_t size = sizeOf(plan_.specs[field.tensor].type);
    std::memcpy(static_cast<uint8_t *>(data_[field.tensor]) + k * size, from, count * size);
  }
  mlb_code broken(const Field &field) {
    return bad(field.path.empty() ? "not a protobuf message"
                                  : "field '" + field.path + "' is malformed");
  }
  mlb_code message(const Field &field, const uint8_t *data, size_t size) {
    begin(field);
    if (mlb_code code = fields(field, data, size))
      return code;
    return end(field);
  }
  /// The fields of a message that is not repeated belong to the one around it, for protobuf merges
  /// its occurrences.
  void begin(const Field &message) {
    for (const Field &field : message.fields) {
      State &state = state_[field.id];
      state.start = state.count;
      state.seen = false;
      state.bits = 0;
      state.text = {nullptr, 0};
      if (field.isMessage() && !field.repeated)
        begin(field);
    }
  }

  mlb_code fields(const Field &message, const uint8_t *data, size_t size) {
    Reader in(data, size);
    auto guess = message.fields.begin();
    while (const uint32_t tag = in.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      if (guess == message.fields.end() || guess->number != number)
        guess = std::lower_bound(message.fields.begin(), message.fields.end(), number,
                                 [](const Field &f, int n) { return f.number < n; });
      if (guess == message.fields.end() || guess->number != number) {
        if (!in.skip(tag))
          return broken(message);
        continue;
      }
      const Field &field = *guess;
      if (!field.isMessage()) {
        if (mlb_code code = value(field, tag, in))
          return code;
        if (!field.repeated)
          ++guess;
        continue;
      }
      const uint8_t *body = nullptr;
      size_t bytes = 0;
      if (tag != field.tag(Bytes)) {
        if (!in.skip(tag))
          return broken(message);
        continue;
      }
      if (!in.bytes(body, bytes))
        return broken(field);
      State &state = state_[field.id];
      state.seen = true;
      if (field.repeated)
        ++state.count;
      if (mlb_code code =
              field.repeated ? this->message(field, body, bytes) : fields(field, body, bytes))
        return code;
    }
    return in.ConsumedEntireMessage() ? 0 : broken(message);
  }
  mlb_code value(const Field &field, uint32_t tag, Reader &in) {
    const uint8_t *body = nullptr;
    size_t bytes = 0;
    uint64_t bits = 0;
    uint32_t small = 0;
    if (tag == field.tag(Bytes) && (field.wire() == Bytes || field.repeated)) {
      if (!in.bytes(body, bytes))
        return broken(field);
      return field.wire() == Bytes
                 ? add(field, mlb_string{reinterpret_cast<const char *>(body), bytes})
                 : packed(field, body, bytes);
    }
    if (tag != field.tag(field.wire()))
      return in.skip(tag) ? 0 : broken(field);
    switch (field.wire()) {
    case WireFormatLite::WIRETYPE_FIXED32:
      if (!in.ReadLittleEndian32(&small))
        return broken(field);
      return add(field, uint64_t{small});
    case WireFormatLite::WIRETYPE_FIXED64:
      if (!in.ReadLittleEndian64(&bits))
        return broken(field);
      return add(field, bits);
    default:
      if (!in.ReadVarint64(&bits))
        return broken(field);
      return add(field, fromVarint(field.type, bits));
    }
  }
  mlb_code packed(const Field &field, const uint8_t *data, size_t size) {
    State &state = state_[field.id];
    if (isRaw(field.type)) {
      const size_t element = sizeOf(plan_.specs[field.tensor].type);
      if (size % element)
        return broken(field);
      if (fills_ && size)
        store(field, state.count, data, size / element);
      state.count += size / element;
      return 0;
    }
    if (!fills_) {
      if (size && (data[size - 1] & 0x80))
        return broken(field);
      state.count += static_cast<size_t>(
          std::count_if(data, data + size, [](uint8_t byte) { return byte < 0x80; }));
      return 0;
    }
    Reader in(data, size);
    while (static_cast<size_t>(in.CurrentPosition()) < size) {
      uint64_t bits;
      if (!in.ReadVarint64(&bits))
        return broken(field);
      if (mlb_code code = add(field, fromVarint(field.type, bits)))
        return code;
    }
    return 0;
  }
  mlb_code add(const Field &field, uint64_t bits) {
    State &state = state_[field.id];
    if (!field.repeated) {
      state.seen = true;
      state.bits = bits;
      return 0;
    }
    if (fills_)
      store(field, state.count, &bits, 1);
    ++state.count;
    return 0;
  }
  mlb_code add(const Field &field, mlb_string text) {
    State &state = state_[field.id];
    if (field.utf8 && !fills_ && !isUtf8(fromComponent(text)))
      return bad("field '", field.path, "' is not UTF-8, which a string must be");
    if (!field.repeated) {
      state.seen = true;
      state.text = text;
      return 0;
    }
    const size_t k = state.count++;
    return fills_ ? sink_.string(sink_.context, field.tensor, k, text, error_) : 0;
  }
  /// All of a repeated message has been read: its single values are final, and its rows.
  mlb_code end(const Field &message) {
    for (const Field &field : message.fields) {
      State &state = state_[field.id];
      if (field.repeated) {
        if (mlb_code code = endRow(field))
          return code;
        continue;
      }
      if (!state.seen && (field.presence || field.isMessage()))
        return bad(field.isMessage() ? "the message '" : "tensor '", field.path, "' is missing");
      if (field.isMessage()) {
        if (mlb_code code = end(field))
          return code;
        continue;
      }
      const size_t k = state.count++;
      if (!fills_)
        continue;
      if (field.wire() != Bytes)
        store(field, k, &state.bits, 1);
      else if (mlb_code code = sink_.string(sink_.context, field.tensor, k, state.text, error_))
        return code;
    }
    return 0;
  }
  mlb_code endRow(const Field &field) {
    State &state = state_[field.id];
    const size_t row = state.count - state.start;
    if (field.lengths) {
      if (row % field.unit)
        return bad("tensor '", field.path, "': a row has ", row, " values, expected a multiple of ",
                   field.unit);
      if (fills_)
        static_cast<int64_t *>(data_[*field.lengths])[state.row] =
            static_cast<int64_t>(row / field.unit);
      ++state.row;
      return 0;
    }
    if (state.hasRow && state.row != row)
      return bad("'", field.path, "' has rows of ", state.row, " and of ", row,
                 " values; rows of different lengths need a tensor '", field.path, "#lengths'");
    state.hasRow = true;
    state.row = row;
    return 0;
  }
  mlb_code deliver(const Field &message, size_t occurrences) {
    for (const Field &field : message.fields) {
      if (field.isMessage()) {
        if (mlb_code code = deliver(field, field.repeated ? state_[field.id].count : occurrences))
          return code;
      } else if (mlb_code code = deliverLeaf(field, occurrences > 0)) {
        return code;
      }
    }
    return 0;
  }
  /// With all of the message counted: shapes, and storage for the second pass. `any`: whether the
  /// message of the field occurred.
  mlb_code deliverLeaf(const Field &leaf, bool any) {
    const TensorSpec &spec = plan_.specs[leaf.tensor];
    State &state = state_[leaf.id];
    Shape shape = spec.shape;
    if (leaf.lengths) {
      shape[0] = static_cast<int64_t>(state.count / leaf.unit);
      const int64_t rows[] = {static_cast<int64_t>(state.row)};
      state.row = 0;
      const TensorSpec &lengths = plan_.specs[*leaf.lengths];
      if (Status s = checkShape(lengths, rows); !s)
        return bad(s.message());
      if (mlb_code code =
              sink_.numbers(sink_.context, *leaf.lengths, rows, &data_[*leaf.lengths], error_))
        return code;
    } else {
      for (size_t d = 0; d < leaf.around.size(); ++d) {
        const State &around = state_[leaf.around[d]];
        if (around.hasRow)
          shape[d] = static_cast<int64_t>(around.row);
      }
      if (leaf.repeated && any) {
        if (state.row % leaf.unit || (!leaf.rowsVary && state.row != leaf.unit))
          return bad(about(spec), " has ", state.row, " values",
                     leaf.around.empty() ? "" : " in a row", ", expected ",
                     leaf.rowsVary ? "a multiple of " : "", leaf.unit);
        for (size_t d = leaf.around.size(); d < shape.size(); ++d)
          if (shape[d] == Dynamic)
            shape[d] = static_cast<int64_t>(state.row / leaf.unit);
      }
      for (int64_t &length : shape)
        if (length == Dynamic)
          length = 0;
    }
    if (Status s = checkShape(spec, shape); !s)
      return bad(s.message());
    if (elementCount(shape) != state.count)
      return bad(about(spec), " has ", state.count, " values, which do not fill the shape ",
                 toString(Span<const int64_t>(shape.data(), shape.size())));
    return spec.type == ElementType::String
               ? sink_.strings(sink_.context, leaf.tensor, shape.data(), error_)
               : sink_.numbers(sink_.context, leaf.tensor, shape.data(), &data_[leaf.tensor],
                               error_);
  }

  const Plan &plan_;
  const mlb_tensor_sink &sink_;
  mlb_error *error_;
  std::vector<State> state_;
  std::vector<void *> data_; ///< of the tensors of numbers, in the second pass
  bool fills_ = false;
};

class MessageCodec final : public Codec {
public:
  explicit MessageCodec(Plan plan) : plan_(std::move(plan)) {}

  mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const override {
    Writer writer(plan_, tensors);
    if (Status s = writer.prepare(); !s)
      return fail(error, s);
    const uint64_t total = writer.measure();
    if (mlb_code code = reserve(*out, total, error))
      return code;
    writer.write(out->data + out->size);
    out->size += total;
    return 0;
  }
  mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                  mlb_error *error) const override {
    if (Status s = checkSize(size); !s)
      return fail(error, s);
    return Parser(plan_, *sink, error).parse(data, size);
  }

private:
  const Plan plan_;
};

} // namespace

Expected<std::unique_ptr<Codec>> newMessageCodec(Span<const mlb_tensor_spec> specs,
                                                 const std::string &side, const std::string &proto,
                                                 const std::string &name,
                                                 const std::string &method) {
  std::vector<TensorSpec> own;
  for (const mlb_tensor_spec &from : specs) {
    Expected<TensorSpec> spec = fromComponent(from);
    if (!spec)
      return spec.status();
    own.push_back(std::move(*spec));
  }
  Expected<Plan> plan = makePlan(std::move(own), side, proto, name, method);
  if (!plan)
    return plan.status();
  return std::unique_ptr<Codec>(std::make_unique<MessageCodec>(std::move(*plan)));
}

} // namespace mlbridge::protobuf
