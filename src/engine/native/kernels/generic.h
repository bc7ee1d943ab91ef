// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels over all element types whose arithmetic is exact, or not worth a vector. A "type" is an
// ElementType of mlbridge/tensor.h.
//
// Cast           {y, x}  {from type, to type, count}
//                Floats are truncated towards zero; what doesn't fit wraps as in two's complement,
//                and beyond 64 bits it is the least int64.
// IntegerBinary  {y, a, b}
//                {IntegerOp, type, rank, then for each dimension: length, stride of a, of b}
//                y is dense. Overflow wraps; division by 0 gives 0.
// IntegerUnary   {y, x}  {UnaryOp, type, count}  IsNaN, IsInf take floats and give bool.
// Compare        {y bool, a, b}  {CompareOp, type, rank, as above}
// Fmod           {y, a, b}  {type (float32, float64), whether the sign is that of b (0: of a),
// rank,
//                as above}
// IntegerReduce  {y [outer, inner], x}  {ReduceOp, type, outer, n, inner}
// IntegerArg     {y int64 [outer, inner], x}  {type, outer, n, inner, last (0, 1), largest (0, 1)}
// IntegerTopK    {values, indices int64, x}  {type, outer, n, inner, k, largest (0, 1)}
// Accumulate     {y, x}  {type, whether it is a product (0: sum), outer, n, inner, exclusive,
//                reverse}
// Range          {y, start, delta}  {type, count}
#ifndef MLBRIDGE_ENGINE_NATIVE_KERNELS_GENERIC_H
#define MLBRIDGE_ENGINE_NATIVE_KERNELS_GENERIC_H

#include "movement.h"

namespace mlbridge::native {

enum class IntegerOp : std::int64_t {
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  Rem,
  Pow,
  Min,
  Max,
  And,
  Or,
  Xor,
  ShiftLeft,
  ShiftRight
};
enum class UnaryOp : std::int64_t { Neg, Abs, Sign, Not, Invert, IsNaN, IsInf, IsPosInf, IsNegInf };
enum class CompareOp : std::int64_t { Equal, Less, LessOrEqual, Greater, GreaterOrEqual };
enum class ReduceOp : std::int64_t { Sum, Mean, Max, Min, Prod, L1, SumSquare };

} // namespace mlbridge::native

