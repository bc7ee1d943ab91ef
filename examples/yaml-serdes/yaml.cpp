// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// "?serdes=yaml": a message that people can read, an entry for each tensor, in any order.
//
//   "embedding": {shape: [3], data: [0.5, 2, 1]}
//   "module": {shape: [], data: ["main.c"]}
//
// libyaml writes and reads YAML. The same object is linked into a program, or is all of the plugin
// libmlbridge-serdes-yaml.so.
#include <mlbridge/component.h>

#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

enum Code : mlb_code { InvalidArgument = 7, LimitExceeded = 13, Unsupported = 11, Protocol = 12 };
enum Type : uint32_t { Float16 = 9, String = 13 };

mlb_code fail(mlb_error *error, mlb_code code, const std::string &why) {
  const std::string text = "yaml: " + why;
  error->size = text.size() < error->capacity ? text.size() : error->capacity;
  std::memcpy(error->text, text.data(), error->size);
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
  /// Calls `f` with a null pointer to the C++ type that has this number, from 1 on.
  template <typename F> static void with(uint32_t type, F &&f) {
    uint32_t number = 0;
    (void)((++number == type && (f(static_cast<Numbers *>(nullptr)), true)) || ...);
  }
};
// In the order of mlbridge::ElementType. In the place of float16, which is refused, are its bits.
using Element = Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                      uint16_t, float, double, bool, mlb_string>;

// ---- writing

std::string toText(mlb_string value) { return {value.data, value.size}; }

std::string toText(bool value) { return value ? "true" : "false"; }

template <typename T> std::string toText(T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value))
      return std::isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf";
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

class Writer {
public:
  Writer() {
    if (!yaml_emitter_initialize(&emitter_))
      throw std::bad_alloc();
    yaml_emitter_set_output(&emitter_, append, &text);
    yaml_emitter_set_unicode(&emitter_, 1);
    yaml_emitter_set_width(&emitter_, -1);
    put(yaml_stream_start_event_initialize(&event_, YAML_UTF8_ENCODING));
    put(yaml_document_start_event_initialize(&event_, nullptr, nullptr, nullptr, 1));
  }
  ~Writer() { yaml_emitter_delete(&emitter_); }
  void begin(yaml_mapping_style_t style) {
    put(yaml_mapping_start_event_initialize(&event_, nullptr, nullptr, 1, style));
  }
  void scalar(const std::string &text, yaml_scalar_style_t style = YAML_PLAIN_SCALAR_STYLE) {
    auto *bytes = reinterpret_cast<const yaml_char_t *>(text.data());
    const int size = static_cast<int>(text.size());
    put(yaml_scalar_event_initialize(&event_, nullptr, nullptr, bytes, size, 1, 1, style));
  }
  template <typename T> void list(const char *key, const T *values, uint64_t size) {
    scalar(key);
    put(yaml_sequence_start_event_initialize(&event_, nullptr, nullptr, 1,
                                             YAML_FLOW_SEQUENCE_STYLE));
    for (uint64_t k = 0; k < size; ++k)
      scalar(toText(values[k]), std::is_same_v<T, mlb_string> ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                                              : YAML_PLAIN_SCALAR_STYLE);
    put(yaml_sequence_end_event_initialize(&event_));
  }
  void end() { put(yaml_mapping_end_event_initialize(&event_)); }
  void endAll() {
    end();
    put(yaml_document_end_event_initialize(&event_, 1));
    put(yaml_stream_end_event_initialize(&event_));
  }
  std::string text;

private:
  static int append(void *text, unsigned char *data, size_t size) try {
    static_cast<std::string *>(text)->append(reinterpret_cast<char *>(data), size);
    return 1;
  } catch (const std::exception &) {
    return 0;
  }
  void put(int isMade) {
    if (!isMade)
      throw std::invalid_argument("a text is not UTF-8");
    if (!yaml_emitter_emit(&emitter_, &event_))
      throw std::bad_alloc();
  }
  yaml_emitter_t emitter_;
  yaml_event_t event_;
};

mlb_code encode(void *c, const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) try {
  Writer yaml;
  yaml.begin(YAML_BLOCK_MAPPING_STYLE);
  for (const Spec &spec : static_cast<Codec *>(c)->specs) {
    const mlb_tensor &tensor = *tensors++;
    yaml.scalar(spec.name, YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    yaml.begin(YAML_FLOW_MAPPING_STYLE);
    yaml.list("shape", tensor.shape, spec.rank);
    Element::with(spec.type, [&](auto *type) {
      yaml.list("data", static_cast<decltype(type)>(tensor.data), tensor.count);
    });
    yaml.end();
  }
  yaml.endAll();
  const std::string &text = yaml.text;
  if (out->size + text.size() > out->capacity)
    if (const mlb_code code = out->reserve(out, out->size + text.size()))
      return fail(error, code, "the message is too long");
  std::memcpy(out->data + out->size, text.data(), text.size());
  out->size += text.size();
  return 0;
} catch (const std::invalid_argument &e) {
  return fail(error, InvalidArgument, e.what());
} catch (const std::exception &e) {
  return fail(error, LimitExceeded, e.what());
}

// ---- reading

template <typename T> T fromText(const std::string &text) {
  T value{};
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "false")
      return text == "true";
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (text == ".nan")
        return std::numeric_limits<T>::quiet_NaN();
      if (text == ".inf" || text == "-.inf")
        return std::numeric_limits<T>::infinity() * (text[0] == '-' ? T(-1) : T(1));
    }
    const char *const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, value);
    if (read.ec == std::errc() && read.ptr == end && !text.empty())
      return value;
  }
  throw std::runtime_error("'" + text.substr(0, 32) + "' is not a number of the tensor's type");
}

