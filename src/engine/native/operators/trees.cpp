// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor of ai.onnx.ml: the trees of a
// model as one array of nodes.
#include "core/message.h"
#include "engine/native/operators/classical.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace mlbridge::native {
namespace {

enum class Mode : uint8_t { Leq, Lt, Gte, Gt, Eq, Neq, Member }; // the numbers of ONNX

/// A child: a test, or the leaf -1 - child.
using Child = int64_t;

struct Test {
  Mode mode = Mode::Leq;
  bool nanIsTrue = false;
  int64_t feature = 0;
  double value = 0;
  Child yes = 0, no = 0;
  size_t firstMember = 0;
};

struct Entry {
  int64_t leaf, target;
  double weight;
};

/// What the three operators have in common.
struct Ensemble {
  bool isDouble = false; ///< thresholds and weights
  std::vector<Test> tests;
  std::vector<double> members; ///< sorted sets, each ended by NaN
  std::vector<Child> roots;
  size_t reached = 0; ///< tests that have to be below a root
  std::vector<Entry> entries;
  int64_t leaves = 0, targets = 0;
  TreeAggregate aggregate = TreeAggregate::Sum;
};

/// A node that compares with one threshold; its children are side by side.
struct Branch {
  double threshold = 0;
  uint32_t slot = 0; ///< 2 · feature, plus 1 if a NaN goes to the second child; then its number
  int32_t next = -1; ///< the first child, or -1 - the number of a leaf
};

/// Turns tests into such nodes.
class NodeWriter {
public:
  NodeWriter(Lowering &l, const Ensemble &ensemble, int64_t features)
      : l_(l), ensemble_(ensemble), features_(features), isUsed_(ensemble.tests.size()) {
    nodes_.reserve(ensemble.roots.size() + 2 * ensemble.tests.size());
  }

  /// `roots` as the kernel takes them: of some trees, and the most steps to a leaf of these.
  bool write(std::vector<Branch> &nodes, std::vector<int32_t> &roots) {
    constexpr size_t Checked = 4096, Group = TreesTogether + 1;
    roots.resize((ensemble_.roots.size() + TreesTogether - 1) / TreesTogether * Group);
    size_t tree = 0;
    for (const Child root : ensemble_.roots) {
      int32_t *group = &roots[tree / TreesTogether * Group];
      group[tree++ % TreesTogether] = static_cast<int32_t>(nodes_.size());
      add(1);
      deepest_ = group[TreesTogether];
      place(nodes_.size() - 1, root, 0);
      for (size_t done = 0; !open_.empty() && l_.status(); ++done) {
        const auto [slot, child, depth] = open_.back();
        open_.pop_back();
        if (done % Checked == 0 && l_.planner.isLate())
          return false;
        fill(slot, child, depth);
      }
      group[TreesTogether] = deepest_;
    }
    for (const auto &[slot, original] : copies_)
      nodes_[slot] = nodes_[original];
    nodes = std::move(nodes_);
    if (l_.status() && used_ < ensemble_.reached)
      l_.invalid("some of its nodes are in a cycle");
    return bool(l_.status());
  }

private:
  /// Up to `least`, a value leads where `isTrue` says; the last one is for all greater ones.
  struct Interval {
    double most;
    bool isTrue;
  };
  struct Open {
    size_t slot;
    Child child;
    int32_t depth; ///< at most
  };
  struct Split {
    uint32_t feature;
    bool nanIsTrue;
    Child yes, no;
    int32_t depth;            ///< of these
    size_t slots[2] = {0, 0}; ///< where each child is already; slot 0 is a root
  };

  void add(size_t count) {
    constexpr size_t Most = std::numeric_limits<int32_t>::max();
    if (nodes_.size() + count > Most) {
      l_.planner.fail(makeError(Code::LimitExceeded, "its trees have more than 2^31 nodes"));
      return;
    }
    nodes_.resize(nodes_.size() + count);
  }

  double before(double x) const {
    constexpr double Infinity = std::numeric_limits<double>::infinity();
    return ensemble_.isDouble
               ? std::nextafter(x, -Infinity)
               : double(std::nextafter(static_cast<float>(x), -static_cast<float>(Infinity)));
  }

