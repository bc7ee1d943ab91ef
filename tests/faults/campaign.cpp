// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Harms one conversation after another, in every way and at every place, and says what a compiler
// saw of it.
//
//   fault-campaign EVERY FOLDER TRANSPORT... > report
//
// Of the faults that have a place, one in EVERY.
//
// A conversation: open, bind, an episode of three requests. It counts as correct advice if all
// answers were right, and as a clear error if some failed with a status and all others were right.
#include "proxy.h"

#include <mlbridge/model.h>
#include <mlbridge/server.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace mlbridge;
using namespace mlbridge::faults;
using namespace std::chrono_literals;

namespace {

constexpr int Requests = 3;
constexpr int Lanes = 6;
constexpr Duration TooLong = 20s;

const Signature Advice{{TensorSpec::of<float>("x", {4}), TensorSpec::of<int64_t>("k")},
                       {TensorSpec::of<int64_t>("twice"), TensorSpec::of<float>("sum", {2})}};

struct Outcome {
  bool opened = false;
  int right = 0, wrong = 0;
  Status error; ///< the first
  Duration took{};
};

struct Totals {
  std::mutex mutex;
  uint64_t injected = 0, correct = 0, error = 0, wrong = 0, hang = 0, unclear = 0, missed = 0;
  std::map<std::string, uint64_t> kinds, codes;
};

/// The model.
class Answering {
public:
  explicit Answering(const std::string &at) {
    ServerOptions options;
    options.signature = Advice;
    Expected<Server> server = Server::listen(at, std::move(options));
    if (!server) {
      status_ = server.status();
      return;
    }
    server_.emplace(std::move(*server));
    thread_ = std::thread([this] {
      while (!server_->isStopped()) {
        Expected<Event> event = server_->next();
        if (!event || event->kind() != EventKind::Request)
          continue;
        const int64_t k = event->input(1).as<int64_t>()[0];
        const Span<float> x = event->input(0).as<float>();
        event->output(0).as<int64_t>()[0] = 2 * k;
        event->output(1).as<float>()[0] = x[0] + x[3];
        event->output(1).as<float>()[1] = static_cast<float>(k);
        (void)event->reply();
      }
    });
  }
  ~Answering() {
    if (server_)
      server_->stop();
    if (thread_.joinable())
      thread_.join();
  }
  const Status &status() const { return status_; }
  std::string address() const { return server_->uri(); }

private:
  Status status_;
  std::optional<Server> server_;
  std::thread thread_;
};

Outcome converse(const std::string &uri, Duration deadline) {
  Outcome outcome;
  const Deadline::Clock::time_point begin = Deadline::Clock::now();
  OpenOptions options;
  options.deadline = deadline;
  {
    Model model = Model::open(uri, options);
    outcome.error = model.bind(Advice);
    outcome.opened = outcome.error.ok();
    Runner runner = model.newRunner();
    (void)runner.beginEpisode("e", "module");
    for (int64_t i = 0; i < Requests; ++i) {
      const float f = static_cast<float>(i);
      (void)runner.set("x", {f, 0.0f, 0.0f, 1.0f});
      (void)runner.set("k", 100 + i);
      if (const Status s = runner.evaluate(); !s) {
        if (outcome.error)
          outcome.error = s;
        continue;
      }
      const bool right = runner.output<int64_t>("twice")[0] == 2 * (100 + i) &&
                         runner.output<float>("sum")[0] == f + 1 &&
                         runner.output<float>("sum")[1] == static_cast<float>(100 + i);
      ++(right ? outcome.right : outcome.wrong);
      (void)runner.reward(1);
    }
    (void)runner.endEpisode(Status());
  }
  outcome.took = Deadline::Clock::now() - begin;
  return outcome;
}

std::vector<Fault> someFaults(const std::array<Seen, 2> &seen, size_t every) {
  std::vector<Fault> faults;
  size_t places = 0;
  for (const Direction direction : {ToServer, ToCompiler}) {
    const Seen &all = seen[direction];
    for (const Kind kind : {Kind::Cut, Kind::Stall, Kind::Split})
      for (size_t at = 0; at < all.bytes; ++at)
        if (places++ % every == 0)
          faults.push_back({kind, direction, at, 0, 0});
    for (size_t frame = 0; frame < all.frames; ++frame) {
      for (const Kind kind : {Kind::Drop, Kind::Duplicate, Kind::Swap})
        faults.push_back({kind, direction, 0, frame, 0});
      for (size_t at = 0; at < FrameHeaderSize; ++at)
        for (const uint8_t mask : {0x01, 0x80, 0xff})
          if (places++ % every == 0)
            faults.push_back({Kind::Header, direction, at, frame, mask});
    }
  }
  return faults;
}

std::string place(const std::string &transport, const std::string &folder,
                  const std::string &name) {
  if (transport == "grpc")
    return "grpc:localhost:0";
  return transport + ":" + folder + "/" + name + (transport == "pipe" ? "/" : "");
}

/// Everything over one transport. Returns what made it impossible.
Status campaign(const std::string &transport, const std::string &folder, size_t every,
                Totals &totals) {
  struct Lane {
    std::unique_ptr<Answering> server;
    std::unique_ptr<Proxy> proxy;
  };
  std::vector<Lane> lanes;
  for (int i = 0; i < Lanes; ++i) {
    const std::string number = transport + std::to_string(i);
    Lane lane;
    lane.server = std::make_unique<Answering>(place(transport, folder, number + "s"));
    if (!lane.server->status())
      return lane.server->status();
    Expected<std::unique_ptr<Proxy>> proxy =
        Proxy::start(place(transport, folder, number + "p"), lane.server->address());
    if (!proxy)
      return proxy.status();
    lane.proxy = std::move(*proxy);
    lanes.push_back(std::move(lane));
  }
  const Duration deadline = transport == "grpc" ? 250ms : 100ms;
  lanes[0].proxy->arm({});
  const Outcome clean = converse(lanes[0].proxy->address(), 20s);
  lanes[0].proxy->drain();
  if (clean.right != Requests)
    return Status(Code::Internal, "without a fault: " + clean.error.toString());
  const std::vector<Fault> faults = someFaults(lanes[0].proxy->seen(), every);

  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (Lane &lane : lanes)
    threads.emplace_back([&] {
      for (size_t i = next++; i < faults.size(); i = next++) {
        Outcome outcome;
        bool applied = false;
        // On a busy machine a conversation may end before it gets to the fault.
        for (int patience = 1; patience <= 16 && !applied; patience *= 4) {
          lane.proxy->arm(faults[i]);
          outcome = converse(lane.proxy->address(), deadline * patience);
          lane.proxy->drain();
          applied = lane.proxy->wasApplied();
        }
        const std::lock_guard<std::mutex> lock(totals.mutex);
        if (!applied) {
          ++totals.missed;
          continue;
        }
        ++totals.injected;
        ++totals.kinds[transport + " " + name(faults[i].kind)];
        if (outcome.took > TooLong)
          ++totals.hang;
        else if (outcome.wrong)
          ++totals.wrong;
        else if (outcome.right == Requests)
          ++totals.correct;
        else if (!outcome.error && !outcome.error.message().empty())
          ++totals.error;
        else
          ++totals.unclear;
        if (!outcome.error)
          ++totals.codes[name(outcome.error.code())];
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  // Whatever was done to their connections, the servers live.
  for (Lane &lane : lanes)
    if (const Outcome after = converse(lane.server->address(), 20s); after.right != Requests)
      return Status(Code::Internal, "a server no longer answers: " + after.error.toString());
  return Status();
}

} // namespace

int main(int argc, char **argv) {
  const size_t every = argc < 4 ? 0 : std::strtoul(argv[1], nullptr, 10);
  if (every == 0) {
    std::fputs("usage: fault-campaign EVERY FOLDER TRANSPORT...\n", stderr);
    return 2;
  }
  Totals totals;
  for (int i = 3; i < argc; ++i)
    if (const Status s = campaign(argv[i], argv[2], every, totals); !s) {
      std::fprintf(stderr, "%s: %s\n", argv[i], s.toString().c_str());
      return 1;
    }
  std::printf("{\"injected\": %lu, \"correct_advice\": %lu, \"clear_error\": %lu, "
              "\"wrong_advice\": %lu, \"hang\": %lu, \"unclear\": %lu, \"without_effect\": %lu,\n",
              totals.injected, totals.correct, totals.error, totals.wrong, totals.hang,
              totals.unclear, totals.missed);
  const auto list = [](const char *title, const std::map<std::string, uint64_t> &counts,
                       const char *end) {
    std::printf(" \"%s\": {", title);
    const char *between = "";
    for (const auto &[name, count] : counts) {
      std::printf("%s\"%s\": %lu", between, name.c_str(), count);
      between = ", ";
    }
    std::printf("}%s\n", end);
  };
  list("kinds", totals.kinds, ",");
  list("codes", totals.codes, "}");
  return 0;
}
