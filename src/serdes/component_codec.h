// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the components json and protobuf share: a codec behind the table of mlbridge/component.h.
#ifndef MLBRIDGE_SERDES_COMPONENT_CODEC_H
#define MLBRIDGE_SERDES_COMPONENT_CODEC_H

#include "core/component_values.h"

#include <algorithm>
#include <memory>
#include <numeric>

namespace mlbridge::component {

/// One direction of a signature.
class Codec {
public:
  virtual ~Codec() = default;
  virtual mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const = 0;
  virtual mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                          mlb_error *error) const = 0;
};

inline mlb_code fail(mlb_error *error, Code code, const std::string &message) {
  return fail(error, Status(code, message));
}

/// "tensor 'x'".
inline std::string about(const TensorSpec &spec) { return "tensor '" + spec.name + "'"; }

/// Hands a codec over to the library, or says why there is none.
template <typename Made>
mlb_code give(Expected<std::unique_ptr<Made>> made, void **codec, mlb_error *error) {
  if (!made)
    return fail(error, made.status());
  *codec = static_cast<Codec *>((*made).release());
  return 0;
}

/// The table of a component, whose codecs are all of the class above.
template <typename Create>
constexpr mlb_serdes table(Create create, decltype(mlb_serdes::create_with) createWith = nullptr) {
  return {
      sizeof(mlb_serdes),
      create,
      [](void *codec) { delete static_cast<Codec *>(codec); },
      [](void *codec, const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) {
        return static_cast<Codec *>(codec)->encode(tensors, out, error);
      },
      [](void *codec, const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
         mlb_error *error) { return static_cast<Codec *>(codec)->decode(data, size, sink, error); },
      createWith};
}

/// Finds tensors by name. Slot has a `spec`.
template <typename Slot> class ByName {
public:
  /// Errors: Unsupported (a name stands twice).
  Status make(const std::vector<Slot> &slots) {
    order_.resize(slots.size());
    std::iota(order_.begin(), order_.end(), size_t(0));
    std::sort(order_.begin(), order_.end(),
              [&](size_t a, size_t b) { return slots[a].spec.name < slots[b].spec.name; });
    const auto twice = std::adjacent_find(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return slots[a].spec.name == slots[b].spec.name;
    });
    return twice == order_.end() ? Status()
                                 : Status(Code::Unsupported, about(slots[*twice].spec) +
                                                                 " stands twice in the signature");
  }
  /// Its index, or slots.size(); `guess` is tried first.
  size_t find(const std::vector<Slot> &slots, std::string_view name, size_t guess) const {
    if (guess < slots.size() && slots[guess].spec.name == name)
      return guess;
    const auto it =
        std::lower_bound(order_.begin(), order_.end(), name,
                         [&](size_t i, std::string_view n) { return slots[i].spec.name < n; });
    return it != order_.end() && slots[*it].spec.name == name ? *it : slots.size();
  }

private:
  std::vector<size_t> order_;
};

} // namespace mlbridge::component

#endif
