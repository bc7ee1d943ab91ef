// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening a network whose lengths change. It is planned for some lengths, so that one that can't be
// evaluated at all is refused at once and by node: a length may have to be that of a weight, which
// is found by how the shapes at a node that fails depend on it. Outputs without a declared shape
// get one; what differs between plans is dynamic.
//
// Lists of numbers are vectors throughout, searched from the front: they are short, and other
// containers make the library larger.
#include "core/message.h"
#include "engine/native/missing_features.h"
#include "engine/native/network.h"
#include "engine/native/planner.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::native {
namespace {

constexpr int64_t LongestTried = int64_t(1) << 24;
constexpr size_t MostAttempts = 2000;

void addOnce(Integers &to, int64_t number) {
  if (std::find(to.begin(), to.end(), number) == to.end())
    to.push_back(number);
}

/// The lengths and numbers of elements at a node, in a certain order.
Integers quantities(const Stop &stop) {
  Integers all;
  for (const Shape &shape : stop.shapes) {
    all.insert(all.end(), shape.begin(), shape.end());
    all.push_back(static_cast<int64_t>(elementCount(shape).value_or(0)));
  }
  return all;
}

/// Values that the quantities at a node may have to have. 0 comes last.
Integers targets(const Stop &stop) {
  Integers all = quantities(stop);
  int64_t sum = 0, product = 1;
  for (const int64_t number : stop.numbers) {
    const int64_t size = number < 0 ? 0 : std::min(number, LongestTried);
    addOnce(all, size);
    addOnce(all, size * size);
    sum += size;
    product = std::min(product * std::max<int64_t>(size, 1), LongestTried);
  }
  addOnce(all, sum);
  addOnce(all, product);
  std::stable_partition(all.begin(), all.end(), [](int64_t n) { return n != 0; });
  return all;
}

} // namespace

/// The outcome of planning for some lengths.
struct Network::Attempt {
  Integers lengths; ///< of all dynamic dimensions
  SharedPlan plan;
  Status status;
  Stop stop;

  bool isDone() const { return status || (stop.isAtEnd && stop.shapes.empty()); }
  bool isBetterThan(const Attempt &other) const {
    return isDone() != other.isDone() ? isDone() : stop.progress > other.stop.progress;
  }
};

class Network::LengthSearch {
public:
  LengthSearch(Network &network, const MissingFeatures &missing, const Deadline &deadline)
      : network_(network), missing_(missing), deadline_(deadline),
        until_(
            Deadline::after(deadline.isNever() ? std::chrono::seconds(1) : deadline.left() / 2)) {
    std::vector<std::string_view> names;
    for (const TensorSpec &spec : network.signature_.inputs)
      for (size_t axis = 0; axis < spec.shape.size(); ++axis)
        if (spec.shape[axis] == Dynamic)
          names.push_back(nameOf(spec.name, axis));
    for (size_t i = 0; i < names.size(); ++i) {
      Integers same;
      for (size_t k = i; k < names.size(); ++k)
        if (k == i || (!names[i].empty() && names[i] == names[k]))
          same.push_back(static_cast<int64_t>(k));
      if (same.size() > 1 && std::find(names.begin(), names.end(), names[i]) - names.begin() ==
                                 static_cast<ptrdiff_t>(i))
        variables.push_back(std::move(same));
      all_.push_back(static_cast<int64_t>(i));
    }
    for (const int64_t i : all_)
      variables.push_back({i});
  }

  /// The dynamic dimensions that have one length; the last ones are single dimensions.
  std::vector<Integers> variables;

  static Integers with(Integers lengths, const Integers &variable, int64_t length) {
    for (const int64_t i : variable)
      lengths[static_cast<size_t>(i)] = length;
    return lengths;
  }
  static int64_t lengthOf(const Attempt &attempt, const Integers &variable) {
    return attempt.lengths[static_cast<size_t>(variable[0])];
  }
  Attempt ofAll(int64_t length) { return attempt(Integers(all_.size(), length)); }
  Attempt attempt(const Integers &lengths) {
    ++attempts_;
    return network_.attempt(lengths, deadline_, missing_);
  }
  bool isOver() const { return attempts_ >= MostAttempts || until_.hasPassed(); }

