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

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>

namespace mlbridge {

/// Binds `signatureFor(model)` to the model. If that is a Mismatch and there are several servers,
/// opens the model again with these options, at one server after another, and asks `signatureFor`
/// again for each, until one fits; `model` is that one then. Looks for at most 2 s, and within the
/// deadline of the options. Errors: those of bind, of the first server.
template <typename SignatureFor>
Status bindFitting(Model &model, const SignatureFor &signatureFor,
                   const OpenOptions &options = {}) {
  Status bound = model.bind(signatureFor(model));
  const std::optional<std::string> servers = model.metadata("mlbridge.servers");
  if (bound.code() != Code::Mismatch || !servers)
    return bound;
  // Each opening reaches the next server, as long as the last one is still open. Some may still be
  // connecting when the first ones answer.
  constexpr Duration Longest = std::chrono::seconds(2), Pause = std::chrono::milliseconds(10);
  const Deadline deadline =
      Deadline::after(std::min(options.deadline.value_or(DefaultDeadline), Longest));
  const unsigned long most = std::strtoul(servers->c_str(), nullptr, 10);
  std::set<std::string> unfit{model.metadata("mlbridge.server").value_or("")};
  Model last = model;
  while (unfit.size() < most && !deadline.hasPassed()) {
    Model next = Model::open(model.uri(), options);
    if (!next.status())
      break;
    if (next.bind(signatureFor(next))) {
      model = std::move(next);
      return Status();
    }
    if (!unfit.insert(next.metadata("mlbridge.server").value_or("")).second)
      std::this_thread::sleep_for(Pause);
    last = std::move(next);
  }
  (void)model.bind(signatureFor(model)); // what it keeps is about this model again
  return bound;
}

} // namespace mlbridge

#endif
