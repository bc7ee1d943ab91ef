// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One call of a policy for the requests of many compilers.
#include "server.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::python {
namespace {

bool isSameStream(const Event &a, const Event &b) {
  return a.stream() == b.stream() && a.connection() == b.connection();
}

/// Gathers requests from a server, and gives them to a policy.
class Batcher {
public:
  Batcher(Server &server, const nb::object &policy, size_t most, Duration maxWait, nb::object pad)
      : server_(server), policy_(policy), most_(most), maxWait_(maxWait), pad_(std::move(pad)) {}

  ~Batcher() { send(); }

  /// Sends the answers.
  void send() {
    for (Answered &one : answered_)
      one.send();
    answered_.clear();
  }

  /// Takes a batch: requests, and other events among them, in the order in which they came.
  Status gather(std::vector<Event> &events) {
    size_t requests = 0;
    while (true) {
      Expected<Event> next = early_           ? Expected<Event>(take(early_))
                             : events.empty() ? server_.next()
                                              : server_.nextOfBatch(maxWait_);
      if (!next)
        return events.empty() ? next.status() : Status();
      const bool isRequest = next->kind() == EventKind::Request;
      const bool isAfter = std::any_of(events.begin(), events.end(), [&](const Event &before) {
        return before.kind() == EventKind::Request && isSameStream(before, *next);
      });
      if (isAfter) { // which is told after the answer
        early_ = std::move(*next);
        return Status();
      }
      requests += isRequest;
      events.push_back(std::move(*next));
      if (requests == 0 || requests >= most_)
        return Status();
    }
  }

  /// Answers requests of one signature, and of one shape unless they are padded, in one call.
  /// Throws errors that end the serving.
  void answer(std::vector<Event> &requests) {
    while (!requests.empty()) {
      const auto others = std::stable_partition(
          requests.begin(), requests.end(),
          [&first = requests.front(), this](const Event &one) { return isLike(first, one); });
      std::vector<Event> group(std::make_move_iterator(requests.begin()),
                               std::make_move_iterator(others));
      requests.erase(requests.begin(), others);
      std::vector<Status> verdicts;
      try {
        verdicts = answerGroup(group);
      } catch (...) {
        requests.insert(requests.end(), std::make_move_iterator(group.begin()),
                        std::make_move_iterator(group.end()));
        fail(requests);
        throw;
      }
      for (size_t i = 0; i < group.size(); ++i)
        answered_.push_back({std::move(group[i]), std::move(verdicts[i])});
    }
  }

  static void fail(std::vector<Event> &requests) {
    for (Event &request : requests)
      (void)request.fail({Code::Cancelled, "the server was interrupted"});
    requests.clear();
  }

private:
  static Event take(std::optional<Event> &from) {
    Event event = std::move(*from);
    from.reset();
    return event;
  }

  bool isLike(const Event &a, const Event &b) const {
    if (a.signature() != b.signature())
      return false;
    for (size_t i = 0; pad_.is_none() && i < a.signature().inputs.size(); ++i) {
      const TensorView one = a.input(i), other = b.input(i);
      if (!std::equal(one.shape.begin(), one.shape.end(), other.shape.begin(), other.shape.end()))
        return false;
    }
    return true;
  }

  nb::dict observations(const std::vector<Event> &group) const {
    nb::dict all;
    const std::vector<TensorSpec> &inputs = group[0].signature().inputs;
    std::vector<TensorView> rows;
    for (size_t i = 0; i < inputs.size(); ++i) {
      rows.clear();
      for (const Event &event : group)
        rows.push_back(event.input(i));
      all[nb::cast(inputs[i].name)] = newRows(rows, pad_);
      if (pad_.is_none() || inputs[i].shape.empty())
        continue;
      std::vector<int64_t> lengths;
      for (const TensorView &row : rows)
        lengths.insert(lengths.end(), row.shape.begin(), row.shape.end());
      const Shape shape = {static_cast<int64_t>(rows.size()),
                           static_cast<int64_t>(inputs[i].shape.size())};
      all[nb::cast(inputs[i].name + ".shape")] =
          newCopy({ElementType::Int64, lengths.data(), lengths.size(), shape});
    }
    return all;
  }