namespace mlbridge::native::kernels {

struct Half16 {
  std::uint16_t bits;
};

inline float widen(Half16 half) {
  const std::uint32_t sign = std::uint32_t(half.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = half.bits & 0x7fffu;
  std::uint32_t bits;
  if (magnitude < 0x400u) { // subnormal or zero: an exact product
    float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
    __builtin_memcpy(&bits, &value, sizeof bits);
  } else if (magnitude >= 0x7c00u) {
    bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;
  } else {
    bits = (magnitude << 13) + (112u << 23);
  }
  bits |= sign;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline Half16 narrow(double wide) {
  std::uint64_t bits;
  __builtin_memcpy(&bits, &wide, sizeof bits);
  const auto sign = static_cast<std::uint16_t>(bits >> 48 & 0x8000u);
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffu;
  if (magnitude > 0x7ff0000000000000u)
    return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x40effe0000000000u) // 65520, the least that rounds to infinity
    return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude <= 0x3e60000000000000u) // 2^-25, the greatest that rounds to zero
    return {sign};
  std::uint64_t mantissa = magnitude;
  std::uint64_t shift = 42;
  if (magnitude < 0x3f10000000000000u) { // subnormal as a half
    mantissa = (magnitude & 0xfffffffffffffu) | 0x10000000000000u;
    shift = 42 + 1009 - (magnitude >> 52);
  } else {
    mantissa -= 1008ull << 52;
  }
  const std::uint64_t rest = mantissa & ((1ull << shift) - 1);
  const std::uint64_t half = 1ull << (shift - 1);
  std::uint64_t result = mantissa >> shift;
  result += rest > half || (rest == half && (result & 1));
  return {static_cast<std::uint16_t>(sign | result)};
}

/// Calls body with a value of the C++ type for a type of integer; bool is uint8.
template <class Body> inline void withInteger(std::int64_t type, const Body &body) {
  switch (type) {
  case 1:
    body(std::int8_t());
    break;
  case 2:
    body(std::int16_t());
    break;
  case 3:
    body(std::int32_t());
    break;
  case 4:
    body(std::int64_t());
    break;
  case 6:
    body(std::uint16_t());
    break;
  case 7:
    body(std::uint32_t());
    break;
  case 8:
    body(std::uint64_t());
    break;
  default:
    body(std::uint8_t());
    break;
  }
}
/// The same for a type of number; halves are Half16.
template <class Body> inline void withType(std::int64_t type, const Body &body) {
  switch (type) {
  case 9:
    body(Half16());
    break;
  case 10:
    body(float());
    break;
  case 11:
    body(double());
    break;
  default:
    withInteger(type, body);
    break;
  }
}

template <class T> constexpr bool IsSigned = T(-1) < T(0);
template <class T> constexpr bool IsReal = false;
template <> inline constexpr bool IsReal<float> = true;
template <> inline constexpr bool IsReal<double> = true;
template <class T> constexpr bool IsHalf = false;
template <> inline constexpr bool IsHalf<Half16> = true;
/// Where integers are added without overflow being undefined.
template <class T> struct Wrapping {
  using Type = std::uint64_t;
};
template <> struct Wrapping<float> {
  using Type = float;
};
template <> struct Wrapping<double> {
  using Type = double;
};

// GCC 12 vectorizes at -O3 only, and these few loops are worth it: masks over long rows.
#if defined(__GNUC__) && !defined(__clang__)
#define MLBRIDGE_VECTORIZED __attribute__((optimize("O3"), noinline))
#else
#define MLBRIDGE_VECTORIZED
#endif

// ---- Cast: through int64, uint64 or double, a piece at a time -----------------------------------

inline std::int64_t truncate(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<std::int64_t>(x)
                                                                  : INT64_MIN;
}
inline std::uint64_t truncateUnsigned(double x) {
  return x >= 9223372036854775808.0 && x < 18446744073709551616.0
             ? static_cast<std::uint64_t>(x)
             : static_cast<std::uint64_t>(truncate(x));
}

template <class Wide>
inline void store(void *y, std::int64_t type, const Wide *wide, std::int64_t n) {
  constexpr bool Real = IsReal<Wide>;
  if (type == 12) { // bool
    for (std::int64_t i = 0; i < n; ++i)
      static_cast<std::uint8_t *>(y)[i] = wide[i] != 0;
    return;
  }
  withType(type, [&](auto element) {
    using T = decltype(element);
    auto *to = static_cast<T *>(y);
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (IsHalf<T>)
        to[i] = narrow(static_cast<double>(wide[i]));
      else if constexpr (IsReal<T> || !Real)
        to[i] = static_cast<T>(wide[i]);
      else if constexpr (sizeof(T) == 8 && !IsSigned<T>)
        to[i] = truncateUnsigned(wide[i]);
      else
        to[i] = static_cast<T>(truncate(wide[i]));
    }
  });
}

MLBRIDGE_VECTORIZED inline void widenBytes(float *y, const std::uint8_t *x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(x[i]);
}

inline void Cast(void *const *o, const std::int64_t *p) {
  constexpr std::int64_t Piece = 64;
  if ((p[0] == 5 || p[0] == 12) && p[1] == 10)
    return widenBytes(static_cast<float *>(o[0]), static_cast<const std::uint8_t *>(o[1]), p[2]);
  withType(p[0], [&](auto element) {
    using T = decltype(element);
    const auto *x = static_cast<const T *>(o[1]);
    auto *y = static_cast<char *>(o[0]);
    std::int64_t width = 1;
    withType(p[1], [&](auto to) { width = sizeof to; });
    for (std::int64_t i = 0; i < p[2]; i += Piece) {
      const std::int64_t n = p[2] - i < Piece ? p[2] - i : Piece;
      if constexpr (IsHalf<T> || IsReal<T>) {
        double wide[Piece];
        for (std::int64_t k = 0; k < n; ++k)
          if constexpr (IsHalf<T>)
            wide[k] = static_cast<double>(widen(x[i + k]));
          else
            wide[k] = static_cast<double>(x[i + k]);
        store(y + i * width, p[1], wide, n);
      } else if constexpr (sizeof(T) == 8 && !IsSigned<T>) {
        store(y + i * width, p[1], reinterpret_cast<const unsigned long *>(x + i), n);
      } else {
        std::int64_t wide[Piece];
        for (std::int64_t k = 0; k < n; ++k)
          wide[k] = x[i + k];
        store(y + i * width, p[1], wide, n);
      }
    }
  });
}

// ---- elementwise -------------------------------------------------------------------------------

template <class T> inline T power(T base, T exponent) {
  std::uint64_t result = 1, factor = static_cast<std::uint64_t>(base);
  if constexpr (IsSigned<T>)
    if (exponent < 0)
      return base == 1 ? T(1) : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
  for (auto e = static_cast<std::uint64_t>(exponent); e; e >>= 1, factor *= factor)
    if (e & 1)
      result *= factor;
  return static_cast<T>(result);
}

