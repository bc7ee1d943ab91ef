// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The transport grpc:HOST:PORT as a component. gRPC and what it needs stay inside: no symbol
// leaves.
#include "transport/grpc/client.h"
#include "transport/grpc/library.h"
#include "transport/grpc/server.h"
#include "transport/grpc/unary.h"

#include "core/component_values.h"

#include <algorithm>
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
    return fail(error, Status(Code::Internal, "an exception"));
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

bool isForCalls(const mlb_option *options, uint64_t count) {
  return std::any_of(options, options + count,
                     [](const mlb_option &o) { return fromComponent(o.key) == "call"; });
}

Expected<uint64_t> largestReply(const mlb_option *options, uint64_t count) {
  constexpr std::string_view Key = "max-message";
  Uri uri;
  for (uint64_t i = 0; i < count; ++i)
    if (fromComponent(options[i].key) == Key)
      uri.options.emplace(Key, fromComponent(options[i].value));
  return uri.number(Key, uint64_t(256) << 20);
}

mlb_code connect(mlb_string place, const mlb_option *options, uint64_t options_size, uint64_t left,
                 void **connection, mlb_error *error) {
  const Deadline deadline = deadlineOf(left);
  return guarded(error, [&] {
    Expected<Settings> settings =
        readSettings(fromComponent(place), options, options_size, Side::Compiler);
    if (!settings)
      return settings.status();
    if (Status s = startLibrary(); !s)
      return s;
    auto made = std::make_unique<Connection>();
    if (isForCalls(options, options_size)) {
      Expected<uint64_t> largest = largestReply(options, options_size);
      if (!largest)
        return largest.status();
      Expected<std::unique_ptr<UnaryClient>> unary =
          UnaryClient::connect(*settings, *largest, deadline);
      if (!unary)
        return unary.status();
      made->unary = std::move(*unary);
      *connection = made.release();
      return Status();
    }
    Expected<std::unique_ptr<ClientStream>> client = ClientStream::connect(*settings, deadline);
    if (!client)
      return client.status();
    made->client = std::move(*client);
    *connection = made.release();
    return Status();
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
    Expected<Settings> settings =
        readSettings(fromComponent(place), options, options_size, Side::Server);
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
    auto made = std::make_unique<Connection>();
    made->server = listenerOf(listener).accept();
    if (made->server)
      *connection = made.release();
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
    Expected<size_t> n = c.client ? c.client->read(data, size) : c.server->take(data, size);
    if (!n)
      return n.status();
    *done = *n;
    return Status();
  });
}

mlb_code writeParts(void *connection, const mlb_bytes *parts, uint64_t count, uint64_t *done,
                    mlb_error *error) {
  return guarded(error, [&] {
    const Connection &c = *of(connection);
    Expected<size_t> n = c.client ? c.client->write(parts, count) : c.server->give(parts, count);
    if (!n)
      return n.status();
    *done = *n;
    return Status();
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
    Expected<uint32_t> found = of(connection)->client->wait(wanted, deadline);
    if (!found)
      return found.status();
    *ready = *found;
    return Status();
  });
}

void place(void *listener, mlb_string *place) {
  *place = toComponent(listenerOf(listener).place());
}

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
                                 call};

constexpr mlb_component Component = {sizeof(mlb_component),
                                     MLB_COMPONENT_ABI,
                                     0 << 16 | 1 << 8 | 0,
                                     {"grpc", 4},
                                     nullptr,
                                     nullptr,
                                     &Table};

} // namespace

extern "C" [[gnu::visibility("default")]] const mlb_component *mlb_component_entry(uint32_t host) {
  return host == MLB_COMPONENT_ABI ? &Component : nullptr;
}
