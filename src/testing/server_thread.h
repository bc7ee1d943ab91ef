// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For tests: a server on a thread of its own, and addresses nobody else uses.
#ifndef MLBRIDGE_TESTING_SERVER_THREAD_H
#define MLBRIDGE_TESTING_SERVER_THREAD_H

#include <mlbridge/server.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>

namespace mlbridge::testing {

/// A folder that is gone with the test.
class TemporaryFolder {
public:
  TemporaryFolder() {
    char name[] = "/tmp/mlbridge-test-XXXXXX";
    path_ = ::mkdtemp(name) ? name : "";
  }
  ~TemporaryFolder() { (void)!std::system(("rm -rf '" + path_ + "'").c_str()); }
  const std::string &path() const { return path_; }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }

private:
  std::string path_;
};

inline OpenOptions within(Duration deadline) {
  OpenOptions options;
  options.deadline = deadline;
  return options;
}

/// Serves until destroyed. The handler answers each request event and sees the others.
class ServerThread {
public:
  using Handler = std::function<void(Event &)>;

  ServerThread(const std::string &uri, ServerOptions options, Handler handler) {
    Expected<Server> server = Server::listen(uri, std::move(options));
    EXPECT_TRUE(server) << server.status().toString();
    if (!server)
      return;
    server_.emplace(std::move(*server));
    thread_ = std::thread([this, handler = std::move(handler)] {
      while (!server_->isStopped()) {
        Expected<Event> event = server_->next();
        if (event)
          handler(*event);
      }
    });
  }
  ~ServerThread() { stop(); }
  void stop() {
    if (server_)
      server_->stop();
    if (thread_.joinable())
      thread_.join();
    server_.reset();
  }
  Server &server() { return *server_; }

private:
  std::optional<Server> server_;
  std::thread thread_;
};

} // namespace mlbridge::testing

#endif
