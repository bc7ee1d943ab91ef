// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a text, as the command does; suggests for the first words that are wrong.
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "hunspell.hxx"
#include "latexparser.hxx"
#include "xmlparser.hxx"

int main(int argc, char **argv) {
  if (argc < 5)
    return 2;
  Hunspell dictionary(argv[1], argv[2]);
  const char *letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::unique_ptr<TextParser> parser;
  std::string kind = argv[3];
  if (kind == "xml")
    parser.reset(new XMLParser(letters));
  else if (kind == "latex")
    parser.reset(new LaTeXParser(letters));
  else
    parser.reset(new TextParser(letters));
  dictionary.add("helo");
  dictionary.remove("teeth");
  std::ifstream file(argv[4]);
  int words = 0, wrong = 0;
  for (std::string line; std::getline(file, line);) {
    parser->put_line(line.c_str());
    parser->set_url_checking(0);
    for (std::string word; parser->next_token(word); ++words) {
      int info = 0;
      std::string root;
      if (dictionary.spell(word, &info, &root))
        continue;
      if (++wrong % 300 != 1)
        continue;
      printf("%s:", word.c_str());
      for (const std::string &one : dictionary.suggest(word))
        printf(" %s", one.c_str());
      for (const std::string &one : dictionary.stem(word))
        printf(" (%s)", one.c_str());
      puts("");
    }
  }
  printf("%d words, %d wrong\n", words, wrong);
  return 0;
}
