// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The model's side. Whoever waits in the library's loop drives gRPC, and what has happened is told
// by descriptors.
#ifndef MLBRIDGE_TRANSPORT_GRPC_SERVER_H
#define MLBRIDGE_TRANSPORT_GRPC_SERVER_H

#include "transport/grpc/byte_stream.h"
#include "transport/grpc/library.h"
#include "transport/transport.h"

#include <mlbridge/deadline.h>

#include "mlbridge/v1/bridge.grpc.pb.h"
#include <grpcpp/alarm.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <set>
#include <thread>

namespace mlbridge::grpctransport {

class ServerStream;

/// An eventfd that is readable or writable, as it is told.
class Signal {
public:
  enum class Kind : uint8_t { Readable, Writable };
  explicit Signal(Kind kind);
  bool isValid() const { return bool(descriptor_); }
  int descriptor() const { return descriptor_.get(); }
  void set(bool ready);

private:
  const Kind kind_;
  Descriptor descriptor_;
  bool ready_;
};

/// The socket of a server; gRPC's own stops listening for good once no descriptor is left.
/// Accepts connections on a thread of its own, and hands them to gRPC.
class Acceptor {
public:
  using Taker = grpc::experimental::ExternalConnectionAcceptor;

  ~Acceptor() { stop(); }
  /// Errors: Busy, InvalidArgument, LimitExceeded.
  Status listen(const Settings &settings);
  uint16_t port() const { return port_; }
  /// Errors: LimitExceeded.
  Status start(std::unique_ptr<Taker> taker);
  /// Nobody is accepted any more, and the address is free.
  void stop();

private:
  void run();
  /// False if there is nobody, or no descriptor for it.
  bool acceptOne(bool &isExhausted);

  Descriptor socket_, quit_;
  uint16_t port_ = 0;
  std::unique_ptr<Taker> taker_;
  std::thread thread_;
};

class Watcher;

/// grpc.health.v1.Health, as balancers, orchestrators and gRPC's own clients ask it. gRPC's own
/// implementation has two threads that take part in all polling of the server, which nearly doubles
/// a short round trip. Serving, until the server drains.
class Health final : public grpc::Service {
public:
  Health();
  std::atomic<bool> isServing{true};

  /// The message HealthCheckResponse about the service that the request names.
  static grpc::ByteBuffer answer(bool isServing);
  static grpc::ByteBuffer unknownService();
  /// False if there is no such service here, or the request can't be read.
  static bool isKnown(const grpc::ByteBuffer &request);

private:
  friend class Watcher;
  grpc::Status check(const grpc::ByteBuffer &request, grpc::ByteBuffer &response) const;
};

/// The state that the listener and its streams share.
class ServerCore {
public:
  /// Errors: Busy, InvalidArgument, Unavailable.
  static Expected<std::shared_ptr<ServerCore>> start(const Settings &settings);
  ~ServerCore();

  /// Null if nobody is waiting.
  ServerStream *accept();
  int descriptor() const { return arrived_.descriptor(); }
  const std::string &place() const { return place_; }
  /// Handles what has happened; if nothing has, waits for it until the deadline.
  void drive(Deadline deadline);
  /// Makes a drive that is under way, or else the next one, return.
  void interrupt();
  /// Says that it is not serving, and refuses new conversations.
  void refuseNew();
  /// Ends all streams, after a moment for what they still have to send.
  void stop();

private:
  friend class ServerStream;
  friend class Watcher;
  using Service = v1::Bridge::WithRawMethod_Converse<v1::Bridge::Service>;

  explicit ServerCore(const Settings &settings) : settings_(settings) {}
  Status build();
  static void request(const std::shared_ptr<ServerCore> &core);
  void drain();

  class Interruption final : public Tag {
  public:
    void finished(bool) override { isSet.store(false); }
    std::atomic<bool> isSet{false};
    std::mutex mutex;
    grpc::Alarm alarm;
  };

