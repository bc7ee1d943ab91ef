// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loaded ONNX file: one session of ONNX Runtime, shared by the runners of all threads. And what
// says how it is loaded: the options of the URI, and the files in which it keeps weights.
#ifndef MLBRIDGE_ENGINE_ONNX_MODEL_H
#define MLBRIDGE_ENGINE_ONNX_MODEL_H

#include "core/buffer.h"
#include "engine/onnx_format.h"
#include "runtime.h"

#include <mlbridge/component.h>
#include <mlbridge/tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlbridge::onnx {

/// The options of an onnx: URI; the README has the table. The defaults are for networks of a
/// compiler, which evaluates one row at a time.
struct Options {
  std::string runtime;         ///< library or folder; empty: search
  int threads = 1;             ///< of one evaluation
  std::optional<bool> prepack; ///< unless stated, engine::paysToPrepack
  bool spin = false;           ///< threads wait for work without sleeping
  bool arena = false;          ///< ONNX Runtime's own allocator of temporaries, instead of malloc
  bool pattern = true;
  GraphOptimizationLevel optimize = ORT_ENABLE_ALL;
  std::vector<std::string> customOps; ///< shared libraries
  /// Entries of ONNX Runtime's session configuration, which win over all others.
  std::vector<std::pair<std::string, std::string>> config;

  /// Errors: InvalidArgument, naming the option, what it takes and what came.
  static Expected<Options> parse(const mlb_option *options, uint64_t size);
};

/// File name to the number of bytes that the model uses of it (the end of its last tensor, or 0
/// where the model doesn't say).
using ExternalFiles = std::map<std::string, uint64_t>;

/// The files that `model`, an untrusted ModelProto, names. What is not protobuf gives no files:
/// ONNX Runtime reports it. Errors: InvalidModel (an absolute path, "..", a bad range),
/// Unsupported (external data elsewhere than in the initializers of the main graph).
Expected<ExternalFiles> externalFiles(Span<const uint8_t> model);

class Model {
public:
  /// Reads the file, or takes what is in `memory`, and the external data files that it names in its
  /// own folder. Errors: NotFound (file, ONNX Runtime), InvalidArgument (not a regular file,
  /// unreadable), LimitExceeded, InvalidModel, Unsupported (sequences, maps, operators).
  static Expected<std::unique_ptr<Model>> open(const std::string &path, const Options &options,
                                               const Span<const uint8_t> *memory = nullptr);
  ~Model();
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  const Runtime &runtime() const { return runtime_; }
  OrtSession *session() const { return session_; }
  const Signature &signature() const { return signature_; }
  /// Both in the order of signature().
  const std::vector<const char *> &inputNames() const { return inputNames_; }
  const std::vector<const char *> &outputNames() const { return outputNames_; }
  const std::vector<mlb_tensor_spec> &inputSpecs() const { return inputSpecs_; }
  const std::vector<mlb_tensor_spec> &outputSpecs() const { return outputSpecs_; }
  const std::vector<std::pair<std::string, std::string>> &metadata() const { return metadata_; }
  /// An empty input might reach what ends the process, and nothing in the graph prevents it.
  bool isNeverEmpty() const { return isNeverEmpty_; }

private:
  explicit Model(const Runtime &runtime) : runtime_(runtime) {}
  Status load(const std::string &path, Buffer bytes, const Options &options, bool isFile);
  Status open(const std::string &path, Span<const uint8_t> bytes, OrtSessionOptions *options,
              OrtSession *&session) const;
  Status readSignature(const engine::OnnxFacts &facts);
  /// Fails if ONNX Runtime doesn't know the rank of one of the outputs, which it gives as 0.
  Status checkRanks(const std::string &path, Span<const uint8_t> bytes,
                    const engine::OnnxFacts &facts, OrtSessionOptions *options) const;
  Status readMetadata();

  const Runtime &runtime_;
  Buffer bytes_; ///< of a file in ORT format, which the session reads weights from
  OrtSession *session_ = nullptr;
  Signature signature_;
  std::vector<const char *> inputNames_, outputNames_;
  std::vector<mlb_tensor_spec> inputSpecs_, outputSpecs_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  bool isNeverEmpty_ = false;
};

} // namespace mlbridge::onnx

#endif
