// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integers, comparisons and conversions, as vectors of an instruction set: plain loops over blocks
// of a fixed length, which compilers make vectors of. A "type" is a Type of kernel.h.
//
// IntegerBinary  {y, a, b}
//                {IntegerOp from Add to Sign, type, rank, then for each dimension: length, stride
//                of a, of b}  y is dense. Overflow wraps. Abs and Sign are of a.
// Compare        {y bool, a, b}  {CompareOp, type (no half), rank, as above}  Of integers only
//                Equal, Less and Greater.
// Convert        {y, x}  {from type, to type, count}  Types but half, and to bool; as Cast.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_BLOCKS_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_BLOCKS_H

#include "movement.h"

namespace mlbridge::native {

enum class IntegerOp : int64_t {
  Add,
  Sub,
  Mul,
  Min,
  Max,
  And,
  Or,
  Xor,
  Abs,
  Sign, // those up to here are IntegerBinary's, the others IntegerFunction's
  Div,
  Mod,
  Rem,
  Pow,
  ShiftLeft,
  ShiftRight
};
enum class CompareOp : int64_t { Equal, Less, LessOrEqual, Greater, GreaterOrEqual };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

/// Bytes of an element of a type.
MLBRIDGE_INLINE int64_t widthOf(int64_t type) {
  constexpr uint8_t Widths[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8, 1}; // by Type
  return Widths[type];
}
MLBRIDGE_INLINE bool isReal(int64_t type) { return type >= Float16 && type <= Float64; }
MLBRIDGE_INLINE bool isUnsigned(int64_t type) {
  return (type >= UInt8 && type <= UInt64) || type == Bool;
}
/// Truncated towards zero; beyond 64 bits the least number.
MLBRIDGE_INLINE int64_t truncate(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<int64_t>(x)
                                                                  : INT64_MIN;
}
MLBRIDGE_INLINE uint64_t truncateUnsigned(double x) {
  return x >= 9223372036854775808.0 && x < 18446744073709551616.0
             ? static_cast<uint64_t>(x)
             : static_cast<uint64_t>(truncate(x));
}

// ---- rows ---------------------------------------------------------------------------------------

/// GCC 12 makes vectors of so many at -O2.
constexpr int64_t Block = 32;
constexpr int64_t BlockBytes = 8 * Block;

/// y[i] = f(a[i], b[i]). In the library n is a multiple of Block, and a stride of 0 repeats a
/// block.
using Row = void (*)(void *y, const void *a, int64_t strideA, const void *b, int64_t strideB,
                     int64_t n);
template <class Isa, class To, class From, class F>
MLBRIDGE_SHARED void computeRow(void *to, const void *as, int64_t strideA, const void *bs,
                                int64_t strideB, int64_t n) {
  auto *__restrict y = static_cast<To *>(to);
  const auto *__restrict a = static_cast<const From *>(as);
  const auto *__restrict b = static_cast<const From *>(bs);
#ifdef MLBRIDGE_NATIVE_SPECIALIZE
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<To>(F::apply(a[i * strideA], b[i * strideB]));
#else
  for (; n > 0; n -= Block, y += Block, a += strideA * Block, b += strideB * Block)
#ifndef __clang__ // which doesn't know it
#pragma GCC ivdep
#endif
    for (int64_t k = 0; k < Block; ++k)
      y[k] = static_cast<To>(F::apply(a[k], b[k]));
#endif
}

/// Brings n elements together.
template <class Isa>
MLBRIDGE_SHARED void bring(void *block, const void *x, int64_t width, int64_t stride, int64_t n) {
  withWidth(width, [&](auto element) MLBRIDGE_ALWAYS {
    auto *to = static_cast<decltype(element) *>(block);
    const auto *from = static_cast<const decltype(element) *>(x);
    for (int64_t k = 0; k < n; ++k)
      moveAs(to + k, from + k * stride);
  });
}

/// Rows of y, which is dense; `dimensions` as for eachRow<2>.
template <class Isa>
MLBRIDGE_SHARED void computeRows(Row row, Operands o, int64_t widthY, int64_t width, int64_t rank,
                                 const int64_t *dimensions) {
  const int64_t *last = dimensions + (rank - 1) * 3;
  const int64_t n = last[0];
  char *y = static_cast<char *>(o[0]);
#ifndef MLBRIDGE_NATIVE_SPECIALIZE
  alignas(64) char blocks[3][BlockBytes] = {};
#endif
  eachRow<2>(rank, dimensions, [&](const int64_t *at) MLBRIDGE_ALWAYS {
    const char *from[] = {static_cast<const char *>(o[1]) + at[0] * width,
                          static_cast<const char *>(o[2]) + at[1] * width};
#ifdef MLBRIDGE_NATIVE_SPECIALIZE
    row(y, from[0], last[1], from[1], last[2], n);
#else
    for (int64_t i = 0, count; i < n; i += count) {
      const bool isWhole = n - i >= Block;
      count = isWhole ? (n - i) / Block * Block : n - i;
      const void *source[2];
      int64_t steps[2];
      for (int s = 0; s < 2; ++s) {
        const int64_t stride = last[1 + s];
        source[s] = blocks[s];
        steps[s] = 0;
        if (stride == 1 && isWhole) {
          source[s] = from[s] + i * width;
          steps[s] = 1;
        } else if (stride == 1) {
          __builtin_memcpy(blocks[s], from[s] + i * width, static_cast<size_t>(count * width));
        } else if (stride != 0) {
          count = isWhole ? Block : count;
          bring<Isa>(blocks[s], from[s] + i * stride * width, width, stride, count);
        } else if (i == 0) {
          bring<Isa>(blocks[s], from[s], width, 0, Block);
        }
      }
      row(isWhole ? y + i * widthY : blocks[2], source[0], steps[0], source[1], steps[1],
          isWhole ? count : Block);
      if (!isWhole)
        __builtin_memcpy(y + i * widthY, blocks[2], static_cast<size_t>(count * widthY));
    }
#endif
    y += n * widthY;
  });
}

template <class Isa, class F> MLBRIDGE_INLINE Row byWidth(int64_t type) {
  switch (widthOf(type)) {
  case 1:
    return computeRow<Isa, uint8_t, uint8_t, F>;
  case 2:
    return computeRow<Isa, uint16_t, uint16_t, F>;
  case 4:
    return computeRow<Isa, uint32_t, uint32_t, F>;
  default:
    return computeRow<Isa, uint64_t, uint64_t, F>;
  }
}
template <class Isa, class F> MLBRIDGE_INLINE Row bySignedType(int64_t type) {
  switch (type) {
  case Int8:
    return computeRow<Isa, typename F::template To<int8_t>, int8_t, F>;
  case Int16:
    return computeRow<Isa, typename F::template To<int16_t>, int16_t, F>;
  case Int32:
    return computeRow<Isa, typename F::template To<int32_t>, int32_t, F>;
  default:
    return computeRow<Isa, typename F::template To<int64_t>, int64_t, F>;
  }
}
template <class Isa, class F> MLBRIDGE_INLINE Row byType(int64_t type) {
  switch (type) {
  case UInt16:
    return computeRow<Isa, typename F::template To<uint16_t>, uint16_t, F>;
  case UInt32:
    return computeRow<Isa, typename F::template To<uint32_t>, uint32_t, F>;
  case UInt64:
    return computeRow<Isa, typename F::template To<uint64_t>, uint64_t, F>;
  case UInt8:
  case Bool:
    return computeRow<Isa, typename F::template To<uint8_t>, uint8_t, F>;
  default:
    return bySignedType<Isa, F>(type);
  }
}

// ---- integers -----------------------------------------------------------------------------------

/// An unsigned type that doesn't become a signed one in arithmetic.
template <class T> struct WrapsAs {
  using Type = uint32_t;
};
template <> struct WrapsAs<uint64_t> {
  using Type = uint64_t;
};
template <> struct WrapsAs<int64_t> {
  using Type = uint64_t;
};
#define MLBRIDGE_ROW(Name, Result, expression)                                                     \
  struct Name##Row {                                                                               \
    template <class T> using To = Result;                                                          \
    template <class T> static MLBRIDGE_INLINE auto apply(T a, T b) {                               \
      using W [[maybe_unused]] = typename WrapsAs<T>::Type;                                        \
      (void)b;                                                                                     \
      return expression;                                                                           \
    }                                                                                              \
  };
