// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every kernel gives the same bits on every instruction set, for all shapes, alignments and values.
#include "engine/native/kernels/kernel.h"
#include "engine/native/kernels/quantized.h"
#include "engine/native/kernels/sizes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace mlbridge::native {
#if defined(MLBRIDGE_ALL_KERNELS)
SetKernels setAvx2AllKernels, setAvx512AllKernels; // also those that the library lacks
#endif

namespace {

struct Table {
  const char *name;
  const Kernel *kernels;
};

/// The instruction sets that are held against Portable. Says once what this CPU can't show.
const std::vector<Table> &others() {
  static const std::vector<Table> Tables = [] {
    std::vector<Table> tables;
    for (InstructionSet set : {InstructionSet::Neon, InstructionSet::Avx2, InstructionSet::Avx512})
      if (const Kernel *kernels = kernelsFor(set))
        tables.push_back({nameOf(set), kernels});
      else
        std::printf("[ SKIPPED  ] %s: not of this CPU\n", nameOf(set));
#if defined(MLBRIDGE_ALL_KERNELS)
    static Kernel Avx2All[static_cast<size_t>(KernelId::Count)], Avx512All[std::size(Avx2All)];
    // What fills a table is compiled for that CPU, too.
    if (kernelsFor(InstructionSet::Avx2)) {
      setAvx2AllKernels(Avx2All);
      tables.push_back({"avx2, all", Avx2All});
    }
    if (kernelsFor(InstructionSet::Avx512)) {
      setAvx512AllKernels(Avx512All);
      tables.push_back({"avx512, all", Avx512All});
    }
#endif
    return tables;
  }();
  return Tables;
}

template <class E> KernelId idOf(KernelId f32) {
  return static_cast<KernelId>(static_cast<int>(f32) + (sizeof(E) == 8));
}

std::mt19937 &source() {
  static std::mt19937 Source(20240917);
  return Source;
}
int64_t upTo(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(source()); }

/// Ordinary numbers, and seldom any bits at all.
template <class E> std::vector<E> numbers(int64_t count, int special = 0) {
  std::vector<E> values(static_cast<size_t>(count));
  std::normal_distribution<double> normal(0, 2);
  const E odd[] = {E(0),
                   -E(0),
                   std::numeric_limits<E>::infinity(),
                   -std::numeric_limits<E>::infinity(),
                   std::numeric_limits<E>::quiet_NaN(),
                   std::numeric_limits<E>::denorm_min(),
                   -std::numeric_limits<E>::denorm_min(),
                   std::numeric_limits<E>::max(),
                   std::numeric_limits<E>::lowest(),
                   std::numeric_limits<E>::min(),
                   E(0.5),
                   E(1),
                   E(-1),
                   E(2.5),
                   E(-3)};
  for (E &value : values) {
    const int64_t kind = upTo(99);
    if (kind < special) {
      value = odd[static_cast<size_t>(upTo(std::size(odd) - 1))];
    } else if (kind < 2 * special) {
      const uint64_t bits = (uint64_t(source()()) << 32) | source()();
      std::memcpy(&value, &bits, sizeof value);
      if (std::isnan(value)) // a quiet one
        value = std::numeric_limits<E>::quiet_NaN();
    } else {
      value = static_cast<E>(normal(source()));
    }
  }
  return values;
}

/// Buffers of a call: operand i starts at an address of its own misalignment, and what lies around
/// results is watched.
struct Operand {
  std::vector<unsigned char> bytes;
  size_t element = 1;
  bool result = false, null = false;
};
template <class T> Operand in(const std::vector<T> &values) {
  Operand operand;
  operand.element = sizeof(T);
  operand.bytes.resize(values.size() * sizeof(T));
  if (!values.empty())
    std::memcpy(operand.bytes.data(), values.data(), operand.bytes.size());
  return operand;
}
template <class T> Operand out(int64_t count) {
  Operand operand = in(std::vector<T>(static_cast<size_t>(count), T(77)));
  operand.result = true;
  return operand;
}
template <class T> Operand inOut(const std::vector<T> &values) {
  Operand operand = in(values);
  operand.result = true;
  return operand;
}
Operand none() {
  Operand operand;
  operand.null = true;
  return operand;
}

using Results = std::vector<std::vector<unsigned char>>;

Results call(Kernel kernel, const std::vector<Operand> &operands,
             const std::vector<int64_t> &parameters, const std::vector<int> &shifts) {
  constexpr size_t Margin = 128;
  std::vector<std::vector<unsigned char>> memory;
  std::vector<void *> pointers;
  for (size_t i = 0; i < operands.size(); ++i) {
    memory.emplace_back(operands[i].bytes.size() + 3 * Margin, uint8_t(0xa5));
    unsigned char *start = memory.back().data() + Margin;
    start += (64 - reinterpret_cast<uintptr_t>(start) % 64) +
             static_cast<size_t>(shifts[i]) * operands[i].element;
    if (!operands[i].bytes.empty())
      std::memcpy(start, operands[i].bytes.data(), operands[i].bytes.size());
    pointers.push_back(operands[i].null ? nullptr : start);
  }
  kernel(pointers.data(), parameters.data());
  Results results;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].null)
      continue;
    const unsigned char *start = static_cast<unsigned char *>(pointers[i]);
    const unsigned char *end = start + operands[i].bytes.size();
    if (operands[i].result)
      results.emplace_back(start, end);
    else
      EXPECT_TRUE(std::equal(start, end, operands[i].bytes.begin()))
          << "operand " << i << " was written";
    for (const unsigned char *p = memory[i].data(); p < start; ++p)
      EXPECT_EQ(*p, 0xa5) << "before operand " << i;
    for (const unsigned char *p = end; p < memory[i].data() + memory[i].size(); ++p)
      EXPECT_EQ(*p, 0xa5) << "after operand " << i;
  }
  return results;
}

