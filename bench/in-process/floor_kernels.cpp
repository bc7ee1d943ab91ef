// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the kernels: the matrix products of a network and nothing else, by OpenBLAS in one
// thread or by loops of our own for this processor.
//
//   in-process-floor-kernels blas|loops MODEL
//
// Says "ready"; each line "<passes>" of standard input is answered with the nanoseconds they took.
// First both are held against each other.
#include "examples.h"

#include <cblas.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

using namespace inprocess;

namespace {

constexpr int Lanes = 16;
using Vector = float __attribute__((vector_size(Lanes * sizeof(float)), aligned(4)));

using Floats = std::unique_ptr<float[], void (*)(void *)>;

Floats allocate(size_t count) {
  void *memory = std::aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
  if (!memory)
    fail("no memory");
  return Floats(static_cast<float *>(memory), std::free);
}

Floats random(size_t count, float scale) {
  static std::mt19937 numbers(1);
  std::uniform_real_distribution<float> between(-scale, scale);
  Floats made = allocate(count);
  for (size_t i = 0; i < count; ++i)
    made[i] = between(numbers);
  return made;
}

/// A matrix [rows, columns], for OpenBLAS as it is, for the loops in panels of 64 columns.
struct Matrix {
  Matrix(int rowCount, int columnCount)
      : rows(rowCount), columns(columnCount), panels((columnCount + Width - 1) / Width),
        plain(random(size_t(rows) * columns, 1.0F / std::sqrt(float(rows)))),
        packed(allocate(size_t(panels) * rows * Width)) {
    for (int p = 0; p < panels; ++p)
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < Width; ++c) {
          const int column = p * Width + c;
          packed[(size_t(p) * rows + r) * Width + c] =
              column < columns ? plain[size_t(r) * columns + column] : 0;
        }
  }
  static constexpr int Width = 4 * Lanes;
  int rows, columns, panels;
  Floats plain, packed;
};

/// R rows of x times a panel of V vectors, two sums for each so that additions needn't wait.
template <int R, int V>
void multiplyPanel(const float *x, const float *panel, const Matrix &matrix, float *y,
                   int columns) {
  const int length = matrix.rows;
  Vector sums[2][R][V] = {};
  int k = 0;
  const auto step = [&](Vector(&into)[R][V], int at) {
    Vector weights[V];
    for (int v = 0; v < V; ++v)
      std::memcpy(&weights[v], panel + size_t(at) * Matrix::Width + v * Lanes, sizeof(Vector));
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < V; ++v)
        into[r][v] += weights[v] * x[size_t(r) * length + at];
  };
  if constexpr (R == 1)
    for (; k + 1 < length; k += 2) {
      step(sums[0], k);
      step(sums[1], k + 1);
    }
  for (; k < length; ++k)
    step(sums[0], k);
  for (int r = 0; r < R; ++r) {
    float row[V * Lanes];
    for (int v = 0; v < V; ++v) {
      const Vector sum = sums[0][r][v] + sums[1][r][v];
      std::memcpy(row + v * Lanes, &sum, sizeof sum);
    }
    std::memcpy(y + size_t(r) * matrix.columns, row, size_t(columns) * sizeof(float));
  }
}

template <int R> void multiplyRows(const float *x, const Matrix &matrix, float *y) {
  for (int p = 0; p < matrix.panels; ++p) {
    const float *panel = matrix.packed.get() + size_t(p) * matrix.rows * Matrix::Width;
    const int left = std::min(Matrix::Width, matrix.columns - p * Matrix::Width);
    float *to = y + p * Matrix::Width;
    switch ((left + Lanes - 1) / Lanes) {
    case 1:
      multiplyPanel<R, 1>(x, panel, matrix, to, left);
      break;
    case 2:
      multiplyPanel<R, 2>(x, panel, matrix, to, left);
      break;
    case 3:
      multiplyPanel<R, 3>(x, panel, matrix, to, left);
      break;
    default:
      multiplyPanel<R, 4>(x, panel, matrix, to, left);
    }
  }
}

float dot(const float *x, const float *y, int length) {
  constexpr int Sums = 8;
  Vector sums[Sums] = {};
  int k = 0;
  for (; k + Sums * Lanes <= length; k += Sums * Lanes)
    for (int s = 0; s < Sums; ++s) {
      Vector a, b;
      std::memcpy(&a, x + k + s * Lanes, sizeof a);
      std::memcpy(&b, y + k + s * Lanes, sizeof b);
      sums[s] += a * b;
    }
  float total = 0;
  for (const Vector &sum : sums)
    for (int lane = 0; lane < Lanes; ++lane)
      total += sum[lane];
  for (; k < length; ++k)
    total += x[k] * y[k];
  return total;
}

void byBlas(const float *x, int rows, const Matrix &matrix, float *y) {
  if (matrix.columns == 1 && rows == 1)
    *y = cblas_sdot(matrix.rows, x, 1, matrix.plain.get(), 1);
  else if (rows == 1)
    cblas_sgemv(CblasRowMajor, CblasTrans, matrix.rows, matrix.columns, 1, matrix.plain.get(),
                matrix.columns, x, 1, 0, y, 1);
  else
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, matrix.columns, matrix.rows, 1, x,
                matrix.rows, matrix.plain.get(), matrix.columns, 0, y, matrix.columns);
}

