// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One side of a conversation, in C++; peer.py is the same in Python.
//
//   interop-peer serve URI         the model: answers with each input turned round
//   interop-peer ask URI           the compiler: asks, and compares
//   interop-peer environment URI   the compiler: is driven
//   interop-peer drive URI         the model's side: drives, and compares
//
// Servers print "ready URI" once they listen. Clients print "passed", or what was wrong, and exit
// with 0 for "passed", 3 for an error of the library and 1 for a wrong value.
#include <mlbridge/driver.h>
#include <mlbridge/environment.h>
#include <mlbridge/model.h>
#include <mlbridge/server.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

using namespace mlbridge;

namespace {

constexpr int Rounds = 6;
constexpr uint64_t Steps = 5;

constexpr ElementType Types[] = {ElementType::Int8,    ElementType::Int16,   ElementType::Int32,
                                 ElementType::Int64,   ElementType::UInt8,   ElementType::UInt16,
                                 ElementType::UInt32,  ElementType::UInt64,  ElementType::Float16,
                                 ElementType::Float32, ElementType::Float64, ElementType::Bool,
                                 ElementType::String};

/// Every element type at a fixed shape, and what changes its shape from call to call.
std::vector<TensorSpec> tensors() {
  std::vector<TensorSpec> specs;
  for (ElementType type : Types) {
    TensorSpec spec;
    spec.name = name(type);
    spec.type = type;
    spec.shape = {2, 3};
    specs.push_back(spec);
  }
  specs.push_back(TensorSpec::of<float>("rows", {Dynamic, 2}, {64, 0}));
  specs.push_back(TensorSpec::of<std::string>("words", {Dynamic}));
  return specs;
}

const Signature Everything{tensors(), tensors()};

Shape shapeOf(const TensorSpec &spec, int64_t round) {
  Shape shape = spec.shape;
  for (int64_t &length : shape)
    if (length == Dynamic)
      length = round % 4; // nothing at all, too
  return shape;
}

template <typename T> T value(int kind, size_t k) {
  using Limits = std::numeric_limits<T>;
  constexpr bool Float = std::is_floating_point_v<T>;
  switch (kind) {
  case 0:
    return Float && k == 2 ? Limits::quiet_NaN() : static_cast<T>(k + 1);
  case 1:
    return Limits::max();
  case 2:
    return Limits::lowest();
  case 3:
    return Float ? Limits::infinity() : static_cast<T>(7);
  case 4:
    return Float ? -Limits::infinity() : static_cast<T>(9);
  default:
    return Float ? static_cast<T>(0.1) : static_cast<T>(100);
  }
}

template <> Half value<Half>(int kind, size_t k) {
  constexpr uint16_t Bits[] = {0, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x2e66};
  if (kind != 0)
    return {Bits[kind]};
  return k == 2 ? Half{0x7e00} : toHalf(static_cast<float>(k + 1));
}

template <> bool value<bool>(int kind, size_t) { return kind % 2 == 1; }

template <typename T> void fillAs(const TensorView &to, int64_t round, int64_t index) {
  const Span<T> elements = to.as<T>();
  for (size_t k = 0; k < elements.size(); ++k)
    elements[k] = value<T>(static_cast<int>((round + 2 * index + static_cast<int64_t>(k)) % 6), k);
}

void fill(const TensorView &to, int64_t round, int64_t index) {
  switch (to.type) {
  case ElementType::Int8:
    return fillAs<int8_t>(to, round, index);
  case ElementType::Int16:
    return fillAs<int16_t>(to, round, index);
  case ElementType::Int32:
    return fillAs<int32_t>(to, round, index);
  case ElementType::Int64:
    return fillAs<int64_t>(to, round, index);
  case ElementType::UInt8:
    return fillAs<uint8_t>(to, round, index);
  case ElementType::UInt16:
    return fillAs<uint16_t>(to, round, index);
  case ElementType::UInt32:
    return fillAs<uint32_t>(to, round, index);
  case ElementType::UInt64:
    return fillAs<uint64_t>(to, round, index);
  case ElementType::Float16:
    return fillAs<Half>(to, round, index);
  case ElementType::Float32:
    return fillAs<float>(to, round, index);
  case ElementType::Float64:
    return fillAs<double>(to, round, index);
  case ElementType::Bool:
    return fillAs<bool>(to, round, index);
  case ElementType::String: {
    const Span<std::string> words = to.as<std::string>();
    for (size_t k = 0; k < words.size(); ++k)
      words[k] = "s" + std::to_string(round) + "." + std::to_string(k) + " ü€";
    return;
  }
  }
}

/// The elements in the opposite order.
void turn(const TensorView &from, const TensorView &to) {
  if (from.type == ElementType::String) {
    const Span<std::string> a = from.as<std::string>(), b = to.as<std::string>();
    for (size_t k = 0; k < a.size(); ++k)
      b[k] = a[a.size() - 1 - k];
    return;
  }
  const size_t size = sizeOf(from.type);
  for (size_t k = 0; k < from.count; ++k)
    std::memcpy(static_cast<char *>(to.data) + k * size,
                static_cast<const char *>(from.data) + (from.count - 1 - k) * size, size);
}

bool equal(const TensorView &a, const TensorView &b) {
  if (a.count != b.count)
    return false;
  if (a.type == ElementType::String) {
    const Span<std::string> x = a.as<std::string>(), y = b.as<std::string>();
    return std::equal(x.begin(), x.end(), y.begin());
  }
  return a.count == 0 || std::memcmp(a.data, b.data, a.bytes()) == 0;
}

int failed(const Status &why) {
  std::printf("error %s\n", why.toString().c_str());
  return 3;
}

int wrong(const std::string &what) {
  std::printf("wrong %s\n", what.c_str());
  return 1;
}

/// Whether `got` is what became of round `round`, turned round by the other side.
bool isTurned(const TensorSpec &spec, const TensorView &got, int64_t round, int64_t index) {
  Tensor sent(spec), expected(spec);
  const Shape shape = shapeOf(spec, round);
  if (!sent.reshape(spec, shape) || !expected.reshape(spec, shape))
    return false;
  fill(sent.view(), round, index);
  turn(sent.view(), expected.view());
  return equal(got, expected.view());
}

void ready(const Server &server) {
  std::printf("ready %s\n", server.uri().c_str());
  std::fflush(stdout);
}

// ---- the model's side

int serveModel(const char *uri) {
  ServerOptions options;
  options.signature = Everything;
  options.metadata = {{"who", "interop"}};
  Expected<Server> server = Server::listen(uri, std::move(options));
  if (!server)
    return failed(server.status());
  ready(*server);
  while (true) {
    Expected<Event> event = server->next();
    if (!event)
      return failed(event.status());
    if (event->kind() != EventKind::Request)
      continue;
    if (event->context().unit == "fail") {
      (void)event->fail(Status(Code::PolicyFailed, "as it was asked to"));
      continue;
    }
    for (size_t i = 0; i < Everything.inputs.size(); ++i) {
      const TensorView from = event->input(i);
      if (Expected<TensorView> to = event->resizeOutput(i, from.shape))
        turn(from, *to);
    }
    (void)event->reply();
  }
}

int driveEnvironment(const std::string &uri) {
  Expected<Driver> driver = Driver::open(uri + "wait=20s");
  if (!driver)
    return failed(driver.status());
  if (driver->signature() != Everything || driver->metadata().at("who") != "interop")
    return wrong("signature or metadata");
  for (uint64_t episode = 0; episode < 2; ++episode) {
    if (Status s = driver->reset("module " + std::to_string(episode), episode); !s)
      return failed(s);
    for (uint64_t step = 0; step < Steps; ++step) {
      const auto round = static_cast<int64_t>(episode + step);
      for (size_t i = 0; i < Everything.inputs.size(); ++i)
        if (!isTurned(Everything.inputs[i], driver->observation(i), round, static_cast<int64_t>(i)))
          return wrong("observation '" + Everything.inputs[i].name + "' of step " +
                       std::to_string(step));
      for (size_t i = 0; i < Everything.outputs.size(); ++i) {
        const TensorSpec &spec = Everything.outputs[i];
        Expected<TensorView> action = driver->resizeAction(i, shapeOf(spec, round + 1));
        if (!action)
          return failed(action.status());
        fill(*action, round + 1, static_cast<int64_t>(i));
      }
      if (Status s = driver->step(); !s)
        return failed(s);
      if (driver->reward() != 0.5 * static_cast<double>(step + 1))
        return wrong("reward");
    }
    if (!driver->isDone())
      return wrong("end of the episode");
  }
  if (const Status s = driver->reset("fail");
      s.message().find("as it was asked to") == s.message().npos)
    return wrong("error: " + s.toString());
  std::puts("passed");
  return 0;
}

// ---- the compiler's side

int askModel(const std::string &uri) {
  Model model = Model::open(uri + "wait=20s");
  if (Status s = model.bind(Everything); !s)
    return failed(s);
  if (model.metadata("who") != "interop")
    return wrong("metadata");
  Runner runner = model.newRunner();
  for (int64_t round = 0; round < Rounds; ++round) {
    for (size_t i = 0; i < Everything.inputs.size(); ++i) {
      Expected<TensorView> to = runner.resizeAt(i, shapeOf(Everything.inputs[i], round));
      if (!to)
        return failed(to.status());
      fill(*to, round, static_cast<int64_t>(i));
    }
    if (Status s = runner.evaluate(); !s)
      return failed(s);
    for (size_t i = 0; i < Everything.outputs.size(); ++i)
      if (!isTurned(Everything.outputs[i], runner.outputAt(i), round, static_cast<int64_t>(i)))
        return wrong("output '" + Everything.outputs[i].name + "' of round " +
                     std::to_string(round));
  }
  Runner other = model.newRunner({"", "", "fail"});
  for (size_t i = 0; i < Everything.inputs.size(); ++i)
    (void)other.resizeAt(i, shapeOf(Everything.inputs[i], 1));
  if (const Status s = other.evaluate(); s.code() != Code::PolicyFailed)
    return wrong("error: " + s.toString());
  std::puts("passed");
  return 0;
}

/// Shows the last action turned round, at first what the seed says.
class Mirror final : public Environment {
public:
  const Signature &signature() const override { return Everything; }
  Status reset(Observation &first) override {
    if (unit() == "fail")
      return Status(Code::PolicyFailed, "as it was asked to");
    steps_ = 0;
    std::vector<Tensor> sent;
    for (size_t i = 0; i < Everything.inputs.size(); ++i) {
      const TensorSpec &spec = Everything.inputs[i];
      const auto round = static_cast<int64_t>(seed());
      Expected<Tensor> tensor = Tensor::make(spec, shapeOf(spec, round));
      if (!tensor)
        return tensor.status();
      fill(tensor->view(), round, static_cast<int64_t>(i));
      sent.push_back(std::move(*tensor));
    }
    return show(first, [&](size_t i) { return sent[i].view(); });
  }
  Status step(const Action &action, Observation &next) override {
    setReward(0.5 * static_cast<double>(++steps_));
    if (steps_ == Steps) {
      setDone();
      return Status();
    }
    return show(next, [&](size_t i) { return action.outputAt(i); });
  }

private:
  template <typename From> Status show(Observation &to, From from) {
    for (size_t i = 0; i < Everything.inputs.size(); ++i) {
      const TensorView source = from(i);
      Expected<TensorView> target = to.resizeAt(i, source.shape);
      if (!target)
        return target.status();
      turn(source, *target);
    }
    return Status();
  }
  uint64_t steps_ = 0;
};

int serveEnvironment(const char *uri) {
  ServerOptions options;
  options.signature = Everything;
  options.metadata = {{"who", "interop"}};
  options.environment = true;
  Expected<Server> server = Server::listen(uri, std::move(options));
  if (!server)
    return failed(server.status());
  ready(*server);
  Mirror mirror;
  ServeOptions once;
  once.idle = std::chrono::seconds(60);
  const ServeResult result = serve(mirror, *server, once);
  return result.status ? 0 : failed(result.status);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fputs("usage: interop-peer serve|ask|environment|drive URI\n", stderr);
    return 2;
  }
  const std::string role = argv[1], uri = argv[2];
  const std::string open = uri + (uri.find('?') == uri.npos ? "?" : "&");
  if (role == "serve")
    return serveModel(argv[2]);
  if (role == "ask")
    return askModel(open);
  if (role == "environment")
    return serveEnvironment(argv[2]);
  return role == "drive" ? driveEnvironment(open) : 2;
}