/// The place where two results differ, NaN being equal to NaN; empty if nowhere.
template <class E>
std::string difference(const std::vector<unsigned char> &a, const std::vector<unsigned char> &b) {
  for (size_t i = 0; i < a.size() / sizeof(E); ++i) {
    E x, y;
    std::memcpy(&x, a.data() + i * sizeof(E), sizeof(E));
    std::memcpy(&y, b.data() + i * sizeof(E), sizeof(E));
    if (std::equal(a.begin() + ptrdiff_t(i * sizeof(E)), a.begin() + ptrdiff_t((i + 1) * sizeof(E)),
                   b.begin() + ptrdiff_t(i * sizeof(E))) ||
        (std::isnan(double(x)) && std::isnan(double(y))))
      continue;
    char text[120];
    std::snprintf(text, sizeof text, "element %zu: portable %a, here %a", i, double(x), double(y));
    return text;
  }
  return "";
}

template <class E>
void same(KernelId f32, const std::vector<Operand> &operands,
          const std::vector<int64_t> &parameters) {
  const auto id = static_cast<size_t>(idOf<E>(f32));
  std::vector<int> aligned(operands.size()), shifted;
  for (size_t i = 0; i < operands.size(); ++i)
    shifted.push_back(int(upTo(7)));
  const Results expected =
      call(kernelsFor(InstructionSet::Portable)[id], operands, parameters, aligned);
  for (const Table &table : others())
    for (const std::vector<int> &shifts : {aligned, shifted}) {
      const Results results = call(table.kernels[id], operands, parameters, shifts);
      ASSERT_EQ(results.size(), expected.size());
      for (size_t i = 0; i < results.size(); ++i) {
        const std::string where = difference<E>(expected[i], results[i]);
        if (!where.empty()) {
          std::string list;
          for (int64_t p : parameters)
            list += " " + std::to_string(p);
          FAIL() << nameOf(static_cast<KernelId>(id)) << " on " << table.name << ", result " << i
                 << ", " << where << ", parameters" << list;
        }
      }
    }
}

template <class E> class Identity : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(Identity, Elements, );

