// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The codec around read and write: names, and a reader for each thread that needs one.
#include "serdes/json/codec.h"
#include "serdes/json/read.h"
#include "serdes/json/write.h"

#include <new>

namespace mlbridge::json {

std::string about(const Slot &slot, size_t element) {
  return about(slot) + " element " + std::to_string(element);
}

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

} // namespace mlbridge::json