template <class T> inline T divide(T a, T b, bool wantRemainder, bool signOfB) {
  if (b == 0)
    return 0;
  if constexpr (IsSigned<T>)
    if (b == T(-1)) // the least number divided by -1 overflows
      return wantRemainder ? T(0) : static_cast<T>(0 - static_cast<std::uint64_t>(a));
  if (!wantRemainder)
    return static_cast<T>(a / b);
  auto rest = static_cast<T>(a % b);
  if (signOfB && rest != 0 && (rest < 0) != (b < 0))
    rest = static_cast<T>(rest + b);
  return rest;
}

template <class T> inline T integerOp(IntegerOp op, T a, T b) {
  using Wide = std::uint64_t;
  switch (op) {
  case IntegerOp::Add:
    return static_cast<T>(Wide(a) + Wide(b));
  case IntegerOp::Sub:
    return static_cast<T>(Wide(a) - Wide(b));
  case IntegerOp::Mul:
    return static_cast<T>(Wide(a) * Wide(b));
  case IntegerOp::Div:
    return divide(a, b, false, false);
  case IntegerOp::Mod:
    return divide(a, b, true, true);
  case IntegerOp::Rem:
    return divide(a, b, true, false);
  case IntegerOp::Pow:
    return power(a, b);
  case IntegerOp::Min:
    return b < a ? b : a;
  case IntegerOp::Max:
    return a < b ? b : a;
  case IntegerOp::And:
    return static_cast<T>(a & b);
  case IntegerOp::Or:
    return static_cast<T>(a | b);
  case IntegerOp::Xor:
    return static_cast<T>(a ^ b);
  case IntegerOp::ShiftLeft:
    return Wide(b) >= 8 * sizeof(T) ? T(0) : static_cast<T>(Wide(a) << Wide(b));
  case IntegerOp::ShiftRight:
    return Wide(b) >= 8 * sizeof(T) ? T(0) : static_cast<T>(a >> Wide(b));
  }
  return 0;
}

inline void IntegerBinary(void *const *o, const std::int64_t *p) {
  const auto op = static_cast<IntegerOp>(p[0]);
  withInteger(p[1], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    const auto *a = static_cast<const T *>(o[1]);
    const auto *b = static_cast<const T *>(o[2]);
    const std::int64_t *last = p + 3 + (p[2] - 1) * 3;
    eachRow<2>(p[2], p + 3, [&](const std::int64_t *at) {
      for (std::int64_t i = 0; i < last[0]; ++i)
        *y++ = integerOp<T>(op, a[at[0] + i * last[1]], b[at[1] + i * last[2]]);
    });
  });
}

inline void IntegerUnary(void *const *o, const std::int64_t *p) {
  const auto op = static_cast<UnaryOp>(p[0]);
  if (op >= UnaryOp::IsNaN) {
    withType(p[1], [&](auto element) {
      using T = decltype(element);
      auto *y = static_cast<std::uint8_t *>(o[0]);
      const auto *x = static_cast<const T *>(o[1]);
      for (std::int64_t i = 0; i < p[2]; ++i) {
        double value = 0;
        if constexpr (IsHalf<T>)
          value = static_cast<double>(widen(x[i]));
        else
          value = static_cast<double>(x[i]);
        const bool positive = value > 1.7976931348623157e308;
        const bool negative = value < -1.7976931348623157e308;
        y[i] = op == UnaryOp::IsNaN      ? value != value
               : op == UnaryOp::IsPosInf ? positive
               : op == UnaryOp::IsNegInf ? negative
                                         : positive || negative;
      }
    });
    return;
  }
  withInteger(p[1], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    const auto *x = static_cast<const T *>(o[1]);
    for (std::int64_t i = 0; i < p[2]; ++i) {
      const auto negative = static_cast<T>(0 - static_cast<std::uint64_t>(x[i]));
      switch (op) {
      case UnaryOp::Neg:
        y[i] = negative;
        break;
      case UnaryOp::Abs:
        y[i] = x[i] < 0 ? negative : x[i];
        break;
      case UnaryOp::Sign:
        y[i] = x[i] < 0 ? T(-1) : T(x[i] > 0);
        break;
      case UnaryOp::Not:
        y[i] = !x[i];
        break;
      default:
        y[i] = static_cast<T>(~x[i]);
        break;
      }
    }
  });
}