const std::vector<int64_t> Lengths = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 257};

TYPED_TEST(Identity, FunctionsOfOneNumber) {
  using E = TypeParam;
  const KernelId ids[] = {
#define MLBRIDGE_ID(name) KernelId::name##F32,
      MLBRIDGE_NATIVE_FLOAT_UNARY(MLBRIDGE_ID)
#undef MLBRIDGE_ID
  };
  for (KernelId id : ids) {
    for (int64_t n : Lengths)
      same<E>(id, {out<E>(n), in(numbers<E>(n, 20))}, {n, real(0.75), real(1.25)});
    same<E>(id, {out<E>(20000), in(numbers<E>(20000, 45))}, {20000, real(0.5), real(0.25)});
  }
}

TYPED_TEST(Identity, FunctionsOfTwoNumbers) {
  using E = TypeParam;
  const KernelId ids[] = {
#define MLBRIDGE_ID(name) KernelId::name##F32,
      MLBRIDGE_NATIVE_FLOAT_BINARY(MLBRIDGE_ID)
#undef MLBRIDGE_ID
  };
  for (KernelId id : ids) {
    for (int64_t n : Lengths) {
      same<E>(id, {out<E>(n), in(numbers<E>(n, 20)), in(numbers<E>(n, 20))}, {1, n, 1, 1});
      same<E>(id, {out<E>(n), in(numbers<E>(n, 20)), in(numbers<E>(1, 20))}, {1, n, 1, 0});
      same<E>(id, {out<E>(3 * n * 2), in(numbers<E>(3 * n, 20)), in(numbers<E>(n * 2, 20))},
              {3, 3, n, 0, n, 1, 2, 2, 0, 1});
    }
    same<E>(id, {out<E>(20000), in(numbers<E>(20000, 40)), in(numbers<E>(20000, 40))},
            {1, 20000, 1, 1});
    same<E>(id, {out<E>(1), in(numbers<E>(1)), in(numbers<E>(1))}, {0});
  }
}

TYPED_TEST(Identity, MatrixProducts) {
  using E = TypeParam;
  std::vector<int64_t> sizes = {1, 2, 3, 4, 5, 8, 13, 15, 16, 17, 30, 33, 48, 50, 64, 65, 100};
  for (int round = 0; round < 400; ++round) {
    const auto pick = [&] { return sizes[static_cast<size_t>(upTo(sizes.size() - 1))]; };
    const int64_t m = round % 3 ? pick() % 20 + 1 : 1, n = pick();
    const int64_t k = round % 7 == 0 ? 0 : round % 5 ? pick() : 250 + pick();
    const int64_t batch = round % 4 ? 1 : 3;
    const bool transposed = round % 6 == 1;
    const int64_t packed = packedGemmSize<E>(k, n);
    std::vector<E> b(static_cast<size_t>(packed * batch));
    const std::vector<E> plain = numbers<E>(k * n * batch, round % 8 == 7 ? 3 : 0);
    for (int64_t i = 0; i < batch; ++i)
      packGemm(b.data() + i * packed, plain.data() + i * k * n, k, n, n, 1);
    const int c = int(upTo(4)); // none, of columns, of rows, of one, of all
    std::vector<int64_t> p = {m,
                              k,
                              n,
                              k,
                              0,
                              n,
                              c == 4   ? n
                              : c == 2 ? 1
                                       : 0,
                              c == 4 || c == 1 ? 1 : 0,
                              real(round % 3 ? 1 : 0.3),
                              real(round % 5 ? 1 : -2),
                              upTo(int64_t(Activation::ThresholdedRelu)),
                              real(0.5),
                              real(1.5),
                              batch > 1};
    if (batch > 1)
      p.insert(p.end(), {batch, m * k, packed, 0, m * n});
    const std::vector<E> a = numbers<E>(m * k * batch, round % 8 == 7 ? 3 : 0);
    const auto added = c ? in(numbers<E>(m * n)) : none();
    same<E>(KernelId::GemmF32, {out<E>(m * n * batch), in(a), in(b), added}, p);
    // Not packed: by columns, or by rows, where the results are those of the packed matrix.
    if (batch > 1)
      p[16] = k * n;
    p[4] = -k;
    if (k > 0)
      same<E>(KernelId::GemmF32, {out<E>(m * n * batch), in(a), in(plain), added}, p);
    p[4] = n;
    if (!packedByColumns(k, n))
      same<E>(KernelId::GemmF32, {out<E>(m * n * batch), in(a), in(plain), added}, p);
    same<E>(KernelId::PackGemmF32, {out<E>(packed * batch), in(plain)},
            {k, n, transposed ? 1 : n, transposed ? k : 1, batch, k * n});
  }
}

