// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// "graph:FILE" runs models that were compiled to a graph of kernels, as TVM's graph executor does:
//
//   graph 1                  the format and its version
//   input embedding 3        name, length
//   dense 4 relu             outputs, activation (relu or none)
//   1 0 0 0                  for each output a row of weights, its bias last
//   ...
//   output action argmax     name, and what is made of the last values (argmax, values)
//
// The same object is linked into a program, or is all of the plugin libmlbridge-engine-graph.so.
#include <mlbridge/component.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr size_t Largest = 1 << 16; // of a length; rows are checked before memory is taken

struct Kernel {
  size_t inputs = 0, outputs = 0;
  bool relu = false;
  std::vector<float> weights; ///< a row for each output, its bias last
};

struct Module {
  std::string input, output;
  size_t length = 0;
  bool argmax = false;
  std::vector<Kernel> kernels;

  size_t width() const { return kernels.empty() ? length : kernels.back().outputs; }
  /// Reads the file; untrusted. False, with a reason, if it is none.
  bool load(const std::string &path, std::string &why);
  /// `scratch` keeps its memory from call to call. The values of the last kernel.
  const float *run(const float *input, std::vector<float> (&scratch)[2]) const;
};

bool Module::load(const std::string &path, std::string &why) {
  std::ifstream file(path);
  if (!file) {
    why = path + ": cannot be read";
    return false;
  }
  std::string line, word;
  size_t number = 0;
  const auto next = [&](std::istringstream &words) {
    while (std::getline(file, line)) {
      ++number;
      if (!line.empty()) {
        words = std::istringstream(line);
        return true;
      }
    }
    return false;
  };
  const auto bad = [&](const char *expected) {
    why = path + ":" + std::to_string(number) + ": " + expected + " was expected";
    return false;
  };
  std::istringstream words;
  int version = 0;
  if (!next(words) || !(words >> word >> version) || word != "graph" || version != 1)
    return bad("'graph 1'");
  if (!next(words) || !(words >> word >> input >> length) || word != "input" || length == 0 ||
      length > Largest)
    return bad("'input NAME LENGTH'");
  while (next(words) && words >> word && word == "dense") {
    Kernel kernel;
    kernel.inputs = width();
    std::string activation;
    if (!(words >> kernel.outputs >> activation) || kernel.outputs == 0 ||
        kernel.outputs > Largest || (activation != "relu" && activation != "none"))
      return bad("'dense OUTPUTS relu|none'");
    kernel.relu = activation == "relu";
    for (size_t row = 0; row < kernel.outputs; ++row) {
      if (!next(words))
        return bad("a row of weights");
      float value = 0;
      for (size_t i = 0; i <= kernel.inputs; ++i) {
        if (!(words >> value))
          return bad("a weight for each input, and the bias");
        kernel.weights.push_back(value);
      }
    }
    kernels.push_back(std::move(kernel));
  }
  std::string kind;
  if (word != "output" || !(words >> output >> kind) || (kind != "argmax" && kind != "values"))
    return bad("'output NAME argmax|values'");
  argmax = kind == "argmax";
  return true;
}

const float *Module::run(const float *input, std::vector<float> (&scratch)[2]) const {
  const float *values = input;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Kernel &kernel = kernels[k];
    std::vector<float> &out = scratch[k % 2];
    out.resize(kernel.outputs);
    const float *row = kernel.weights.data();
    for (size_t o = 0; o < kernel.outputs; ++o, row += kernel.inputs + 1) {
      float sum = row[kernel.inputs];
      for (size_t i = 0; i < kernel.inputs; ++i)
        sum += row[i] * values[i];
      out[o] = kernel.relu ? std::max(sum, 0.0F) : sum;
    }
    values = out.data();
  }
  return values;
}

enum Type : uint32_t { Int64 = 4, Float32 = 10 };
enum Code : mlb_code { InvalidArgument = 7, InvalidModel = 9, NotFound = 10 };

mlb_string text(const std::string &s) { return {s.data(), s.size()}; }

mlb_code fail(mlb_error *error, mlb_code code, const std::string &why) {
  error->size = std::min<uint64_t>(why.size(), error->capacity);
  std::memcpy(error->text, why.data(), error->size);
  return code;
}

struct Model {
  Module module;
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
  const Module &m = model->module;
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
  const Module &m = runner->model->module;
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
constexpr mlb_component Component = {
    sizeof(mlb_component), MLB_COMPONENT_ABI, 0x000100, {"graph", 5}, &Engine, nullptr, nullptr};

} // namespace

const mlb_component &graphComponent() { return Component; }

#ifdef GRAPH_PLUGIN
extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
#endif
