// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several compilers that ask one server at once, each with a connection and a thread of its own.
//
//   batching-client URI|bare:PATH CLIENTS EXPECTED
//
// EXPECTED holds what the network answers to each of the observations, of 300 and 15 float32. At
// bare: there is server.py without the library.
// Prints "ready"; then each line of standard input, "<requests>", makes every client ask so often,
// check its answers and prints the nanoseconds that it all took.
#include "../timed.h"

#include <mlbridge/model.h>

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <vector>

using namespace mlbridge;
using bench::fail;

namespace {

constexpr size_t Inputs = 300, Outputs = 15;

struct Example {
  float x[Inputs], y[Outputs];
};

/// Gives the outputs; the memory is good until the next call.
using Client = std::function<const float *(const float *x)>;

Client libraryClient(const char *uri) {
  OpenOptions options;
  options.deadline = std::chrono::seconds(60);
  auto runner = std::make_shared<Runner>(
      open(uri, {{TensorSpec::of<float>("x", {Inputs})}, {TensorSpec::of<float>("y", {Outputs})}},
           options));
  if (!*runner)
    fail(runner->status().toString());
  return [runner](const float *x) {
    (void)runner->set("x", Span<const float>(x, Inputs));
    if (!runner->evaluate())
      fail(runner->status().toString());
    return runner->output<float>("y").data();
  };
}

Client bareClient(const char *path) {
  const int end = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (::connect(end, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0)
    fail(std::string("cannot connect to ") + path);
  auto y = std::make_shared<std::array<float, Outputs>>();
  return [end, y](const float *x) {
    if (::send(end, x, Inputs * sizeof(float), MSG_NOSIGNAL) != Inputs * sizeof(float) ||
        ::recv(end, y->data(), sizeof *y, MSG_WAITALL) != sizeof *y)
      fail("the bare server is gone");
    return y->data();
  };
}

} // namespace

int main(int count, char **arguments) {
  if (count != 4)
    fail("usage: batching-client URI CLIENTS EXPECTED");
  std::vector<Example> examples(1024);
  std::ifstream file(arguments[3], std::ios::binary);
  file.read(reinterpret_cast<char *>(examples.data()), examples.size() * sizeof(Example));
  examples.resize(static_cast<size_t>(file.gcount()) / sizeof(Example));
  if (examples.empty())
    fail(std::string("no examples in ") + arguments[3]);
  std::vector<Client> clients;
  const bool isBare = std::strncmp(arguments[1], "bare:", 5) == 0;
  for (long i = 0, all = std::strtol(arguments[2], nullptr, 10); i < all; ++i)
    clients.push_back(isBare ? bareClient(arguments[1] + 5) : libraryClient(arguments[1]));
  bench::serveLines([&](long requests) {
    std::vector<std::thread> threads;
    for (size_t c = 0; c < clients.size(); ++c)
      threads.emplace_back([&, c] {
        for (long i = 0; i < requests; ++i) {
          const Example &example = examples[(static_cast<size_t>(i) * 13 + c) % examples.size()];
          const float *y = clients[c](example.x);
          for (size_t k = 0; k < Outputs; ++k)
            if (!(std::fabs(y[k] - example.y[k]) < 1e-4f))
              fail("wrong answer");
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  });
  return 0;
}
