// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// "?serdes=yaml": a message is a mapping that people can read, an entry for each tensor.
//
//   "embedding": {shape: [3], data: [0.5, 2, 1]}
//   "module": {shape: [], data: ["main.c"]}
//
// Read are such entries in any order, with spaces, line ends and comments anywhere between words.
// The same object is linked into a program, or is all of the plugin libmlbridge-serdes-yaml.so.
#include <mlbridge/component.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace {

enum Code : mlb_code { Unsupported = 11, Protocol = 12 };
enum Type : uint32_t { Float16 = 9, String = 13 };

mlb_code fail(mlb_error *error, mlb_code code, const std::string &why) {
  error->size = why.size() < error->capacity ? why.size() : error->capacity;
  std::memcpy(error->text, why.data(), error->size);
  return code;
}

struct Spec {
  std::string name;
  uint32_t type = 0, rank = 0;
};
struct Codec {
  std::vector<Spec> specs;
};

template <typename... Numbers> struct Types {
  /// Calls `f` with a null pointer to the C++ type that has this number, from 1 on; false if none
  /// has.
  template <typename F> static bool with(uint32_t type, F &&f) {
    uint32_t number = 0;
    return ((++number == type && f(static_cast<Numbers *>(nullptr))) || ...);
  }
};
// In the order of mlbridge::ElementType. In the place of float16, which is refused, are its bits.
using Number = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                     uint16_t, float, double, bool>;

// ---- writing

void writeText(std::string &out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

template <typename T> void writeNumber(std::string &out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else {
    if constexpr (std::is_floating_point_v<T>)
      if (!std::isfinite(value)) {
        out += std::isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf";
        return;
      }
    char text[32];
    out.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
}

mlb_code encode(void *c, const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) {
  const Codec &codec = *static_cast<Codec *>(c);
  std::string text;
  for (size_t i = 0; i < codec.specs.size(); ++i) {
    const Spec &spec = codec.specs[i];
    const mlb_tensor &tensor = tensors[i];
    writeText(text, spec.name);
    text += ": {shape: [";
    for (uint32_t d = 0; d < spec.rank; ++d)
      text += (d ? ", " : "") + std::to_string(tensor.shape[d]);
    text += "], data: [";
    for (uint64_t k = 0; k < tensor.count; ++k) {
      if (k)
        text += ", ";
      if (spec.type == String) {
        const mlb_string &s = static_cast<const mlb_string *>(tensor.data)[k];
        writeText(text, {s.data, s.size});
      } else {
        Number::with(spec.type, [&](auto *type) {
          using T = std::remove_pointer_t<decltype(type)>;
          writeNumber(text, static_cast<const T *>(tensor.data)[k]);
          return true;
        });
      }
    }
    text += "]}\n";
  }
  if (out->size + text.size() > out->capacity)
    if (const mlb_code code = out->reserve(out, out->size + text.size()))
      return fail(error, code, "yaml: the message is too long");
  std::memcpy(out->data + out->size, text.data(), text.size());
  out->size += text.size();
  return 0;
}

// ---- reading

class Reader {
public:
  explicit Reader(std::string_view text) : text_(text) {}

  void skip() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        while (at_ < text_.size() && text_[at_] != '\n')
          ++at_;
      else if (std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0')
        ++at_;
      else
        break;
    }
  }
  bool atEnd() {
    skip();
    return at_ == text_.size();
  }
  bool take(std::string_view word) {
    skip();
    if (text_.substr(at_, word.size()) != word)
      return false;
    at_ += word.size();
    return true;
  }
  bool quoted(std::string &out) {
    if (!take("\""))
      return false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (c != '\\') {
        out += c;
        continue;
      }
      if (++at_ == text_.size())
        return false;
      if (text_[at_] == '"' || text_[at_] == '\\') {
        out += text_[at_];
        continue;
      }
      unsigned code = 0;
      const char *digits = text_.data() + at_ + 1;
      if (text_[at_] != 'x' || text_.size() - at_ < 3 ||
          std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2 || code > 0x7f)
        return false;
      out += static_cast<char>(code);
      at_ += 2;
    }
    return false;
  }
  /// A word up to ',' , ']' or white space.
  std::string_view plain() {
    skip();
    const size_t end = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }
  size_t at() const { return at_; }

private:
  std::string_view text_;
  size_t at_ = 0;
};

template <typename T> bool readNumber(std::string_view word, T &value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = word == "true";
    return value || word == "false";
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      const bool isMinus = word == "-.inf";
      if (word == ".nan" || word == ".inf" || isMinus) {
        value = word == ".nan" ? std::numeric_limits<T>::quiet_NaN()
                               : std::numeric_limits<T>::infinity() * (isMinus ? T(-1) : T(1));
        return true;
      }
    }
    const char *const end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, value);
    return read.ec == std::errc() && read.ptr == end && !word.empty();
  }
}

