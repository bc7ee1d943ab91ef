// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels over all element types whose arithmetic is exact, or not worth a vector. A "type" is a
// Type of kernel.h.
//
// IntegerFunction {y, a, b}
//                {IntegerOp from Div on, type of 32 or 64 bits, rank, then for each dimension:
//                length, stride of a, of b}  y is dense. Overflow wraps; division by 0 gives 0.
// Fmod           {y, a, b}  {type (float32, float64), whether the sign is that of b (0: of a),
//                rank, as above}
// BestIndex      {y int64 [outer, inner], x}
//                {type, outer, n, inner, last (0 or 1: which of equals), largest (0, 1)}
//                NaN wins, the first or last of them.
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
// Range          {y, start, delta}  {type, count}
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_GENERIC_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_GENERIC_H

#include "blocks.h"

namespace mlbridge::native {

/// TopK inserts so many; of more it makes a heap.
constexpr int64_t MostInserted = 64;

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

// ---- elementwise -------------------------------------------------------------------------------

MLBRIDGE_OUTLINE inline int64_t integerOp(IntegerOp op, int64_t type, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const bool isSigned = !isUnsigned(type);
  switch (op) {
  case IntegerOp::Add:
    return static_cast<int64_t>(ua + ub);
  case IntegerOp::Mul:
    return static_cast<int64_t>(ua * ub);
  case IntegerOp::Min:
    return (isSigned ? b < a : ub < ua) ? b : a;
  default:
    return (isSigned ? a < b : ua < ub) ? b : a;
  }
}

template <class T> MLBRIDGE_INLINE T power(T base, T exponent) {
  using Unsigned = typename WrapsAs<T>::Type;
  if (exponent < 0)
    return base == 1 ? 1 : base == T(-1) ? (exponent & 1 ? T(-1) : 1) : 0;
  Unsigned result = 1, factor = static_cast<Unsigned>(base);
  for (auto e = static_cast<Unsigned>(exponent); e; e >>= 1, factor *= factor)
    if (e & 1)
      result *= factor;
  return static_cast<T>(result);
}

template <class T> MLBRIDGE_INLINE T divide(IntegerOp op, T a, T b) {
  constexpr bool IsSigned = T(-1) < T(0);
  if (b == 0)
    return 0;
  if (IsSigned && b == T(-1)) // the least number divided by -1 overflows
    return op == IntegerOp::Div ? T(0 - static_cast<typename WrapsAs<T>::Type>(a)) : 0;
  if (op == IntegerOp::Div)
    return a / b;
  const T rest = a % b;
  // Without a branch that depends on the numbers.
  const bool isOff = op == IntegerOp::Mod && (rest != 0) & ((rest ^ b) < 0);
  return rest + T(isOff) * b;
}

/// What is shifted in on the right is the sign.
template <class T> MLBRIDGE_INLINE T shift(bool isLeft, T a, T b) {
  using Unsigned = typename WrapsAs<T>::Type;
  constexpr Unsigned Last = 8 * sizeof(T) - 1;
  const auto by = static_cast<Unsigned>(b);
  if (isLeft)
    return by > Last ? 0 : static_cast<T>(static_cast<Unsigned>(a) << by);
  return by <= Last ? a >> by : a < 0 ? T(-1) : 0;
}

/// Powers to one exponent, which is positive: from the highest of its bits on.
template <class T>
MLBRIDGE_OUTLINE void powersOf(T *y, const T *a, int64_t stride, T exponent, int64_t n) {
  const int first = 62 - __builtin_clzll(exponent);
  for (int64_t i = 0; i < n; ++i, a += stride) {
    T power = *a;
    for (int bit = first; bit >= 0; --bit) {
      power *= power;
      if (exponent >> bit & 1)
        power *= *a;
    }
    y[i] = power;
  }
}

template <class T>
MLBRIDGE_OUTLINE void integerRow(IntegerOp op, void *to, const void *as, int64_t strideA,
                                 const void *bs, int64_t strideB, int64_t n) {
  T *y = static_cast<T *>(to);
  const T *a = static_cast<const T *>(as), *b = static_cast<const T *>(bs);
  using Unsigned = typename WrapsAs<T>::Type;
  if (op == IntegerOp::Pow && strideB == 0 && *b > 0)
    return powersOf(reinterpret_cast<Unsigned *>(y), reinterpret_cast<const Unsigned *>(a), strideA,
                    static_cast<Unsigned>(*b), n);
  for (int64_t i = 0; i < n; ++i, a += strideA, b += strideB)
    if (op == IntegerOp::ShiftLeft || op == IntegerOp::ShiftRight)
      y[i] = shift(op == IntegerOp::ShiftLeft, *a, *b);
    else
      y[i] = op == IntegerOp::Pow ? power(*a, *b) : divide(op, *a, *b);
}
inline void IntegerFunction(Operands o, Parameters p) {
  const int64_t type = p[1], width = widthOf(type), *last = p + 3 + (p[2] - 1) * 3;
  const auto row = type == Int32    ? integerRow<int32_t>
                   : type == UInt32 ? integerRow<uint32_t>
                   : type == Int64  ? integerRow<int64_t>
                                    : integerRow<uint64_t>;
  char *y = static_cast<char *>(o[0]);
  eachRow<2>(p[2], p + 3, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    row(static_cast<IntegerOp>(p[0]), y, element(o[1], type, at[0]), last[1],
        element(o[2], type, at[1]), last[2], last[0]);
    y += last[0] * width;
  });
}

