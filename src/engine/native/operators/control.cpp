// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// If, Loop and Scan: inner graphs become steps between marks. Where the shapes of a branch or of
// what a loop carries depend on the way that is taken, the plan is made for that way, and guarded.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

constexpr int64_t MostUnrolled = 4096;

const onnx::Graph *graphOf(Lowering &l, std::string_view name) {
  const onnx::Attribute *attribute = l.attribute(name);
  if (attribute && attribute->graph)
    return attribute->graph.get();
  (void)l.invalid("its graph '" + std::string(name) + "' is missing");
  return nullptr;
}

void assign(Lowering &l, Value *to, Value *from) {
  l.emit(KernelId::Copy, {to}, {from}, {count(to) * width(to)});
}

/// The value of a bool that is known, with a guard where it is not constant.
bool readBool(Lowering &l, Value *value, bool &out) {
  if (value->count != 1 || value->type != ElementType::Bool) {
    (void)l.invalid("its condition is " + toString(value->shape) + " of " + name(value->type));
    return false;
  }
  const uint8_t *byte = l.readBytes(value);
  if (byte)
    out = *byte != 0;
  return byte != nullptr;
}

// ---- If ----------------------------------------------------------------------------------------

bool tryBothBranches(Lowering &l, Value *condition, const onnx::Graph &yes, const onnx::Graph &no) {
  Planner &planner = l.planner;
  planner.mark(Step::Kind::If, {condition});
  const Expected<std::vector<Value *>> first = planner.planGraph(yes, {});
  if (!first)
    return false;
  std::vector<Value *> results;
  for (Value *value : *first) {
    results.push_back(l.make(value->type, value->shape));
    assign(l, results.back(), value);
  }
  planner.mark(Step::Kind::Else, {});
  const Expected<std::vector<Value *>> second = planner.planGraph(no, {});
  if (!second || second->size() != results.size())
    return false;
  for (size_t i = 0; i < results.size(); ++i) {
    Value *value = (*second)[i];
    if (value->type != results[i]->type || value->shape != results[i]->shape)
      return false;
    assign(l, results[i], value);
  }
  planner.mark(Step::Kind::EndIf, {});
  l.results = results;
  return bool(l.status());
}

Status ifNode(Lowering &l) {
  Value *condition = l.in(0);
  const onnx::Graph *yes = graphOf(l, "then_branch"), *no = graphOf(l, "else_branch");
  if (!yes || !no)
    return l.status();
  if (condition->count != 1)
    return l.invalid("its condition has " + std::to_string(condition->count) + " elements");
  if (!condition->isConstant()) {
    const Planner::Point point = l.planner.here();
    if (tryBothBranches(l, condition, *yes, *no))
      return Status::ok();
    l.results.clear();
    l.planner.goBack(point);
  }
  bool chosen = false;
  if (!readBool(l, condition, chosen))
    return l.status();
  Expected<std::vector<Value *>> results = l.planner.planGraph(chosen ? *yes : *no, {});
  if (!results)
    return results.status();
  l.results = *results;
  return Status::ok();
}

// ---- loops -------------------------------------------------------------------------------------

/// What a loop carries from one round to the next, in places that stay.
class Carried {
public:
  Carried(Lowering &l, const std::vector<Value *> &initial) : l_(l) {
    for (Value *value : initial) {
      values.push_back(l.make(value->type, value->shape));
      assign(l, values.back(), value);
    }
  }
  /// At the end of a round. False if a type or shape changes.
  bool update(const std::vector<Value *> &next) {
    std::vector<Value *> from = next;
    for (size_t i = 0; i < values.size(); ++i) {
      if (next[i]->type != values[i]->type || next[i]->shape != values[i]->shape)
        return false;
      // One that was another's, or a part of one, is copied before that is written over.
      for (const Value *other : values)
        if (next[i]->root == other && next[i]->root != values[i]) {
          from[i] = copy(l_, next[i]);
          break;
        }
    }
    for (size_t i = 0; i < values.size(); ++i)
      if (from[i]->root != values[i])
        assign(l_, values[i], from[i]);
    return true;
  }
  std::vector<Value *> values;

private:
  Lowering &l_;
};

Value *withLeading(Lowering &l, int64_t length, const Value *entry) {
  Shape shape = entry->shape;
  shape.insert(shape.begin(), length);
  return l.make(entry->type, shape);
}

void putEntry(Lowering &l, Value *all, Value *entry, Value *index, bool reverse) {
  if (entry->count)
    l.emit(KernelId::PutEntry, {all}, {entry, index},
           {count(entry) * width(entry), all->shape[0], reverse});
}

