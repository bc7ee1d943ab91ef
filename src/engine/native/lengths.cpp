// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening a network whose lengths change. It is planned for some lengths, so that one that can't be
// evaluated at all is refused at once and by node: a length may have to be that of a weight, which
// is found by how the shapes at a node that fails depend on it. Outputs without a declared shape
// get one; what differs between plans is dynamic.
#include "core/nearest.h"
#include "engine/native/lacking.h"
#include "engine/native/network.h"
#include "engine/native/planner.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace mlbridge::native {
namespace {

constexpr int64_t LongestTried = int64_t(1) << 24;
constexpr size_t MostAttempts = 2000;

/// Dimensions of inputs that have one length.
using Variable = std::vector<std::pair<size_t, size_t>>; // input, axis

int64_t lengthOf(const std::vector<Shape> &shapes, const Variable &variable) {
  return shapes[variable[0].first][variable[0].second];
}
std::vector<Shape> with(std::vector<Shape> shapes, const Variable &variable, int64_t length) {
  for (const auto &[input, axis] : variable)
    shapes[input][axis] = length;
  return shapes;
}

/// The lengths and numbers of elements at a node, in a certain order.
std::vector<int64_t> quantities(const Stop &stop) {
  std::vector<int64_t> all;
  for (const Shape &shape : stop.shapes) {
    all.insert(all.end(), shape.begin(), shape.end());
    all.push_back(static_cast<int64_t>(elementCount(shape).value_or(0)));
  }
  return all;
}

/// What the quantities at a node may have to be.
std::set<int64_t> targets(const Stop &stop) {
  std::set<int64_t> all;
  int64_t sum = 0, product = 1;
  for (const int64_t number : stop.numbers) {
    const int64_t size = number < 0 ? 0 : std::min(number, LongestTried);
    all.insert({size, size * size});
    sum += size;
    product = std::min(product * std::max<int64_t>(size, 1), LongestTried);
  }
  all.insert({sum, product});
  for (const int64_t quantity : quantities(stop))
    all.insert(quantity);
  all.erase(all.begin(), all.lower_bound(1));
  return all;
}

} // namespace

class Network::LengthSearch {
public:
  LengthSearch(Network &network, const Lacking &lacking, const Deadline &deadline)
      : network_(network), lacking_(lacking), deadline_(deadline),
        until_(deadline.isNever() ? Deadline::after(std::chrono::seconds(1))
                                  : Deadline::after(deadline.left() / 2)) {
    const auto &inputs = network.signature_.inputs;
    std::map<std::string_view, Variable> named;
    std::vector<Variable> single;
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t axis = 0; axis < inputs[i].shape.size(); ++axis) {
        if (inputs[i].shape[axis] != Dynamic)
          continue;
        all_.emplace_back(i, axis);
        single.push_back({{i, axis}});
        if (const std::string_view name = nameOf(inputs[i].name, axis); !name.empty())
          named[name].emplace_back(i, axis);
      }
    for (const auto &[name, variable] : named)
      if (variable.size() > 1)
        variables.push_back(variable);
    variables.insert(variables.end(), single.begin(), single.end());
  }

  std::vector<Variable> variables;

  /// Of equal lengths everywhere.
  Attempt ofAll(int64_t length) {
    std::vector<Shape> shapes;
    for (const TensorSpec &spec : network_.signature_.inputs)
      shapes.push_back(spec.shape);
    return attempt(all_.empty() ? shapes : with(shapes, all_, length));
  }
  Attempt attempt(const std::vector<Shape> &shapes) {
    ++attempts_;
    return network_.attempt(shapes, deadline_, lacking_);
  }
  bool isOver() const { return attempts_ >= MostAttempts || until_.hasPassed(); }

  /// The attempt that comes farthest: planned, or at the end, if there are lengths for that.
  Attempt best() {
    Attempt best = ofAll(2);
    if (isDone(best))
      return best;
    consider(best, ofAll(3));
    while (!isDone(best) && !isOver() && (solve(best) || guess(best)))
      ;
    return best;
  }
  static bool isDone(const Attempt &attempt) {
    return attempt.status || (attempt.stop->isAtEnd && attempt.stop->shapes.empty());
  }

  std::string describe(const std::vector<Shape> &shapes) const {
    std::string text;
    for (size_t i = 0; i < shapes.size(); ++i)
      text += (i ? ", " : "") + network_.signature_.inputs[i].name + toString(shapes[i]);
    return text;
  }

