// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gRPCModelRunner of the 2024 release, for a gRPC service of the program's own. Header only: the
// program links gRPC and protobuf.
//
// Inference: the compiler calls getAdvice of a model's server. Training: the compiler is the
// server, and a model in training calls the methods that the pass overrides.
#ifndef MLBRIDGE_COMPAT_GRPCMODELRUNNER_H
#define MLBRIDGE_COMPAT_GRPCMODELRUNNER_H

#include "MLModelRunner/MLModelRunner.h"
#include "SerDes/protobufSerDes.h"

#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/support/server_interceptor.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace MLBridge {

/// What a server of a pass waits for: that somebody asks it to end, or that nobody calls any more.
class gRPCServing {
public:
  explicit gRPCServing(grpc::Service *service) : service_(service) {
    const std::lock_guard<std::mutex> lock(all().mutex);
    all().running.push_back(this);
  }
  ~gRPCServing() {
    const std::lock_guard<std::mutex> lock(all().mutex);
    auto &running = all().running;
    running.erase(std::find(running.begin(), running.end(), this));
  }
  gRPCServing(const gRPCServing &) = delete;
  gRPCServing &operator=(const gRPCServing &) = delete;

  /// Ends the server of this service, or of every one if it is null, after the calls that it is
  /// answering. From any thread, also from a method of the service.
  static void end(const grpc::Service *service) {
    const std::lock_guard<std::mutex> lock(all().mutex);
    for (gRPCServing *one : all().running)
      if (!service || one->service_ == service)
        one->requestEnd();
  }
  void requestEnd() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  void callBegan() { change(1); }
  void callEnded() { change(-1); }
  /// False if nobody called for `idle`. `asked`: the promise of published code, by which the end
  /// can be asked for, too.
  bool wait(mlbridge::Duration idle, std::future<void> asked) {
    std::unique_lock<std::mutex> lock(mutex_);
    auto last = std::chrono::steady_clock::now();
    int64_t seen = 0;
    while (!ended_) {
      if (asked.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
        return true;
      const auto now = std::chrono::steady_clock::now();
      if (running_ != 0 || seen != calls_)
        last = now;
      seen = calls_;
      if (now - last >= idle)
        return false;
      changed_.wait_for(lock, std::chrono::milliseconds(20)); // a promise wakes nobody here
    }
    return true;
  }

private:
  struct All {
    std::mutex mutex;
    std::vector<gRPCServing *> running;
  };
  static All &all() {
    static All *one = new All; // never destroyed: servers may end while the program does
    return *one;
  }
  void change(int by) {
    const std::lock_guard<std::mutex> lock(mutex_);
    running_ += by;
    ++calls_;
  }

  grpc::Service *service_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  int64_t running_ = 0, calls_ = 0;
};

/// Tells a gRPCServing of each call.
class gRPCCallWatch : public grpc::experimental::Interceptor {
public:
  explicit gRPCCallWatch(gRPCServing &serving) : serving_(serving) { serving_.callBegan(); }
  ~gRPCCallWatch() override { serving_.callEnded(); }
  void Intercept(grpc::experimental::InterceptorBatchMethods *methods) override {
    methods->Proceed();
  }
  class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
  public:
    explicit Factory(gRPCServing &serving) : serving_(serving) {}
    grpc::experimental::Interceptor *
    CreateServerInterceptor(grpc::experimental::ServerRpcInfo *) override {
      return new gRPCCallWatch(serving_);
    }

  private:
    gRPCServing &serving_;
  };

private:
  gRPCServing &serving_;
};

