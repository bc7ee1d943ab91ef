// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The search for ONNX Runtime's shared library on this machine.
#ifndef MLBRIDGE_ENGINE_ONNX_LOCATE_H
#define MLBRIDGE_ENGINE_ONNX_LOCATE_H

#include <functional>
#include <string>
#include <vector>

namespace mlbridge::onnx {

/// The library that a file or folder means: the file itself; in a folder the newest
/// libonnxruntime.so*, directly, in lib/, as a PyPI wheel or in a virtual environment. Empty if
/// there is none.
std::string libraryAt(const std::string &path);

/// Calls `tryOne` with each library that no user named, in order of preference, until one is taken:
/// ONNXRUNTIME_ROOT, the wheel beside this component, virtual environments, site-packages folders,
/// the system's. Nothing is executed. `looked` gets the places without a library, for a message.
bool searchLibraries(const std::function<bool(const std::string &)> &tryOne,
                     std::vector<std::string> &looked);

} // namespace mlbridge::onnx

#endif