TYPED_TEST(Identity, AlongAnAxis) {
  using E = TypeParam;
  const KernelId reductions[] = {KernelId::ReduceSumF32,    KernelId::ReduceMeanF32,
                                 KernelId::ReduceMaxF32,    KernelId::ReduceMinF32,
                                 KernelId::ReduceProdF32,   KernelId::ReduceL1F32,
                                 KernelId::ReduceL2F32,     KernelId::ReduceSumSquareF32,
                                 KernelId::ReduceLogSumF32, KernelId::ReduceLogSumExpF32};
  for (int64_t n : Lengths)
    for (int64_t inner : {1, 2, 5, 16, 19})
      for (int special : {0, 4}) {
        const int64_t outer = 1 + upTo(2);
        const std::vector<E> x = numbers<E>(outer * n * inner, special);
        for (KernelId id : reductions)
          same<E>(id, {out<E>(outer * inner), in(x)}, {outer, n, inner});
        for (KernelId id : {KernelId::SoftmaxF32, KernelId::LogSoftmaxF32})
          same<E>(id, {out<E>(outer * n * inner), in(x)}, {outer, n, inner});
        for (int64_t flags = 0; flags < 8; ++flags)
          same<E>(KernelId::CumSumF32, {out<E>(outer * n * inner), in(x)},
                  {outer, n, inner, flags & 1, flags >> 1 & 1, flags >> 2});
      }
}

TYPED_TEST(Identity, Comparisons) {
  using E = TypeParam;
  for (int64_t n : Lengths)
    for (int64_t orEqual : {0, 1})
      for (int64_t a : {0, 1})
        for (int64_t b : {0, 1})
          same<E>(KernelId::CountLessF32,
                  {out<E>(3), in(numbers<E>(3 * n + 3, 5)), in(numbers<E>(3 * n + 3, 5))},
                  {orEqual, 3, n, a ? n : 1, a, b ? n : 0, b});
}

TYPED_TEST(Identity, Normalizations) {
  using E = TypeParam;
  for (int64_t n : Lengths) {
    const int64_t rows = 3, inner = 1 + upTo(20), channels = 1 + upTo(3);
    const Operand scale = in(numbers<E>(n)), bias = in(numbers<E>(n));
    same<E>(KernelId::LayerNormF32,
            {out<E>(rows * n), out<E>(rows), out<E>(rows), in(numbers<E>(rows * n, n == 33)), scale,
             bias},
            {rows, n, real(1e-5)});
    same<E>(KernelId::LayerNormF32,
            {out<E>(rows * n), none(), none(), in(numbers<E>(rows * n)), none(), none()},
            {rows, n, real(1e-5)});
    same<E>(KernelId::RmsNormF32, {out<E>(rows * n), in(numbers<E>(rows * n)), scale},
            {rows, n, real(1e-5)});
    std::vector<E> variance = numbers<E>(n);
    for (E &v : variance)
      v = std::fabs(v);
    for (int64_t size : {int64_t(1), inner})
      same<E>(KernelId::BatchNormF32,
              {out<E>(rows * n * size), in(numbers<E>(rows * n * size)), scale, bias,
               in(numbers<E>(n)), in(variance)},
              {rows, n, size, real(1e-5)});
    same<E>(KernelId::GroupNormF32,
            {out<E>(2 * n * channels * inner), in(numbers<E>(2 * n * channels * inner)),
             in(numbers<E>(n * channels)), in(numbers<E>(n * channels))},
            {2, n, channels, inner, real(1e-3)});
  }
}

