// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The engine's side of the component table. Nothing is thrown across it.
#include "core/component_values.h"
#include "runner.h"

#include <exception>
#include <new>

namespace mlbridge::onnx {
namespace {

/// Calls what returns a Status, and turns what it throws into one.
template <typename F> mlb_code guarded(mlb_error *error, const F &body) noexcept {
  try {
    try {
      return fail(error, body());
    } catch (const std::bad_alloc &) {
      return fail(error, {Code::LimitExceeded, "out of memory"});
    } catch (const std::exception &e) {
      return fail(error, {Code::Internal, std::string("onnx engine: ") + e.what()});
    }
  } catch (...) {
    if (error)
      error->size = 0;
    return static_cast<mlb_code>(Code::Internal);
  }
}

mlb_code openFrom(const Span<const uint8_t> *memory, mlb_string place, const mlb_option *options,
                  uint64_t optionsSize, void **model, mlb_error *error) {
  return guarded(error, [&]() -> Status {
    Expected<Options> parsed = Options::parse(options, optionsSize);
    if (!parsed)
      return parsed.status();
    Expected<std::unique_ptr<Model>> opened =
        Model::open(std::string(place.data, place.size), *parsed, memory);
    if (!opened)
      return opened.status();
    *model = (*opened).release();
    return Status();
  });
}

mlb_code open(mlb_string place, const mlb_option *options, uint64_t optionsSize, void **model,
              mlb_error *error) {
  return openFrom(nullptr, place, options, optionsSize, model, error);
}

mlb_code openMemory(mlb_bytes bytes, mlb_string place, const mlb_option *options,
                    uint64_t optionsSize, void **model, mlb_error *error) {
  const Span<const uint8_t> memory(bytes.data, bytes.size);
  return openFrom(&memory, place, options, optionsSize, model, error);
}

void close(void *model) { delete static_cast<Model *>(model); }

mlb_code metadata(void *model, uint64_t i, mlb_string *key, mlb_string *value) {
  const auto &all = static_cast<const Model *>(model)->metadata();
  if (i >= all.size())
    return static_cast<mlb_code>(Code::NotFound);
  *key = toComponent(all[i].first);
  *value = toComponent(all[i].second);
  return 0;
}

void signature(void *model, const mlb_tensor_spec **inputs, uint64_t *inputsSize,
               const mlb_tensor_spec **outputs, uint64_t *outputsSize) {
  const auto *self = static_cast<const Model *>(model);
  *inputs = self->inputSpecs().data();
  *inputsSize = self->inputSpecs().size();
  *outputs = self->outputSpecs().data();
  *outputsSize = self->outputSpecs().size();
}

mlb_code createRunner(void *model, const int64_t *const *shapes, void **runner, mlb_error *error) {
  return guarded(error, [&]() -> Status {
    Expected<std::unique_ptr<Runner>> created =
        Runner::create(*static_cast<const Model *>(model), shapes);
    if (!created)
      return created.status();
    *runner = (*created).release();
    return Status();
  });
}

void destroyRunner(void *runner) { delete static_cast<Runner *>(runner); }

mlb_code input(void *runner, uint64_t i, mlb_tensor *tensor, mlb_error *error) {
  return guarded(error, [&] { return static_cast<Runner *>(runner)->input(i, *tensor); });
}

mlb_code resize(void *runner, uint64_t i, const int64_t *shape, mlb_tensor *tensor,
                mlb_error *error) {
  return guarded(error, [&] { return static_cast<Runner *>(runner)->resize(i, shape, *tensor); });
}

mlb_code evaluate(void *runner, uint64_t, mlb_error *error) {
  return guarded(error, [&] { return static_cast<Runner *>(runner)->evaluate(); });
}

mlb_code output(void *runner, uint64_t i, mlb_tensor *tensor, mlb_error *error) {
  return guarded(error, [&] { return static_cast<Runner *>(runner)->output(i, *tensor); });
}

constexpr mlb_engine Engine = {sizeof(mlb_engine), open,  close,  metadata, signature, createRunner,
                               destroyRunner,      input, resize, evaluate, output,    openMemory};
constexpr mlb_component Component = newComponent("onnx", &Engine, nullptr, nullptr);

} // namespace
} // namespace mlbridge::onnx

extern "C" __attribute__((visibility("default"))) const mlb_component *
mlb_component_entry(uint32_t hostAbi) {
  return hostAbi == MLB_COMPONENT_ABI ? &mlbridge::onnx::Component : nullptr;
}
