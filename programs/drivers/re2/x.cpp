// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches, rewrites and sorts the lines of a text by regular expressions.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "re2/filtered_re2.h"
#include "re2/re2.h"
#include "re2/set.h"

static std::vector<std::string> readLines(const char *path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    lines.push_back(line);
  return lines;
}

static int search(const std::vector<std::string> &lines) {
  RE2 pair("(\\w*[aeiou]{2}\\w*) (\\w*[^aeiou ]{3}\\w*)");
  RE2 ends("^(\\S+) .* (\\S+)$");
  RE2::Options options;
  options.set_case_sensitive(false);
  RE2 anyCase("\\b(T[A-M]+|[n-z]+E)\\b.*\\b(\\w)\\w*\\b", options);
  RE2 repeated("(?:[a-f]{1,3}[g-z]{1,2}){3,5}");
  int found[4] = {};
  size_t letters = 0;
  for (const std::string &line : lines) {
    std::string first, second;
    if (RE2::PartialMatch(line, pair, &first, &second)) {
      ++found[0];
      letters += first.size() + second.size();
    }
    if (RE2::FullMatch(line, ends, &first, &second)) {
      ++found[1];
      letters += first.size();
    }
    if (RE2::PartialMatch(line, anyCase, &first, &second)) {
      ++found[2];
      letters += second.size();
    }
    re2::StringPiece rest(line);
    while (RE2::FindAndConsume(&rest, repeated))
      ++found[3];
  }
  printf("%d %d %d %d %zu\n", found[0], found[1], found[2], found[3], letters);
  return 0;
}

static int rewrite(const std::vector<std::string> &lines) {
  RE2 words("(\\w)(\\w*) (\\w+)"), vowels("[aeiou]+"),
      number("(\\d+),(-?\\d+\\.\\d+),(\\w+),(\\d+)");
  long sum = 0;
  for (const std::string &line : lines) {
    std::string text = line;
    RE2::GlobalReplace(&text, words, "\\3 <\\2\\1>");
    RE2::Replace(&text, vowels, RE2::QuoteMeta("[*]"));
    long n;
    double value;
    std::string word, extracted;
    if (RE2::FullMatch(line, number, &n, &value, &word, RE2::Hex(&sum)))
      printf("%ld %.2f %s\n", n, value, word.c_str());
    if (RE2::Extract(line, vowels, "(\\0)", &extracted))
      text += extracted;
    puts(text.c_str());
  }
  return 0;
}

static int compile(const std::vector<std::string> &words) {
  size_t size = 0, groups = 0;
  for (size_t n = 0; n + 3 < words.size(); n += 12) {
    const std::string &a = words[n], &b = words[n + 1], &c = words[n + 2];
    RE2 either("(?P<first>" + a + "|" + b + "|(?:" + c + ")+?)\\s*(?i:" + c + "){2,4}[^" + a +
               "]$");
    RE2 classes("^[[:alpha:]_][\\pL\\d" + a + "-z]{0,7}(?:\\.(" + b + "|" + c + "\\x{e9}*))?");
    if (!either.ok() || !classes.ok())
      return 1;
    size += either.ProgramSize() + classes.ReverseProgramSize();
    groups += either.NumberOfCapturingGroups() + either.NamedCapturingGroups().size();
    std::string least, most;
    if (classes.PossibleMatchRange(&least, &most, 10))
      size += least.size() + most.size();
  }
  RE2 wrong("a(b[c", RE2::Quiet);
  printf("%zu %zu %s\n", size, groups, wrong.error().c_str());
  return 0;
}

static int sort(const std::vector<std::string> &lines, const std::vector<std::string> &words) {
  RE2::Set set(RE2::DefaultOptions, RE2::UNANCHORED);
  re2::FilteredRE2 filtered;
  int id;
  for (size_t n = 0; n < words.size(); n += words.size() / 60) {
    set.Add("\\b" + words[n] + ".?\\b", nullptr);
    filtered.Add(words[n] + " (\\w+) ", RE2::DefaultOptions, &id);
  }
  std::vector<std::string> atoms;
  filtered.Compile(&atoms);
  if (!set.Compile())
    return 1;
  std::vector<size_t> counts(words.size());
  size_t passed = 0;
  for (const std::string &line : lines) {
    std::vector<int> matched, present;
    set.Match(line, &matched);
    for (int match : matched)
      ++counts[match];
    for (size_t n = 0; n < atoms.size(); ++n)
      if (line.find(atoms[n]) != std::string::npos)
        present.push_back(n);
    passed += filtered.AllMatches(line, present, &matched);
  }
  for (size_t n = 0; n < counts.size(); ++n)
    if (counts[n])
      printf("%zu:%zu ", n, counts[n]);
  printf("%zu\n", passed);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  std::vector<std::string> lines = readLines(argv[2]);
  if (!strcmp(argv[1], "search"))
    return search(lines);
  if (!strcmp(argv[1], "rewrite"))
    return rewrite(lines);
  if (!strcmp(argv[1], "compile"))
    return compile(lines);
  return argc > 3 ? sort(lines, readLines(argv[3])) : 2;
}
