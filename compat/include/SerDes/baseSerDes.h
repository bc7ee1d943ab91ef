// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// BaseSerDes of the 2024 release: features to bytes, and a reply's bytes to values. A SerDes of
// one's own derives from it, overrides setFeature, getSerializedData, deserializeUntyped and
// cleanDataStructures, and is made known with registerSerDes.
#ifndef MLBRIDGE_COMPAT_BASESERDES_H
#define MLBRIDGE_COMPAT_BASESERDES_H

#include "MLModelRunner/Utils/Debug.h"

#include <mlbridge/status.h>
#include <mlbridge/tensor.h>

#include <cassert>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

// TYPE, NAME
#define SUPPORTED_TYPES(M)                                                                         \
  M(int, int)                                                                                      \
  M(long, long)                                                                                    \
  M(float, float)                                                                                  \
  M(double, double)                                                                                \
  M(std::string, string)                                                                           \
  M(bool, bool)

// In a SerDes that overrides what SUPPORTED_TYPES says.
#define MLBRIDGE_COMPAT_OVERRIDE(TYPE, _)                                                          \
  void setFeature(const std::string &name, const TYPE value) override;                             \
  void setFeature(const std::string &name, const std::vector<TYPE> &value) override;

namespace google::protobuf {
class Message;
}

namespace MLBridge {

/// NewSD and above are free for kinds of one's own.
enum class SerDesKind : int { Unknown, Json, Bitstream, Protobuf, Tensorflow, NewSD = 100 };

class BaseSerDes {
public:
  using Kind = SerDesKind;

  BaseSerDes(const BaseSerDes &) = delete;
  BaseSerDes &operator=(const BaseSerDes &) = delete;
  virtual ~BaseSerDes();
  Kind getKind() const { return Type; }

  /// Sets a feature, a key and its value. What a SerDes doesn't override is an error at the next
  /// evaluation.
#define SET_FEATURE(TYPE, _)                                                                       \
  virtual void setFeature(const std::string &name, const TYPE value);                              \
  virtual void setFeature(const std::string &name, const std::vector<TYPE> &value);
  SUPPORTED_TYPES(SET_FEATURE)
#undef SET_FEATURE
  virtual void setFeature(const std::string &name, const google::protobuf::Message *value);
  virtual void setFeature(const std::string &name,
                          const std::vector<google::protobuf::Message *> &value);

  /// The messages that a SerDes of protobuf fills in and reads. They stay the caller's.
  virtual void setRequest(void *Request) { RequestVoid = Request; }
  virtual void setResponse(void *Response) { ResponseVoid = Response; }
  virtual void *getRequest() { return RequestVoid; }
  virtual void *getResponse() { return ResponseVoid; }

  /// A std::string with the message, and forgets the features. The string of a SerDes of this
  /// library belongs to it and is valid until the next call; null after an error.
  virtual void *getSerializedData() = 0;
  /// Takes a std::string with a reply (Protobuf: the message); gives its value or values, valid
  /// until the next call, and sets the message length. Null after an error.
  virtual void *deserializeUntyped(void *data) = 0;
  /// Bytes of what deserializeUntyped gave.
  size_t getMessageLength() { return MessageLength; }

  /// Not in the release: forgets the features.
  void clear() { cleanDataStructures(); }
  /// Not in the release: why the last features, serialization or reply failed. Taking it resets it.
  mlbridge::Status takeStatus();

  /// Not in the release: the values of the last reply with the type that they have in it, while
  /// `returned` is what deserializeUntyped gave. A SerDes that knows no types leaves it empty.
  struct Values {
    const void *returned = nullptr;
    mlbridge::ElementType type = mlbridge::ElementType::Int64; ///< String: of one text, its bytes
    const void *data = nullptr;
    size_t count = 0;
  };
  const Values &values() const { return Read; }

protected:
  explicit BaseSerDes(Kind Type) : Type(Type) {}
  virtual void cleanDataStructures() = 0;
  /// Keeps the first of several errors.
  void fail(mlbridge::Code code, std::string message);

  const Kind Type;
  void *RequestVoid = nullptr;
  void *ResponseVoid = nullptr;
  size_t MessageLength = 0;
  Values Read;

private:
  void notSupported(const std::string &name, const char *type);
  mlbridge::Status Failure;
};

/// Makes runners that are given this kind use the SerDes that `make` returns; a later call replaces
/// an earlier one. Kinds of this library can be replaced as well. Thread-safe.
void registerSerDes(SerDesKind kind, std::function<std::unique_ptr<BaseSerDes>()> make);
/// Null if nothing makes that kind.
std::unique_ptr<BaseSerDes> makeSerDes(SerDesKind kind);

} // namespace MLBridge

#endif
