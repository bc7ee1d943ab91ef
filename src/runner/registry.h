// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a URI to the model that it names, and what its options make of that model.
#ifndef MLBRIDGE_RUNNER_REGISTRY_H
#define MLBRIDGE_RUNNER_REGISTRY_H

#include "core/backend.h"
#include <mlbridge/component.h>
#include <mlbridge/uri.h>

namespace mlbridge {

using OpenedBackend = Expected<std::shared_ptr<ModelBackend>>;

/// In this order: what is built in, registered schemes, an engine component, a transport component.
/// With `memory` what the URI would name otherwise is there. Errors: those of Model::open.
OpenedBackend openBackend(const Uri &uri, const Opening &options,
                          const Span<const uint8_t> *memory = nullptr);

/// Every scheme that can be opened, sorted.
std::vector<std::string> knownSchemes();
/// InvalidArgument for a scheme of the library's own, linked in or not.
Status checkNotReserved(std::string_view scheme);

/// What a program registered; both are null unless it registers functions or schemes of its own.
/// The model of a URI with such a scheme, or "function"; a null pointer if nobody registered the
/// scheme. Errors: NotFound (no function of that name), those of the program.
[[gnu::weak, gnu::visibility("hidden")]] OpenedBackend openRegistered(const Uri &uri);
[[gnu::weak, gnu::visibility("hidden")]] std::vector<std::string> registeredSchemes();

/// The same for registerEngine; null unless a program calls that.
[[gnu::weak, gnu::visibility("hidden")]] OpenedBackend openLinked(const Uri &uri);
[[gnu::weak, gnu::visibility("hidden")]] std::vector<std::string> linkedSchemes();

/// A model behind the engine table of a component; `engine` lives for ever. Errors: the engine's;
/// InvalidModel if its signature is malformed. `memory`: the model, if it is in memory; Unsupported
/// for an engine that takes files only. Null unless the program links it in, as in
/// engine/backends.h.
[[gnu::weak, gnu::visibility("hidden")]] OpenedBackend
openEngine(const mlb_engine &engine, const Uri &uri,
           const Span<const uint8_t> *memory) __asm__("mlbridge_link_engines");

/// Options of every model, but for `reload`, which a model in a file has, and those below.
inline constexpr std::string_view ModelOptions[] = {"agent",  "choose", "deadline", "episode",
                                                    "record", "rename", "unit"};
/// Options that go with `choose`.
inline constexpr std::string_view ChoosingOptions[] = {"choose_as", "choose_from", "mask", "seed",
                                                       "temperature"};

/// What is left to open when some options have been taken out of the URI.
class ModelOpener {
public:
  ModelOpener(const Opening &options, const Span<const uint8_t> *memory, size_t next = 0)
      : options_(options), memory_(memory), next_(next) {}
  OpenedBackend operator()(const Uri &uri) const;
  const std::string &agent() const { return options_.context.agent; }

private:
  Opening options_;
  const Span<const uint8_t> *memory_; ///< null for what may be opened again
  size_t next_;                       ///< among the options of the functions below
};

/// Each takes its options out of the URI, opens what `open` gives, and changes it. All are null
/// unless the program links them in, as in engine/backends.h.
using OptionOpener = OpenedBackend(Uri &uri, const ModelOpener &open);

/// `?record=FOLDER`: the same model; what it is asked and answers is kept in a new file there, one
/// for each process. Errors: InvalidArgument, NotFound (the folder).
[[gnu::weak, gnu::visibility("hidden")]] OptionOpener openRecorded __asm__("mlbridge_link_record");

/// `?choose=argmax|sample`: a model whose answer is one of the elements of an output. It has one
/// output more, in front: int64, without the last dimension of what it is chosen from; and the mask
/// as an input, last, if it is none of its own. Errors: Unsupported (a model that takes any
/// signature), InvalidArgument, Mismatch (a mask that is none). Those of one agent of several show
/// when that is bound.
[[gnu::weak, gnu::visibility("hidden")]] OptionOpener openChoosing __asm__("mlbridge_link_choose");

/// `?rename=NEW:OLD,...`: new names, and those that the model has. Errors: InvalidArgument (also:
/// the signature that the agent has lacks an old name, or has a new one already).
[[gnu::weak, gnu::visibility("hidden")]] OptionOpener openRenamed __asm__("mlbridge_link_rename");

/// `?reload=INTERVAL`: a model that is opened anew each time when its file, the place of the URI,
/// or that of its option `weights` has changed. The interval is the least time between two looks at
/// the file. Errors: InvalidArgument (also: the place is no file), Unsupported (a model without a
/// signature).
[[gnu::weak, gnu::visibility("hidden")]] OptionOpener openReloading __asm__("mlbridge_link_reload");

} // namespace mlbridge

#endif
