// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of whole numbers, and those that move elements, against plain loops on every instruction
// set.
#include "engine/native/kernels/indexed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace mlbridge::native {
namespace {

struct Table {
  const char *name;
  const Kernel *kernels;
};
std::vector<Table> tables() {
  std::vector<Table> found;
  for (InstructionSet set : {InstructionSet::Portable, InstructionSet::Neon, InstructionSet::Avx2,
                             InstructionSet::Avx512})
    if (const Kernel *kernels = kernelsFor(set))
      found.push_back({nameOf(set), kernels});
  return found;
}

std::mt19937_64 &source() {
  static std::mt19937_64 Source(20240917);
  return Source;
}
int64_t upTo(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(source()); }

/// Small numbers, any bits and the extremes.
template <class T> std::vector<T> numbers(int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  for (T &value : values)
    switch (upTo(7)) {
    case 0:
      value = static_cast<T>(source()());
      break;
    case 1:
      value = std::numeric_limits<T>::min();
      break;
    case 2:
      value = std::numeric_limits<T>::max();
      break;
    default:
      value = static_cast<T>(upTo(8) - 4);
    }
  return values;
}

/// What a kernel writes to y, behind which nothing may change.
template <class T>
std::vector<T> run(const Table &table, KernelId id, std::vector<T> y,
                   const std::vector<const void *> &reads, const std::vector<int64_t> &parameters) {
  const size_t size = y.size();
  y.resize(size + 64, T(77));
  std::vector<void *> operands{y.data()};
  for (const void *read : reads)
    operands.push_back(const_cast<void *>(read));
  table.kernels[static_cast<size_t>(id)](operands.data(), parameters.data());
  EXPECT_EQ(std::vector<T>(y.begin() + static_cast<ptrdiff_t>(size), y.end()),
            std::vector<T>(64, T(77)))
      << nameOf(id) << " on " << table.name << " wrote behind its result";
  y.resize(size);
  return y;
}

template <class T> constexpr Type TypeOf = Type(0);
template <> constexpr Type TypeOf<int8_t> = Int8;
template <> constexpr Type TypeOf<int16_t> = Int16;
template <> constexpr Type TypeOf<int32_t> = Int32;
template <> constexpr Type TypeOf<int64_t> = Int64;
template <> constexpr Type TypeOf<uint8_t> = UInt8;
template <> constexpr Type TypeOf<uint16_t> = UInt16;
template <> constexpr Type TypeOf<uint32_t> = UInt32;
template <> constexpr Type TypeOf<uint64_t> = UInt64;

template <class T> T applied(IntegerOp op, T a, T b) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  switch (op) {
  case IntegerOp::Add:
    return static_cast<T>(x + y);
  case IntegerOp::Mul:
    return static_cast<T>(x * y);
  case IntegerOp::Min:
    return std::min(a, b);
  default:
    return std::max(a, b);
  }
}
template <class T> int64_t nothingFor(IntegerOp op) {
  return op == IntegerOp::Add   ? 0
         : op == IntegerOp::Mul ? 1
         : op == IntegerOp::Min ? static_cast<int64_t>(std::numeric_limits<T>::max())
                                : static_cast<int64_t>(std::numeric_limits<T>::min());
}

template <class T> class Whole : public testing::Test {};
using Types =
    testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Whole, Types, );

