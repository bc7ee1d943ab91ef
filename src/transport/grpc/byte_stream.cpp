// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transport/grpc/byte_stream.h"

#include <algorithm>
#include <cstring>

namespace mlbridge::grpctransport {

namespace {

// "bytes data = 1" of proto/mlbridge/v1/bridge.proto: a tag, the length as a varint, the bytes.
constexpr uint8_t DataTag = 1 << 3 | 2;
constexpr size_t LongestHeader = 6;
// Many tiny messages must not take much more memory than their bytes.
constexpr size_t CostOfSlice = 64;

grpc::Slice headerOf(size_t size) {
  uint8_t bytes[LongestHeader] = {DataTag};
  size_t used = 1;
  for (; size >= 0x80; size >>= 7)
    bytes[used++] = static_cast<uint8_t>(size | 0x80);
  bytes[used++] = static_cast<uint8_t>(size);
  return grpc::Slice(bytes, used);
}

/// The length of the header if it is that of a message of `size` bytes; 0 if it is not.
size_t checkHeader(const uint8_t *bytes, size_t have, size_t size) {
  if (have == 0 || bytes[0] != DataTag)
    return 0;
  uint64_t length = 0;
  for (size_t i = 1; i < have; ++i) {
    length |= uint64_t(bytes[i] & 0x7f) << (7 * (i - 1));
    if (!(bytes[i] & 0x80))
      return length == size - (i + 1) ? i + 1 : 0;
  }
  return 0;
}

} // namespace

void ByteStream::open(Reader &reader, Writer &writer) {
  reader_ = &reader;
  writer_ = &writer;
}

void ByteStream::end(const Status &why) {
  if (ended_)
    return;
  ended_ = true;
  why_ = why;
  inputChanged();
  outputChanged();
}

void ByteStream::ignoreInput() {
  ignoresInput_ = true;
  received_.clear();
  firstReceived_ = takenOfFirst_ = ahead_ = 0;
  startReading();
}

// ---- reading ------------------------------------------------------------------------------------

void ByteStream::startReading() {
  if (!reader_ || reading_ || inputEnded_ || ended_ ||
      ahead_ + received_.size() * CostOfSlice >= MostAhead)
    return;
  reading_ = true;
  incoming_.Clear();
  reader_->Read(&incoming_, read_.begin());
}

void ByteStream::onRead(bool ok) {
  reading_ = false;
  Status status = ok ? receive() : Status();
  if (!status)
    end(status);
  if (!ok || !status) {
    inputEnded_ = true;
    inputEnded();
    return;
  }
  inputChanged();
}

/// Appends the bytes of the message that has come.
Status ByteStream::receive() {
  const size_t size = incoming_.Length();
  heard_ = true;
  if (size == 0 || ignoresInput_)
    return Status();
  std::vector<grpc::Slice> slices;
  if (!incoming_.Dump(&slices).ok())
    return Status(Code::Protocol, "a gRPC message cannot be read");
  uint8_t header[LongestHeader];
  size_t have = 0;
  for (const grpc::Slice &slice : slices) {
    const size_t part = std::min(slice.size(), sizeof header - have);
    std::memcpy(header + have, slice.begin(), part);
    have += part;
  }
  const size_t skipped = checkHeader(header, have, size);
  if (skipped == 0)
    return Status(Code::Protocol, "expected a message mlbridge.v1.Bytes, got " +
                                      std::to_string(size) + " other bytes");
  size_t skip = skipped;
  for (grpc::Slice &slice : slices) {
    const size_t part = std::min(skip, slice.size());
    skip -= part;
    if (part < slice.size())
      received_.push_back(part ? slice.sub(part, slice.size()) : std::move(slice));
  }
  ahead_ += size - skipped;
  return Status();
}

Expected<size_t> ByteStream::take(uint8_t *to, size_t size) {
  const Lock lock(mutex_);
  size_t done = 0;
  while (done < size && firstReceived_ < received_.size()) {
    grpc::Slice &slice = received_[firstReceived_];
    const size_t part = std::min(size - done, slice.size() - takenOfFirst_);
    std::memcpy(to + done, slice.begin() + takenOfFirst_, part);
    done += part;
    takenOfFirst_ += part;
    if (takenOfFirst_ == slice.size()) {
      slice = grpc::Slice();
      takenOfFirst_ = 0;
      ++firstReceived_;
    }
  }
  if (firstReceived_ == received_.size() || firstReceived_ >= 64) {
    received_.erase(received_.begin(), received_.begin() + static_cast<ptrdiff_t>(firstReceived_));
    firstReceived_ = 0;
  }
  ahead_ -= done;
  // Only who comes back for more makes gRPC receive more: by then the answer is under way, and
  // carries the window update that would otherwise be sent by itself.
  if (done == 0) {
    if (ended_)
      return why_;
    startReading();
    inputChanged();
  }
  return done;
}

// ---- writing ------------------------------------------------------------------------------------

size_t ByteStream::room() const {
  return writing_ ? mostPending_ - std::min(mostPending_, pendingSize_) : ChunkSize;
}

Expected<size_t> ByteStream::give(const mlb_bytes *parts, size_t count) {
  const Lock lock(mutex_);
  if (ended_)
    return why_;
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    size += parts[i].size;
  size = std::min(size, room());
  if (size == 0) {
    outputChanged();
    return size_t(0);
  }
  grpc_slice slice = grpc_slice_malloc(size);
  uint8_t *to = GRPC_SLICE_START_PTR(slice);
  for (size_t i = 0, left = size; left; ++i) {
    const size_t part = std::min<size_t>(parts[i].size, left);
    if (part)
      std::memcpy(to, parts[i].data, part);
    to += part;
    left -= part;
  }
  if (pending_.empty())
    pending_.emplace_back();
  pending_.emplace_back(slice, grpc::Slice::STEAL_REF);
  pendingSize_ += size;
  if (!writing_)
    startWriting();
  return size;
}

void ByteStream::startWriting() {
  writing_ = true;
  pending_.front() = headerOf(pendingSize_);
  const grpc::ByteBuffer message(pending_.data(), pending_.size());
  pending_.clear();
  writingSize_ = pendingSize_;
  pendingSize_ = 0;
  writer_->Write(message, write_.begin());
}

void ByteStream::onWrite(bool ok) {
  writing_ = false;
  writingSize_ = 0;
  if (!ok || ended_) {
    pending_.clear();
    pendingSize_ = 0;
  }
  if (!ok) {
    // Reading says why; if it is not reading, it has to.
    startReading();
    if (!reading_)
      end(Status(Code::Closed, "the peer is gone"));
    sentAll();
    return;
  }
  if (!pending_.empty())
    startWriting();
  else
    sentAll();
  outputChanged();
}

} // namespace mlbridge::grpctransport
