// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integers, comparisons and conversions, as vectors of an instruction set: plain loops over blocks
// of a fixed length, which compilers make vectors of. A "type" is a Type of kernel.h.
//
// IntegerBinary  {y, a, b}
//                {IntegerOp from Add to ShiftRight, type, rank, then for each dimension: length,
//                stride of a, of b}  y is dense. Overflow wraps. Abs and Sign are of a. From Div on
//                the type is int32; division by 0 gives 0.
// IntegerReduce  {y [outer, inner], x}
//                {IntegerOp, type, outer, n, inner, what the operation does nothing to}
//                The operation is Add, Mul, Min or Max.
// Accumulate     {y, x}  {IntegerOp, type, outer, n, inner, exclusive, reverse, the same}
//                The operation is Add or Mul, over what comes before in [outer, n, inner].
// Compare        {y bool, a, b}  {CompareOp, type (no half), rank, as above}  Of integers only
//                Equal, Less and Greater.
// Convert        {y, x}  {from type, to type, count}  To any type but bool; to a half from double.
//                Floats are truncated towards zero; what doesn't fit wraps as in two's complement,
//                and beyond 64 bits it is the least int64.
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_BLOCKS_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_BLOCKS_H

#include "elementwise.h"

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
  Sign,
  Div,
  Mod,
  ShiftLeft,
  ShiftRight, // those up to here are IntegerBinary's, from Div on of int32; IntegerFunction's
              // others
  Rem,
  Pow
};
enum class CompareOp : int64_t { Equal, Less, LessOrEqual, Greater, GreaterOrEqual };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

/// Bytes of an element of a type.
MLBRIDGE_INLINE int64_t widthOf(int64_t type) {
  return 0x201842842184210 >> (4 * type) & 15; // a digit for each Type, and 14 for bfloat16
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

/// In the library n is a multiple of Block, and a stride of 0 repeats a block.
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

/// Rows of y, which is dense; `dimensions` as for eachRow<2>.
MLBRIDGE_PLAIN void computeRows(Row row, Operands o, int64_t widthY, int64_t width, int64_t rank,
                                const int64_t *dimensions);
#ifdef MLBRIDGE_NATIVE_BUSY
MLBRIDGE_PLAIN void computeRows(Row row, Operands o, int64_t widthY, int64_t width, int64_t rank,
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
          bring(blocks[s], from[s] + i * stride * width, width, stride, count);
        } else if (i == 0) {
          bring(blocks[s], from[s], width, 0, Block);
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
#endif

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

/// A quotient of int32 in double lies on the same side of each whole number as the exact one. The
/// least number by -1 is itself.
struct DivRow {
  static MLBRIDGE_INLINE int32_t apply(int32_t a, int32_t b) {
    const bool isPlain = b != 0 && b != -1;
    const double quotient = static_cast<double>(a) / static_cast<double>(isPlain ? b : 1);
    const auto negated = static_cast<int32_t>(0 - static_cast<uint32_t>(a));
    return isPlain ? static_cast<int32_t>(quotient) : b == 0 ? 0 : negated;
  }
};
struct ModRow {
  static MLBRIDGE_INLINE int32_t apply(int32_t a, int32_t b) {
    const auto product = static_cast<uint32_t>(DivRow::apply(a, b)) * static_cast<uint32_t>(b);
    const auto rest = b == 0 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(a) - product);
    return rest != 0 && (rest ^ b) < 0 ? rest + b : rest;
  }
};
/// What is shifted in on the right is the sign.
template <bool IsLeft> struct ShiftRow {
  static MLBRIDGE_INLINE int32_t apply(int32_t a, int32_t b) {
    const auto by = static_cast<uint32_t>(b);
    if constexpr (IsLeft)
      return by > 31 ? 0 : static_cast<int32_t>(static_cast<uint32_t>(a) << (by & 31));
    else
      return a >> (by > 31 ? 31 : by);
  }
};

template <class Isa> MLBRIDGE_SHARED Row rowOf(IntegerOp op, int64_t type) {
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
  case IntegerOp::Div:
    return computeRow<Isa, int32_t, int32_t, DivRow>;
  case IntegerOp::Mod:
    return computeRow<Isa, int32_t, int32_t, ModRow>;
  case IntegerOp::ShiftLeft:
    return computeRow<Isa, int32_t, int32_t, ShiftRow<true>>;
  case IntegerOp::ShiftRight:
    return computeRow<Isa, int32_t, int32_t, ShiftRow<false>>;
  default:
    return bySignedType<Isa, SignRow>(type);
  }
}
template <class Isa> MLBRIDGE_INLINE void IntegerBinary(Operands o, Parameters p) {
  const int64_t width = widthOf(p[1]);
  computeRows(rowOf<Isa>(static_cast<IntegerOp>(p[0]), p[1]), o, width, width, p[2], p + 3);
}