  /// Puts a child into its node, now or later.
  void place(size_t slot, Child child, int32_t depth) {
    deepest_ = std::max(deepest_, depth);
    if (child < 0)
      nodes_[slot].next = static_cast<int32_t>(child);
    else
      open_.push_back({slot, child, depth});
  }

  void fill(size_t slot, Child child, int32_t depth) {
    const auto index = static_cast<size_t>(child);
    const Test &test = ensemble_.tests[index];
    if (isUsed_[index]) {
      l_.invalid("its node ", index, " has two parents");
      return;
    }
    isUsed_[index] = true;
    ++used_;
    if (test.feature < 0 || test.feature >= features_) {
      l_.invalid("its node ", index, " compares feature ", test.feature, " of ", features_);
      return;
    }
    constexpr int64_t Most = 1 << 24;
    if (test.feature >= Most) {
      l_.unsupported("a tree that compares feature ", test.feature, "; at most ", Most);
      return;
    }
    divideNumbers(test);
    if (intervals_.size() == 2)
      return branch(slot, test, depth + 1);
    Split split{static_cast<uint32_t>(test.feature), test.mode == Mode::Neq || test.nanIsTrue,
                test.yes, test.no, depth};
    for (size_t reached = 1; reached < intervals_.size(); reached *= 2)
      ++split.depth;
    divide(slot, split, 0, intervals_.size() - 1);
  }

  /// intervals_ of a test. No number is greater than NaN.
  void divideNumbers(const Test &test) {
    constexpr double Never = std::numeric_limits<double>::quiet_NaN();
    const auto set = [&](double most, bool isTrue) {
      intervals_ = {{most, isTrue}, {Never, !isTrue}};
    };
    const double x = test.value;
    const bool hasBefore = x > -std::numeric_limits<double>::infinity(); // not of NaN either
    const double *member = &test.value, *end = member + 1;
    switch (test.mode) {
    case Mode::Leq:
      return set(x, x == x);
    case Mode::Gt:
      return set(x, false);
    case Mode::Lt:
      return set(hasBefore ? before(x) : Never, hasBefore);
    case Mode::Gte:
      return set(hasBefore ? before(x) : Never, !hasBefore && x == x);
    case Mode::Member:
      for (member = end = &ensemble_.members[test.firstMember]; *end == *end;)
        ++end;
      break;
    default:
      break;
    }
    const bool isIn = test.mode != Mode::Neq;
    intervals_.clear();
    for (; member != end; ++member) {
      if (*member != *member)
        continue;
      if (*member > -std::numeric_limits<double>::infinity() &&
          (intervals_.empty() || intervals_.back().most < before(*member)))
        intervals_.push_back({before(*member), !isIn});
      if (intervals_.empty() || intervals_.back().most < *member)
        intervals_.push_back({*member, isIn});
    }
    if (intervals_.empty())
      return set(Never, !isIn);
    intervals_.push_back({Never, !isIn});
  }

  /// The node that finds which of two intervals a value is in.
  void branch(size_t slot, const Test &test, int32_t depth) {
    const size_t children = nodes_.size();
    const bool isTrue = intervals_[0].isTrue, nanIsTrue = test.mode == Mode::Neq || test.nanIsTrue;
    add(2);
    if (!l_.status())
      return;
    nodes_[slot] = {intervals_[0].most,
                    2 * static_cast<uint32_t>(test.feature) + (isTrue != nanIsTrue),
                    static_cast<int32_t>(children)};
    place(children, isTrue ? test.yes : test.no, depth);
    place(children + 1, isTrue ? test.no : test.yes, depth);
  }

  /// Nodes that find the interval of a value among those from `first` to `last`.
  void divide(size_t slot, Split &split, size_t first, size_t last) {
    if (!l_.status())
      return;
    if (first == last) {
      const bool isTrue = intervals_[first].isTrue;
      size_t &original = split.slots[isTrue];
      if (original) {
        copies_.emplace_back(slot, original);
      } else {
        original = slot;
        place(slot, isTrue ? split.yes : split.no, split.depth);
      }
      return;
    }
    const size_t middle = first + (last - first) / 2, children = nodes_.size();
    bool nanIsSecond = true; // as far as it can still get where it belongs
    for (size_t i = first; i <= middle; ++i)
      nanIsSecond &= intervals_[i].isTrue != split.nanIsTrue;
    add(2);
    if (!l_.status())
      return;
    nodes_[slot] = {intervals_[middle].most, 2 * split.feature + nanIsSecond,
                    static_cast<int32_t>(children)};
    divide(children, split, first, middle);
    divide(children + 1, split, middle + 1, last);
  }

