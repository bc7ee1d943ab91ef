// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// If, Loop and Scan: inner graphs become steps between marks. Shapes may not depend on the way that
// is taken.
#include "engine/native/operators/common.h"

namespace mlbridge::native {
namespace {

const onnx::Graph *graphOf(Lowering &l, const char *name) {
  const onnx::Attribute *attribute = l.attribute(name);
  if (attribute && attribute->graph)
    return attribute->graph.get();
  l.invalid("its graph '", name, "' is missing");
  return nullptr;
}

void assign(Lowering &l, Value *to, Value *from) {
  l.emit(KernelId::Copy, {to}, {from}, {count(to) * width(to)});
}

// ---- If ----------------------------------------------------------------------------------------

Status ifNode(Lowering &l) {
  Value *condition = l.in(0);
  const onnx::Graph *yes = graphOf(l, "then_branch"), *no = graphOf(l, "else_branch");
  if (!yes || !no)
    return l.status();
  if (condition->count != 1)
    return l.invalid("its condition has ", condition->count, " elements instead of 1");
  Planner &planner = l.planner;
  if (condition->isConstant()) {
    Expected<Values> results = planner.planGraph(*condition->constantBytes() ? *yes : *no, {});
    if (!results)
      return results.status();
    l.results = std::move(*results);
    return l.status();
  }
  planner.mark(Step::Kind::If, {condition});
  const Expected<Values> first = planner.planGraph(*yes, {});
  if (!first)
    return first.status();
  for (Value *value : *first) {
    l.results.push_back(l.make(value->type, value->shape));
    assign(l, l.results.back(), value);
  }
  planner.mark(Step::Kind::Else, {});
  const Expected<Values> second = planner.planGraph(*no, {});
  if (!second)
    return second.status();
  if (second->size() != l.results.size())
    return l.invalid("its branches give ", first->size(), " and ", second->size(), " results");
  for (size_t i = 0; i < l.results.size(); ++i) {
    const Value *one = l.results[i];
    Value *other = (*second)[i];
    if (one->type != other->type)
      return l.invalid("its branches give different types");
    if (one->shape != other->shape)
      return planner.unsettled("its branches give the shapes " + toString(one->shape) + " and " +
                               toString(other->shape));
    assign(l, l.results[i], other);
  }
  planner.mark(Step::Kind::EndIf, {});
  return l.status();
}

// ---- loops -------------------------------------------------------------------------------------

/// The values that a loop carries from one round to the next, in places that stay. The condition is
/// one of them: a body may give out anything it can see, this round's own values included.
class Carried {
public:
  Carried(Lowering &l, const Values &initial) : l_(l) {
    for (Value *value : initial) {
      values.push_back(l.make(value->type, value->shape));
      assign(l, values.back(), value);
    }
  }
  /// At the end of a round, all at once. False if a type or shape changes.
  bool update(const Values &next) {
    Values from = next;
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
  Values values;

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

Status loopNode(Lowering &l) {
  const onnx::Graph *body = graphOf(l, "body");
  if (!body)
    return l.status();
  Planner &planner = l.planner;
  Value *trips = l.in(0), *condition = l.in(1);
  const size_t carriedCount = l.inputs.size() - std::min<size_t>(2, l.inputs.size());
  if (body->inputs.size() != carriedCount + 2 || body->outputs.size() < carriedCount + 1 ||
      std::find(l.inputs.end() - static_cast<ptrdiff_t>(carriedCount), l.inputs.end(), nullptr) !=
          l.inputs.end() ||
      (trips && (trips->type != ElementType::Int64 || trips->count != 1)) ||
      (condition && (condition->type != ElementType::Bool || condition->count != 1)))
    return l.invalid("its inputs don't fit its body, which has ", body->inputs.size(),
                     " inputs and ", body->outputs.size(), " outputs");
  const size_t lists = body->outputs.size() - 1 - carriedCount;
  // The lists are as long as there are rounds.
  const bool isKnown = !lists || l.planner.settle({trips, condition});
  int64_t most = 0;
  if (lists && isKnown) {
    if (!trips)
      return planner.unsettled(
          "the scan outputs of a loop without a trip count have no known length");
    if (!l.read(trips, most))
      return l.status();
    most = std::max<int64_t>(most, 0);
  }
  const uint8_t yes = 1;
  Values first{condition ? l.view(condition, {}) : l.constant(ElementType::Bool, {}, &yes)};
  first.insert(first.end(), l.inputs.end() - static_cast<ptrdiff_t>(carriedCount), l.inputs.end());
  Carried carried(l, first);
  Value *going = carried.values[0];
  Value *counter = l.make(ElementType::Int64, {});
  planner.mark(Step::Kind::Loop, {counter, trips, going});
  Values inputs{counter};
  inputs.insert(inputs.end(), carried.values.begin(), carried.values.end());
  const Expected<Values> results = planner.planGraph(*body, inputs);
  if (!results)
    return results.status();
  Values all;
  for (size_t i = 0; isKnown && i < lists; ++i) {
    Value *entry = (*results)[1 + carriedCount + i];
    all.push_back(withLeading(l, most, entry));
    putEntry(l, all.back(), entry, counter, false);
  }
  Values next(results->begin(), results->begin() + 1 + static_cast<ptrdiff_t>(carriedCount));
  if (next[0]->count == 1)
    next[0] = l.view(next[0], {});
  if (!carried.update(next))
    return planner.unsettled("a value that the loop carries changes its type or shape");
  planner.mark(Step::Kind::EndLoop, {});
  l.results.assign(carried.values.begin() + 1, carried.values.end());
  if (!lists)
    return l.status();
  // It may end before.
  const Value *last = next[0];
  const bool isSteady = last->root == going || last->isConstant();
  if (!isKnown && !isSteady)
    return planner.unsettled(
        "the scan outputs of a loop that has a computed trip count and may end "
        "early have no known length");
  if (!isKnown)
    return l.status(); // their lengths aren't, either
  const uint8_t *begins = condition ? l.planner.bytesOf(condition) : &yes;
  int64_t rounds = most;
  if (begins && !*begins)
    rounds = 0;
  else if (last->isConstant() && !*last->constantBytes())
    rounds = 1;
  else if (!isSteady && !l.read(counter, rounds))
    return l.status();
  for (Value *entries : all) {
    Shape shape = entries->shape;
    shape[0] = std::min(rounds, most);
    l.results.push_back(l.view(entries, shape));
  }
  return l.status();
}

/// The axis comes to the front, or goes back from there.
Integers moved(size_t rank, size_t from, size_t to) {
  Integers order;
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
  const size_t states = l.inputs.size() - scanned, collected = body->outputs.size() - states;
  const auto listed = [&](const char *name, size_t size, Integers &out) {
    out.assign(size, 0);
    const Integers *attribute = l.integers(name);
    if (attribute && attribute->size() == size)
      out = *attribute;
    else if (attribute)
      l.invalid("its attribute '", name, "' has the wrong length");
  };
  Integers inputAxes, outputAxes, inputReverse, outputReverse;
  listed("scan_input_axes", scanned, inputAxes);
  listed("scan_output_axes", collected, outputAxes);
  listed("scan_input_directions", scanned, inputReverse);
  listed("scan_output_directions", collected, outputReverse);
  if (!l.status())
    return l.status();

  Values sources;
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
  Values inputs = carried.values;
  for (size_t i = 0; i < scanned; ++i) {
    const Value *x = sources[i];
    Value *entry = l.make(x->type, Shape(x->shape.begin() + 1, x->shape.end()));
    if (x->count)
      l.emit(KernelId::TakeEntry, {entry}, {sources[i], counter},
             {count(entry) * width(entry), rounds, inputReverse[i] != 0});
    inputs.push_back(entry);
  }
  const Expected<Values> results = l.planner.planGraph(*body, inputs);
  if (!results)
    return results.status();
  Values all;
  for (size_t i = 0; i < collected; ++i) {
    Value *entry = (*results)[states + i];
    all.push_back(withLeading(l, rounds, entry));
    putEntry(l, all.back(), entry, counter, outputReverse[i] != 0);
  }
  if (!carried.update({results->begin(), results->begin() + static_cast<ptrdiff_t>(states)}))
    return l.invalid("its states change their type or shape");
  l.planner.mark(Step::Kind::EndLoop, {});
  l.results = carried.values;
  for (size_t i = 0; i < collected; ++i) {
    if (!l.axis(outputAxes[i], all[i]->rank()))
      return l.status();
    const auto axis = static_cast<size_t>(outputAxes[i]);
    l.results.push_back(axis ? transpose(l, all[i], moved(all[i]->rank(), 0, axis)) : all[i]);
  }
  return l.status();
}

constexpr Operator Table[] = {
    {"If", 1, "B", Fixed, AnyNumber, false, ifNode, "then_branch else_branch"},
    {"Loop", 1, "aaa*", Fixed, AnyNumber, false, loopNode, "body"},
    {"Scan", 9, "A*", Fixed, AnyNumber, false, scanNode,
     "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
     "scan_output_directions"},
};

} // namespace

const Span<const Operator> ControlOperators = Table;

} // namespace mlbridge::native
