// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The protobuf serdes as a component, and what its two kinds of messages share.
#include "serdes/protobuf/codec.h"
#include "core/utf8.h"

namespace mlbridge::protobuf {

static std::string tooLong(const char *said, uint64_t size) {
  return "the message " + (said + (" " + std::to_string(size))) +
         " bytes, a protobuf message has at most " + std::to_string(MaxMessage);
}

mlb_code reserve(mlb_buffer &out, uint64_t size, mlb_error *error) {
  if (size > MaxMessage)
    return fail(error, Code::LimitExceeded, tooLong("would have", size));
  if (mlb_code code = out.reserve(&out, out.size + size))
    return fail(error, static_cast<Code>(code), "no memory for a message of ", size, " bytes");
  return 0;
}

Status checkSize(uint64_t size) {
  return size > MaxMessage ? Status(Code::Protocol, tooLong("has", size)) : Status();
}

std::string noBool(const TensorSpec &spec, size_t element, uint8_t value) {
  return about(spec) + " element " + std::to_string(element) + " is " + std::to_string(value) +
         ", a bool is 0 or 1";
}

std::string quoted(std::string_view text) {
  constexpr size_t Most = 80;
  const bool utf8 = isUtf8(text);
  std::string result = "'";
  for (const char c : text.substr(0, Most)) {
    const auto byte = static_cast<unsigned char>(c);
    result +=
        byte < 0x20 || byte == 0x7f || (byte >= 0x80 && (!utf8 || text.size() > Most)) ? '?' : c;
  }
  return result + (text.size() > Most ? "...'" : "'");
}

namespace {

mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec, mlb_error *error) {
  return component::give(newTensorListCodec({specs, size}), codec, error);
}

mlb_code create_with(const mlb_tensor_spec *specs, uint64_t size, uint32_t side,
                     const mlb_option *options, uint64_t options_size, void **codec,
                     mlb_error *error) {
  std::string proto, message, method;
  for (uint64_t i = 0; i < options_size; ++i) {
    const std::string_view key = fromComponent(options[i].key);
    const std::string_view value = fromComponent(options[i].value);
    if (key == "proto")
      proto = value;
    else if (key == (side ? "reply" : "request"))
      message = value;
    else if (key == "call")
      method = value;
  }
  return component::give(
      newMessageCodec({specs, size}, side ? "outputs" : "inputs", proto, message, method), codec,
      error);
}

constexpr mlb_serdes Table = component::table(create, create_with);

} // namespace

} // namespace mlbridge::protobuf

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  static constexpr mlb_component Component =
      mlbridge::newComponent("protobuf", nullptr, &mlbridge::protobuf::Table, nullptr);
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
