// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts that a program adds to the library: functions, engines, components and compiled
// networks.
#include "c/handles.h"

#include <mlbridge/c/extension.h>
#include <mlbridge/compiled.h>
#include <mlbridge/engine.h>

using namespace mlbridge;
using namespace mlbridge::c;

Status mlbridge::c::readMetadata(const char *const *pairs, uint64_t size, Metadata &to) {
  if (size % 2 || (size && !pairs))
    return Status(Code::InvalidArgument, "metadata: expected pairs of key and value");
  for (uint64_t i = 0; i < size; i += 2)
    to[textOf(pairs[i])] = textOf(pairs[i + 1]);
  return Status();
}

void *mlbridge::c::numbers(const TensorView &view, mlbridge_type type, uint64_t *count) {
  const bool fits = type == static_cast<mlbridge_type>(view.type) && type != MLBRIDGE_STRING;
  if (count)
    *count = fits ? view.count : 0;
  if (!fits)
    return nullptr;
  return view.data ? view.data : nothing();
}

static const TensorView NoNumbers = {ElementType::String, nullptr, 0, {}};

static std::optional<TensorView> outputOf(const mlbridge_call *call, const char *name) {
  const int i = call ? find(call->call.signature().outputs, name) : -1;
  return i < 0 ? std::nullopt : std::optional(call->call.output(static_cast<size_t>(i)));
}

static std::optional<TensorView> inputOf(const mlbridge_call *call, const char *name) {
  const int i = call ? find(call->call.signature().inputs, name) : -1;
  return i < 0 ? std::nullopt : std::optional(call->call.input(static_cast<size_t>(i)));
}

extern "C" {

const void *mlbridge_call_input(const mlbridge_call *call, const char *name, mlbridge_type type,
                                uint64_t *count) {
  return numbers(inputOf(call, name).value_or(NoNumbers), type, count);
}

const int64_t *mlbridge_call_input_shape(const mlbridge_call *call, const char *name,
                                         uint32_t *rank) {
  return shapeOf(inputOf(call, name), rank);
}

mlbridge_code mlbridge_call_input_string(const mlbridge_call *call, const char *name,
                                         uint64_t index, mlbridge_string *text) {
  return codeOf(getString(inputOf(call, name), name, index, text));
}

void *mlbridge_call_output(mlbridge_call *call, const char *name, mlbridge_type type,
                           uint64_t *count) {
  return numbers(outputOf(call, name).value_or(NoNumbers), type, count);
}

void *mlbridge_call_resize_output(mlbridge_call *call, const char *name, mlbridge_type type,
                                  const int64_t *shape, uint32_t rank, uint64_t *count) {
  if (count)
    *count = 0;
  const int i = call ? find(call->call.signature().outputs, name) : -1;
  if (i < 0)
    return nullptr;
  Expected<TensorView> view = call->call.resizeOutput(static_cast<size_t>(i), {shape, rank});
  if (!view) {
    call->message = view.status().message();
    return nullptr;
  }
  return numbers(*view, type, count);
}

mlbridge_code mlbridge_call_set_output_string(mlbridge_call *call, const char *name, uint64_t index,
                                              mlbridge_string text) {
  return codeOf(setString(outputOf(call, name), name, index, text));
}

const mlbridge_signature *mlbridge_call_signature(const mlbridge_call *call) {
  if (!call)
    return nullptr;
  if (!call->shown)
    call->shown = std::make_unique<ShownSignature>(call->call.signature());
  return call->shown->get();
}

mlbridge_call_context mlbridge_call_get_context(const mlbridge_call *call) {
  if (!call)
    return {"", "", ""};
  const CallContext &context = call->call.context();
  return {context.agent.c_str(), context.episode.c_str(), context.unit.c_str()};
}

mlbridge_code mlbridge_call_fail(mlbridge_call *call, mlbridge_code code, const char *message) {
  if (call)
    call->message = textOf(message);
  return code;
}

mlbridge_code mlbridge_register_function(const char *name, const mlbridge_function_model *model,
                                         char *message, uint64_t capacity) {
  const auto finish = [&](const Status &status) { return told(status, message, capacity); };
  mlbridge_function_model stated;
  if (Status s = readKnown(model, stated, "the model's", "mlbridge_function_model"); !s)
    return finish(s);
  if (!stated.function)
    return finish(Status(Code::InvalidArgument, "no function was given (null)"));
  FunctionModel content;
  if (stated.signature) {
    Expected<Signature> signature = signatureOf(*stated.signature);
    if (!signature)
      return finish(signature.status());
    content.signature = std::move(*signature);
  }
  if (Status s = readMetadata(stated.metadata, stated.metadata_size, content.metadata); !s)
    return finish(s);
  content.newFunction = [function = stated.function, data = stated.data] {
    return Function([function, data](FunctionCall &request) {
      mlbridge_call call{request, {}};
      const mlbridge_code code = function(&call, data);
      return statusOf(code, call.message.c_str());
    });
  };
  return finish(registerFunction(
      textOf(name), [content](const Uri &) { return Expected<FunctionModel>(content); }));
}

mlbridge_code mlbridge_register_engine(const char *scheme, const char *name,
                                       const mlb_engine *engine, char *message, uint64_t capacity) {
  if (!engine)
    return told(Status(Code::InvalidArgument, "no engine was given (null)"), message, capacity);
  return told(registerEngine(textOf(scheme), textOf(name), *engine), message, capacity);
}

mlbridge_code mlbridge_register_component(const mlb_component *component, char *message,
                                          uint64_t capacity) {
  if (!component)
    return told(Status(Code::InvalidArgument, "no component was given (null)"), message, capacity);
  return told(registerComponent(*component), message, capacity);
}

mlbridge_code mlbridge_register_compiled(const mlb_aot_model *model, char *message,
                                         uint64_t capacity) {
  if (!model)
    return told(Status(Code::InvalidArgument, "no network was given (null)"), message, capacity);
  return told(registerCompiled(model), message, capacity);
}

} // extern "C"
