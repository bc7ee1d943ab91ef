// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan as C++: each kernel call becomes a function with constant parameters, so that the compiler
// specializes it, and calls that are alike share one.
#include "engine/native/compile/generate.h"

#include <mlbridge/aot.h>

#include <algorithm>
#include <cstring>

namespace mlbridge::aot {
namespace {

using native::Operand;
using native::Place;
using native::Step;

std::string number(uint64_t n) { return std::to_string(n); }

/// A C string literal; also of text that isn't, in octal.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\' && c != '?') {
      out += c;
    } else {
      char octal[5];
      std::snprintf(octal, sizeof octal, "\\%03o", byte);
      out += octal;
    }
  }
  return out + '"';
}

/// For a comment: nothing that ends it or the line.
std::string harmless(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 200))
    out += (c >= ' ' && c < 0x7f && c != '*' && c != '/' && c != '\\' && c != '?') ? c : '_';
  return out;
}

std::string identifier(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return out;
}

std::string upper(std::string text) {
  for (char &c : text)
    if (c >= 'a' && c <= 'z')
      c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string stringEntry(std::string_view text) {
  return "{" + quoted(text) + ", " + number(text.size()) + "}";
}

std::string typeInC(ElementType type) {
  switch (type) {
  case ElementType::Bool:
    return "uint8_t";
  case ElementType::Float16:
    return "uint16_t";
  case ElementType::Float32:
    return "float";
  case ElementType::Float64:
    return "double";
  default:
    return std::string(name(type)) + "_t";
  }
}

uint64_t aligned(uint64_t bytes) { return (bytes + 63) & ~uint64_t(63); }

/// How source calls a kernel: "Gemm<F32>", "F32FromF16<Isa>", or the plain name.
std::string expressionOf(native::KernelId kernel) {
  std::string name = native::nameOf(kernel);
#define MLBRIDGE_CASE(id) case native::KernelId::id:
  switch (kernel) {
    MLBRIDGE_NATIVE_VECTOR_KERNELS(MLBRIDGE_CASE)
    return name + "<Isa>";
    MLBRIDGE_NATIVE_PLAIN_KERNELS(MLBRIDGE_CASE)
    return name;
  default:
    return name.substr(0, name.size() - 3) + "<" + name.substr(name.size() - 3) + ">";
  }
#undef MLBRIDGE_CASE
}

class Printer {
public:
  Printer(const native::Plan &plan, const Metadata &metadata, const std::string &file,
          const GenerateOptions &options)
      : plan_(plan), metadata_(metadata), file_(harmless(file)), options_(options),
        name_(options.name) {}

  Generated run() {
    Generated out;
    layOutWeights(out.weights);
    const std::string evaluation = printEvaluation();
    const uint64_t id = hash();
    if (options_.externalWeights) {
      mlb_aot_weights head = {{'M', 'L', 'B', 'W', 'G', 'T', '1', '\n'}, id, weightsSize_, {}};
      out.weights.insert(0, reinterpret_cast<const char *>(&head), sizeof head);
    }
    out.source = "// Made by mlbridge aot of " + file_ + ". Compiled with MLBRIDGE_AOT_ISA for\n" +
                 "// each instruction set (NAME_ISA.cpp), and once without.\n" +
                 "#define MLBRIDGE_AOT_NAME " + name_ + "\n" +
                 (options_.externalWeights ? "#define MLBRIDGE_AOT_EXTERNAL_WEIGHTS\n" : "") +
                 "#ifdef MLBRIDGE_AOT_ISA\n" + evaluation + "\n#else\n" + printTables(id) +
                 "#include \"kernels/compiled_model.h\"\n#endif\n";
    out.header = printHeader();
    return out;
  }

private:
  void layOutWeights(std::string &weights) {
    for (const auto &constant : plan_.constants) {
      weightOffsets_.push_back(weights.size());
      weights.append(reinterpret_cast<const char *>(constant->data()), constant->size());
      weights.resize(aligned(weights.size()));
    }
    weightsSize_ = weights.size();
  }

  std::string address(const Operand &operand) const {
    const auto plus = [](uint64_t offset) { return offset ? " + " + number(offset) : ""; };
    switch (operand.place) {
    case Place::None:
      return "nullptr";
    case Place::Input:
      return "in(" + number(operand.index) + ")" + plus(operand.offset);
    case Place::Output:
      return "out(" + number(operand.index) + ")" + plus(operand.offset);
    case Place::Workspace:
      return "space" + plus(operand.offset);
    case Place::Constant:
      return "weights" + plus(weightOffsets_[operand.index] + operand.offset);
    }
    return "nullptr";
  }
  std::string operand(const Step &step, uint32_t i) const {
    return address(plan_.operands[step.firstOperand + i]);
  }
  bool isNull(const Step &step, uint32_t i) const {
    return i >= step.operandCount || plan_.operands[step.firstOperand + i].place == Place::None;
  }

  /// The function that calls the step's kernel; a new one unless there is one of its kind.
  std::string callee(const Step &step, std::string &functions) {
    std::string body = "  static constexpr std::int64_t p[] = {";
    for (uint32_t i = 0; i < step.parameterCount; ++i)
      body += number64(plan_.parameters[step.firstParameter + i]) + ", ";
    body += step.parameterCount ? "};\n" : "0};\n";
    body += "  " + expressionOf(step.kernel) + "(o, p);\n}\n";
    const auto [it, isNew] = callees_.emplace(body, "step" + number(callees_.size()));
    if (isNew)
      functions += "static void " + it->second + "(void *const *o) {\n" + body;
    return it->second;
  }
  /// Also of the least one.
  static std::string number64(int64_t n) {
    return n == INT64_MIN ? "INT64_MIN" : std::to_string(n);
  }

  std::string printEvaluation() {
    std::string functions, body;
    for (const Step &step : plan_.steps) {
      switch (step.kind) {
      case Step::Kind::Kernel: {
        std::string list;
        for (uint32_t i = 0; i < step.operandCount; ++i)
          list += (i ? ", " : "") + operand(step, i);
        body += "  { // " + harmless(step.node < plan_.nodes.size() ? plan_.nodes[step.node] : "") +
                "\n    void *const o[] = {" + (list.empty() ? "nullptr" : list) + "};\n    " +
                callee(step, functions) + "(o);\n  }\n";
        break;
      }
      case Step::Kind::If:
        body += "  if (*(" + operand(step, 0) + ")) {\n";
        break;
      case Step::Kind::Else:
        body += "  } else {\n";
        break;
      case Step::Kind::EndIf:
        body += "  }\n";
        break;
      case Step::Kind::Loop: {
        std::string condition;
        if (!isNull(step, 1))
          condition =
              "*counter < *reinterpret_cast<const std::int64_t *>(" + operand(step, 1) + ")";
        if (!isNull(step, 2))
          condition += (condition.empty() ? "*(" : " && *(") + operand(step, 2) + ")";
        body += "  {\n  std::int64_t *const counter = reinterpret_cast<std::int64_t *>(" +
                operand(step, 0) + ");\n  for (*counter = 0; " +
                (condition.empty() ? "true" : condition) + "; ++*counter) {\n";
        break;
      }
      case Step::Kind::EndLoop:
        body += "  MLBRIDGE_AOT_LOOK_AT_CLOCK\n  }\n  }\n";
        break;
      }
    }
    std::string out = "#include \"kernels/compiled_evaluation.h\"\n\n" + functions +
                      "\nMLBRIDGE_AOT_EVALUATE {\n  MLBRIDGE_AOT_OPERANDS\n";
    if (plan_.hasLoops)
      out += "  MLBRIDGE_AOT_BEGIN_LOOPS\n";
    if (!plan_.faults.empty())
      out += "  std::memset(space, 0, " + number(plan_.faults.size() * sizeof(int64_t)) + ");\n";
    out += body;
    for (const native::Fault &fault : plan_.faults)
      out += "  if (*reinterpret_cast<const std::int64_t *>(space + " + number(fault.offset) +
             "))\n    return " + number(uint64_t(fault.node) + 1) + ";\n";
    return out + "  return 0;\n}\n";
  }

  /// Covers everything but the numbers in the weights: networks of one hash may exchange them.
  uint64_t hash() const {
    uint64_t h = 0xcbf29ce484222325u;
    const auto bytes = [&](const void *data, size_t size) {
      for (size_t i = 0; i < size; ++i)
        h = (h ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3u;
    };
    const auto value = [&](uint64_t v) { bytes(&v, sizeof v); };
    for (const Step &step : plan_.steps) {
      value(static_cast<uint64_t>(step.kind));
      if (step.kind == Step::Kind::Kernel)
        bytes(native::nameOf(step.kernel), std::strlen(native::nameOf(step.kernel)) + 1);
      value(step.operandCount);
      for (uint32_t i = 0; i < step.operandCount; ++i) {
        const Operand &o = plan_.operands[step.firstOperand + i];
        value(static_cast<uint64_t>(o.place));
        value(o.index);
        value(o.offset);
      }
      value(step.parameterCount);
      for (uint32_t i = 0; i < step.parameterCount; ++i)
        value(static_cast<uint64_t>(plan_.parameters[step.firstParameter + i]));
    }
    for (const auto &constant : plan_.constants)
      value(constant->size());
    for (const auto *specs : {&plan_.inputs, &plan_.outputs})
      for (const TensorSpec &spec : *specs) {
        const std::string text = spec.toString();
        bytes(text.data(), text.size() + 1);
      }
    return h;
  }

  std::string tensors(const std::vector<TensorSpec> &specs, const char *side) const {
    std::string out;
    for (size_t i = 0; i < specs.size(); ++i) {
      out += "const std::int64_t " + std::string(side) + "Shape" + number(i) + "[] = {";
      for (const int64_t length : specs[i].shape)
        out += std::to_string(length) + ", ";
      out += specs[i].shape.empty() ? "0};\n" : "};\n";
    }
    out += "const mlb_aot_tensor " + std::string(side) + "s[] = {\n";
    for (size_t i = 0; i < specs.size(); ++i)
      out += "    {" + stringEntry(specs[i].name) + ", " +
             number(static_cast<uint32_t>(specs[i].type)) + ", " + number(specs[i].shape.size()) +
             ", " + side + "Shape" + number(i) + "},\n";
    return out + (specs.empty() ? "    {}};\n" : "};\n");
  }

  std::string strings(const char *table, const std::vector<std::string> &texts) const {
    std::string out = "const mlb_aot_string " + std::string(table) + "[] = {\n";
    for (const std::string &text : texts)
      out += "    " + stringEntry(text) + ",\n";
    return out + (texts.empty() ? "    {}};\n" : "};\n");
  }

  /// The constants that kernels/compiled_model.h makes the model's table and functions of.
  std::string printTables(uint64_t id) const {
    std::vector<std::string> metadata;
    for (const auto &[key, value] : metadata_)
      metadata.insert(metadata.end(), {key, value});
    std::string out =
        "#include \"mlbridge/aot.h\"\n\n#include <cstddef>\n#include <cstdint>\n\nnamespace {\n";
    out += tensors(plan_.inputs, "input") + tensors(plan_.outputs, "output") +
           strings("metadata", metadata) + strings("nodes", plan_.nodes);
    const std::pair<const char *, uint64_t> numbers[] = {
        {"inputsCount", plan_.inputs.size()}, {"outputsCount", plan_.outputs.size()},
        {"metadataCount", metadata.size()},   {"nodesCount", plan_.nodes.size()},
        {"weightsSize", weightsSize_},        {"weightsId", id},
        {"workspaceSize", plan_.workspace}};
    for (const auto &[name, value] : numbers)
      out += "constexpr std::uint64_t " + std::string(name) + " = " + number(value) + "u;\n";
    out += "// Of inputs and outputs.\nconstexpr std::size_t bufferSizes[] = {";
    for (const auto *specs : {&plan_.inputs, &plan_.outputs})
      for (const TensorSpec &spec : *specs)
        out += number(std::max<uint64_t>(aligned(native::bytesOf(spec)), 64)) + ", ";
    return out + "0};\n} // namespace\n\n";
  }

  /// Puts names and what depends on where the weights are into a piece of the header.
  std::string fill(std::string_view text) const;
  std::string printHeader() const;

  const native::Plan &plan_;
  const Metadata &metadata_;
  const std::string file_;
  const GenerateOptions &options_;
  const std::string &name_;
  std::vector<uint64_t> weightOffsets_;
  uint64_t weightsSize_ = 0;
  std::map<std::string, std::string> callees_;
};

std::string Printer::printHeader() const {
  std::string out = fill(R"(/* Made by mlbridge aot of FILE.
 *
 * A context is used by one thread at a time; any number of them share the weights. Buffers are
 * dense, row-major, zero at first, and stay where they are. Nothing is printed, nothing is
 * allocated after create or init. */
#ifndef UPPER_H
#define UPPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NAME NAME;

WEIGHTS_COMMENTNAME *NAME_create(WEIGHTS_ONLY); /* NULL: no memoryOR_WEIGHTS */
void NAME_destroy(NAME *context); /* of create; may be NULL */

/* In memory of the caller, context_size() bytes at a multiple of 64; otherwise NULL. */
size_t NAME_context_size(void);
NAME *NAME_init(void *memoryWEIGHTS_ALSO);

/* Reads the inputs, writes the outputs. Not 0: an input had an index that is out of range, and the
 * outputs are unspecified. */
int NAME_run(NAME *context);

)");
  const std::string large = upper(name_);
  out += "enum { " + large + "_INPUTS = " + number(plan_.inputs.size()) + ", " + large +
         "_OUTPUTS = " + number(plan_.outputs.size()) + " };\n";
  out += fill("/* NULL past the last one. */\nvoid *NAME_input(NAME *context, size_t index);\n"
              "const void *NAME_output(const NAME *context, size_t index);\n\n");
  std::map<std::string, int> taken;
  const auto accessors = [&](const std::vector<TensorSpec> &specs, const char *side) {
    const bool isInput = side[0] == 'i';
    for (size_t i = 0; i < specs.size(); ++i) {
      std::string id = std::string(side) + "_" + identifier(specs[i].name);
      if (taken[id]++)
        id += "_" + number(i);
      const std::string type = std::string(isInput ? "" : "const ") + typeInC(specs[i].type);
      out += "/* " + harmless(specs[i].toString()) + " */\n";
      out += "#define " + large + "_" + upper(id) + "_SIZE " +
             number(elementCount(specs[i].shape).value_or(0)) + "\n";
      out += "static inline " + type;
      out += " *" + name_;
      out += "_" + id;
      out += isInput ? "(" : "(const ";
      out += name_ + " *context) {\n  return (" + type + " *)" + name_;
      out += std::string("_") + side + "(context, " + number(i) + ");\n}\n";
    }
  };
  accessors(plan_.inputs, "input");
  accessors(plan_.outputs, "output");
  out += fill(R"(
/* Names, types, shapes, metadata, and the evaluation over buffers of one's own: mlbridge/aot.h. */
struct mlb_aot_model;
const struct mlb_aot_model *NAME_model(void);

#ifdef __cplusplus
}
#endif

#endif
)");
  return out;
}

std::string Printer::fill(std::string_view text) const {
  const bool isExternal = options_.externalWeights;
  const std::pair<const char *, std::string> pieces[] = {
      {"WEIGHTS_ONLY", isExternal ? "const void *weights, size_t size" : "void"},
      {"WEIGHTS_ALSO", isExternal ? ", const void *weights, size_t size" : ""},
      {"WEIGHTS_COMMENT", isExternal ? "/* weights: a file of mlbridge aot --weights, whole, at "
                                       "a multiple of 64; it has to outlive\n * the context. */\n"
                                     : ""},
      {"OR_WEIGHTS", isExternal ? ", or not weights of this network" : ""},
      {"FILE", file_},
      {"UPPER", upper(name_)},
      {"NAME", name_}};
  // A text that was filled in is not searched again: a name may be any of these words.
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const auto *const piece = std::find_if(std::begin(pieces), std::end(pieces), [&](auto &one) {
      return text.compare(at, std::strlen(one.first), one.first) == 0;
    });
    if (piece == std::end(pieces)) {
      filled += text[at++];
      continue;
    }
    filled += piece->second;
    at += std::strlen(piece->first);
  }
  return filled;
}

} // namespace

Generated print(const native::Plan &plan, const Metadata &metadata, const std::string &file,
                const GenerateOptions &options) {
  return Printer(plan, metadata, file, options).run();
}

} // namespace mlbridge::aot
