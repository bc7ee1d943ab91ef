// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A runner and a SerDes of one's own, by subclassing as on the slides of 2024. The SerDes also goes
// over a pipe: slides_extension BASENAME
#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/PipeModelRunner.h"
#include "SerDes/baseSerDes.h"

#include <iostream>
#include <string>
#include <vector>

using namespace MLBridge;

/// "name value;" for each feature, and a number as the reply.
class NewSerDes : public BaseSerDes {
public:
  NewSerDes() : BaseSerDes(BaseSerDes::Kind::NewSD) {};
  void setFeature(const std::string &name, const int value) override {
    Buffer += name + " " + std::to_string(value) + ";";
  }
  void setFeature(const std::string &name, const float value) override {
    Buffer += name + " " + std::to_string(value) + ";";
  }
  void setFeature(const std::string &name, const long value) override {
    Buffer += name + " " + std::to_string(value) + ";";
  }
  void setFeature(const std::string &name, const double value) override {
    Buffer += name + " " + std::to_string(value) + ";";
  }
  void setFeature(const std::string &name, const std::string value) override {
    Buffer += name + " " + value + ";";
  }
  void setFeature(const std::string &name, const bool value) override {
    Buffer += name + " " + (value ? "yes" : "no") + ";";
  }
  void *getSerializedData() override {
    Sent = Buffer;
    cleanDataStructures();
    return &Sent;
  }
  void cleanDataStructures() override { Buffer = ""; }

private:
  void *deserializeUntyped(void *data) override {
    Answer = std::atoi(static_cast<std::string *>(data)->c_str());
    this->MessageLength = sizeof(int);
    return &Answer;
  }
  std::string Buffer, Sent;
  int Answer = 0;
};

/// Answers with the length of what the SerDes wrote.
class NewModelRunner : public MLModelRunner {
public:
  NewModelRunner() : MLModelRunner(Kind::Unknown) { SerDes = std::make_unique<NewSerDes>(); }
  virtual ~NewModelRunner() {}

private:
  void *evaluateUntyped() override {
    send(SerDes->getSerializedData());
    return receive();
  }
  void send(void *data) { Data = *static_cast<std::string *>(data); }
  void *receive() {
    Answer = Data.size();
    return &Answer;
  }
  std::string Data;
  int Answer = 0;
};

int main(int argc, char **argv) {
  NewModelRunner runner;
  std::pair<std::string, int> p1("depth", 3);
  std::pair<std::string, bool> p2("hot", true);
  runner.populateFeatures(p1, p2);
  std::cout << runner.evaluate<int>() << " " << runner.status().toString() << "\n";
  std::pair<std::string, std::vector<int>> unknown("list", {1, 2});
  runner.populateFeatures(unknown);
  std::cout << runner.evaluate<int>() << " " << runner.status().toString() << "\n";
  if (argc == 2) {
    registerSerDes(BaseSerDes::Kind::NewSD, [] { return std::make_unique<NewSerDes>(); });
    std::string basename = argv[1];
    PipeModelRunner pipe(basename + ".out", basename + ".in", BaseSerDes::Kind::NewSD);
    pipe.populateFeatures(p1, p2);
    std::cout << pipe.evaluate<int>() << " " << pipe.status().toString() << "\n";
  }
  return 0;
}