template <class T, class Op>
MLBRIDGE_VECTORIZED void compareRow(std::uint8_t *y, const T *a, std::int64_t sa, const T *b,
                                    std::int64_t sb, std::int64_t n, const Op &op) {
  if constexpr (!IsReal<T> || sizeof(T) != 4)
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = op(a[i * sa], b[i * sb]);
  else if (sa == 1 && sb == 1)
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = op(a[i], b[i]);
  else if (sa == 0 && sb == 1)
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = op(*a, b[i]);
  else
    for (std::int64_t i = 0; i < n; ++i)
      y[i] = op(a[i * sa], b[i * sb]);
}

template <class T> inline void compareRows(void *const *o, const std::int64_t *p) {
  auto *y = static_cast<std::uint8_t *>(o[0]);
  const std::int64_t *last = p + 3 + (p[2] - 1) * 3;
  const auto with = [&](const auto &op) {
    eachRow<2>(p[2], p + 3, [&](const std::int64_t *at) {
      compareRow(y, static_cast<const T *>(o[1]) + at[0], last[1],
                 static_cast<const T *>(o[2]) + at[1], last[2], last[0], op);
      y += last[0];
    });
  };
  const auto op = static_cast<CompareOp>(p[0]);
  if constexpr (IsReal<T> && sizeof(T) == 4) { // what masks are made of
    switch (op) {
    case CompareOp::Equal:
      return with([](T a, T b) { return a == b; });
    case CompareOp::Less:
      return with([](T a, T b) { return a < b; });
    case CompareOp::LessOrEqual:
      return with([](T a, T b) { return a <= b; });
    case CompareOp::Greater:
      return with([](T a, T b) { return a > b; });
    case CompareOp::GreaterOrEqual:
      return with([](T a, T b) { return a >= b; });
    }
  } else {
    with([op](const T &x, const T &z) {
      const auto value = [](const T &v) {
        if constexpr (IsHalf<T>)
          return widen(v);
        else
          return v;
      };
      const auto a = value(x), b = value(z);
      switch (op) {
      case CompareOp::Equal:
        return a == b;
      case CompareOp::Less:
        return a < b;
      case CompareOp::LessOrEqual:
        return a <= b;
      case CompareOp::Greater:
        return a > b;
      default:
        return a >= b;
      }
    });
  }
}

inline void Compare(void *const *o, const std::int64_t *p) {
  withType(p[1], [&](auto element) { compareRows<decltype(element)>(o, p); });
}

inline void Fmod(void *const *o, const std::int64_t *p) {
  const auto run = [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    const auto *a = static_cast<const T *>(o[1]);
    const auto *b = static_cast<const T *>(o[2]);
    const std::int64_t *last = p + 3 + (p[2] - 1) * 3;
    eachRow<2>(p[2], p + 3, [&](const std::int64_t *at) {
      for (std::int64_t i = 0; i < last[0]; ++i) {
        const T d = b[at[1] + i * last[2]];
        T rest = static_cast<T>(
            __builtin_fmod(static_cast<double>(a[at[0] + i * last[1]]), static_cast<double>(d)));
        if (p[1] && rest != 0 && (rest < 0) != (d < 0))
          rest += d;
        *y++ = rest;
      }
    });
  };
  p[0] == 11 ? run(double()) : run(float());
}

// ---- along one axis ----------------------------------------------------------------------------

inline void IntegerReduce(void *const *o, const std::int64_t *p) {
  const auto op = static_cast<ReduceOp>(p[0]);
  const std::int64_t outer = p[2], n = p[3], inner = p[4];
  withInteger(p[1], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<T *>(o[0]);
    const auto *x = static_cast<const T *>(o[1]);
    const bool extreme = op == ReduceOp::Max || op == ReduceOp::Min;
    // Of nothing: the least or greatest number.
    const T least = IsSigned<T> ? static_cast<T>(std::uint64_t(1) << (8 * sizeof(T) - 1)) : T(0);
    const auto greatest = static_cast<T>(~least);
    for (std::int64_t i = 0; i < outer; ++i)
      for (std::int64_t k = 0; k < inner; ++k) {
        const T *from = x + i * n * inner + k;
        std::uint64_t sum = op == ReduceOp::Prod;
        T best = n ? *from : op == ReduceOp::Max ? least : greatest;
        for (std::int64_t j = 0; j < n; ++j) {
          const T value = from[j * inner];
          const auto wide = static_cast<std::uint64_t>(value);
          if (op == ReduceOp::Prod)
            sum *= wide;
          else if (op == ReduceOp::L1)
            sum += value < 0 ? 0 - wide : wide;
          else if (op == ReduceOp::SumSquare)
            sum += wide * wide;
          else if (!extreme)
            sum += wide;
          else if (op == ReduceOp::Max ? best < value : value < best)
            best = value;
        }
        if (op == ReduceOp::Mean && n)
          *y++ = IsSigned<T> ? static_cast<T>(static_cast<std::int64_t>(sum) / n)
                             : static_cast<T>(sum / static_cast<std::uint64_t>(n));
        else
          *y++ = extreme ? best : static_cast<T>(sum);
      }
  });
}

