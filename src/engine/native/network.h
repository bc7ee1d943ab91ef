// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An opened ONNX file: its signature, and plans for the shapes that it is used with.
#ifndef MLBRIDGE_ENGINE_NATIVE_NETWORK_H
#define MLBRIDGE_ENGINE_NATIVE_NETWORK_H

#include "engine/native/plan.h"

#include <mlbridge/model.h>

#include <memory>
#include <mutex>

namespace mlbridge::engine::onnx {
struct Model;
}

namespace mlbridge::native {

class MissingFeatures;
class Weights;
struct Stop;

/// Thread-safe.
class Network {
public:
  /// Reads the file, or takes what is in `memory`, checks it, and plans it if its shapes are fixed.
  /// If they aren't, it is planned for some lengths that fit each other and the weights. Errors:
  /// those of readFile; InvalidModel (no such lengths, among others); Unsupported (operators,
  /// types, shapes that nobody can settle before an evaluation: the message lists all, by node);
  /// LimitExceeded; DeadlineExceeded.
  static Expected<std::shared_ptr<Network>> open(const std::string &path, const Limits &limits,
                                                 const Span<const uint8_t> *memory = nullptr);
  ~Network();

  const Signature &signature() const { return signature_; }
  const Metadata &metadata() const { return metadata_; }
  const std::string &path() const { return path_; }

  /// A plan for inputs of these shapes; kept for the next runner that asks. If it has decisions,
  /// its outputs are values on which shapes depend: the plan for them is had with `settled`, and
  /// isn't kept. Errors: InvalidModel, Unsupported, LimitExceeded, DeadlineExceeded.
  Expected<SharedPlan> plan(const std::vector<Shape> &shapes, const Deadline &deadline,
                            const Settled &settled = {});
  /// Shapes of the inputs for which it was planned when it was opened; none if that isn't known.
  const std::vector<Shape> &someShapes() const { return someShapes_; }
  /// Bytes that the inputs, outputs and workspace of one evaluation may take.
  uint64_t memoryLimit() const { return memory_; }

private:
  Network();
  Status load(const Deadline &deadline);
  Status readSignature(MissingFeatures &missing);
  Status checkOperators(const Deadline &deadline, MissingFeatures &missing) const;
  // In lengths.cpp.
  class LengthSearch;
  struct Attempt;
  std::vector<Shape> shapesOf(const Shape &lengths) const;
  Attempt attempt(const Shape &lengths, const Deadline &deadline, const MissingFeatures &missing);
  Status findLengths(const Deadline &deadline, const MissingFeatures &missing);
  Status describeOutputs(LengthSearch &search, const Attempt &best, const Deadline &deadline);
  Expected<std::vector<Shape>> sampleOutputs(const Attempt &best, int sample,
                                             const Deadline &deadline);
  Expected<SharedPlan> makePlan(const std::vector<Shape> &shapes, const Deadline &deadline,
                                const Settled &settled, const MissingFeatures &missing,
                                Stop *stop = nullptr);

  std::string path_;
  Signature signature_;
  Metadata metadata_;
  std::vector<Shape> someShapes_;
  uint64_t memory_ = 0;
  std::timed_mutex mutex_; ///< held while planning
  // Planning needs these; they are gone once the only plan is made.
  Buffer file_;
  std::string folder_; ///< of other files; empty for a model from memory
  std::unique_ptr<engine::onnx::Model> model_;
  std::unique_ptr<Weights> weights_;
  std::vector<SharedPlan> plans_; ///< the last used ones
};

/// The report of `mlbridge inspect`. Errors: those of Network::open, except that what native
/// doesn't run is in the report.
struct Inspection {
  struct Use {
    std::string op; ///< "Gemm", "ai.onnx.ml::TreeEnsemble"
    uint64_t nodes = 0;
    bool isSupported = false;
  };
  std::vector<Use> operators; ///< sorted by name, those of inner graphs and functions included
  uint64_t parameters = 0;    ///< elements of the weights
  uint64_t parameterBytes = 0;
  std::vector<std::string> externalFiles; ///< in which weights are
  std::map<std::string, int64_t> opsets;
  std::string signature; ///< as the file has it, whatever its types
  Metadata metadata;
  /// Cost of one evaluation, with dynamic lengths taken as 1, or as some that they can have; 0
  /// where it can't be planned.
  uint64_t multiplyAdds = 0;
  uint64_t steps = 0, workspace = 0;
  Status native; ///< Ok: native runs it
};
Expected<Inspection> inspect(const std::string &path);

/// A minute for tools, which no compiler waits for.
Limits toolLimits();

} // namespace mlbridge::native

#endif
