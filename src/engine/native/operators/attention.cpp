// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of Transformers. Attention is a product, a softmax and another product. Heads are found
// by their strides, so that nothing is transposed.
#include "engine/native/operators/common.h"

#include "engine/native/kernels/sizes.h"

#include <array>
#include <cmath>

namespace mlbridge::native {
namespace {

/// Elements between batch entries, groups of heads that share a head of keys, and their heads.
using Apart = std::array<int64_t, 3>;

/// Where the elements of [batch, heads, length, size] lie.
struct Heads {
  Value *value = nullptr;
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  int64_t ofBatch = 0, ofHead = 0, ofRow = 0; ///< elements between neighbours

  Apart apart(int64_t group) const { return {ofBatch, group * ofHead, ofHead}; }
};

Heads flatHeads(Value *x, int64_t heads) {
  const int64_t length = x->shape[1], hidden = x->shape[2], size = hidden / heads;
  return {x, x->shape[0], heads, length, size, length * hidden, size, hidden};
}
Heads denseHeads(Value *x) {
  const int64_t length = x->shape[2], size = x->shape[3];
  return {x,   x->shape[0], x->shape[1], length, size, x->shape[1] * length * size, length * size,
          size};
}

/// From [batch, heads, length, size] or [batch, length, heads · size].
bool readHeads(Lowering &l, Value *x, const char *attribute, Heads &out) {
  const bool isFlat = x->rank() == 3;
  if (!isFlat && x->rank() != 4)
    return l.invalid("it takes tensors of 3 or 4 dimensions, not ", toString(x->shape));
  const int64_t heads = l.integer(attribute, isFlat ? 0 : x->shape[1]);
  if (heads < 1 || (isFlat ? x->shape[2] % heads != 0 : x->shape[1] != heads))
    return l.invalid("its attribute '", attribute, "' is ", heads, " for an input of shape ",
                     toString(x->shape));
  out = isFlat ? flatHeads(x, heads) : denseHeads(x);
  return bool(l.status());
}

/// All of them as [batch, heads, length, size].
Value *unfolded(Lowering &l, const Heads &x) {
  if (x.value->rank() == 4)
    return x.value;
  return transpose(l, l.view(x.value, {x.batch, x.length, x.heads, x.size}), {0, 2, 1, 3});
}

/// The matrix of each head, [length, size] or transposed, as Gemm takes it.
Value *packHeads(Lowering &l, const Heads &x, bool isTransposed) {
  const int64_t k = isTransposed ? x.size : x.length, n = isTransposed ? x.length : x.size;
  const int64_t lanes = 64 / width(x.value), each = packedSize(x.value, k, n);
  const bool isDense = x.ofBatch == x.heads * x.ofHead;
  if (!isTransposed && x.ofRow == n && n % lanes == 0 && n <= PanelsOfBlock * lanes &&
      !packedByColumns(k, n))
    return x.value; // as it lies
  Value *packed = l.make(x.value->type, {x.batch, x.heads, each});
  const int64_t calls = isDense ? 1 : x.batch, matrices = isDense ? x.batch * x.heads : x.heads;
  const auto at = [&](Value *value, int64_t elements) {
    return l.view(value, {}, static_cast<uint64_t>(elements * width(value)));
  };
  for (int64_t i = 0; i < calls && l.status(); ++i)
    l.emit(pick(KernelId::PackGemmF32, x.value->type), {at(packed, i * x.heads * each)},
           {at(x.value, i * x.ofBatch)},
           {k, n, isTransposed ? 1 : x.ofRow, isTransposed ? x.ofRow : 1, matrices, x.ofHead});
  return packed;
}

/// A product of matrices for each head: of [m, k] and [k, n].
struct Product {
  int64_t m, k, n;
  std::array<int64_t, 3> heads; ///< batch, heads of keys, heads that share one
  Value *y;
  int64_t yRow;
  Apart yApart;
  Value *a;
  int64_t aRow;
  Apart aApart;
  Value *b; ///< packed
  Apart bApart;
  Value *c = nullptr;
  int64_t cRow = 0, cColumn = 0;
  Apart cApart = {};
  double alpha = 1;
  Activation activation = Activation::None;
};

void multiply(Lowering &l, const Product &p) {
  Integers parameters{
      p.m,    p.k,    p.n,       p.aRow,
      0, // packed
      p.yRow, p.cRow, p.cColumn, real(p.alpha), real(p.c ? 1 : 0), number(p.activation), 0, 0, 3};
  for (size_t i = 0; i < 3; ++i)
    parameters.insert(parameters.end(),
                      {p.heads[i], p.aApart[i], p.bApart[i], p.cApart[i], p.yApart[i]});
  l.emit(pick(KernelId::GemmF32, p.y->type), {p.y}, {p.a, p.b, p.c}, parameters);
  l.planner.countMultiplyAdds(
      static_cast<uint64_t>(p.m * p.k * p.n * p.heads[0] * p.heads[1] * p.heads[2]));
}

Value *minusInfinity(Lowering &l, ElementType type) { return l.constantReal(type, -HUGE_VAL); }

/// What is added to the scores, [batch or 1, heads or 1, queries, keys], and where it is −infinity
/// for all keys of a query.
struct Bias {
  Value *added = nullptr, *isEmpty = nullptr;
};

/// The window of keys around that of a query, which is the row's number plus `offset`, or the last
/// ones of `lengths` if there are any: a number for each batch entry.
struct Window {
  int64_t offset = 0, left = -1, right = -1; ///< −1: no bound
  Value *lengths = nullptr;
};

bool readBias(Lowering &l, ElementType type, const Shape &scores, const Window &window,
              Bias &bias) {
  const int64_t queries = scores[2], keys = scores[3];
  Value *mask = l.in(3);
  if (window.left >= 0 || window.right >= 0 || window.lengths) {
    const int64_t batch = window.lengths ? scores[0] : 1;
    const auto bound = [](int64_t given) { return given < 0 ? INT64_MAX : given; };
    bias.added = l.make(type, {batch, 1, queries, keys});
    l.emit(
        KernelId::AttentionWindow, {bias.added}, {window.lengths},
        {code(type), batch, queries, keys, window.offset, bound(window.left), bound(window.right)});
  }
  if (mask) {
    if (mask->rank() == 0 || mask->rank() > 4 || mask->shape.back() > keys)
      return l.invalid("a mask of shape ", toString(mask->shape), " for scores of ",
                       toString(scores));
    if (mask->type == ElementType::Bool)
      mask = where(l, mask, l.constantReal(type, 0), minusInfinity(l, type));
    else if (mask->type != type)
      return l.unsupported("a mask of ", name(mask->type), " for scores of ", name(type));
    if (mask->shape.back() < keys) { // those that it leaves out are masked
      Shape shape = mask->shape;
      shape.back() = keys;
      Value *whole = fill(l, type, shape, minusInfinity(l, type));
      place(l, whole, mask, Integers(shape.size()));
      mask = whole;
    }
    Shape shape(4 - mask->rank(), 1);
    shape.insert(shape.end(), mask->shape.begin(), mask->shape.end());
    for (size_t i = 0; i < 4; ++i)
      if (shape[i] != 1 && shape[i] != scores[i])
        return l.invalid("a mask of shape ", toString(l.in(3)->shape), " for scores of ",
                         toString(scores));
    mask = l.view(mask, shape);
    bias.added = bias.added ? binary(l, KernelId::AddF32, bias.added, mask) : mask;
  }
  if (!bias.added || !l.status())
    return bool(l.status());
  Value *greatest = reduce(l, KernelId::ReduceMaxF32, ReduceOp::Max, bias.added, {3}, true);
  bias.isEmpty = compare(l, CompareOp::Equal, greatest, minusInfinity(l, type));
  l.planner.foldNode();
  if (bias.isEmpty->isConstant() && l.status()) {
    const uint8_t *bytes = bias.isEmpty->constantBytes();
    if (std::none_of(bytes, bytes + bias.isEmpty->count, [](uint8_t byte) { return byte != 0; }))
      bias.isEmpty = nullptr;
  }
  return bool(l.status());
}

/// The type in which the softmax is computed; nothing on failure.
std::optional<ElementType> softmaxType(Lowering &l, ElementType fallback) {
  const int64_t wanted = l.integer("softmax_precision", 0);
  if (!wanted)
    return fallback;
  const auto type = onnx::elementType(static_cast<onnx::DataType>(wanted));
  if (type && isIn(*type, Reals))
    return type;
  l.unsupported("a softmax in ", onnx::name(static_cast<onnx::DataType>(wanted)));
  return std::nullopt;
}

/// The graph of an attribute applied to x; x itself without it.
Value *modified(Lowering &l, const char *attribute, Value *x) {
  const onnx::Attribute *given = l.attribute(attribute);
  if (!given || !given->graph)
    return x;
  const Expected<Values> results = l.planner.planGraph(*given->graph, {x});
  if (!results)
    return x;
  Value *y = results->size() == 1 ? results->front() : nullptr;
  if (!y || y->isUnknown || y->type != x->type || y->shape != x->shape) {
    l.invalid("the graph '", attribute, "' changes the type or shape of ", toString(x->shape));
    return x;
  }
  return y;
}

/// The softmax of the scores in another type, rounded to it.
Value *probabilities(Lowering &l, Value *scores, ElementType type, bool isModified) {
  const ElementType own = scores->type;
  const bool isHalf = type == ElementType::Float16;
  Value *x = cast(l, scores, type);
  if (isModified)
    x = modified(l, "score_mod", x);
  if (isHalf)
    x = cast(l, x, ElementType::Float32);
  Value *y = l.make(x->type, x->shape);
  const int64_t keys = x->shape.back();
  l.emit(pick(KernelId::SoftmaxF32, x->type), {y}, {x}, {keys ? count(x) / keys : 0, keys, 1});
  y = isHalf ? cast(l, y, type) : y;
  if (isModified)
    y = modified(l, "prob_mod", y);
  return cast(l, y, own);
}

struct Attention {
  Heads q, k, v;
  double scale = 1, cap = 0;
  Bias bias;
  int64_t mode = 0; ///< which scores are asked for
  bool isModified = false;
};

/// The result as q lies, and the scores that are asked for.
std::pair<Value *, Value *> attend(Lowering &l, const Attention &a, ElementType precision) {
  const Heads &q = a.q, &k = a.k, &v = a.v;
  const ElementType type = q.value->type;
  const int64_t group = q.heads / k.heads, queries = q.length, keys = k.length;
  const std::array<int64_t, 3> heads{q.batch, k.heads, group};
  Value *scores = l.make(type, {q.batch, q.heads, queries, keys});
  if (!l.status())
    return {scores, scores};
  const Heads all = denseHeads(scores);
  Value *added = a.bias.added;
  Apart addedApart{};
  if (added) {
    Heads bias = denseHeads(added);
    if (bias.batch == 1)
      bias.ofBatch = 0;
    if (bias.heads == 1)
      bias.ofHead = 0;
    addedApart = bias.apart(group);
  }
  const int64_t addedRow = added && added->shape[2] != 1 ? added->shape[3] : 0;
  const int64_t addedColumn = added && added->shape[3] != 1;
  // A bias may be added by the product if nobody asks for what is without it.
  const bool capped = a.cap > 0, fuses = added && !capped && (!l.wants(3) || a.mode > 1);
  Value *fused = fuses ? added : nullptr;
  const double alpha = capped ? a.scale / a.cap : a.scale;
  const bool isRawAsked = l.wants(3) && a.mode == 0;
  const Activation activation = capped && !isRawAsked ? Activation::Tanh : Activation::None;
  if (queries == 1 && packedByColumns(q.size, 1)) { // keys times one query: they need no packing
    const int64_t each = packedSize(q.value, q.size, 1);
    multiply(l, {keys,
                 q.size,
                 1,
                 heads,
                 scores,
                 1,
                 all.apart(group),
                 k.value,
                 k.ofRow,
                 {k.ofBatch, k.ofHead, 0},
                 packHeads(l, q, true),
                 {q.heads * each, group * each, each},
                 fused,
                 addedColumn,
                 0,
                 addedApart,
                 alpha,
                 activation});
  } else {
    const int64_t each = packedSize(k.value, k.size, keys);
    multiply(l, {queries,
                 q.size,
                 keys,
                 heads,
                 scores,
                 keys,
                 all.apart(group),
                 q.value,
                 q.ofRow,
                 q.apart(group),
                 packHeads(l, k, true),
                 {k.heads * each, each, 0},
                 fused,
                 addedRow,
                 addedColumn,
                 addedApart,
                 alpha,
                 activation});
  }
  Value *asked = scores;
  if (capped) {
    Value *raw = scores;
    if (isRawAsked)
      scores = unary(l, KernelId::TanhF32, scores);
    scores = unary(l, KernelId::AffineF32, scores, a.cap, 0);
    asked = isRawAsked ? unary(l, KernelId::AffineF32, raw, a.cap, 0) : scores;
  }
  if (added && !fuses)
    scores = binary(l, KernelId::AddF32, scores, added);
  if (a.mode == 2)
    asked = scores;
  Value *p = probabilities(l, scores, precision, a.isModified);
  if (a.mode == 3)
    asked = a.bias.isEmpty ? where(l, a.bias.isEmpty, l.constantReal(type, 0), p) : p;

  const bool isFlat = q.value->rank() == 3;
  const int64_t hidden = q.heads * v.size;
  Value *y = l.make(type, isFlat ? Shape{q.batch, queries, hidden}
                                 : Shape{q.batch, q.heads, queries, v.size});
  const Heads out = isFlat ? flatHeads(y, q.heads) : denseHeads(y);
  // A value that is used as it lies has another distance between heads than a packed one.
  Value *packed = packHeads(l, v, false);
  const int64_t each = packed == v.value ? v.ofHead : packedSize(v.value, keys, v.size);
  const int64_t ofBatch = packed == v.value ? v.ofBatch : v.heads * each;
  multiply(l, {queries,
               keys,
               v.size,
               heads,
               y,
               out.ofRow,
               out.apart(group),
               p,
               keys,
               all.apart(group),
               packed,
               {ofBatch, each, 0}});
  if (Value *isEmpty = a.bias.isEmpty) {
    Value *rows = isFlat ? l.view(y, {q.batch, queries, q.heads, v.size}) : y;
    isEmpty = isFlat ? transpose(l, isEmpty, {0, 2, 1, 3}) : isEmpty;
    y = l.view(where(l, isEmpty, l.constantReal(type, 0), rows), y->shape);
  }
  return {y, asked};
}

bool checkHeads(Lowering &l, const Attention &a) {
  const auto shape = [](const Heads &x) { return toString(x.value->shape); };
  if (a.k.heads < 1 || a.q.heads % a.k.heads || a.v.heads != a.k.heads)
    return l.invalid(a.q.heads, " heads of queries don't go with ", a.k.heads, " of keys and ",
                     a.v.heads, " of values");
  if (a.q.batch != a.k.batch || a.k.batch != a.v.batch || a.q.size != a.k.size ||
      a.k.length != a.v.length || a.q.value->rank() != a.k.value->rank() ||
      a.k.value->rank() != a.v.value->rank())
    return l.invalid("queries ", shape(a.q), ", keys ", shape(a.k), " and values ", shape(a.v),
                     " don't fit each other");
  return true;
}

double scaleOf(Lowering &l, const Heads &q) {
  return l.real("scale", 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size, 1))));
}

