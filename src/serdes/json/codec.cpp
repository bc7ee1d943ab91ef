// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The JSON serdes as a component: names, and a reader for each thread that needs one. simdjson is
// its own, shared or not: no symbol leaves.
#include "serdes/json/codec.h"

namespace mlbridge::json {

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

mlb_code Codec::encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const {
  return write(slots_, tensors, out, error);
}

mlb_code Codec::decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                       mlb_error *error) const {
  std::unique_ptr<Reader, DeleteReader> reader(spare_.exchange(nullptr));
  if (!reader)
    reader.reset(newReader());
  if (!reader)
    return fail(error, Code::LimitExceeded, "no memory for a parser");
  mlb_code code = read(*reader, *this, data, size, *sink, error);
  Reader *none = nullptr, *mine = reader.release();
  if (!spare_.compare_exchange_strong(none, mine))
    DeleteReader()(mine);
  return code;
}

static mlb_code create(const mlb_tensor_spec *specs, uint64_t size, void **codec,
                       mlb_error *error) {
  return component::give(Codec::make({specs, size}), codec, error);
}

static constexpr mlb_serdes Table = component::table(create);

} // namespace mlbridge::json

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  static constexpr mlb_component Component =
      mlbridge::newComponent("json", nullptr, &mlbridge::json::Table, nullptr);
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
