// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "c/handles.h"

using namespace mlbridge;
using namespace mlbridge::c;

// Keeps the result of a call that went by the library, so that it can be read.
static mlbridge_code done(mlbridge_runner *runner, Status status) {
  const mlbridge_code code = codeOf(status);
  runner->wrong = Status();
  if (!status && runner->runner.status()) // the library does not know of it
    runner->wrong = std::move(status);
  return code;
}

// The buffer that `get` gives, as Expected<Span<T>> for the type; null if there is none.
template <typename Get>
static void *buffer(mlbridge_runner *runner, mlbridge_type type, uint64_t *count, const Get &get) {
  void *data = nullptr;
  uint64_t size = 0;
  if (runner) {
    const Status status = withNumber(type, [&](auto tag) -> Status {
      auto span = get(tag);
      if (!span)
        return span.status();
      data = span->data() ? const_cast<void *>(static_cast<const void *>(span->data())) : nothing();
      size = span->size();
      return Status();
    });
    (void)done(runner, status);
  }
  if (count)
    *count = size;
  return data;
}

// Calls `body`, which returns a Status, with the runner.
template <typename F> static mlbridge_code call(mlbridge_runner *runner, const F &body) {
  return runner ? done(runner, body(runner->runner)) : MLBRIDGE_INVALID_ARGUMENT;
}

static TensorKey keyOf(const char *name) { return std::string_view(name ? name : ""); }

static mlbridge_code set(mlbridge_runner *runner, TensorKey key, mlbridge_type type,
                         const void *elements, uint64_t count) {
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  if (!elements && count)
    return done(runner,
                Status(Code::InvalidArgument, "set: the elements are null, but not their count"));
  if (type == MLBRIDGE_STRING) {
    std::vector<std::string> texts;
    const auto *from = static_cast<const mlbridge_string *>(elements);
    for (uint64_t i = 0; i < count; ++i)
      texts.emplace_back(from[i].data ? from[i].data : "", from[i].data ? from[i].size : 0);
    return done(runner, runner->runner.set(key, texts));
  }
  return done(runner, withNumber(type, [&](auto tag) {
                using T = typename decltype(tag)::type;
                return runner->runner.set(key,
                                          Span<const T>(static_cast<const T *>(elements), count));
              }));
}

static void *input(mlbridge_runner *runner, TensorKey key, mlbridge_type type, uint64_t *count) {
  return buffer(runner, type, count, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Expected<Span<T>>(runner->runner.input<T>(key)); // there also if the status is not Ok
  });
}

static const void *output(mlbridge_runner *runner, TensorKey key, mlbridge_type type,
                          uint64_t *count) {
  return buffer(runner, type, count,
                [&](auto tag) -> Expected<Span<const typename decltype(tag)::type>> {
                  using T = typename decltype(tag)::type;
                  const Span<const T> span = runner->runner.output<T>(key);
                  if (!runner->runner.status())
                    return runner->runner.status();
                  return span;
                });
}

template <typename T> static mlbridge_code answer(mlbridge_runner *runner, T *to) {
  if (!runner || !to)
    return MLBRIDGE_INVALID_ARGUMENT;
  Expected<T> value = runner->runner.evaluate<T>();
  if (value)
    *to = *value;
  return done(runner, value.status());
}

template <typename T>
static T answerOr(mlbridge_runner *runner, T (*heuristic)(void *), void *data) {
  T value{};
  if (answer(runner, &value) == MLBRIDGE_OK || !heuristic)
    return value;
  return heuristic(data);
}

extern "C" {

void mlbridge_runner_destroy(mlbridge_runner *runner) {
  if (runner && &runner->runner == &runner->own) // else it is the library's
    delete runner;
}

mlbridge_code mlbridge_runner_code(const mlbridge_runner *runner) {
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  return codeOf(runner->wrong ? runner->runner.status() : runner->wrong);
}

const char *mlbridge_runner_message(const mlbridge_runner *runner) {
  if (!runner)
    return "no runner was given";
  return (runner->wrong ? runner->runner.status() : runner->wrong).message().c_str();
}

void mlbridge_runner_clear_status(mlbridge_runner *runner) {
  if (!runner)
    return;
  runner->wrong = Status();
  runner->runner.clearStatus();
}

mlbridge_code mlbridge_runner_set(mlbridge_runner *runner, const char *name, mlbridge_type type,
                                  const void *elements, uint64_t count) {
  if (runner && !name)
    return done(runner, Status(Code::InvalidArgument, "set: the name is null"));
  return set(runner, keyOf(name), type, elements, count);
}

mlbridge_code mlbridge_runner_set_at(mlbridge_runner *runner, uint64_t index, mlbridge_type type,
                                     const void *elements, uint64_t count) {
  return set(runner, index, type, elements, count);
}

mlbridge_code mlbridge_runner_set_string(mlbridge_runner *runner, const char *name,
                                         const char *text) {
  const mlbridge_string value = {text, text ? std::strlen(text) : 0};
  return mlbridge_runner_set(runner, name, MLBRIDGE_STRING, &value, 1);
}

void *mlbridge_runner_input(mlbridge_runner *runner, const char *name, mlbridge_type type,
                            uint64_t *count) {
  return input(runner, keyOf(name), type, count);
}

void *mlbridge_runner_input_at(mlbridge_runner *runner, uint64_t index, mlbridge_type type,
                               uint64_t *count) {
  return input(runner, index, type, count);
}

void *mlbridge_runner_resize(mlbridge_runner *runner, const char *name, mlbridge_type type,
                             const int64_t *shape, uint32_t rank, uint64_t *count) {
  return buffer(runner, type, count, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return runner->runner.resize<T>(textOf(name), Span<const int64_t>(shape, shape ? rank : 0));
  });
}

