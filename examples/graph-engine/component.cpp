// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table by which MLBridge runs graphs: "graph:FILE". The same object is linked into a program,
// or is all of the plugin libmlbridge-engine-graph.so.
#include "component.h"
#include "graph.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace {

enum Type : uint32_t { Int64 = 4, Float32 = 10 };
enum Code : mlb_code { InvalidArgument = 7, InvalidModel = 9, NotFound = 10 };

mlb_string text(const std::string &s) { return {s.data(), s.size()}; }

mlb_code fail(mlb_error *error, mlb_code code, const std::string &why) {
  error->size = std::min<uint64_t>(why.size(), error->capacity);
  std::memcpy(error->text, why.data(), error->size);
  return code;
}

struct Model {
  graph::Module module;
  int64_t length = 0, width = 0;
  mlb_tensor_spec input{}, output{};
};

struct Runner {
  const Model *model = nullptr;
  std::vector<float> input, scratch[2], values;
  int64_t choice = 0;
};

mlb_code open(mlb_string place, const mlb_option *options, uint64_t count, void **out,
              mlb_error *error) {
  if (count != 0)
    return fail(error, InvalidArgument,
                "graph: takes no option '" + std::string(options[0].key.data, options[0].key.size) +
                    "'");
  auto *model = new Model;
  std::string why;
  if (!model->module.load(std::string(place.data, place.size), why)) {
    delete model;
    return fail(error, why.find("cannot be read") == std::string::npos ? InvalidModel : NotFound,
                why);
  }
  const graph::Module &m = model->module;
  model->length = static_cast<int64_t>(m.length);
  model->width = static_cast<int64_t>(m.width());
  model->input = {text(m.input), Float32, 1, &model->length, nullptr};
  model->output = m.argmax ? mlb_tensor_spec{text(m.output), Int64, 0, nullptr, nullptr}
                           : mlb_tensor_spec{text(m.output), Float32, 1, &model->width, nullptr};
  *out = model;
  return 0;
}

void close(void *model) { delete static_cast<Model *>(model); }

mlb_code metadata(void *, uint64_t i, mlb_string *key, mlb_string *value) {
  if (i != 0)
    return NotFound;
  *key = {"format", 6};
  *value = {"graph 1", 7};
  return 0;
}

void signature(void *m, const mlb_tensor_spec **inputs, uint64_t *inputsSize,
               const mlb_tensor_spec **outputs, uint64_t *outputsSize) {
  const auto *model = static_cast<Model *>(m);
  *inputs = &model->input;
  *outputs = &model->output;
  *inputsSize = *outputsSize = 1;
}

mlb_code createRunner(void *m, const int64_t *const *, void **out, mlb_error *) {
  auto *runner = new Runner;
  runner->model = static_cast<Model *>(m);
  runner->input.resize(runner->model->module.length);
  runner->values.resize(runner->model->module.width());
  *out = runner;
  return 0;
}

void destroyRunner(void *runner) { delete static_cast<Runner *>(runner); }

mlb_code input(void *r, uint64_t, mlb_tensor *tensor, mlb_error *) {
  auto *runner = static_cast<Runner *>(r);
  *tensor = {runner->input.data(), runner->input.size(), runner->model->input.shape};
  return 0;
}

mlb_code resize(void *, uint64_t, const int64_t *, mlb_tensor *, mlb_error *error) {
  return fail(error, InvalidArgument, "graph: lengths are fixed");
}

mlb_code evaluate(void *r, uint64_t, mlb_error *) {
  auto *runner = static_cast<Runner *>(r);
  const graph::Module &m = runner->model->module;
  const float *values = m.run(runner->input.data(), runner->scratch);
  std::copy_n(values, runner->values.size(), runner->values.begin());
  runner->choice = std::max_element(values, values + runner->values.size()) - values;
  return 0;
}

mlb_code output(void *r, uint64_t, mlb_tensor *tensor, mlb_error *) {
  auto *runner = static_cast<Runner *>(r);
  if (runner->model->module.argmax)
    *tensor = {&runner->choice, 1, nullptr};
  else
    *tensor = {runner->values.data(), runner->values.size(), runner->model->output.shape};
  return 0;
}

constexpr mlb_engine Engine = {sizeof(mlb_engine), open,  close,  metadata, signature, createRunner,
                               destroyRunner,      input, resize, evaluate, output,    nullptr};
constexpr mlb_component Component = {sizeof(mlb_component),
                                     MLB_COMPONENT_ABI,
                                     0 << 16 | 1 << 8 | 0,
                                     {"graph", 5},
                                     &Engine,
                                     nullptr,
                                     nullptr};

} // namespace

const mlb_component &graphComponent() { return Component; }

#ifdef GRAPH_PLUGIN
extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
#endif