bool tryLoop(Lowering &l, const onnx::Graph &body, const std::vector<Value *> &initial) {
  Planner &planner = l.planner;
  Value *trips = l.in(0), *condition = l.in(1);
  const size_t carriedCount = initial.size();
  const size_t scanned = body.outputs.size() - 1 - carriedCount;
  int64_t most = 0;
  if (scanned && (!trips || !l.read(trips, most) || most > (int64_t(1) << 32)))
    return false;
  most = std::max<int64_t>(most, 0);
  Carried carried(l, initial);
  const uint8_t yes = 1;
  Value *going = l.make(ElementType::Bool, {});
  assign(l, going, condition ? condition : l.constant(ElementType::Bool, {}, &yes));
  Value *counter = l.make(ElementType::Int64, {});
  planner.mark(Step::Kind::Loop, {counter, trips, going});
  std::vector<Value *> inputs{counter, going};
  inputs.insert(inputs.end(), carried.values.begin(), carried.values.end());
  const Expected<std::vector<Value *>> results = planner.planGraph(body, inputs);
  if (!results)
    return false;
  std::vector<Value *> all;
  for (size_t i = 0; i < scanned; ++i) {
    Value *entry = (*results)[1 + carriedCount + i];
    all.push_back(withLeading(l, most, entry));
    putEntry(l, all.back(), entry, counter, false);
  }
  if ((*results)[0]->type != ElementType::Bool || (*results)[0]->count != 1 ||
      !carried.update({results->begin() + 1, results->begin() + 1 + int64_t(carriedCount)}))
    return false;
  assign(l, going, (*results)[0]);
  planner.mark(Step::Kind::EndLoop, {});
  l.results = carried.values;
  if (scanned) {
    int64_t rounds = most;
    // It may have ended before.
    if (((*results)[0]->root != going && !(*results)[0]->isConstant()) ||
        (condition && !condition->isConstant()))
      if (!l.read(counter, rounds))
        return false;
    for (Value *entries : all) {
      Shape shape = entries->shape;
      shape[0] = std::min(rounds, most);
      l.results.push_back(l.view(entries, shape));
    }
  }
  return bool(l.status());
}

Status loopNode(Lowering &l) {
  const onnx::Graph *body = graphOf(l, "body");
  if (!body)
    return l.status();
  Value *trips = l.in(0), *condition = l.in(1);
  std::vector<Value *> values(
      l.inputs.begin() + std::min<ptrdiff_t>(2, l.inputs.end() - l.inputs.begin()), l.inputs.end());
  if (body->inputs.size() != values.size() + 2 || body->outputs.size() < values.size() + 1 ||
      std::find(values.begin(), values.end(), nullptr) != values.end() ||
      (trips && (trips->type != ElementType::Int64 || trips->count != 1)) ||
      (condition && (condition->type != ElementType::Bool || condition->count != 1)))
    return l.invalid("its inputs don't fit its body, which has " +
                     std::to_string(body->inputs.size()) + " inputs and " +
                     std::to_string(body->outputs.size()) + " outputs");
  const Planner::Point point = l.planner.here();
  if (tryLoop(l, *body, values))
    return Status::ok();
  l.planner.goBack(point);
  l.results.clear();

  // Round by round: what is carried changes its shape, or the number of rounds is not known before.
  bool goesOn = true;
  int64_t most = INT64_MAX;
  if ((trips && !l.read(trips, most)) || (condition && !readBool(l, condition, goesOn)))
    return l.status();
  const size_t scanned = body->outputs.size() - 1 - values.size();
  std::vector<std::vector<Value *>> entries(scanned);
  for (int64_t round = 0; round < most && goesOn; ++round) {
    if (round == MostUnrolled)
      return l.unsupported("a loop of more than " + std::to_string(MostUnrolled) +
                           " rounds that changes shapes");
    const uint8_t yes = 1;
    std::vector<Value *> inputs{l.constantOf<int64_t>({}, {round}),
                                l.constant(ElementType::Bool, {}, &yes)};
    inputs.insert(inputs.end(), values.begin(), values.end());
    const Expected<std::vector<Value *>> results = l.planner.planGraph(*body, inputs);
    if (!results || !readBool(l, (*results)[0], goesOn))
      return l.status();
    values.assign(results->begin() + 1, results->begin() + 1 + int64_t(values.size()));
    for (size_t i = 0; i < scanned; ++i)
      entries[i].push_back((*results)[1 + values.size() + i]);
  }
  l.results = values;
  for (const std::vector<Value *> &list : entries) {
    if (list.empty())
      return l.unsupported("a loop without rounds that gives a list");
    Value *all = withLeading(l, static_cast<int64_t>(list.size()), list[0]);
    std::vector<int64_t> starts(all->rank());
    for (Value *entry : list) {
      if (entry->shape != list[0]->shape || entry->type != list[0]->type)
        return l.invalid("its rounds give entries of different shapes");
      Shape one = entry->shape;
      one.insert(one.begin(), 1);
      place(l, all, l.view(entry, one), starts);
      ++starts[0];
    }
    l.results.push_back(all);
  }
  return l.status();
}

