// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TensorflowSerDes of the 2024 release: features are written into the buffers of a model that
// TensorFlow compiled ahead of time. Needs no header of TensorFlow: the model's class is a
// parameter of TFModelRunner.
#ifndef MLBRIDGE_COMPAT_TENSORFLOWSERDES_H
#define MLBRIDGE_COMPAT_TENSORFLOWSERDES_H

#include "SerDes/baseSerDes.h"

#include <functional>

namespace MLBridge {

class TensorflowSerDes : public BaseSerDes {
public:
  /// The buffer of a feature, and its bytes if the class tells (otherwise 0); null for a feature
  /// that the model doesn't have, which is ignored as in the release.
  using Buffer = std::function<void *(const std::string &name, size_t &bytes)>;

  explicit TensorflowSerDes(Buffer buffer = {}) : BaseSerDes(Kind::Tensorflow), Find(buffer) {}
  static bool classof(const BaseSerDes *S) { return S->getKind() == Kind::Tensorflow; }

  using BaseSerDes::setFeature;
#define SET_FEATURE(TYPE)                                                                          \
  void setFeature(const std::string &name, const TYPE value) override { put(name, &value, 1); }    \
  void setFeature(const std::string &name, const std::vector<TYPE> &value) override {              \
    put(name, value.data(), value.size());                                                         \
  }
  SET_FEATURE(int)
  SET_FEATURE(long)
  SET_FEATURE(float)
  SET_FEATURE(double)
#undef SET_FEATURE
  void setFeature(const std::string &name, const bool value) override { put(name, &value, 1); }
  void setFeature(const std::string &name, const std::vector<bool> &value) override {
    const std::vector<uint8_t> bytes(value.begin(), value.end());
    put(name, bytes.data(), bytes.size());
  }

  void *getSerializedData() override { return nullptr; }
  void *deserializeUntyped(void *data) override { return data; }
  /// Not in the release: the bytes of a result, where the model's class tells them.
  void setMessageLength(size_t bytes) { MessageLength = bytes; }

protected:
  void cleanDataStructures() override {}

private:
  template <typename T> void put(const std::string &name, const T *values, size_t count) {
    size_t bytes = 0;
    void *const to = Find ? Find(name, bytes) : nullptr;
    if (!to)
      return;
    if (bytes != 0 && bytes != count * sizeof(T))
      fail(mlbridge::Code::InvalidArgument, "feature '" + name + "' has " +
                                                std::to_string(count * sizeof(T)) +
                                                " bytes, the model takes " + std::to_string(bytes));
    else if (count)
      std::memcpy(to, values, count * sizeof(T));
  }

  Buffer Find;
};

} // namespace MLBridge

#endif
