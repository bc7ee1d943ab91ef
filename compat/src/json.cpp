// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "json.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace MLBridge::json {

using mlbridge::Code;
using mlbridge::Expected;
using mlbridge::Status;

namespace {

/// Bytes of the UTF-8 sequence that text begins with; 0 if it begins with none.
size_t sequence(std::string_view text) {
  const auto at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0u) == 0x80u; };
  const unsigned c = at(0);
  if (c < 0x80)
    return 1;
  if (c >= 0xc2 && c < 0xe0)
    return follows(1) ? 2 : 0;
  if (c >= 0xe0 && c < 0xf0) {
    const bool overlong = c == 0xe0 && at(1) < 0xa0;
    const bool surrogate = c == 0xed && at(1) >= 0xa0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (c >= 0xf0 && c < 0xf5) {
    const bool overlong = c == 0xf0 && at(1) < 0x90;
    const bool beyond = c == 0xf4 && at(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

void appendCodePoint(std::string &out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

class Reader {
public:
  explicit Reader(std::string_view text) : text_(text) {}

  Expected<Value> member(std::string_view name) {
    Value found;
    bool isThere = false;
    skipSpace();
    if (!take('{'))
      return error("an object");
    skipSpace();
    if (!take('}')) {
      do {
        skipSpace();
        std::string key;
        if (!string(key))
          return error("a name");
        skipSpace();
        if (!take(':'))
          return error("':'");
        skipSpace();
        if (key == name) {
          isThere = true;
          found = {};
          if (!value(found))
            return error("a value, or an array of values of one kind,");
        } else if (!skip(0)) {
          return error("a value");
        }
        skipSpace();
      } while (take(','));
      if (!take('}'))
        return error("'}'");
    }
    skipSpace();
    if (at_ != text_.size())
      return error("the end");
    if (!isThere)
      return Status(Code::Protocol, "the reply has no member '" + std::string(name) + "'");
    return found;
  }

private:
  Status error(const char *expected) const {
    return Status(Code::Protocol, "the reply is no JSON of the published form: " +
                                      std::string(expected) + " was expected at byte " +
                                      std::to_string(at_) + " of " + std::to_string(text_.size()));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c)
      return false;
    ++at_;
    return true;
  }
  bool takeWord(std::string_view word) {
    if (text_.substr(at_, word.size()) != word)
      return false;
    at_ += word.size();
    return true;
  }
  void skipSpace() {
    while (at_ < text_.size() &&
           (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r'))
      ++at_;
  }

  bool hex4(uint32_t &code) {
    code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0)
        return false;
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }
  bool escape(std::string &out) {
    const char c = peek();
    ++at_;
    static constexpr std::string_view plain = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    if (const size_t i = plain.find(c); c != '\0' && i != std::string_view::npos) {
      out += meant[i];
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !hex4(code))
      return false;
    if (code >= 0xd800 && code < 0xdc00) {
      uint32_t low = 0;
      if (!takeWord("\\u") || !hex4(low) || low < 0xdc00 || low >= 0xe000)
        return false;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      return false;
    }
    appendCodePoint(out, code);
    return true;
  }
  bool string(std::string &out) {
    if (!take('"'))
      return false;
    while (at_ < text_.size()) {
      if (take('"'))
        return true;
      if (take('\\')) {
        if (!escape(out))
          return false;
        continue;
      }
      const size_t size = sequence(text_.substr(at_));
      if (size == 0 || static_cast<unsigned char>(peek()) < 0x20)
        return false;
      out += text_.substr(at_, size);
      at_ += size;
    }
    return false;
  }

  bool number(bool &isInteger, int64_t &integer, double &real) {
    isInteger = false;
    for (const auto &[word, meaning] :
         {std::pair<std::string_view, double>{"NaN", std::numeric_limits<double>::quiet_NaN()},
          {"Infinity", std::numeric_limits<double>::infinity()},
          {"-Infinity", -std::numeric_limits<double>::infinity()}})
      if (takeWord(word)) {
        real = meaning;
        return true;
      }
    size_t end = at_;
    const auto digits = [&] {
      const size_t from = end;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9')
        ++end;
      return end - from;
    };
    const auto is = [&](std::string_view set) {
      return end < text_.size() && set.find(text_[end]) != std::string_view::npos;
    };
    if (is("-"))
      ++end;
    const size_t first = end, whole = digits();
    if (whole == 0 || (whole > 1 && text_[first] == '0'))
      return false;
    bool isWhole = true;
    if (is(".")) {
      isWhole = false;
      ++end;
      if (digits() == 0)
        return false;
    }
    if (is("eE")) {
      isWhole = false;
      ++end;
      if (is("+-"))
        ++end;
      if (digits() == 0)
        return false;
    }
    const char *const from = text_.data() + at_, *const to = text_.data() + end;
    at_ = end;
    if (isWhole && std::from_chars(from, to, integer).ec == std::errc()) {
      isInteger = true;
      real = static_cast<double>(integer);
      return true;
    }
    const auto read = std::from_chars(from, to, real);
    if (read.ec == std::errc::result_out_of_range) // too large, or too small
      real = std::strtod(std::string(from, to).c_str(), nullptr);
    return true;
  }

  /// One value that isn't an array, after those that are in `v`.
  bool element(Value &v, bool isFirst) {
    const auto isA = [&](Value::Kind kind) {
      if (isFirst)
        v.kind = kind;
      return v.kind == kind;
    };
    if (peek() == '"')
      return isA(Value::Kind::Text) && string(v.texts.emplace_back());
    if (takeWord("true") || takeWord("false"))
      return isA(Value::Kind::Bool) && (v.bools.push_back(text_[at_ - 2] == 'u'), true);
    bool isInteger = false;
    int64_t integer = 0;
    double real = 0;
    if (!number(isInteger, integer, real))
      return false;
    if (!isInteger && (isFirst || v.kind == Value::Kind::Integer))
      v.kind = Value::Kind::Real;
    else if (isFirst)
      v.kind = Value::Kind::Integer;
    if (v.kind != Value::Kind::Integer && v.kind != Value::Kind::Real)
      return false;
    if (isInteger)
      v.integers.push_back(integer);
    v.reals.push_back(real);
    return true;
  }
  bool value(Value &v) {
    if (!take('['))
      return element(v, true);
    v.isArray = true;
    skipSpace();
    if (take(']'))
      return true;
    bool isFirst = true;
    do {
      skipSpace();
      if (!element(v, isFirst))
        return false;
      isFirst = false;
      skipSpace();
    } while (take(','));
    return take(']');
  }

  bool skip(int depth) {
    if (depth > 64)
      return false;
    const char open = peek();
    if (open == '"') {
      std::string ignored;
      return string(ignored);
    }
    if (open == '{' || open == '[') {
      const char close = open == '{' ? '}' : ']';
      ++at_;
      skipSpace();
      if (take(close))
        return true;
      do {
        skipSpace();
        if (open == '{') {
          std::string key;
          if (!string(key))
            return false;
          skipSpace();
          if (!take(':'))
            return false;
          skipSpace();
        }
        if (!skip(depth + 1))
          return false;
        skipSpace();
      } while (take(','));
      return take(close);
    }
    if (takeWord("true") || takeWord("false") || takeWord("null"))
      return true;
    bool isInteger = false;
    int64_t integer = 0;
    double real = 0;
    return number(isInteger, integer, real);
  }

  std::string_view text_;
  size_t at_ = 0;
};

} // namespace

void appendText(std::string &out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const size_t size = sequence(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (size == 0) {
      out += "\xef\xbf\xbd";
      text.remove_prefix(1);
      continue;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[0];
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += text.substr(0, size);
    }
    text.remove_prefix(size);
  }
  out += '"';
}

void appendReal(std::string &out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    return;
  }
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof text, value, std::chars_format::general, 17);
  out.append(text, written.ptr);
}

Expected<Value> member(std::string_view document, std::string_view name) {
  return Reader(document).member(name);
}

} // namespace MLBridge::json
