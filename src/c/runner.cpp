// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "c/handles.h"

using namespace mlbridge;
using namespace mlbridge::c;

// What a call that went by the library leaves to be read.
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
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  if (!name || (!elements && count))
    return done(runner, Status(Code::InvalidArgument, "set: no name or no elements"));
  if (type == MLBRIDGE_STRING) {
    std::vector<std::string> texts;
    const auto *from = static_cast<const mlbridge_string *>(elements);
    for (uint64_t i = 0; i < count; ++i)
      texts.emplace_back(from[i].data ? from[i].data : "", from[i].data ? from[i].size : 0);
    return done(runner, runner->runner.set(name, texts));
  }
  return done(runner, withNumber(type, [&](auto tag) {
                using T = typename decltype(tag)::type;
                return runner->runner.set(name,
                                          Span<const T>(static_cast<const T *>(elements), count));
              }));
}

mlbridge_code mlbridge_runner_set_string(mlbridge_runner *runner, const char *name,
                                         const char *text) {
  const mlbridge_string value = {text, text ? std::strlen(text) : 0};
  return mlbridge_runner_set(runner, name, MLBRIDGE_STRING, &value, 1);
}

void *mlbridge_runner_input(mlbridge_runner *runner, const char *name, mlbridge_type type,
                            uint64_t *count) {
  return buffer(runner, type, count, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Span<T> span = runner->runner.input<T>(textOf(name));
    // Without a model the buffer is there, and the status not Ok.
    return span.data() || runner->runner.status() ? Expected<Span<T>>(span)
                                                  : Expected<Span<T>>(runner->runner.status());
  });
}

void *mlbridge_runner_resize(mlbridge_runner *runner, const char *name, mlbridge_type type,
                             const int64_t *shape, uint32_t rank, uint64_t *count) {
  return buffer(runner, type, count, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return runner->runner.resize<T>(textOf(name), Span<const int64_t>(shape, shape ? rank : 0));
  });
}

mlbridge_code mlbridge_runner_evaluate(mlbridge_runner *runner) {
  return runner ? done(runner, runner->runner.evaluate()) : MLBRIDGE_INVALID_ARGUMENT;
}

mlbridge_code mlbridge_runner_evaluate_within(mlbridge_runner *runner, int64_t nanoseconds) {
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  return done(runner, runner->runner.evaluate(Deadline::after(Duration(nanoseconds))));
}

const void *mlbridge_runner_output(mlbridge_runner *runner, const char *name, mlbridge_type type,
                                   uint64_t *count) {
  return buffer(runner, type, count,
                [&](auto tag) -> Expected<Span<const typename decltype(tag)::type>> {
                  using T = typename decltype(tag)::type;
                  const Span<const T> span = runner->runner.output<T>(textOf(name));
                  if (!runner->runner.status())
                    return runner->runner.status();
                  return span;
                });
}

const int64_t *mlbridge_runner_output_shape(mlbridge_runner *runner, const char *name,
                                            uint32_t *rank) {
  const Signature *signature = runner ? runner->runner.signature() : nullptr;
  const int index = signature ? find(signature->outputs, name) : -1;
  if (rank)
    *rank = 0;
  if (index < 0)
    return nullptr;
  const TensorView view = runner->runner.outputAt(static_cast<size_t>(index));
  if (!view.data && view.shape.empty())
    return nullptr;
  if (rank)
    *rank = static_cast<uint32_t>(view.shape.size());
  return view.shape.data() ? view.shape.data() : static_cast<const int64_t *>(nothing());
}

mlbridge_code mlbridge_runner_output_string(mlbridge_runner *runner, const char *name,
                                            uint64_t index, mlbridge_string *text) {
  if (!runner || !text)
    return MLBRIDGE_INVALID_ARGUMENT;
  const Span<const std::string> all = runner->runner.output<std::string>(textOf(name));
  if (!runner->runner.status())
    return mlbridge_runner_code(runner);
  if (index >= all.size())
    return done(runner, Status(Code::InvalidArgument,
                               "output '" + textOf(name) + "' has " + std::to_string(all.size()) +
                                   " strings, and no number " + std::to_string(index)));
  *text = {all[index].data(), all[index].size()};
  return done(runner, Status());
}

mlbridge_code mlbridge_evaluate_int32(mlbridge_runner *runner, int32_t *to) {
  return answer(runner, to);
}
mlbridge_code mlbridge_evaluate_int64(mlbridge_runner *runner, int64_t *to) {
  return answer(runner, to);
}
mlbridge_code mlbridge_evaluate_float(mlbridge_runner *runner, float *to) {
  return answer(runner, to);
}
mlbridge_code mlbridge_evaluate_double(mlbridge_runner *runner, double *to) {
  return answer(runner, to);
}
mlbridge_code mlbridge_evaluate_bool(mlbridge_runner *runner, bool *to) {
  return answer(runner, to);
}

int32_t mlbridge_evaluate_int32_or(mlbridge_runner *runner, int32_t (*heuristic)(void *),
                                   void *data) {
  return answerOr(runner, heuristic, data);
}
int64_t mlbridge_evaluate_int64_or(mlbridge_runner *runner, int64_t (*heuristic)(void *),
                                   void *data) {
  return answerOr(runner, heuristic, data);
}
float mlbridge_evaluate_float_or(mlbridge_runner *runner, float (*heuristic)(void *), void *data) {
  return answerOr(runner, heuristic, data);
}
double mlbridge_evaluate_double_or(mlbridge_runner *runner, double (*heuristic)(void *),
                                   void *data) {
  return answerOr(runner, heuristic, data);
}
bool mlbridge_evaluate_bool_or(mlbridge_runner *runner, bool (*heuristic)(void *), void *data) {
  return answerOr(runner, heuristic, data);
}

mlbridge_code mlbridge_runner_begin_episode(mlbridge_runner *runner, const char *episode,
                                            const char *context) {
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  return done(runner, runner->runner.beginEpisode(textOf(episode), textOf(context)));
}

mlbridge_code mlbridge_runner_reward(mlbridge_runner *runner, double value) {
  return runner ? done(runner, runner->runner.reward(value)) : MLBRIDGE_INVALID_ARGUMENT;
}

mlbridge_code mlbridge_runner_end_episode(mlbridge_runner *runner, mlbridge_code outcome,
                                          const char *message) {
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  return done(runner, runner->runner.endEpisode(statusOf(outcome, message)));
}

mlbridge_code mlbridge_runner_end_episode_truncated(mlbridge_runner *runner) {
  if (!runner)
    return MLBRIDGE_INVALID_ARGUMENT;
  return done(runner, runner->runner.endEpisode(Status(), true));
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