inline void IntegerArg(void *const *o, const std::int64_t *p) {
  const std::int64_t outer = p[1], n = p[2], inner = p[3];
  const bool last = p[4] != 0, largest = p[5] != 0;
  withInteger(p[0], [&](auto element) {
    using T = decltype(element);
    auto *y = static_cast<std::int64_t *>(o[0]);
    const auto *x = static_cast<const T *>(o[1]);
    for (std::int64_t i = 0; i < outer; ++i)
      for (std::int64_t k = 0; k < inner; ++k) {
        const T *from = x + i * n * inner + k;
        std::int64_t best = 0;
        for (std::int64_t j = 1; j < n; ++j) {
          const T value = from[j * inner], before = from[best * inner];
          if ((largest ? before < value : value < before) || (last && value == before))
            best = j;
        }
        *y++ = best;
      }
  });
}

inline void IntegerTopK(void *const *o, const std::int64_t *p) {
  const std::int64_t outer = p[1], n = p[2], inner = p[3], count = p[4];
  const bool largest = p[5] != 0;
  withInteger(p[0], [&](auto element) {
    using T = decltype(element);
    for (std::int64_t i = 0; i < outer; ++i)
      for (std::int64_t k = 0; k < inner; ++k) {
        auto *values = static_cast<T *>(o[0]) + i * count * inner + k;
        auto *indices = static_cast<std::int64_t *>(o[1]) + i * count * inner + k;
        const auto *x = static_cast<const T *>(o[2]) + i * n * inner + k;
        std::int64_t have = 0;
        for (std::int64_t j = 0; j < n && count; ++j) {
          const T value = x[j * inner];
          std::int64_t at = have;
          while (at > 0 &&
                 (largest ? values[(at - 1) * inner] < value : value < values[(at - 1) * inner]))
            --at;
          if (at == count)
            continue;
          have += have < count;
          for (std::int64_t m = have - 1; m > at; --m) {
            values[m * inner] = values[(m - 1) * inner];
            indices[m * inner] = indices[(m - 1) * inner];
          }
          values[at * inner] = value;
          indices[at * inner] = j;
        }
      }
  });
}

inline void Accumulate(void *const *o, const std::int64_t *p) {
  const bool product = p[1] != 0, exclusive = p[5] != 0, reverse = p[6] != 0;
  const std::int64_t outer = p[2], n = p[3], inner = p[4];
  withType(p[0], [&](auto element) {
    using T = decltype(element);
    if constexpr (!IsHalf<T>) {
      using Wide = typename Wrapping<T>::Type;
      for (std::int64_t i = 0; i < outer; ++i)
        for (std::int64_t k = 0; k < inner; ++k) {
          auto *y = static_cast<T *>(o[0]) + i * n * inner + k;
          const auto *x = static_cast<const T *>(o[1]) + i * n * inner + k;
          Wide sum = product;
          for (std::int64_t j = 0; j < n; ++j) {
            const std::int64_t at = (reverse ? n - 1 - j : j) * inner;
            const auto value = static_cast<Wide>(x[at]);
            if (exclusive)
              y[at] = static_cast<T>(sum);
            sum = product ? sum * value : sum + value;
            if (!exclusive)
              y[at] = static_cast<T>(sum);
          }
        }
    }
  });
}

inline void Range(void *const *o, const std::int64_t *p) {
  withType(p[0], [&](auto element) {
    using T = decltype(element);
    if constexpr (!IsHalf<T>) {
      using Wide = typename Wrapping<T>::Type;
      const auto start = static_cast<Wide>(*static_cast<const T *>(o[1]));
      const auto delta = static_cast<Wide>(*static_cast<const T *>(o[2]));
      for (std::int64_t i = 0; i < p[1]; ++i)
        static_cast<T *>(o[0])[i] = static_cast<T>(start + static_cast<Wide>(i) * delta);
    }
  });
}

} // namespace mlbridge::native::kernels

#endif
