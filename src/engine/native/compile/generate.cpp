// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/native/compile/generate.h"

#include "core/message.h"
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/native/onnx/model.h"

#include <algorithm>
#include <set>

namespace mlbridge::aot {
namespace {

bool isIdentifier(std::string_view text) {
  const auto isLetter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= 64 && isLetter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return isLetter(c) || (c >= '0' && c <= '9'); });
}

/// Words of C and C++ that a name of symbols can't be.
bool isReserved(const std::string &text) {
  static constexpr std::string_view Words =
      " alignas alignof and and_eq asm auto bitand bitor bool break case catch char "
      "char16_t char32_t class compl const const_cast constexpr continue decltype default "
      "delete do double dynamic_cast else enum explicit export extern false float for "
      "friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
      "operator or or_eq private protected public register restrict return short "
      "reinterpret_cast signed sizeof static static_assert static_cast struct switch "
      "template this thread_local throw true try typedef typeid typename union unsigned "
      "using virtual void volatile wchar_t while xor xor_eq ";
  return Words.find(" " + text + " ") != std::string_view::npos;
}

/// The lengths of one input. `used` gets the names of dimensions that were needed.
Expected<Shape> shapeOf(const TensorSpec &spec, const GenerateOptions &options,
                        const native::onnx::ValueInfo &info, std::set<std::string> &used) {
  const auto stated = options.shapes.find(spec.name);
  Shape shape = spec.shape;
  if (stated != options.shapes.end()) {
    shape = stated->second;
    bool fits = shape.size() == spec.shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i)
      fits = shape[i] >= 0 && (spec.shape[i] == Dynamic || spec.shape[i] == shape[i]);
    if (!fits)
      return Status(Code::InvalidArgument,
                    "the shape " + toString(shape) + " does not fit '" + spec.toString() + "'");
    return shape;
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != Dynamic)
      continue;
    const std::string name(info.dimensions[axis]);
    const auto length = options.dimensions.find(name);
    if (name.empty() || length == options.dimensions.end())
      return makeError(Code::InvalidArgument, "dimension ", axis, " of input '", spec.toString(),
                       "' has no length: state ",
                       name.empty() ? "--shape " + spec.name + "=..." : "--dim " + name + "=N");
    used.insert(name);
    shape[axis] = length->second;
  }
  return shape;
}

} // namespace

Expected<Generated> generate(const std::string &path, const GenerateOptions &options) {
  if (!isIdentifier(options.name))
    return makeError(Code::InvalidArgument, "'", options.name,
                     "' is not a C identifier of at most 64 characters; state another --name");
  if (isReserved(options.name))
    return Status(Code::InvalidArgument,
                  "'" + options.name + "' is a keyword of C or C++; state another --name");
  native::Limits limits = native::toolLimits();
  limits.memory = options.memory;
  Expected<std::shared_ptr<native::Network>> network = native::Network::open(path, limits);
  if (!network)
    return network.status();
  Expected<Buffer> file = engine::readFile(path, native::onnx::ModelLimit);
  if (!file)
    return file.status();
  const Expected<native::onnx::Model> model = native::onnx::readModel(file->span());
  if (!model)
    return model.status();
  const Signature &signature = (*network)->signature();
  for (const auto &[name, shape] : options.shapes)
    if (signature.findInput(name) < 0)
      return Status(Code::InvalidArgument,
                    "there is no input '" + name + "' in " + signature.toString());
  std::vector<Shape> shapes;
  std::set<std::string> used;
  for (const TensorSpec &spec : signature.inputs) {
    const auto &inputs = model->graph.inputs;
    const auto info = std::find_if(inputs.begin(), inputs.end(),
                                   [&](const auto &input) { return input.name == spec.name; });
    if (info == inputs.end() || info->dimensions.size() != spec.shape.size())
      return Status(Code::InvalidModel, path + " changed while it was read");
    Expected<Shape> shape = shapeOf(spec, options, *info, used);
    if (!shape)
      return shape.status();
    shapes.push_back(std::move(*shape));
  }
  for (const auto &[name, length] : options.dimensions) {
    if (length < 0)
      return Status(Code::InvalidArgument, "dimension '" + name + "' has a negative length");
    if (used.count(name) == 0)
      return Status(Code::InvalidArgument, "no input needs a dimension '" + name + "'");
  }
  Expected<std::shared_ptr<const native::Plan>> plan = (*network)->plan(shapes, limits.deadline);
  if (!plan)
    return plan.status();
  if (!(*plan)->decisions.empty())
    return makeError(Code::Unsupported, path,
                     ": shapes depend on the values of inputs, which a compiled network does not "
                     "support; open it with native: instead");
  Generated generated =
      print(**plan, (*network)->metadata(), path.substr(path.rfind('/') + 1), options);
  std::set<std::string> files;
  native::onnx::eachTensor(*model, [&](const native::onnx::Tensor &tensor) {
    if (const auto place = native::onnx::placeOf(tensor); place.isExternal)
      files.insert(path.substr(0, path.rfind('/') + 1).append(place.location));
  });
  generated.files.assign(files.begin(), files.end());
  return generated;
}

} // namespace mlbridge::aot
