// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LSTM, GRU and plain recurrent layers of one direction. The inputs of all steps are multiplied by
// their weights at once; a step then multiplies h. Gates are padded to whole vectors in the
// workspace, where what lies between is computed but never given out.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_RECURRENT_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_RECURRENT_H

#include "along_axis.h"
#include "gemm.h"

namespace mlbridge::native::kernels {

template <class V> struct Recurrent {
  using E = ElementOf<V>;
  using L = typename LanesOf<V>::Type;
  int64_t gates, steps, batch, input, hidden, padded;
  bool reverse;
  int64_t xStep, xBatch, yStep, yBatch, stateStride;
  E *y;
  const E *x, *w, *r, *b, *h0;
  const int32_t *lengths;
  // In the workspace, rows of `gates * padded` or of `padded`.
  E *inputs, *sums, *bias, *recurrentBias, *h, *c, *rest;

  MLBRIDGE_INLINE int64_t width() const { return gates * padded; }
  MLBRIDGE_INLINE int64_t length(int64_t b) const {
    if (!lengths)
      return steps;
    const int64_t n = lengths[b];
    return n < 0 ? 0 : n < steps ? n : steps;
  }
  /// The time that batch entry b is at in a step, or -1 when it has ended.
  MLBRIDGE_INLINE int64_t timeOf(int64_t step, int64_t b) const {
    const int64_t n = length(b);
    return step >= n ? -1 : reverse ? n - 1 - step : step;
  }

  /// The operands from `first` on are x, w, r, the bias, lengths and h0; the last is the workspace.
  MLBRIDGE_SHARED Recurrent(int64_t gateCount, Parameters p, Operands operands, int first, int last)
      : gates(gateCount), steps(p[0]), batch(p[1]), input(p[2]), hidden(p[3]),
        padded((hidden + V::Lanes - 1) / V::Lanes * V::Lanes), reverse(p[4] != 0), xStep(p[5]),
        xBatch(p[6]), yStep(p[7]), yBatch(p[8]), stateStride(p[9]),
        y(static_cast<E *>(operands[0])), x(static_cast<const E *>(operands[first])),
        w(static_cast<const E *>(operands[first + 1])),
        r(static_cast<const E *>(operands[first + 2])),
        b(static_cast<const E *>(operands[first + 3])),
        h0(static_cast<const E *>(operands[first + 5])),
        lengths(static_cast<const int32_t *>(operands[first + 4])),
        inputs(static_cast<E *>(operands[last])) {
    sums = inputs + steps * batch * width();
    bias = sums + batch * width();
    recurrentBias = bias + width();
    h = recurrentBias + width();
    c = h + batch * padded;
    rest = c + batch * padded;
  }

  /// Rows of hidden numbers into rows padded with zeros.
  MLBRIDGE_SHARED void pad(E *to, const E *from, int64_t rows, int64_t stride) const {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < padded; ++i)
        to[row * padded + i] = from && i < hidden ? from[row * stride + i] : E(0);
  }

  /// Biases apart (`joined`: summed), the initial state, and the products of all inputs.
  MLBRIDGE_SHARED void start(int64_t joined) {
    pad(bias, b, gates, hidden);
    pad(recurrentBias, b ? b + gates * hidden : nullptr, gates, hidden);
    for (int64_t i = 0; i < joined * padded; ++i)
      bias[i] = bias[i] + recurrentBias[i];
    pad(h, h0, batch, stateStride);
    // Rows of all steps and batch entries, if they are at one stride.
    const bool even = batch == 1 || steps == 1 || xStep == batch * xBatch;
    const int64_t blocks = even ? 1 : steps, rows = even ? steps * batch : batch;
    const int64_t stride = batch == 1 ? xStep : xBatch;
    for (int64_t i = 0; i < blocks; ++i)
      product(inputs + i * rows * width(), x + i * xStep, stride, rows, w, input, bias, 0);
  }

  /// y = a b + c for all gates, y and c of `width` columns.
  MLBRIDGE_SHARED void product(E *to, const E *a, int64_t stride, int64_t rows, const E *b,
                               int64_t k, const E *add, int64_t addStride) const {
    if (gates != 3) {
      multiply<V>(a, stride, rows, b, 0, k, width(), {to, width(), add, addStride, 1, 1, 1, false});
      return;
    }
    multiply<V>(a, stride, rows, b, 0, k, 2 * padded,
                {to, width(), add, addStride, 1, 1, 1, false});
    multiply<V>(
        a, stride, rows, b + packedGemmSize<E>(k, 2 * padded), 0, k, padded,
        {to + 2 * padded, width(), add ? add + 2 * padded : nullptr, addStride, 1, 1, 1, false});
  }