TYPED_TEST(Whole, ReducesAndAccumulates) {
  using T = TypeParam;
  for (int64_t n : {0, 1, 3, 31, 32, 33, 64, 95, 129, 256, 257, 288, 700})
    for (int64_t inner : {1, 2, 33})
      for (IntegerOp op : {IntegerOp::Add, IntegerOp::Mul, IntegerOp::Min, IntegerOp::Max}) {
        const int64_t outer = inner == 1 ? 1 + upTo(33) : 2, nothing = nothingFor<T>(op);
        const auto x = numbers<T>(outer * n * inner);
        const auto size = static_cast<size_t>(outer * inner);
        std::vector<T> reduced(size, static_cast<T>(nothing)), sums[4];
        for (std::vector<T> &all : sums)
          all.resize(x.size());
        for (int64_t line = 0; line < outer * inner; ++line)
          for (int64_t flags = 0; flags < 4; ++flags) {
            auto sum = static_cast<T>(nothing);
            for (int64_t j = 0; j < n; ++j) {
              const int64_t at = flags & 2 ? n - 1 - j : j;
              const auto i = static_cast<size_t>((line / inner * n + at) * inner + line % inner);
              if (flags & 1)
                sums[flags][i] = sum;
              sum = applied(op, sum, x[i]);
              if (!(flags & 1))
                sums[flags][i] = sum;
            }
            reduced[static_cast<size_t>(line)] = sum;
          }
        for (const Table &table : tables()) {
          const auto code = static_cast<int64_t>(op);
          EXPECT_EQ(run<T>(table, KernelId::IntegerReduce, std::vector<T>(size), {x.data()},
                           {code, TypeOf<T>, outer, n, inner, nothing}),
                    reduced)
              << table.name << " " << code << " " << n << " " << inner;
          for (int64_t flags = 0; flags < 4 && op < IntegerOp::Min; ++flags)
            EXPECT_EQ(run<T>(table, KernelId::Accumulate, std::vector<T>(x.size()), {x.data()},
                             {code, TypeOf<T>, outer, n, inner, flags & 1, flags >> 1, nothing}),
                      sums[flags])
                << table.name << " " << code << " " << n << " " << inner << " " << flags;
        }
      }
}

TYPED_TEST(Whole, Divides) {
  using T = TypeParam;
  if constexpr (sizeof(T) >= 4) {
    const auto a = numbers<T>(4000), b = numbers<T>(4000);
    for (IntegerOp op : {IntegerOp::Div, IntegerOp::Mod, IntegerOp::Rem}) {
      std::vector<T> expected;
      for (size_t i = 0; i < a.size(); ++i) {
        using Wide = __int128;
        const Wide x = a[i], y = b[i];
        Wide result = y == 0 ? 0 : op == IntegerOp::Div ? x / y : x % y;
        if (op == IntegerOp::Mod && result != 0 && (result < 0) != (y < 0))
          result += y;
        expected.push_back(static_cast<T>(result));
      }
      const bool isRow = op <= IntegerOp::ShiftRight && TypeOf<T> == Int32;
      for (const Table &table : tables())
        EXPECT_EQ(
            run<T>(table, isRow ? KernelId::IntegerBinary : KernelId::IntegerFunction,
                   std::vector<T>(a.size()), {a.data(), b.data()},
                   {static_cast<int64_t>(op), TypeOf<T>, 1, static_cast<int64_t>(a.size()), 1, 1}),
            expected)
            << table.name << " " << static_cast<int64_t>(op);
    }
  }
}

TYPED_TEST(Whole, ShiftsAndRaises) {
  using T = TypeParam;
  if constexpr (sizeof(T) >= 4) {
    constexpr int Bits = 8 * sizeof(T);
    for (T a : {T(0), T(1), T(-1), T(-3), T(5), std::numeric_limits<T>::min()})
      for (int by : {0, 1, 3, Bits - 1, Bits, Bits + 1, 2 * Bits}) {
        __extension__ using Wide = __int128;
        const bool isOver = by >= Bits;
        const T b = T(by);
        const T left = isOver ? T(0) : static_cast<T>(static_cast<uint64_t>(a) << by);
        const T right = static_cast<T>(Wide(a) >> (isOver ? 2 * Bits - 1 : by));
        T raised = 1;
        for (int i = 0; i < by; ++i)
          raised = applied(IntegerOp::Mul, raised, a);
        for (const auto &[op, expected] :
             {std::pair(IntegerOp::ShiftLeft, left), std::pair(IntegerOp::ShiftRight, right),
              std::pair(IntegerOp::Pow, raised)})
          for (const Table &table : tables())
            for (int64_t count : {1, 70}) // of one, and to one
              EXPECT_EQ(run<T>(table,
                               op <= IntegerOp::ShiftRight && TypeOf<T> == Int32
                                   ? KernelId::IntegerBinary
                                   : KernelId::IntegerFunction,
                               std::vector<T>(static_cast<size_t>(count)), {&a, &b},
                               {static_cast<int64_t>(op), TypeOf<T>, 1, count, 0, count == 1}),
                        std::vector<T>(static_cast<size_t>(count), expected))
                  << int64_t(a) << " " << by << " " << static_cast<int64_t>(op);
      }
  }
}

