// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "c/handles.h"

#include <mlbridge/fitting.h>

#include <iterator>

using namespace mlbridge;
using namespace mlbridge::c;

CallContext mlbridge::c::contextOf(const mlbridge_call_context &stated) {
  return {textOf(stated.agent), textOf(stated.episode), textOf(stated.unit)};
}

OpenOptions mlbridge::c::optionsOf(const mlbridge_open_options *stated, Status &wrong) {
  OpenOptions options;
  mlbridge_open_options known;
  wrong = readOptional(stated, known, "mlbridge_open_options");
  if (known.deadline)
    options.deadline = Duration(known.deadline);
  options.sharedBudget = known.shared_budget;
  options.context = contextOf(known.context);
  return options;
}

static void showOwn(mlbridge_model &handle) {
  if (const Signature *own = handle.model.modelSignature())
    handle.shown = std::make_unique<ShownSignature>(*own);
}

template <typename Open>
static mlbridge_model *opened(const mlbridge_open_options *options, const Open &open) {
  auto *handle = new mlbridge_model;
  const OpenOptions read = optionsOf(options, handle->wrong);
  if (handle->wrong)
    handle->model = open(read);
  showOwn(*handle);
  return handle;
}

/// The signature that a model is to be bound to: this one, or its own. Errors: InvalidArgument.
static Expected<Signature> wantedOf(const mlbridge_model &model,
                                    const mlbridge_signature *signature) {
  if (signature) {
    Expected<Signature> stated = signatureOf(*signature);
    return stated ? stated : stated.status().withContext("the signature of the pass");
  }
  if (const Signature *own = model.model.modelSignature())
    return *own;
  return Status(Code::InvalidArgument,
                "the model takes any signature, and none was stated to bind it to");
}

/// After binding; what was wrong with opening stays.
static void showBound(mlbridge_model &handle, const Status &wanted) {
  if (!wanted && handle.wrong)
    handle.wrong = wanted;
  const Signature *bound = wanted ? handle.model.signature() : nullptr;
  if (bound)
    handle.bound = std::make_unique<ShownSignature>(*bound);
}

