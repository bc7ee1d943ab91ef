// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A Model is what a URI opens: a loaded network, a function, or a connection to a server.
//
//     mlbridge::Model model = mlbridge::Model::open("unix:/run/policy.sock?deadline=1s");
//     if (mlbridge::Status bound = model.bind(signature); !bound)
//       report(bound.message()); // and the heuristic decides
//     mlbridge::Runner runner = model.newRunner(); // one for each thread
//     (void)runner.set("embedding", embedding);
//     int64_t action = runner.evaluateOr<int64_t>(heuristic);
#ifndef MLBRIDGE_MODEL_H
#define MLBRIDGE_MODEL_H

#include <mlbridge/deadline.h>
#include <mlbridge/runner.h>
#include <mlbridge/status.h>
#include <mlbridge/tensor.h>
#include <mlbridge/uri.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mlbridge {

class ModelBackend;

/// A model's description of itself besides its signature: action names and pass lists, provenance,
/// tolerance. Values are UTF-8 text. In ONNX files these are the metadata properties.
using Metadata = std::map<std::string, std::string>;

/// The deadline of opening and of each evaluation, unless OpenOptions says otherwise.
inline constexpr Duration DefaultDeadline = std::chrono::seconds(5);

/// The caller, and what it works on, as a server, a function and a recording are told.
struct CallContext {
  std::string agent;   ///< which of a server's agents is asked; "" = the only one
  std::string episode; ///< an id by which a trainer recognizes this compilation
  std::string unit;    ///< what is compiled, in the compiler's words: a module, a function
};

/// How a Model is opened. Options of the URI with the same name (`deadline`, `agent`, `episode`,
/// `unit`) take precedence, so that whoever starts the compiler has the last word.
struct OpenOptions {
  /// Opening, and then each evaluation, takes no longer than this (out of process; in process see
  /// docs/architecture.md); Duration::max() means no limit, no value means DefaultDeadline. It is
  /// also the budget of this Model for failed calls: once that much time was spent on them, with no
  /// answer in between, later ones fail at once.
  std::optional<Duration> deadline;
  /// Shares that budget with every other Model of this process that is opened at the same address
  /// with this set: for compilers that open a model for each module.
  bool sharedBudget = false;
  CallContext context; ///< for each Runner, unless newRunner is given another one
};

/// A handle; copies share what was opened, and each has its own binding.
///
/// # Threads
/// Safe to use from several threads at once, except for bind.
///
/// # Errors
/// Never null: a Model that could not be opened carries its failure, and so does every Runner made
/// from it.
class Model {
public:
  Model(); ///< carries Unavailable
  /// Loads or connects. Blocks until `options.deadline` at most where it can be interrupted (all
  /// connections and native:, but not loading other files). Errors: InvalidArgument (URI), NotFound
  /// (file, component, runtime library: the message says what to install), Unavailable (no server),
  /// Busy, DeadlineExceeded, InvalidModel, Protocol.
  static Model open(std::string_view uri, const OpenOptions &options = {});
  /// The same from the bytes of a file, which are copied: an ONNX file for "native:" and "onnx:",
  /// onnx: also takes ONNX Runtime's own format. The rest of the URI is a name for messages, and
  /// options: "native:policy?choose=argmax". Weights in other files are refused. Errors: also
  /// Unsupported (a scheme that takes no bytes).
  static Model fromMemory(std::string_view uri, const void *data, size_t size,
                          const OpenOptions &options = {});
  /// Uses a model made by the program itself; see function.h.
  static Model fromBackend(std::shared_ptr<ModelBackend> backend, const OpenOptions &options = {});

  /// Ok, or why opening or binding failed.
  const Status &status() const;
  explicit operator bool() const { return status().ok(); }

  /// The URI as it was given to open; empty for a model that the program made.
  const std::string &uri() const;
  /// The model's description of itself; empty if it was not opened.
  const Metadata &metadata() const;
  /// The value, or nothing if the model does not say.
  std::optional<std::string> metadata(std::string_view key) const;
  /// The counts of its server so far, for all compilers: names and numbers as docs/protocol.md has
  /// them. Blocks until the deadline of opening at most. Errors: Unsupported (a model in this
  /// process), Busy (asked by another thread), and those of an evaluation.
  Expected<Metadata> statistics() const;
  /// The model's own signature; null for a model that takes any. For a server with several agents:
  /// that of OpenOptions::context.
  const Signature *modelSignature() const;

  /// Binds the model to the caller's signature. Every model input must be among the caller's inputs
  /// and every caller output among the model's, by name, with the same element type and a shape
  /// that fits: equal lengths, a Dynamic model dimension takes any length up to its maximum, a
  /// Dynamic caller output takes any length of the model, and a model may have one additional
  /// leading (batch) dimension, of 1 or Dynamic. Caller inputs that the model does not know get a
  /// buffer that nobody reads, so that a model may know less than the compiler. Otherwise Mismatch;
  /// the message names both sides. If the address stands for several servers, of which some may
  /// have another model while they are replaced, opens the model at one after another until one
  /// fits where the metadata that was read is the same; for as long as the deadline of opening, but
  /// no longer than 30 s. Copies of this Model, and Runners, stay as they are. Must not run
  /// concurrently with other calls on this Model.
  Status bind(const Signature &signature);

  const Signature *signature() const; ///< of the last bind; null before it

  /// The same model, loaded or connected once, bound to another signature: for the agents of one
  /// server or function (agent.h). `agent` takes the place of that of OpenOptions unless it is
  /// empty. A failure is in its status(). Thread-safe.
  Model boundTo(const Signature &signature, std::string_view agent = {}) const;

  /// One thread's way to evaluate this model. Cheap: allocates the buffers; out of process it sends
  /// one message and waits for the answer by the first evaluation at the latest. Thread-safe. A
  /// failure is in Runner::status().
  Runner newRunner() const;
  /// The same for another context; its empty fields, and a deadline (of each evaluation) that is
  /// not given, are those that the Model was opened with.
  Runner newRunner(const CallContext &context,
                   std::optional<Duration> deadline = std::nullopt) const;

private:
  friend class Runner;
  friend Status bindFitting(Model &model,
                            const std::function<Signature(const Model &)> &signatureFor);
  class KnownMetadata;
  struct Opened;
  struct Bound;
  explicit Model(std::shared_ptr<const Opened> opened);
  static Model openFrom(std::string_view uri, const Span<const uint8_t> *memory,
                        const OpenOptions &options);
  Status bindAs(std::string agent, const Signature &signature);
  /// At the server that was reached.
  void bindHere(std::string agent, const Signature &signature);
  /// After a Mismatch: opens the model at one server after another until `bind` succeeds at one
  /// where what is `known` of the metadata is the same. Otherwise stays as it is.
  void bindElsewhere(const KnownMetadata &known, const std::function<void(Model &)> &bind);
  std::shared_ptr<const Opened> opened_; ///< shared with copies
  std::shared_ptr<const Bound> bound_;   ///< replaced by bind; never null
};

/// Model::open, bind and newRunner in one call, for the usual single-threaded use.
Runner open(std::string_view uri, const Signature &signature, const OpenOptions &options = {});
/// The form without a signature: features are set by name and value. If the model has a signature,
/// that is used: names that it does not know are ignored, and each of its inputs must have been set
/// before the first evaluation. For a model that takes any, the signature is inferred on the first
/// evaluation and then fixed: what was set, in that order, and one scalar called "output" of the
/// type asked for.
Runner open(std::string_view uri, const OpenOptions &options = {});

} // namespace mlbridge

#endif
