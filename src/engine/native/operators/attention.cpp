// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of Transformers. Attention is a product, a softmax and another product. Heads are found
// by their strides, so that nothing is transposed.
#include "engine/native/operators/common.h"

#include "engine/native/kernels/sizes.h"

#include <array>
#include <cmath>

namespace mlbridge::native {
namespace {

/// Elements between batch entries, between groups of heads that share a head of keys, and in them.
using Apart = std::array<int64_t, 3>;

/// Where the elements of [batch, heads, length, size] lie.
struct Heads {
  Value *value = nullptr;
  int64_t batch = 0, heads = 0, length = 0, size = 0;
  int64_t ofBatch = 0, ofHead = 0, ofRow = 0; ///< elements between neighbours

  Apart apart(int64_t group) const { return {ofBatch, group * ofHead, ofHead}; }
};

/// [batch, length, heads · size]
Heads flatHeads(Value *x, int64_t heads) {
  const int64_t length = x->shape[1], hidden = x->shape[2], size = hidden / heads;
  return {x, x->shape[0], heads, length, size, length * hidden, size, hidden};
}
/// [batch, heads, length, size]
Heads denseHeads(Value *x) {
  const int64_t length = x->shape[2], size = x->shape[3];
  return {x,   x->shape[0], x->shape[1], length, size, x->shape[1] * length * size, length * size,
          size};
}

/// Input i as either of them.
bool readHeads(Lowering &l, size_t i, const char *attribute, Heads &out) {
  Value *x = l.in(i);
  const bool isFlat = x->rank() == 3;
  if (!isFlat && x->rank() != 4)
    return misfit(l, "[batch, length, hidden] or [batch, heads, length, size]");
  const int64_t heads = l.integer(attribute, isFlat ? 0 : x->shape[1]);
  if (heads < 1 || (isFlat ? x->shape[2] % heads != 0 : x->shape[1] != heads))
    return l.invalid("its attribute '", attribute, "' is ", heads, " for an input of shape ",
                     toString(x->shape));
  out = isFlat ? flatHeads(x, heads) : denseHeads(x);
  return bool(l.status());
}

Value *at(Lowering &l, Value *x, int64_t element) {
  return l.view(x, {}, static_cast<uint64_t>(element * width(x)));
}

/// The heads from `head` on, of one batch entry.
Heads part(Lowering &l, const Heads &x, int64_t entry, int64_t head, int64_t heads) {
  Heads y = x;
  y.value = at(l, x.value, entry * x.ofBatch + head * x.ofHead);
  y.batch = 1;
  y.heads = heads;
  return y;
}

/// All of them as [batch, heads, length, size].
Value *unfolded(Lowering &l, const Heads &x) {
  if (x.value->rank() == 4)
    return x.value;
  return transpose(l, l.view(x.value, {x.batch, x.length, x.heads, x.size}), {0, 2, 1, 3});
}

/// The matrix of each head, [length, size] or transposed, as Gemm takes it: the elements between
/// batch entries and heads are those of the result.
Heads packHeads(Lowering &l, const Heads &x, bool isTransposed) {
  const int64_t k = isTransposed ? x.size : x.length, n = isTransposed ? x.length : x.size;
  const int64_t lanes = 64 / width(x.value), each = packedSize(x.value, k, n);
  if (!isTransposed && x.ofRow == n && n % lanes == 0 && n <= PanelsOfBlock * lanes &&
      !packedByColumns(k, n))
    return x; // as it lies
  Value *packed = l.make(x.value->type, {x.batch, x.heads, each});
  // Batch entries may be further apart than their heads.
  for (int64_t i = 0; i < x.batch && l.status(); ++i)
    l.emit(pick(KernelId::PackGemmF32, x.value->type), {at(l, packed, i * x.heads * each)},
           {at(l, x.value, i * x.ofBatch)},
           {k, n, isTransposed ? 1 : x.ofRow, isTransposed ? x.ofRow : 1, x.heads, x.ofHead});
  return {packed, x.batch, x.heads, k, n, x.heads * each, each, 0};
}

/// A product of matrices for each head: of [m, k] and [k, n].
struct Product {
  int64_t m, k, n;
  Apart heads; ///< batch, heads of keys, heads that share one
  Value *y;
  int64_t yRow;
  Apart yApart;
  Value *a;
  int64_t aRow;
  Apart aApart;
  Value *b; ///< packed
  Apart bApart;
  double alpha = 1;
  Activation activation = Activation::None;
  Value *c = nullptr;
  int64_t cRow = 0, cColumn = 0;
  Apart cApart = {};
};

void multiply(Lowering &l, const Product &p) {
  Integers parameters{
      p.m,    p.k,    p.n,       p.aRow,
      0, // packed
      p.yRow, p.cRow, p.cColumn, real(p.alpha), real(p.c ? 1 : 0), number(p.activation), 0, 0, 3};
  for (size_t i = 0; i < 3; ++i)
    parameters.insert(parameters.end(),
                      {p.heads[i], p.aApart[i], p.bApart[i], p.cApart[i], p.yApart[i]});
  l.emit(pick(KernelId::GemmF32, p.y->type), Values{p.y}, {p.a, p.b, p.c}, parameters);
  uint64_t work = 1;
  for (const int64_t length : {p.m, p.k, p.n, p.heads[0], p.heads[1], p.heads[2]})
    work *= static_cast<uint64_t>(length);
  l.planner.countMultiplyAdds(work);
}

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
  const int64_t keys = scores[3];
  Value *mask = l.in(3), *none = l.constantReal(type, -HUGE_VAL);
  if (window.left >= 0 || window.right >= 0 || window.lengths) {
    const int64_t batch = window.lengths ? scores[0] : 1;
    const auto bound = [](int64_t given) { return given < 0 ? INT64_MAX : given; };
    bias.added = l.make(type, {batch, 1, scores[2], keys});
    l.emit(KernelId::AttentionWindow, {bias.added}, {window.lengths},
           {code(type), batch, scores[2], keys, window.offset, bound(window.left),
            bound(window.right)});
  }
  if (mask) {
    if (mask->type == ElementType::Bool)
      mask = unary(l, KernelId::LogF32, cast(l, mask, type)); // 0 or −infinity
    else if (mask->type != type)
      return l.unsupported("a mask of ", name(mask->type), " for scores of ", name(type));
    if (mask->rank() && mask->shape.back() < keys) { // those that it leaves out are masked
      Shape shape = mask->shape;
      shape.back() = keys;
      Value *whole = fill(l, type, shape, none);
      place(l, whole, mask, Integers(shape.size()));
      mask = whole;
    }
    Shape shape = mask->shape;
    if (shape.size() < 4)
      shape.insert(shape.begin(), 4 - shape.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i)
      if (i > 3 || mask->rank() == 0 || (shape[i] != 1 && shape[i] != scores[i]))
        return misfit(l, "a mask that can be broadcast to [batch, heads, queries, keys]");
    mask = l.view(mask, shape);
    bias.added = bias.added ? binary(l, KernelId::AddF32, bias.added, mask) : mask;
  }
  if (!bias.added || !l.status())
    return bool(l.status());
  Value *greatest = reduce(l, KernelId::ReduceMaxF32, ReduceOp::Max, bias.added, {3}, true);
  bias.isEmpty = compare(l, CompareOp::Equal, greatest, none);
  l.planner.foldNode();
  if (bias.isEmpty->isConstant() && l.status()) {
    const uint8_t *bytes = bias.isEmpty->constantBytes();
    if (std::find(bytes, bytes + bias.isEmpty->count, 1) == bytes + bias.isEmpty->count)
      bias.isEmpty = nullptr;
  }
  return bool(l.status());
}

/// The type in which the softmax is computed; nothing on failure.
std::optional<ElementType> softmaxType(Lowering &l, ElementType fallback) {
  const auto wanted = static_cast<onnx::DataType>(l.integer("softmax_precision", 0));
  if (wanted == onnx::DataType())
    return fallback;
  const auto type = onnx::elementType(wanted);
  if (type && isIn(*type, Reals))
    return type;
  l.unsupported("a softmax in ", onnx::name(wanted));
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
  if (y && !y->isUnknown && y->type == x->type && y->shape == x->shape)
    return y;
  l.invalid("the graph '", attribute, "' changes the type or shape of ", toString(x->shape));
  return x;
}

/// The softmax of the scores in another type, rounded to it.
Value *probabilities(Lowering &l, Value *scores, ElementType type, bool isModified) {
  const ElementType own = scores->type;
  const bool isNarrow = isHalf(type);
  Value *x = cast(l, scores, type);
  if (isModified)
    x = modified(l, "score_mod", x);
  if (isNarrow)
    x = cast(l, x, ElementType::Float32);
  Value *y = l.make(x->type, x->shape);
  const int64_t keys = x->shape.back();
  l.emit(pick(KernelId::SoftmaxF32, x->type), {y}, {x}, {keys ? count(x) / keys : 0, keys, 1});
  y = isNarrow ? cast(l, y, type) : y;
  if (isModified)
    y = modified(l, "prob_mod", y);
  return cast(l, y, own);
}

struct Attention {
  Heads q, k, v, y;
  Heads added; ///< the bias, or none
  double scale = 1, cap = 0;
  int64_t mode = 0; ///< which scores are asked for, if any are: output 3
  ElementType precision = ElementType::Float32;
  bool isModified = false;
};

/// Gives the scores that are asked for.
Value *attend(Lowering &l, const Attention &a) {
  const Heads &q = a.q, &k = a.k;
  const ElementType type = q.value->type;
  const int64_t group = q.heads / k.heads, queries = q.length, keys = k.length;
  const Apart counts{q.batch, k.heads, group};
  Value *scores = l.make(type, {q.batch, q.heads, queries, keys});
  if (!l.status())
    return scores;
  // The product applies the cap and the bias, unless what is without them is asked for.
  const bool isAsked = l.wants(3), isCapped = a.cap > 0;
  const bool isRawAsked = isAsked && a.mode == 0 && isCapped;
  const bool isFused = a.added.value && !isCapped && (!isAsked || a.mode > 1);
  // Keys times one query need no packing, the scores are a column: fast for whole steps of `dot`.
  const bool isOne = queries == 1 && q.size > 0 && q.size % (4 * lanesOf<float>()) == 0;
  const Heads &left = isOne ? k : q;
  const Heads packed = packHeads(l, isOne ? q : k, true);
  const Apart shared{packed.ofBatch, packed.ofHead, 0}, ofKeys{k.ofBatch, k.ofHead, 0};
  Product p{isOne ? keys : queries,
            q.size,
            isOne ? 1 : keys,
            counts,
            scores,
            isOne ? 1 : keys,
            denseHeads(scores).apart(group),
            left.value,
            left.ofRow,
            isOne ? ofKeys : q.apart(group),
            packed.value,
            isOne ? packed.apart(group) : shared,
            isCapped ? a.scale / a.cap : a.scale};
  if (isCapped && !isRawAsked)
    p.activation = Activation::Tanh;
  if (isFused) {
    const int64_t column = a.added.size != 1;
    p.c = a.added.value;
    p.cApart = a.added.apart(group);
    p.cRow = isOne ? column : a.added.ofRow;
    p.cColumn = isOne ? 0 : column;
  }
  multiply(l, p);
  Value *raw = scores;
  const auto times = [&](Value *x) { return unary(l, KernelId::AffineF32, x, a.cap, 0); };
  if (isCapped)
    scores = times(isRawAsked ? unary(l, KernelId::TanhF32, raw) : raw);
  Value *asked = isRawAsked ? times(raw) : scores;
  if (a.added.value && !isFused)
    scores = binary(l, KernelId::AddF32, scores, a.added.value);
  if (a.mode == 2)
    asked = scores;
  Value *weights = probabilities(l, scores, a.precision, a.isModified);
  const Heads values = packHeads(l, a.v, false);
  multiply(l, {queries,
               keys,
               a.v.size,
               counts,
               a.y.value,
               a.y.ofRow,
               a.y.apart(group),
               weights,
               keys,
               denseHeads(weights).apart(group),
               values.value,
               {values.ofBatch, values.ofHead, 0}});
  return a.mode == 3 ? weights : asked;
}

/// Head by head where the scores of all would not fit the processor's cache.
Value *attendAll(Lowering &l, const Attention &a) {
  constexpr int64_t Cached = 1 << 18, MostParts = 64; // bytes
  const int64_t group = a.q.heads / a.k.heads;
  const double parts = static_cast<double>(a.q.batch) * static_cast<double>(a.k.heads);
  const double bytes = static_cast<double>(width(a.q.value)) * static_cast<double>(a.q.length) *
                       static_cast<double>(a.k.length) * static_cast<double>(a.q.heads);
  const bool isWhole = l.wants(3) || a.isModified || (a.added.value && a.cap > 0);
  if (isWhole || parts > MostParts || bytes * static_cast<double>(a.q.batch) <= Cached)
    return attend(l, a);
  for (int64_t entry = 0; entry < a.q.batch; ++entry)
    for (int64_t head = 0; head < a.k.heads; ++head) {
      Attention one = a;
      one.q = part(l, a.q, entry, head * group, group);
      one.k = part(l, a.k, entry, head, 1);
      one.v = part(l, a.v, entry, head, 1);
      one.y = part(l, a.y, entry, head * group, group);
      if (a.added.value)
        one.added = part(l, a.added, entry, head * group, group);
      attend(l, one);
    }
  return nullptr;
}

bool checkHeads(Lowering &l, const Attention &a) {
  const Heads &q = a.q, &k = a.k, &v = a.v;
  if (k.heads < 1 || q.heads % k.heads || v.heads != k.heads || q.batch != k.batch ||
      k.batch != v.batch || q.size != k.size || k.length != v.length ||
      q.value->rank() != k.value->rank() || k.value->rank() != v.value->rank())
    return misfit(l, "queries, keys and values of as many heads, or of a multiple for queries");
  return true;
}

double scaleOf(Lowering &l, const Heads &q, double unstated) {
  const double scale = l.real("scale", unstated);
  return scale != unstated ? scale
                           : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size, 1)));
}