/// Keys or values after those of the past.
bool append(Lowering &l, Value *past, Heads &x) {
  if (!past)
    return true;
  Shape shape{x.batch, x.heads, past->rank() == 4 ? past->shape[2] : 0, x.size};
  if (past->shape != shape)
    return l.invalid("past keys or values are ", toString(past->shape), " instead of [", x.batch,
                     ", ", x.heads, ", any, ", x.size, "]");
  shape[2] += x.length;
  Value *all = l.make(x.value->type, shape);
  if (!l.status())
    return false;
  place(l, all, past, {0, 0, 0, 0});
  place(l, all, unfolded(l, x), {0, 0, past->shape[2], 0});
  x = denseHeads(all);
  return true;
}

Status attention(Lowering &l) {
  Attention a;
  if (!readHeads(l, l.in(0), "q_num_heads", a.q) || !readHeads(l, l.in(1), "kv_num_heads", a.k) ||
      !readHeads(l, l.in(2), "kv_num_heads", a.v) || !checkHeads(l, a))
    return l.status();
  Value *pastKey = l.in(4), *pastValue = l.in(5), *lengths = l.in(6);
  if (!pastKey != !pastValue || (pastKey && lengths))
    return l.invalid("past keys, past values and lengths don't go together like this");
  if (lengths && lengths->shape != Shape{a.q.batch})
    return l.invalid("lengths of shape ", toString(lengths->shape), " for a batch of ", a.q.batch);
  a.scale = scaleOf(l, a.q);
  a.cap = l.real("softcap", 0);
  a.mode = l.integer("qk_matmul_output_mode", 0);
  Window window{0, l.integer("left_window_size", -1), l.integer("right_window_size", -1), lengths};
  if (!(a.scale > 0) || a.mode < 0 || a.mode > 3 || window.left < -1 || window.right < -1)
    return l.invalid("scale ", a.scale, ", qk_matmul_output_mode ", a.mode, ", left_window_size ",
                     window.left, " or right_window_size ", window.right, " is out of range");
  if (l.integer("is_causal", 0) != 0)
    window.right = 0;
  const ElementType type = a.q.value->type;
  const int64_t past = pastKey && pastKey->rank() == 4 ? pastKey->shape[2] : 0;
  if ((past | a.k.length) >> 48)
    return l.invalid("it has too many keys");
  window.offset = past;
  const Shape scores{a.q.batch, a.q.heads, a.q.length, past + a.k.length};
  const std::optional<ElementType> precision = softmaxType(l, type);
  if (!precision || !l.status() || !readBias(l, type, scores, window, a.bias) ||
      !append(l, pastKey, a.k) || !append(l, pastValue, a.v))
    return l.status();
  if (a.v.length != a.k.length)
    return l.invalid("past keys and values have different lengths");
  const auto [y, asked] = attend(l, a, *precision);
  l.setResult(0, y);
  if (l.wants(1))
    l.setResult(1, unfolded(l, a.k));
  if (l.wants(2))
    l.setResult(2, unfolded(l, a.v));
  if (l.wants(3))
    l.setResult(3, asked);
  return l.status();
}

