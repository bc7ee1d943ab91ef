// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiler that calls the C function of a network that is linked in, without the library.
//   g++ -O2 -I FOLDER-OF-HEADER -I include compiled_function.cpp network.o; ./a.out EXAMPLES
#include "examples.h"

#include "network.h" // of `mlbridge aot --name network`
#include <mlbridge/aot.h>

using namespace inprocess;

static std::size_t count(const mlb_aot_tensor &tensor) {
  std::size_t found = 1;
  for (std::uint32_t i = 0; i < tensor.rank; ++i)
    found *= static_cast<std::size_t>(tensor.shape[i]);
  return found;
}

int main(int count_, char **arguments) {
  if (count_ != 2)
    fail("usage: compiled-function EXAMPLES");
  network *context = network_create();
  if (!context)
    fail("no memory");
  const mlb_aot_model &model = *network_model();
  std::vector<Input> inputs;
  for (std::size_t i = 0; i < model.inputs_size; ++i) {
    constexpr std::uint32_t Int64 = 4; // mlbridge::ElementType
    const std::size_t width = model.inputs[i].type == Int64 ? 8 : 4;
    inputs.push_back({static_cast<unsigned char *>(network_input(context, i)),
                      count(model.inputs[i]) * width, width});
  }
  Examples examples(arguments[1], inputs, count(model.outputs[0]));
  const auto *output = static_cast<const float *>(network_output(context, 0));
  examples.serveLines([&] {
    if (network_run(context) != 0)
      fail("an index is out of range");
    return output;
  });
  network_destroy(context);
  return 0;
}
