// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a file of settings, changes it, and writes one.
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "yaml-cpp/yaml.h"

static void visit(const YAML::Node &node, long (&counts)[6]) {
  ++counts[node.Type()];
  if (node.IsScalar())
    counts[5] += static_cast<long>(node.Scalar().size());
  else if (node.IsSequence())
    for (const YAML::Node &item : node)
      visit(item, counts);
  else if (node.IsMap())
    for (const auto &item : node) {
      visit(item.first, counts);
      visit(item.second, counts);
    }
}

static int query(const char *path) {
  long counts[6] = {};
  double sum = 0;
  for (const YAML::Node &document : YAML::LoadAllFromFile(path)) {
    visit(document, counts);
    for (const YAML::Node &service : document["services"]) {
      sum += service["port"].as<int>() + service["limit"].as<double>();
      if (service["enabled"].as<bool>(false) && service["tags"])
        sum += static_cast<double>(service["tags"].size());
    }
  }
  for (long count : counts)
    std::cout << count << ' ';
  std::cout << sum << '\n';
  return 0;
}

static int change(const char *path) {
  YAML::Node document = YAML::LoadFile(path);
  int n = 0;
  for (YAML::Node service : document["services"]) {
    service["port"] = service["port"].as<int>() + 1;
    service["labels"]["changed"] = n % 2 == 0;
    service["tags"].push_back("tag " + std::to_string(n));
    if (++n % 3 == 0)
      service.remove("limit");
  }
  YAML::Node copy = YAML::Clone(document);
  copy["first"] = copy["services"][0];
  YAML::Emitter emitter;
  emitter.SetIndent(4);
  emitter.SetMapFormat(YAML::Flow);
  emitter << copy;
  std::cout << YAML::Dump(document) << '\n' << emitter.c_str() << '\n';
  return 0;
}

static int write(int count) {
  YAML::Emitter out;
  out << YAML::Comment("generated") << YAML::BeginMap;
  for (int n = 0; n < count; ++n) {
    out << YAML::Key << "entry " + std::to_string(n) << YAML::Value << YAML::BeginMap;
    out << YAML::Key << "text" << YAML::Value << YAML::DoubleQuoted << "a \"quoted\"\ttext \u00e9";
    out << YAML::Key << "numbers" << YAML::Value << YAML::Flow << YAML::BeginSeq << n << n * 0.5
        << (n % 2 == 0) << YAML::EndSeq;
    out << YAML::Key << "poem" << YAML::Value << YAML::Literal << "one\n  two\nthree\n";
    out << YAML::Key << "none" << YAML::Value << YAML::Null << YAML::EndMap;
  }
  out << YAML::EndMap;
  std::cout << out.c_str() << '\n';
  return out.good() ? 0 : 1;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  if (!strcmp(argv[1], "query"))
    return query(argv[2]);
  if (!strcmp(argv[1], "change"))
    return change(argv[2]);
  return write(std::stoi(argv[2]));
}
