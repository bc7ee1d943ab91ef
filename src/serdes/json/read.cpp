// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON serdes as a component, whose simdjson is its own: no symbol leaves.
//
// Reads with simdjson's on-demand interface, straight into the storage that the sink gives. The
// whole message is visited, so that nothing in it goes unchecked; nothing in it nests deeper than
// the format does; and no storage is asked for more elements than the text has room for.
#include "serdes/json/codec.h"

#include "core/convert.h"

#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <simdjson.h>

namespace mlbridge::json {

namespace ondemand = simdjson::ondemand;
using simdjson::error_code;

namespace {

/// Parser state that is kept from message to message.
class Reader {
public:
  ondemand::parser parser;
  std::vector<uint8_t> seen;
};

class Codec final : public component::Codec {
public:
  /// Errors: InvalidArgument, and Unsupported for a name that is not UTF-8.
  static Expected<std::unique_ptr<Codec>> make(Span<const mlb_tensor_spec> specs);
  ~Codec() override { delete spare_.load(); }

  mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const override {
    return write(slots_, tensors, out, error);
  }
  mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                  mlb_error *error) const override;

  const std::vector<Slot> &slots() const { return slots_; }
  /// The index of the tensor with this name, or slots().size(); `guess` is tried first.
  size_t find(std::string_view name, size_t guess) const {
    return byName_.find(slots_, name, guess);
  }

private:
  std::vector<Slot> slots_;
  component::ByName<Slot> byName_;
  /// One reader waits here; a thread that finds none makes its own.
  mutable std::atomic<Reader *> spare_{nullptr};
};

/// An element, or why there is none.
using Item = simdjson::simdjson_result<ondemand::value>;

constexpr mlb_code Done = 0;
/// The element is not of its tensor's type; the caller makes the message.
constexpr mlb_code Refused = -1;
/// Object, object of a Dynamic tensor, array; and one for simdjson.
constexpr size_t MaxDepth = 4;

mlb_code malformed(mlb_error *error, const std::string &where, error_code code) {
  if (code == simdjson::MEMALLOC || code == simdjson::CAPACITY)
    return fail(error, Code::LimitExceeded, "the message is too large to parse");
  std::string_view why = simdjson::error_message(code);
  while (!why.empty() && why.back() == '.')
    why.remove_suffix(1);
  return fail(error, Code::Protocol, where, "not valid JSON: ", why);
}

/// A part of the message, for an error: printable and short.
std::string excerpt(std::string_view token) {
  constexpr size_t Most = 24;
  std::string text;
  for (char c : token.substr(0, Most))
    text += c >= 0x20 && c < 0x7f ? c : ' ';
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return token.size() > Most ? text + "..." : text;
}

mlb_code unexpected(mlb_error *error, const std::string &where, const std::string &wanted,
                    ondemand::value &value) {
  return fail(error, Code::Protocol, where, ": expected ", wanted, ", got ",
              excerpt(value.raw_json_token()));
}

/// True if rounding to double and then to float may differ from rounding once: only where the
/// double lies halfway between two floats.
[[gnu::always_inline]] inline bool mayRoundTwice(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  constexpr uint64_t Below = (uint64_t(1) << 29) - 1, Half = uint64_t(1) << 28;
  return (bits & Below) == Half ||
         std::fabs(value) < static_cast<double>(std::numeric_limits<float>::min());
}

/// The element as it stands in the message.
std::string_view textOf(Item &item) {
  std::string_view text;
  return item.raw_json_token().get(text) ? std::string_view() : text;
}

/// simdjson 3.0 misreads a number that begins with "0." and has more than 19 digits after the zeros
/// (the check for an overflow of the digits measures the zeros).
[[gnu::always_inline]] inline bool mayBeMisread(std::string_view text) {
  constexpr size_t Shortest = 2 + 20;
  return __builtin_expect(text.size() >= Shortest, false) && text[text[0] == '-'] == '0';
}

/// `misread` is of the right order.
[[gnu::noinline]] double doubleFromText(std::string_view text, double misread) {
  double to;
  if (std::from_chars(text.data(), text.data() + text.size(), to).ec == std::errc())
    return to;
  return std::copysign(std::fabs(misread) < 1 ? 0 : HUGE_VAL, misread);
}

[[gnu::noinline]] float narrowFromText(Item &item, double from) {
  std::string_view text = textOf(item);
  float to;
  if (std::from_chars(text.data(), text.data() + text.size(), to).ec == std::errc())
    return to;
  return static_cast<float>(from); // beyond the range: an infinity or zero
}

/// The nearest float, which may be an infinity.
[[gnu::always_inline]] inline float narrow(Item &item, double from) {
  float to = static_cast<float>(from);
  if (__builtin_expect(static_cast<double>(to) != from && mayRoundTwice(from), false))
    to = narrowFromText(item, from);
  return to;
}

template <typename T> bool fromBits(typename Float<T>::Bits bits, T &to) {
  std::memcpy(static_cast<void *>(&to), &bits, sizeof bits);
  return true;
}

/// The strings that stand for what is not a finite number.
template <typename T> [[gnu::noinline]] bool readNonFinite(Item &item, T &to) {
  using F = Float<T>;
  using Bits = typename F::Bits;
  std::string_view text;
  if (item.get_string().get(text))
    return false;
  if (text == Infinity)
    return fromBits<T>(F::Exponent, to);
  if (text == MinusInfinity)
    return fromBits<T>(F::Exponent | F::Sign, to);
  if (text == NaN)
    return fromBits<T>(F::QuietNaN, to);
  if (text.size() != NaNPrefix.size() + 2 * sizeof(Bits) ||
      text.substr(0, NaNPrefix.size()) != NaNPrefix)
    return false;
  Bits bits = 0;
  auto end = std::from_chars(text.data() + NaNPrefix.size(), text.data() + text.size(), bits, 16);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size())
    return false;
  if ((bits & F::Exponent) != F::Exponent || (bits & ~(F::Exponent | F::Sign)) == 0)
    return false;
  return fromBits<T>(bits, to);
}