TYPED_TEST(Identity, ScatteredRows) {
  using E = TypeParam;
  for (KernelId id : {KernelId::ScatterAddRowsF32, KernelId::ScatterMulRowsF32,
                      KernelId::ScatterMaxRowsF32, KernelId::ScatterMinRowsF32})
    for (int64_t length : Lengths) {
      const int64_t rows = 7, count = 40;
      std::vector<int64_t> indices(static_cast<size_t>(2 * count));
      for (int64_t &index : indices)
        index = upTo(2 * rows - 1) - rows;
      indices[10] = length % 2 ? rows : -rows - 1; // out of range: left out
      same<E>(id,
              {inOut(numbers<E>(rows * length, 2)), in(numbers<E>(count * length, 2)), in(indices),
               inOut(std::vector<int64_t>{0})},
              {count, rows, length, 2});
    }
}

TYPED_TEST(Identity, RecurrentLayers) {
  using E = TypeParam;
  struct Kind {
    KernelId id;
    int64_t gates;
  };
  for (const Kind &kind :
       {Kind{KernelId::LstmF32, 4}, Kind{KernelId::GruF32, 3}, Kind{KernelId::RnnF32, 1}})
    for (int round = 0; round < 60; ++round) {
      const int64_t steps = upTo(6), batch = 1 + upTo(3), input = 1 + upTo(20),
                    hidden = 1 + upTo(40);
      const int64_t g = kind.gates;
      std::vector<E> w(static_cast<size_t>(packedRecurrentSize<E>(g, hidden, input)));
      std::vector<E> r(static_cast<size_t>(packedRecurrentSize<E>(g, hidden, hidden)));
      packRecurrentWeights(w.data(), numbers<E>(g * hidden * input).data(), g, hidden, input);
      packRecurrentWeights(r.data(), numbers<E>(g * hidden * hidden).data(), g, hidden, hidden);
      std::vector<int32_t> lengths;
      for (int64_t b = 0; b < batch; ++b)
        lengths.push_back(int32_t(upTo(steps)));
      const bool batchFirst = upTo(1);
      const bool lstm = kind.id == KernelId::LstmF32;
      std::vector<Operand> operands = {out<E>(steps * batch * hidden), out<E>(batch * hidden)};
      if (lstm)
        operands.push_back(out<E>(batch * hidden));
      operands.push_back(in(numbers<E>(steps * batch * input)));
      operands.push_back(in(w));
      operands.push_back(in(r));
      operands.push_back(upTo(1) ? in(numbers<E>(2 * g * hidden)) : none());
      operands.push_back(upTo(1) ? in(lengths) : none());
      operands.push_back(upTo(1) ? in(numbers<E>(batch * hidden)) : none());
      if (lstm) {
        operands.push_back(upTo(1) ? in(numbers<E>(batch * hidden)) : none());
        operands.push_back(upTo(1) ? in(numbers<E>(3 * hidden)) : none());
      }
      // The contents of the workspace afterwards are nobody's business.
      Operand workspace;
      std::vector<int64_t> p = {steps,
                                batch,
                                input,
                                hidden,
                                upTo(1),
                                batchFirst ? input : batch * input,
                                batchFirst ? steps * input : input,
                                batchFirst ? hidden : batch * hidden,
                                batchFirst ? steps * hidden : hidden,
                                hidden,
                                real(round % 4 ? 0 : 0.7),
                                upTo(1)};
      const bool usual = round % 2;
      for (Activation a : {Activation::Sigmoid, Activation::Tanh, Activation::Tanh})
        p.insert(p.end(), {usual ? int64_t(a) : upTo(int64_t(Activation::ThresholdedRelu)),
                           real(0.4), real(0.6)});
      const int64_t size = recurrentWorkspace<E>(g, steps, batch, hidden);
      // Held apart, so that it is not compared.
      static std::vector<E> memory;
      memory.assign(static_cast<size_t>(size) + 16, E(0));
      const auto id = static_cast<size_t>(idOf<E>(kind.id));
      const auto run = [&](const Kernel *kernels) {
        std::vector<std::vector<unsigned char>> buffers;
        std::vector<void *> pointers;
        for (const Operand &operand : operands) {
          buffers.push_back(operand.bytes);
          buffers.back().resize(operand.bytes.size() + 64);
          pointers.push_back(operand.null ? nullptr : buffers.back().data());
        }
        pointers.push_back(memory.data());
        kernels[id](pointers.data(), p.data());
        buffers.resize(lstm ? 3 : 2);
        return buffers;
      };
      const auto expected = run(kernelsFor(InstructionSet::Portable));
      for (const Table &table : others()) {
        const auto results = run(table.kernels);
        for (size_t i = 0; i < results.size(); ++i)
          ASSERT_EQ(difference<E>(expected[i], results[i]), "")
              << nameOf(static_cast<KernelId>(id)) << " on " << table.name << ", result " << i
              << ", round " << round;
      }
    }
}