  /// The outcome of each request.
  std::vector<Status> answerGroup(std::vector<Event> &group) {
    server_.noteBatch(group.size());
    nb::object answer;
    {
      nb::list contexts;
      for (const Event &event : group)
        contexts.append(newContext(event));
      answer = call(policy_.ptr(), observations(group).ptr(), contexts.ptr());
    }
    if (!answer.is_valid()) {
      if (isInterrupt())
        throw nb::python_error();
      return std::vector<Status>(group.size(), takePythonError("the policy"));
    }
    nb::object owner;
    const Signature &signature = group[0].signature();
    Expected<std::vector<PyObject *>> values = valuesOf(answer.ptr(), signature, owner);
    std::vector<Status> verdicts(group.size(), values.status());
    for (size_t i = 0; values && i < values->size(); ++i)
      if (Status s = storeRows((*values)[i], i, group, verdicts); !s)
        return std::vector<Status>(group.size(), s);
    return verdicts;
  }

  /// One output of all of them: at once if it can be, else row by row.
  static Status storeRows(PyObject *value, size_t index, std::vector<Event> &group,
                          std::vector<Status> &verdicts) {
    const TensorSpec &spec = group[0].signature().outputs[index];
    const Py_ssize_t length = PyObject_Length(value);
    if (length < 0)
      PyErr_Clear();
    if (static_cast<size_t>(length) != group.size())
      return {Code::PolicyFailed, "output '" + spec.name + "' has " +
                                      (length < 0 ? "no" : std::to_string(length)) + " rows for " +
                                      std::to_string(group.size()) + " requests"};
    if (!spec.isDynamic() && spec.type != ElementType::String) {
      Rows rows(spec, group.size());
      if (store(value, rows.spec, "output", rows, 0)) {
        const TensorView all = rows.tensor.view();
        const size_t size = all.bytes() / group.size();
        for (size_t k = 0; k < group.size(); ++k)
          if (size)
            std::memcpy(group[k].output(index).data,
                        static_cast<const uint8_t *>(all.data) + k * size, size);
        return Status();
      }
    }
    for (size_t k = 0; k < group.size(); ++k) {
      EventOutputs outputs(group[k]);
      const nb::object row = nb::steal<nb::object>(PySequence_GetItem(value, Py_ssize_t(k)));
      if (!row.is_valid())
        return takePythonError("converting the policy's answer");
      if (verdicts[k])
        verdicts[k] = storeOne(row.ptr(), spec, outputs, index);
    }
    return Status();
  }

  /// Converts one output of all of them.
  struct Rows final : Target {
    Rows(const TensorSpec &one, size_t count) : spec(one) {
      spec.shape.insert(spec.shape.begin(), static_cast<int64_t>(count));
      spec.maximum.clear();
      tensor = Tensor(spec);
    }
    TensorView view(size_t) override { return tensor.view(); }
    Expected<TensorView> resize(size_t, Span<const int64_t>) override { return tensor.view(); }
    TensorSpec spec;
    Tensor tensor;
  };

  Server &server_;
  const nb::object policy_;
  const size_t most_;
  const Duration maxWait_;
  const nb::object pad_;
  std::optional<Event> early_; ///< of the next batch
  std::vector<Answered> answered_;
};

} // namespace

void serveBatches(nb::handle_t<PyServer> handle, const nb::object &policy,
                  const nb::object &onEvent, const nb::object &stop, size_t most,
                  const Time &maxWait, const nb::object &pad) {
  PyServer &self = nb::cast<PyServer &>(handle);
  InUse inUse(self);
  Server &server = self.open();
  Batcher batcher(server, policy, most, durationOf(maxWait), pad);
  std::vector<Event> events, requests;
  for (;;) {
    Status gathered;
    {
      WithoutGil release;
      batcher.send();
      gathered = batcher.gather(events);
    }
    if (PyErr_CheckSignals() < 0) {
      nb::python_error interrupt;
      Batcher::fail(events);
      throw interrupt;
    }
    if (!gathered && gathered.code() != Code::Cancelled)
      raise(gathered);
    if (!gathered && server.isStopped())
      return;
    std::optional<nb::python_error> raised;
    for (Event &event : events) {
      if (event.kind() == EventKind::Request)
        requests.push_back(std::move(event));
      else if (!onEvent.is_none() && !raised)
        try {
          onEvent(PyEvent(std::move(event), nb::borrow<nb::object>(handle)));
        } catch (nb::python_error &error) {
          raised.emplace(std::move(error)); // when those who wait have been answered
        }
    }
    events.clear();
    batcher.answer(requests);
    if (raised)
      throw nb::python_error(std::move(*raised));
    if (!stop.is_none() && nb::cast<bool>(nb::bool_(stop())))
      return;
  }
}

} // namespace mlbridge::python