  Lowering &l_;
  const Ensemble &ensemble_;
  const int64_t features_;
  std::vector<uint8_t> isUsed_;
  size_t used_ = 0;
  std::vector<Branch> nodes_;
  std::vector<Interval> intervals_; ///< of the test at hand
  int32_t deepest_ = 0;             ///< steps to a leaf of the trees side by side
  std::vector<Open> open_;
  std::vector<std::pair<size_t, size_t>> copies_; ///< of nodes, whose children are the same
};

// ---- the attributes of versions 1 to 4 ----------------------------------------------------------

bool modeOf(std::string_view text, Mode &mode) {
  constexpr std::string_view Modes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < std::size(Modes); ++i)
    if (text == Modes[i]) {
      mode = static_cast<Mode>(i);
      return true;
    }
  return false;
}

/// Numbers of a list of floats or, in later versions, of a tensor of doubles.
bool numbers(Lowering &l, const std::string &name, std::vector<double> &out, bool &isDouble) {
  if (!l.readNumbers((name + "_as_tensor").c_str(), out, &isDouble))
    return false;
  if (out.empty())
    out.assign(l.reals(name.c_str()).begin(), l.reals(name.c_str()).end());
  return true;
}

/// The index of a node by its tree and number.
class NodeNames {
public:
  NodeNames(const Integers &trees, const Integers &nodes) : trees_(trees), nodes_(nodes) {
    order_ = sorted(nodes.size(), [&](size_t a, size_t b) { return key(a) < key(b); });
    const auto isNext = [&](size_t a, size_t b) { return key(a) >= key(b); };
    isUnique_ = std::adjacent_find(order_.begin(), order_.end(), isNext) == order_.end();
  }
  /// Null: there is none, or more than one. It is quick if numbers count on from those of node
  /// `near`.
  std::optional<size_t> find(int64_t tree, int64_t node, size_t near) const {
    const auto wanted = std::make_pair(tree, node);
    const uint64_t guess =
        near + (static_cast<uint64_t>(node) - static_cast<uint64_t>(nodes_[near]));
    if (isUnique_ && guess < nodes_.size() && key(guess) == wanted)
      return guess;
    auto at = std::lower_bound(order_.begin(), order_.end(), wanted,
                               [&](size_t i, const auto &k) { return key(i) < k; });
    if (at == order_.end() || key(*at) != wanted ||
        (at + 1 != order_.end() && key(at[1]) == wanted))
      return std::nullopt;
    return *at;
  }

private:
  std::pair<int64_t, int64_t> key(size_t i) const { return {trees_[i], nodes_[i]}; }
  const Integers &trees_, &nodes_;
  std::vector<size_t> order_;
  bool isUnique_;
};

