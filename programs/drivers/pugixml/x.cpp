// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads, queries by XPath, changes and writes XML.
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

#include "pugixml.hpp"

struct Walker : pugi::xml_tree_walker {
  long nodes = 0, letters = 0, attributes = 0;
  bool for_each(pugi::xml_node &node) override {
    ++nodes;
    letters += static_cast<long>(strlen(node.value()) + strlen(node.name()));
    for (pugi::xml_attribute attribute : node.attributes())
      attributes += attribute.as_int();
    return true;
  }
};

static int read(const char *path) {
  const unsigned flags[] = {pugi::parse_default, pugi::parse_full, pugi::parse_minimal,
                            pugi::parse_default | pugi::parse_trim_pcdata};
  for (int n = 0; n < 60; ++n) {
    pugi::xml_document document;
    pugi::xml_parse_result result = document.load_file(path, flags[n % 4]);
    if (!result) {
      puts(result.description());
      return 1;
    }
    Walker walker;
    document.traverse(walker);
    printf("%ld %ld %ld\n", walker.nodes, walker.letters, walker.attributes);
  }
  return 0;
}

static int query(const char *path) {
  pugi::xml_document document;
  if (!document.load_file(path))
    return 1;
  const char *queries[] = {
      "count(//line[@number mod 7 = 3])",
      "sum(/lines/line[position() < 400]/@number)",
      "string(//line[contains(., 'tee') and starts-with(., 'e')][2])",
      "concat(substring-before(//line[last()], ' '), '-', translate(normalize-space(//line[5]), "
      "'eta', 'ETA'))",
      "count(//line[string-length() > 60]/following-sibling::line[1]) > 10",
      "count(//line[@number > 100 and not(@number >= 900)] | /lines/line[@number < 50])",
  };
  for (const char *text : queries) {
    pugi::xpath_query one(text);
    for (int n = 0; n < 2; ++n)
      printf("%s\n", one.evaluate_string(document).c_str());
  }
  pugi::xpath_variable_set variables;
  variables.add("least", pugi::xpath_type_number);
  pugi::xpath_query rest("/lines/line[@number >= $least]", &variables);
  for (int least = 0; least < 3000; least += 150) {
    variables.set("least", static_cast<double>(least));
    pugi::xpath_node_set found = rest.evaluate_node_set(document);
    found.sort(true);
    printf("%d %s\n", static_cast<int>(found.size()),
           found.empty() ? "" : found[0].node().child_value());
  }
  return 0;
}

static int write(const char *path) {
  pugi::xml_document document;
  if (!document.load_file(path))
    return 1;
  pugi::xml_node root = document.document_element();
  int step = 0;
  for (pugi::xml_node line = root.first_child(); line; ++step) {
    pugi::xml_node next = line.next_sibling();
    if (step % 4 == 0)
      line.append_attribute("half").set_value(line.attribute("number").as_int() / 2.0);
    else if (step % 4 == 1)
      line.prepend_child("sub").text().set(step % 3 == 0);
    else if (step % 4 == 2)
      root.remove_child(line);
    else
      root.prepend_copy(line).append_child(pugi::node_comment).set_value("<copy & more>");
    line = next;
  }
  for (unsigned flags : {pugi::format_default, pugi::format_raw, pugi::format_indent_attributes,
                         pugi::format_no_escapes}) {
    std::ostringstream out;
    document.save(out, "  ", flags,
                  flags == pugi::format_raw ? pugi::encoding_utf16 : pugi::encoding_utf8);
    printf("%zu\n", out.str().size());
    if (flags == pugi::format_default)
      printf("%.4000s\n", out.str().c_str());
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  if (!strcmp(argv[1], "read"))
    return read(argv[2]);
  int failed = 0;
  for (int n = 0; n < 5; ++n)
    failed += !strcmp(argv[1], "query") ? query(argv[2]) : write(argv[2]);
  return failed;
}