/// The element, or false if the value has another type or is out of range.
template <typename T> [[gnu::always_inline]] inline bool readElement(Item &item, T &to) {
  if constexpr (Float<T>::value) {
    double number;
    if (__builtin_expect(item.get_double().get(number) != simdjson::SUCCESS, false))
      return readNonFinite(item, to);
    if (std::string_view text = textOf(item); mayBeMisread(text))
      number = doubleFromText(text, number);
    if constexpr (std::is_same_v<T, double>) {
      to = number;
      return std::isfinite(number);
    } else {
      float single = narrow(item, number);
      if (!std::isfinite(single))
        return false;
      if constexpr (std::is_same_v<T, Half>) {
        to = toHalf(single);
        return (to.bits & Float<Half>::Exponent) != Float<Half>::Exponent;
      } else {
        to = single;
        return true;
      }
    }
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    Wide number;
    if constexpr (std::is_signed_v<T>) {
      if (item.get_int64().get(number))
        return false;
    } else {
      if (item.get_uint64().get(number))
        return false;
    }
    to = static_cast<T>(number);
    return to == number;
  }
}

template <> [[gnu::always_inline]] inline bool readElement(Item &item, bool &to) {
  bool truth;
  if (item.get_bool().get(truth))
    return false;
  to = truth;
  return true;
}

std::string elements(size_t count) {
  return std::to_string(count) + (count == 1 ? " element" : " elements");
}