/// One row of y = f(a, b), of n; a or b may be y.
MLBRIDGE_INLINE void computeOne(Row row, void *y, const void *a, const void *b, int64_t width,
                                int64_t strideA, int64_t strideB, int64_t n) {
  void *const operands[] = {y, const_cast<void *>(a), const_cast<void *>(b)};
  const int64_t dimensions[] = {n, strideA, strideB};
  computeRows(row, operands, width, width, 1, dimensions);
}

/// Rows of n, each to a number. They are folded to blocks, some of them at a time, and these by
/// halves, all at once: what is beyond a half then is of no use.
MLBRIDGE_PLAIN void reduceRows(Row row, char *y, const char *x, int64_t width, int64_t rows,
                               int64_t n, const void *nothing);
#ifdef MLBRIDGE_NATIVE_BUSY
MLBRIDGE_PLAIN void reduceRows(Row row, char *y, const char *x, int64_t width, int64_t rows,
                               int64_t n, const void *nothing) {
  constexpr int64_t AtOnce = 16, Most = 8 * Block; // rows, elements
  alignas(64) char wide[8 * Most], blocks[2][(AtOnce + 1) * BlockBytes], start[BlockBytes];
  const int64_t size = Block * width;
  bring(start, nothing, width, 0, Block);
  for (int64_t done = 0; done < rows; done += AtOnce) {
    const int64_t count = rows - done < AtOnce ? rows - done : AtOnce;
    char *to = blocks[0];
    for (int64_t r = 0; r < count; ++r, x += n * width, to += size) {
      int64_t used = 0; // elements of `wide`
      const char *block = start;
      for (int64_t i = 0; i < n;) {
        const int64_t whole = (n - i < Most ? n - i : Most) / Block * Block;
        const int64_t taken = whole ? whole : n - i;
        const void *from = x + i * width;
        if (!whole) {
          __builtin_memcpy(to, start, static_cast<size_t>(size));
          __builtin_memcpy(to, from, static_cast<size_t>(taken * width));
          from = to;
        }
        const int64_t length = whole ? whole : Block;
        if (n <= Most && i == 0 && length >= 2 * Block) { // its halves at once
          used = length / (2 * Block) * Block;
          row(wide, from, 1, x + used * width, 1, used);
          i = 2 * used;
          block = wide;
          continue;
        }
        if (i == 0) {
          used = length;
          row(wide, start, 0, from, 1, length);
        } else {
          row(wide, wide, 1, from, 1, length);
        }
        i += taken;
        block = wide;
      }
      for (; used > Block; used -= used / (2 * Block) * Block)
        row(wide, wide, 1, wide + (used + Block) / (2 * Block) * size, 1,
            used / (2 * Block) * Block);
      __builtin_memcpy(to, block, static_cast<size_t>(size));
    }
    __builtin_memcpy(to, start, static_cast<size_t>(size));
    int from = 0;
    for (int64_t half = Block / 2; half; half /= 2, from ^= 1) {
      row(blocks[from ^ 1], blocks[from], 1, blocks[from] + half * width, 1, count * Block);
      __builtin_memcpy(blocks[from ^ 1] + count * size, start, static_cast<size_t>(size));
    }
    bring(y, blocks[from], width, Block, count);
    y += count * width;
  }
}
#endif

