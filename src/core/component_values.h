// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library's values as the structures of the component table, and back.
#ifndef MLBRIDGE_CORE_COMPONENT_VALUES_H
#define MLBRIDGE_CORE_COMPONENT_VALUES_H

#include <mlbridge/component.h>
#include <mlbridge/tensor.h>
#include <mlbridge/uri.h>

#include <string>
#include <string_view>
#include <vector>

namespace mlbridge {

constexpr mlb_string toComponent(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view fromComponent(mlb_string text) {
  return text.data ? std::string_view(text.data, text.size) : std::string_view();
}

/// What mlb_component_entry returns: the name and one table, of which the other two are null.
constexpr mlb_component newComponent(std::string_view name, const mlb_engine *engine,
                                     const mlb_serdes *serdes, const mlb_transport *transport) {
  constexpr uint32_t Version = 0 << 16 | 1 << 8 | 0;
  return {sizeof(mlb_component),
          MLB_COMPONENT_ABI,
          Version,
          toComponent(name),
          engine,
          serdes,
          transport};
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

/// Writes a message as a component does: cut to what fits.
void fill(mlb_error *error, std::string_view message);
/// What a function of a table returns; a failure's message is written.
mlb_code fail(mlb_error *error, const Status &status);

/// Tensor specs for the time of a call; refers to those it was made from.
class ComponentSpecs {
public:
  explicit ComponentSpecs(Span<const TensorSpec> specs);
  const mlb_tensor_spec *data() const { return specs_.data(); }
  size_t size() const { return specs_.size(); }

private:
  std::vector<mlb_tensor_spec> specs_;
};

/// The options of a URI for the time of a call; refers to it.
class ComponentOptions {
public:
  explicit ComponentOptions(const Uri &uri);
  const mlb_option *data() const { return options_.data(); }
  size_t size() const { return options_.size(); }

private:
  std::vector<mlb_option> options_;
};

/// Errors: those of TensorSpec::check.
Expected<TensorSpec> fromComponent(const mlb_tensor_spec &spec);

} // namespace mlbridge

#endif