template <class Client, class Stub, class Request, class Response>
class gRPCModelRunner : public MLModelRunner {
public:
  /// Training. Serves at the address until requestExit, until a method of the service calls
  /// stopServing(this), until exit_requested is set, or until nobody has called for `idle`. Status:
  /// Ok, InvalidArgument (the address cannot be listened at), DeadlineExceeded (idle).
  gRPCModelRunner(std::string server_address, grpc::Service *service,
                  llvm::LLVMContext *Ctx = nullptr,
                  mlbridge::Duration idle = std::chrono::minutes(10))
      : MLModelRunner(Kind::gRPC, SerDesKind::Protobuf, Ctx) {
    serve(server_address, service, idle);
  }
  /// Inference. The messages stay the caller's.
  gRPCModelRunner(std::string server_address, Request *request, Response *response,
                  llvm::LLVMContext *Ctx = nullptr)
      : MLModelRunner(Kind::gRPC, SerDesKind::Protobuf, Ctx) {
    auto messages = std::make_unique<ProtobufSerDes>();
    messages->expectMessages();
    SerDes = std::move(messages);
    SerDes->setRequest(static_cast<google::protobuf::Message *>(request));
    SerDes->setResponse(static_cast<google::protobuf::Message *>(response));
    std::shared_ptr<Stub> stub =
        Client::NewStub(grpc::CreateChannel(server_address, grpc::InsecureChannelCredentials()));
    call_ = [stub](grpc::ClientContext *context, const Request &from, Response *to) {
      return stub->getAdvice(context, from, to);
    };
  }

  static bool classof(const MLModelRunner *R) { return R->getKind() == Kind::gRPC; }
  void requestExit() override { gRPCServing::end(service_); }
  /// Not in the release: ends the server that the constructor of a runner with this service runs;
  /// null: all.
  static void stopServing(const grpc::Service *service) { gRPCServing::end(service); }

protected:
  void *evaluateUntyped() override {
    if (!call_) {
      fail({mlbridge::Code::InvalidArgument,
            "gRPC: this runner is a server; its service's methods are called, it isn't evaluated"});
      return nullptr;
    }
    auto *request = dynamicTo<Request>(SerDes->getRequest());
    auto *response = dynamicTo<Response>(SerDes->getResponse());
    if (!request || !response) {
      fail({mlbridge::Code::InvalidArgument, "gRPC: the request or the reply message is null"});
      return nullptr;
    }
    // After a call that waited in vain, later ones get a tenth of the time and don't wait for a
    // server, until one has answered.
    const mlbridge::Duration left = failedBefore_ ? deadline() / 10 : deadline();
    grpc::ClientContext context;
    context.set_wait_for_ready(!failedBefore_);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::system_clock::duration>(
                             std::min<mlbridge::Duration>(left, std::chrono::hours(24 * 365))));
    const grpc::Status status = call_(&context, *request, response);
    failedBefore_ = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
                    status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (status.ok())
      return SerDes->deserializeUntyped(static_cast<google::protobuf::Message *>(response));
    request->Clear();
    fail({codeOf(status.error_code()), "gRPC: " + status.error_message()});
    return nullptr;
  }

private:
  template <typename M> static M *dynamicTo(void *message) {
    return static_cast<M *>(static_cast<google::protobuf::Message *>(message));
  }
  static mlbridge::Code codeOf(grpc::StatusCode code) {
    using mlbridge::Code;
    switch (code) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Code::DeadlineExceeded;
    case grpc::StatusCode::UNAVAILABLE:
      return Code::Unavailable;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Code::Unsupported;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
      return Code::InvalidArgument;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Code::Busy;
    case grpc::StatusCode::CANCELLED:
      return Code::Cancelled;
    default:
      return Code::PolicyFailed;
    }
  }

  void serve(const std::string &address, grpc::Service *service, mlbridge::Duration idle) {
    if (!service) {
      fail({mlbridge::Code::InvalidArgument, "gRPC: the service is null"});
      return;
    }
    service_ = service;
    std::promise<void> exit;
    exit_requested = &exit;
    gRPCServing serving(service);
    grpc::ServerBuilder builder;
    int port = 0;
    // Otherwise two compilers may listen at one port, and calls come to either.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service);
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> watches;
    watches.push_back(std::make_unique<gRPCCallWatch::Factory>(serving));
    builder.experimental().SetInterceptorCreators(std::move(watches));
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server || port == 0) {
      fail({mlbridge::Code::InvalidArgument, "gRPC: cannot listen at " + address});
    } else {
      if (!serving.wait(idle, exit.get_future()))
        fail({mlbridge::Code::DeadlineExceeded, "gRPC: nobody called the pass for too long"});
      server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
    }
    exit_requested = nullptr;
  }

  std::function<grpc::Status(grpc::ClientContext *, const Request &, Response *)> call_;
  grpc::Service *service_ = nullptr;
  bool failedBefore_ = false;
};

} // namespace MLBridge

#endif