/// `prefix`: of the attributes that say what leaves give, "class" or "target".
bool readLists(Lowering &l, const std::string &prefix, Ensemble &out) {
  const Integers none, &nodes = l.list("nodes_nodeids"), &trees = l.list("nodes_treeids"),
                       &features = l.list("nodes_featureids"), &yes = l.list("nodes_truenodeids"),
                       &no = l.list("nodes_falsenodeids"),
                       &nans = l.list("nodes_missing_value_tracks_true");
  const std::vector<std::string_view> &modes = l.texts("nodes_modes");
  std::vector<double> values, weights;
  if (!numbers(l, "nodes_values", values, out.isDouble) ||
      !numbers(l, prefix + "_weights", weights, out.isDouble))
    return false;
  const size_t count = nodes.size();
  for (const size_t length : {trees.size(), features.size(), yes.size(), no.size(), modes.size(),
                              values.size(), nans.empty() ? count : nans.size()})
    if (length != count)
      return l.invalid("its lists of nodes have different lengths: ", length, " and ", count);
  if (count == 0)
    return l.invalid("it has no trees");
  const NodeNames names(trees, nodes);
  std::vector<Child> children(count); // a node as a child
  for (size_t i = 0; i < count; ++i)
    if (modes[i] == "LEAF")
      children[i] = -1 - out.leaves++;
    else
      children[i] = static_cast<Child>(i);
  std::vector<bool> isChild(count);
  out.tests.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (children[i] < 0)
      continue;
    ++out.reached;
    Test &test = out.tests[i];
    if (!modeOf(modes[i], test.mode))
      return l.invalid("its node ", i, " has the mode '", modes[i], "'");
    test.nanIsTrue = !nans.empty() && nans[i] != 0;
    test.feature = features[i];
    test.value = values[i];
    for (const bool isYes : {true, false}) {
      const int64_t name = isYes ? yes[i] : no[i];
      const std::optional<size_t> child = names.find(trees[i], name, i);
      if (!child)
        return l.invalid("tree ", trees[i], " has no node ", name, ", or more than one of it");
      (isYes ? test.yes : test.no) = children[*child];
      if (isChild[*child])
        return l.invalid("its node ", *child, " has two parents");
      isChild[*child] = true;
    }
  }
  for (size_t i = 0; i < count; ++i)
    if (!isChild[i])
      out.roots.push_back(children[i]);
  Integers ordered = trees;
  sort(ordered);
  const auto end = std::unique(ordered.begin(), ordered.end());
  if (static_cast<size_t>(end - ordered.begin()) != out.roots.size())
    return l.invalid("it has ", end - ordered.begin(), " trees with ", out.roots.size(),
                     " roots; the nodes of a tree are in a cycle or don't hang together");

  const Integers &givers = l.list((prefix + "_nodeids").c_str()),
                 &givenTrees = l.list((prefix + "_treeids").c_str()),
                 &targets = l.list((prefix + "_ids").c_str());
  if (givers.size() != weights.size() || givenTrees.size() != weights.size() ||
      targets.size() != weights.size())
    return l.invalid("its lists of weights have different lengths");
  std::optional<size_t> leaf = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    leaf = names.find(givenTrees[i], givers[i], *leaf);
    if (!leaf || children[*leaf] >= 0)
      return l.invalid("its weight ", i, " belongs to node ", givers[i], " of tree ", givenTrees[i],
                       ", which is no leaf");
    out.entries.push_back({-1 - children[*leaf], targets[i], weights[i]});
  }
  return true;
}

// ---- the attributes of version 5 ----------------------------------------------------------------

bool readTensors(Lowering &l, Ensemble &out) {
  std::vector<double> splits, weights, members;
  if (!l.readNumbers("nodes_splits", splits, &out.isDouble) ||
      !l.readNumbers("leaf_weights", weights, &out.isDouble) ||
      !l.readNumbers("membership_values", members, &out.isDouble))
    return false;
  const Integers &features = l.list("nodes_featureids"), &yes = l.list("nodes_truenodeids"),
                 &no = l.list("nodes_falsenodeids"), &yesLeaf = l.list("nodes_trueleafs"),
                 &noLeaf = l.list("nodes_falseleafs"),
                 &nans = l.list("nodes_missing_value_tracks_true"), &roots = l.list("tree_roots"),
                 &targets = l.list("leaf_targetids");
  const size_t count = features.size();
  const Value *modes = l.tensor("nodes_modes");
  if (!modes || modes->type != ElementType::UInt8)
    return l.invalid("its nodes_modes are no tensor of uint8");
  for (const size_t length : {splits.size(), modes->count, yes.size(), no.size(), yesLeaf.size(),
                              noLeaf.size(), nans.empty() ? count : nans.size()})
    if (length != count)
      return l.invalid("its lists of nodes have different lengths: ", length, " and ", count);
  if (targets.size() != weights.size())
    return l.invalid("its lists of leaves have different lengths");
  out.leaves = static_cast<int64_t>(weights.size());
  out.entries.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i)
    out.entries.push_back({static_cast<int64_t>(i), targets[i], weights[i]});
  const auto child = [&](bool isLeaf, int64_t index, Child &to) {
    if (index < 0 || index >= (isLeaf ? out.leaves : static_cast<int64_t>(count)))
      return bool(l.invalid("it has no ", isLeaf ? "leaf " : "node ", index));
    to = isLeaf ? -1 - index : index;
    return true;
  };
  out.members = std::move(members);
  size_t member = 0;
  out.tests.resize(count);
  for (size_t i = 0; i < count; ++i) {
    Test &test = out.tests[i];
    const unsigned mode = modes->constantBytes()[i];
    if (mode > static_cast<unsigned>(Mode::Member))
      return l.invalid("its node ", i, " has the mode ", mode);
    test.mode = static_cast<Mode>(mode);
    test.nanIsTrue = !nans.empty() && nans[i] != 0;
    test.feature = features[i];
    test.value = splits[i];
    if (!child(yesLeaf[i] != 0, yes[i], test.yes) || !child(noLeaf[i] != 0, no[i], test.no))
      return false;
    if (test.mode != Mode::Member)
      continue;
    test.firstMember = member;
    while (member < out.members.size() && out.members[member] == out.members[member])
      ++member;
    if (member == out.members.size())
      return l.invalid("its node ", i, " has no set of values that ends with NaN");
    double *set = &out.members[test.firstMember];
    std::vector<double> ordered;
    for (const size_t j :
         sorted(member++ - test.firstMember, [&](size_t a, size_t b) { return set[a] < set[b]; }))
      ordered.push_back(set[j]);
    std::copy(ordered.begin(), ordered.end(), set);
  }
  for (const int64_t root : roots) {
    Child &to = out.roots.emplace_back();
    if (!child(false, root, to))
      return false;
    const Test &test = out.tests[static_cast<size_t>(to)];
    if (test.yes < 0 && test.yes == test.no) // a tree that is a leaf
      to = test.yes;
  }
  const int64_t aggregate = l.integer("aggregate_function", 1);
  out.targets = l.integer("n_targets", 1);
  if (aggregate < 0 || aggregate > 3)
    return l.invalid("its aggregate_function is ", aggregate);
  out.aggregate = static_cast<TreeAggregate>(aggregate);
  return true;
}