MLBRIDGE_ROW(Add, T, W(a) + W(b))
MLBRIDGE_ROW(Sub, T, W(a) - W(b))
MLBRIDGE_ROW(Mul, T, W(a) * W(b))
MLBRIDGE_ROW(And, T, a &b)
MLBRIDGE_ROW(Or, T, a | b)
MLBRIDGE_ROW(Xor, T, a ^ b)
MLBRIDGE_ROW(Min, T, b < a ? b : a)
MLBRIDGE_ROW(Max, T, a < b ? b : a)
MLBRIDGE_ROW(Abs, T, a < 0 ? T(W(0) - W(a)) : a)
MLBRIDGE_ROW(Sign, T, T(a > 0) - T(a < 0))
MLBRIDGE_ROW(Equal, uint8_t, a == b)
MLBRIDGE_ROW(Less, uint8_t, a < b)
MLBRIDGE_ROW(LessOrEqual, uint8_t, a <= b)
#undef MLBRIDGE_ROW

template <class Isa> MLBRIDGE_INLINE Row rowOf(IntegerOp op, int64_t type) {
  switch (op) {
  case IntegerOp::Add:
    return byWidth<Isa, AddRow>(type);
  case IntegerOp::Sub:
    return byWidth<Isa, SubRow>(type);
  case IntegerOp::Mul:
    return byWidth<Isa, MulRow>(type);
  case IntegerOp::And:
    return byWidth<Isa, AndRow>(type);
  case IntegerOp::Or:
    return byWidth<Isa, OrRow>(type);
  case IntegerOp::Xor:
    return byWidth<Isa, XorRow>(type);
  case IntegerOp::Min:
    return byType<Isa, MinRow>(type);
  case IntegerOp::Max:
    return byType<Isa, MaxRow>(type);
  case IntegerOp::Abs:
    return bySignedType<Isa, AbsRow>(type);
  default:
    return bySignedType<Isa, SignRow>(type);
  }
}
template <class Isa> MLBRIDGE_INLINE void IntegerBinary(Operands o, Parameters p) {
  const int64_t width = widthOf(p[1]);
  computeRows<Isa>(rowOf<Isa>(static_cast<IntegerOp>(p[0]), p[1]), o, width, width, p[2], p + 3);
}