/// Keys or values after those of the past.
bool append(Lowering &l, Value *past, Heads &x) {
  if (!past)
    return true;
  Shape shape{x.batch, x.heads, past->shape[2], x.size};
  if (past->shape != shape)
    return misfit(l, "past keys and values [batch, heads, length, size]");
  shape[2] += x.length;
  Value *all = l.make(x.value->type, shape);
  if (!l.status())
    return false;
  place(l, all, past, Integers(4));
  place(l, all, unfolded(l, x), {0, 0, past->shape[2], 0});
  x = denseHeads(all);
  return true;
}

Status attention(Lowering &l) {
  Attention a;
  Bias bias;
  if (!readHeads(l, 0, "q_num_heads", a.q) || !readHeads(l, 1, "kv_num_heads", a.k) ||
      !readHeads(l, 2, "kv_num_heads", a.v) || !checkHeads(l, a))
    return l.status();
  Value *pastKey = l.in(4), *pastValue = l.in(5);
  Window window{0, l.integer("left_window_size", -1), l.integer("right_window_size", -1), l.in(6)};
  if (pastKey ? !pastValue || window.lengths || pastKey->rank() != 4 || pastValue->rank() != 4 ||
                    pastKey->shape[2] != pastValue->shape[2]
              : pastValue || (window.lengths && window.lengths->shape != Shape{a.q.batch}))
    return misfit(l, "both past keys and values of 4 dimensions, or a length for each batch entry");
  window.offset = pastKey ? pastKey->shape[2] : 0;
  a.scale = scaleOf(l, a.q, HUGE_VAL);
  a.cap = l.real("softcap", 0);
  a.mode = l.integer("qk_matmul_output_mode", 0);
  if (a.mode < 0 || a.mode > 3)
    return wrong(l, "qk_matmul_output_mode", a.mode);
  if (window.left < -1 || window.right < -1)
    return wrong(l, "left_window_size' or 'right_window_size", std::min(window.left, window.right));
  if (!(a.scale > 0) || (window.offset | a.k.length) >> 48)
    return l.invalid("its attribute 'scale' is not positive, or it has too many keys");
  if (l.integer("is_causal", 0) != 0)
    window.right = 0;
  const ElementType type = a.q.value->type;
  const Shape scores{a.q.batch, a.q.heads, a.q.length, window.offset + a.k.length};
  const std::optional<ElementType> precision = softmaxType(l, type);
  if (!precision || !readBias(l, type, scores, window, bias) || !append(l, pastKey, a.k) ||
      !append(l, pastValue, a.v))
    return l.status();
  a.precision = *precision;
  if (bias.added) {
    a.added = denseHeads(bias.added);
    a.added.ofBatch *= a.added.batch != 1;
    a.added.ofHead *= a.added.heads != 1;
    a.added.ofRow *= a.added.length != 1;
  }
  const bool isFlat = a.q.value->rank() == 3;
  const Shape rows{a.q.batch, a.q.length, a.q.heads, a.v.size};
  Value *y = isFlat ? l.make(type, {rows[0], rows[1], rows[2] * rows[3]})
                    : l.make(type, {rows[0], rows[2], rows[1], rows[3]});
  if (!l.status())
    return l.status();
  a.y = isFlat ? flatHeads(y, a.q.heads) : denseHeads(y);
  Value *asked = attendAll(l, a);
  if (Value *isEmpty = bias.isEmpty) {
    Value *zero = l.constantReal(type, 0);
    if (a.mode == 3 && asked)
      asked = where(l, isEmpty, zero, asked);
    if (isFlat)
      y = l.view(where(l, transpose(l, isEmpty, {0, 2, 1, 3}), zero, l.view(y, rows)), y->shape);
    else
      y = where(l, isEmpty, zero, y);
  }
  l.results = {y, l.wants(1) ? unfolded(l, a.k) : nullptr, l.wants(2) ? unfolded(l, a.v) : nullptr,
               asked};
  return l.status();
}

