// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The base of the components json and protobuf: a codec behind the table of mlbridge/component.h.
#ifndef MLBRIDGE_SERDES_COMPONENT_CODEC_H
#define MLBRIDGE_SERDES_COMPONENT_CODEC_H

#include "core/component_values.h"
#include "core/message.h"

#include <map>
#include <memory>

namespace mlbridge::component {

/// One direction of a signature.
class Codec {
public:
  virtual ~Codec() = default;
  virtual mlb_code encode(const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error) const = 0;
  virtual mlb_code decode(const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                          mlb_error *error) const = 0;
};

template <typename... Parts> mlb_code fail(mlb_error *error, Code code, const Parts &...parts) {
  return fail(error, makeError(code, parts...));
}

/// "tensor 'x'".
inline std::string about(const TensorSpec &spec) { return "tensor '" + spec.name + "'"; }

/// Hands a codec over to the library, or says why there is none.
template <typename Derived>
mlb_code give(Expected<std::unique_ptr<Derived>> result, void **codec, mlb_error *error) {
  if (!result)
    return fail(error, result.status());
  *codec = static_cast<Codec *>((*result).release());
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
  /// Refers to the names of the slots. Errors: Unsupported (a name stands twice).
  Status make(const std::vector<Slot> &slots) {
    for (size_t i = 0; i < slots.size(); ++i)
      if (!indices_.emplace(slots[i].spec.name, i).second)
        return Status(Code::Unsupported, about(slots[i].spec) + " stands twice in the signature");
    return Status();
  }
  /// Its index, or slots.size(); `guess` is tried first.
  size_t find(const std::vector<Slot> &slots, std::string_view name, size_t guess) const {
    if (guess < slots.size() && slots[guess].spec.name == name)
      return guess;
    const auto found = indices_.find(name);
    return found == indices_.end() ? slots.size() : found->second;
  }

private:
  std::map<std::string_view, size_t> indices_;
};

} // namespace mlbridge::component

#endif