  /// The attempt that comes farthest: planned, or at the end, if there are lengths for that.
  Attempt best() {
    Attempt best = ofAll(2);
    if (best.isDone())
      return best;
    consider(best, ofAll(3));
    while (!best.isDone() && !isOver() && (solve(best) || guess(best) || detour(best)))
      ;
    return best;
  }

private:
  std::string_view nameOf(const std::string &input, size_t axis) const {
    for (const onnx::ValueInfo &info : network_.model_->graph.inputs)
      if (info.name == input && axis < info.dimensions.size())
        return info.dimensions[axis];
    return {};
  }

  /// Takes the other attempt if it is better, and returns that.
  static bool consider(Attempt &best, Attempt other) {
    if (!other.isBetterThan(best))
      return false;
    best = std::move(other);
    return true;
  }
  bool tryLengths(Attempt &best, Integers lengths) {
    for (const int64_t length : lengths)
      if (length < 0 || length > LongestTried)
        return false;
    if (isOver() || std::find(tried_.begin(), tried_.end(), lengths) != tried_.end())
      return false;
    tried_.push_back(std::move(lengths));
    return consider(best, attempt(tried_.back()));
  }

  /// Takes what a node gets for linear in each length.
  bool solve(Attempt &best) {
    const Integers now = quantities(best.stop);
    slopes_.clear();
    for (const Integers &variable : variables) {
      if (isOver())
        return false;
      Attempt longer = attempt(with(best.lengths, variable, lengthOf(best, variable) + 1));
      Integers then = quantities(longer.stop);
      const bool isSameNode =
          longer.stop.progress == best.stop.progress && then.size() == now.size();
      if (consider(best, std::move(longer)))
        return true;
      for (size_t i = 0; i < now.size() && isSameNode; ++i)
        then[i] -= now[i];
      slopes_.push_back(isSameNode ? std::move(then) : Integers(now.size()));
    }
    for (size_t v = 0; v < variables.size(); ++v)
      for (const int64_t target : targets(best.stop))
        for (size_t i = 0; i < now.size(); ++i)
          if (const int64_t slope = slopes_[v][i]; slope && (target - now[i]) % slope == 0)
            if (tryLengths(best, with(best.lengths, variables[v],
                                      lengthOf(best, variables[v]) + (target - now[i]) / slope)))
              return true;
    return align(best, now);
  }

  /// Gives an input of the node, or all of them, the shape of another one, or that which its
  /// numbers are, from the first or from the last dimension on. Of lengths that don't change, those
  /// of the others count too.
  bool align(Attempt &best, Integers values) {
    std::vector<Shape> shapes = best.stop.shapes;
    const size_t count = shapes.size(), all = count;
    shapes.push_back(best.stop.numbers);
    values.insert(values.end(), shapes.back().begin(), shapes.back().end());
    std::vector<size_t> first; // of each input's quantities
    for (size_t i = 0, at = 0; i < shapes.size(); at += shapes[i++].size() + 1)
      first.push_back(at);
    const auto isFixed = [&](size_t i) {
      for (const Integers &slopes : slopes_)
        if (i < slopes.size() && slopes[i])
          return false;
      return true;
    };
    for (size_t from = 0; from < shapes.size(); ++from)
      for (size_t to = 0; to <= all; ++to)
        for (const bool atEnd : {true, false}) {
          const auto place = [&](size_t input, size_t k) {
            return first[input] + (atEnd ? shapes[input].size() - 1 - k : k);
          };
          Integers lengths = best.lengths;
          for (size_t k = 0; k < shapes[from].size(); ++k) {
            int64_t target = values[place(from, k)];
            for (size_t i = 0; to == all && i < count && !isFixed(place(from, k)); ++i)
              if (k < shapes[i].size() && isFixed(place(i, k))) {
                target = values[place(i, k)];
                break;
              }
            for (size_t i = 0; i < count; ++i)
              if ((to == all || to == i) && k < shapes[i].size())
                setLength(lengths, place(i, k), target - values[place(i, k)]);
          }
          if (tryLengths(best, std::move(lengths)))
            return true;
        }
    return false;
  }

  /// Sets a length with which quantity i grows by `difference`.
  void setLength(Integers &lengths, size_t i, int64_t difference) const {
    for (size_t v = variables.size(); v-- > 0;)
      if (const int64_t slope = slopes_[v][i]; slope && difference % slope == 0) {
        const auto at = static_cast<size_t>(variables[v][0]);
        lengths = with(lengths, variables[v], lengths[at] + difference / slope);
        return;
      }
  }

  bool guess(Attempt &best) {
    for (const int64_t length : {1, 4, 6, 8, 5, 7, 12, 16, 24, 32, 64, 60, 128, 256, 120, 5040}) {
      for (const Integers &variable : variables)
        if (tryLengths(best, with(best.lengths, variable, length)))
          return true;
      if (tryLengths(best, with(best.lengths, all_, length)))
        return true;
    }
    return false;
  }

