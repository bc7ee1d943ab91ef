// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An opened ONNX file: its signature, and plans for the shapes that it is used with.
#ifndef MLBRIDGE_ENGINE_NATIVE_NETWORK_H
#define MLBRIDGE_ENGINE_NATIVE_NETWORK_H

#include "engine/native/plan.h"

#include <mlbridge/model.h>

#include <memory>
#include <mutex>

namespace mlbridge::native {

namespace onnx {
struct Model;
}
class Weights;

/// Thread-safe.
class Network {
public:
  /// Reads the file, checks it, and plans it if its shapes are fixed. Errors: those of readFile;
  /// InvalidModel; Unsupported (an operator, a type: the message names the node); LimitExceeded.
  static Expected<std::shared_ptr<Network>> open(const std::string &path);
  ~Network();

  const Signature &signature() const { return signature_; }
  const Metadata &metadata() const { return metadata_; }
  const std::string &path() const { return path_; }

  /// A plan for inputs of these shapes; kept for the next runner that asks. `data`: the inputs'
  /// elements, on which shapes may depend, or null. A null plan: it depends on them, and they
  /// weren't given. Errors: InvalidModel, Unsupported, LimitExceeded.
  Expected<std::shared_ptr<const Plan>> plan(const std::vector<Shape> &shapes,
                                             const void *const *data);

private:
  Network();
  Status load();
  Status readExternalData();
  Status readSignature();
  Status inferOutputs();
  Expected<std::shared_ptr<const Plan>> makePlan(const std::vector<Shape> &shapes,
                                                 const void *const *data);

  std::string path_;
  Signature signature_;
  Metadata metadata_;
  std::mutex lock_;
  // What planning needs; gone once the only plan is made.
  Buffer file_;
  std::unique_ptr<onnx::Model> model_;
  std::unique_ptr<Weights> weights_;
  std::vector<std::shared_ptr<const Plan>> plans_; ///< without guards, the last used ones
};

/// What `mlbridge inspect` says of a file. Errors: those of Network::open, except that what native
/// doesn't run is in the report.
struct Inspection {
  struct Use {
    std::string op; ///< "Gemm", "ai.onnx.ml.TreeEnsemble"
    uint64_t nodes = 0;
    bool isSupported = false;
  };
  std::vector<Use> operators; ///< sorted by name, those of inner graphs and functions included
  uint64_t parameters = 0;    ///< elements of the weights
  uint64_t parameterBytes = 0;
  /// Of one evaluation, with dynamic lengths taken as 1; 0 where it can't be planned.
  uint64_t multiplyAdds = 0;
  uint64_t steps = 0, workspace = 0;
  Status native; ///< Ok: native runs it
};
Expected<Inspection> inspect(const std::string &path);

/// For the ahead-of-time compiler: one plan for fixed inputs. Errors: those of Network::open;
/// Unsupported if shapes depend on values of inputs.
Expected<std::shared_ptr<const Plan>> plan(const std::string &path,
                                           const std::vector<Shape> &shapes);

} // namespace mlbridge::native

#endif
