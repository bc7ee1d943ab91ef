// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "c/handles.h"

#include <cstddef>

namespace mlbridge::c {

// The numbers are the library's.
static_assert(MLBRIDGE_INTERNAL == static_cast<int>(Code::Internal));
static_assert(MLBRIDGE_STRING == static_cast<int>(ElementType::String));
static_assert(MLBRIDGE_FLOAT32 == static_cast<int>(ElementType::Float32));
static_assert(sizeof(bool) == 1);
static_assert(MLBRIDGE_STOP == static_cast<int>(NextStep::Stop));

Status statusOf(mlbridge_code code, const char *message) {
  if (code == MLBRIDGE_OK)
    return Status();
  if (code < 0 || code > MLBRIDGE_INTERNAL)
    return makeError(Code::Internal, code, " is not an mlbridge_code",
                     message ? std::string(": ") + message : "");
  return Status(static_cast<Code>(code), textOf(message));
}

uint64_t writeText(std::string_view text, char *to, uint64_t capacity) {
  if (to && capacity) {
    const size_t size = std::min<uint64_t>(text.size(), capacity - 1);
    std::memcpy(to, text.data(), size);
    to[size] = '\0';
  }
  return text.size();
}

mlbridge_code told(const Status &status, char *message, uint64_t capacity) {
  writeText(status.message(), message, capacity);
  return codeOf(status);
}

static Status readSide(const mlbridge_tensor_spec *specs, uint64_t size, const char *side,
                       std::vector<TensorSpec> &to) {
  return readArray(specs, size, side, "mlbridge_tensor_spec",
                   offsetof(mlbridge_tensor_spec, maximum), [&](const mlbridge_tensor_spec &spec) {
                     if (spec.rank && !spec.shape)
                       return makeError(Code::InvalidArgument, "rank ", spec.rank,
                                        ", but shape is null");
                     if (spec.type > UINT8_MAX || spec.rank > UINT8_MAX)
                       return makeError(Code::InvalidArgument, "type ", spec.type, " or rank ",
                                        spec.rank, " is out of range");
                     TensorSpec &read = to.emplace_back();
                     read.name = textOf(spec.name);
                     read.type = static_cast<ElementType>(spec.type);
                     read.shape.assign(spec.shape, spec.shape + spec.rank);
                     if (spec.maximum)
                       read.maximum.assign(spec.maximum, spec.maximum + spec.rank);
                     return Status();
                   });
}

Expected<Signature> signatureOf(const mlbridge_signature &signature) {
  mlbridge_signature stated;
  Signature read;
  if (Status s = readKnown(&signature, stated, "the signature's", "mlbridge_signature"); !s)
    return s;
  Status s = readSide(stated.inputs, stated.inputs_size, "input", read.inputs);
  if (s)
    s = readSide(stated.outputs, stated.outputs_size, "output", read.outputs);
  if (s)
    s = read.check();
  if (!s)
    return s;
  return read;
}

static std::vector<mlbridge_tensor_spec> show(const std::vector<TensorSpec> &specs) {
  std::vector<mlbridge_tensor_spec> shown;
  shown.reserve(specs.size());
  for (const TensorSpec &spec : specs)
    shown.push_back(
        {sizeof(mlbridge_tensor_spec), spec.name.c_str(), static_cast<mlbridge_type>(spec.type),
         static_cast<uint32_t>(spec.shape.size()), spec.shape.empty() ? nullptr : spec.shape.data(),
         spec.maximum.empty() ? nullptr : spec.maximum.data()});
  return shown;
}

ShownSignature::ShownSignature(Signature signature)
    : signature_(std::move(signature)), inputs_(show(signature_.inputs)),
      outputs_(show(signature_.outputs)), shown_{sizeof(mlbridge_signature), inputs_.data(),
                                                 inputs_.size(), outputs_.data(), outputs_.size()} {
}

void *nothing() {
  alignas(64) static unsigned char bytes[64];
  return bytes;
}

const int64_t *shapeOf(const std::optional<TensorView> &view, uint32_t *rank) {
  if (rank)
    *rank = view ? static_cast<uint32_t>(view->shape.size()) : 0;
  if (!view)
    return nullptr;
  return view->shape.data() ? view->shape.data() : static_cast<const int64_t *>(nothing());
}

Expected<std::string *> stringAt(const std::optional<TensorView> &view, const char *name,
                                 uint64_t index) {
  const Span<std::string> all = view ? view->as<std::string>() : Span<std::string>();
  if (index < all.size())
    return &all[index];
  return makeError(Code::InvalidArgument, "tensor '", textOf(name), "' has ", all.size(),
                   " strings; there is no index ", index);
}

Status getString(const std::optional<TensorView> &view, const char *name, uint64_t index,
                 mlbridge_string *to) {
  if (!to)
    return Status(Code::InvalidArgument, "the pointer to write the string to is null");
  const Expected<std::string *> text = stringAt(view, name, index);
  if (text)
    *to = {(*text)->data(), (*text)->size()};
  return text.status();
}

Status setString(const std::optional<TensorView> &view, const char *name, uint64_t index,
                 mlbridge_string from) {
  if (!from.data && from.size)
    return Status(Code::InvalidArgument, "the string is null, but its size is not 0");
  const Expected<std::string *> text = stringAt(view, name, index);
  if (text)
    (*text)->assign(from.data ? from.data : "", from.size);
  return text.status();
}

int find(const std::vector<TensorSpec> &specs, const char *name) {
  const auto found = std::find_if(specs.begin(), specs.end(), [&](const TensorSpec &spec) {
    return name && spec.name == name;
  });
  return found == specs.end() ? -1 : static_cast<int>(found - specs.begin());
}

} // namespace mlbridge::c

