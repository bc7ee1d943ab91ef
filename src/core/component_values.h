// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's values as the structures of the component table, and back.
#ifndef MLBRIDGE_CORE_COMPONENT_VALUES_H
#define MLBRIDGE_CORE_COMPONENT_VALUES_H

#include <mlbridge/component.h>
#include <mlbridge/tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

inline mlb_string toComponent(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view fromComponent(mlb_string text) {
  return text.data ? std::string_view(text.data, text.size) : std::string_view();
}

/// The place for a component's message of one call.
class ComponentError {
public:
  mlb_error *get() {
    error_ = {text_, sizeof text_, 0};
    return &error_;
  }
  /// Ok if code is 0; a number that is no Code becomes Internal.
  Status status(mlb_code code, std::string_view where) const;

private:
  char text_[1024];
  mlb_error error_ = {nullptr, 0, 0};
};

/// What a function of a table returns; a failure's message is written, cut to what fits.
mlb_code fail(mlb_error *error, const Status &status);

/// For the time of a call: both refer to what they were made from.
std::vector<mlb_tensor_spec> toComponent(Span<const TensorSpec> specs);
std::vector<mlb_option> toComponent(const std::map<std::string, std::string> &options);

/// Errors: those of TensorSpec::check.
Expected<TensorSpec> fromComponent(const mlb_tensor_spec &spec);

} // namespace mlbridge

#endif