/// One entry, after its name.
mlb_code readEntry(Reader &reader, const Spec &spec, uint64_t i, const mlb_tensor_sink *sink,
                   mlb_error *error) {
  const auto bad = [&](const char *expected) {
    return fail(error, Protocol,
                "yaml: tensor '" + spec.name + "', byte " + std::to_string(reader.at()) + ": " +
                    expected + " was expected");
  };
  if (!reader.take(":") || !reader.take("{") || !reader.take("shape") || !reader.take(":") ||
      !reader.take("["))
    return bad("': {shape: ['");
  std::vector<int64_t> shape(spec.rank);
  for (uint32_t d = 0; d < spec.rank; ++d)
    if ((d != 0 && !reader.take(",")) || !readNumber(reader.plain(), shape[d]) || shape[d] < 0)
      return bad("a length for each dimension");
  if (!reader.take("]"))
    return bad("a length for each dimension");
  if (!reader.take(",") || !reader.take("data") || !reader.take(":") || !reader.take("["))
    return bad("', data: ['");
  // The elements first, so that memory is taken only for what has come.
  std::vector<std::string_view> words;
  std::vector<std::string> texts;
  const auto count = [&] { return spec.type == String ? texts.size() : words.size(); };
  while (!reader.take("]")) {
    if (count() != 0 && !reader.take(","))
      return bad("',' or ']'");
    if (spec.type != String)
      words.push_back(reader.plain());
    else if (!reader.quoted(texts.emplace_back()))
      return bad("text in double quotes");
    else
      continue;
    if (words.back().empty())
      return bad("a value");
  }
  if (!reader.take("}"))
    return bad("'}'");
  uint64_t product = 1;
  for (const int64_t length : shape)
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(length), &product))
      return bad("a shape that fits the data");
  if (product != count())
    return bad("as many values as the shape says");
  if (spec.type == String) {
    if (const mlb_code code = sink->strings(sink->context, i, shape.data(), error))
      return code;
    for (size_t k = 0; k < texts.size(); ++k)
      if (const mlb_code code =
              sink->string(sink->context, i, k, {texts[k].data(), texts[k].size()}, error))
        return code;
    return 0;
  }
  void *data = nullptr;
  if (const mlb_code code = sink->numbers(sink->context, i, shape.data(), &data, error))
    return code;
  const bool read = Number::with(spec.type, [&](auto *type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (size_t k = 0; k < words.size(); ++k)
      if (!readNumber(words[k], static_cast<T *>(data)[k]))
        return false;
    return true;
  });
  return read ? 0 : bad("numbers of the type, and in its range,");
}

mlb_code decode(void *c, const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                mlb_error *error) {
  const Codec &codec = *static_cast<Codec *>(c);
  Reader reader({reinterpret_cast<const char *>(data), size});
  std::vector<bool> seen(codec.specs.size());
  while (!reader.atEnd()) {
    std::string name;
    if (!reader.quoted(name))
      return fail(error, Protocol,
                  "yaml: byte " + std::to_string(reader.at()) +
                      ": a name in double quotes was expected");
    size_t i = 0;
    while (i < codec.specs.size() && codec.specs[i].name != name)
      ++i;
    if (i == codec.specs.size() || seen[i])
      return fail(error, Protocol,
                  "yaml: the tensor '" + name.substr(0, 64) + "' is " +
                      (i == codec.specs.size() ? "unknown" : "there twice"));
    seen[i] = true;
    if (const mlb_code code = readEntry(reader, codec.specs[i], i, sink, error))
      return code;
  }
  for (size_t i = 0; i < seen.size(); ++i)
    if (!seen[i])
      return fail(error, Protocol, "yaml: the tensor '" + codec.specs[i].name + "' is missing");
  return 0;
}

// ---- the tables

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **out, mlb_error *error) {
  auto codec = std::make_unique<Codec>();
  for (uint64_t i = 0; i < size; ++i) {
    codec->specs.push_back(
        {std::string(specs[i].name.data, specs[i].name.size), specs[i].type, specs[i].rank});
    if (specs[i].type == Float16)
      return fail(error, Unsupported, "yaml: has no float16");
  }
  *out = codec.release();
  return 0;
}

void destroy(void *codec) { delete static_cast<Codec *>(codec); }

constexpr mlb_serdes SerDes = {sizeof(mlb_serdes), create, destroy, encode, decode, nullptr};
constexpr mlb_component Component = {
    sizeof(mlb_component), MLB_COMPONENT_ABI, 0x000100, {"yaml", 4}, nullptr, &SerDes, nullptr};

} // namespace

const mlb_component &yamlComponent() { return Component; }

#ifdef YAML_PLUGIN
extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
#endif