TYPED_TEST(Whole, MovesInAnyOrder) {
  using T = TypeParam;
  constexpr int64_t Width = sizeof(T);
  for (int64_t rows : {1, 2, 7, 8, 16, 33, 70})
    for (int64_t columns : {1, 2, 8, 15, 16, 64, 71}) {
      const int64_t batch = 1 + upTo(2);
      const auto x = numbers<T>(batch * rows * columns);
      // [batch, rows, columns] to [batch, columns, rows]; one of its columns, in all places.
      std::vector<T> transposed(x.size()), spread(x.size());
      for (int64_t i = 0; i < batch * rows * columns; ++i) {
        const int64_t row = i / columns % rows, column = i % columns,
                      first = i - i % (rows * columns);
        transposed[static_cast<size_t>(first + column * rows + row)] = x[static_cast<size_t>(i)];
        spread[static_cast<size_t>(i)] = x[static_cast<size_t>(i - column)];
      }
      const int64_t all = rows * columns;
      EXPECT_EQ(run<T>(tables()[0], KernelId::CopyStrided, std::vector<T>(x.size()), {x.data()},
                       {Width, 0, 0, 3, batch, all, all, columns, rows, 1, rows, 1, columns}),
                transposed)
          << batch << " " << rows << " " << columns;
      EXPECT_EQ(run<T>(tables()[0], KernelId::CopyStrided, std::vector<T>(x.size()), {x.data()},
                       {Width, 0, 0, 2, batch * rows, columns, columns, columns, 1, 0}),
                spread);
    }
}

TYPED_TEST(Whole, LooksUpAndPutsByIndex) {
  using T = TypeParam;
  constexpr int64_t Width = sizeof(T), Rows = 9, Length = 3, Count = 40;
  const auto x = numbers<T>(Rows * Length), updates = numbers<T>(Count * Length);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < Count; ++i)
    indices.push_back(upTo(2 * Rows - 1) - Rows);
  indices[7] = Rows; // out of range: nothing is written for it
  indices[8] = -Rows - 1;
  std::vector<T> gathered(Count * Length), put = x, added = x;
  for (size_t i = 0; i < Count; ++i) {
    if (i == 7 || i == 8)
      continue;
    const auto row = static_cast<size_t>(indices[i] < 0 ? indices[i] + Rows : indices[i]);
    for (size_t k = 0; k < Length; ++k) {
      gathered[i * Length + k] = x[row * Length + k];
      put[row * Length + k] = updates[i * Length + k];
      added[row * Length + k] =
          applied(IntegerOp::Add, added[row * Length + k], updates[i * Length + k]);
    }
  }
  for (int64_t block : {int64_t(1), Length}) { // elements that an index is for
    const int64_t inner = Length / block;      // and how often it stands there
    std::vector<int64_t> each;
    for (const int64_t index : indices)
      each.insert(each.end(), static_cast<size_t>(inner), index);
    int64_t fault = 0;
    const auto none = static_cast<int64_t>(ScatterOp::None),
               add = static_cast<int64_t>(ScatterOp::Add);
    const std::vector<T> empty(Count * Length);
    if (inner == 1)
      EXPECT_EQ(run<T>(tables()[0], KernelId::Gather, empty, {x.data(), each.data(), &fault},
                       {1, Rows, block * Width, Count}),
                gathered);
    else
      EXPECT_EQ(run<T>(tables()[0], KernelId::GatherElements, empty,
                       {x.data(), each.data(), &fault},
                       {Width, Rows, Length, 2, Count, 0, Length, 1}),
                gathered);
    EXPECT_EQ(fault, 1);
    for (const auto &[op, expected] : {std::pair(none, put), std::pair(add, added)}) {
      fault = 0;
      if (inner == 1)
        EXPECT_EQ(run<T>(tables()[0], KernelId::ScatterNd, x, {updates.data(), each.data(), &fault},
                         {TypeOf<T>, op, Count, block, 1, Rows, Length}),
                  expected);
      else
        EXPECT_EQ(run<T>(tables()[0], KernelId::ScatterElements, x,
                         {updates.data(), each.data(), &fault},
                         {TypeOf<T>, op, Rows, Length, 2, Count, 0, Length, Length, 1, 1}),
                  expected);
      EXPECT_EQ(fault, 1);
    }
  }
}

