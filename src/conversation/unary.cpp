// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "conversation/message_tensors.h"
#include "conversation/remote.h"
#include "conversation/retry.h"
#include "core/message.h"

#include <algorithm>

namespace mlbridge {

namespace {

/// The state that all runners share.
struct Service {
  std::string method;
  std::unique_ptr<SerDes> serdes;
  std::unique_ptr<Caller> caller;
  std::shared_ptr<Circuit> circuit;
  uint32_t retries = 0;
  uint64_t maxMessage = 0;
};

class UnaryRunner final : public RunnerBackend {
public:
  UnaryRunner(std::shared_ptr<const Service> service, Signature bound)
      : service_(std::move(service)), bound_(std::move(bound)) {}

  Status open() {
    if (Status s = inputs_.prepareFor(bound_.inputs, *service_->serdes, Side::Inputs); !s)
      return s;
    return outputs_.prepareFor(bound_.outputs, *service_->serdes, Side::Outputs);
  }
  TensorView input(size_t index) override { return inputs_.own(index); }
  Expected<TensorView> resize(size_t index, Span<const int64_t> shape) override {
    return inputs_.prepare(index, shape);
  }
  TensorView output(size_t index) override { return outputs_.own(index); }

  Status evaluate(Duration left) override {
    request_.clear();
    if (Status s = inputs_.encode(request_); !s)
      return s;
    if (request_.size() > service_->maxMessage)
      return makeError(Code::LimitExceeded, "the request has ", request_.size(),
                       " bytes, 'max-message' is ", service_->maxMessage);
    Status status = retry_(
        service_->retries, left, *service_->circuit,
        [this](Duration left, Deadline::Clock::time_point now) { return attempt(left, now); },
        [](const Status &status) {
          return status.code() == Code::Busy || status.code() == Code::Unavailable;
        });
    if (!status)
      return status;
    return outputs_.decode(reply_.span(), "the reply").withContext(service_->method);
  }

private:
  Status attempt(Duration left, Deadline::Clock::time_point since) {
    Expected<Deadline> admitted = service_->circuit->admit(Deadline::after(left, since));
    if (!admitted)
      return admitted.status();
    Status status = service_->caller->call(service_->method, request_.span(), *admitted, reply_);
    if (status.code() == Code::DeadlineExceeded || status.code() == Code::Unavailable)
      service_->circuit->recordTimeout(since, status);
    else
      service_->circuit->answered();
    return status;
  }

  const std::shared_ptr<const Service> service_;
  const Signature bound_;
  MessageTensors inputs_, outputs_;
  Buffer request_, reply_;
  Retry retry_;
};

class UnaryModel final : public ModelBackend {
public:
  explicit UnaryModel(std::shared_ptr<const Service> service) : service_(std::move(service)) {}

  const Metadata &metadata() const override { return metadata_; }
  const Signature *signature() const override { return nullptr; }
  Expected<std::unique_ptr<RunnerBackend>> newRunner(const Signature &bound, const CallContext &,
                                                     Duration) override {
    auto runner = std::make_unique<UnaryRunner>(service_, bound);
    if (Status s = runner->open(); !s)
      return s;
    return std::unique_ptr<RunnerBackend>(std::move(runner));
  }
  Expected<Metadata> statistics() override {
    return makeError(Code::Unsupported,
                     "a service that is called with the option 'call' has no statistics");
  }

private:
  const std::shared_ptr<const Service> service_;
  const Metadata metadata_;
};

bool isIdentifier(std::string_view text, std::string_view more) {
  return !text.empty() && text.size() <= 1024 && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           more.find(c) != more.npos;
  });
}

Status checkOptions(const Uri &uri) {
  const std::string method = uri.option("call");
  const size_t slash = method.find('/');
  if (slash == method.npos || !isIdentifier(std::string_view(method).substr(0, slash), ".") ||
      !isIdentifier(std::string_view(method).substr(slash + 1), ""))
    return makeError(Code::InvalidArgument, "option 'call': '", method.substr(0, 200),
                     "' is not a method; expected pkg.Service/Method");
  if (uri.option("serdes", "protobuf") != "protobuf")
    return makeError(Code::InvalidArgument,
                     "option 'call': the messages of a service are protobuf's, "
                     "not '",
                     uri.option("serdes"), "'");
  if (uri.option("proto").empty())
    return makeError(Code::InvalidArgument,
                     "option 'call' needs the option 'proto' with the service's .proto file");
  return Status();
}

Expected<std::unique_ptr<SerDes>> serdesFor(const Uri &uri) {
  Expected<const SerDes *> plain = serdesNamed("protobuf");
  if (!plain)
    return plain.status();
  Uri options;
  for (const char *key : {"call", "proto", "request", "reply"})
    if (std::string value = uri.option(key); !value.empty())
      options.options[key] = std::move(value);
  std::unique_ptr<SerDes> serdes = (*plain)->withOptions(options);
  if (!serdes)
    return makeError(Code::Unsupported,
                     "the serdes protobuf that is installed is too old for 'call'");
  return Expected<std::unique_ptr<SerDes>>(std::move(serdes));
}

} // namespace

Expected<std::shared_ptr<ModelBackend>> openUnary(const Uri &uri, const Opening &options) {
  constexpr std::string_view Own[] = {"call", "proto", "request", "reply", "serdes"};
  RemoteAddress address;
  if (Status s = address.read(uri, Own); !s)
    return s;
  if (Status s = checkOptions(uri); !s)
    return s;
  auto service = std::make_shared<Service>();
  service->method = uri.option("call");
  service->retries = address.retries;
  service->maxMessage = address.connecting.maxMessage;
  Expected<std::unique_ptr<SerDes>> serdes = serdesFor(uri);
  if (!serdes)
    return serdes.status();
  service->serdes = std::move(*serdes);
  service->circuit = circuitOf(uri, options);
  Expected<Deadline> admitted = service->circuit->admit(Deadline::after(deadlineOf(options)));
  if (!admitted)
    return admitted.status();
  const Deadline::Clock::time_point since = Deadline::Clock::now();
  Expected<std::unique_ptr<Caller>> caller =
      connectWaiting(address.connecting.wait, *admitted,
                     [&](Deadline until) { return address.transport->caller(uri, until); });
  if (!caller) {
    service->circuit->recordTimeout(since, caller.status());
    return caller.status();
  }
  service->caller = std::move(*caller);
  return std::shared_ptr<ModelBackend>(std::make_shared<UnaryModel>(std::move(service)));
}

} // namespace mlbridge