  const Settings settings_;
  std::string place_;
  Service service_;
  Health health_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  Acceptor acceptor_;
  Interruption interruption_;
  std::promise<void> stopped_;
  std::thread drainer_; ///< works off what is left when the server stops

  std::mutex mutex_;
  std::set<ServerStream *> streams_;
  std::set<Watcher *> watchers_;
  std::deque<ServerStream *> waiting_;
  Signal arrived_{Signal::Kind::Readable};
  bool stopping_ = false, draining_ = false;
  std::atomic<size_t> lingering_{0}; ///< bytes that closed streams still send
};

/// A call of grpc.health.v1.Health/Watch, or the place for the next one. Guarded by the core's
/// mutex, with which operations of gRPC are started and end.
class Watcher {
public:
  /// Asks gRPC for the next call, with the mutex held.
  static void request(const std::shared_ptr<ServerCore> &core);
  /// The rest, too. Sends what is so now.
  void tell();
  void finish();
  /// The completion queue takes nothing more.
  void abandon() { dead_ = true; }

private:
  template <void (Watcher::*Handler)(bool)> class Operation final : public Tag {
  public:
    explicit Operation(Watcher &owner) : owner_(owner) {}
    void *begin() {
      ++owner_.operations_;
      return tag();
    }
    void *tag() { return static_cast<Tag *>(this); }
    void finished(bool ok) override { owner_.finished(Handler, ok); }

  private:
    Watcher &owner_;
  };

  explicit Watcher(std::shared_ptr<ServerCore> core) : core_(std::move(core)) {}
  void finished(void (Watcher::*handler)(bool), bool ok);
  void onArrived(bool ok);
  void onWritten(bool ok);
  void onFinished(bool) {}
  void onDone(bool);

  const std::shared_ptr<ServerCore> core_;
  grpc::ServerContext context_;
  grpc::ByteBuffer asked_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> call_{&context_};
  size_t operations_ = 0;
  bool knows_ = false;  ///< the service
  bool isOpen_ = false; ///< there is a call
  bool writing_ = false, behind_ = false, finishing_ = false, dead_ = false;

  Operation<&Watcher::onArrived> arrive_{*this};
  Operation<&Watcher::onWritten> write_{*this};
  Operation<&Watcher::onFinished> finish_{*this};
  Operation<&Watcher::onDone> done_{*this};
};

class ServerStream final : public ByteStream {
public:
  /// The library is done with it.
  void close();
  int readDescriptor() const { return readable_.descriptor(); }
  int writeDescriptor() const { return writable_.descriptor(); }

private:
  friend class ServerCore;

  explicit ServerStream(std::shared_ptr<ServerCore> core);
  ~ServerStream() override = default;
  bool isAuthorized() const;
  void refuse(const grpc::Status &why);
  void finish(const grpc::Status &status);
  void begin();
  void abandon();

  void onArrived(bool ok);
  void onMetadata(bool ok);
  void onFinished(bool ok);
  void onLingered(bool ok);
  void inputChanged() override { readable_.set(isReadable()); }
  void outputChanged() override { writable_.set(isWritable()); }
  void inputEnded() override;
  void sentAll() override;
  void release() override;

  const std::shared_ptr<ServerCore> core_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> call_{&context_};
  Signal readable_{Signal::Kind::Readable}, writable_{Signal::Kind::Writable};
  grpc::Alarm linger_;
  bool finishing_ = false;
  bool dead_ = false;    ///< the completion queue is closed
  size_t lingering_ = 0; ///< of core_->lingering_

  Operation<ServerStream, &ServerStream::onArrived> arrive_{*this};
  Operation<ServerStream, &ServerStream::onMetadata> metadata_{*this};
  Operation<ServerStream, &ServerStream::onFinished> finish_{*this};
  Operation<ServerStream, &ServerStream::onLingered> lingered_{*this};
};

} // namespace mlbridge::grpctransport

#endif
