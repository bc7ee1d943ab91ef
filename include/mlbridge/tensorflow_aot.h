// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A class that TensorFlow's ahead-of-time compiler made, as an engine. CMake's
// mlbridge_tensorflow_aot writes the source that uses it; nothing of TensorFlow is included here.
#ifndef MLBRIDGE_TENSORFLOW_AOT_H
#define MLBRIDGE_TENSORFLOW_AOT_H

#include <mlbridge/engine.h>
#include <mlbridge/tensor.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace mlbridge {

/// One input or output of the SavedModel's signature.
struct TensorflowPort {
  const char *name;     ///< in the signature
  const char *argument; ///< what the class calls it: "feed_NAME", "fetch_NAME"
  ElementType type;     ///< of each element
  uint32_t rank;        ///< number of lengths
  const int64_t *shape; ///< fixed
  uint64_t count;       ///< of elements
};

/// `Network` is the class; `Ports` has static arrays `inputs` and `outputs` of `inputsSize` and
/// `outputsSize` TensorflowPort. Each runner has a Network of its own, whose buffers it gives out.
/// (Arguments and results lie apart in them, and a Network serves one thread at a time.)
template <typename Network, typename Ports> class TensorflowEngine {
public:
  /// For registerEngine.
  static const mlb_engine &table() {
    static constexpr mlb_engine Table = {
        sizeof(mlb_engine), open,  close,  metadata, signature, createRunner,
        destroyRunner,      input, resize, evaluate, output,    nullptr};
    return Table;
  }

private:
  static constexpr size_t Inputs = Ports::inputsSize, Outputs = Ports::outputsSize;

  struct Runner {
    Network network;
    void *in[Inputs ? Inputs : 1];
    int out[Outputs ? Outputs : 1];
  };
  struct Specs {
    mlb_tensor_spec in[Inputs ? Inputs : 1], out[Outputs ? Outputs : 1];
    Specs() {
      std::transform(Ports::inputs, Ports::inputs + Inputs, in, spec);
      std::transform(Ports::outputs, Ports::outputs + Outputs, out, spec);
    }
    static mlb_tensor_spec spec(const TensorflowPort &port) {
      return {{port.name, std::strlen(port.name)},
              static_cast<uint32_t>(port.type),
              port.rank,
              port.shape,
              nullptr};
    }
  };
  static const Specs &specs() {
    static const Specs All;
    return All;
  }

  static mlb_code fail(mlb_error *error, Code code, const char *what, const char *which = "") {
    if (error) {
      const std::string text = std::string(what) + which;
      error->size = std::min<uint64_t>(text.size(), error->capacity);
      std::memcpy(error->text, text.data(), error->size);
    }
    return static_cast<mlb_code>(code);
  }

  static mlb_code open(mlb_string, const mlb_option *options, uint64_t size, void **model,
                       mlb_error *error) {
    if (size)
      return fail(error, Code::InvalidArgument, "a compiled model has no option ",
                  std::string(options[0].key.data, options[0].key.size).c_str());
    static char only;
    *model = &only;
    return 0;
  }
  static void close(void *) {}
  static mlb_code metadata(void *, uint64_t i, mlb_string *key, mlb_string *value) {
    if (i > 0)
      return static_cast<mlb_code>(Code::NotFound);
    *key = {"tfaot.signature", 15};
    *value = {Ports::key, std::strlen(Ports::key)};
    return 0;
  }
  static void signature(void *, const mlb_tensor_spec **in, uint64_t *inSize,
                        const mlb_tensor_spec **out, uint64_t *outSize) {
    *in = specs().in;
    *inSize = Inputs;
    *out = specs().out;
    *outSize = Outputs;
  }

  static mlb_code createRunner(void *, const int64_t *const *, void **runner, mlb_error *error) {
    auto *instance = new (std::nothrow) Runner;
    if (!instance)
      return fail(error, Code::LimitExceeded, "no memory for the network's buffers");
    const auto failed = [&](const char *name) {
      delete instance;
      return fail(error, Code::InvalidModel, "the compiled class has nothing that fits ", name);
    };
    for (size_t i = 0; i < Inputs; ++i) {
      const TensorflowPort &port = Ports::inputs[i];
      const int index = instance->network.LookupArgIndex(port.argument);
      const size_t bytes = port.count * sizeOf(port.type);
      if (index < 0 || static_cast<size_t>(instance->network.arg_size(index)) != bytes)
        return failed(port.name);
      instance->in[i] = instance->network.arg_data(static_cast<size_t>(index));
      std::memset(instance->in[i], 0, bytes);
    }
    for (size_t i = 0; i < Outputs; ++i) {
      instance->out[i] = instance->network.LookupResultIndex(Ports::outputs[i].argument);
      if (instance->out[i] < 0)
        return failed(Ports::outputs[i].name);
    }
    *runner = instance;
    return 0;
  }
  static void destroyRunner(void *runner) { delete static_cast<Runner *>(runner); }
  static mlb_code input(void *runner, uint64_t i, mlb_tensor *tensor, mlb_error *error) {
    if (i >= Inputs)
      return fail(error, Code::InvalidArgument, "there is no such input");
    *tensor = {static_cast<Runner *>(runner)->in[i], Ports::inputs[i].count,
               Ports::inputs[i].shape};
    return 0;
  }
  static mlb_code resize(void *, uint64_t, const int64_t *, mlb_tensor *, mlb_error *error) {
    return fail(error, Code::InvalidArgument, "the shapes of a compiled model are fixed");
  }
  static mlb_code evaluate(void *runner, uint64_t, mlb_error *error) {
    if (!static_cast<Runner *>(runner)->network.Run())
      return fail(error, Code::PolicyFailed, "the compiled model failed");
    return 0;
  }
  static mlb_code output(void *runner, uint64_t i, mlb_tensor *tensor, mlb_error *error) {
    if (i >= Outputs)
      return fail(error, Code::InvalidArgument, "there is no such output");
    auto *self = static_cast<Runner *>(runner);
    *tensor = {self->network.result_data(static_cast<size_t>(self->out[i])),
               Ports::outputs[i].count, Ports::outputs[i].shape};
    return 0;
  }
};

} // namespace mlbridge

#endif