private:
  std::string_view nameOf(const std::string &input, size_t axis) const {
    for (const onnx::ValueInfo &info : network_.model_->graph.inputs)
      if (info.name == input && axis < info.dimensions.size())
        return info.dimensions[axis];
    return {};
  }

  /// Whether it is better.
  static bool consider(Attempt &best, Attempt other) {
    const auto rank = [](const Attempt &attempt) {
      return std::pair(isDone(attempt), attempt.stop->progress);
    };
    if (rank(other) <= rank(best))
      return false;
    best = std::move(other);
    return true;
  }

  bool tryLength(Attempt &best, const Variable &variable, int64_t length) {
    if (length < 1 || length > LongestTried || isOver())
      return false;
    std::vector<Shape> shapes = with(best.shapes, variable, length);
    return tried_.insert(shapes).second && consider(best, attempt(shapes));
  }

  /// Takes what a node gets for linear in each length.
  bool solve(Attempt &best) {
    const std::set<int64_t> wanted = targets(*best.stop);
    const std::vector<int64_t> now = quantities(*best.stop);
    for (const Variable &variable : variables) {
      if (isOver())
        return false;
      const int64_t length = lengthOf(best.shapes, variable);
      Attempt longer = attempt(with(best.shapes, variable, length + 1));
      const std::vector<int64_t> then = quantities(*longer.stop);
      const bool isSameNode =
          longer.stop->progress == best.stop->progress && then.size() == now.size();
      if (consider(best, std::move(longer)))
        return true;
      std::set<int64_t> lengths;
      for (size_t i = 0; isSameNode && i < now.size(); ++i)
        for (const int64_t target : wanted)
          if (const int64_t slope = then[i] - now[i]; slope && (target - now[i]) % slope == 0)
            lengths.insert(length + (target - now[i]) / slope);
      for (const int64_t candidate : lengths)
        if (tryLength(best, variable, candidate))
          return true;
    }
    return false;
  }

  bool guess(Attempt &best) {
    variables.push_back(all_);
    bool isBetter = false;
    for (const int64_t length : {1, 4, 6, 8, 5, 7, 12, 16, 24, 32, 64, 60, 128, 256, 120, 5040})
      for (size_t i = 0; !isBetter && i < variables.size(); ++i)
        isBetter = !variables[i].empty() && tryLength(best, variables[i], length);
    variables.pop_back();
    return isBetter;
  }

  Network &network_;
  const Lacking &lacking_;
  const Deadline deadline_, until_;
  Variable all_;
  std::set<std::vector<Shape>> tried_;
  size_t attempts_ = 0;
};

Status Network::findLengths(const Deadline &deadline, const Lacking &lacking) {
  const auto &outputs = model_->graph.outputs;
  const bool areDeclared =
      std::all_of(outputs.begin(), outputs.end(), [](const auto &o) { return o.hasShape; });
  LengthSearch search(*this, lacking, deadline);
  Attempt best = search.best();
  if (best.status)
    someShapes_ = best.shapes;
  if (best.status && !best.plan->decisions.empty()) {
    // What comes after the values on which shapes depend is seen with some of them.
    Status failure;
    for (int sample = 0; sample < 3; ++sample) {
      const Expected<std::vector<Shape>> shapes = sampleOutputs(best, sample, deadline);
      failure = shapes.status();
      if (shapes || failure.code() != Code::Unsupported)
        break;
    }
    if (failure.code() == Code::Unsupported)
      return failure;
  }
  if (best.status)
    return areDeclared ? Status() : describeOutputs(search, best, deadline);
  if (deadline.hasPassed())
    return {Code::DeadlineExceeded, "the deadline passed while lengths were tried"};
  const Code code = best.status.code();
  if (code == Code::Unsupported) // for these lengths, and perhaps only for them
    return areDeclared && lacking.isEmpty() && search.ofAll(3).status ? Status() : best.status;
  if (search.isOver() && areDeclared)
    return Status(); // nobody knows
  if (code != Code::InvalidModel)
    return best.status;
  const std::string tried = search.describe(best.shapes);
  return makeError(code, best.status.message(),
                   "; no lengths of its dynamic dimensions were found with which it can be "
                   "evaluated (the best: ",
                   tried, ")");
}

