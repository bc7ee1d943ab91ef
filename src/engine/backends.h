// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engines that are built in. Those that are weak are null unless the program links them in;
// their symbols are what a target of src/CMakeLists.txt asks the linker for.
#ifndef MLBRIDGE_ENGINE_BACKENDS_H
#define MLBRIDGE_ENGINE_BACKENDS_H

#include "core/backend.h"
#include <mlbridge/function.h>

namespace mlbridge {

/// Calls the program's own code; PolicyFailed if it throws.
template <typename F> auto caught(const char *name, const F &body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception &e) {
    return makeError(Code::PolicyFailed, name, " threw an exception: ", e.what());
  } catch (...) {
    return makeError(Code::PolicyFailed, name, " threw an exception");
  }
}

/// The description of a stateless function.
FunctionModel functionModel(Signature signature, Function function, Metadata metadata);
/// A function of the program's own. Errors: InvalidArgument (no function).
Expected<std::shared_ptr<ModelBackend>> functionBackend(FunctionModel model);

/// The instruction set that MLBRIDGE_NATIVE_ISA restricts native: and aot: to; empty if it is none.
/// Errors: InvalidArgument (no instruction set has that name).
Expected<std::string_view> wantedInstructionSet();

/// Opens aot:NAME, a model that is linked in, or aot:FILE.so. Option: weights=FILE. Errors:
/// NotFound, InvalidModel (not what mlbridge aot makes, another version, weights of another
/// network), InvalidArgument (an option, weights missing or not wanted).
[[gnu::weak, gnu::visibility("hidden")]] Expected<std::shared_ptr<ModelBackend>>
openCompiled(const Uri &uri) __asm__("mlbridge_link_aot");

/// Opens native:FILE, or what is in `memory`, within the deadline of opening. Errors: those of
/// native::Network::open, InvalidArgument (an option).
[[gnu::weak, gnu::visibility("hidden")]] Expected<std::shared_ptr<ModelBackend>>
openNative(const Uri &uri, const OpenOptions &options,
           const Span<const uint8_t> *memory) __asm__("mlbridge_link_native");

} // namespace mlbridge

#endif
