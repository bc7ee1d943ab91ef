// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comdats, exceptions, virtual calls, the standard library.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

template <typename T> struct Shape {
  virtual ~Shape() = default;
  virtual T area() const { return T(); }
};
struct Square : Shape<int> {
  int side;
  explicit Square(int side) : side(side) {}
  int area() const override { return side * side; }
};

inline int next() {
  static int last = 0;
  return ++last;
}

int main() {
  std::map<std::string, std::vector<int>> table;
  for (int i = 0; i < 5; ++i)
    table[i % 2 ? "odd" : "even"].push_back(next() + i);
  int total = 0;
  for (const auto &entry : table)
    for (int value : entry.second)
      total += value;
  try {
    if (total > 3)
      throw std::runtime_error("thrown");
  } catch (const std::exception &error) {
    std::puts(error.what());
  }
  const Square square(total);
  const Shape<int> &shape = square;
  std::printf("%d %d\n", total, shape.area());
  return 0;
}