/// A graph may change the scores and the probabilities.
Status flexAttention(Lowering &l) {
  Attention a;
  a.isModified = true;
  for (size_t i = 0; i < 3; ++i)
    if (l.in(i)->rank() != 4)
      return l.invalid("it takes tensors of 4 dimensions, not ", toString(l.in(i)->shape));
  a.q = denseHeads(l.in(0)), a.k = denseHeads(l.in(1)), a.v = denseHeads(l.in(2));
  const std::optional<ElementType> precision = softmaxType(l, a.q.value->type);
  if (!precision || !checkHeads(l, a))
    return l.status();
  a.scale = scaleOf(l, a.q);
  return l.give(attend(l, a, *precision).first);
}

/// A state for each head, to which each key adds its value.
Status linearAttention(Lowering &l) {
  Heads q, k, v;
  Value *past = l.in(3), *decay = l.in(4), *beta = l.in(5);
  if (!readHeads(l, l.in(0), "q_num_heads", q) || !readHeads(l, l.in(1), "kv_num_heads", k) ||
      !readHeads(l, l.in(2), "kv_num_heads", v))
    return l.status();
  const Shape state{q.batch, k.heads, k.size, v.size};
  const auto isFor = [&](const Value *x, int64_t least, int64_t most) {
    return x->rank() == 3 && x->shape[0] == q.batch && x->shape[1] == q.length &&
           (x->shape[2] == least || x->shape[2] == most);
  };
  if (q.value->rank() != 3 || !isFor(k.value, k.heads * q.size, -1) ||
      !isFor(v.value, v.heads * v.size, -1) || q.heads % k.heads ||
      (past && past->shape != state) || (decay && !isFor(decay, k.heads, k.heads * k.size)) ||
      (beta && !isFor(beta, 1, k.heads)))
    return l.invalid("its inputs don't fit queries ", toString(q.value->shape), " of ", q.heads,
                     " heads, ", k.heads, " of keys, and values ", toString(v.value->shape));
  const std::string_view rule = l.text("update_rule", "gated_delta");
  const bool isGated = rule == "gated" || rule == "gated_delta";
  const bool isDelta = rule == "delta" || rule == "gated_delta";
  if ((!isGated && !isDelta && rule != "linear") || isGated != (decay != nullptr) ||
      isDelta != (beta != nullptr))
    return l.invalid("its attribute 'update_rule' is '", rule,
                     "', which doesn't go with its inputs");
  double scale = l.real("scale", 0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size, 1)));
  Value *y = l.output(0, q.value->type, {q.batch, q.length, q.heads * v.size});
  Value *present =
      past ? copy(l, past) : fill(l, q.value->type, state, l.constantReal(q.value->type, 0));
  l.setResult(1, present);
  if (decay)
    decay = unary(l, KernelId::ExpF32, decay);
  const auto isPerHead = [](const Value *x, int64_t heads) { return x && x->shape[2] == heads; };
  l.emit(KernelId::LinearAttention, {y, present, l.make(q.value->type, {v.size})},
         {q.value, k.value, v.value, decay, beta},
         {q.batch, q.length, q.heads, k.heads, k.size, v.size, decay && !isPerHead(decay, k.heads),
          isPerHead(beta, k.heads), real(scale)});
  l.planner.countMultiplyAdds(elementCount(state).value_or(0) *
                              static_cast<uint64_t>(q.length * (2 + q.heads / k.heads)));
  return l.status();
}

