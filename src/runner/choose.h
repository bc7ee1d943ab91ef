// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `?choose=argmax|sample`: a model whose answer is one of the elements of an output.
#ifndef MLBRIDGE_RUNNER_CHOOSE_H
#define MLBRIDGE_RUNNER_CHOOSE_H

#include "core/backend.h"

namespace mlbridge {

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
Expected<std::shared_ptr<ModelBackend>> chooseFrom(std::shared_ptr<ModelBackend> model,
                                                   const Choosing &how, const std::string &agent);

} // namespace mlbridge

#endif
