// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JsonSerDes of the 2024 release; compat/README.md has its bytes.
#ifndef MLBRIDGE_COMPAT_JSONSERDES_H
#define MLBRIDGE_COMPAT_JSONSERDES_H

#include "SerDes/baseSerDes.h"

namespace MLBridge {

class JsonSerDes : public BaseSerDes {
public:
  JsonSerDes() : BaseSerDes(Kind::Json) {}
  static bool classof(const BaseSerDes *S) { return S->getKind() == Kind::Json; }

  using BaseSerDes::setFeature;
  SUPPORTED_TYPES(MLBRIDGE_COMPAT_OVERRIDE)

  void *getSerializedData() override;
  void *deserializeUntyped(void *data) override;
  void cleanDataStructures() override;

private:
  /// Each feature's value, written out; the release wrote them in the order of their names.
  std::map<std::string, std::string> Features;
  std::string Message;
  // The reply twice: as it is, and as the release gave it (int, float, bool).
  std::vector<int64_t> Integers;
  std::vector<double> Reals;
  std::vector<uint8_t> Bools;
  std::vector<std::string> Texts;
  std::vector<int32_t> PublishedIntegers;
  std::vector<float> PublishedReals;
};

} // namespace MLBridge

#endif
