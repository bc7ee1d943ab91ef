// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions, and what is made of them.
#include "engine/native/operators/spatial.h"

#include "engine/native/kernels/sizes.h"

#include <limits>

namespace mlbridge::native {
namespace {

enum AutoPad { NotSet, Valid, SameUpper, SameLower };
constexpr const char *AutoPads = "NOTSET VALID SAME_UPPER SAME_LOWER";
constexpr int64_t MostLength = int64_t(1) << 31; ///< of windows, strides, dilations and pads

/// Reads a list of one number in 1 … MostLength (or from 0) for each dimension, `sides` times.
bool readTriples(Lowering &l, const char *name, size_t first, int64_t least,
                 std::initializer_list<Triple *> sides) {
  const Integers &list = l.list(name);
  if (list.empty())
    return bool(l.status());
  const size_t dimensions = 3 - first;
  if (list.size() != sides.size() * dimensions)
    return l.invalid("its attribute '", name, "' has ", list.size(), " numbers instead of ",
                     sides.size() * dimensions);
  size_t i = 0;
  for (Triple *side : sides)
    for (size_t d = first; d < 3; ++d, ++i) {
      if (list[i] < least || list[i] > MostLength)
        return l.invalid("its attribute '", name, "' has the number ", list[i], "; each must be ",
                         least, " … 2^31");
      (*side)[d] = list[i];
    }
  return true;
}

/// Planes whose windows all have their elements at the same offsets, and where these are.
struct Spread {
  Value *x;
  Value *offsets; ///< of a window's elements, int64
  int64_t plane, apartA, apartB;
  Triple out;
};

/// `channels`: how many planes a window goes through. `isRead`: whole vectors are read.
Spread spread(Lowering &l, Value *x, const Sliding &s, int64_t channels, bool isRead,
              int64_t fill) {
  Spread result{x, nullptr, 0, 0, 0, s.out};
  Triple lengths;
  bool isPlain = !isRead && s.strides[2] == 1;
  for (size_t i = 0; i < 3; ++i) {
    lengths[i] = s.out[i] ? (s.out[i] - 1) * s.strides[i] + s.extent(i) : 0;
    isPlain = isPlain && s.before[i] == 0 && lengths[i] <= s.in[i];
  }
  const int64_t period = s.strides[2];
  int64_t phases = std::min(period, s.extent(2)), columns = (lengths[2] + period - 1) / period;
  if (isPlain) {
    lengths = s.in;
    phases = 1;
    columns = s.in[2];
  } else {
    const int64_t inPlane = s.in[0] * s.in[1] * s.in[2];
    const int64_t planes = inPlane ? count(x) / inPlane : 0;
    constexpr int64_t Slack = lanesOf<float>(); // so that whole vectors may be read
    Value *all = l.make(x->type, {planes, lengths[0], lengths[1], phases, columns});
    Value *y = l.make(x->type, {count(all) + Slack});
    if (!l.status())
      return result;
    Integers p{width(x), fill, planes};
    for (const Triple *triple : {&s.in, &s.before})
      p.insert(p.end(), triple->begin(), triple->end());
    p.insert(p.end(), {lengths[0], lengths[1], phases, columns, period});
    l.emit(KernelId::SpreadPlanes, {y}, {x}, p);
    result.x = y;
  }
  const int64_t line = phases * columns;
  result.plane = lengths[0] * lengths[1] * line;
  result.apartA = s.strides[0] * lengths[1] * line;
  result.apartB = s.strides[1] * line;
  if (s.out[2] == line && s.strides[1] == 1) { // lines follow each other
    result.out[2] *= result.out[1];
    result.out[1] = 1;
  }
  const int64_t taps = s.taps();
  const size_t all = l.make(ElementType::Int64, {channels, taps})->count;
  if (!l.status() || all == 0 || !l.planner.hasTimeFor(4 * all))
    return result;
  Integers offsets;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < taps; ++i) {
      const int64_t a = i / (s.window[1] * s.window[2]) * s.dilations[0];
      const int64_t b = i / s.window[2] % s.window[1] * s.dilations[1];
      const int64_t k = i % s.window[2] * s.dilations[2];
      offsets.push_back(c * result.plane + (a * lengths[1] + b) * line + k % period * columns +
                        k / period);
    }
  result.offsets = l.constantOf<int64_t>({channels, taps}, offsets);
  return result;
}

/// The parameters of Conv and Windows; the first five differ.
Integers positionsOf(const Spread &s, Integers head) {
  head.insert(head.end(),
              {s.out[0], s.out[1], s.out[2], s.apartA, s.apartB, number(Activation::None), 0, 0});
  return head;
}

/// Checks weights [O, C / groups, window] or, with `isTransposed`, [C, O / groups, window].
bool fit(Lowering &l, const Value *x, const Value *w, const Value *bias, int64_t groups,
         bool isTransposed) {
  if (x->rank() < 3 || w->rank() != x->rank())
    return l.invalid("its weights are ", w->shape, " for an input of ", x->shape,
                     "; both must have 3 dimensions or more");
  const int64_t outputs = isTransposed ? w->shape[1] * groups : w->shape[0];
  if (groups < 1 || x->shape[1] % groups || outputs % groups ||
      (isTransposed ? w->shape[0] != x->shape[1] : w->shape[1] != x->shape[1] / groups))
    return l.invalid("its weights ", w->shape, " and ", groups, " groups don't fit an input of ",
                     x->shape);
  if (bias && bias->shape != Shape{outputs})
    return l.invalid("its bias is ", bias->shape, " instead of [", outputs, "]");
  return true;
}

bool readWindowOf(Lowering &l, const Value *x, const Value *w, Sliding &s) {
  const Integers window(w->shape.begin() + 2, w->shape.end());
  if (!l.list("kernel_shape").empty() && l.list("kernel_shape") != window)
    return l.invalid("its attribute 'kernel_shape' is ", l.list("kernel_shape"),
                     ", and its weights are ", w->shape);
  return readSliding(l, x, window, s);
}

Status conv(Lowering &l) {
  Sliding s;
  int64_t groups = 0;
  if (!readConvolution(l, l.in(0), l.in(1), l.in(2), s, groups))
    return l.status();
  return l.give(convolve(l, l.in(0), l.in(1), l.in(2), s, groups));
}

/// A convolution that has a result for each place between the strides (a phase); these are put side
/// by side.
Status convTranspose(Lowering &l) {
  Value *x = l.in(0), *w = l.in(1), *bias = l.in(2);
  const int64_t groups = l.integer("group", 1);
  Sliding s;
  if (!fit(l, x, w, bias, groups, true) || !readWindowOf(l, x, w, s) || !readPadList(l, s))
    return l.status();
  Triple more = {}, lengths = {1, 1, 1};
  const int pads = choice(l, "auto_pad", AutoPads);
  if (!readTriples(l, "output_padding", s.first, 0, {&more}))
    return l.status();
  // The list may be [N, C, lengths], of which only the lengths count.
  Integers shape = l.list("output_shape");
  if (shape.size() == 5 - s.first)
    shape.erase(shape.begin(), shape.begin() + 2);
  if (!shape.empty() && shape.size() != 3 - s.first)
    return l.invalid("its attribute 'output_shape' is ", shape);
  for (size_t i = s.first; i < 3; ++i) {
    const int64_t whole = s.strides[i] * (s.in[i] - 1) + more[i] + s.extent(i);
    if (!shape.empty() || pads >= SameUpper) {
      lengths[i] = shape.empty() ? s.in[i] * s.strides[i] : shape[i - s.first];
      if (lengths[i] < 0 || lengths[i] > MostLength)
        return l.invalid("its attribute 'output_shape' has the number ", lengths[i]);
      const int64_t pad = std::max<int64_t>(whole - lengths[i], 0);
      s.before[i] = pads == SameUpper ? pad / 2 : pad - pad / 2;
    } else {
      if (pads == Valid)
        s.before[i] = s.after[i] = 0;
      lengths[i] = whole - s.before[i] - s.after[i];
    }
    if (lengths[i] < 0 || s.in[i] == 0)
      return l.invalid("its pads and window don't fit an input of ", x->shape);
  }
  // Element o of the result is in phase (o + cut) mod stride, and element k of the window in phase
  // (k + at) mod stride. They begin in another one if the window doesn't become longer by it.
  const int64_t inputs = x->shape[1] / groups, outputs = w->shape[1];
  const Triple phases = s.strides, window = s.window;
  Triple cut = {}, at = {}, apart = {1, 1, 1}, wide;
  for (size_t i = 0; i < 3; ++i) {
    const int64_t stride = phases[i], over = s.before[i] % stride, room = (stride - over) % stride;
    if (stride > 1) { // otherwise the convolution is dilated
      apart[i] = s.dilations[i];
      s.window[i] = s.extent(i);
      s.dilations[i] = 1;
    }
    const int64_t last = s.window[i] - 1;
    at[i] = (room + last) / stride > last / stride ? 0 : room;
    cut[i] = at[i] == room ? 0 : over;
    s.window[i] = (at[i] + last) / stride + 1;
    s.strides[i] = 1;
    s.before[i] = s.extent(i) - 1 - (s.before[i] + at[i]) / stride;
    s.out[i] = (lengths[i] + cut[i] + stride - 1) / stride;
    wide[i] = s.window[i] * stride;
  }
  const int64_t planes = w->shape[0] * outputs;
  Value *all = fill(l, x->type, {std::max<int64_t>(planes, 1), wide[0], wide[1], wide[2]},
                    l.constantReal(x->type, 0));
  if (!l.status())
    return l.status();
  const Integers a = denseStrides(all->shape);
  Integers spread = a;
  int64_t first = 0;
  for (size_t i = 0; i < 3; ++i) {
    first += at[i] * a[i + 1];
    spread[i + 1] *= apart[i];
  }
  const Shape whole{planes, window[0], window[1], window[2]};
  if (w->count)
    l.emit(KernelId::CopyStrided, {all}, {w},
           joined({width(x), first, 0}, mergedLoops(whole, {spread, denseStrides(whole)})));
  Shape order{groups, outputs, phases[0], phases[1], phases[2], inputs};
  Integers strides{inputs * outputs * a[0], a[0], a[1], a[2], a[3], outputs * a[0]};
  first = 0;
  for (size_t i = 0; i < 3; ++i) { // the last one first
    order.push_back(s.window[i]);
    strides.push_back(-phases[i] * a[i + 1]);
    first -= (s.window[i] - 1) * strides.back();
  }
  Value *reversed = strided(l, all, order, strides, first);
  const int64_t each = phases[0] * phases[1] * phases[2], results = groups * outputs;
  if (bias && each > 1)
    bias = strided(l, bias, {results, each}, {1, 0}, 0);
  l.planner.foldNode();
  Value *y = convolve(l, x, l.view(reversed, {results * each, inputs, s.taps()}), bias, s, groups);
  Integers p{width(x), x->shape[0] * results};
  for (const Triple &triple : {lengths, cut, phases, s.out})
    p.insert(p.end(), triple.begin(), triple.end());
  s.out = lengths;
  const Shape made = s.shape(x->shape[0], results);
  if (each == 1)
    return l.give(l.view(y, made));
  Value *joined = l.make(x->type, made);
  l.emit(KernelId::JoinPhases, {joined}, {y}, p);
  return l.give(joined);
}

/// A convolution of each channel, to which the inputs before belong.
Status causalConvWithState(Lowering &l) {
  Value *x = l.in(0), *w = l.in(1), *past = l.in(3);
  const int64_t channels = x->rank() > 1 ? x->shape[1] : 0;
  if (!fit(l, x, w, l.in(2), channels, false))
    return l.status();
  const bool isSwish = choice(l, "activation", "none silu swish") != 0;
  if (x->rank() != 3 || w->shape[2] < 1 ||
      (past && past->shape != Shape{x->shape[0], channels, w->shape[2] - 1}))
    return l.invalid("its state doesn't fit an input of ", x->shape, " and weights of ", w->shape);
  const int64_t before = w->shape[2] - 1, length = x->shape[2];
  const Shape shape{x->shape[0], channels, before + length};
  Value *all = past ? l.make(x->type, shape) : fill(l, x->type, shape, l.constantReal(x->type, 0));
  if (past)
    place(l, all, past, {0, 0, 0});
  place(l, all, x, {0, 0, before});
  Sliding s;
  if (!readSliding(l, all, {before + 1}, s))
    return l.status();
  s.out[2] = length;
  Value *y = convolve(l, all, w, l.in(2), s, channels);
  l.setResult(0, isSwish ? unary(l, KernelId::SwishF32, y, 1) : y);
  if (l.wants(1))
    l.setResult(1, slice(l, all, {x->shape[0], channels, before}, {0, 0, length}, {1, 1, 1}));
  return l.status();
}

/// Adds up columns where they overlap: as rows of [positions, planes].
Status col2Im(Lowering &l) {
  Value *x = l.in(0);
  Integers image, block;
  if (!l.read(l.in(1), image) || !l.read(l.in(2), block))
    return l.status();
  Sliding s;
  Shape like{1, 1};
  like.insert(like.end(), image.begin(), image.end());
  for (const int64_t length : like)
    if (length < 0 || length > MostLength)
      return l.invalid("an image of ", image);
  const Value *y = l.make(x->type, like);
  if (!l.status() || !readSliding(l, y, block, s) || !readPads(l, s, false))
    return l.status();
  const int64_t taps = s.taps(), positions = s.positions(), pixels = count(y);
  if (x->rank() != 3 || x->shape[1] % taps || x->shape[2] != positions)
    return l.invalid("columns ", x->shape, " for ", positions, " blocks of ", block);
  const int64_t planes = x->shape[0] * (x->shape[1] / taps);
  const size_t all = l.make(ElementType::Int64, {taps, positions})->count;
  if (!l.status() || !l.planner.hasTimeFor(16 * all))
    return l.status();
  Integers rows; // of pixels; all that is outside is one more
  for (int64_t i = 0; i < taps * positions; ++i) {
    int64_t tap = i / positions, position = i % positions, row = 0, apart = 1;
    for (size_t d = 3; d-- > 0;) {
      const int64_t at =
          position % s.out[d] * s.strides[d] + tap % s.window[d] * s.dilations[d] - s.before[d];
      row = row < 0 || at < 0 || at >= s.in[d] ? -1 : row + at * apart;
      apart *= s.in[d];
      position /= s.out[d];
      tap /= s.window[d];
    }
    rows.push_back(row < 0 ? pixels : row);
  }
  const auto lines = static_cast<int64_t>(rows.size());
  Value *columns = transpose(l, l.view(x, {planes, lines}), {1, 0});
  Value *sums = fill(l, x->type, {pixels + 1, planes}, l.constantReal(x->type, 0));
  l.emit(pick(KernelId::ScatterAddRowsF32, x->type), {sums},
         {columns, l.constantOf<int64_t>({lines}, rows), l.fault()},
         {lines, pixels + 1, planes, 1});
  Shape shape{x->shape[0], x->shape[1] / taps};
  shape.insert(shape.end(), image.begin(), image.end());
  Value *inside = slice(l, sums, {pixels, planes}, {0, 0}, {1, 1});
  return l.give(l.view(transpose(l, inside, {1, 0}), shape));
}

constexpr Operator Table[] = {
    {"Conv", 1, "TTt", Reals, 1, true, conv, MLBRIDGE_WINDOW " group"},
    {"ConvTranspose", 1, "TTt", Reals, 1, true, convTranspose,
     MLBRIDGE_WINDOW " group output_padding output_shape"},
    {"CausalConvWithState", 27, "TTtt", Reals, 2, true, causalConvWithState, "activation"},
    {"Col2Im", 18, "TLL", Reals, 1, true, col2Im, "dilations pads strides", 6},
};

} // namespace

