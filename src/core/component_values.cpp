// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's values as the structures of the component table, and back.
#include "core/component_values.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

Status ComponentError::status(mlb_code code, std::string_view where) const {
  if (code == 0)
    return Status();
  std::string text(where);
  const size_t size = std::min<uint64_t>(error_.size, sizeof text_);
  if (size)
    text.append(": ").append(text_, size);
  if (code < 0 || code > static_cast<mlb_code>(Code::Internal))
    return makeError(Code::Internal, text, " (error number ", code, ")");
  return Status(static_cast<Code>(code), std::move(text));
}

mlb_code fail(mlb_error *error, const Status &status) {
  if (!status && error && error->text) {
    error->size = std::min<uint64_t>(error->capacity, status.message().size());
    std::memcpy(error->text, status.message().data(), error->size);
  }
  return static_cast<mlb_code>(status.code());
}

std::vector<mlb_tensor_spec> toComponent(Span<const TensorSpec> specs) {
  std::vector<mlb_tensor_spec> copies;
  copies.reserve(specs.size());
  for (const TensorSpec &spec : specs)
    copies.push_back({toComponent(spec.name), static_cast<uint32_t>(spec.type),
                      static_cast<uint32_t>(spec.shape.size()), spec.shape.data(),
                      spec.maximum.empty() ? nullptr : spec.maximum.data()});
  return copies;
}

std::vector<mlb_option> toComponent(const std::map<std::string, std::string> &options) {
  std::vector<mlb_option> copies;
  copies.reserve(options.size());
  for (const auto &[key, value] : options)
    copies.push_back({toComponent(key), toComponent(value)});
  return copies;
}

Expected<TensorSpec> fromComponent(const mlb_tensor_spec &spec) {
  TensorSpec out;
  out.name = std::string(fromComponent(spec.name));
  out.type =
      spec.type <= 0xff ? static_cast<ElementType>(spec.type) : static_cast<ElementType>(0xff);
  if (spec.rank && !spec.shape)
    return makeError(Code::InvalidArgument, "tensor '", out.name, "' has a rank but no shape");
  if (spec.rank)
    out.shape.assign(spec.shape, spec.shape + spec.rank);
  if (spec.rank && spec.maximum)
    out.maximum.assign(spec.maximum, spec.maximum + spec.rank);
  if (Status s = out.check(); !s)
    return s;
  return out;
}

} // namespace mlbridge
