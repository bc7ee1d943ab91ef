// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a URI to the model that it names, and what its options make of that model.
#ifndef MLBRIDGE_RUNNER_REGISTRY_H
#define MLBRIDGE_RUNNER_REGISTRY_H

#include "core/backend.h"
#include <mlbridge/component.h>
#include <mlbridge/function.h>

namespace mlbridge {

using OpenedBackend = Expected<std::shared_ptr<ModelBackend>>;

/// In this order: what is built in, registered schemes, an engine component, a transport component.
/// With `memory` what the URI would name otherwise is there. Errors: those of Model::open.
OpenedBackend openBackend(const Uri &uri, const OpenOptions &options,
                          const Span<const uint8_t> *memory = nullptr);

/// Every scheme that can be opened, sorted.
std::vector<std::string> knownSchemes();

/// A model behind the engine table of a component; `engine` lives for ever. Errors: the engine's;
/// InvalidModel if its signature is malformed. `memory`: the model, if it is in memory; Unsupported
/// for an engine that takes files only.
OpenedBackend openEngine(const mlb_engine &engine, const Uri &uri,
                         const Span<const uint8_t> *memory = nullptr);

/// Options of every model, but for `reload`, which a model in a file has, and those below.
inline constexpr std::string_view ModelOptions[] = {"agent",  "choose", "deadline", "episode",
                                                    "record", "rename", "unit"};
/// Options that go with `choose`.
inline constexpr std::string_view ChoosingOptions[] = {"choose_as", "choose_from", "mask", "seed",
                                                       "temperature"};

/// `?choose=argmax|sample`: a model whose answer is one of the elements of an output.
struct Choosing {
  bool sample = false;
  std::string from; ///< the output; "": the only one of floating-point elements
  std::string as = "action";
  std::string mask; ///< an input that says what may be chosen; "": everything
  uint64_t seed = 0;
  double temperature = 1;

  /// Takes the options out of the URI; nothing if it asks for no choice. Errors: InvalidArgument.
  static Expected<std::optional<Choosing>> take(Uri &uri);
};
/// The same model with one output more, in front: int64, without the last dimension of what it is
/// chosen from; and with the mask as an input, last, if it is none of its own. Errors: Unsupported
/// (a model that takes any signature), InvalidArgument, Mismatch (a mask that is none). Those of
/// one agent of several show when that is bound.
OpenedBackend chooseFrom(std::shared_ptr<ModelBackend> model, const Choosing &how,
                         const std::string &agent);

/// `?reload=INTERVAL`: a model whose file may be replaced while it is used. The interval is the
/// least time between two looks at the file. Errors: InvalidArgument.
Expected<std::optional<Duration>> takeReload(Uri &uri);
using BackendOpener = std::function<OpenedBackend(const Uri &)>;
/// Opens the model with `opener`, and anew each time when its file, the place of the URI, or that
/// of its option `weights` has changed. Errors: those of the opener; InvalidArgument (the place is
/// no file); Unsupported (a model without a signature).
OpenedBackend openReloading(const Uri &uri, Duration interval, BackendOpener opener);

/// `?rename=NEW:OLD,...`: new names, and those that the model has. Errors: InvalidArgument.
using Renames = std::vector<std::pair<std::string, std::string>>;
Expected<Renames> takeRenames(Uri &uri);
/// The same model with the new names. Errors: InvalidArgument (the signature that `agent` has lacks
/// an old name, or has a new one already).
OpenedBackend rename(std::shared_ptr<ModelBackend> model, Renames names, const std::string &agent);

/// `?record=FOLDER`: the same model; what it is asked and answers is kept in a new file there, one
/// for each process. `uri` names the model in it. Errors: NotFound (the folder).
OpenedBackend recordTo(std::shared_ptr<ModelBackend> model, const std::string &folder,
                       const std::string &uri);

} // namespace mlbridge

#endif