Shape Sliding::shape(int64_t batch, int64_t channels) const {
  Shape result{batch, channels};
  result.insert(result.end(), out.begin() + static_cast<ptrdiff_t>(first), out.end());
  return result;
}

int choice(Lowering &l, const char *name, std::string_view words) {
  const std::string_view text = l.text(name, words.substr(0, words.find(' ')));
  std::string_view rest = words;
  for (int i = 0; !rest.empty(); ++i) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (word == text)
      return i;
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  l.invalid("its attribute '", name, "' is '", text, "'; it can be: ", words);
  return 0;
}

bool readSliding(Lowering &l, const Value *x, const Integers &window, Sliding &out) {
  if (x->rank() < 3)
    return l.invalid("it takes [N, C, lengths], not ", x->shape);
  if (x->rank() > 5)
    return l.unsupported("windows of more than three dimensions");
  out.first = 5 - x->rank();
  if (window.size() != x->rank() - 2)
    return l.invalid("a window of ", window, " for ", x->shape);
  for (size_t i = out.first; i < 3; ++i) {
    out.in[i] = x->shape[i + 2 - out.first];
    out.window[i] = window[i - out.first];
    if (out.window[i] < 1 || out.window[i] > MostLength)
      return l.invalid("a window of ", window, "; each length must be 1 … 2^31");
  }
  // Products of two such lengths are numbers, those of three need not be.
  if (out.window[0] * out.window[1] > MostLength || out.taps() > MostLength)
    return l.invalid("a window of ", window, " is too large");
  return readTriples(l, "strides", out.first, 1, {&out.strides}) &&
         readTriples(l, "dilations", out.first, 1, {&out.dilations});
}