/// Writes x into y, along the last dimension from `start` on, `step` apart.
void placeApart(Lowering &l, Value *y, Value *x, int64_t start, int64_t step) {
  Integers strides = denseStrides(y->shape);
  strides.back() *= step;
  if (x->count)
    l.emit(KernelId::CopyStrided, {y}, {x},
           joined({width(x), start, 0}, mergedLoops(x->shape, {strides, denseStrides(x->shape)})));
}

Status rotaryEmbedding(Lowering &l) {
  Heads x;
  if (!readHeads(l, l.in(0), "num_heads", x))
    return l.status();
  Value *positions = l.in(3);
  const int64_t given = l.integer("rotary_embedding_dim", 0), rotated = given ? given : x.size;
  const int64_t half = rotated / 2;
  if (rotated < 0 || rotated > x.size || rotated % 2)
    return l.invalid("it can't rotate ", rotated, " of ", x.size, " elements");
  const bool isFlat = x.value->rank() == 3, isInterleaved = l.integer("interleaved", 0) != 0;
  if (positions && positions->shape != Shape{x.batch, x.length})
    return l.invalid("positions ", toString(positions->shape), " for ", toString(x.value->shape));
  const auto angles = [&](Value *table) {
    if (table->shape != (positions ? Shape{table->rank() ? table->shape[0] : 0, half}
                                   : Shape{x.batch, x.length, half})) {
      l.invalid("a cache of shape ", toString(table->shape), " for ", toString(x.value->shape),
                " of which ", rotated, " elements are rotated");
      return table;
    }
    const Shape shape =
        isFlat ? Shape{x.batch, x.length, 1, half} : Shape{x.batch, 1, x.length, half};
    if (!positions)
      return l.view(table, shape);
    Value *y = l.make(table->type, shape);
    l.emit(KernelId::Gather, {y}, {table, positions, l.fault()},
           {1, table->shape[0], half * width(table), count(positions)});
    return y;
  };
  Value *cosine = angles(l.in(1)), *sine = angles(l.in(2));
  if (!l.status())
    return l.status();
  Value *all = isFlat ? l.view(x.value, {x.batch, x.length, x.heads, x.size}) : x.value;
  const int64_t step = isInterleaved ? 2 : 1, second = isInterleaved ? 1 : half;
  const auto part = [&](int64_t start, int64_t length, int64_t by) {
    Shape lengths = all->shape;
    lengths.back() = length;
    return slice(l, all, lengths, {0, 0, 0, start}, {1, 1, 1, by});
  };
  const auto times = [&](Value *a, Value *b) { return binary(l, KernelId::MulF32, a, b); };
  Value *a = part(0, half, step), *b = part(second, half, step);
  Value *y = l.make(all->type, all->shape);
  placeApart(l, y, binary(l, KernelId::SubF32, times(a, cosine), times(b, sine)), 0, step);
  placeApart(l, y, binary(l, KernelId::AddF32, times(a, sine), times(b, cosine)), second, step);
  if (rotated < x.size)
    placeApart(l, y, part(rotated, x.size - rotated, 1), rotated, 1);
  return l.give(l.view(y, x.value->shape));
}