template <class Isa, class F> MLBRIDGE_INLINE Row comparing(int64_t type) {
  if (type == Float32)
    return computeRow<Isa, uint8_t, float, F>;
  return type == Float64 ? computeRow<Isa, uint8_t, double, F> : byType<Isa, F>(type);
}
template <class Isa> MLBRIDGE_INLINE void Compare(Operands o, Parameters p) {
  const auto op = static_cast<CompareOp>(p[0]);
  // a > b is b < a; the dimensions name the strides of a first.
  int64_t dimensions[3 * MostLoops];
  const bool isSwapped = op == CompareOp::Greater || op == CompareOp::GreaterOrEqual;
  for (int64_t d = 0; d < p[2]; ++d) {
    dimensions[3 * d] = p[3 + 3 * d];
    dimensions[3 * d + 1] = p[4 + 3 * d + isSwapped];
    dimensions[3 * d + 2] = p[5 + 3 * d - isSwapped];
  }
  void *const operands[] = {o[0], o[1 + isSwapped], o[2 - isSwapped]};
  const Row row = op == CompareOp::Equal ? comparing<Isa, EqualRow>(p[1])
                  : op == CompareOp::Less || op == CompareOp::Greater
                      ? comparing<Isa, LessRow>(p[1])
                  : p[1] == Float32 ? computeRow<Isa, uint8_t, float, LessOrEqualRow>
                                    : computeRow<Isa, uint8_t, double, LessOrEqualRow>;
  computeRows<Isa>(row, operands, 1, widthOf(p[1]), p[2], dimensions);
}

// ---- conversions --------------------------------------------------------------------------------

struct SameRow {
  template <class T> static MLBRIDGE_INLINE T apply(T a, T) { return a; }
};
template <class Isa, class To, class From>
constexpr Row ConvertRow = computeRow<Isa, To, From, SameRow>;

