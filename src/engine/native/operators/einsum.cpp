// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Einsum: the operands are multiplied one after the other, each time as a product of matrices, and
// a letter is summed as soon as nothing that follows has it.
#include "engine/native/operators/common.h"

#include <array>

namespace mlbridge::native {
namespace {

/// Dimensions by letter. Those of an ellipsis have the characters before Letters, the last one of
/// them the greatest: so they are sorted before the letters.
constexpr char Letters = static_cast<char>(MostDimensions + 1);

/// Letters that differ, and as many dimensions; those of length 1 are left out.
struct Term {
  Value *value = nullptr;
  std::string letters;
};

struct Equation {
  std::string_view text;
  std::vector<std::string> terms;
  std::string result;
  bool hasResult = false;
};

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Splits a text into terms; the ellipsis becomes one character, '.'.
bool readEquation(Lowering &l, Equation &out) {
  const std::string_view text = out.text = l.text("equation", "");
  std::string term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ')
      continue;
    if (text.substr(i, 3) == "..." && term.find('.') == term.npos) {
      term += '.';
      i += 2;
    } else if (text.substr(i, 2) == "->" && !out.hasResult) {
      out.terms.push_back(std::move(term));
      term.clear();
      out.hasResult = true;
      ++i;
    } else if (text[i] == ',' && !out.hasResult) {
      out.terms.push_back(std::move(term));
      term.clear();
    } else if (isLetter(text[i])) {
      term += text[i];
    } else {
      return wrong(l, "equation", text);
    }
  }
  (out.hasResult ? out.result : out.terms.emplace_back()) = std::move(term);
  if (out.terms.size() != l.inputs.size())
    return wrong(l, "equation", text);
  return bool(l.status());
}

/// The ellipsis as `count` characters.
void spread(std::string &term, size_t count) {
  const size_t at = term.find('.');
  if (at == term.npos)
    return;
  std::string all;
  for (size_t i = count; i-- > 0;)
    all += static_cast<char>(Letters - 1 - static_cast<char>(i));
  term.replace(at, 1, all);
}

std::string together(const std::string &a, const std::string &b, const std::string &c) {
  std::string all = a;
  all += b;
  return all += c;
}

class Sum {
public:
  explicit Sum(Lowering &l) : l_(l) { lengths_.fill(1); }

  Status lower() {
    Equation equation;
    if (!readEquation(l_, equation) || !readTerms(equation))
      return l_.status();
    for (const Term &term : terms_)
      for (const char c : term.letters)
        ++uses_[index(c)];
    for (const char c : equation.result)
      ++uses_[index(c)];
    Term all = summed(terms_[0]);
    for (size_t i = 1; i < terms_.size() && l_.status(); ++i)
      all = multiplied(all, summed(terms_[i]));
    all = summed(all);
    std::string order;
    Shape shape;
    for (const char c : equation.result) {
      shape.push_back(lengths_[index(c)]);
      if (shape.back() != 1)
        order += c;
    }
    return l_.give(l_.view(arranged(all, order), shape));
  }

private:
  static size_t index(char c) { return static_cast<size_t>(c); }

  bool readTerms(Equation &equation) {
    size_t ellipsis = 0;
    std::array<int, 128> occurrences{};
    for (size_t i = 0; i < equation.terms.size(); ++i) {
      std::string &term = equation.terms[i];
      const Value *x = l_.in(i);
      if (!x)
        return misfit(l_, "no input that is left out");
      const bool hasEllipsis = term.find('.') != term.npos;
      const size_t letters = term.size() - hasEllipsis;
      if (hasEllipsis ? letters > x->rank() : letters != x->rank())
        return misfit(l_, join("dimensions for '", equation.text, "'").c_str());
      if (hasEllipsis)
        ellipsis = std::max(ellipsis, x->rank() - letters);
      spread(term, x->rank() - letters);
      for (size_t d = 0; d < term.size(); ++d) {
        int64_t &length = lengths_[index(term[d])];
        ++occurrences[index(term[d])];
        if (length != 1 && x->shape[d] != 1 && x->shape[d] != length)
          return misfit(l_, join("dimensions for '", equation.text, "'").c_str());
        if (length == 1)
          length = x->shape[d];
      }
    }
    std::string &result = equation.result;
    if (!equation.hasResult) {
      result = ".";
      for (char c = 'A'; c <= 'z'; ++c)
        if (occurrences[index(c)] == 1)
          result += c;
    } else if (ellipsis && result.find('.') == result.npos) {
      return wrong(l_, "equation", equation.text);
    }
    spread(result, ellipsis);
    for (const char c : result)
      if (occurrences[index(c)] == 0 || std::count(result.begin(), result.end(), c) != 1)
        return wrong(l_, "equation", equation.text);
    for (size_t i = 0; i < equation.terms.size(); ++i)
      terms_.push_back(termOf(equation.terms[i], l_.in(i)));
    return bool(l_.status());
  }