template <class Isa> MLBRIDGE_INLINE void IntegerReduce(Operands o, Parameters p) {
  const Row row = rowOf<Isa>(static_cast<IntegerOp>(p[0]), p[1]);
  const int64_t width = widthOf(p[1]), outer = p[2], n = p[3], inner = p[4];
  char *y = static_cast<char *>(o[0]);
  const char *x = static_cast<const char *>(o[1]);
  if (inner == 1)
    return reduceRows(row, y, x, width, outer, n, p + 5);
  for (int64_t i = 0; i < outer; ++i, y += inner * width) {
    computeOne(row, y, p + 5, p + 5, width, 0, 0, inner);
    for (int64_t j = 0; j < n; ++j, x += inner * width)
      computeOne(row, y, y, x, width, 1, 1, inner);
  }
}

template <class Isa> MLBRIDGE_INLINE void Accumulate(Operands o, Parameters p) {
  const auto op = static_cast<IntegerOp>(p[0]);
  const Row row = rowOf<Isa>(op, p[1]);
  const int64_t width = widthOf(p[1]), n = p[3], inner = p[4];
  const bool isExclusive = p[5] != 0;
  const int64_t step = p[6] ? -1 : 1;
  for (int64_t i = 0; n != 0 && i < p[2]; ++i) {
    const int64_t first = i * n + (p[6] ? n - 1 : 0);
    if (inner == 1) {
      withWidth(width, [&](auto element) MLBRIDGE_ALWAYS {
        using T = decltype(element);
        T *y = static_cast<T *>(o[0]) + first;
        const T *x = static_cast<const T *>(o[1]) + first;
        uint64_t sum = op == IntegerOp::Mul;
        for (int64_t j = 0; j < n; ++j, y += step, x += step) {
          const uint64_t before = sum;
          T value;
          moveAs(&value, x);
          sum = op == IntegerOp::Mul ? sum * value : sum + value;
          value = static_cast<T>(isExclusive ? before : sum);
          moveAs(y, &value);
        }
      });
      continue;
    }
    char *y = static_cast<char *>(o[0]) + first * inner * width;
    const char *x = static_cast<const char *>(o[1]) + first * inner * width;
    const int64_t apart = step * inner * width;
    for (int64_t j = 0; j < n; ++j, y += apart, x += apart) {
      const bool takesNone = isExclusive && j == 0;
      computeOne(row, y, j ? y - apart : static_cast<const void *>(p + 7),
                 takesNone     ? static_cast<const void *>(p + 7)
                 : isExclusive ? x - apart
                               : x,
                 width, j != 0, !takesNone, inner);
    }
  }
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
  computeRows(row, operands, 1, widthOf(p[1]), p[2], dimensions);
}

// ---- conversions --------------------------------------------------------------------------------

