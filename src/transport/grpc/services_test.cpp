// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What gRPC's own tools see of a server: health, reflection, and clients that send something else.
#include "testing/sum_server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

namespace mlbridge {
namespace {

using namespace testing;

class GrpcServices : public ::testing::Test {
protected:
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  using Reader = grpc::ClientReader<grpc::ByteBuffer>;

  void SetUp() override {
    const std::string uri = server_.server().uri();
    channel_ =
        grpc::CreateChannel(uri.substr(uri.find(':') + 1), grpc::InsecureChannelCredentials());
  }
  /// The first message with which the method answers this one; its end if it has none.
  std::string ask(const char *method, std::string_view message) {
    grpc::ClientContext context;
    const std::unique_ptr<Stream> stream(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            channel_.get(),
            grpc::internal::RpcMethod(method, grpc::internal::RpcMethod::BIDI_STREAMING),
            &context));
    const grpc::Slice slice(message.data(), message.size());
    stream->Write(grpc::ByteBuffer(&slice, 1));
    stream->WritesDone();
    grpc::ByteBuffer answer;
    std::string text;
    if (stream->Read(&answer)) {
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(answer.Dump(&slices).ok());
      for (const grpc::Slice &part : slices)
        text.append(reinterpret_cast<const char *>(part.begin()), part.size());
      context.TryCancel();
    }
    status_ = stream->Finish();
    return text;
  }
  ServerThread server_{"grpc:127.0.0.1:0", serving(Sum), answerSum};
  std::shared_ptr<grpc::Channel> channel_;
  grpc::Status status_;
};

TEST_F(GrpcServices, AreHealthy) {
  constexpr char Method[] = "/grpc.health.v1.Health/Check";
  EXPECT_EQ(ask(Method, ""), "\x08\x01");
  EXPECT_EQ(ask(Method, "\x0a\x12mlbridge.v1.Bridge"), "\x08\x01");
  EXPECT_EQ(ask(Method, "\x0a\x03xyz"), "");
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServices, TellWatchersOfAChange) {
  grpc::ClientContext context;
  const grpc::Slice service("\x0a\x12mlbridge.v1.Bridge", 20);
  const std::unique_ptr<Reader> watch(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create<grpc::ByteBuffer>(
          channel_.get(),
          grpc::internal::RpcMethod("/grpc.health.v1.Health/Watch",
                                    grpc::internal::RpcMethod::SERVER_STREAMING),
          &context, grpc::ByteBuffer(&service, 1)));
  const auto next = [&] {
    grpc::ByteBuffer answer;
    grpc::Slice only;
    return watch->Read(&answer) && answer.DumpToSingleSlice(&only).ok()
               ? std::string(reinterpret_cast<const char *>(only.begin()), only.size())
               : std::string("the end");
  };
  EXPECT_EQ(next(), "\x08\x01") << "serving";
  Runner runner = open(server_.server().uri(), Sum);
  ASSERT_TRUE(runner.beginEpisode("", ""));
  ASSERT_TRUE(runner.evaluate()) << runner.status().toString();
  server_.server().drain(std::chrono::hours(1)); // which the episode holds up
  EXPECT_EQ(next(), "\x08\x02") << "not serving";
  EXPECT_EQ(ask("/grpc.health.v1.Health/Check", ""), "\x08\x02");
  EXPECT_EQ(Model::open(server_.server().uri()).status().code(), Code::Unavailable);
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
  server_.stop();
  EXPECT_EQ(next(), "the end");
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServices, WatchersOfAnotherServiceAreToldThatThereIsNone) {
  EXPECT_EQ(ask("/grpc.health.v1.Health/Watch", "\x0a\x03xyz"), "\x08\x03");
}

TEST_F(GrpcServices, AreListedWithTheirMessages) {
  constexpr char Method[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  const std::string all = ask(Method, std::string_view("\x3a\x00", 2));
  EXPECT_NE(all.find("mlbridge.v1.Bridge"), all.npos);
  EXPECT_NE(all.find("grpc.health.v1.Health"), all.npos);
  const std::string file = ask(Method, "\x22\x12mlbridge.v1.Bridge");
  EXPECT_NE(file.find("Converse"), file.npos);
}

TEST_F(GrpcServices, EndACallThatSpeaksSomethingElse) {
  constexpr char Method[] = "/mlbridge.v1.Bridge/Converse";
  for (const std::string_view bad : {std::string_view("garbage"), std::string_view("\x0a\x7fshort"),
                                     std::string_view("\x0a\xff\xff\xff\xff\xff\xff\xff", 8),
                                     std::string_view("\x0a\x04GET "), std::string_view("\x0a", 1)})
    (void)ask(Method, bad);
  EXPECT_EQ(ask("/mlbridge.v1.Bridge/Other", ""), "");
  EXPECT_EQ(status_.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  Runner runner = open(server_.server().uri(), Sum);
  EXPECT_TRUE(runner.evaluate()) << runner.status().toString();
}

} // namespace
} // namespace mlbridge
