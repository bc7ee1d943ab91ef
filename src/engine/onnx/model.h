// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loaded ONNX file: one session of ONNX Runtime, shared by the runners of all threads.
#ifndef MLBRIDGE_ENGINE_ONNX_MODEL_H
#define MLBRIDGE_ENGINE_ONNX_MODEL_H

#include "core/buffer.h"
#include "options.h"
#include "runtime.h"

#include <mlbridge/component.h>
#include <mlbridge/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mlbridge::onnx {

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

private:
  explicit Model(const Runtime &runtime) : runtime_(runtime) {}
  Status load(const std::string &path, Buffer bytes, const Options &options, bool isFile);
  Status readSignature();
  Status readMetadata();

  const Runtime &runtime_;
  Buffer bytes_; ///< of a file in ORT format, which the session reads weights from
  OrtSession *session_ = nullptr;
  Signature signature_;
  std::vector<const char *> inputNames_, outputNames_;
  std::vector<mlb_tensor_spec> inputSpecs_, outputSpecs_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

} // namespace mlbridge::onnx

#endif
