// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reconciles the signature that a caller states with the one that a model has.
#ifndef MLBRIDGE_CORE_BIND_H
#define MLBRIDGE_CORE_BIND_H

#include <mlbridge/tensor.h>

#include <memory>

namespace mlbridge {

/// A signature's tensors have no more dimensions, on the wire or elsewhere.
constexpr size_t MaxRank = 32;

/// How a caller's tensors meet a model's. Immutable, shared by the Runners made from it.
struct Binding {
  struct Port {
    int model = -1;     ///< index on the model's side; -1: an input that the model does not know
    bool batch = false; ///< the model has one leading dimension, here 1, more
    TensorSpec spec;    ///< in the caller's rank, with the stricter lengths and maxima of both
  };
  Signature caller; ///< as stated
  Signature model;  ///< what the backend is asked for
  std::vector<Port> inputs, outputs;
};

/// `model` is null for one that takes any. Errors: InvalidArgument (the caller's signature is
/// malformed), Mismatch (the message has both signatures and each disagreement).
Expected<std::shared_ptr<const Binding>> bindSignature(const Signature &caller,
                                                       const Signature *model);
/// No model at all: buffers of the caller's inputs that nobody reads.
std::shared_ptr<const Binding> bindToNothing(const Signature &caller);
/// The signature of a caller that states none: the model's, without a batch dimension of unknown
/// length.
Signature inferredFrom(const Signature &model);

} // namespace mlbridge

#endif