/// To int32, int64 or the real type that it is: what all others are made of. Null if it is it.
template <class Isa> MLBRIDGE_INLINE Row widening(int64_t from) {
  switch (from) {
  case Int8:
    return ConvertRow<Isa, int32_t, int8_t>;
  case Int16:
    return ConvertRow<Isa, int32_t, int16_t>;
  case UInt16:
    return ConvertRow<Isa, int32_t, uint16_t>;
  case UInt32:
    return ConvertRow<Isa, int64_t, uint32_t>;
  case UInt8:
  case Bool:
    return ConvertRow<Isa, int32_t, uint8_t>;
  default:
    return nullptr;
  }
}
template <class Isa, class From> MLBRIDGE_INLINE Row toInteger(int64_t to) {
  switch (widthOf(to)) {
  case 1:
    return ConvertRow<Isa, uint8_t, From>;
  case 2:
    return ConvertRow<Isa, uint16_t, From>;
  case 4:
    return ConvertRow<Isa, int32_t, From>;
  default:
    return ConvertRow<Isa, int64_t, From>;
  }
}
template <class Isa, class From> MLBRIDGE_INLINE Row toReal(int64_t to) {
  return to == Float32 ? ConvertRow<Isa, float, From> : ConvertRow<Isa, double, From>;
}

/// Whether all of a multiple of Block fit an int32; NaN doesn't.
template <class Isa, class E> MLBRIDGE_SHARED bool fitInt32(const E *x, int64_t n) {
  int32_t misses = 0;
  for (int64_t i = 0; i < n; i += Block)
    for (int64_t k = 0; k < Block; ++k)
      misses |= !(x[i + k] >= E(-2147483648.0) && x[i + k] < E(2147483648.0));
  return misses == 0;
}
template <class Isa, class E>
MLBRIDGE_SHARED bool truncateAll(void *y, const E *x, int64_t n, bool toUnsigned) {
  if (fitInt32<Isa>(x, n)) {
    ConvertRow<Isa, int32_t, E>(y, x, 1, x, 1, n);
    return true;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double value = static_cast<double>(x[i]);
    static_cast<int64_t *>(y)[i] =
        toUnsigned ? static_cast<int64_t>(truncateUnsigned(value)) : truncate(value);
  }
  return false;
}

template <class Isa> MLBRIDGE_INLINE void Convert(Operands o, Parameters p) {
  constexpr int64_t Piece = 8 * Block;
  const int64_t from = p[0], to = p[1], widthX = widthOf(from), widthY = widthOf(to);
  alignas(64) char first[8 * Piece] = {}, second[8 * Piece], third[8 * Piece];
  for (int64_t i = 0; i < p[2]; i += Piece) {
    const int64_t count = p[2] - i < Piece ? p[2] - i : Piece;
    const int64_t n = (count + Block - 1) / Block * Block;
    const void *x = static_cast<const char *>(o[1]) + i * widthX;
    if (n != count) { // the last block is computed whole
      __builtin_memcpy(first, x, static_cast<size_t>(count * widthX));
      x = first;
    }
    int64_t type = from;
    const auto apply = [&](Row row, void *y) MLBRIDGE_ALWAYS {
      row(y, x, 1, x, 1, n);
      x = y;
    };
    if (const Row row = widening<Isa>(from)) {
      apply(row, second);
      type = from == UInt32 ? Int64 : Int32;
    } else if (isReal(from) && !isReal(to)) {
      const bool isShort =
          from == Float32
              ? truncateAll<Isa>(second, static_cast<const float *>(x), n, to == UInt64)
              : truncateAll<Isa>(second, static_cast<const double *>(x), n, to == UInt64);
      type = isShort ? Int32 : Int64;
      x = second;
    }
    void *const y = static_cast<char *>(o[0]) + i * widthY;
    void *const result = n == count ? y : third;
    if (type == Float32)
      apply(ConvertRow<Isa, double, float>, result);
    else if (type == Float64)
      apply(ConvertRow<Isa, float, double>, result);
    else if (type == UInt64 && isReal(to))
      apply(toReal<Isa, uint64_t>(to), result);
    else if (type == Int32)
      apply(isReal(to) ? toReal<Isa, int32_t>(to) : toInteger<Isa, int32_t>(to), result);
    else
      apply(isReal(to) ? toReal<Isa, int64_t>(to) : toInteger<Isa, int64_t>(to), result);
    if (result != y)
      __builtin_memcpy(y, third, static_cast<size_t>(count * widthY));
  }
}

} // namespace mlbridge::native::kernels

#endif