// ---- the three operators ------------------------------------------------------------------------

template <class T> std::vector<T> narrowed(const std::vector<double> &numbers) {
  return std::vector<T>(numbers.begin(), numbers.end());
}

/// Numbers slots from 1, in the order of their use; gives those that the kernel makes. Links are
/// wide if some don't fit narrow ones.
std::vector<int32_t> numberSlots(std::vector<Branch> &nodes, bool &isWide) {
  std::vector<int32_t> slots;
  std::vector<uint32_t> numbers;
  for (size_t i = 0; i < nodes.size(); ++i) {
    Branch &node = nodes[i];
    if (node.next < 0)
      continue;
    if (node.slot >= numbers.size())
      numbers.resize(node.slot + 1);
    uint32_t &number = numbers[node.slot];
    if (number == 0) {
      slots.push_back(static_cast<int32_t>(node.slot));
      number = static_cast<uint32_t>(slots.size());
    }
    node.slot = number;
    constexpr int64_t Most = std::numeric_limits<NarrowLink>::max();
    const int64_t skip = node.next - static_cast<int64_t>(i);
    isWide |= skip < 0 || skip > Most || number > Most;
  }
  return slots;
}

/// Nothing but a NaN that goes to the second child is greater than NaN.
template <class T> TreeKey<T> keyOf(T threshold) {
  return threshold == threshold ? treeKey(threshold) : ~TreeKey<T>(1);
}

/// Nodes as the kernel takes them.
template <class T, class Link>
Value *packed(Lowering &l, const std::vector<Branch> &nodes, const std::vector<double> *weights) {
  std::vector<TreeNode<T, Link>> written(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Branch &from = nodes[i];
    TreeNode<T, Link> &node = written[i];
    node.slot = static_cast<Link>(from.slot);
    if (from.next >= 0) {
      node.key = keyOf(static_cast<T>(from.threshold));
      node.skip = static_cast<Link>(from.next - static_cast<int64_t>(i));
    } else if (weights) {
      const auto weight = static_cast<T>((*weights)[static_cast<size_t>(-1 - from.next)]);
      std::memcpy(&node.key, &weight, sizeof node.key);
    } else {
      node.key = static_cast<TreeKey<T>>(-1 - from.next);
    }
  }
  const auto bytes = static_cast<int64_t>(written.size() * sizeof(TreeNode<T, Link>));
  return l.constant(ElementType::UInt8, {bytes}, written.data());
}

