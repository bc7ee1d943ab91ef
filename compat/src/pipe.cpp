// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "MLModelRunner/C/PipeModelRunner.h"
#include "MLModelRunner/PipeModelRunner.h"
#include "transport/pipe/fifo.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>

namespace MLBridge {

using mlbridge::Code;
using mlbridge::Deadline;
using mlbridge::Descriptor;
using mlbridge::Expected;
using mlbridge::Status;

namespace {

constexpr uint64_t LargestReply = uint64_t(1) << 30;
constexpr size_t ReadAtOnce = size_t(1) << 20;

bool isFifo(int descriptor) {
  struct stat info{};
  return ::fstat(descriptor, &info) == 0 && S_ISFIFO(info.st_mode);
}

} // namespace

/// The two files. After a failure nobody knows where in the conversation it is, so every later
/// call fails as well.
class PipeModelRunner::Channel {
public:
  Status open(const std::string &out, const std::string &in, Deadline deadline) {
    if (status_ = doOpen(out, in, deadline); status_)
      ends_ = std::make_unique<mlbridge::PipeChannel>(std::move(in_), std::move(out_));
    return status_;
  }
  Status exchange(const std::string &message, std::string &reply, Deadline deadline) {
    if (!status_)
      return status_;
    status_ = send(message, deadline);
    if (status_)
      status_ = receive(reply, deadline);
    return status_;
  }

private:
  /// Nothing tells when a FIFO is made, or gets a reader, so this asks again and again.
  Status doOpen(const std::string &out, const std::string &in, Deadline deadline) {
    const int write = O_WRONLY | O_NONBLOCK | O_CLOEXEC;
    timespec pause{0, 200'000};
    while (true) {
      int error = 0;
      if (!in_ || !mlbridge::isStillAt(in, in_.get())) {
        const int opened = ::open(in.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        error = opened < 0 ? errno : 0;
        in_ = Descriptor(opened);
      }
      const bool isFile = in_ && !isFifo(in_.get()); // a recorded conversation
      if (in_) {
        out_ = Descriptor(isFile ? ::open(out.c_str(), write | O_CREAT | O_TRUNC, 0600)
                                 : ::open(out.c_str(), write));
        if (out_)
          return Status();
        error = errno;
      }
      const bool mayCome = !isFile && (error == ENOENT || error == ENXIO || error == EINTR);
      if (!mayCome || deadline.hasPassed()) {
        if (error == ENXIO)
          return {Code::DeadlineExceeded,
                  "pipe: " + out + ": no model opened it; its side has to call reset_pipes()"};
        return failed(
            "open " + (in_ ? out + ", the pipe to" : in + ", the pipe from") + " the model", error);
      }
      ::nanosleep(&pause, nullptr);
      pause.tv_nsec = std::min(pause.tv_nsec * 2, 10'000'000L);
    }
  }

  static Status failed(const std::string &what, int error) {
    return {error == ENOENT ? Code::NotFound : Code::InvalidArgument,
            mlbridge::describeErrno("pipe: " + what, error)};
  }

  Status wait(mlbridge::Readiness wanted, Deadline deadline, const char *what) {
    Status s = ends_->wait(wanted, deadline).status();
    if (s.code() == Code::DeadlineExceeded)
      return {Code::DeadlineExceeded, std::string("pipe: ") + what + " in time"};
    return s;
  }

  Status send(const std::string &message, Deadline deadline) {
    uint8_t header[8];
    for (int i = 0; i < 8; ++i)
      header[i] = static_cast<uint8_t>(uint64_t(message.size()) >> 8 * i);
    iovec parts[] = {{header, sizeof header}, {const_cast<char *>(message.data()), message.size()}};
    iovec *part = parts, *const end = std::end(parts);
    while (true) {
      const Expected<size_t> sent = ends_->write(part, static_cast<int>(end - part));
      if (!sent)
        return {Code::Closed, "pipe: the model closed its end"};
      size_t taken = *sent;
      for (; part != end && taken >= part->iov_len; ++part)
        taken -= part->iov_len;
      if (part == end)
        return Status();
      *part = {static_cast<char *>(part->iov_base) + taken, part->iov_len - taken};
      if (*sent == 0)
        if (Status s = wait({false, true}, deadline, "the model did not take the features"); !s)
          return s;
    }
  }

  Status receive(char *to, size_t size, const char *what, Deadline deadline) {
    size_t got = 0;
    while (got < size) {
      const Expected<size_t> n = ends_->read(reinterpret_cast<uint8_t *>(to) + got, size - got);
      if (!n)
        return {Code::Closed, "pipe: the model closed its end after " + std::to_string(got) +
                                  " of " + std::to_string(size) + " bytes of " + what};
      got += *n;
      if (*n == 0)
        if (Status s = wait({true, false}, deadline, "the model did not answer"); !s)
          return s;
    }
    return Status();
  }

  Status receive(std::string &reply, Deadline deadline) {
    unsigned char header[8];
    if (Status s = receive(reinterpret_cast<char *>(header), sizeof header, "the length", deadline);
        !s)
      return s;
    uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
      length = length << 8 | header[i];
    if (length > LargestReply)
      return {Code::LimitExceeded, "pipe: the model announces a reply of " +
                                       std::to_string(length) + " bytes, the limit is " +
                                       std::to_string(LargestReply)};
    reply.clear();
    while (reply.size() < length) { // memory only for what has come
      const size_t from = reply.size();
      const size_t part = std::min<size_t>(length - from, ReadAtOnce);
      reply.resize(from + part);
      if (Status s = receive(reply.data() + from, part, "the reply", deadline); !s)
        return s;
    }
    return Status();
  }

  Descriptor in_, out_; ///< until both are open
  std::unique_ptr<mlbridge::Channel> ends_;
  Status status_;
};

PipeModelRunner::PipeModelRunner(const FileName &OutboundName, const FileName &InboundName,
                                 SerDesKind SerDesType, llvm::LLVMContext *Ctx)
    : MLModelRunner(Kind::Pipe, SerDesType, Ctx), Ends(std::make_unique<Channel>()) {
  if (!SerDes)
    fail({Code::InvalidArgument,
          "no SerDes is registered for kind " + std::to_string(static_cast<int>(SerDesType)) +
              (SerDesType == SerDesKind::Protobuf
                   ? "; include what protoc made, or SerDes/protobufSerDes.h, before the runners"
                   : "")});
  else if (Status s =
               Ends->open(OutboundName.str(), InboundName.str(), Deadline::after(deadline()));
           !s)
    fail(std::move(s));
}

PipeModelRunner::~PipeModelRunner() = default;

void *PipeModelRunner::evaluateUntyped() {
  if (!SerDes) {
    fail({Code::InvalidArgument, "this runner has no SerDes"});
    return nullptr;
  }
  const auto *message = static_cast<const std::string *>(SerDes->getSerializedData());
  if (!message)
    return nullptr;
  if (Status s = Ends->exchange(*message, Reply, Deadline::after(deadline())); !s) {
    fail(std::move(s));
    return nullptr;
  }
  return SerDes->deserializeUntyped(&Reply);
}

} // namespace MLBridge

struct PipeModelRunnerWrapper {
  PipeModelRunnerWrapper(const char *out, const char *in, MLBridge::SerDesKind kind)
      : runner(out, in, kind) {}
  void remember() { error = runner.status() ? std::string() : runner.status().toString(); }

