// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Listing 2: gRPCModelRunner in both modes, with a service of the program's own:
//   listing2 infer|costs|train ADDRESS
#include "MLModelRunner/MLModelRunner.h"
#include "MLModelRunner/gRPCModelRunner.h"
#include "listing2.grpc.pb.h"
#include "listing2.pb.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

using namespace grpc;
using namespace MLBridge;

namespace {

struct HelloPass : public hello::HelloService::Service {
  std::unique_ptr<MLModelRunner> MLRunner;
  std::vector<float> FeatureVector = {1, 2, 3};
  int Sum = 0;

  void train(const std::string &server_address) {
    MLRunner =
        std::make_unique<gRPCModelRunner<hello::HelloService::Service, hello::HelloService::Stub,
                                         hello::Observation, hello::Action>>(server_address, this,
                                                                             nullptr);
    std::cout << Sum << " " << MLRunner->status().toString() << "\n";
  }
  grpc::Status queryCompiler(grpc::ServerContext *, const hello::Action *request,
                             hello::Observation *response) override {
    if (request->action() == -1) {
      gRPCModelRunner<hello::HelloService::Service, hello::HelloService::Stub, hello::Observation,
                      hello::Action>::stopServing(this);
      return grpc::Status::OK;
    }
    Sum += request->action();
    for (float f : FeatureVector)
      response->add_tensor(f * static_cast<float>(request->action()));
    return grpc::Status::OK;
  }
  void infer(const std::string &server_address) {
    hello::Observation request;
    hello::Action response;
    MLRunner = std::make_unique<gRPCModelRunner<hello::HelloService, hello::HelloService::Stub,
                                                hello::Observation, hello::Action>>(
        server_address, &request, &response, nullptr);
    MLRunner->setRequest(&request);
    MLRunner->setResponse(&response);
    for (int i = 0; i < 3; ++i) {
      std::pair<std::string, std::vector<float>> p1("tensor", FeatureVector);
      std::pair<std::string, std::string> p2("module", "m" + std::to_string(i));
      std::pair<std::string, long> p3("size", 1L << 40);
      MLRunner->populateFeatures(p1);
      MLRunner->populateFeatures(p2, p3);
      int Out = MLRunner->evaluate<int>();
      std::cout << Out << " " << MLRunner->status().toString() << "\n";
      FeatureVector.push_back(10);
    }
    std::pair<std::string, int> wrong("no such field", 1);
    MLRunner->populateFeatures(wrong);
    std::cout << MLRunner->evaluate<int>() << " " << MLRunner->status().toString() << "\n";
  }
  void costs(const std::string &server_address) {
    hello::Observation request;
    hello::Ranges response;
    MLRunner = std::make_unique<gRPCModelRunner<hello::CostService, hello::CostService::Stub,
                                                hello::Observation, hello::Ranges>>(
        server_address, &request, &response);
    std::pair<std::string, std::vector<float>> p1("tensor", FeatureVector);
    MLRunner->populateFeatures(p1);
    double *values;
    size_t count;
    MLRunner->evaluate<double *>(values, count);
    for (size_t i = 0; i < count; ++i)
      std::cout << values[i] << " ";
    std::cout << MLRunner->status().toString() << "\n";
    std::free(values);
    MLRunner->populateFeatures(p1); // one value of several: the first
    std::cout << MLRunner->evaluate<double>() << " " << MLRunner->status().toString() << "\n";
  }
};

} // namespace

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  HelloPass pass;
  const std::string mode = argv[1];
  if (mode == "train")
    pass.train(argv[2]);
  else if (mode == "costs")
    pass.costs(argv[2]);
  else
    pass.infer(argv[2]);
  return 0;
}
