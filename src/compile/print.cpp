// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan as C++: each kernel call becomes a function with constant parameters, so that the compiler
// specializes it, and calls that are alike share one.
#include "compile/print.h"

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

const char *typeInC(ElementType type) {
  switch (type) {
  case ElementType::Int8:
    return "int8_t";
  case ElementType::Int16:
    return "int16_t";
  case ElementType::Int32:
    return "int32_t";
  case ElementType::Int64:
    return "int64_t";
  case ElementType::UInt8:
  case ElementType::Bool:
    return "uint8_t";
  case ElementType::UInt16:
  case ElementType::Float16:
    return "uint16_t";
  case ElementType::UInt32:
    return "uint32_t";
  case ElementType::UInt64:
    return "uint64_t";
  case ElementType::Float32:
    return "float";
  case ElementType::Float64:
    return "double";
  case ElementType::String:
    break;
  }
  return "char";
}

uint64_t bytesOf(const TensorSpec &spec) {
  return elementCount(spec.shape).value_or(0) * sizeOf(spec.type);
}
uint64_t aligned(uint64_t bytes) { return (bytes + 63) & ~uint64_t(63); }

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
    out.source = "// Made by mlbridge compile of " + file_ + ". Compiled once with\n" +
                 "// MLBRIDGE_AOT_ISA for each instruction set, and once without.\n" +
                 "#include <cstddef>\n#include <cstdint>\n#include <cstdlib>\n"
                 "#include <cstring>\n#include <ctime>\n\n"
                 "#ifdef MLBRIDGE_AOT_ISA\n" +
                 evaluation + "\n#else\n" + printInterface(id) + "\n#endif\n";
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
      return "in" + number(operand.index) + plus(operand.offset);
    case Place::Output:
      return "out" + number(operand.index) + plus(operand.offset);
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
    body += "  " + std::string(native::expressionOf(step.kernel)) + "(o, p);\n}\n";
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
    bool loops = false;
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
        loops = true;
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
        body += "  if (hasPassed(left, start))\n    return -1;\n  }\n  }\n";
        break;
      }
    }
    std::string out = R"(#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
// The kernels are this object's own, whatever else the program is linked with.
#define MLBRIDGE_NATIVE_WITHOUT_TABLES
namespace {
#include MLBRIDGE_AOT_VECTOR
#include "along_axis.h"
#include "gemm.h"
#include "plain.h"
#include "recurrent.h"
using namespace mlbridge::native::kernels;
using Isa = mlbridge::native::kernels::MLBRIDGE_AOT_ISA;
[[maybe_unused]] typedef Isa::F32 F32;
[[maybe_unused]] typedef Isa::F64 F64;

)";
    if (loops)
      out += R"(bool hasPassed(std::uint64_t left, const timespec &start) {
  if (left == UINT64_MAX)
    return false;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t passed = (now.tv_sec - start.tv_sec) * 1000000000 + (now.tv_nsec - start.tv_nsec);
  return static_cast<std::uint64_t>(passed) >= left;
}
)";
    out += "} // namespace\n\n" + functions;
    out += "\n#define MLBRIDGE_JOIN_(a, b) a##b\n#define MLBRIDGE_JOIN(a, b) MLBRIDGE_JOIN_(a, b)\n"
           "extern \"C\" std::int32_t MLBRIDGE_JOIN(" +
           name_ +
           "_evaluate, MLBRIDGE_AOT_ISA)(const void *, void *, void *const *, void *const *, "
           "std::uint64_t);\nextern \"C\" std::int32_t MLBRIDGE_JOIN(" +
           name_ +
           "_evaluate, MLBRIDGE_AOT_ISA)(const void *constants, void *workspace, void *const "
           "*inputs, void *const *outputs, std::uint64_t left) {\n"
           "  [[maybe_unused]] unsigned char *const weights = "
           "static_cast<unsigned char *>(const_cast<void *>(constants));\n"
           "  [[maybe_unused]] unsigned char *const space = "
           "static_cast<unsigned char *>(workspace);\n  (void)left;\n";
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      out += "  [[maybe_unused]] unsigned char *const in" + number(i) +
             " = static_cast<unsigned char *>(inputs[" + number(i) + "]);\n";
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      out += "  [[maybe_unused]] unsigned char *const out" + number(i) +
             " = static_cast<unsigned char *>(outputs[" + number(i) + "]);\n";
    if (loops)
      out += "  timespec start = {};\n  if (left != UINT64_MAX)\n"
             "    clock_gettime(CLOCK_MONOTONIC, &start);\n";
    if (!plan_.faults.empty())
      out += "  std::memset(space, 0, " + number(plan_.faults.size() * sizeof(int64_t)) + ");\n";
    out += body;
    for (const native::Fault &fault : plan_.faults)
      out += "  if (*reinterpret_cast<const std::int64_t *>(space + " + number(fault.offset) +
             "))\n    return " + number(uint64_t(fault.node) + 1) + ";\n";
    return out + "  return 0;\n}\n";
  }

  /// Of all that isn't the numbers in the weights: those of one may be used with the other.
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

  std::string tensors(const std::vector<TensorSpec> &specs, const char *what) const {
    std::string out;
    for (size_t i = 0; i < specs.size(); ++i) {
      out += "const std::int64_t " + std::string(what) + "Shape" + number(i) + "[] = {";
      for (const int64_t length : specs[i].shape)
        out += std::to_string(length) + ", ";
      out += specs[i].shape.empty() ? "0};\n" : "};\n";
    }
    out += "const mlb_aot_tensor " + std::string(what) + "s[] = {\n";
    for (size_t i = 0; i < specs.size(); ++i)
      out += "    {" + stringEntry(specs[i].name) + ", " +
             number(static_cast<uint32_t>(specs[i].type)) + ", " + number(specs[i].shape.size()) +
             ", " + what + "Shape" + number(i) + "},\n";
    return out + (specs.empty() ? "    {}};\n" : "};\n");
  }

  /// Puts names and what depends on where the weights are into a piece of text of this file.
  std::string fill(std::string text) const;
  std::string printInterface(uint64_t id) const;
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