mlbridge_code mlbridge_runner_bind_input(mlbridge_runner *runner, const char *name,
                                         mlbridge_type type, const void *elements, uint64_t count) {
  return call(runner, [&](Runner &r) {
    return withNumber(type, [&](auto tag) {
      using T = const typename decltype(tag)::type;
      return r.bindInput<T>(keyOf(name), {static_cast<T *>(elements), count});
    });
  });
}

mlbridge_code mlbridge_runner_bind_output(mlbridge_runner *runner, const char *name,
                                          mlbridge_type type, void *elements, uint64_t count) {
  return call(runner, [&](Runner &r) {
    return withNumber(type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      return r.bindOutput<T>(keyOf(name), {static_cast<T *>(elements), count});
    });
  });
}

mlbridge_code mlbridge_runner_evaluate(mlbridge_runner *runner) {
  return call(runner, [](Runner &r) { return r.evaluate(); });
}

mlbridge_code mlbridge_runner_evaluate_within(mlbridge_runner *runner, int64_t nanoseconds) {
  return call(runner,
              [&](Runner &r) { return r.evaluate(Deadline::after(Duration(nanoseconds))); });
}

const void *mlbridge_runner_output(mlbridge_runner *runner, const char *name, mlbridge_type type,
                                   uint64_t *count) {
  return output(runner, keyOf(name), type, count);
}

const void *mlbridge_runner_output_at(mlbridge_runner *runner, uint64_t index, mlbridge_type type,
                                      uint64_t *count) {
  return output(runner, index, type, count);
}

const int64_t *mlbridge_runner_output_shape(mlbridge_runner *runner, const char *name,
                                            uint32_t *rank) {
  const Signature *signature = runner ? runner->runner.signature() : nullptr;
  const int index = signature ? find(signature->outputs, name) : -1;
  std::optional<TensorView> view;
  if (index >= 0)
    view = runner->runner.outputAt(static_cast<size_t>(index));
  if (view && !view->data && view->shape.empty())
    view.reset();
  return shapeOf(view, rank);
}

mlbridge_code mlbridge_runner_output_string(mlbridge_runner *runner, const char *name,
                                            uint64_t index, mlbridge_string *text) {
  if (!runner || !text)
    return MLBRIDGE_INVALID_ARGUMENT;
  const Span<const std::string> all = runner->runner.output<std::string>(textOf(name));
  if (!runner->runner.status())
    return mlbridge_runner_code(runner);
  const TensorView view{ElementType::String, const_cast<std::string *>(all.data()), all.size(), {}};
  return done(runner, getString(view, name, index, text));
}

#define MLBRIDGE_EVALUATE(name, type)                                                              \
  mlbridge_code mlbridge_evaluate_##name(mlbridge_runner *runner, type *to) {                      \
    return answer(runner, to);                                                                     \
  }                                                                                                \
  type mlbridge_evaluate_##name##_or(mlbridge_runner *runner, type (*heuristic)(void *),           \
                                     void *data) {                                                 \
    return answerOr(runner, heuristic, data);                                                      \
  }
MLBRIDGE_EVALUATE(int32, int32_t)
MLBRIDGE_EVALUATE(int64, int64_t)
MLBRIDGE_EVALUATE(float, float)
MLBRIDGE_EVALUATE(double, double)
MLBRIDGE_EVALUATE(bool, bool)
#undef MLBRIDGE_EVALUATE

mlbridge_code mlbridge_runner_begin_episode(mlbridge_runner *runner, const char *episode,
                                            const char *unit) {
  return call(runner, [&](Runner &r) { return r.beginEpisode(textOf(episode), textOf(unit)); });
}

mlbridge_code mlbridge_runner_reward(mlbridge_runner *runner, double value) {
  return call(runner, [&](Runner &r) { return r.reward(value); });
}

mlbridge_code mlbridge_runner_end_episode(mlbridge_runner *runner, mlbridge_code outcome,
                                          const char *message) {
  return call(runner, [&](Runner &r) { return r.endEpisode(statusOf(outcome, message)); });
}

mlbridge_code mlbridge_runner_end_episode_truncated(mlbridge_runner *runner) {
  return call(runner, [](Runner &r) { return r.endEpisode(Status(), true); });
}

uint64_t mlbridge_runner_dropped_events(const mlbridge_runner *runner) {
  return runner ? runner->runner.droppedEvents() : 0;
}

const mlbridge_signature *mlbridge_runner_signature(mlbridge_runner *runner) {
  const Signature *bound = runner ? runner->runner.signature() : nullptr;
  if (!bound)
    return nullptr;
  runner->shown = std::make_unique<ShownSignature>(*bound);
  return runner->shown->get();
}

} // extern "C"