bool readPadList(Lowering &l, Sliding &s) {
  return readTriples(l, "pads", s.first, 0, {&s.before, &s.after});
}

bool readPads(Lowering &l, Sliding &s, bool roundsUp) {
  const int mode = choice(l, "auto_pad", AutoPads);
  if (!readPadList(l, s))
    return false;
  for (size_t i = s.first; i < 3; ++i) {
    if (mode >= SameUpper) {
      s.out[i] = (s.in[i] + s.strides[i] - 1) / s.strides[i];
      const int64_t pad =
          std::max<int64_t>(0, (s.out[i] - 1) * s.strides[i] + s.extent(i) - s.in[i]);
      s.before[i] = mode == SameUpper ? pad / 2 : pad - pad / 2;
      s.after[i] = pad - s.before[i];
      continue;
    }
    if (mode == Valid)
      s.before[i] = s.after[i] = 0;
    const int64_t rest = s.in[i] + s.before[i] + s.after[i] - s.extent(i);
    if (rest < 0)
      return l.invalid("a window that covers ", s.extent(i), " is longer than the padded length ",
                       s.in[i] + s.before[i] + s.after[i]);
    s.out[i] = (rest + (roundsUp ? s.strides[i] - 1 : 0)) / s.strides[i] + 1;
    // The last window begins within the input or the padding before it.
    if (roundsUp && (s.out[i] - 1) * s.strides[i] >= s.in[i] + s.before[i])
      --s.out[i];
  }
  return true;
}