/// The sums [rows, targets] of x [rows, features], in float64 if that or the model is.
Value *evaluated(Lowering &l, Value *x, Ensemble &ensemble) {
  x = matrixOf(l, x);
  x = cast(l, x,
           x->type == ElementType::Float64 || ensemble.isDouble ? ElementType::Float64
                                                                : ElementType::Float32);
  const bool isPossible = ensemble.targets >= 1 && ensemble.targets <= (1 << 24);
  if (!isPossible)
    l.invalid("it has ", ensemble.targets, " targets");
  Value *y = l.make(x->type, {x->shape[0], isPossible ? ensemble.targets : 1});
  if (!isPossible)
    return y;
  // Float thresholds that are compared with doubles are floats all the same.
  std::vector<Branch> nodes;
  std::vector<int32_t> roots;
  ensemble.isDouble |= x->type == ElementType::Float64;
  if (!NodeWriter(l, ensemble, x->shape[1]).write(nodes, roots))
    return y;
  std::vector<int32_t> starts(static_cast<size_t>(ensemble.leaves) + 1), targets;
  std::vector<double> weights;
  for (const size_t i : sorted(ensemble.entries.size(), [&](size_t a, size_t b) {
         return ensemble.entries[a].leaf < ensemble.entries[b].leaf;
       })) {
    const Entry &entry = ensemble.entries[i];
    if (entry.target < 0 || entry.target >= ensemble.targets) {
      l.invalid("a leaf names target ", entry.target, " of ", ensemble.targets);
      return y;
    }
    ++starts[static_cast<size_t>(entry.leaf) + 1];
    targets.push_back(static_cast<int32_t>(entry.target));
    weights.push_back(entry.weight);
  }
  const bool isSingle = ensemble.targets == 1 && std::all_of(starts.begin() + 1, starts.end(),
                                                             [](int32_t n) { return n == 1; });
  for (size_t i = 1; i < starts.size(); ++i)
    starts[i] += starts[i - 1];
  const auto trees = static_cast<int64_t>(ensemble.roots.size());
  bool isWide = false;
  const std::vector<int32_t> slots = numberSlots(nodes, isWide);
  const bool isDouble = x->type == ElementType::Float64;
  const auto used = static_cast<int64_t>(slots.size());
  const auto length = [](const auto &list) { return Shape{static_cast<int64_t>(list.size())}; };
  const std::vector<double> *single = isSingle ? &weights : nullptr;
  Value *packedNodes = isDouble ? packed<double, WideLink>(l, nodes, single)
                       : isWide ? packed<float, WideLink>(l, nodes, single)
                                : packed<float, NarrowLink>(l, nodes, single);
  Value *workspace = l.make(isDouble ? ElementType::UInt64 : ElementType::UInt32,
                            {treeWorkspace(x->shape[0], used)});
  Values reads{x,
               packedNodes,
               l.constantOf(length(roots), roots),
               l.constantOf(length(slots), slots),
               nullptr,
               nullptr,
               nullptr,
               workspace};
  if (!isSingle) {
    reads[4] = l.constantOf(length(starts), starts);
    reads[5] = l.constantOf(length(targets), targets);
    reads[6] = isDouble ? l.constantOf(length(weights), weights)
                        : l.constantOf(length(weights), narrowed<float>(weights));
  }
  l.emit(KernelId::TreeEnsemble, {y}, reads,
         {code(x->type), isWide, x->shape[0], x->shape[1], trees, ensemble.targets,
          number(ensemble.aggregate), used});
  l.planner.countMultiplyAdds(static_cast<uint64_t>(x->shape[0]) * ensemble.roots.size() * 8);
  return y;
}

/// A single score stays as it is, but for PROBIT: so does ONNX Runtime.
Value *transformedSum(Lowering &l, Value *y, std::string_view transform) {
  return y->shape[1] == 1 && transform != "PROBIT" ? y : transformed(l, y, transform);
}

Status regressor(Lowering &l) {
  constexpr std::string_view Aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  Ensemble ensemble;
  std::vector<double> base; // added to the sums of each row: one for all targets, or one for each
  if (!readLists(l, "target", ensemble) || !numbers(l, "base_values", base, ensemble.isDouble))
    return l.status();
  const std::string_view aggregate = l.text("aggregate_function", "SUM");
  const auto *at = std::find(std::begin(Aggregates), std::end(Aggregates), aggregate);
  if (at == std::end(Aggregates))
    return l.invalid("its aggregate_function is '", aggregate, "'");
  ensemble.aggregate = static_cast<TreeAggregate>(at - std::begin(Aggregates));
  ensemble.targets = l.integer("n_targets", 1);
  Value *y = evaluated(l, l.in(0), ensemble);
  y = transformedSum(l, plus(l, y, base), l.text("post_transform", "NONE"));
  return l.give(cast(l, y, ElementType::Float32));
}