TEST(Half, EveryValueAndItsNeighbours) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i)
    halves[i] = uint16_t(i);
  std::vector<float> floats(halves.size());
  const Kernel *portable = kernelsFor(InstructionSet::Portable);
  const auto widen = static_cast<size_t>(KernelId::F32FromF16);
  const auto narrow = static_cast<size_t>(KernelId::F16FromF32);
  const int64_t count = 65535; // odd
  const auto call = [&](Kernel kernel, void *y, const void *x) {
    void *const operands[] = {y, const_cast<void *>(x)};
    kernel(operands, &count);
  };
  call(portable[widen], floats.data(), halves.data());
  EXPECT_EQ(floats[0x3c00], 1.0F);
  EXPECT_EQ(floats[0x0001], 0x1p-24F);
  EXPECT_EQ(floats[0xfc00], -INFINITY);
  std::vector<float> around;
  for (float f : floats) {
    around.push_back(f);
    around.push_back(std::nextafter(f, INFINITY));
    around.push_back((f + std::nextafter(f, INFINITY)) / 2);
    around.push_back(f * 1.00048828125F); // halfway to the next half
  }
  for (const Table &table : others()) {
    std::vector<float> wide(halves.size());
    call(table.kernels[widen], wide.data(), halves.data());
    for (size_t i = 0; i < 65535; ++i)
      ASSERT_TRUE(std::isnan(floats[i]) ||
                  (floats[i] == wide[i] && std::signbit(floats[i]) == std::signbit(wide[i])))
          << i << " on " << table.name;
    for (size_t first = 0; first + 65535 <= around.size(); first += 65535) {
      std::vector<uint16_t> expected(65536), here(65536);
      call(portable[narrow], expected.data(), around.data() + first);
      call(table.kernels[narrow], here.data(), around.data() + first);
      for (size_t i = 0; i < 65535; ++i)
        ASSERT_TRUE(std::isnan(around[first + i]) || expected[i] == here[i])
            << around[first + i] << " on " << table.name;
    }
  }
}

/// Loops of length 1 between a first and a last one of 2, each with so many times `strides`.
std::vector<int64_t> loops(int64_t rank, const std::vector<int64_t> &strides) {
  std::vector<int64_t> p;
  for (int64_t d = 0; d < rank; ++d) {
    p.push_back(d == 0 || d == rank - 1 ? 2 : 1);
    for (const int64_t stride : strides)
      p.push_back(d == rank - 1 ? stride : 2 * stride);
  }
  return p;
}

