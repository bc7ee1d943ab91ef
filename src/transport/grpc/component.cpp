// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport grpc:HOST:PORT as a component. gRPC and what it needs stay inside: no symbol
// leaves.
#include "transport/grpc/client.h"
#include "transport/grpc/library.h"
#include "transport/grpc/names.h"
#include "transport/grpc/server.h"

#include "core/component_values.h"

#include <new>

namespace {

using namespace mlbridge;
using namespace mlbridge::grpctransport;

/// gRPC and the standard library may throw, the functions of the table may not.
template <typename Function> mlb_code guarded(mlb_error *error, Function function) {
  try {
    return fail(error, function());
  } catch (const std::bad_alloc &) {
    return fail(error, Status(Code::LimitExceeded, "no memory"));
  } catch (const std::exception &e) {
    return fail(error, Status(Code::Internal, e.what()));
  } catch (...) {
    return fail(error, Status(Code::Internal, "an unexpected exception"));
  }
}

Deadline deadlineOf(uint64_t left) {
  return left == MLB_NO_DEADLINE || left > uint64_t(INT64_MAX)
             ? Deadline::never()
             : Deadline::after(Duration(static_cast<int64_t>(left)));
}

/// One end of a stream as the table knows it, or what calls go through.
struct Connection {
  std::unique_ptr<ClientStream> client; ///< or
  ServerStream *server = nullptr;       ///< or
  std::unique_ptr<UnaryClient> unary;