  /// One more length may have to be another one before any of them is of use.
  bool detour(Attempt &best) {
    Integers some{1, 3, 4};
    for (const int64_t target : targets(best.stop))
      addOnce(some, target);
    for (const int64_t length : some)
      for (size_t v = 0; v <= variables.size(); ++v) {
        if (isOver() || length > LongestTried)
          return false;
        Attempt other =
            attempt(with(best.lengths, v < variables.size() ? variables[v] : all_, length));
        if (other.stop.progress != best.stop.progress || !solve(other))
          continue;
        best = std::move(other);
        return true;
      }
    return false;
  }

  Network &network_;
  const MissingFeatures &missing_;
  const Deadline deadline_, until_;
  Integers all_;
  std::vector<Integers> tried_, slopes_; ///< slopes: of the quantities, for each variable
  size_t attempts_ = 0;
};

std::vector<Shape> Network::shapesOf(const Shape &lengths) const {
  std::vector<Shape> shapes;
  size_t next = 0;
  for (const TensorSpec &spec : signature_.inputs) {
    shapes.push_back(spec.shape);
    for (int64_t &length : shapes.back())
      if (length == Dynamic)
        length = lengths[next++];
  }
  return shapes;
}

Network::Attempt Network::attempt(const Shape &lengths, const Deadline &deadline,
                                  const MissingFeatures &missing) {
  Attempt result{lengths, nullptr, {}, {}};
  Expected<SharedPlan> plan = makePlan(shapesOf(lengths), deadline, {}, missing, &result.stop);
  result.status = plan.status();
  if (!plan)
    return result;
  result.plan = *plan;
  for (size_t i = 0; result.plan->decisions.empty() && i < signature_.outputs.size(); ++i) {
    const TensorSpec &declared = signature_.outputs[i], &planned = result.plan->outputs[i];
    if (!model_->graph.outputs[i].hasShape || checkShape(declared, planned.shape))
      continue;
    result.status = makeError(Code::InvalidModel, "output '", declared.toString(), "' is in fact ",
                              planned.toString());
    result.stop.shapes.push_back(planned.shape);
    for (const int64_t length : declared.shape)
      if (length != Dynamic)
        result.stop.numbers.push_back(length);
  }
  return result;
}

Status Network::findLengths(const Deadline &deadline, const MissingFeatures &missing) {
  const auto &outputs = model_->graph.outputs;
  const bool areDeclared =
      std::all_of(outputs.begin(), outputs.end(), [](const auto &o) { return o.hasShape; });
  LengthSearch search(*this, missing, deadline);
  const Attempt best = search.best();
  if (best.status)
    someShapes_ = shapesOf(best.lengths);
  if (best.status && !best.plan->decisions.empty()) {
    // The nodes after the values on which shapes depend are planned for some such values.
    Status failure;
    for (int sample = 0; sample < 3; ++sample) {
      failure = sampleOutputs(best, sample, deadline).status();
      if (failure.code() != Code::Unsupported)
        break;
    }
    if (failure.code() == Code::Unsupported)
      return failure;
  }
  if (best.status)
    return areDeclared ? Status() : describeOutputs(search, best, deadline);
  if (deadline.hasPassed())
    return makeError(Code::DeadlineExceeded, "the deadline passed while lengths were tried");
  const Code code = best.status.code();
  if (code == Code::Unsupported) // for these lengths, and perhaps only for them
    return areDeclared && missing.isEmpty() && search.ofAll(3).status ? Status() : best.status;
  if (search.isOver() && areDeclared)
    return Status(); // nobody knows
  if (code != Code::InvalidModel)
    return best.status;
  std::string tried;
  const std::vector<Shape> shapes = shapesOf(best.lengths);
  for (size_t i = 0; i < shapes.size(); ++i)
    tried += (i ? ", " : "") + signature_.inputs[i].name + toString(shapes[i]);
  return makeError(code, best.status.message(),
                   "; no lengths of its dynamic dimensions were found with which it can be "
                   "evaluated (the best: ",
                   tried, ")");
}