/// A graph may change the scores and the probabilities.
Status flexAttention(Lowering &l) {
  Attention a;
  a.isModified = true;
  for (size_t i = 0; i < 3; ++i)
    if (l.in(i)->rank() != 4)
      return misfit(l, "[batch, heads, length, size]");
  a.q = denseHeads(l.in(0)), a.k = denseHeads(l.in(1)), a.v = denseHeads(l.in(2));
  const std::optional<ElementType> precision = softmaxType(l, a.q.value->type);
  if (!precision || !checkHeads(l, a))
    return l.status();
  a.precision = *precision;
  a.scale = scaleOf(l, a.q, HUGE_VAL);
  a.y = denseHeads(l.output(0, a.q.value->type, {a.q.batch, a.q.heads, a.q.length, a.v.size}));
  attendAll(l, a);
  return l.status();
}

/// A state for each head, to which each key adds its value.
Status linearAttention(Lowering &l) {
  Heads q, k, v;
  Value *past = l.in(3), *decay = l.in(4), *beta = l.in(5);
  if (!readHeads(l, 0, "q_num_heads", q) || !readHeads(l, 1, "kv_num_heads", k) ||
      !readHeads(l, 2, "kv_num_heads", v))
    return l.status();
  const Shape state{q.batch, k.heads, k.size, v.size};
  const auto isFor = [&](const Value *x, int64_t least, int64_t most) {
    return !x || (x->rank() == 3 && x->shape[0] == q.batch && x->shape[1] == q.length &&
                  (x->shape[2] == least || x->shape[2] == most));
  };
  const std::string_view rule = l.text("update_rule", "gated_delta");
  const bool isGated = rule.substr(0, 5) == "gated";
  const bool isDelta = rule == "delta" || rule == "gated_delta";
  if (!isDelta && rule != "gated" && rule != "linear")
    return wrong(l, "update_rule", rule);
  if (!isFor(q.value, q.heads * k.size, -1) || !isFor(k.value, k.heads * k.size, -1) ||
      !isFor(v.value, k.heads * v.size, -1) || q.heads % k.heads ||
      (past && past->shape != state) || !isFor(decay, k.heads, k.heads * k.size) ||
      !isFor(beta, 1, k.heads) || isGated != (decay != nullptr) || isDelta != (beta != nullptr))
    return misfit(l, "queries, keys, values, a past state, and the decay and beta of the rule");
  const ElementType type = ElementType::Float32;
  Value *y = l.output(0, type, {q.batch, q.length, q.heads * v.size});
  Value *present = past ? copy(l, past) : fill(l, type, state, l.constantReal(type, 0));
  l.setResult(1, present);
  if (decay)
    decay = unary(l, KernelId::ExpF32, decay);
  const auto isForHeads = [&](const Value *x) { return x && x->shape[2] == k.heads; };
  l.emit(KernelId::LinearAttention, {y, present, l.make(type, {v.size})},
         {q.value, k.value, v.value, decay, beta},
         {q.batch, q.length, q.heads, k.heads, k.size, v.size, decay && !isForHeads(decay),
          isForHeads(beta), real(scaleOf(l, q, 0))});
  l.planner.countMultiplyAdds(present->count *
                              static_cast<uint64_t>(q.length * (2 + q.heads / k.heads)));
  return l.status();
}

