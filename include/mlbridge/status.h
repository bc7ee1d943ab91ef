// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors as values: a code chosen by what the caller can do next, and a message that says where,
// what was expected and what came. Usable without exceptions and without RTTI.
#ifndef MLBRIDGE_STATUS_H
#define MLBRIDGE_STATUS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mlbridge {

/// The kind of an error. The numbers are fixed: they travel in error frames and through the
/// component table. docs/errors.md lists for each what causes it and what to do.
enum class Code : int32_t {
  Ok = 0,               ///< no error
  DeadlineExceeded = 1, ///< the time given has passed; nothing is known about the other side
  Unavailable = 2,      ///< nobody there, or this Model's circuit breaker is open
  Busy = 3,             ///< the other side is there and refuses more work now
  Closed = 4,           ///< the other side ended the connection (end of file)
  PolicyFailed = 5,     ///< the model ran and failed, or answered what the caller cannot use
  Cancelled = 6,        ///< the caller gave up, or the server is shutting down
  InvalidArgument = 7,  ///< the call is wrong: a name, type, count, URI or option
  Mismatch = 8,         ///< pass and model disagree on the signature or on what metadata says
  InvalidModel = 9,     ///< the model file is damaged or not a model
  NotFound = 10,        ///< no such file, component, library or registered name
  Unsupported = 11,     ///< understood, but not supported here
  Protocol = 12,        ///< bytes that break docs/protocol.md, or a peer of another version
  LimitExceeded = 13,   ///< a length, count or size beyond the agreed limit
  Internal = 14,        ///< a bug in MLBridge
};

/// The next step of a caller after an error.
enum class NextStep : uint8_t {
  Proceed,  ///< Ok
  Retry,    ///< the same call may work later; until then, fall back
  FallBack, ///< use the heuristic; asking again will not help this time
  FixCall,  ///< the program, option or URI has to be changed
  FixModel, ///< the model, its metadata or the other side has to be changed
  Stop,     ///< report a bug
};

/// "mismatch", "not found", ...; static.
const char *name(Code code);
NextStep nextStep(Code code);
const char *name(NextStep step); ///< "fall back", "fix the call", ...; static

template <typename T> class Expected;

/// A code and, unless Ok, a message of one line without a full stop. Copyable. An Ok status is one
/// null pointer, so that success costs next to nothing.
class [[nodiscard]] Status {
public:
  /// Ok: no error.
  Status() = default;
  /// `message`: one line that says where, what was expected and what came.
  [[gnu::cold]] Status(Code code, std::string message);
  [[gnu::cold]] Status(Code code, const char *message);

  /// What is moved from is Ok.
  Status(const Status &other) : failure_(other.failure_ ? copyOf(*other.failure_) : nullptr) {}
  Status(Status &&other) noexcept : failure_(std::exchange(other.failure_, nullptr)) {}
  Status &operator=(Status other) noexcept {
    std::swap(failure_, other.failure_);
    return *this;
  }
  ~Status() {
    if (failure_)
      drop(failure_);
  }

  /// True if there is no error.
  bool ok() const { return !failure_; }
  explicit operator bool() const { return ok(); }
  template <typename T = void> bool isOk() const {
    static_assert(sizeof(T *) == 0, "isOk() is now ok(), and what Status::ok() made is Status()");
    return ok();
  }
  /// What went wrong.
  Code code() const { return failure_ ? codeOf(*failure_) : Code::Ok; }
  /// The place and the cause; empty if Ok. Lives as long as the status.
  const std::string &message() const;
  std::string toString() const; ///< "mismatch: <message>", or "ok"
  /// The same code with "<where>: " before the message.
  Status withContext(std::string_view where) const;

private:
  struct Failure;
  [[gnu::cold]] static Code codeOf(const Failure &failure);
  [[gnu::cold]] static Failure *copyOf(const Failure &failure);
  [[gnu::cold]] static void drop(Failure *failure);
  [[gnu::cold]] static Failure *missing();
  /// Ok becomes Internal.
  void expectFailure() {
    if (!failure_)
      failure_ = missing();
  }
  template <typename T> friend class Expected;

  Failure *failure_ = nullptr; ///< null if Ok
};

/// A value or the Status that says why there is none.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : value_(std::move(value)) {} ///< with a value
  /// An Ok status is a mistake of the caller's, and becomes Internal.
  Expected(Status status) : status_(std::move(status)) { status_.expectFailure(); }

  /// True if there is a value.
  bool hasValue() const { return value_.has_value(); }
  explicit operator bool() const { return hasValue(); }
  /// Ok if there is a value, or why there is none.
  const Status &status() const { return status_; }

  /// Requires hasValue().
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

  /// A copy of the value, or `other`.
  template <typename U> T valueOr(U &&other) const & {
    return hasValue() ? *value_ : static_cast<T>(std::forward<U>(other));
  }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace mlbridge

#endif
