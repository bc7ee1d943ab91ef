// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiler that calls the C function which another generator made of a network.
//   g++ -O2 -DCOUNT=N function.cpp network.o; ./a.out EXAMPLES OUTPUTS BYTES:WIDTH...
// COUNT is how many arguments `network` has: pointers to the inputs and to one output of floats.
#include "../in-process/examples.h"

#include <utility>

extern "C" void network();

namespace {

using Pointer = void *;

template <std::size_t... I> void call(void **arguments, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(decltype(I, Pointer())...)>(network)(arguments[I]...);
}

} // namespace

int main(int count, char **arguments) {
  using namespace inprocess;
  if (count != COUNT + 2)
    fail("usage: function EXAMPLES OUTPUTS BYTES:WIDTH...");
  std::vector<std::vector<unsigned char>> buffers;
  std::vector<Input> inputs;
  for (int i = 3; i < count; ++i) {
    char *rest = nullptr;
    const std::size_t bytes = std::strtoul(arguments[i], &rest, 10);
    buffers.emplace_back(bytes);
    inputs.push_back({buffers.back().data(), bytes, std::strtoul(rest + 1, nullptr, 10)});
  }
  const std::size_t outputs = std::strtoul(arguments[2], nullptr, 10);
  std::vector<float> output(outputs);
  std::vector<void *> pointers;
  for (const Input &input : inputs)
    pointers.push_back(input.data);
  pointers.push_back(output.data());
  Examples examples(arguments[1], inputs, outputs);
  examples.serveLines([&] {
    call(pointers.data(), std::make_index_sequence<COUNT>());
    return output.data();
  });
  return 0;
}
