// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The codec around read and write: names, and a reader for each thread that needs one.
#include "serdes/json/codec.h"
#include "core/component_values.h"
#include "serdes/json/read.h"
#include "serdes/json/write.h"

#include <algorithm>
#include <new>
#include <numeric>

namespace mlbridge::json {

mlb_code fail(mlb_error *error, Code code, const std::string &message) {
  fill(error, message);
  return static_cast<mlb_code>(code);
}

std::string about(const Slot &slot) { return "tensor '" + slot.spec.name + "'"; }
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
  const std::vector<Slot> &slots = codec->slots_;
  std::vector<size_t> &order = codec->byName_;
  order.resize(slots.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return slots[a].spec.name < slots[b].spec.name; });
  for (size_t i = 1; i < order.size(); ++i)
    if (slots[order[i]].spec.name == slots[order[i - 1]].spec.name)
      return Status(Code::Unsupported, about(slots[order[i]]) + " stands twice in the signature");
  return Expected<std::unique_ptr<Codec>>(std::move(codec));
}

size_t Codec::find(std::string_view name, size_t guess) const {
  if (guess < slots_.size() && slots_[guess].spec.name == name)
    return guess;
  auto it = std::lower_bound(byName_.begin(), byName_.end(), name,
                             [&](size_t i, std::string_view n) { return slots_[i].spec.name < n; });
  return it != byName_.end() && slots_[*it].spec.name == name ? *it : slots_.size();
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
