// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels over all element types whose arithmetic is exact, or not worth a vector. A "type" is a
// Type of kernel.h.
//
// Cast           {y, x}  {from type, to type, count}  What Convert doesn't do.
//                Floats are truncated towards zero; what doesn't fit wraps as in two's complement,
//                and beyond 64 bits it is the least int64.
// IntegerFunction {y, a, b}
//                {IntegerOp, type, rank, then for each dimension: length, stride of a, of b}
//                y is dense. Overflow wraps; division by 0 gives 0.
// Fmod           {y, a, b}  {type (float32, float64), whether the sign is that of b (0: of a),
//                rank, as above}
// IntegerReduce  {y [outer, inner], x}  {ReduceOp, type, outer, n, inner}
// BestIndex      {y int64 [outer, inner], x}  {type, outer, n, inner, last (0 or 1: which of
// equals),
//                largest (0, 1)}  NaN wins, the first or last of them.
// TopK           {values [outer, k, inner], indices int64, x, workspace (n int64)?}
//                {type, outer, n, inner, k, largest (0, 1)}
//                Sorted; of equals the lower index first; NaN counts as greatest. The workspace may
//                be null up to MostInserted.
// Unique         {number, first [n], inverse [n], counts [n], x [n, m], workspace [n]}  {type, n,
// m,
//                sorted (0, 1)}  All but x are int64. Of the different rows of x, sorted or as they
//                come: the first index and how many there are; of each row its number among them.
// Det            {y [batch], x [batch, n, n], workspace [n, n]}  {batch, n}, of doubles
// F32FromBF16 BF16FromF32  {y, x}  {count}; to nearest, ties to even.
// Accumulate     {y, x}  {type, whether it is a product (0: sum), outer, n, inner, exclusive,
//                reverse}
// Range          {y, start, delta}  {type, count}
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_GENERIC_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_GENERIC_H

#include "blocks.h"