  /// The products of the inputs of a step, row by row of the batch: in place if all entries are at
  /// the same time; else they are brought together in `sums`.
  MLBRIDGE_SHARED const E *inputsOf(int64_t step) {
    if (!lengths)
      return inputs + (reverse ? steps - 1 - step : step) * batch * width();
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t time = timeOf(step, b);
      const E *from = inputs + ((time < 0 ? 0 : time) * batch + b) * width();
      for (int64_t i = 0; i < width(); i += L::Lanes)
        L::load(from + i).store(sums + b * width() + i);
    }
    return sums;
  }

  /// Gives out h of a step; 0 after the end of an entry.
  MLBRIDGE_SHARED void give(int64_t step, int64_t b) const {
    if (!y)
      return;
    const int64_t time = timeOf(step, b);
    E *to = y + (time < 0 ? step : time) * yStep + b * yBatch;
    for (int64_t i = 0; i < hidden; i += L::Lanes)
      storeUpTo(time < 0 ? L::broadcast(0) : L::load(h + b * padded + i), to + i, hidden - i);
  }
  MLBRIDGE_SHARED void giveLast(E *to, const E *from) const {
    if (!to)
      return;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < hidden; i += L::Lanes)
        storeUpTo(L::load(from + b * padded + i), to + b * stateStride + i, hidden - i);
  }
};

/// Within -limit and limit; 0 is no limit.
template <class V, class E = ElementOf<V>>
MLBRIDGE_INLINE void limitRow(E *x, int64_t n, int64_t limit) {
  const auto bound = realOf<double>(limit);
  if (!(bound > 0))
    return;
  const int64_t clamp[3] = {static_cast<int64_t>(Activation::Clamp), real(-bound), limit};
  activate<V>(x, n, clamp);
}

template <class V> MLBRIDGE_INLINE void Lstm(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  using L = typename LanesOf<V>::Type;
  Recurrent<V> net(4, p, operands, 3, 11);
  const E *peepholes = static_cast<const E *>(operands[10]);
  net.start(4);
  net.pad(net.c, static_cast<const E *>(operands[9]), net.batch, net.stateStride);
  E *const hole = net.rest; // of one row: peephole products, tanh of c
  const int64_t n = net.padded, hidden = net.hidden;
  const auto peep = [&](E *sums, const E *c, int which) {
    if (!peepholes)
      return;
    const E *weights = peepholes + which * hidden;
    for (int64_t i = 0; i < hidden; i += L::Lanes)
      L::fma(loadUpTo<L>(weights + i, hidden - i), L::load(c + i), L::load(sums + i))
          .store(sums + i);
  };
  const int64_t *const f = p + 12, *const g = p + 15, *const output = p + 18;
  // In one loop where that pays; it is the same arithmetic.
  const bool usual = !IsArray<V> && !peepholes && !p[11] && !(realOf<E>(p[10]) > 0) &&
                     static_cast<Activation>(f[0]) == Activation::Sigmoid &&
                     static_cast<Activation>(g[0]) == Activation::Tanh &&
                     static_cast<Activation>(output[0]) == Activation::Tanh;
  for (int64_t step = 0; step < net.steps; ++step) {
    const E *inputs = net.inputsOf(step);
    net.product(net.sums, net.h, n, net.batch, net.r, hidden, inputs, net.width());
    for (int64_t b = 0; b < net.batch; ++b) {
      E *in = net.sums + b * net.width(), *out = in + n, *forget = out + n, *cell = forget + n;
      E *h = net.h + b * n, *c = net.c + b * n;
      if (net.timeOf(step, b) < 0) {
        net.give(step, b);
        continue;
      }
      if (usual) {
        for (int64_t i = 0; i < n; i += L::Lanes) {
          const L kept = sigmoid(L::load(forget + i)) * L::load(c + i);
          const L next = L::fma(sigmoid(L::load(in + i)), tanh(L::load(cell + i)), kept);
          next.store(c + i);
          (sigmoid(L::load(out + i)) * tanh(next)).store(h + i);
        }
      } else {
        peep(in, c, 0);
        peep(forget, c, 2);
        limitRow<V>(in, n, p[10]);
        limitRow<V>(forget, 2 * n, p[10]);
        activate<V>(in, n, f);
        activate<V>(forget, n, f);
        activate<V>(cell, n, g);
        for (int64_t i = 0; i < n; i += L::Lanes) {
          const L gate = L::load(in + i);
          const L keep = p[11] ? constant<L>(1) - gate : L::load(forget + i);
          L::fma(gate, L::load(cell + i), keep * L::load(c + i)).store(c + i);
        }
        peep(out, c, 1);
        limitRow<V>(out, n, p[10]);
        activate<V>(out, n, f);
        for (int64_t i = 0; i < n; i += L::Lanes)
          L::load(c + i).store(hole + i);
        activate<V>(hole, n, output);
        for (int64_t i = 0; i < n; i += L::Lanes)
          (L::load(out + i) * L::load(hole + i)).store(h + i);
      }
      net.give(step, b);
    }
  }
  net.giveLast(static_cast<E *>(operands[1]), net.h);
  net.giveLast(static_cast<E *>(operands[2]), net.c);
}