struct SameRow {
  template <class T> static MLBRIDGE_INLINE T apply(T a, T) { return a; }
};
/// A double as a float, made odd where it isn't exact: rounded to a half it is as if rounded once.
struct OddRow {
  static MLBRIDGE_INLINE float apply(double a, double) {
    constexpr uint64_t Lost = (uint64_t(1) << 29) - 1;
    uint64_t bits;
    __builtin_memcpy(&bits, &a, sizeof bits);
    bits = (bits | ((bits & Lost) + Lost)) & ~Lost;
    __builtin_memcpy(&a, &bits, sizeof a);
    return static_cast<float>(a);
  }
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
/// An int64 as a double, by way of its exact halves: which AVX2 has no instruction for.
struct WholeRow {
  static MLBRIDGE_INLINE double fromBits(uint64_t bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  static MLBRIDGE_INLINE double apply(int64_t a, int64_t) {
    const auto bits = static_cast<uint64_t>(a);
    // 2^84 and 2^52 have these in the last bits of their mantissas.
    const double high = fromBits(0x4530000000000000u | (bits >> 32 ^ 0x80000000u));
    const double low = fromBits(0x4330000000000000u | (bits & 0xffffffffu));
    return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
  }
};

/// From what others are made of.
template <class Isa> MLBRIDGE_SHARED Row narrowing(int64_t from, int64_t to) {
  switch (from) {
  case Float32:
    return ConvertRow<Isa, double, float>;
  case Float64:
    return ConvertRow<Isa, float, double>;
  case Int32:
    return isReal(to) ? toReal<Isa, int32_t>(to) : toInteger<Isa, int32_t>(to);
  case UInt64:
    if (isReal(to))
      return toReal<Isa, uint64_t>(to);
    [[fallthrough]];
  default:
    return to == Float64   ? computeRow<Isa, double, int64_t, WholeRow>
           : to == Float32 ? ConvertRow<Isa, float, int64_t>
                           : toInteger<Isa, int64_t>(to);
  }
}

MLBRIDGE_INLINE float magnitudeOf(float x) { return __builtin_fabsf(x); }
MLBRIDGE_INLINE double magnitudeOf(double x) { return __builtin_fabs(x); }

/// Truncates a multiple of Block to int32, and says whether all of them fit it; NaN doesn't, and
/// what doesn't becomes any number.
template <class Isa, class E>
__attribute__((no_sanitize("float-cast-overflow"))) MLBRIDGE_SHARED bool
truncateFitting(int32_t *__restrict y, const E *__restrict x, int64_t n) {
  typename BitsOf<E>::Type misses = 0;
  for (int64_t i = 0; i < n; i += Block)
    for (int64_t k = 0; k < Block; ++k) {
      y[i + k] = static_cast<int32_t>(x[i + k]);
      misses |= !(magnitudeOf(x[i + k]) < E(2147483648.0));
    }
  return misses == 0;
}
template <class Isa>
MLBRIDGE_SHARED void truncateAll(int64_t *y, const void *x, int64_t type, int64_t n,
                                 bool toUnsigned) {
  for (int64_t i = 0; i < n; ++i) {
    const double value = type == Float32 ? static_cast<double>(static_cast<const float *>(x)[i])
                                         : static_cast<const double *>(x)[i];
    y[i] = toUnsigned ? static_cast<int64_t>(truncateUnsigned(value)) : truncate(value);
  }
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
    if (to == Float16) {
      apply(computeRow<Isa, float, double, OddRow>, second);
      const int64_t parameters = count;
      void *const operands[] = {static_cast<char *>(o[0]) + i * widthY, second};
      F16FromF32<Isa>(operands, &parameters);
      continue;
    }
    if (const Row row = widening<Isa>(from)) {
      apply(row, second);
      type = from == UInt32 ? Int64 : Int32;
    }
    void *const y = static_cast<char *>(o[0]) + i * widthY;
    void *const result = n == count ? y : third;
    if (isReal(from) && !isReal(to)) {
      const bool isAll = widthY == 4 && result != x;
      auto *whole = static_cast<int32_t *>(isAll ? result : second);
      if (from == Float32 ? truncateFitting<Isa>(whole, static_cast<const float *>(x), n)
                          : truncateFitting<Isa>(whole, static_cast<const double *>(x), n)) {
        x = whole;
        type = isAll ? to : Int32;
      } else {
        truncateAll<Isa>(reinterpret_cast<int64_t *>(second), x, from, n, to == UInt64);
        x = second;
        type = Int64;
      }
    }
    if (x != result)
      apply(narrowing<Isa>(type, to), result);
    if (result != y)
      __builtin_memcpy(y, third, static_cast<size_t>(count * widthY));
  }
}

} // namespace mlbridge::native::kernels

#endif