  /// A letter that occurs twice is a diagonal.
  Term termOf(const std::string &letters, Value *x) {
    Term term;
    Shape shape;
    Integers strides;
    const Integers dense = denseStrides(x->shape);
    bool isDiagonal = false;
    for (size_t d = 0; d < letters.size(); ++d) {
      if (x->shape[d] == 1)
        continue;
      const size_t at = term.letters.find(letters[d]);
      if (at != term.letters.npos) {
        strides[at] += dense[d];
        isDiagonal = true;
        continue;
      }
      term.letters += letters[d];
      shape.push_back(x->shape[d]);
      strides.push_back(dense[d]);
    }
    term.value = isDiagonal ? strided(l_, x, shape, strides, 0) : l_.view(x, shape);
    return term;
  }

  int64_t size(const std::string &letters) const {
    int64_t product = 1;
    for (const char c : letters)
      product *= lengths_[index(c)];
    return product;
  }

  /// The dimensions in another order.
  Value *arranged(const Term &term, const std::string &letters) {
    Integers order;
    for (const char c : letters)
      order.push_back(static_cast<int64_t>(term.letters.find(c)));
    return transpose(l_, term.value, order);
  }

  Value *sum(Value *x, const Integers &axes) {
    return reduce(l_, KernelId::ReduceSumF32, ReduceOp::Sum, x, axes, false);
  }

  /// Without the letters that nothing else has.
  Term summed(const Term &term) {
    Term kept;
    Integers axes;
    for (size_t i = 0; i < term.letters.size(); ++i)
      if (uses_[index(term.letters[i])] == 1)
        axes.push_back(static_cast<int64_t>(i));
      else
        kept.letters += term.letters[i];
    kept.value = axes.empty() ? term.value : sum(term.value, axes);
    return kept;
  }

  Term multiplied(const Term &a, const Term &b) {
    std::string batch, summed, onlyA, onlyB;
    for (const char c : a.letters)
      if (b.letters.find(c) == b.letters.npos)
        onlyA += c;
      else
        (--uses_[index(c)] == 1 ? summed : batch) += c;
    for (const char c : b.letters)
      if (a.letters.find(c) == a.letters.npos)
        onlyB += c;
    const int64_t n = size(batch), rows = size(onlyA), columns = size(onlyB), k = size(summed);
    const bool isProduct = !summed.empty() && (rows != 1 || columns != 1);
    Value *left = arranged(a, together(batch, onlyA, summed)), *right = nullptr;
    Value *y = nullptr;
    if (isProduct) {
      right = arranged(b, together(batch, summed, onlyB));
      y = matmul(l_, l_.view(left, {n, rows, k}), l_.view(right, {n, k, columns}));
    } else {
      right = arranged(b, together(batch, onlyB, summed));
      y = arithmetic(l_, KernelId::MulF32, IntegerOp::Mul, l_.view(left, {n, rows, 1, k}),
                     l_.view(right, {n, 1, columns, k}));
      if (!summed.empty())
        y = sum(y, {3});
    }
    Term term{nullptr, together(batch, onlyA, onlyB)};
    Shape shape;
    for (const char c : term.letters)
      shape.push_back(lengths_[index(c)]);
    term.value = l_.view(y, shape);
    return term;
  }

  Lowering &l_;
  std::array<int64_t, 128> lengths_{}; ///< by letter
  std::array<int, 128> uses_{};        ///< by terms and the result
  std::vector<Term> terms_;
};

Status einsum(Lowering &l) { return Sum(l).lower(); }

constexpr Operator Table[] = {
    {"Einsum", 12, "T*", Numbers, 1, true, einsum, "equation"},
};

} // namespace

const Span<const Operator> EinsumOperators = Table;

} // namespace mlbridge::native