/// Exact. Below 2^52 the quotient is right, or one too great.
inline double remainderOf(double a, double b) {
  const double quotient = a / b;
  if (!(__builtin_fabs(quotient) < 0x1p52 && __builtin_fabs(b) < __builtin_inf()))
    return __builtin_fmod(a, b);
  const double rest = __builtin_fma(-static_cast<double>(static_cast<int64_t>(quotient)), b, a);
  const bool isOver = (rest != 0) & ((__builtin_signbit(rest) != 0) != (__builtin_signbit(a) != 0));
  return __builtin_copysign(isOver ? __builtin_fabs(b) - __builtin_fabs(rest) : rest, a);
}

inline void Fmod(Operands o, Parameters p) {
  const int64_t type = p[0];
  eachPieceOfTwo<double>(o, type, p[2], p + 3,
                         [&](int64_t y, double *a, const double *b, int64_t n) {
                           for (int64_t i = 0; i < n; ++i) {
                             a[i] = remainderOf(a[i], b[i]);
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

/// The types that are passed over by the block, for each their mask.
template <class T> struct MaskOf {
  static constexpr bool HasBlocks = false;
};
template <> struct MaskOf<uint8_t> {
  static constexpr bool HasBlocks = true;
  using Type = uint8_t;
};
template <> struct MaskOf<float> {
  static constexpr bool HasBlocks = true;
  using Type = uint32_t;
};
template <class T, class IsWorse>
MLBRIDGE_INLINE int64_t passWorse(const T *from, int64_t i, int64_t n, int64_t stride,
                                  const IsWorse &isWorse) {
  if constexpr (MaskOf<T>::HasBlocks)
    for (constexpr int64_t Few = 16; stride == 1 && i + Few <= n; i += Few) {
      typename MaskOf<T>::Type misses = 0;
      for (int64_t k = 0; k < Few; ++k)
        misses |= !isWorse(from[i + k]);
      if (misses)
        break;
    }
  while (i < n && isWorse(from[i * stride]))
    ++i;
  return i;
}
template <class T>
inline int64_t passOver(const void *x, int64_t i, int64_t n, int64_t stride, const void *bound,
                        bool largest) {
  const T *from = static_cast<const T *>(x);
  const T best = *static_cast<const T *>(bound);
  return largest ? passWorse(from, i, n, stride, [best](T a) MLBRIDGE_ALWAYS { return a <= best; })
                 : passWorse(from, i, n, stride, [best](T a) MLBRIDGE_ALWAYS { return a >= best; });
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

template <class T> MLBRIDGE_INLINE void rangeOf(Operands o, int64_t n) {
  T *y = static_cast<T *>(o[0]);
  const T start = *static_cast<const T *>(o[1]), delta = *static_cast<const T *>(o[2]);
  if constexpr (T(0.5) != 0) {
    for (int64_t i = 0; i < n; ++i)
      y[i] = start + static_cast<T>(i) * delta;
  } else {
    typedef T Many __attribute__((vector_size(16)));
    constexpr int64_t Each = sizeof(Many) / sizeof(T);
    Many many;
    for (int64_t k = 0; k < Each; ++k)
      many[k] = start + static_cast<T>(k) * delta;
    int64_t i = 0;
    for (; i + Each <= n; i += Each, many += static_cast<T>(Each) * delta)
      __builtin_memcpy(y + i, &many, sizeof many);
    for (; i < n; ++i)
      y[i] = start + static_cast<T>(i) * delta;
  }
}
inline void Range(Operands o, Parameters p) {
  const int64_t type = p[0], n = p[1];
  if (type == Float32)
    return rangeOf<float>(o, n);
  if (type == Float64)
    return rangeOf<double>(o, n);
  if (type == Int32)
    return rangeOf<uint32_t>(o, n);
  if (type == Int64)
    return rangeOf<uint64_t>(o, n);
  int64_t value, delta;
  load(&value, o[1], type, 1, 1);
  load(&delta, o[2], type, 1, 1);
  for (int64_t i = 0; i < n; ++i) {
    store(element(o[0], type, i), type, 1, &value, 1);
    value = static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(delta));
  }
}

} // namespace mlbridge::native::kernels

#endif
