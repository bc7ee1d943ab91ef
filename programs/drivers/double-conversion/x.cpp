// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads numbers as a text format does: the shortest digits, a fixed number of them, or
// any.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "double-conversion/double-conversion.h"

using namespace double_conversion;

static uint64_t state = 88172645463325252u;

static uint64_t next() {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

static double anyDouble() {
  uint64_t bits = next() & ~(uint64_t(1) << 62);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double price() { return double(next() % 100000000) / 100; }

static uint64_t hash = 14695981039346656037u;

static void add(const char *text) {
  for (; *text; ++text)
    hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211u;
}

static void shortest(int count) {
  const DoubleToStringConverter &script = DoubleToStringConverter::EcmaScriptConverter();
  DoubleToStringConverter own(DoubleToStringConverter::EMIT_TRAILING_DECIMAL_POINT, "inf", "nan",
                              'e', -4, 9, 0, 0, 2);
  for (int n = 0; n < count; ++n) {
    char text[64];
    StringBuilder wide(text, sizeof text);
    script.ToShortest(n % 3 ? anyDouble() : price(), &wide);
    add(wide.Finalize());
    StringBuilder narrow(text, sizeof text);
    own.ToShortestSingle(static_cast<float>(price()), &narrow);
    add(narrow.Finalize());
  }
}

static void digits(int count) {
  const DoubleToStringConverter &script = DoubleToStringConverter::EcmaScriptConverter();
  for (int n = 0; n < count; ++n) {
    char text[512];
    StringBuilder fixed(text, sizeof text);
    script.ToFixed(price(), static_cast<int>(next() % 20), &fixed);
    add(fixed.Finalize());
    StringBuilder scientific(text, sizeof text);
    script.ToExponential(anyDouble(), static_cast<int>(next() % 24), &scientific);
    add(scientific.Finalize());
    StringBuilder precise(text, sizeof text);
    script.ToPrecision(n % 2 ? anyDouble() : price(), 1 + static_cast<int>(next() % 30), &precise);
    add(precise.Finalize());
  }
}

static void parse(int count) {
  StringToDoubleConverter converter(StringToDoubleConverter::ALLOW_HEX |
                                        StringToDoubleConverter::ALLOW_TRAILING_JUNK |
                                        StringToDoubleConverter::ALLOW_LEADING_SPACES,
                                    0.0, 0.0, "inf", "nan");
  std::vector<std::string> texts;
  for (int n = 0; n < 2000; ++n) {
    char text[128];
    switch (n % 5) {
    case 0:
      snprintf(text, sizeof text, "  %.17g", anyDouble());
      break;
    case 1:
      snprintf(text, sizeof text, "%.2f EUR", price());
      break;
    case 2:
      snprintf(text, sizeof text, "%.60e", anyDouble());
      break;
    case 3:
      snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(next()));
      break;
    default:
      snprintf(text, sizeof text, "%llu.%llu", static_cast<unsigned long long>(next() % 1000),
               static_cast<unsigned long long>(next()));
    }
    texts.push_back(text);
  }
  double sum = 0;
  int used = 0, length = 0;
  for (int n = 0; n < count; ++n) {
    const std::string &text = texts[n % texts.size()];
    double value = converter.StringToDouble(text.c_str(), static_cast<int>(text.size()), &used);
    length += used;
    if (value > -1e9 && value < 1e9)
      sum += value;
    sum += converter.StringToFloat(text.c_str(), used, &used) > 0;
  }
  printf("%.3f %d\n", sum, length);
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  int count = std::stoi(argv[2]);
  if (!strcmp(argv[1], "shortest"))
    shortest(count);
  else if (!strcmp(argv[1], "digits"))
    digits(count);
  else
    parse(count);
  printf("%016llx\n", static_cast<unsigned long long>(hash));
  return 0;
}
