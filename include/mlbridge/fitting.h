// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For a pass whose signature depends on what the model's metadata says, where an address stands for
// several servers: while a new model is rolled out, one of them may have a model that doesn't fit.
//
//     auto signatureFor = [](const mlbridge::Model &policy) {
//       const int64_t count = policy.metadata("actions").has_value() ? 2 : 3;
//       return mlbridge::Signature{{mlbridge::TensorSpec::of<float>("x", {4})},
//                                  {mlbridge::TensorSpec::of<float>("logits", {count})}};
//     };
//     mlbridge::Model policy = mlbridge::Model::open("function:heuristic");
//     mlbridge::Status bound = mlbridge::bindFitting(policy, signatureFor);
#ifndef MLBRIDGE_FITTING_H
#define MLBRIDGE_FITTING_H

#include <mlbridge/model.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace mlbridge {

/// Binds `signatureFor(model)` to the model. If that is a Mismatch and there are several servers,
/// opens the model again with these options, at one server after another, and asks `signatureFor`
/// again for each, until one fits; `model` is that one then. Takes at most the deadline of the
/// options beyond what the first bind takes. Errors: those of bind, of the first server.
template <typename SignatureFor>
Status bindFitting(Model &model, const SignatureFor &signatureFor,
                   const OpenOptions &options = {}) {
  Status bound = model.bind(signatureFor(model));
  const std::optional<std::string> servers = model.metadata("mlbridge.servers");
  if (bound.code() != Code::Mismatch || !servers)
    return bound;
  // Each opening reaches the next server, as long as the last one is still open.
  constexpr Duration Pause = std::chrono::milliseconds(10);
  const Deadline deadline = Deadline::after(options.deadline.value_or(DefaultDeadline));
  const long most = 8 + 2 * std::strtol(servers->c_str(), nullptr, 10);
  Model last = model;
  for (long tries = 1; tries <= most && !deadline.hasPassed(); ++tries) {
    Model next = Model::open(model.uri(), options);
    if (!next.status())
      break;
    if (next.bind(signatureFor(next))) {
      model = std::move(next);
      return Status();
    }
    last = std::move(next);
    std::this_thread::sleep_for(Pause); // others may need time to connect
  }
  (void)model.bind(signatureFor(model)); // what it keeps is about this model again
  return bound;
}

} // namespace mlbridge

#endif
