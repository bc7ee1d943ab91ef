// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens the bytes of a model with the native engine and asks it, as an unlucky compiler would.
#ifndef MLBRIDGE_TESTS_HOSTILE_MODEL_H
#define MLBRIDGE_TESTS_HOSTILE_MODEL_H

#include <mlbridge/model.h>

#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace mlbridge::testing {

/// A file in memory, for as long as this object lives.
class MemoryFile {
public:
  MemoryFile() : descriptor_(::memfd_create("model", MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  bool write(const char *data, size_t size) const {
    return ::ftruncate(descriptor_, 0) == 0 &&
           ::pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size);
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

private:
  int descriptor_;
};

struct Outcome {
  bool isOpen = false;
  Status status; ///< of opening, binding or evaluating: the first that failed
};

/// Lengths that change are 2. Takes no longer than `patience` in loops of the network.
inline Outcome tryModel(const std::string &path, Duration patience) {
  Outcome found;
  Model model = Model::open("native:" + path);
  found.status = model.status();
  if (!model)
    return found;
  found.isOpen = true;
  if (!model.modelSignature()) {
    found.status = {Code::Internal, "a file without a signature"};
    return found;
  }
  const Signature signature = *model.modelSignature();
  if (found.status = model.bind(signature); !found.status)
    return found;
  Runner runner = model.newRunner();
  if (found.status = runner.status(); !found.status)
    return found;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    Shape shape = signature.inputs[i].shape;
    for (int64_t &length : shape)
      if (length == Dynamic)
        length = 2;
    if (!signature.inputs[i].isDynamic())
      continue;
    Expected<TensorView> view = runner.resizeAt(i, shape);
    if (found.status = view.status(); !found.status)
      return found;
  }
  found.status = runner.evaluate(Deadline::after(patience));
  return found;
}

/// The codes with which a model may be refused, at opening or later.
inline bool isRefusal(Code code) {
  return code == Code::InvalidModel || code == Code::Unsupported || code == Code::LimitExceeded ||
         code == Code::PolicyFailed || code == Code::DeadlineExceeded;
}

} // namespace mlbridge::testing

#endif
