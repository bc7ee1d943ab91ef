// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ONNXModel of the 2024 release: one network, a vector of floats in and one out.
#ifndef MLBRIDGE_COMPAT_ONNX_H
#define MLBRIDGE_COMPAT_ONNX_H

#include <mlbridge/status.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

class ONNXModel {
public:
  /// A path is opened with ONNX Runtime or, where there is none, with the engine of our own; any
  /// other URI of MLBridge, such as native:FILE or unix:SOCKET, as it says. Used by one thread at a
  /// time.
  ONNXModel(const char *model_path);
  /// A copy is the same network, and with it used by the same thread.
  ONNXModel(const ONNXModel &) = default;
  ONNXModel &operator=(const ONNXModel &) = default;

  /// Any containers of floats with data(), size(), and for the output assign(). Without an answer
  /// the output is empty. NaN becomes a number below all others, as in the release.
  template <typename In, typename Out> void run(const In &input, Out &output) {
    std::vector<float> answer;
    (void)run(input.data(), input.size(), answer);
    output.assign(answer.begin(), answer.end());
  }
  /// Not in the release. Errors: those of opening and evaluating; Mismatch (the count of the input,
  /// a network with more inputs or without float32).
  mlbridge::Status run(const float *input, size_t count, std::vector<float> &output);
  const mlbridge::Status &status() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};

#endif