TEST(Loops, AsManyAsTileMakesOfTheMostDimensions) {
  const int64_t one = real(1), block = packedGemmSize<float>(1, 1);
  struct Case {
    KernelId id;
    std::vector<int64_t> before, strides, after;
    int indices = -1; ///< the operand that is made of zeros
  };
  const Case cases[] = {
      {KernelId::AddF32, {}, {1, 1}, {}},
      {KernelId::PowF64, {}, {1, 1}, {}},
      {KernelId::CopyStrided, {4, 0, 0}, {1, 1}, {}},
      {KernelId::Where, {8}, {1, 1, 1}, {}},
      {KernelId::Compare, {1, 10}, {1, 1}, {}},
      {KernelId::IntegerBinary, {0, 4}, {1, 1}, {}},
      {KernelId::IntegerFunction, {14, 4}, {1, 1}, {}},
      {KernelId::Fmod, {10, 0}, {1, 1}, {}},
      {KernelId::GatherElements, {4, 1, 1}, {1}, {}, 2},
      {KernelId::ScatterElements, {10, 1, 1, 1}, {1, 1}, {}, 2},
      {KernelId::IntegerMatMul, {4, 1, 1, 1}, {1, 1}, {}},
      {KernelId::IntegerGemm, {1, 1, 1, 1, 5, 0, 0, 0, 0, 0}, {1, 128}, {}},
      {KernelId::GemmF32, {1, 1, 1, 1, 0, 1, 0, 0, one, 0, 0, 0, 0}, {1, block, 0, 1}, {}},
  };
  for (const Case &c : cases)
    for (const Table &table : others()) {
      std::vector<std::vector<float>> results;
      for (const int64_t rank : {int64_t(2), MostLoops}) {
        std::vector<int64_t> p = c.before;
        p.push_back(rank);
        const std::vector<int64_t> all = loops(rank, c.strides);
        p.insert(p.end(), all.begin(), all.end());
        std::vector<std::vector<float>> memory;
        std::vector<void *> operands;
        for (int i = 0; i < 6; ++i) {
          memory.emplace_back(256);
          for (size_t k = 0; k < 256 && i && i != c.indices; ++k) {
            const auto whole = static_cast<uint32_t>((k * 7 + static_cast<size_t>(i)) % 5 + 1);
            const auto real = static_cast<float>(whole);
            const bool isWhole = c.id == KernelId::IntegerMatMul;
            std::memcpy(&memory.back()[k], isWhole ? static_cast<const void *>(&whole) : &real, 4);
          }
        }
        for (std::vector<float> &m : memory)
          operands.push_back(m.data());
        operands.push_back(nullptr);
        if (c.id == KernelId::IntegerGemm)
          operands[3] = operands[4] = operands[5] = nullptr;
        if (c.id == KernelId::GemmF32)
          operands[3] = nullptr;
        table.kernels[static_cast<size_t>(c.id)](operands.data(), p.data());
        results.push_back(memory[0]);
      }
      const auto *one = reinterpret_cast<const uint8_t *>(results[0].data());
      const auto *other = reinterpret_cast<const uint8_t *>(results[1].data());
      EXPECT_TRUE(std::equal(one, one + 1024, other)) << nameOf(c.id) << " on " << table.name;
      EXPECT_NE(results[0], std::vector<float>(256)) << nameOf(c.id);
    }
}

// ---- quantized ---------------------------------------------------------------------------------

std::vector<uint8_t> bytes(int64_t count) {
  std::vector<uint8_t> values(static_cast<size_t>(count));
  for (uint8_t &value : values)
    value = static_cast<uint8_t>(upTo(9) ? upTo(255) : upTo(1) * 255); // the extremes too
  return values;
}