Status rotaryEmbedding(Lowering &l) {
  Heads x;
  if (!readHeads(l, 0, "num_heads", x))
    return l.status();
  Value *cosine = l.in(1), *sine = l.in(2), *positions = l.in(3);
  const int64_t given = l.integer("rotary_embedding_dim", 0), rotated = given ? given : x.size;
  if (rotated < 0 || rotated > x.size || rotated % 2)
    return l.invalid("it can't rotate ", rotated, " of ", x.size, " elements");
  const int64_t rows = cosine->rank() ? cosine->shape[0] : 0;
  if (cosine->shape != sine->shape || (positions && positions->shape != Shape{x.batch, x.length}) ||
      cosine->shape !=
          (positions ? Shape{rows, rotated / 2} : Shape{x.batch, x.length, rotated / 2}))
    return misfit(l, "caches [rows, half of what is rotated] for positions [batch, length], or "
                     "[batch, length, half of what is rotated]");
  Value *y = l.output(0, x.value->type, x.value->shape);
  return l.emit(KernelId::RotaryEmbedding, {y}, {x.value, cosine, sine, positions, l.fault()},
                {x.batch, x.heads, x.length, x.size, x.ofBatch, x.ofHead, x.ofRow, rotated,
                 l.integer("interleaved", 0) != 0, rows});
}