/// Reads one message.
class Message {
public:
  Message(Reader &reader, const Codec &codec, const uint8_t *data, size_t size,
          const mlb_tensor_sink &sink, mlb_error *error)
      : reader_(reader), codec_(codec), data_(data), size_(size), sink_(sink), error_(error) {}
  mlb_code read() {
    if (size_ > reader_.parser.capacity() || reader_.parser.capacity() == 0) {
      // Half as much again, so that messages that grow do not allocate each time.
      if (size_ > simdjson::SIMDJSON_MAXSIZE_BYTES / 2)
        return fail(error_, Code::LimitExceeded, "the message has ", size_,
                    " bytes, JSON is read up to 2 GiB");
      if (error_code e = reader_.parser.allocate(size_ + size_ / 2 + 64, MaxDepth))
        return malformed(error_, "", e);
    }
    ondemand::document document;
    simdjson::padded_string_view text(data_, size_, size_ + simdjson::SIMDJSON_PADDING);
    if (error_code e = reader_.parser.iterate(text).get(document))
      return malformed(error_, "", e);
    ondemand::object object;
    error_code e = document.get_object().get(object);
    if (e == simdjson::INCORRECT_TYPE)
      return bad("expected an object with a member for each tensor, got ",
                 excerpt({reinterpret_cast<const char *>(data_), size_}));
    if (e)
      return malformed(error_, "", e);

    const std::vector<Slot> &slots = codec_.slots();
    reader_.seen.assign(slots.size(), 0);
    size_t next = 0;
    for (auto item : object) {
      ondemand::field field;
      e = std::move(item).get(field);
      if (e)
        return malformed(error_, "", e);
      std::string_view key;
      e = field.unescaped_key().get(key);
      if (e)
        return malformed(error_, "", e);
      size_t index = codec_.find(key, next);
      if (index == slots.size())
        return bad("unknown tensor '", excerpt(key), "'");
      if (reader_.seen[index])
        return bad(about(slots[index]), " occurs twice");
      reader_.seen[index] = 1;
      next = index + 1;
      ondemand::value value = field.value();
      if (mlb_code code = readTensor(index, value))
        return code;
    }
    for (size_t i = 0; i < slots.size(); ++i)
      if (!reader_.seen[i])
        return bad(about(slots[i]), " is missing");
    if (document.current_location().error() != simdjson::OUT_OF_BOUNDS)
      return bad("unexpected data after the object");
    return Done;
  }

private:
  template <typename... Parts> mlb_code bad(const Parts &...what) {
    return fail(error_, Code::Protocol, what...);
  }
  mlb_code readTensor(size_t index, ondemand::value &value) {
    const Slot &slot = codec_.slots()[index];
    if (slot.dynamic)
      return readDynamic(index, value);
    const int64_t *shape = slot.spec.shape.data();
    if (slot.spec.shape.empty()) {
      Item item(std::move(value)); // NOLINT(performance-move-const-arg): simdjson takes &&
      return readElements(index, shape, 1, item);
    }
    return readList(index, shape, slot.count, value);
  }
  mlb_code readDynamic(size_t index, ondemand::value &value) {
    const Slot &slot = codec_.slots()[index];
    ondemand::object object;
    error_code e = value.get_object().get(object);
    if (e == simdjson::INCORRECT_TYPE)
      return unexpected(error_, about(slot), R"({"shape":[...],"data":[...]})", value);
    if (e)
      return malformed(error_, about(slot) + ": ", e);
    Shape shape;
    bool hasShape = false, hasData = false, dataRead = false;
    // A second pass over the object if "data" comes before "shape".
    for (int pass = 0; pass < 2; ++pass) {
      for (auto item : object) {
        ondemand::field field;
        e = std::move(item).get(field);
        if (e)
          return malformed(error_, about(slot) + ": ", e);
        std::string_view key;
        e = field.unescaped_key().get(key);
        if (e)
          return malformed(error_, about(slot) + ": ", e);
        bool isShape = key == "shape";
        if (!isShape && key != "data")
          return bad(about(slot), " has the unknown member '", excerpt(key), "'");
        if (pass == 0 && (isShape ? hasShape : hasData))
          return bad(about(slot), " has the member '", key, "' twice");
        (isShape ? hasShape : hasData) = true;
        ondemand::value member = field.value();
        if (isShape && pass == 0) {
          if (mlb_code code = readShape(slot, member, shape))
            return code;
        } else if (!isShape && hasShape && !dataRead) {
          std::optional<size_t> count = elementCount(shape);
          if (!count)
            return bad(about(slot), " has more elements than any message: its shape is ",
                       toString(shape));
          if (mlb_code code = readList(index, shape.data(), *count, member))
            return code;
          dataRead = true;
        }
      }
      if (!hasShape || !hasData)
        return bad(about(slot), " has no member '", hasShape ? "data" : "shape", "'");
      if (dataRead)
        return Done;
      e = object.reset().error();
      if (e)
        return malformed(error_, about(slot) + ": ", e);
    }
    return fail(error_, Code::Internal, about(slot), " was not read");
  }
  mlb_code readShape(const Slot &slot, ondemand::value &value, Shape &shape) {
    const TensorSpec &spec = slot.spec;
    const std::string wanted = "an array of " + std::to_string(spec.shape.size()) + " lengths";
    ondemand::array list;
    error_code e = value.get_array().get(list);
    if (e == simdjson::INCORRECT_TYPE)
      return unexpected(error_, about(slot) + " shape", wanted, value);
    if (e)
      return malformed(error_, about(slot) + " shape: ", e);
    shape.clear();
    for (auto item : list) {
      ondemand::value length;
      e = item.get(length);
      if (e)
        return malformed(error_, about(slot) + " shape: ", e);
      int64_t number;
      const size_t d = shape.size();
      if (d == spec.shape.size())
        return bad(about(slot), " shape has too many lengths, expected ", spec.shape.size());
      const std::string where = about(slot) + " dimension " + std::to_string(d);
      if (length.get_int64().get(number) || number < 0)
        return unexpected(error_, where, "a length", length);
      if (spec.shape[d] != Dynamic && number != spec.shape[d])
        return unexpected(error_, where, std::to_string(spec.shape[d]), length);
      if (spec.shape[d] == Dynamic && !spec.maximum.empty() && spec.maximum[d] > 0 &&
          number > spec.maximum[d])
        return unexpected(error_, where, "at most " + std::to_string(spec.maximum[d]), length);
      shape.push_back(number);
    }
    if (shape.size() != spec.shape.size())
      return bad(about(slot), " shape has ", shape.size(), " lengths, expected ",
                 spec.shape.size());
    return Done;
  }
  mlb_code readList(size_t index, const int64_t *shape, size_t count, ondemand::value &value) {
    const Slot &slot = codec_.slots()[index];
    // Each element takes a character and a comma or bracket.
    if (count > size_ / 2)
      return bad(about(slot), " needs ", elements(count), ", the message has ", size_, " bytes");
    ondemand::array list;
    error_code e = value.get_array().get(list);
    if (e == simdjson::INCORRECT_TYPE)
      return unexpected(error_, about(slot), "an array of " + elements(count), value);
    if (e)
      return malformed(error_, about(slot) + ": ", e);
    return readElements(index, shape, count, list);
  }
  /// `from`: an Item or an array.
  template <typename From>
  mlb_code readElements(size_t index, const int64_t *shape, size_t count, From &from) {
    const Slot &slot = codec_.slots()[index];
    if (slot.spec.type == ElementType::String) {
      if (mlb_code code = sink_.strings(sink_.context, index, shape, error_))
        return code;
      return forEach(slot, count, from, [&](size_t k, Item &item) {
        std::string_view text;
        if (item.get_string().get(text))
          return Refused;
        return sink_.string(sink_.context, index, k, {text.data(), text.size()}, error_);
      });
    }
    void *data = nullptr;
    if (mlb_code code = sink_.numbers(sink_.context, index, shape, &data, error_))
      return code;
    return withNumber(slot.spec.type, [&](auto type) {
      auto *to = static_cast<typename decltype(type)::type *>(data);
      const auto take = [&](size_t k, Item &item) __attribute__((always_inline)) {
        return readElement(item, to[k]) ? Done : Refused;
      };
      return forEach(slot, count, from, take);
    });
  }
  /// Calls take(k, item), which gives Done, Refused or a Code, for the elements of the list, which
  /// must be `count`; or for the one item.
  template <typename Take>
  mlb_code forEach(const Slot &slot, size_t count, ondemand::array &list, const Take &take) {
    size_t k = 0;
    for (auto item : list) {
      if (__builtin_expect(k == count, false))
        return bad(about(slot), " has more than the expected ", elements(count));
      if (mlb_code code = take(k, item); __builtin_expect(code != Done, false))
        return code == Refused ? refuse(slot, k, item) : code;
      ++k;
    }
    if (k != count)
      return bad(about(slot), " has ", elements(k), ", expected ", count);
    return Done;
  }
  template <typename Take>
  mlb_code forEach(const Slot &slot, size_t /*count*/, Item &item, const Take &take) {
    mlb_code code = take(0, item);
    return code == Refused ? refuse(slot, 0, item) : code;
  }

