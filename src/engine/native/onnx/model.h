// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// This engine's work on the parts of an ONNX file: it sorts nodes and reads elements.
#ifndef MLBRIDGE_ENGINE_NATIVE_ONNX_MODEL_H
#define MLBRIDGE_ENGINE_NATIVE_ONNX_MODEL_H

#include "engine/onnx_file.h"

#include <mlbridge/model.h>

namespace mlbridge::native {

/// The type of values inside of a network that are bfloat16; inputs and outputs are float32.
constexpr auto BFloat16 = static_cast<ElementType>(14);
inline bool isHalf(ElementType type) { return type == ElementType::Float16 || type == BFloat16; }

} // namespace mlbridge::native

namespace mlbridge::native::onnx {

using engine::onnx::Attribute, engine::onnx::DataType, engine::onnx::Function, engine::onnx::Graph,
    engine::onnx::Model, engine::onnx::Node, engine::onnx::Opsets, engine::onnx::Place,
    engine::onnx::Tensor, engine::onnx::ValueInfo, engine::onnx::checkDimensions,
    engine::onnx::defaultsOf, engine::onnx::eachNode, engine::onnx::eachTensor,
    engine::onnx::placeOf, engine::onnx::readModel;

/// Nothing for a type that no tensor here can have.
std::optional<ElementType> elementType(DataType type);
/// "FLOAT", "BFLOAT16", …
std::string name(DataType type);

constexpr uint64_t ModelLimit = uint64_t(1) << 33; ///< bytes of a file

/// Puts nodes after those whose results they use, where they aren't, in inner graphs and functions
/// too. Errors: InvalidModel (a cycle; the message names a node of it), DeadlineExceeded.
Status sortNodes(Model &model, const Deadline &deadline);
/// Leaves outputs out that are no tensors of numbers, as long as others remain, and what only they
/// need; nodes have to be sorted. In place of a ZipMap's maps its input is given, the scores of
/// all classes. The result is what metadata say of it: under LeftOutKey and ClassesKey with the
/// output's name.
Metadata leaveOut(Model &model);
/// Before the name of an output with a column for each class: the classes, as a list in JSON.
inline constexpr char ClassesKey[] = "onnx.classes.";
/// A text in quotes, of a long one the beginning.
std::string quoted(std::string_view text);
/// "Gemm 'layer1'", or "Gemm that makes 'y'" where it has no name.
std::string describe(const Node &node);

/// The file's own description; some of it under names that ONNX Runtime's engine gives it, too.
Metadata metadataOf(const Model &model);

/// Files beside the model, each read once.
class ExternalFiles {
public:
  /// `folder` ends with a slash or is empty (no external data).
  explicit ExternalFiles(std::string folder, const Deadline &deadline = {})
      : folder_(std::move(folder)), deadline_(deadline) {}
  uint64_t size() const { return size_; } ///< bytes of those that were read
  /// Errors: those of readFile, InvalidModel (outside the folder, beyond the end).
  Expected<std::string_view> get(const Place &place, uint64_t size);

private:
  std::string folder_;
  Deadline deadline_;
  uint64_t size_ = 0;
  std::map<std::string, Buffer, std::less<>> files_;
};

/// Reads the file in which the elements are, if they have one. Errors: those of readElements.
Status readExternal(const Tensor &tensor, ExternalFiles &files);

/// The tensor's elements, row-major, into memory of their own. The bytes of the file bound the
/// elements before anything is allocated. Errors: InvalidModel (the size doesn't fit the shape),
/// Unsupported (the type), LimitExceeded.
Expected<Buffer> readElements(const Tensor &tensor, ExternalFiles &files);

} // namespace mlbridge::native::onnx

#endif
