// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MLModelRunner of the 2024 release: features in by name and value, an answer out by type. A runner
// of one's own derives from it and overrides evaluateUntyped.
//
// Unlike the release's, no runner prints, exits, hangs or leaks: an evaluation ends by its
// deadline, and when there is no answer it gives a value that published loops take for "stop" (see
// evaluate) and keeps why in status().
#ifndef MLBRIDGE_COMPAT_MLMODELRUNNER_H
#define MLBRIDGE_COMPAT_MLMODELRUNNER_H

#include "MLModelRunner/Utils/LLVM.h"
#include "SerDes/baseSerDes.h"
#include "SerDes/bitstreamSerDes.h"
#include "SerDes/jsonSerDes.h"
// Programs with messages of their own include what protoc made of them first, or gRPCModelRunner.h.
#if defined(GOOGLE_PROTOBUF_VERSION) && !defined(C_LIBRARY)
#include "SerDes/protobufSerDes.h"
#endif

#include <mlbridge/deadline.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace MLBridge {

/// Used by one thread at a time.
class MLModelRunner {
public:
  enum class Kind : int { Unknown, Pipe, gRPC, ONNX, TFAOT };

  MLModelRunner(const MLModelRunner &) = delete;
  MLModelRunner &operator=(const MLModelRunner &) = delete;
  virtual ~MLModelRunner();

  Kind getKind() const { return Type; }
  SerDesKind getSerDesKind() const { return SerDesType; }
  virtual void requestExit() {}
  /// Setting it ends the server of a gRPC runner that serves. Null otherwise.
  std::promise<void> *exit_requested = nullptr;

  /// Sets features: pairs of a name and an int, long, float, double, bool, string, or a vector of
  /// these. A wrong one makes the next evaluation fail.
  template <typename... Names, typename... Values>
  void populateFeatures(const std::pair<Names, Values> &...features) {
    (populate(std::string(features.first), features.second), ...);
  }

  /// The model's answer; of several values the first, of a text its first character. Without one,
  /// -1, or 0 for bool and unsigned types, and status() says why.
  template <typename T> std::enable_if_t<std::is_fundamental_v<T>, T> evaluate() {
    std::vector<T> values;
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<uint8_t> bytes;
      return ask(bytes, false) && bytes[0] != 0;
    } else {
      return ask(values, false) ? values[0] : noAnswer<T>();
    }
  }
  /// The same for several values: `data` is made with malloc, and the caller may free it. Without
  /// an answer it is null and dataSize 0.
  template <typename T>
  std::enable_if_t<std::is_pointer_v<T> && std::is_fundamental_v<std::remove_pointer_t<T>>>
  evaluate(T &data, size_t &dataSize) {
    using Element = std::remove_pointer_t<T>;
    std::vector<std::conditional_t<std::is_same_v<Element, bool>, uint8_t, Element>> values;
    data = nullptr;
    dataSize = 0;
    if (!ask(values, true))
      return;
    void *copy = std::malloc(values.empty() ? 1 : values.size() * sizeof(Element));
    if (!copy)
      return;
    if (!values.empty())
      std::memcpy(copy, values.data(), values.size() * sizeof(Element));
    data = static_cast<T>(copy);
    dataSize = values.size();
  }

  void setRequest(void *request) {
    if (SerDes)
      SerDes->setRequest(request);
  }
  void setResponse(void *response) {
    if (SerDes)
      SerDes->setResponse(response);
  }

  // What follows is not in the release.

  /// Ok, or why the last evaluation, or the construction of this runner, failed.
  const mlbridge::Status &status() const { return Failure; }
  /// The answer, or `heuristic()` if there is none.
  template <typename T, typename Heuristic> T evaluateOr(Heuristic &&heuristic) {
    const T answer = evaluate<T>();
    return Failure.ok() ? answer : static_cast<T>(std::forward<Heuristic>(heuristic)());
  }
  template <typename T> std::enable_if_t<std::is_arithmetic_v<T>, std::vector<T>> evaluateVector() {
    std::vector<T> values;
    (void)ask(values, true);
    return values;
  }
  /// For each evaluation out of process; before it, MLBRIDGE_COMPAT_DEADLINE ("500ms", "2m") or
  /// 10 s, with which the release's gRPC runner began. Opening has the one before.
  void setDeadline(mlbridge::Duration deadline) { Limit = deadline; }
  mlbridge::Duration deadline() const { return Limit; }
  /// Called with each failure; does nothing unless set.
  void setErrorHandler(std::function<void(const mlbridge::Status &)> handler) {
    ErrorHandler = std::move(handler);
  }

protected:
  MLModelRunner(Kind Type, SerDesKind SerDesType, llvm::LLVMContext *Ctx = nullptr);
  explicit MLModelRunner(Kind Type, llvm::LLVMContext *Ctx = nullptr);

  /// Asks the model: the answer's value or values, in memory of the runner or its SerDes, or null.
  /// A runner of one's own that has no SerDes gives one value of the type that will be asked for.
  virtual void *evaluateUntyped() = 0;

  /// Keeps the first failure of an evaluation.
  void fail(mlbridge::Status status);

  llvm::LLVMContext *Ctx;
  const Kind Type;
  const SerDesKind SerDesType;
  std::unique_ptr<BaseSerDes> SerDes;

private:
  template <typename T> static constexpr T noAnswer() {
    if constexpr (std::is_void_v<T> || std::is_unsigned_v<T> || std::is_null_pointer_v<T>)
      return T();
    else
      return static_cast<T>(-1);
  }
  template <typename T> static constexpr mlbridge::ElementType elementType() {
    using mlbridge::ElementType;
    if constexpr (std::is_floating_point_v<T>) {
      static_assert(sizeof(T) <= 8, "a model's answer is a float or a double");
      return sizeof(T) == 4 ? ElementType::Float32 : ElementType::Float64;
    } else {
      constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
      return static_cast<ElementType>(
          static_cast<int>(std::is_signed_v<T> ? ElementType::Int8 : ElementType::UInt8) + size);
    }
  }
  template <typename T> bool ask(std::vector<T> &values, bool several) {
    return askFor(elementType<T>(), several, &values, [](void *into, size_t count) -> void * {
      auto &sized = *static_cast<std::vector<T> *>(into);
      sized.resize(count);
      return sized.data();
    });
  }
  bool askFor(mlbridge::ElementType type, bool several, void *into,
              void *(*resize)(void *into, size_t count));

  template <typename T> void populate(const std::string &name, const T &value) {
    if (!SerDes) {
      hasNoSerDes(name);
      return;
    }
    if constexpr (std::is_same_v<T, char *> || std::is_same_v<T, const char *> ||
                  std::is_array_v<T>)
      SerDes->setFeature(name, std::string(value));
    else if constexpr (std::is_enum_v<T>)
      SerDes->setFeature(name, static_cast<int>(value));
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      SerDes->setFeature(
          name,
          static_cast<std::conditional_t<(sizeof(T) < 4 || (sizeof(T) == 4 && std::is_signed_v<T>)),
                                         int, long>>(value));
    else
      SerDes->setFeature(name, value);
  }
  void hasNoSerDes(const std::string &feature);

  mlbridge::Status Failure;
  mlbridge::Duration Limit;
  std::function<void(const mlbridge::Status &)> ErrorHandler;
};

} // namespace MLBridge

#endif
