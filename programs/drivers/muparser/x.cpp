// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates formulas, as a spreadsheet or a plotting program does.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "muParser.h"
#include "muParserInt.h"

static double hypotenuse(double a, double b) { return std::sqrt(a * a + b * b); }
static double milli(double value) { return value / 1000; }
static double implies(double a, double b) { return !a || b; }
static double total(const double *values, int count) {
  double sum = 0;
  for (int n = 0; n < count; ++n)
    sum += values[n];
  return sum;
}
static double length(const char *text) { return static_cast<double>(strlen(text)); }

static const char *const formulas[] = {
    "a*x^2 + b*x + c",
    "sin(x)*exp(-x/10) + cos(2*_pi*x)/(1 + abs(a))",
    "x > 0 ? (x < 5 ? a : b) : (x == -1 ? c : -c)",
    "hyp(x, a) + min(a, b, c, x) - max(sum(a, b), avg(b, c))",
    "(a && b) || !(x >= 3) -> c",
    "rint(a*100)/100 + 3m + len(\"text\")",
    "t = a + x, t*t - sqrt(t^2 + 1) + ln(1 + t*t)",
};

static void define(mu::Parser &parser, double *values) {
  const char *names[] = {"x", "a", "b", "c", "t"};
  for (int n = 0; n < 5; ++n)
    parser.DefineVar(names[n], values + n);
  parser.DefineConst("tau", 6.283185307179586);
  parser.DefineFun("hyp", hypotenuse);
  parser.DefineFun("total", total);
  parser.DefineFun("len", length);
  parser.DefinePostfixOprt("m", milli);
  parser.DefineInfixOprt("!", [](double value) { return value == 0 ? 1.0 : 0.0; });
  parser.DefineOprtChars("->&|<>=+-*/^?:!abcdefghijklmnopqrstuvwxyz");
  parser.DefineOprt("->", implies, 0);
}

static double evaluate(int count) {
  double values[5] = {0, 1.5, -2.25, 3, 0}, sum = 0;
  for (const char *formula : formulas) {
    mu::Parser parser;
    define(parser, values);
    parser.SetExpr(formula);
    for (int n = 0; n < count; ++n) {
      values[0] = n % 100 / 10.0 - 3;
      sum += parser.Eval();
    }
  }
  return sum;
}

static double compile(int count) {
  double values[5] = {0.5, 1.5, -2.25, 3, 0}, sum = 0;
  int errors = 0;
  mu::Parser parser;
  define(parser, values);
  for (int n = 0; n < count; ++n) {
    std::string number = std::to_string(n);
    std::string formula = formulas[n % 7];
    formula = "(" + number + ".5e-2 + tau)*total(" + number + ", x, a*a*a) - (" +
              (n % 7 == 6 ? "x" : formula) + ")" + (n % 10 == 9 ? " + (unknown" : "");
    try {
      parser.SetExpr(formula);
      sum += parser.Eval() + static_cast<double>(parser.GetUsedVar().size());
    } catch (const mu::Parser::exception_type &error) {
      errors += error.GetCode() + static_cast<int>(error.GetPos());
    }
  }
  return sum + errors;
}

static double bulk(int count) {
  std::vector<double> x(count), a(count), result(count);
  for (int n = 0; n < count; ++n) {
    x[n] = n * 0.001;
    a[n] = n % 17;
  }
  mu::Parser parser;
  parser.DefineVar("x", x.data());
  parser.DefineVar("a", a.data());
  double sum = 0;
  for (const char *formula : {"x*x*3 + a/(x + 1) - 2*a", "a > 8 ? x : a^2", "sqrt(abs(x - a))*2"}) {
    parser.SetExpr(formula);
    parser.Eval(result.data(), count);
    for (double value : result)
      sum += value;
  }
  return sum;
}

static double integers(int count) {
  mu::ParserInt parser;
  double n = 0, sum = 0;
  parser.DefineVar("n", &n);
  for (int k = 0; k < count; ++k) {
    n = k;
    parser.SetExpr("(n*7919 + 0x1f) % 1000 + (n & 255) - (n << 2) + #101" + std::to_string(k % 2));
    sum += parser.Eval();
    for (n = 0; n < 20; ++n)
      sum += parser.Eval();
  }
  return sum;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  int count = std::stoi(argv[2]);
  try {
    double sum = !strcmp(argv[1], "evaluate")  ? evaluate(count)
                 : !strcmp(argv[1], "compile") ? compile(count)
                 : !strcmp(argv[1], "bulk")    ? bulk(count)
                                               : integers(count);
    printf("%.6f\n", sum);
  } catch (const mu::Parser::exception_type &error) {
    printf("%s in %s\n", error.GetMsg().c_str(), error.GetExpr().c_str());
    return 1;
  }
  return 0;
}