Status Network::describeOutputs(LengthSearch &search, const Attempt &best,
                                const Deadline &deadline) {
  std::vector<std::vector<Shape>> all; // of the outputs, with various lengths and values
  const bool depends = !best.plan->decisions.empty();
  const auto add = [&](const Attempt &attempt) {
    const bool decides = attempt.status && !attempt.plan->decisions.empty();
    for (int sample = 0; decides && sample < 3; ++sample)
      if (Expected<std::vector<Shape>> shapes = sampleOutputs(attempt, sample, deadline))
        all.push_back(std::move(*shapes));
    if (decides || !attempt.status)
      return;
    all.emplace_back();
    for (const TensorSpec &output : attempt.plan->outputs)
      all.back().push_back(output.shape);
  };
  add(best);
  add(search.ofAll(3));
  const size_t ordinary = all.size();
  for (const Integers &variable : search.variables) {
    const int64_t length = LengthSearch::lengthOf(best, variable);
    for (const int64_t other : {length + 1, length * 2, int64_t(1), int64_t(0)})
      if (!depends && !search.isOver())
        add(search.attempt(LengthSearch::with(best.lengths, variable, other)));
  }
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    TensorSpec &spec = signature_.outputs[i];
    if (model_->graph.outputs[i].hasShape)
      continue;
    const auto refuse = [&](const char *why) {
      return makeError(Code::Unsupported, "output '", spec.name, "' has no shape, and ", why,
                       "; declare it in the file, or open the model with "
                       "onnx: instead");
    };
    if (all.empty())
      return refuse("it depends on values of inputs");
    spec.shape = all[0][i];
    for (size_t k = 0; k < all.size(); ++k) {
      const Shape &other = all[k][i];
      if (other.size() != spec.shape.size()) {
        if (k < ordinary)
          return refuse("even its number of dimensions changes");
        continue; // a length of 1 that Squeeze takes away
      }
      for (size_t d = 0; d < other.size(); ++d)
        if (depends || spec.shape[d] != other[d]) // other values may make it any length
          spec.shape[d] = Dynamic;
    }
  }
  return Status();
}

namespace {

/// Makes an input of zeros one of ones (sample 0), of zeros (1), or of both by turns (2).
void fill(uint8_t *zeros, const TensorSpec &spec, int sample) {
  const size_t size = sizeOf(spec.type), count = elementCount(spec.shape).value_or(0);
  const uint64_t one = spec.type == ElementType::Float16   ? 0x3c00
                       : spec.type == ElementType::Float32 ? 0x3f800000
                       : spec.type == ElementType::Float64 ? 0x3ff0000000000000
                                                           : 1;
  for (size_t i = 0; i < count; ++i)
    if (sample == 0 || (sample == 2 && i % 2 == 0))
      std::memcpy(zeros + i * size, &one, size); // little-endian
}

} // namespace

/// The shapes of all outputs if the inputs have certain values.
Expected<std::vector<Shape>> Network::sampleOutputs(const Attempt &best, int sample,
                                                    const Deadline &deadline) {
  constexpr Duration Longest = std::chrono::milliseconds(50);
  const Plan &plan = *best.plan;
  std::vector<Buffer> memory(plan.inputs.size() + plan.outputs.size() + 1);
  std::vector<uint8_t *> places;
  const auto add = [&](uint64_t size) {
    Buffer &zeros = memory[places.size()];
    Status s = zeros.resize(std::max<size_t>(size, 64));
    if (s)
      std::memset(zeros.data(), 0, zeros.size());
    places.push_back(zeros.data());
    return s;
  };
  for (const std::vector<TensorSpec> *specs : {&plan.inputs, &plan.outputs})
    for (const TensorSpec &spec : *specs)
      if (Status s = add(bytesOf(spec)); !s)
        return s;
  if (Status s = add(plan.workspace); !s)
    return s;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    fill(places[i], plan.inputs[i], sample);
  const Span<uint8_t *const> inputs(places.data(), plan.inputs.size());
  const Span<uint8_t *const> outputs(places.data() + inputs.size(), plan.outputs.size());
  Program program;
  if (Status s = program.link(plan, inputs, outputs, places.back()); !s)
    return s;
  if (!program.run(std::min(Longest, deadline.left())))
    return makeError(Code::DeadlineExceeded, "the values on which shapes depend take long");
  const std::vector<const void *> values(outputs.begin(), outputs.end());
  const Expected<SharedPlan> settled =
      makePlan(shapesOf(best.lengths), deadline, {&plan, values.data()}, {});
  if (!settled)
    return settled.status();
  std::vector<Shape> shapes;
  for (const TensorSpec &output : (*settled)->outputs)
    shapes.push_back(output.shape);
  return shapes;
}

} // namespace mlbridge::native