void byLoops(const float *x, int rows, const Matrix &matrix, float *y) {
  if (matrix.columns == 1 && rows == 1) {
    *y = dot(x, matrix.plain.get(), matrix.rows);
    return;
  }
  int row = 0;
  for (; row + 6 <= rows; row += 6)
    multiplyRows<6>(x + size_t(row) * matrix.rows, matrix, y + size_t(row) * matrix.columns);
  for (; row < rows; ++row)
    multiplyRows<1>(x + size_t(row) * matrix.rows, matrix, y + size_t(row) * matrix.columns);
}

/// A product: rows of what another one made (or of the input, -1) times a matrix.
struct Step {
  int from, rows, matrix;
  bool eachRow; ///< one row after another, as a recurrence does
};

struct Network {
  int inputRows, inputColumns;
  std::vector<std::pair<int, int>> matrices;
  std::vector<Step> steps;
};

Network layers(const std::vector<int> &widths) {
  Network made{1, widths[0], {}, {}};
  for (size_t i = 1; i < widths.size(); ++i) {
    made.matrices.emplace_back(widths[i - 1], widths[i]);
    made.steps.push_back({int(i) - 2, 1, int(i) - 1, false});
  }
  return made;
}

Network graphNetwork() {
  // A step has the message of a node and the six gates. h stands for what is added up, too.
  Network made{60, 100, {{100, 100}, {100, 300}, {100, 300}, {100, 15}}, {}};
  int h = -1;
  for (int i = 0; i < 5; ++i) {
    const int at = int(made.steps.size());
    made.steps.push_back({h, 60, 0, false});
    made.steps.push_back({at, 60, 1, false});
    made.steps.push_back({h, 60, 2, false});
    h = at;
  }
  made.steps.push_back({h, 1, 3, false});
  return made;
}

const std::map<std::string, Network> Networks = {
    {"16-8-2", layers({16, 8, 2})},
    {"100-64-64-2", layers({100, 64, 64, 2})},
    {"300-256-128-15", layers({300, 256, 128, 15})},
    {"50000-1", layers({50000, 1})},
    {"50000-64-15", layers({50000, 64, 15})},
    {"inliner", layers({22, 40, 40, 20, 2})},
    {"lstm", {50, 100, {{100, 256}, {64, 256}}, {{-1, 50, 0, false}, {0, 50, 1, true}}}},
    {"ggnn", graphNetwork()},
};

/// The products of a network, with memory for each.
class Work {
public:
  explicit Work(const Network &network)
      : input(random(size_t(network.inputRows) * network.inputColumns, 1)), network_(network) {
    for (const auto &[in, out] : network.matrices)
      matrices_.emplace_back(in, out);
    for (const Step &step : network.steps)
      results_.push_back(allocate(size_t(step.rows) * matrices_[size_t(step.matrix)].columns));
  }

  const float *run(void (*product)(const float *, int, const Matrix &, float *)) const {
    for (size_t i = 0; i < network_.steps.size(); ++i) {
      const Step &step = network_.steps[i];
      const Matrix &matrix = matrices_[size_t(step.matrix)];
      const float *x = step.from < 0 ? input.get() : results_[size_t(step.from)].get();
      float *y = results_[i].get();
      if (!step.eachRow) {
        product(x, step.rows, matrix, y);
        continue;
      }
      for (int row = 0; row < step.rows; ++row)
        product(x + size_t(row) * matrix.rows, 1, matrix, y + size_t(row) * matrix.columns);
    }
    return results_.back().get();
  }

  Floats input;

  size_t outputs() const {
    const Step &last = network_.steps.back();
    return size_t(last.rows) * matrices_[size_t(last.matrix)].columns;
  }

private:
  const Network &network_;
  std::vector<Matrix> matrices_;
  std::vector<Floats> results_;
};

} // namespace

int main(int count, char **arguments) {
  const auto found = count == 3 ? Networks.find(arguments[2]) : Networks.end();
  if (found == Networks.end())
    fail("usage: in-process-floor-kernels blas|loops MODEL");
  const auto product = arguments[1] == std::string("blas") ? byBlas : byLoops;
  const Work work(found->second);
  work.run(byBlas);
  const float *answer = work.run(byBlas);
  const std::vector<float> expected(answer, answer + work.outputs());
  work.run(byLoops);
  for (size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(answer[i] - expected[i]) <= 2e-4F * (1 + std::fabs(expected[i]))))
      fail("the loops make " + std::to_string(answer[i]) + " of what OpenBLAS makes " +
           std::to_string(expected[i]));
  volatile float sink = 0;
  bench::serveLines([&](long passes) {
    float sum = 0;
    for (; passes > 0; --passes) {
      work.input[0] = passes & 1 ? 0.5F : -0.5F;
      sum += *work.run(product);
    }
    sink = sum;
  });
  return 0;
}