Status swiGlu(Lowering &l) {
  Value *a = l.in(0), *b = l.in(1);
  if (a->shape != b->shape)
    return misfit(l, "a gate and values of the same shape");
  Value *gate = unary(l, KernelId::SwishF32, a, l.real("alpha", 1));
  return l.give(binary(l, KernelId::MulF32, gate, b));
}

/// Writes entries into a cache, from an index on that each batch entry has.
Status tensorScatter(Lowering &l) {
  Value *cache = l.in(0), *update = l.in(1), *starts = l.in(2);
  int64_t axis = l.integer("axis", -2);
  const std::string_view mode = l.text("mode", "linear");
  if (!l.axis(axis, cache->rank()))
    return l.status();
  if (axis == 0)
    return wrong(l, "axis", axis);
  if (mode != "linear" && mode != "circular")
    return wrong(l, "mode", mode);
  const Along at(cache, axis);
  Shape wanted = cache->shape;
  const int64_t batch = wanted[0];
  int64_t &steps = wanted[at.axis];
  steps = update->rank() == wanted.size() ? std::min(steps, update->shape[at.axis]) : -1;
  if (update->shape != wanted || (starts && starts->shape != Shape{batch}))
    return misfit(l, "a cache, an update no longer than that, and an index for each batch entry");
  Value *y = copy(l, cache);
  if (update->count)
    l.emit(KernelId::TensorScatter, {y}, {update, starts, l.fault()},
           {at.inner * width(cache), batch, at.outer / batch, at.n, steps, mode == "circular"});
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
    {"RotaryEmbedding", 23, "TTTl", Real16 | Real32, 1, true, rotaryEmbedding,
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
