// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Given a model in memory, ONNX Runtime would look for external data in the current folder of the
// process, whatever that is, and map what it finds. So the names are read from the model here, and
// the files handed over as bytes.
#include "model.h"

#include "engine/onnx_file.h"
#include "engine/wire.h"

#include <algorithm>

namespace mlbridge::onnx {

Expected<ExternalFiles> externalFiles(Span<const uint8_t> bytes) {
  const engine::onnx::Model model = engine::onnx::scanModel(bytes);
  const std::vector<engine::onnx::Tensor> &initializers = model.graph.initializers;
  ExternalFiles files;
  Status status;
  engine::onnx::eachTensor(model, [&](const engine::onnx::Tensor &tensor) {
    const engine::onnx::Place place = engine::onnx::placeOf(tensor);
    if (!status || !place.isExternal)
      return;
    const bool isSupported =
        &tensor >= initializers.data() && &tensor < initializers.data() + initializers.size();
    const std::string location(place.location);
    const uint64_t length = place.length.value_or(0);
    const std::string who = std::string("the weights '")
                                .append(tensor.name)
                                .append("' lie in the external file '" + location + "'");
    if (!isSupported)
      status = makeError(Code::Unsupported, who,
                         ", which is supported for the initializers of the main graph only; "
                         "save the model as one file");
    else if (!engine::staysInFolder(location))
      status = makeError(Code::InvalidModel, who, ", which is not in the model's own folder");
    else if (!place.isReadable || place.offset + length < length)
      status = makeError(Code::InvalidModel, who,
                         ", at an offset or with a length that is not a valid number");
    else
      files[location] = std::max(files[location], place.offset + length);
  });
  if (!status)
    return status;
  return files;
}

} // namespace mlbridge::onnx