Status ensemble(Lowering &l) {
  constexpr std::string_view Transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                             "PROBIT"};
  Ensemble ensemble;
  if (!readTensors(l, ensemble))
    return l.status();
  const int64_t transform = l.integer("post_transform", 0);
  if (transform < 0 || transform >= static_cast<int64_t>(std::size(Transforms)))
    return l.invalid("its post_transform is ", transform);
  Value *y = evaluated(l, l.in(0), ensemble);
  y = transformedSum(l, y, Transforms[transform]);
  return l.give(cast(l, y, l.in(0)->type));
}

Status classifier(Lowering &l) {
  Ensemble ensemble;
  std::vector<double> base;
  Labels labels;
  if (!readLists(l, "class", ensemble) || !numbers(l, "base_values", base, ensemble.isDouble) ||
      !labels.read(l, "classlabels_int64s"))
    return l.status();
  std::set<int64_t> scored;
  bool isPositive = true;
  for (const Entry &entry : ensemble.entries) {
    scored.insert(entry.target);
    isPositive &= entry.weight >= 0;
  }
  const std::string_view transform = l.text("post_transform", "NONE");
  ensemble.targets = labels.count();
  const bool isBinary = labels.count() == 2;
  if (isBinary && base.size() == 1)
    base.push_back(0);
  if (!isBinary || scored.size() != 1)
    return labels.give(l, plus(l, evaluated(l, l.in(0), ensemble), base), transform);
  // Two classes of which only one has scores, as ONNX Runtime takes that.
  const bool isFirst = *scored.begin() == 0, hasBoth = base.size() == 2 && base[1] != 0;
  for (Entry &entry : ensemble.entries)
    entry.target = 0;
  ensemble.targets = 1;
  Value *y = evaluated(l, l.in(0), ensemble);
  if (!base.empty())
    y = plus(l, y, {isFirst ? base[0] : base[1]});
  if (isFirst && !hasBoth)
    return labels.giveBinary(l, y, isPositive ? 0.5 : 0, isPositive, transform);
  Value *none = fill(l, y->type, y->shape, l.constantReal(y->type, 0));
  labels.giveLabels(l, isAbove(l, y, isPositive ? 0.5 : 0));
  return labels.giveScores(l, isFirst ? beside(l, y, none) : beside(l, none, y), transform);
}

#define MLBRIDGE_NODE_LISTS                                                                        \
  "nodes_falsenodeids nodes_featureids nodes_hitrates nodes_hitrates_as_tensor "                   \
  "nodes_missing_value_tracks_true nodes_modes nodes_nodeids nodes_treeids nodes_truenodeids "     \
  "nodes_values nodes_values_as_tensor base_values base_values_as_tensor post_transform "
constexpr Operator Table[] = {
    {"TreeEnsemble", 5, "T", Reals, 1, true, ensemble,
     "aggregate_function leaf_targetids leaf_weights membership_values n_targets "
     "nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_hitrates "
     "nodes_missing_value_tracks_true nodes_modes nodes_splits nodes_trueleafs nodes_truenodeids "
     "post_transform tree_roots"},
    {"TreeEnsembleClassifier", 1, "T", Real32 | Real64 | Ints, 2, false, classifier,
     MLBRIDGE_NODE_LISTS "class_ids class_nodeids class_treeids class_weights "
                         "class_weights_as_tensor classlabels_int64s classlabels_strings"},
    {"TreeEnsembleRegressor", 1, "T", Real32 | Real64 | Ints, 1, false, regressor,
     MLBRIDGE_NODE_LISTS "target_ids target_nodeids target_treeids target_weights "
                         "target_weights_as_tensor aggregate_function n_targets"},
};
#undef MLBRIDGE_NODE_LISTS

} // namespace

const Span<const Operator> TreeOperators = Table;

} // namespace mlbridge::native
