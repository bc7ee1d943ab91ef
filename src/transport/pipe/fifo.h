// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A channel of two FIFOs.
#ifndef MLBRIDGE_TRANSPORT_PIPE_FIFO_H
#define MLBRIDGE_TRANSPORT_PIPE_FIFO_H

#include "transport/transport.h"

namespace mlbridge {

/// True if what was opened is what has that name.
bool isStillAt(const std::string &path, int fifo);

/// Reads one FIFO and writes the other.
class PipeChannel : public Channel {
public:
  PipeChannel(Descriptor in, Descriptor out);
  Expected<size_t> read(uint8_t *to, size_t size) override;
  Expected<size_t> write(const iovec *parts, int count) override;
  int readDescriptor() const override { return in_.get(); }
  int writeDescriptor() const override { return out_.get(); }
  int hangUpDescriptor() const override { return sawData_ ? -1 : witness(); }

protected:
  /// A FIFO that no writer has opened yet reads as end of file. Until something came, this
  /// descriptor's error condition means that the peer is gone.
  virtual int witness() const { return out_.get(); }
  /// The first bytes came.
  virtual void met() {}

  Descriptor in_, out_; // seen from this side: what it reads, what it writes

private:
  bool sawData_ = false;
  bool kernelHasFlag_ = true;
};

} // namespace mlbridge

#endif
