// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts that functions of the C interface share: values of its structures as those of the
// library, and what is behind its pointers.
#ifndef MLBRIDGE_C_HANDLES_H
#define MLBRIDGE_C_HANDLES_H

#include "core/convert.h"

#include <mlbridge/c/mlbridge.h>
#include <mlbridge/environment.h>
#include <mlbridge/function.h>
#include <mlbridge/model.h>
#include <mlbridge/server.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

namespace mlbridge::c {

inline mlbridge_code codeOf(const Status &status) {
  return static_cast<mlbridge_code>(status.code());
}
inline std::string textOf(const char *text) { return text ? text : ""; }
/// A number that is no code becomes Internal.
Status statusOf(mlbridge_code code, const char *message);

/// Writes the text, cut to what fits, if there is somewhere to write; its whole length.
uint64_t writeText(std::string_view text, char *to, uint64_t capacity);
/// The status's code, and its message where the caller wants it.
mlbridge_code told(const Status &status, char *message, uint64_t capacity);

/// The part of a structure that both sides know; the rest is zero. Null if there is no size.
template <typename T> bool known(const T *from, T &to) {
  if (!from || from->size < sizeof from->size)
    return false;
  to = T{};
  std::memcpy(&to, from, std::min<uint64_t>(from->size, sizeof to));
  return true;
}

/// The same. Errors: InvalidArgument (its size is not set to that of `what`).
template <typename T> Status readKnown(const T *from, T &to, const char *whose, const char *what) {
  if (known(from, to))
    return Status();
  return makeError(Code::InvalidArgument, whose, " size is not set to sizeof(", what, ")");
}

/// The same of options, which may be null: then `to` is zero.
template <typename T> Status readOptional(const T *from, T &to, const char *what) {
  to = T{};
  return from ? readKnown(from, to, "the options'", what) : Status();
}

/// Calls `body` with the number and a copy of each structure of an array, whose elements may be
/// larger than those known here, but have at least `least` bytes. Errors: InvalidArgument,
/// LimitExceeded, those of `body`.
template <typename T, typename F>
Status readArray(const T *array, uint64_t size, const char *one, const char *what, size_t least,
                 const F &body) {
  constexpr uint64_t Most = 1 << 16;
  if (size && !array)
    return makeError(Code::InvalidArgument, "the array of ", one, "s is null, but its size is ",
                     size);
  if (size > Most)
    return makeError(Code::LimitExceeded, "there are ", size, " ", one, "s; the limit is ", Most);
  const auto *at = reinterpret_cast<const unsigned char *>(array);
  for (uint64_t i = 0; i < size; ++i, at += array[0].size) {
    const std::string where = std::string(one) + " " + std::to_string(i);
    T element;
    if (!known(reinterpret_cast<const T *>(at), element) || element.size < least)
      return makeError(Code::InvalidArgument, where, ": its size is not set to sizeof(", what, ")");
    if (Status s = body(element); !s)
      return s.withContext(where);
  }
  return Status();
}

/// Errors: InvalidArgument (a structure without its size, no name, no shape), those of
/// Signature::check.
Expected<Signature> signatureOf(const mlbridge_signature &signature);

/// A signature as the C interface shows it, for as long as this object stays where it is.
class ShownSignature {
public:
  explicit ShownSignature(Signature signature);
  ShownSignature(const ShownSignature &) = delete;
  ShownSignature &operator=(const ShownSignature &) = delete;
  const mlbridge_signature *get() const { return &shown_; }

private:
  Signature signature_;
  std::vector<mlbridge_tensor_spec> inputs_, outputs_;
  mlbridge_signature shown_{};
};

/// Calls `body` with the Type of a numeric element type; else InvalidArgument.
template <typename F> Status withNumber(mlbridge_type type, const F &body) {
  if (type == MLBRIDGE_STRING)
    return Status(Code::InvalidArgument,
                  "strings have no buffer in C; use the functions whose names end in _string");
  if (type > MLBRIDGE_STRING || !isValid(static_cast<ElementType>(type)))
    return makeError(Code::InvalidArgument, type, " is not an element type");
  return mlbridge::withNumber(static_cast<ElementType>(type), body);
}

/// The address of an empty tensor, since null says that there is none.
void *nothing();

/// The one of `specs` with this name, or -1.
int find(const std::vector<TensorSpec> &specs, const char *name);

/// Null and rank 0 without a tensor; not null for a scalar.
const int64_t *shapeOf(const std::optional<TensorView> &view, uint32_t *rank);
/// Element `index` of a tensor of strings. Errors: InvalidArgument.
Expected<std::string *> stringAt(const std::optional<TensorView> &view, const char *name,
                                 uint64_t index);
Status getString(const std::optional<TensorView> &view, const char *name, uint64_t index,
                 mlbridge_string *to);
Status setString(const std::optional<TensorView> &view, const char *name, uint64_t index,
                 mlbridge_string from);

CallContext contextOf(const mlbridge_call_context &stated);
OpenOptions optionsOf(const mlbridge_open_options *stated, Status &wrong);
/// Errors: InvalidArgument.
Status readMetadata(const char *const *pairs, uint64_t size, Metadata &to);
Status readAgents(const mlbridge_agent_spec *agents, uint64_t size, std::vector<AgentSpec> &to);
/// The data of a view of numbers of this type; null if it is another.
void *numbers(const TensorView &view, mlbridge_type type, uint64_t *count);
/// The value of a key, or null.
inline const char *valueOf(const Metadata &all, const char *key) {
  const auto found = key ? all.find(key) : all.end();
  return found == all.end() ? nullptr : found->second.c_str();
}
/// Fills the part of a result that the caller knows; nothing if it states no size.
template <typename T> void giveResult(T *to, T result) {
  if (!to || to->size < sizeof to->size)
    return;
  result.size = to->size;
  std::memcpy(to, &result, std::min<uint64_t>(to->size, sizeof result));
}

} // namespace mlbridge::c

struct mlbridge_model {
  mlbridge::Model model;
  mlbridge::Status wrong;                             ///< a bad call, before the library was asked
  std::unique_ptr<mlbridge::c::ShownSignature> shown; ///< its own
  std::unique_ptr<mlbridge::c::ShownSignature> bound; ///< of the last bind
};

struct mlbridge_runner {
  mlbridge_runner() : runner(own) {}
  explicit mlbridge_runner(mlbridge::Runner &borrowed) : runner(borrowed) {}
  mlbridge::Runner own;
  mlbridge::Runner &runner; ///< own, or the library's during a callback
  mlbridge::Status wrong;   ///< the same
  std::unique_ptr<mlbridge::c::ShownSignature> shown = nullptr;
};

struct mlbridge_call {
  mlbridge::FunctionCall &call;
  std::string message; ///< of fail
  mutable std::unique_ptr<mlbridge::c::ShownSignature> shown = nullptr;
};

struct mlbridge_server {
  std::optional<mlbridge::Server> server;
  mlbridge::Status last;
};

struct mlbridge_agents {
  mlbridge::Agents agents;
  mlbridge::Status wrong;   ///< a bad call
  mlbridge::Status current; ///< whose message was asked for
};

#endif