  mlb_code refuse(const Slot &slot, size_t k, Item &item) {
    const std::string where = slot.spec.shape.empty() ? about(slot) : about(slot, k);
    if (item.error())
      return malformed(error_, where + ": ", item.error());
    ondemand::value value = item.value_unsafe();
    std::string_view text;
    if (error_code e = value.get_string().get(text); e == simdjson::STRING_ERROR)
      return malformed(error_, where + ": ", e);
    return unexpected(error_, where, name(slot.spec.type), value);
  }

  Reader &reader_;
  const Codec &codec_;
  const uint8_t *data_;
  size_t size_;
  const mlb_tensor_sink &sink_;
  mlb_error *error_;
};

Expected<std::unique_ptr<Codec>> Codec::make(Span<const mlb_tensor_spec> specs) {
  auto codec = std::make_unique<Codec>();
  for (const mlb_tensor_spec &spec : specs) {
    Expected<TensorSpec> checked = fromComponent(spec);
    if (!checked)
      return checked.status();
    Slot slot;
    slot.spec = std::move(*checked);
    if (!appendQuoted(slot.key, slot.spec.name))
      return Status(Code::Unsupported, "the name of " + about(slot) + " is not UTF-8");
    slot.key += ':';
    slot.dynamic = slot.spec.isDynamic();
    if (!slot.dynamic) {
      std::optional<size_t> count = slot.spec.count();
      if (!count)
        return Status(Code::Unsupported, about(slot) + " is too large");
      slot.count = *count;
    }
    codec->slots_.push_back(std::move(slot));
  }
  if (Status s = codec->byName_.make(codec->slots_); !s)
    return s;
  return Expected<std::unique_ptr<Codec>>(std::move(codec));
}

mlb_code Codec::decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                       mlb_error *error) const {
  std::unique_ptr<Reader> reader(spare_.exchange(nullptr));
  if (!reader)
    reader.reset(new (std::nothrow) Reader);
  if (!reader)
    return fail(error, Code::LimitExceeded, "no memory for a parser");
  mlb_code code = Message(*reader, *this, data, size, *sink, error).read();
  Reader *none = nullptr, *mine = reader.release();
  if (!spare_.compare_exchange_strong(none, mine))
    delete mine;
  return code;
}

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec, mlb_error *error) {
  return component::give(Codec::make({specs, size}), codec, error);
}

constexpr mlb_serdes Table = component::table(create);

} // namespace

} // namespace mlbridge::json

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  static constexpr mlb_component Component =
      mlbridge::newComponent("json", nullptr, &mlbridge::json::Table, nullptr);
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
