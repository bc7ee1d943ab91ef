// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// BitstreamSerDes of the 2024 release; compat/README.md has its bytes.
#ifndef MLBRIDGE_COMPAT_BITSTREAMSERDES_H
#define MLBRIDGE_COMPAT_BITSTREAMSERDES_H

#include "SerDes/TensorSpec.h"
#include "SerDes/baseSerDes.h"

namespace MLBridge {

class BitstreamSerDes : public BaseSerDes {
public:
  BitstreamSerDes() : BaseSerDes(Kind::Bitstream) {}
  static bool classof(const BaseSerDes *S) { return S->getKind() == Kind::Bitstream; }

  using BaseSerDes::setFeature;
  SUPPORTED_TYPES(MLBRIDGE_COMPAT_OVERRIDE)

  void *getSerializedData() override;
  void *deserializeUntyped(void *data) override;
  void cleanDataStructures() override;

private:
  void add(TensorSpec spec, const void *data);
  std::vector<TensorSpec> Specs;
  std::string Raw; ///< the tensors, one after another
  std::string Message;
  std::string Reply;
};

} // namespace MLBridge

#endif