extern "C" {

mlbridge_model *mlbridge_model_open(const char *uri, const mlbridge_open_options *options) {
  return opened(options, [&](const OpenOptions &read) { return Model::open(textOf(uri), read); });
}

mlbridge_model *mlbridge_model_from_memory(const char *uri, const void *data, uint64_t size,
                                           const mlbridge_open_options *options) {
  return opened(options, [&](const OpenOptions &read) {
    return Model::fromMemory(textOf(uri), data, size, read);
  });
}

void mlbridge_model_close(mlbridge_model *model) { delete model; }

const char *mlbridge_model_uri(const mlbridge_model *model) {
  return model ? model->model.uri().c_str() : "";
}

mlbridge_code mlbridge_model_code(const mlbridge_model *model) {
  if (!model)
    return MLBRIDGE_INVALID_ARGUMENT;
  return codeOf(model->wrong ? model->model.status() : model->wrong);
}

const char *mlbridge_model_message(const mlbridge_model *model) {
  if (!model)
    return "no model was given";
  return (model->wrong ? model->model.status() : model->wrong).message().c_str();
}

const char *mlbridge_model_metadata(const mlbridge_model *model, const char *key) {
  return model ? valueOf(model->model.metadata(), key) : nullptr;
}

mlbridge_code mlbridge_model_metadata_at(const mlbridge_model *model, uint64_t index,
                                         const char **key, const char **value) {
  if (!model || !key || !value)
    return MLBRIDGE_INVALID_ARGUMENT;
  const Metadata &all = model->model.metadata();
  if (index >= all.size())
    return MLBRIDGE_NOT_FOUND;
  const auto at = std::next(all.begin(), static_cast<ptrdiff_t>(index));
  *key = at->first.c_str();
  *value = at->second.c_str();
  return MLBRIDGE_OK;
}

mlbridge_code mlbridge_model_statistics(const mlbridge_model *model,
                                        void (*each)(const char *name, const char *value,
                                                     void *data),
                                        void *data, char *message, uint64_t capacity) {
  if (!model || !each)
    return told(Status(Code::InvalidArgument, "no model or no function was given"), message,
                capacity);
  if (!model->wrong)
    return told(model->wrong, message, capacity);
  const Expected<Metadata> all = model->model.statistics();
  if (all)
    for (const auto &[name, value] : *all)
      each(name.c_str(), value.c_str(), data);
  return told(all.status(), message, capacity);
}

const mlbridge_signature *mlbridge_model_signature(const mlbridge_model *model) {
  return model && model->shown ? model->shown->get() : nullptr;
}

mlbridge_code mlbridge_model_bind(mlbridge_model *model, const mlbridge_signature *signature) {
  if (!model)
    return MLBRIDGE_INVALID_ARGUMENT;
  if (!signature && !model->model.status())
    return mlbridge_model_code(model);
  const Expected<Signature> wanted = wantedOf(*model, signature);
  if (wanted)
    (void)model->model.bind(*wanted);
  showBound(*model, wanted.status());
  return mlbridge_model_code(model);
}

mlbridge_code mlbridge_model_bind_fitting(mlbridge_model *model,
                                          mlbridge_signature_for signature_for, void *data) {
  if (!model || !signature_for)
    return MLBRIDGE_INVALID_ARGUMENT;
  if (!model->wrong || !model->model.status())
    return mlbridge_model_code(model);
  Status wanted;
  (void)bindFitting(model->model, [&](const Model &asked) {
    mlbridge_model handle;
    handle.model = asked;
    showOwn(handle);
    Expected<Signature> signature = wantedOf(handle, signature_for(&handle, data));
    wanted = signature.status();
    return signature ? std::move(*signature) : Signature();
  });
  showBound(*model, wanted);
  return mlbridge_model_code(model);
}

const mlbridge_signature *mlbridge_model_bound_signature(const mlbridge_model *model) {
  return model && model->bound ? model->bound->get() : nullptr;
}

mlbridge_model *mlbridge_model_new_bound(const mlbridge_model *model,
                                         const mlbridge_signature *signature, const char *agent) {
  auto *handle = new mlbridge_model;
  if (!model) {
    handle->wrong = Status(Code::InvalidArgument, "no model was given");
    return handle;
  }
  handle->wrong = model->wrong;
  handle->model = model->model;
  showOwn(*handle);
  if (!signature && !model->model.status())
    return handle;
  const Expected<Signature> wanted = wantedOf(*model, signature);
  if (wanted)
    handle->model = model->model.boundTo(*wanted, textOf(agent));
  showBound(*handle, wanted.status());
  return handle;
}

mlbridge_runner *mlbridge_model_new_runner_for(const mlbridge_model *model,
                                               const mlbridge_call_context *context,
                                               int64_t deadline) {
  auto *handle = new mlbridge_runner;
  if (!model)
    handle->runner = Runner(Status(Code::InvalidArgument, "no model was given"));
  else if (!model->wrong)
    handle->runner = Runner(model->wrong);
  else
    handle->runner =
        model->model.newRunner(context ? contextOf(*context) : CallContext(),
                               deadline ? std::optional<Duration>(deadline) : std::nullopt);
  return handle;
}

mlbridge_runner *mlbridge_model_new_runner(const mlbridge_model *model) {
  return mlbridge_model_new_runner_for(model, nullptr, 0);
}

mlbridge_runner *mlbridge_open(const char *uri, const mlbridge_signature *signature,
                               const mlbridge_open_options *options) {
  mlbridge_model *model = mlbridge_model_open(uri, options);
  (void)mlbridge_model_bind(model, signature); // its failure is in the runner
  mlbridge_runner *runner = mlbridge_model_new_runner(model);
  mlbridge_model_close(model);
  return runner;
}

} // extern "C"