namespace mlbridge::native {

/// TopK inserts so many; of more it makes a heap.
constexpr int64_t MostInserted = 64;
enum class ReduceOp : int64_t { Sum, Mean, Max, Min, Prod, L1, SumSquare };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

// ---- elements by the piece: as int64 (sign- or zero-extended) or as double ----------------------
// One loop over a type instead of one for each kernel and type.

constexpr int64_t Piece = 64;

inline const void *element(const void *x, int64_t type, int64_t i) {
  return static_cast<const char *>(x) + i * widthOf(type);
}
inline void *element(void *y, int64_t type, int64_t i) {
  return static_cast<char *>(y) + i * widthOf(type);
}

template <class To, class From>
MLBRIDGE_INLINE void convert(To *y, int64_t strideY, const void *x, int64_t strideX, int64_t n) {
  const auto *from = static_cast<const From *>(x);
  for (int64_t i = 0; i < n; ++i)
    y[i * strideY] = static_cast<To>(from[i * strideX]);
}

/// n elements, `stride` apart.
MLBRIDGE_OUTLINE inline void load(int64_t *wide, const void *x, int64_t type, int64_t stride,
                                  int64_t n) {
  switch (type) {
  case Int8:
    return convert<int64_t, int8_t>(wide, 1, x, stride, n);
  case Int16:
    return convert<int64_t, int16_t>(wide, 1, x, stride, n);
  case Int32:
    return convert<int64_t, int32_t>(wide, 1, x, stride, n);
  case Int64:
  case UInt64:
    return convert<int64_t, int64_t>(wide, 1, x, stride, n);
  case UInt16:
    return convert<int64_t, uint16_t>(wide, 1, x, stride, n);
  case UInt32:
    return convert<int64_t, uint32_t>(wide, 1, x, stride, n);
  default:
    return convert<int64_t, uint8_t>(wide, 1, x, stride, n);
  }
}
/// A number that doesn't fit wraps.
MLBRIDGE_OUTLINE inline void store(void *y, int64_t type, int64_t stride, const int64_t *wide,
                                   int64_t n) {
  switch (widthOf(type)) {
  case 1:
    return convert<uint8_t, int64_t>(static_cast<uint8_t *>(y), stride, wide, 1, n);
  case 2:
    return convert<uint16_t, int64_t>(static_cast<uint16_t *>(y), stride, wide, 1, n);
  case 4:
    return convert<uint32_t, int64_t>(static_cast<uint32_t *>(y), stride, wide, 1, n);
  default:
    return convert<uint64_t, int64_t>(static_cast<uint64_t *>(y), stride, wide, 1, n);
  }
}
MLBRIDGE_OUTLINE inline void load(double *wide, const void *x, int64_t type, int64_t stride,
                                  int64_t n) {
  if (type == Float32)
    return convert<double, float>(wide, 1, x, stride, n);
  if (type == Float64)
    return convert<double, double>(wide, 1, x, stride, n);
  for (int64_t i = 0; i < n; ++i)
    wide[i] = static_cast<double>(widen(static_cast<const Half16 *>(x)[i * stride]));
}
/// Stores numbers rounded to nearest.
MLBRIDGE_OUTLINE inline void store(void *y, int64_t type, int64_t stride, const double *wide,
                                   int64_t n) {
  if (type == Float32)
    return convert<float, double>(static_cast<float *>(y), stride, wide, 1, n);
  if (type == Float64)
    return convert<double, double>(static_cast<double *>(y), stride, wide, 1, n);
  for (int64_t i = 0; i < n; ++i)
    static_cast<Half16 *>(y)[i * stride] = narrow(wide[i]);
}
/// A result of arithmetic in double as the type itself would have rounded it: for one sum, product,
/// quotient or root of floats that is the same.
inline double roundTo(int64_t type, double x) {
  return type == Float32 ? static_cast<double>(static_cast<float>(x)) : x;
}
/// Makes uint64 compare as int64 do.
inline void order(int64_t *wide, int64_t type, int64_t n) {
  if (type == UInt64)
    for (int64_t i = 0; i < n; ++i)
      wide[i] ^= INT64_MIN;
}
inline void order(double *, int64_t, int64_t) {}
inline int64_t orderedAt(const void *x, int64_t type, int64_t i) {
  int64_t value;
  load(&value, element(x, type, i), type, 1, 1);
  order(&value, type, 1);
  return value;
}

/// Calls body(first, count) for pieces of n.
template <class Body> MLBRIDGE_INLINE void eachPiece(int64_t n, const Body &body) {
  for (int64_t i = 0; i < n; i += Piece)
    body(i, n - i < Piece ? n - i : Piece);
}

/// Calls body(number of the first in y, a, b, count) for pieces of rows, where y is dense.
template <class Wide, class Body>
MLBRIDGE_INLINE void eachPieceOfTwo(void *const *o, int64_t type, int64_t rank,
                                    const int64_t *dimensions, const Body &body) {
  const int64_t *last = dimensions + (rank - 1) * 3;
  int64_t y = 0;
  eachRow<2>(rank, dimensions, [&](const int64_t *at) {
    eachPiece(last[0], [&](int64_t i, int64_t n) {
      Wide a[Piece], b[Piece];
      load(a, element(o[1], type, at[0] + i * last[1]), type, last[1], n);
      load(b, element(o[2], type, at[1] + i * last[2]), type, last[2], n);
      body(y + i, a, b, n);
    });
    y += last[0];
  });
}

// ---- Cast ---------------------------------------------------------------------------------------

inline void Cast(Operands o, Parameters p) {
  const int64_t from = p[0], to = p[1];
  eachPiece(p[2], [&](int64_t first, int64_t n) {
    const void *x = element(o[1], from, first);
    void *y = element(o[0], to, first);
    int64_t integers[Piece];
    double reals[Piece];
    if (isReal(from)) {
      load(reals, x, from, 1, n);
      if (isReal(to))
        return store(y, to, 1, reals, n);
      for (int64_t i = 0; i < n; ++i)
        integers[i] = to == Bool     ? reals[i] != 0
                      : to == UInt64 ? static_cast<int64_t>(truncateUnsigned(reals[i]))
                                     : truncate(reals[i]);
      return store(y, to, 1, integers, n);
    }
    load(integers, x, from, 1, n);
    if (to == Float32) { // in one rounding
      for (int64_t i = 0; i < n; ++i)
        static_cast<float *>(y)[i] = from == UInt64
                                         ? static_cast<float>(static_cast<uint64_t>(integers[i]))
                                         : static_cast<float>(integers[i]);
      return;
    }
    if (isReal(to)) {
      for (int64_t i = 0; i < n; ++i)
        reals[i] = from == UInt64 ? static_cast<double>(static_cast<uint64_t>(integers[i]))
                                  : static_cast<double>(integers[i]);
      return store(y, to, 1, reals, n);
    }
    if (to == Bool)
      for (int64_t i = 0; i < n; ++i)
        integers[i] = integers[i] != 0;
    store(y, to, 1, integers, n);
  });
}

// ---- elementwise -------------------------------------------------------------------------------

inline int64_t power(int64_t base, int64_t exponent, bool isSigned) {
  if (isSigned && exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e; e >>= 1, factor *= factor)
    if (e & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

inline int64_t divide(int64_t a, int64_t b, bool isSigned, IntegerOp op) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  if (b == 0)
    return 0;
  if (!isSigned)
    return static_cast<int64_t>(op == IntegerOp::Div ? ua / ub : ua % ub);
  if (b == -1) // the least number divided by -1 overflows
    return op == IntegerOp::Div ? static_cast<int64_t>(0 - ua) : 0;
  if (op == IntegerOp::Div)
    return a / b;
  const int64_t rest = a % b;
  return op == IntegerOp::Mod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

MLBRIDGE_OUTLINE inline int64_t integerOp(IntegerOp op, int64_t type, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool isSigned = !isUnsigned(type);
  const auto bits = static_cast<uint64_t>(8 * widthOf(type));
  switch (op) {
  case IntegerOp::Add:
    return static_cast<int64_t>(ua + ub);
  case IntegerOp::Sub:
    return static_cast<int64_t>(ua - ub);
  case IntegerOp::Mul:
    return static_cast<int64_t>(ua * ub);
  case IntegerOp::Div:
  case IntegerOp::Mod:
  case IntegerOp::Rem:
    return divide(a, b, isSigned, op);
  case IntegerOp::Pow:
    return power(a, b, isSigned);
  case IntegerOp::Min:
    return (isSigned ? b < a : ub < ua) ? b : a;
  case IntegerOp::Max:
    return (isSigned ? a < b : ua < ub) ? b : a;
  case IntegerOp::And:
    return a & b;
  case IntegerOp::Or:
    return a | b;
  case IntegerOp::Xor:
    return a ^ b;
  case IntegerOp::ShiftLeft:
    return ub >= bits ? 0 : static_cast<int64_t>(ua << ub);
  case IntegerOp::ShiftRight:
    if (isSigned) // what is shifted in is the sign
      return a >> (ub >= bits ? 63 : ub);
    return ub >= bits ? 0 : static_cast<int64_t>(ua >> ub);
  default:
    return 0;
  }
}

inline void IntegerFunction(Operands o, Parameters p) {
  const auto op = static_cast<IntegerOp>(p[0]);
  const int64_t type = p[1];
  using Wide = int64_t;
  eachPieceOfTwo<Wide>(o, type, p[2], p + 3, [&](int64_t y, Wide *a, Wide *b, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      a[i] = integerOp(op, type, a[i], b[i]);
    store(element(o[0], type, y), type, 1, a, n);
  });
}

inline void Fmod(Operands o, Parameters p) {
  const int64_t type = p[0];
  eachPieceOfTwo<double>(o, type, p[2], p + 3,
                         [&](int64_t y, double *a, const double *b, int64_t n) {
                           for (int64_t i = 0; i < n; ++i) {
                             a[i] = __builtin_fmod(a[i], b[i]); // exact
                             if (p[1] && a[i] != 0 && (a[i] < 0) != (b[i] < 0))
                               a[i] += b[i];
                           }
                           store(element(o[0], type, y), type, 1, a, n);
                         });
}

// ---- along one axis ----------------------------------------------------------------------------

/// Calls body(first of x, number of the result) for each line of [outer, n, inner].
template <class Body> MLBRIDGE_INLINE void eachLine(const int64_t *p, const Body &body) {
  const int64_t outer = p[0], n = p[1], inner = p[2];
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t k = 0; k < inner; ++k)
      body(i * n * inner + k, i * inner + k);
}

inline void IntegerReduce(Operands o, Parameters p) {
  const auto op = static_cast<ReduceOp>(p[0]);
  const int64_t type = p[1], n = p[3], inner = p[4];
  const bool isSigned = !isUnsigned(type);
  const bool greatest = op == ReduceOp::Max, extreme = greatest || op == ReduceOp::Min;
  // The extreme of nothing is the least or greatest number.
  const int64_t least =
      isSigned ? static_cast<int64_t>(~uint64_t(0) << (8 * widthOf(type) - 1)) : 0;
  const int64_t none = greatest ? least : type == Bool ? 1 : ~least;
  eachLine(p + 2, [&](int64_t from, int64_t to) {
    uint64_t sum = op == ReduceOp::Prod;
    int64_t best = none;
    order(&best, type, 1);
    if (n)
      best = orderedAt(o[1], type, from);
    eachPiece(n, [&](int64_t first, int64_t count) {
      int64_t values[Piece];
      load(values, element(o[1], type, from + first * inner), type, inner, count);
      if (extreme)
        order(values, type, count);
      for (int64_t j = 0; j < count; ++j) {
        const auto wide = static_cast<uint64_t>(values[j]);
        if (extreme)
          best = (greatest ? best < values[j] : values[j] < best) ? values[j] : best;
        else if (op == ReduceOp::Prod)
          sum *= wide;
        else if (op == ReduceOp::L1)
          sum += isSigned && values[j] < 0 ? 0 - wide : wide;
        else
          sum += op == ReduceOp::SumSquare ? wide * wide : wide;
      }
    });
    order(&best, type, 1);
    auto result = extreme ? best : static_cast<int64_t>(sum);
    if (op == ReduceOp::Mean && n)
      result = isSigned ? result / n : static_cast<int64_t>(sum / static_cast<uint64_t>(n));
    store(element(o[0], type, to), type, 1, &result, 1);
  });
}

/// A number as an integer, in the same order. NaN is what `nan` says.
MLBRIDGE_OUTLINE inline int64_t keyAt(const void *x, int64_t type, int64_t i, int64_t nan) {
  if (!isReal(type))
    return orderedAt(x, type, i);
  double value;
  load(&value, element(x, type, i), type, 1, 1);
  if (value != value)
    return nan;
  value += 0.0; // which makes 0 of −0
  int64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

template <class T>
inline int64_t passOver(const void *x, int64_t i, int64_t n, int64_t stride, const void *bound,
                        bool largest) {
  const T *from = static_cast<const T *>(x);
  const T best = *static_cast<const T *>(bound);
  if (largest)
    while (i < n && from[i * stride] <= best)
      ++i;
  else
    while (i < n && from[i * stride] >= best)
      ++i;
  return i;
}
/// The first element from i on that may be greater, or less, than that at `bound`; n without one.
MLBRIDGE_OUTLINE inline int64_t nextBetter(int64_t type, const void *x, int64_t i, int64_t n,
                                           int64_t stride, int64_t bound, bool largest) {
  const void *best = element(x, type, bound * stride);
  switch (type) {
  case Int8:
    return passOver<int8_t>(x, i, n, stride, best, largest);
  case Int16:
    return passOver<int16_t>(x, i, n, stride, best, largest);
  case Int32:
    return passOver<int32_t>(x, i, n, stride, best, largest);
  case Int64:
    return passOver<int64_t>(x, i, n, stride, best, largest);
  case UInt16:
    return passOver<uint16_t>(x, i, n, stride, best, largest);
  case UInt32:
    return passOver<uint32_t>(x, i, n, stride, best, largest);
  case UInt64:
    return passOver<uint64_t>(x, i, n, stride, best, largest);
  case Float32:
    return passOver<float>(x, i, n, stride, best, largest);
  case Float64:
    return passOver<double>(x, i, n, stride, best, largest);
  default:
    return passOver<uint8_t>(x, i, n, stride, best, largest);
  }
}

inline void BestIndex(Operands o, Parameters p) {
  const int64_t type = p[0], n = p[2], inner = p[3];
  const bool last = p[4] != 0, largest = p[5] != 0;
  const int64_t nan = largest ? INT64_MAX : INT64_MIN;
  eachLine(p + 1, [&](int64_t from, int64_t to) {
    // From the end, if the last of equals counts.
    const void *x = element(o[1], type, last ? from + (n - 1) * inner : from);
    const int64_t stride = last ? -inner : inner;
    int64_t best = 0, most = n ? keyAt(x, type, 0, nan) : nan;
    for (int64_t i = 1; most != nan; ++i) {
      i = nextBetter(type, x, i, n, stride, best, largest);
      if (i >= n)
        break;
      const int64_t key = keyAt(x, type, i * stride, nan);
      if (largest ? key > most : key < most) {
        best = i;
        most = key;
      }
    }
    static_cast<int64_t *>(o[0])[to] = last ? n - 1 - best : best;
  });
}

/// The best few, found by insertion: greater keys come first, of equals the lower index.
template <class KeyOf, class Next>
MLBRIDGE_INLINE void insertBest(int64_t *indices, int64_t count, int64_t n, int64_t stride,
                                const KeyOf &keyOf, const Next &next) {
  int64_t keys[MostInserted];
  int64_t filled = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (filled == count)
      i = next(i, indices[(count - 1) * stride]);
    if (i >= n)
      break;
    const int64_t key = keyOf(i);
    if (filled == count && key <= keys[count - 1])
      continue;
    int64_t at = filled < count ? filled++ : count - 1;
    for (; at > 0 && keys[at - 1] < key; --at) {
      keys[at] = keys[at - 1];
      indices[at * stride] = indices[(at - 1) * stride];
    }
    keys[at] = key;
    indices[at * stride] = i;
  }
}

inline void TopK(Operands o, Parameters p) {
  const int64_t type = p[0], n = p[2], inner = p[3], count = p[4];
  const bool largest = p[5] != 0;
  auto *keys = static_cast<int64_t *>(o[3]);
  eachLine(p + 1, [&](int64_t from, int64_t to) {
    to = to / inner * count * inner + to % inner;
    auto *indices = static_cast<int64_t *>(o[1]) + to;
    const void *x = element(o[2], type, from);
    const auto keyOf = [&](int64_t i) {
      const int64_t key = keyAt(x, type, i * inner, INT64_MAX);
      return largest ? key : ~key;
    };
    const auto next = [&](int64_t i, int64_t worst) {
      i = nextBetter(type, x, i, n, inner, worst, largest);
      if (keys && i < n)
        keys[i] = keyOf(i);
      return i;
    };
    if (count > MostInserted) {
      for (int64_t i = 0; i < count; ++i)
        keys[i] = keyOf(i);
      const auto before = [&](int64_t a, int64_t b) {
        return keys[a] == keys[b] ? a < b : keys[a] > keys[b];
      };
      bestOf(indices, count, n, inner, before, next);
    } else if (count > 0) {
      insertBest(indices, count, n, inner, keyOf, next);
    }
    for (int64_t m = 0; m < count; ++m)
      moveOne(element(o[0], type, to + m * inner), element(x, type, indices[m * inner] * inner),
              widthOf(type));
  });
}

inline void Unique(Operands o, Parameters p) {
  const int64_t type = p[0], n = p[1], m = p[2];
  const bool sorted = p[3] != 0;
  auto *first = static_cast<int64_t *>(o[1]), *inverse = static_cast<int64_t *>(o[2]),
       *counts = static_cast<int64_t *>(o[3]), *order = static_cast<int64_t *>(o[5]);
  const auto compare = [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < m; ++i) {
      const int64_t left = keyAt(o[4], type, a * m + i, INT64_MAX);
      const int64_t right = keyAt(o[4], type, b * m + i, INT64_MAX);
      if (left != right)
        return left < right ? -1 : 1;
    }
    return 0;
  };
  const auto before = [&](int64_t a, int64_t b) {
    const int result = compare(a, b);
    return result ? result < 0 : a < b;
  };
  bestOf(order, n, n, 1, before, [](int64_t i, int64_t) { return i; });
  for (int64_t i = 0, head = 0; i < n; ++i) {
    if (i == 0 || compare(order[i - 1], order[i]))
      head = order[i];
    inverse[order[i]] = head;
  }
  int64_t number = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t row = sorted ? order[i] : i, head = inverse[row];
    if (head == row) {
      first[number] = row;
      counts[number] = 0;
      order[sorted ? i : row] = number++;
    }
    inverse[row] = sorted ? number - 1 : order[head];
    ++counts[inverse[row]];
  }
  *static_cast<int64_t *>(o[0]) = number;
}

