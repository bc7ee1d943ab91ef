// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For a pass whose signature depends on what the model's metadata says, where an address stands for
// several servers: while a new model is rolled out, one of them may have a model that doesn't fit.
//
//     const auto signatureFor = [](const mlbridge::Model &policy) {
//       const int64_t count = policy.metadata("actions").has_value() ? 2 : 3;
//       return mlbridge::Signature{{mlbridge::TensorSpec::of<float>("x", {4})},
//                                  {mlbridge::TensorSpec::of<float>("logits", {count})}};
//     };
//     mlbridge::Model policy = mlbridge::Model::open("function:heuristic");
//     mlbridge::Status bound = mlbridge::bindFitting(policy, signatureFor);
#ifndef MLBRIDGE_FITTING_H
#define MLBRIDGE_FITTING_H

#include <mlbridge/model.h>

#include <functional>

namespace mlbridge {

/// Binds `signatureFor(model)` to the model. If that is a Mismatch and there are several servers,
/// looks for another one as Model::bind does, but asks `signatureFor` again at each, and only what
/// was read of the metadata before this call has to be the same; `model` is the one that fits then.
/// `signatureFor` is called last for the model that `model` is in the end, which a failure leaves
/// as it was. Errors: those of bind, of the first server.
Status bindFitting(Model &model, const std::function<Signature(const Model &)> &signatureFor);

} // namespace mlbridge

#endif