bool readConvolution(Lowering &l, const Value *x, const Value *weights, const Value *bias,
                     Sliding &s, int64_t &groups) {
  groups = l.integer("group", 1);
  return fit(l, x, weights, bias, groups, false) && readWindowOf(l, x, weights, s) &&
         readPads(l, s, false);
}

Value *windows(Lowering &l, Value *x, const Sliding &s, const Shape &shape, Value *weights,
               Value *bias, int64_t outputs, Value *indices, bool byColumns) {
  const int64_t fill = weights ? 0
                       : x->type == ElementType::Float64
                           ? real(-std::numeric_limits<double>::infinity())
                           : int64_t{0xff800000}; // a float's
  Value *y = l.make(x->type, shape);
  const Spread from = spread(l, x, s, 1, true, fill);
  const int64_t planes = count(y) / std::max<int64_t>(s.positions(), 1), taps = s.taps();
  if (y->count)
    l.emit(pick(KernelId::WindowsF32, x->type), {y}, {from.x, weights, bias, from.offsets},
           positionsOf(from,
                       {outputs, taps, planes, weights ? count(weights) / taps : 1, from.plane}));
  if (!indices || y->count == 0 || !l.status())
    return y;
  const Triple &n = s.in, &d = s.dilations;
  const Triple apart = byColumns ? Triple{1, n[0], n[0] * n[1]} : Triple{n[1] * n[2], n[2], 1};
  Integers places;
  for (int64_t i = 0; i < taps; ++i)
    places.push_back(i / (s.window[1] * s.window[2]) * d[0] * apart[0] +
                     i / s.window[2] % s.window[1] * d[1] * apart[1] +
                     i % s.window[2] * d[2] * apart[2]);
  Integers p{code(x->type), planes, taps, from.plane, from.apartA, from.apartB, n[0] * n[1] * n[2]};
  for (const Triple *triple : {&s.out, &apart, &s.strides, &s.dilations, &s.before})
    p.insert(p.end(), triple->begin(), triple->end());
  l.emit(KernelId::WindowIndices, {indices},
         {y, from.x, from.offsets, l.constantOf<int64_t>({taps}, places)}, p);
  return y;
}