TYPED_TEST(Whole, CountsFromAStart) {
  using T = TypeParam;
  const T start = T(-5), delta = T(3);
  for (int64_t n : {0, 1, 15, 16, 33}) {
    std::vector<T> expected;
    for (int64_t i = 0; i < n; ++i)
      expected.push_back(
          static_cast<T>(static_cast<uint64_t>(start) + 3 * static_cast<uint64_t>(i)));
    EXPECT_EQ(run<T>(tables()[0], KernelId::Range, std::vector<T>(expected.size()),
                     {&start, &delta}, {TypeOf<T>, n}),
              expected);
  }
}

TEST(Conversions, OfDoubles) {
  std::vector<double> x;
  for (int64_t i = 0; i < 100'000; ++i) { // around halves, and any bits
    const double half = std::ldexp(1 + double(upTo(2047)) / 2048, int(upTo(45)) - 27);
    const double near[] = {half, std::nextafter(half, 0), std::nextafter(half, 1e9), half + 1e-13};
    x.push_back((i % 2 ? -1 : 1) * near[upTo(3)]);
  }
  x.insert(x.end(), {0.0, -0.0, 65519.999, 65520, 1e300, -INFINITY, 5e-324, 0x1p-25, 0x1.1p-25});
  const auto count = static_cast<int64_t>(x.size());
  std::vector<uint16_t> expected;
  for (const double value : x)
    expected.push_back(kernels::narrow(value).bits);
  for (const Table &table : tables())
    EXPECT_EQ(run<uint16_t>(table, KernelId::Convert, std::vector<uint16_t>(x.size()), {x.data()},
                            {Float64, Float16, count}),
              expected)
        << table.name;
}

TEST(Conversions, ToWholeNumbersAndBack) {
  for (const int64_t size : {31, 64, 300}) {
    std::vector<float> x;
    std::vector<int32_t> truncated;
    for (int64_t i = 0; i < size; ++i) {
      x.push_back(static_cast<float>(upTo(1000) - 500) / 8);
      truncated.push_back(static_cast<int32_t>(x.back()));
    }
    const auto whole = numbers<int64_t>(size);
    std::vector<double> real;
    for (const int64_t value : whole)
      real.push_back(static_cast<double>(value));
    const auto count = static_cast<size_t>(size);
    for (const Table &table : tables()) {
      EXPECT_EQ(run<int32_t>(table, KernelId::Convert, std::vector<int32_t>(count), {x.data()},
                             {Float32, Int32, size}),
                truncated)
          << table.name;
      EXPECT_EQ(run<double>(table, KernelId::Convert, std::vector<double>(count), {whole.data()},
                            {Int64, Float64, size}),
                real)
          << table.name;
    }
  }
}

} // namespace
} // namespace mlbridge::native