Status swiGlu(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1);
  if (a->shape != b->shape)
    return l.invalid("a gate of shape ", toString(a->shape), " for ", toString(b->shape));
  return l.give(
      binary(l, KernelId::MulF32, unary(l, KernelId::SwishF32, a, l.real("alpha", 1)), b));
}

/// 0, 1, …, n - 1
Value *numbers(Lowering &l, int64_t n, const Shape &shape) {
  Value *y = l.make(ElementType::Int64, {n});
  l.emit(KernelId::Range, {y}, {l.constantOf<int64_t>({}, {0}), l.constantOf<int64_t>({}, {1})},
         {code(y->type), n});
  return l.view(y, shape);
}

/// Writes entries into a cache, from an index on that each batch entry has.
Status tensorScatter(Lowering &l) {
  Value *cache = l.in(0), *update = l.in(1), *starts = l.in(2);
  int64_t axis = l.integer("axis", -2);
  const std::string_view mode = l.text("mode", "linear");
  if (!l.axis(axis, cache->rank()))
    return l.status();
  if (axis == 0 || (mode != "linear" && mode != "circular"))
    return l.invalid("axis ", axis, " or mode '", mode, "' is none of the operator's");
  const Along at(cache, axis);
  Shape wanted = cache->shape;
  const int64_t batch = wanted[0];
  if (update->rank() == cache->rank())
    wanted[at.axis] = std::min(at.n, update->shape[at.axis]);
  if (update->shape != wanted || (starts && starts->shape != Shape{batch}))
    return l.invalid("an update of ", toString(update->shape), " for a cache of ",
                     toString(cache->shape), ", or not one index for each batch entry");
  Value *y = copy(l, cache);
  if (update->count == 0)
    return l.give(y);
  const int64_t steps = wanted[at.axis], prefixes = at.outer / batch;
  Value *entry = numbers(l, steps, {1, 1, steps, 1});
  if (starts)
    entry = integerBinary(l, IntegerOp::Add, l.view(starts, {batch, 1, 1, 1}), entry);
  if (mode == "circular")
    entry = integerBinary(l, IntegerOp::Mod, entry, l.constantOf<int64_t>({}, {at.n}));
  const Shape each{batch, prefixes, steps, 1};
  Value *indices = l.make(ElementType::Int64, {batch, prefixes, steps, 2});
  place(l, indices, expand(l, numbers(l, at.outer, {batch, prefixes, 1, 1}), each), {0, 0, 0, 0});
  place(l, indices, expand(l, entry, each), {0, 0, 0, 1});
  l.emit(KernelId::ScatterNd, {y}, {update, indices, l.fault()},
         {code(y->type), number(ScatterOp::None), at.outer * steps, at.inner, 2, at.outer,
          at.n * at.inner, at.n, at.inner});
  return l.give(y);
}