/// The axis comes to the front, or goes back from there.
std::vector<int64_t> moved(size_t rank, size_t from, size_t to) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < rank; ++i)
    if (i != from)
      order.push_back(static_cast<int64_t>(i));
  order.insert(order.begin() + static_cast<ptrdiff_t>(to), static_cast<int64_t>(from));
  return order;
}

Status scanNode(Lowering &l) {
  const onnx::Graph *body = graphOf(l, "body");
  const int64_t scans = l.integer("num_scan_inputs", 0);
  if (!body)
    return l.status();
  if (scans < 1 || static_cast<size_t>(scans) > l.inputs.size() ||
      body->inputs.size() != l.inputs.size() ||
      std::find(l.inputs.begin(), l.inputs.end(), nullptr) != l.inputs.end() ||
      body->outputs.size() < l.inputs.size() - static_cast<size_t>(scans))
    return l.invalid("its inputs don't fit its body");
  const auto scanned = static_cast<size_t>(scans);
  const size_t states = l.inputs.size() - scanned, made = body->outputs.size() - states;
  const auto listed = [&](std::string_view name, size_t size, std::vector<int64_t> &out) {
    out.assign(size, 0);
    const std::vector<int64_t> *attribute = l.integers(name);
    if (attribute && attribute->size() == size)
      out = *attribute;
    else if (attribute)
      (void)l.invalid("its attribute '" + std::string(name) + "' has another length");
  };
  std::vector<int64_t> inputAxes, outputAxes, inputReverse, outputReverse;
  listed("scan_input_axes", scanned, inputAxes);
  listed("scan_output_axes", made, outputAxes);
  listed("scan_input_directions", scanned, inputReverse);
  listed("scan_output_directions", made, outputReverse);
  if (!l.status())
    return l.status();

  std::vector<Value *> sources;
  int64_t rounds = -1;
  for (size_t i = 0; i < scanned; ++i) {
    Value *x = l.in(states + i);
    if (!l.axis(inputAxes[i], x->rank()))
      return l.status();
    const auto axis = static_cast<size_t>(inputAxes[i]);
    if (rounds >= 0 && rounds != x->shape[axis])
      return l.invalid("its sequences have different lengths");
    rounds = x->shape[axis];
    sources.push_back(axis ? transpose(l, x, moved(x->rank(), axis, 0)) : x);
  }
  Carried carried(l, {l.inputs.begin(), l.inputs.begin() + static_cast<ptrdiff_t>(states)});
  Value *counter = l.make(ElementType::Int64, {});
  Value *trips = l.constantOf<int64_t>({}, {rounds});
  l.planner.mark(Step::Kind::Loop, {counter, trips, nullptr});
  std::vector<Value *> inputs = carried.values;
  for (size_t i = 0; i < scanned; ++i) {
    const Value *x = sources[i];
    Value *entry = l.make(x->type, Shape(x->shape.begin() + 1, x->shape.end()));
    if (x->count)
      l.emit(KernelId::TakeEntry, {entry}, {sources[i], counter},
             {count(entry) * width(entry), rounds, inputReverse[i] != 0});
    inputs.push_back(entry);
  }
  const Expected<std::vector<Value *>> results = l.planner.planGraph(*body, inputs);
  if (!results)
    return results.status();
  std::vector<Value *> all;
  for (size_t i = 0; i < made; ++i) {
    Value *entry = (*results)[states + i];
    all.push_back(withLeading(l, rounds, entry));
    putEntry(l, all.back(), entry, counter, outputReverse[i] != 0);
  }
  if (!carried.update({results->begin(), results->begin() + static_cast<ptrdiff_t>(states)}))
    return l.invalid("its states change their type or shape");
  l.planner.mark(Step::Kind::EndLoop, {});
  l.results = carried.values;
  for (size_t i = 0; i < made; ++i) {
    if (!l.axis(outputAxes[i], all[i]->rank()))
      return l.status();
    const auto axis = static_cast<size_t>(outputAxes[i]);
    l.results.push_back(axis ? transpose(l, all[i], moved(all[i]->rank(), 0, axis)) : all[i]);
  }
  return l.status();
}

constexpr Operator Table[] = {
    {"If", 1, "B", Fixed, 1 << 20, false, ifNode},
    {"Loop", 1, "aaa*", Fixed, 1 << 20, false, loopNode},
    {"Scan", 9, "A*", Fixed, 1 << 20, false, scanNode},
};

} // namespace

const Span<const Operator> ControlOperators = Table;

} // namespace mlbridge::native