std::string Printer::printInterface(uint64_t id) const {
  std::string out = fill(R"(#include "cpu.h"

#include <mlbridge/aot.h>

#ifdef MLBRIDGE_AOT_SHARED
#define EXPORTED extern "C" __attribute__((visibility("default")))
#else
#define EXPORTED extern "C"
#endif

)");
  if (!options_.externalWeights)
    out += fill(R"(__asm__(".pushsection .rodata.NAME_weights,\"a\"\n"
        ".balign 64\n"
        ".globl NAME_weightsData\n"
        ".hidden NAME_weightsData\n"
        "NAME_weightsData:\n"
        ".incbin \"weights.bin\"\n"
        ".balign 64\n"
        ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const unsigned char NAME_weightsData[];
)");
  out += fill(R"(
using Evaluate = std::int32_t(const void *, void *, void *const *, void *const *, std::uint64_t);
extern "C" {
#define DECLARE(isa) __attribute__((visibility("hidden"))) Evaluate NAME_evaluate##isa;
MLBRIDGE_AOT_ISAS(DECLARE)
}

namespace {

bool hasPortable() { return true; }
bool hasNeon() { return true; }
#if defined(__x86_64__)
bool hasAvx2() { return mlbridge::native::cpuFeatures().avx2; }
bool hasAvx512() { return mlbridge::native::cpuFeatures().avx512; }
#endif

bool isCalled(const char *text, const char *name) {
  for (; *text && (*text | 0x20) == (*name | 0x20); ++text, ++name) {
  }
  return !*text && !*name;
}

/// The last of the list that this CPU has, or the one that MLBRIDGE_NATIVE_ISA names.
Evaluate *choose() {
  const char *wanted = std::getenv("MLBRIDGE_NATIVE_ISA");
  Evaluate *best = nullptr;
#define CONSIDER(isa)                                                                              \
  if (has##isa()) {                                                                                \
    best = &NAME_evaluate##isa;                                                                    \
    if (wanted && isCalled(wanted, #isa))                                                          \
      return best;                                                                                 \
  }
  MLBRIDGE_AOT_ISAS(CONSIDER)
  return best;
}

Evaluate *chosen() {
  static Evaluate *Chosen = nullptr;
  Evaluate *evaluate = __atomic_load_n(&Chosen, __ATOMIC_RELAXED);
  if (!evaluate) {
    evaluate = choose();
    __atomic_store_n(&Chosen, evaluate, __ATOMIC_RELAXED);
  }
  return evaluate;
}

std::int32_t evaluate(const void *weights, void *workspace, void *const *inputs,
                      void *const *outputs, std::uint64_t left) {
  return chosen()(weights, workspace, inputs, outputs, left);
}

)");
  out += tensors(plan_.inputs, "input") + tensors(plan_.outputs, "output");
  out += "const mlb_aot_string metadata[] = {\n";
  size_t strings = 0;
  for (const auto &[key, value] : metadata_) {
    out += "    " + stringEntry(key) + ", " + stringEntry(value) + ",\n";
    strings += 2;
  }
  out += strings ? "};\n" : "    {}};\n";
  out += "const mlb_aot_string nodes[] = {\n";
  for (const std::string &node : plan_.nodes)
    out += "    " + stringEntry(node) + ",\n";
  out += plan_.nodes.empty() ? "    {}};\n" : "};\n";

  out += "const mlb_aot_model model = {\n    sizeof(mlb_aot_model), MLB_AOT_ABI, 0, " +
         stringEntry(name_) + ",\n    inputs, " + number(plan_.inputs.size()) + ", outputs, " +
         number(plan_.outputs.size()) + ", metadata, " + number(strings) + ",\n    " +
         (options_.externalWeights ? "nullptr" : name_ + "_weightsData") + ", " +
         number(weightsSize_) + "u, " + number(id) + "u, " + number(plan_.workspace) +
         "u, nodes, " + number(plan_.nodes.size()) + ", evaluate};\n\n";

  // The context: buffers behind it, in one piece.
  uint64_t at = 64;
  const auto place = [&](const std::vector<TensorSpec> &specs, const char *what) {
    std::string list = "constexpr std::size_t " + std::string(what) + "Offsets[] = {";
    for (const TensorSpec &spec : specs) {
      list += number(at) + ", ";
      at += std::max<uint64_t>(aligned(bytesOf(spec)), 64);
    }
    return list + (specs.empty() ? "0};\n" : "};\n");
  };
  at = aligned(sizeof(void *) * (2 + plan_.inputs.size() + plan_.outputs.size()));
  out += place(plan_.inputs, "input") + place(plan_.outputs, "output");
  out += "constexpr std::size_t workspaceOffset = " + number(at) +
         ";\nconstexpr std::size_t contextSize = " + number(at + aligned(plan_.workspace)) + ";\n";
  out += "constexpr std::size_t inputsCount = " + number(plan_.inputs.size()) +
         ", outputsCount = " + number(plan_.outputs.size()) + ";\n";
  out += fill(R"(
// The header's struct: C++ code calls the file's functions only, and its name may be any.
struct Context {
  const void *weights;
  Evaluate *evaluate;
  void *buffers[inputsCount + outputsCount + 1];
};

} // namespace

EXPORTED const mlb_aot_model *NAME_model(void) { return &model; }
#ifdef MLBRIDGE_AOT_SHARED
EXPORTED const mlb_aot_model *mlb_aot_entry(void) { return &model; }
#endif
EXPORTED std::size_t NAME_context_size(void) { return contextSize; }
EXPORTED Context *NAME_init(void *memoryWEIGHTS_ALSO) {
  if (!memory || reinterpret_cast<std::uintptr_t>(memory) % 64)
    return nullptr;
WEIGHTS_CHECK
  std::memset(memory, 0, contextSize);
  Context *const context = static_cast<Context *>(memory);
  unsigned char *const bytes = static_cast<unsigned char *>(memory);
  context->weights = WEIGHTS_ADDRESS;
  context->evaluate = chosen();
  for (std::size_t i = 0; i < inputsCount; ++i)
    context->buffers[i] = bytes + inputOffsets[i];
  for (std::size_t i = 0; i < outputsCount; ++i)
    context->buffers[inputsCount + i] = bytes + outputOffsets[i];
  return context;
}
EXPORTED Context *NAME_create(WEIGHTS_ONLY) {
  void *const memory = std::aligned_alloc(64, contextSize);
  Context *const context = NAME_init(memoryWEIGHTS_PASSED);
  if (!context)
    std::free(memory);
  return context;
}
EXPORTED void NAME_destroy(Context *context) { std::free(context); }
EXPORTED int NAME_run(Context *context) {
  return context->evaluate(context->weights,
                           reinterpret_cast<unsigned char *>(context) + workspaceOffset,
                           context->buffers, context->buffers + inputsCount, UINT64_MAX);
}
EXPORTED void *NAME_input(Context *context, std::size_t index) {
  return index < inputsCount ? context->buffers[index] : nullptr;
}
EXPORTED const void *NAME_output(const Context *context, std::size_t index) {
  return index < outputsCount ? context->buffers[inputsCount + index] : nullptr;
}
)");
  return out;
}

std::string Printer::printHeader() const {
  std::string out = fill(R"(/* Made by mlbridge compile of FILE.
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
  const auto accessors = [&](const std::vector<TensorSpec> &specs, const char *what) {
    const bool isInput = what[0] == 'i';
    for (size_t i = 0; i < specs.size(); ++i) {
      std::string id = std::string(what) + "_" + identifier(specs[i].name);
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
      out += std::string("_") + what + "(context, " + number(i) + ");\n}\n";
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

std::string Printer::fill(std::string text) const {
  const bool external = options_.externalWeights;
  const std::pair<const char *, std::string> pieces[] = {
      {"WEIGHTS_CHECK",
       external
           ? R"(  const mlb_aot_weights *const head = static_cast<const mlb_aot_weights *>(weights);
  if (!weights || reinterpret_cast<std::uintptr_t>(weights) % 64 || size < sizeof *head ||
      std::memcmp(head->magic, "MLBWGT1\n", 8) != 0 || head->id != model.weights_id ||
      head->size != model.weights_size || size - sizeof *head < head->size)
    return nullptr;)"
           : ""},
      {"WEIGHTS_ONLY", external ? "const void *weights, size_t size" : "void"},
      {"WEIGHTS_ALSO", external ? ", const void *weights, size_t size" : ""},
      {"WEIGHTS_PASSED", external ? ", weights, size" : ""},
      {"WEIGHTS_ADDRESS", external ? "head + 1" : name_ + "_weightsData"},
      {"WEIGHTS_COMMENT", external ? "/* weights: a file of mlbridge compile --weights, whole, at "
                                     "a multiple of 64; it has to outlive\n * the context. */\n"
                                   : ""},
      {"OR_WEIGHTS", external ? ", or not weights of this network" : ""},
      {"FILE", file_},
      {"UPPER", upper(name_)},
      {"NAME", name_}};
  // What is filled in is not looked at again: a name may be any of these words.
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
