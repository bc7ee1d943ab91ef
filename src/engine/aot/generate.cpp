// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "engine/aot/generate.h"

#include "core/nearest.h"
#include "engine/aot/print.h"
#include "engine/file.h"
#include "engine/native/network.h"
#include "engine/wire.h"

#include <mlbridge/aot.h>

#include <algorithm>

namespace mlbridge::aot {
namespace {

constexpr uint64_t LargestFile = uint64_t(1) << 40;

/// The names of dimensions without a length: input, axis, name.
using Names = std::map<std::string, std::map<size_t, std::string>, std::less<>>;

/// The payload of the first field `number` of a message; empty if there is none.
std::string_view fieldOf(std::string_view bytes, uint32_t number) {
  engine::WireMessage message(bytes);
  while (message.next())
    if (message.number == number && message.type == engine::WireMessage::Bytes)
      return message.payload;
  return {};
}

/// Of a file that has been read once and is well-formed.
Names namesOfDimensions(std::string_view model) {
  Names names;
  engine::WireMessage graph(fieldOf(model, 7));
  while (graph.next()) {
    if (graph.number != 11) // ValueInfoProto: an input
      continue;
    const std::string name(fieldOf(graph.payload, 1));
    // TypeProto.tensor_type.shape
    engine::WireMessage shape(fieldOf(fieldOf(fieldOf(graph.payload, 2), 1), 2));
    for (size_t axis = 0; shape.next(); ++axis)
      if (const std::string_view dimension = fieldOf(shape.payload, 2); !dimension.empty())
        names[name][axis] = dimension;
  }
  return names;
}

bool isIdentifier(std::string_view text) {
  const auto isLetter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && text.size() <= 64 && isLetter(text.front()) &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return isLetter(c) || (c >= '0' && c <= '9'); });
}

/// Words of C and C++ that a name of symbols can't be.
bool isReserved(std::string_view text) {
  static constexpr std::string_view Words[] = {"alignas",
                                               "alignof",
                                               "and",
                                               "and_eq",
                                               "asm",
                                               "auto",
                                               "bitand",
                                               "bitor",
                                               "bool",
                                               "break",
                                               "case",
                                               "catch",
                                               "char",
                                               "char16_t",
                                               "char32_t",
                                               "class",
                                               "compl",
                                               "const",
                                               "const_cast",
                                               "constexpr",
                                               "continue",
                                               "decltype",
                                               "default",
                                               "delete",
                                               "do",
                                               "double",
                                               "dynamic_cast",
                                               "else",
                                               "enum",
                                               "explicit",
                                               "export",
                                               "extern",
                                               "false",
                                               "float",
                                               "for",
                                               "friend",
                                               "goto",
                                               "if",
                                               "inline",
                                               "int",
                                               "long",
                                               "mutable",
                                               "namespace",
                                               "new",
                                               "noexcept",
                                               "not",
                                               "not_eq",
                                               "nullptr",
                                               "operator",
                                               "or",
                                               "or_eq",
                                               "private",
                                               "protected",
                                               "public",
                                               "register",
                                               "restrict",
                                               "return",
                                               "short",
                                               "reinterpret_cast",
                                               "signed",
                                               "sizeof",
                                               "static",
                                               "static_assert",
                                               "static_cast",
                                               "struct",
                                               "switch",
                                               "template",
                                               "this",
                                               "thread_local",
                                               "throw",
                                               "true",
                                               "try",
                                               "typedef",
                                               "typeid",
                                               "typename",
                                               "union",
                                               "unsigned",
                                               "using",
                                               "virtual",
                                               "void",
                                               "volatile",
                                               "wchar_t",
                                               "while",
                                               "xor",
                                               "xor_eq"};
  return std::find(std::begin(Words), std::end(Words), text) != std::end(Words);
}

/// The lengths of one input. `used` gets the names of dimensions that were needed.
Expected<Shape> shapeOf(const TensorSpec &spec, const GenerateOptions &options, const Names &names,
                        std::map<std::string, bool> &used) {
  const auto stated = options.shapes.find(spec.name);
  Shape shape = spec.shape;
  if (stated != options.shapes.end()) {
    shape = stated->second;
    bool fits = shape.size() == spec.shape.size();
    for (size_t i = 0; fits && i < shape.size(); ++i)
      fits = shape[i] >= 0 && (spec.shape[i] == Dynamic || spec.shape[i] == shape[i]);
    if (!fits)
      return Status(Code::InvalidArgument,
                    "the shape " + toString(shape) + " is not one of '" + spec.toString() + "'");
    return shape;
  }
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] != Dynamic)
      continue;
    std::string name;
    if (const auto input = names.find(spec.name); input != names.end())
      if (const auto found = input->second.find(axis); found != input->second.end())
        name = found->second;
    const auto length = options.dimensions.find(name);
    if (name.empty() || length == options.dimensions.end())
      return Status(Code::InvalidArgument,
                    "dimension " + std::to_string(axis) + " of input '" + spec.toString() +
                        "' has no length: state " +
                        (name.empty() ? "--shape " + spec.name + "=..." : "--dim " + name + "=N"));
    used[name] = true;
    shape[axis] = length->second;
  }
  return shape;
}

} // namespace

Expected<Generated> generate(const std::string &path, const GenerateOptions &options) {
  if (!isIdentifier(options.name))
    return Status(Code::InvalidArgument,
                  "'" + options.name + "' is no C identifier of at most 64 characters");
  if (isReserved(options.name))
    return Status(Code::InvalidArgument,
                  "'" + options.name + "' is a word of C or C++; state another --name");
  native::Limits limits = native::toolLimits();
  limits.memory = options.memory;
  Expected<std::shared_ptr<native::Network>> network = native::Network::open(path, limits);
  if (!network)
    return network.status();
  Expected<Buffer> file = engine::readFile(path, LargestFile);
  if (!file)
    return file.status();
  const Names names =
      namesOfDimensions({reinterpret_cast<const char *>(file->data()), file->size()});
  const Signature &signature = (*network)->signature();
  for (const auto &[name, shape] : options.shapes)
    if (signature.findInput(name) < 0)
      return Status(Code::InvalidArgument,
                    "there is no input '" + name + "' in " + signature.toString());
  std::vector<Shape> shapes;
  std::map<std::string, bool> used;
  for (const TensorSpec &spec : signature.inputs) {
    Expected<Shape> shape = shapeOf(spec, options, names, used);
    if (!shape)
      return shape.status();
    shapes.push_back(std::move(*shape));
  }
  for (const auto &[name, length] : options.dimensions) {
    if (length < 0)
      return Status(Code::InvalidArgument, "dimension '" + name + "' has a negative length");
    if (!used.count(name))
      return Status(Code::InvalidArgument, "no input needs a dimension '" + name + "'");
  }
  Expected<std::shared_ptr<const native::Plan>> plan = (*network)->plan(shapes, limits.deadline);
  if (!plan)
    return plan.status();
  if (!(*plan)->decisions.empty())
    return Status(Code::Unsupported,
                  path + ": shapes depend on the values of inputs, which a compiled network's "
                         "can't; native: runs it");
  return print(**plan, (*network)->metadata(), path.substr(path.rfind('/') + 1), options);
}

} // namespace mlbridge::aot
