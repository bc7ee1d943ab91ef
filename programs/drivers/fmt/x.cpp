// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes numbers, text, tables and dates in many formats.
#include <cstring>
#include <string>
#include <vector>

#include "fmt/args.h"
#include "fmt/format.h"
#include "fmt/os.h"
#include "fmt/ranges.h"

static size_t numbers(int count) {
  fmt::memory_buffer out;
  size_t size = 0;
  double value = 1.0;
  for (int n = 0; n < count; ++n) {
    value = value * 1.7 + n / 7.0;
    if (value > 1e200)
      value *= 1e-250;
    fmt::format_to(std::back_inserter(out), "{:.17g} {:.3f} {:e} {:a} {} ", value, n / 8.0, value,
                   value, static_cast<float>(value));
    fmt::format_to(std::back_inserter(out), "{:#x} {:08b} {:+d} {:o} {:>12L}\n", n, n % 256, -n, n,
                   n * 1000);
    size += out.size();
    out.clear();
  }
  return size;
}

static size_t table(int count) {
  size_t size = 0;
  std::vector<std::string> words{"apple", "pear", "b\u00e9ret", "nut"};
  for (int n = 0; n < count; ++n) {
    std::string row = fmt::format("|{:<10}|{:^12}|{:*>8}|{:.2}|\n", words[n % 4], n,
                                  words[(n + 1) % 4], words[n % 3]);
    row += fmt::format("{0} {1} {0} {name:?>{width}}\n", n, words, fmt::arg("name", "x"),
                       fmt::arg("width", n % 9));
    row += fmt::to_string(n * 0.1) + fmt::to_string(n);
    size += row.size();
  }
  return size;
}

static size_t dynamic(int count) {
  size_t size = 0;
  const char *formats[] = {"{} {:>8} {:.3f}\n", "{2:e} {1} {0:x}\n", "{0:{1}}\n", "{:d} {:s} {}\n",
                           "{} {3}\n"};
  for (int n = 0; n < count; ++n) {
    fmt::dynamic_format_arg_store<fmt::format_context> store;
    store.push_back(n);
    if (n % 5 == 2)
      store.push_back(n % 20);
    else
      store.push_back("text");
    store.push_back(n * 1.5);
    try {
      size += fmt::vformat(formats[n % 5], store).size();
    } catch (const fmt::format_error &error) {
      size += strlen(error.what());
    }
  }
  return size;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  int count = std::stoi(argv[2]);
  size_t size = !strcmp(argv[1], "numbers") ? numbers(count)
                : !strcmp(argv[1], "table") ? table(count)
                                            : dynamic(count);
  fmt::print("{} bytes\n", size);
  auto file = fmt::output_file("table.txt");
  for (int n = 0; n < 300; ++n)
    file.print("{:5} {:5.1f}%\n", n, n / 3.0);
  return 0;
}