  ~Connection() {
    if (isForked()) { // a copy of the parent's, without the threads that it needs
      (void)!client.release();
      (void)!unary.release();
    } else if (server) {
      server->close();
    }
  }
};

Connection *of(void *connection) { return static_cast<Connection *>(connection); }

/// The URI of the place and options that the table is given.
Uri uriOf(mlb_string place, const mlb_option *options, uint64_t count) {
  Uri uri;
  uri.place = fromComponent(place);
  for (const mlb_option &option : Span<const mlb_option>(options, count))
    uri.options.emplace(fromComponent(option.key), fromComponent(option.value));
  return uri;
}

template <typename From, typename To> Status put(Expected<From> from, To &to) {
  if (from)
    to = std::move(*from);
  return from.status();
}

mlb_code connect(mlb_string place, const mlb_option *options, uint64_t options_size, uint64_t left,
                 void **connection, mlb_error *error) {
  const Deadline deadline = deadlineOf(left);
  return guarded(error, [&] {
    const Uri uri = uriOf(place, options, options_size);
    Expected<Settings> settings = readSettings(uri, Side::Compiler);
    if (!settings)
      return settings.status();
    if (Status s = startLibrary(); !s)
      return s;
    auto handle = std::make_unique<Connection>();
    Status status;
    if (uri.options.count("call")) {
      Expected<uint64_t> largest = uri.number("max-message", uint64_t(256) << 20);
      if (!largest)
        return largest.status();
      status = put(UnaryClient::connect(*settings, *largest, deadline), handle->unary);
    } else {
      status = put(ClientStream::connect(*settings, deadline), handle->client);
    }
    if (status)
      *connection = handle.release();
    return status;
  });
}

mlb_code call(void *connection, mlb_string method, const uint8_t *request, uint64_t request_size,
              uint64_t left, mlb_buffer *reply, mlb_error *error) {
  const Deadline deadline = deadlineOf(left);
  return guarded(error, [&] {
    if (!of(connection)->unary)
      return Status(Code::InvalidArgument, "this connection was not made for calls");
    return of(connection)
        ->unary->call(std::string(fromComponent(method)),
                      {request, static_cast<size_t>(request_size)}, deadline, *reply);
  });
}

using Listener = std::shared_ptr<ServerCore>;

ServerCore &listenerOf(void *listener) { return **static_cast<Listener *>(listener); }

mlb_code listen(mlb_string place, const mlb_option *options, uint64_t options_size, void **listener,
                mlb_error *error) {
  return guarded(error, [&] {
    Expected<Settings> settings = readSettings(uriOf(place, options, options_size), Side::Server);
    if (!settings)
      return settings.status();
    if (Status s = startLibrary(); !s)
      return s;
    Expected<Listener> core = ServerCore::start(*settings);
    if (!core)
      return core.status();
    *listener = new Listener(std::move(*core));
    return Status();
  });
}

mlb_code accept(void *listener, void **connection, mlb_error *error) {
  *connection = nullptr;
  return guarded(error, [&] {
    auto handle = std::make_unique<Connection>();
    handle->server = listenerOf(listener).accept();
    if (handle->server)
      *connection = handle.release();
    return Status();
  });
}

int listenerDescriptor(void *listener) { return listenerOf(listener).descriptor(); }

void stopListening(void *listener) {
  if (isForked())
    return;
  listenerOf(listener).stop();
  delete static_cast<Listener *>(listener);
}

mlb_code read(void *connection, uint8_t *data, uint64_t size, uint64_t *done, mlb_error *error) {
  return guarded(error, [&] {
    const Connection &c = *of(connection);
    return put(c.client ? c.client->read(data, size) : c.server->take(data, size), *done);
  });
}

mlb_code writeParts(void *connection, const mlb_bytes *parts, uint64_t count, uint64_t *done,
                    mlb_error *error) {
  return guarded(error, [&] {
    const Connection &c = *of(connection);
    return put(c.client ? c.client->write(parts, count) : c.server->give(parts, count), *done);
  });
}

mlb_code write(void *connection, const uint8_t *data, uint64_t size, uint64_t *done,
               mlb_error *error) {
  const mlb_bytes part{data, size};
  return writeParts(connection, &part, 1, done, error);
}

int readDescriptor(void *connection) {
  return of(connection)->server ? of(connection)->server->readDescriptor() : -1;
}

int writeDescriptor(void *connection) {
  return of(connection)->server ? of(connection)->server->writeDescriptor() : -1;
}

void close(void *connection) { delete of(connection); }

int understands(mlb_string option) { return isOption(fromComponent(option)); }

mlb_code wait(void *connection, uint32_t wanted, uint64_t left, uint32_t *ready, mlb_error *error) {
  const Deadline deadline = deadlineOf(left);
  return guarded(error, [&] {
    if (!of(connection)->client)
      return Status(Code::InvalidArgument, "a server polls the descriptors");
    return put(of(connection)->client->wait(wanted, deadline), *ready);
  });
}

void place(void *listener, mlb_string *place) {
  *place = toComponent(listenerOf(listener).place());
}

uint32_t servers(mlb_string place, uint64_t left) {
  try {
    return serversAt(fromComponent(place), deadlineOf(left));
  } catch (...) {
    return 1;
  }
}

void peer(void *connection, mlb_string *peer) {
  const auto &client = of(connection)->client;
  *peer = client ? toComponent(client->peer()) : mlb_string{nullptr, 0};
}

void drainListener(void *listener) { listenerOf(listener).refuseNew(); }

void drive(void *listener, uint64_t left) { listenerOf(listener).drive(deadlineOf(left)); }

void interrupt(void *listener) { listenerOf(listener).interrupt(); }

constexpr mlb_transport Table = {sizeof(mlb_transport),
                                 connect,
                                 listen,
                                 accept,
                                 listenerDescriptor,
                                 stopListening,
                                 read,
                                 write,
                                 readDescriptor,
                                 writeDescriptor,
                                 close,
                                 understands,
                                 writeParts,
                                 wait,
                                 place,
                                 drive,
                                 interrupt,
                                 call,
                                 servers,
                                 peer,
                                 drainListener};

} // namespace

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  static constexpr mlb_component Component = newComponent("grpc", nullptr, nullptr, &Table);
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
