// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The floor of the round trip over gRPC, the compiler's side: one bidirectional stream of raw bytes
// with the synchronous interface, a message for each question. Nothing of the library, no
// handshake, no deadlines.
//
//   floor-grpc sweep|small HOST:PORT
//
// Standard input and output as for round-trip-client. The server is server.py.
#include "../round-trip/expected.h"
#include "grpc_arguments.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstring>

namespace {

using bench::fail;
using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

template <typename T> T ask(Stream &stream, const void *data, size_t size) {
  grpc_slice raw = grpc_slice_malloc(size);
  std::memcpy(GRPC_SLICE_START_PTR(raw), data, size);
  const grpc::Slice slice(raw, grpc::Slice::STEAL_REF);
  grpc::ByteBuffer answer;
  if (!stream.Write(grpc::ByteBuffer(&slice, 1)) || !stream.Read(&answer) ||
      answer.Length() != sizeof(T))
    fail("no answer");
  grpc::Slice only;
  if (!answer.TrySingleSlice(&only).ok() && !answer.DumpToSingleSlice(&only).ok())
    fail("no bytes");
  T value;
  std::memcpy(&value, only.begin(), sizeof value);
  return value;
}

} // namespace

int main(int count, char **arguments) {
  if (count != 3)
    fail("usage: floor-grpc sweep|small HOST:PORT");
  const bool sweep = std::strcmp(arguments[1], "sweep") == 0;
  grpc::ChannelArguments settings;
  for (const auto &[name, value] : FloorArguments)
    settings.SetInt(name, value);
  const auto channel =
      grpc::CreateCustomChannel(arguments[2], grpc::InsecureChannelCredentials(), settings);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const std::unique_ptr<Stream> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel.get(),
          grpc::internal::RpcMethod(FloorMethod, grpc::internal::RpcMethod::BIDI_STREAMING),
          &context));
  float small[roundtrip::SmallSize];
  if (sweep)
    roundtrip::serveSweep(
        [&](const float *x, size_t size) { return ask<float>(*stream, x, size * sizeof(float)); });
  else
    roundtrip::serveSmall(small, [&] { return ask<int64_t>(*stream, small, sizeof small); });
  stream->WritesDone();
  stream->Finish();
  return 0;
}
