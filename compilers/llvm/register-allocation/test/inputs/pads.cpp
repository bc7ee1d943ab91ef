// A function with exception pads, and some without.
#include <cstdio>
#include <stdexcept>
#include <string>

[[gnu::noinline]] static int checked(int value) {
  if (value % 3 == 0)
    throw std::runtime_error("three");
  return value * 2;
}

[[gnu::noinline]] static int guarded(int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    std::string text(static_cast<size_t>(i), 'x');
    try {
      sum += checked(i) + static_cast<int>(text.size());
    } catch (const std::exception &error) {
      sum -= error.what()[0];
    }
  }
  return sum;
}

int main() {
  std::printf("%d\n", guarded(20));
  return 0;
}
