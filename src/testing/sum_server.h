// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the tests of the server: a model that adds and doubles, and addresses of each kind.
#ifndef MLBRIDGE_TESTING_SUM_SERVER_H
#define MLBRIDGE_TESTING_SUM_SERVER_H

#include "testing/server_thread.h"

#include <numeric>

namespace mlbridge::testing {

inline const Signature Sum{{TensorSpec::of<float>("x", {4}), TensorSpec::of<int64_t>("k")},
                           {TensorSpec::of<float>("sum"), TensorSpec::of<int64_t>("twice")}};

inline void answerSum(Event &event) {
  if (event.kind() != EventKind::Request)
    return;
  const Span<float> x = event.input(0).as<float>();
  *event.output(0).as<float>().begin() = std::accumulate(x.begin(), x.end(), 0.0f);
  *event.output(1).as<int64_t>().begin() = 2 * event.input(1).as<int64_t>()[0];
  EXPECT_TRUE(event.reply());
}

inline ServerOptions serving(Signature signature, Metadata metadata = {}) {
  ServerOptions options;
  options.signature = std::move(signature);
  options.metadata = std::move(metadata);
  return options;
}

/// `kind`: unix, shm, pipe (of one compiler) or rendezvous (pipes of many).
inline std::string addressOf(std::string_view kind, const TemporaryFolder &folder) {
  return kind == "rendezvous" ? "pipe:" + folder / "s/" : std::string(kind) + ":" + folder / "s";
}

} // namespace mlbridge::testing

#endif
