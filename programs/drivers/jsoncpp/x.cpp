// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads, queries, changes and writes JSON.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "json/json.h"

static Json::Value load(const char *path) {
  std::ifstream file(path);
  Json::CharReaderBuilder builder;
  Json::Value root;
  std::string errors;
  if (!Json::parseFromStream(builder, file, &root, &errors))
    std::cout << errors << '\n';
  return root;
}

static int read(const char *path) {
  size_t letters = 0;
  for (int n = 0; n < 20; ++n) {
    const Json::Value root = load(path);
    for (Json::ValueConstIterator one = root.begin(); one != root.end(); ++one)
      letters += one.name().size() + (*one).asString().size();
  }
  Json::CharReaderBuilder builder;
  Json::CharReaderBuilder::strictMode(&builder.settings_);
  std::unique_ptr<Json::CharReader> strict(builder.newCharReader());
  std::string errors, text = "{\"a\": [1, 2.5e3, true, null, \"\\u00e9\\n\"], /* no */ \"b\": }";
  Json::Value wrong;
  bool good = strict->parse(text.data(), text.data() + text.size(), &wrong, &errors);
  printf("%zu %d %s\n", letters, good, errors.c_str());
  return 0;
}

static int change(const char *path) {
  Json::Value root = load(path), table(Json::arrayValue);
  for (const std::string &name : root.getMemberNames()) {
    Json::Value row;
    row["id"] = std::stoi(name);
    row["half"] = std::stoi(name) / 2.0;
    row["text"] = root[name];
    row["odd"] = std::stoi(name) % 2 == 1;
    if (!row["odd"].asBool())
      row["list"].append(row["half"]);
    table.append(row);
    if (row["id"].asInt() % 3 == 0)
      root.removeMember(name);
  }
  double sum = 0;
  Json::Path half(".[3].half"), list(".list[0]");
  sum += half.resolve(table).asDouble();
  for (const Json::Value &row : table)
    if (row.isMember("list"))
      sum += list.resolve(row).asDouble() + row.get("none", 1).asDouble();
  std::cout << sum << ' ' << root.size() << ' ' << (table[1] < table[2]) << ' ' << (table == root)
            << '\n';
  return 0;
}

static int write(int count) {
  Json::Value root;
  for (int n = 0; n < count; ++n) {
    Json::Value &row = root["rows"][n];
    row["number"] = n * 7919;
    row["value"] = n / 3.0;
    row["name"] = "a \"quoted\" name\twith \u00e9 and \\";
    row["flags"].append(n % 2 == 0);
    row["flags"].append(Json::Value::null);
    if (n % 50 == 0)
      row.setComment(std::string("// every fiftieth"), Json::commentBefore);
  }
  Json::StreamWriterBuilder builder;
  std::string indented = Json::writeString(builder, root);
  builder["indentation"] = "";
  builder["precision"] = 6;
  std::string compact = Json::writeString(builder, root);
  Json::FastWriter fast;
  Json::StyledWriter styled;
  std::cout << indented.size() << ' ' << compact.size() << ' ' << fast.write(root).size() << ' '
            << styled.write(root).size() << '\n'
            << compact.substr(0, 4000) << '\n';
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 2;
  if (!strcmp(argv[1], "read"))
    return read(argv[2]);
  if (!strcmp(argv[1], "change"))
    return change(argv[2]) + change(argv[2]) + change(argv[2]);
  return write(std::stoi(argv[2]));
}
