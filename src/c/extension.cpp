// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "c/values.h"

#include <mlbridge/c/extension.h>
#include <mlbridge/compiled.h>
#include <mlbridge/engine.h>

using namespace mlbridge;
using namespace mlbridge::c;

extern "C" {

mlbridge_code mlbridge_register_engine(const char *scheme, const char *name,
                                       const mlb_engine *engine, char *message, uint64_t capacity) {
  if (!engine)
    return told(Status(Code::InvalidArgument, "there is no engine"), message, capacity);
  return told(registerEngine(textOf(scheme), textOf(name), *engine), message, capacity);
}

mlbridge_code mlbridge_register_component(const mlb_component *component, char *message,
                                          uint64_t capacity) {
  if (!component)
    return told(Status(Code::InvalidArgument, "there is no component"), message, capacity);
  return told(registerComponent(*component), message, capacity);
}

mlbridge_code mlbridge_register_compiled(const mlb_aot_model *model, char *message,
                                         uint64_t capacity) {
  if (!model)
    return told(Status(Code::InvalidArgument, "there is no network"), message, capacity);
  return told(registerCompiled(model), message, capacity);
}

} // extern "C"