class Reader {
public:
  Reader(const uint8_t *data, size_t size) {
    if (!yaml_parser_initialize(&parser_))
      throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, data, size);
  }
  ~Reader() {
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }
  /// True if the next thing is a scalar, which `text` then has.
  bool scalar() {
    yaml_event_delete(&event_);
    if (!yaml_parser_parse(&parser_, &event_))
      throw std::runtime_error(std::string(parser_.problem ? parser_.problem : "no memory") +
                               ", byte " + std::to_string(parser_.problem_offset));
    if (event_.type != YAML_SCALAR_EVENT)
      return false;
    text.assign(reinterpret_cast<char *>(event_.data.scalar.value), event_.data.scalar.length);
    return true;
  }
  void is(yaml_event_type_t expected, const char *what) const {
    if (event_.type != expected)
      throw std::runtime_error("byte " + std::to_string(event_.start_mark.index) + ": expected " +
                               what);
  }
  void next(yaml_event_type_t expected, const char *what) {
    scalar();
    is(expected, what);
  }
  std::vector<std::string> list(const std::string &key) {
    if (!scalar() || text != key)
      throw std::runtime_error("expected '" + key + "'");
    next(YAML_SEQUENCE_START_EVENT, "'['");
    std::vector<std::string> found;
    while (scalar())
      found.push_back(text);
    is(YAML_SEQUENCE_END_EVENT, "']'");
    return found;
  }
  std::string text;

private:
  yaml_parser_t parser_;
  yaml_event_t event_{};
};

mlb_code readTensor(Reader &yaml, const Spec &spec, uint64_t i, const mlb_tensor_sink *sink,
                    mlb_error *error) {
  const std::vector<std::string> lengths = yaml.list("shape"), data = yaml.list("data");
  std::vector<int64_t> shape;
  uint64_t count = 1;
  for (const std::string &length : lengths) {
    shape.push_back(fromText<int64_t>(length));
    if (shape.back() < 0 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(shape.back()), &count))
      throw std::runtime_error("a length of the shape is out of range");
  }
  if (shape.size() != spec.rank || count != data.size())
    throw std::runtime_error("expected a shape of rank " + std::to_string(spec.rank) +
                             " and as many values as it says");
  if (spec.type == String) {
    mlb_code code = sink->strings(sink->context, i, shape.data(), error);
    for (size_t k = 0; k < data.size() && !code; ++k)
      code = sink->string(sink->context, i, k, {data[k].data(), data[k].size()}, error);
    return code;
  }
  void *numbers = nullptr;
  if (const mlb_code code = sink->numbers(sink->context, i, shape.data(), &numbers, error))
    return code;
  Element::with(spec.type, [&](auto *type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (!std::is_same_v<T, mlb_string>)
      std::transform(data.begin(), data.end(), static_cast<T *>(numbers), fromText<T>);
  });
  return 0;
}

mlb_code decode(void *c, const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                mlb_error *error) {
  const std::vector<Spec> &specs = static_cast<Codec *>(c)->specs;
  std::string name;
  try {
    Reader yaml(data, size);
    yaml.next(YAML_STREAM_START_EVENT, "a stream");
    yaml.next(YAML_DOCUMENT_START_EVENT, "a document");
    yaml.next(YAML_MAPPING_START_EVENT, "a mapping");
    std::vector<bool> seen(specs.size());
    while (yaml.scalar()) {
      name = yaml.text;
      size_t i = 0;
      while (i < specs.size() && specs[i].name != name)
        ++i;
      if (i == specs.size() || seen[i])
        throw std::runtime_error(i == specs.size() ? "is unknown" : "is there twice");
      seen[i] = true;
      yaml.next(YAML_MAPPING_START_EVENT, "'{'");
      if (const mlb_code code = readTensor(yaml, specs[i], i, sink, error))
        return code;
      yaml.next(YAML_MAPPING_END_EVENT, "'}'");
    }
    yaml.is(YAML_MAPPING_END_EVENT, "a name");
    yaml.next(YAML_DOCUMENT_END_EVENT, "the end");
    yaml.next(YAML_STREAM_END_EVENT, "the end");
    for (size_t i = 0; i < seen.size(); ++i)
      if (!seen[i])
        return fail(error, Protocol, "the tensor '" + specs[i].name + "' is missing");
    return 0;
  } catch (const std::bad_alloc &) {
    return fail(error, LimitExceeded, "the message takes more memory than there is");
  } catch (const std::exception &e) {
    return fail(error, Protocol, "tensor '" + name.substr(0, 64) + "': " + e.what());
  }
}

// ---- the tables

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **out, mlb_error *error) {
  auto codec = std::make_unique<Codec>();
  for (uint64_t i = 0; i < size; ++i) {
    codec->specs.push_back(
        {std::string(specs[i].name.data, specs[i].name.size), specs[i].type, specs[i].rank});
    if (specs[i].type == Float16)
      return fail(error, Unsupported, "has no float16");
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