TEST(Quantized, ProductsOfBytesAreExactForAllSigns) {
  const auto at = [](const std::vector<uint8_t> &x, bool isSigned, int64_t i) {
    const uint8_t byte = x[static_cast<size_t>(i)];
    return isSigned ? int32_t{static_cast<int8_t>(byte)} : int32_t{byte};
  };
  std::vector<Table> tables = others();
  tables.push_back({"portable", kernelsFor(InstructionSet::Portable)});
  for (int round = 0; round < 200; ++round) {
    const int64_t m = upTo(9), k = upTo(round % 10 ? 70 : 600), n = upTo(round % 7 ? 70 : 200);
    const bool signedA = upTo(1), signedB = upTo(1), isVector = upTo(1), hasZeros = upTo(1);
    const int64_t typeA = signedA ? Int8 : UInt8, typeB = signedB ? Int8 : UInt8;
    auto a = bytes(m * k), b = bytes(k * n), za = bytes(m + 1), zb = bytes(n + 1);
    std::vector<int8_t> packed(static_cast<size_t>(packedBytes(k, n)) + 1);
    void *const packing[] = {packed.data(), b.data()};
    const int64_t packs[] = {k, n, n, 1, typeB, 1, 0};
    kernelsFor(InstructionSet::Portable)[static_cast<size_t>(KernelId::PackBytes)](packing, packs);
    std::vector<int32_t> expected;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = 0; column < n; ++column) {
        const int32_t x = hasZeros ? at(za, signedA, isVector * row) : 0;
        const int32_t z = hasZeros ? at(zb, signedB, isVector * column) : 0;
        int32_t sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += (at(a, signedA, row * k + i) - x) * (at(b, signedB, i * n + column) - z);
        expected.push_back(sum);
      }
    for (const Table &table : tables) {
      std::vector<int32_t> y(static_cast<size_t>(m * n) + 1, 77);
      void *const operands[] = {y.data(),
                                a.data(),
                                packed.data(),
                                hasZeros ? za.data() : nullptr,
                                hasZeros ? zb.data() : nullptr,
                                nullptr,
                                nullptr};
      const int64_t p[] = {m, k, n, typeA, typeB, 0, isVector, isVector, 0, 0, 0};
      table.kernels[static_cast<size_t>(KernelId::IntegerGemm)](operands, p);
      EXPECT_EQ(y.back(), 77) << "beyond the end, " << table.name;
      y.pop_back();
      ASSERT_EQ(y, expected) << table.name << " " << m << " " << k << " " << n;
    }
  }
}

TEST(Quantized, RoundsToEvenAndSaturates) {
  std::vector<float> x = {0,
                          0.5F,
                          1.5F,
                          2.5F,
                          -0.5F,
                          -1.5F,
                          127.4F,
                          1e30F,
                          -1e30F,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(),
                          -128,
                          254.5F,
                          255,
                          256,
                          257,
                          3,
                          -3};
  const int expected[] = {128, 128, 130, 130, 128, 126, 255, 255, 0,  255,
                          0,   0,   0,   255, 255, 255, 255, 131, 125};
  std::vector<Table> tables = others();
  tables.push_back({"portable", kernelsFor(InstructionSet::Portable)});
  for (const Table &table : tables) {
    float scale = 1;
    uint8_t zero = 128, y[19] = {};
    const int64_t p[] = {UInt8, 1, 1, 19, 1, 0, 0, 0};
    void *const operands[] = {y, x.data(), &scale, &zero};
    table.kernels[static_cast<size_t>(KernelId::Quantize)](operands, p);
    for (size_t i = 0; i < 19; ++i)
      EXPECT_EQ(y[i], expected[i]) << x[i] << " on " << table.name;
    float back[19];
    void *const others[] = {back, y, &scale, &zero};
    table.kernels[static_cast<size_t>(KernelId::Dequantize)](others, p);
    for (size_t i = 0; i < 19; ++i)
      EXPECT_EQ(back[i], static_cast<float>(expected[i] - 128)) << table.name;
  }
}

TEST(InstructionSets, ChosenAndNamed) {
  EXPECT_NE(kernelsFor(InstructionSet::Portable), nullptr);
  EXPECT_NE(kernelsFor(bestInstructionSet()), nullptr);
  EXPECT_STREQ(nameOf(KernelId::GemmF64), "GemmF64");
  for (size_t id = 0; id < static_cast<size_t>(KernelId::Count); ++id)
    for (const Table &table : others())
      EXPECT_NE(table.kernels[id], nullptr);
}

} // namespace
} // namespace mlbridge::native