#define MLBRIDGE_ATTENTION                                                                         \
  "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"
constexpr Operator Table[] = {
    {"Attention", 23, "TTTatt", Reals, 4, true, attention, MLBRIDGE_ATTENTION},
    {"Attention", 24, "TTTattl", Reals, 4, true, attention, MLBRIDGE_ATTENTION},
    {"Attention", 25, "TTTattl", Reals, 4, true, attention,
     MLBRIDGE_ATTENTION " left_window_size right_window_size"},
    {"LinearAttention", 27, "TTTttt", Real16 | Real32, 2, true, linearAttention,
     "chunk_size kv_num_heads q_num_heads scale update_rule"},
    {"RotaryEmbedding", 23, "TTTl", Reals, 1, true, rotaryEmbedding,
     "interleaved num_heads rotary_embedding_dim"},
    {"SwiGLU", 28, "TT", Reals, 1, true, swiGlu, "alpha"},
    {"TensorScatter", 24, "TTl", Fixed, 1, false, tensorScatter, "axis mode"},
};
constexpr Operator PreviewTable[] = {
    {"FlexAttention", 1, "TTT", Reals, 1, true, flexAttention,
     "prob_mod scale score_mod softmax_precision"},
};

} // namespace

const Span<const Operator> AttentionOperators = Table, PreviewOperators = PreviewTable;

} // namespace mlbridge::native
