// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Servers at a socket in the file system.
#include "testing/sum_server.h"

#include <sys/socket.h>
#include <sys/un.h>

namespace mlbridge {
namespace {

using namespace testing;

class AtASocket : public ::testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(All, AtASocket, ::testing::Values("unix:", "shm:"),
                         [](const auto &info) { return info.index ? "shm" : "unix"; });

TEST_P(AtASocket, TakesTheSocketThatADeadServerLeft) {
  TemporaryFolder folder;
  const std::string path = folder / "s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address), 0);
  ::close(fd);
  ServerThread server(GetParam() + path, serving(Sum), answerSum);
  EXPECT_TRUE(Model::open(GetParam() + path));
}

} // namespace
} // namespace mlbridge