template <class V> MLBRIDGE_INLINE void Gru(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  using L = typename LanesOf<V>::Type;
  Recurrent<V> net(3, p, operands, 2, 8);
  const bool afterReset = p[11] != 0; // the reset gate is for what has been multiplied
  net.start(afterReset ? 2 : 3);
  const int64_t n = net.padded, hidden = net.hidden;
  const int64_t *const f = p + 12, *const g = p + 15;
  E *const candidate = net.rest, *const kept = net.rest + net.batch * n;
  const E *const third = net.r + packedGemmSize<E>(hidden, 2 * n);
  for (int64_t step = 0; step < net.steps; ++step) {
    const E *inputs = net.inputsOf(step);
    multiply<V>(net.h, n, net.batch, net.r, 0, hidden, 2 * n,
                {net.sums, net.width(), inputs, net.width(), 1, 1, 1, false});
    for (int64_t b = 0; b < net.batch; ++b) {
      E *gates = net.sums + b * net.width();
      limitRow<V>(gates, 2 * n, p[10]);
      activate<V>(gates, 2 * n, f);
      for (int64_t i = 0; i < n; i += L::Lanes) {
        const L h = L::load(net.h + b * n + i);
        (afterReset ? h : L::load(gates + n + i) * h).store(kept + b * n + i);
      }
    }
    if (afterReset) {
      multiply<V>(kept, n, net.batch, third, 0, hidden, n,
                  {candidate, n, net.recurrentBias + 2 * n, 0, 1, 1, 1, false});
      for (int64_t b = 0; b < net.batch; ++b)
        for (int64_t i = 0; i < n; i += L::Lanes) {
          E *to = candidate + b * n + i;
          L::fma(L::load(net.sums + b * net.width() + n + i), L::load(to),
                 L::load(inputs + b * net.width() + 2 * n + i))
              .store(to);
        }
    } else {
      multiply<V>(kept, n, net.batch, third, 0, hidden, n,
                  {candidate, n, inputs + 2 * n, net.width(), 1, 1, 1, false});
    }
    for (int64_t b = 0; b < net.batch; ++b) {
      if (net.timeOf(step, b) >= 0) {
        limitRow<V>(candidate + b * n, n, p[10]);
        activate<V>(candidate + b * n, n, g);
        for (int64_t i = 0; i < n; i += L::Lanes) {
          const L z = L::load(net.sums + b * net.width() + i);
          const L next = L::load(candidate + b * n + i);
          E *h = net.h + b * n + i;
          L::fma(z, L::load(h), (constant<L>(1) - z) * next).store(h);
        }
      }
      net.give(step, b);
    }
  }
  net.giveLast(static_cast<E *>(operands[1]), net.h);
}

template <class V> MLBRIDGE_INLINE void Rnn(Operands operands, Parameters p) {
  using E = ElementOf<V>;
  using L = typename LanesOf<V>::Type;
  Recurrent<V> net(1, p, operands, 2, 8);
  net.start(1);
  const int64_t n = net.padded;
  for (int64_t step = 0; step < net.steps; ++step) {
    const E *inputs = net.inputsOf(step);
    net.product(net.sums, net.h, n, net.batch, net.r, net.hidden, inputs, n);
    for (int64_t b = 0; b < net.batch; ++b) {
      if (net.timeOf(step, b) >= 0) {
        limitRow<V>(net.sums + b * n, n, p[10]);
        activate<V>(net.sums + b * n, n, p + 12);
        for (int64_t i = 0; i < n; i += L::Lanes)
          L::load(net.sums + b * n + i).store(net.h + b * n + i);
      }
      net.give(step, b);
    }
  }
  net.giveLast(static_cast<E *>(operands[1]), net.h);
}

} // namespace mlbridge::native::kernels

#endif