/// Elimination with the greatest pivot of each column.
inline void Det(Operands o, Parameters p) {
  const int64_t n = p[1];
  for (int64_t b = 0; b < p[0]; ++b) {
    auto *a = static_cast<double *>(o[2]);
    __builtin_memcpy(a, static_cast<const double *>(o[1]) + b * n * n,
                     static_cast<size_t>(n * n) * sizeof *a);
    double product = 1;
    for (int64_t c = 0; c < n; ++c) {
      int64_t best = c;
      for (int64_t row = c + 1; row < n; ++row)
        if (__builtin_fabs(a[row * n + c]) > __builtin_fabs(a[best * n + c]))
          best = row;
      const double pivot = a[best * n + c];
      product *= best == c ? pivot : -pivot;
      if (pivot == 0)
        break;
      for (int64_t i = c; i < n; ++i) {
        const double other = a[best * n + i];
        a[best * n + i] = a[c * n + i];
        a[c * n + i] = other;
      }
      for (int64_t row = c + 1; row < n; ++row) {
        const double factor = a[row * n + c] / pivot;
        for (int64_t i = c; i < n; ++i)
          a[row * n + i] -= factor * a[c * n + i];
      }
    }
    static_cast<double *>(o[0])[b] = product;
  }
}

inline void F32FromBF16(Operands o, Parameters p) {
  for (int64_t i = 0; i < p[0]; ++i)
    static_cast<uint32_t *>(o[0])[i] = uint32_t(static_cast<const uint16_t *>(o[1])[i]) << 16;
}

