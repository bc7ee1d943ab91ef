// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A byte stream over the messages of one gRPC call: what both sides have in common.
#ifndef MLBRIDGE_TRANSPORT_GRPC_BYTE_STREAM_H
#define MLBRIDGE_TRANSPORT_GRPC_BYTE_STREAM_H

#include <mlbridge/component.h>
#include <mlbridge/status.h>

#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <mutex>
#include <vector>

namespace mlbridge::grpctransport {

/// Most bytes of the conversation in one message, and in what is not yet given to gRPC.
inline constexpr size_t ChunkSize = 1 << 20;
/// The most that is received ahead of the reader; then the peer has to wait.
inline constexpr size_t MostAhead = 1 << 20;
/// A peer's message may be that long.
inline constexpr int LargestMessage = (1 << 20) + 16;

inline constexpr char Method[] = "/mlbridge.v1.Bridge/Converse";
/// Initial metadata of a server that takes the call.
inline constexpr char AcceptedKey[] = "mlbridge-transport", AcceptedValue[] = "1";

/// An event of a completion queue.
class Tag {
public:
  virtual void finished(bool ok) = 0;

protected:
  ~Tag() = default;
};

/// Thread-safe. Operations of gRPC are started and end with the mutex held; an object that nobody
/// uses any more lives on until the last of them has ended.
class ByteStream {
public:
  ByteStream(const ByteStream &) = delete;
  ByteStream &operator=(const ByteStream &) = delete;

  /// Takes what has been received. 0 if there is nothing; only then more is received, so the reader
  /// has to come back until then. Errors: Closed, Protocol.
  Expected<size_t> take(uint8_t *to, size_t size);
  /// 0 if the peer has to read first. Errors: Closed.
  Expected<size_t> give(const mlb_bytes *parts, size_t count);

protected:
  using Lock = std::lock_guard<std::mutex>;
  using Reader = grpc::internal::AsyncReaderInterface<grpc::ByteBuffer>;
  using Writer = grpc::internal::AsyncWriterInterface<grpc::ByteBuffer>;

  /// `mostPending`: bytes that are kept while others are under way.
  explicit ByteStream(size_t mostPending) : mostPending_(mostPending) {}
  virtual ~ByteStream() = default;

  /// An operation of gRPC; the handler runs with the mutex held.
  template <typename Owner, void (Owner::*Handler)(bool)> class Operation final : public Tag {
  public:
    explicit Operation(Owner &owner) : owner_(owner) {}
    /// With the mutex held: the tag for an operation that is started now.
    void *begin() {
      ++owner_.operations_;
      return static_cast<Tag *>(this);
    }
    void finished(bool ok) override {
      bool last;
      {
        const Lock lock(owner_.mutex_);
        (owner_.*Handler)(ok);
        last = --owner_.operations_ == 0 && owner_.abandoned_;
      }
      if (last)
        static_cast<ByteStream &>(owner_).release();
    }

  private:
    Owner &owner_;
  };

  // All with the mutex held.
  void open(Reader &reader, Writer &writer);
  void startReading();
  bool isReadable() const { return ahead_ > 0 || ended_; }
  bool isWritable() const { return room() > 0 || ended_; }
  bool hasUnsent() const { return writing_ || !pending_.empty(); }
  size_t unsentSize() const { return writingSize_ + pendingSize_; }
  /// Nothing more will come or go.
  void end(const Status &why);
  /// Throws away what has been received, now and from now on.
  void ignoreInput();
  size_t operations() const { return operations_; }

  /// The results of isReadable or isWritable may have changed.
  virtual void inputChanged() {}
  virtual void outputChanged() {}
  /// The last message has been read, or the call is broken.
  virtual void inputEnded() = 0;
  /// The last write has been sent.
  virtual void sentAll() {}
  /// Called without the mutex when the object is abandoned and its last operation has ended.
  virtual void release() {}

  mutable std::mutex mutex_;
  bool abandoned_ = false; ///< the library has no use for it any more
  bool ended_ = false;
  bool heard_ = false; ///< something of the peer

private:
  void onRead(bool ok);
  void onWrite(bool ok);
  Status receive();
  void startWriting();
  size_t room() const;

  Reader *reader_ = nullptr;
  Writer *writer_ = nullptr;
  size_t operations_ = 0;
  Status why_;

  grpc::ByteBuffer incoming_;
  std::vector<grpc::Slice> received_; ///< from firstReceived_ on not yet taken
  size_t firstReceived_ = 0, takenOfFirst_ = 0;
  size_t ahead_ = 0; ///< bytes of received_ not yet taken
  bool reading_ = false, inputEnded_ = false, ignoresInput_ = false;

  const size_t mostPending_;
  std::vector<grpc::Slice> pending_; ///< begins with a place for the header of their message
  size_t pendingSize_ = 0;
  bool writing_ = false;
  size_t writingSize_ = 0;

  Operation<ByteStream, &ByteStream::onRead> read_{*this};
  Operation<ByteStream, &ByteStream::onWrite> write_{*this};
};

} // namespace mlbridge::grpctransport

#endif