Value *windowSums(Lowering &l, Value *x, const Sliding &s, const Shape &shape) {
  Value *one = l.constantReal(x->type, 1);
  return windows(l, x, s, shape, fill(l, x->type, {1, s.taps()}, one), nullptr);
}

Value *convolve(Lowering &l, Value *x, Value *w, Value *bias, const Sliding &s, int64_t groups) {
  constexpr int64_t FewOutputs = 4; // for which packing doesn't pay
  const int64_t batch = x->shape[0], outputs = w->shape[0];
  const int64_t m = outputs / groups, channels = x->shape[1] / groups;
  const Shape shape = s.shape(batch, outputs);
  const int64_t taps = s.taps(), k = channels * taps, n = s.positions();
  Value *y = nullptr;
  if (channels == 1 && m < FewOutputs) {
    y = windows(l, x, s, shape, w, bias, m);
  } else {
    y = l.make(x->type, shape);
    const Spread from = spread(l, x, s, channels, false, 0);
    const int64_t lanes = 64 / width(x), block = std::min(lanes * PanelsOfBlock, n);
    Value *packed = l.make(x->type, {(k + lanes) * ((block + lanes - 1) / lanes * lanes)});
    if (y->count)
      l.emit(pick(KernelId::ConvF32, x->type), {y}, {from.x, w, bias, from.offsets, packed},
             positionsOf(from, {m, k, batch, groups, channels * from.plane}));
  }
  l.planner.countMultiplyAdds(y->count * static_cast<uint64_t>(k));
  return y;
}

const Span<const Operator> ConvolutionOperators = Table;

} // namespace mlbridge::native