inline void BF16FromF32(Operands o, Parameters p) {
  for (int64_t i = 0; i < p[0]; ++i) {
    const uint32_t bits = static_cast<const uint32_t *>(o[1])[i];
    const bool isNan = (bits & 0x7fffffff) > 0x7f800000;
    const uint32_t rounded = isNan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
    static_cast<uint16_t *>(o[0])[i] = static_cast<uint16_t>(rounded >> 16);
  }
}

inline void Accumulate(Operands o, Parameters p) {
  const int64_t type = p[0], n = p[3], inner = p[4];
  const bool product = p[1] != 0, exclusive = p[5] != 0, reverse = p[6] != 0;
  const int64_t stride = reverse ? -inner : inner;
  eachLine(p + 2, [&](int64_t from, int64_t) {
    if (reverse)
      from += (n - 1) * inner;
    uint64_t sum = product;
    double realSum = product;
    eachPiece(n, [&](int64_t first, int64_t count) {
      const void *x = element(o[1], type, from + first * stride);
      void *y = element(o[0], type, from + first * stride);
      if (isReal(type)) {
        double values[Piece];
        load(values, x, type, stride, count);
        for (int64_t j = 0; j < count; ++j) {
          const double before = realSum;
          realSum = roundTo(type, product ? realSum * values[j] : realSum + values[j]);
          values[j] = exclusive ? before : realSum;
        }
        return store(y, type, stride, values, count);
      }
      int64_t values[Piece];
      load(values, x, type, stride, count);
      for (int64_t j = 0; j < count; ++j) {
        const uint64_t before = sum, value = static_cast<uint64_t>(values[j]);
        sum = product ? sum * value : sum + value;
        values[j] = static_cast<int64_t>(exclusive ? before : sum);
      }
      store(y, type, stride, values, count);
    });
  });
}

inline void Range(Operands o, Parameters p) {
  const int64_t type = p[0];
  if (isReal(type)) {
    double start, delta;
    load(&start, o[1], type, 1, 1);
    load(&delta, o[2], type, 1, 1);
    for (int64_t i = 0; i < p[1]; ++i) {
      const double share = roundTo(type, roundTo(type, static_cast<double>(i)) * delta);
      const double value = start + share;
      store(element(o[0], type, i), type, 1, &value, 1);
    }
    return;
  }
  int64_t start, delta;
  load(&start, o[1], type, 1, 1);
  load(&delta, o[2], type, 1, 1);
  for (int64_t i = 0; i < p[1]; ++i) {
    store(element(o[0], type, i), type, 1, &start, 1);
    start = static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(delta));
  }
}

} // namespace mlbridge::native::kernels

#endif