using namespace mlbridge;
using namespace mlbridge::c;

extern "C" {

uint32_t mlbridge_c_version(void) { return MLBRIDGE_C_VERSION; }

const char *mlbridge_code_name(mlbridge_code code) {
  return code < 0 || code > MLBRIDGE_INTERNAL ? "unknown" : name(static_cast<Code>(code));
}

mlbridge_next_step mlbridge_code_next_step(mlbridge_code code) {
  if (code < 0 || code > MLBRIDGE_INTERNAL)
    return MLBRIDGE_STOP;
  return static_cast<mlbridge_next_step>(nextStep(static_cast<Code>(code)));
}

const char *mlbridge_next_step_name(mlbridge_next_step step) {
  return step > MLBRIDGE_STOP ? "unknown" : name(static_cast<NextStep>(step));
}

const char *mlbridge_type_name(mlbridge_type type) {
  return name(static_cast<ElementType>(type > UINT8_MAX ? 0 : type));
}

mlbridge_type mlbridge_type_named(const char *name) {
  const Expected<ElementType> type = elementTypeNamed(textOf(name));
  return type ? static_cast<mlbridge_type>(*type) : 0;
}

uint64_t mlbridge_type_size(mlbridge_type type) {
  return type > UINT8_MAX ? 0 : sizeOf(static_cast<ElementType>(type));
}

float mlbridge_float_of_half(uint16_t half) { return toFloat(Half{half}); }

uint16_t mlbridge_half_of_float(float value) { return toHalf(value).bits; }

mlbridge_code mlbridge_signature_check(const mlbridge_signature *signature, char *message,
                                       uint64_t capacity) {
  if (!signature)
    return told(Status(Code::InvalidArgument, "no signature was given (null)"), message, capacity);
  return told(signatureOf(*signature).status(), message, capacity);
}

uint64_t mlbridge_signature_text(const mlbridge_signature *signature, char *text,
                                 uint64_t capacity) {
  if (!signature)
    return writeText("", text, capacity);
  const Expected<Signature> read = signatureOf(*signature);
  return writeText(read ? read->toString() : read.status().toString(), text, capacity);
}

} // extern "C"