  MLBridge::PipeModelRunner runner;
  std::string error;
};

namespace {

template <typename T>
void populate(PipeModelRunnerWrapper *obj, const char *name, const T *data, int size) {
  if (!obj || !name)
    return;
  const size_t count = data && size > 0 ? static_cast<size_t>(size) : 0;
  obj->runner.populateFeatures(
      std::make_pair(std::string(name), std::vector<T>(data, data + count)));
}

template <typename T> T answer(PipeModelRunnerWrapper *obj) {
  if (!obj)
    return T(-1);
  const T value = obj->runner.evaluate<T>();
  obj->remember();
  return value;
}

} // namespace

PipeModelRunnerWrapper *createPipeModelRunner(const char *outBoundName, const char *inBoundName,
                                              int serDesType) {
  auto *obj = new PipeModelRunnerWrapper(outBoundName, inBoundName,
                                         static_cast<MLBridge::SerDesKind>(serDesType));
  obj->remember();
  return obj;
}

void populateFloatFeatures(PipeModelRunnerWrapper *obj, const char *name, const float *data,
                           const int size) {
  populate(obj, name, data, size);
}
void populateIntFeatures(PipeModelRunnerWrapper *obj, const char *name, const int *data,
                         const int size) {
  populate(obj, name, data, size);
}
int evaluateIntFeatures(PipeModelRunnerWrapper *obj) { return answer<int>(obj); }
float evaluateFloatFeatures(PipeModelRunnerWrapper *obj) { return answer<float>(obj); }
void destroyPipeModelRunner(PipeModelRunnerWrapper *obj) { delete obj; }
const char *pipeModelRunnerError(const PipeModelRunnerWrapper *obj) {
  return obj ? obj->error.c_str() : "no runner";
}
