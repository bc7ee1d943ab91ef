// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/backend.h"

namespace mlbridge {

RunnerBackend::~RunnerBackend() = default;
ModelBackend::~ModelBackend() = default;

Expected<std::shared_ptr<const Binding>> ModelBackend::bind(const Signature &caller,
                                                            std::string_view agent) const {
  Expected<const Signature *> own = signatureOf(agent);
  return own ? bindSignature(caller, *own) : own.status();
}

} // namespace mlbridge