Status Network::describeOutputs(LengthSearch &search, const Attempt &found,
                                const Deadline &deadline) {
  std::vector<std::vector<Shape>> all; // of the outputs, with various lengths and values
  const auto shapesOf = [](const Plan &plan) {
    std::vector<Shape> shapes;
    for (const TensorSpec &output : plan.outputs)
      shapes.push_back(output.shape);
    return shapes;
  };
  const bool depends = !found.plan->decisions.empty();
  if (!depends) {
    all.push_back(shapesOf(*found.plan));
    std::vector<std::vector<Shape>> others;
    for (const Variable &variable : search.variables)
      for (const int64_t length :
           {lengthOf(found.shapes, variable) + 1, lengthOf(found.shapes, variable) * 2})
        others.push_back(with(found.shapes, variable, length));
    for (const std::vector<Shape> &shapes : others)
      if (!search.isOver())
        if (const Attempt other = search.attempt(shapes); other.status)
          all.push_back(shapesOf(*other.plan));
    if (const Attempt other = search.ofAll(3); other.status)
      all.push_back(shapesOf(*other.plan));
  }
  for (int sample = 0; depends && sample < 3; ++sample)
    if (Expected<std::vector<Shape>> shapes = sampleOutputs(found, sample, deadline))
      all.push_back(std::move(*shapes));
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    TensorSpec &spec = signature_.outputs[i];
    if (model_->graph.outputs[i].hasShape)
      continue;
    const auto refuse = [&](const char *why) {
      return Status(Code::Unsupported, "output '" + spec.name + "' has no shape, and " + why +
                                           "; declare it in the file, or open the model with "
                                           "onnx: instead");
    };
    if (all.empty())
      return refuse("it depends on values of inputs");
    spec.shape = all[0][i];
    for (const std::vector<Shape> &shapes : all) {
      if (shapes[i].size() != spec.shape.size())
        return refuse("even its number of dimensions changes");
      for (size_t d = 0; d < spec.shape.size(); ++d)
        if (depends || spec.shape[d] != shapes[i][d]) // other values may make it any length
          spec.shape[d] = Dynamic;
    }
  }
  return Status();
}

namespace {

/// All inputs are ones, zeros, or by turns.
void fill(Buffer &memory, ElementType type, size_t count, int sample) {
  std::memset(memory.data(), 0, memory.size());
  const size_t size = sizeOf(type);
  uint8_t one[8] = {1};
  if (type == ElementType::Float16)
    std::memcpy(one, "\x00\x3c", 2);
  if (type == ElementType::Float32)
    std::memcpy(one, "\x00\x00\x80\x3f", 4);
  if (type == ElementType::Float64)
    std::memcpy(one, "\x00\x00\x00\x00\x00\x00\xf0\x3f", 8);
  for (size_t i = 0; i < count; ++i)
    if (sample == 0 || (sample == 2 && i % 2 == 0))
      std::memcpy(memory.data() + i * size, one, size);
}

} // namespace

/// The shapes of all outputs if the inputs have certain values.
Expected<std::vector<Shape>> Network::sampleOutputs(const Attempt &found, int sample,
                                                    const Deadline &deadline) {
  constexpr Duration Longest = std::chrono::milliseconds(50);
  const Plan &plan = *found.plan;
  std::vector<Buffer> inputs(plan.inputs.size()), values(plan.outputs.size());
  const auto make = [](Buffer &memory, const TensorSpec &spec) {
    return memory.resize(
        std::max<size_t>(elementCount(spec.shape).value_or(0) * sizeOf(spec.type), 8));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (Status s = make(inputs[i], plan.inputs[i]); !s)
      return s;
    fill(inputs[i], plan.inputs[i].type, elementCount(plan.inputs[i].shape).value_or(0), sample);
  }
  std::vector<const void *> at;
  for (size_t i = 0; i < values.size(); ++i) {
    if (Status s = make(values[i], plan.outputs[i]); !s)
      return s;
    std::memset(values[i].data(), 0, values[i].size());
    at.push_back(values[i].data());
  }
  Buffer workspace;
  if (Status s = workspace.resize(std::max<size_t>(plan.workspace, 64)); !s)
    return s;
  std::memset(workspace.data(), 0, workspace.size());
  const auto address = [&](const Operand &operand) -> uint8_t * {
    switch (operand.place) {
    case Place::None:
      return nullptr;
    case Place::Input:
      return inputs[operand.index].data() + operand.offset;
    case Place::Output:
      return values[operand.index].data() + operand.offset;
    case Place::Workspace:
      return workspace.data() + operand.offset;
    case Place::Constant:
      return const_cast<uint8_t *>(plan.constants[operand.index]->data()) + operand.offset;
    }
    return nullptr;
  };
  Program program;
  program.reserve(plan.steps.size(), plan.operands.size());
  for (const Step &step : plan.steps) {
    std::vector<void *> operands;
    for (uint32_t i = 0; i < step.operandCount; ++i)
      operands.push_back(address(plan.operands[step.firstOperand + i]));
    program.add(step.kind, step.kernel, operands, plan.parameters.data() + step.firstParameter);
  }
  if (Status s = program.finish(plan.isLong); !s)
    return s;
  if (!program.run(std::min(Longest, deadline.left())))
    return Status(Code::DeadlineExceeded, "the values on which shapes depend take long");
  const Expected<std::shared_ptr<const Plan>> settled =
      makePlan(found.shapes, deadline, {&plan, at.data()}, {});
  if (!settled)
    return settled.status();
  std::vector<Shape> shapes;
  for (const TensorSpec &output : (*settled)->outputs)
    shapes.push_back(output.shape);
  return shapes;
}

} // namespace mlbridge::native
