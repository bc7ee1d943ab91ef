// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes to tensors and back; knows nothing of transports.
#ifndef MLBRIDGE_SERDES_SERDES_H
#define MLBRIDGE_SERDES_SERDES_H

#include "core/buffer.h"
#include <mlbridge/component.h>
#include <mlbridge/tensor.h>
#include <mlbridge/uri.h>

#include <memory>

namespace mlbridge {

/// The receiver of tensors that decode reads.
class TensorSink {
public:
  virtual ~TensorSink() = default;
  /// Storage for tensor `index` with this shape, which must be checked here against the spec.
  /// Strings are an array of std::string.
  virtual Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) = 0;
  /// Offers numbers that lie in the message as they are needed, aligned to 8 bytes. A sink whose
  /// owner keeps the message may take them there and return true; otherwise prepare is called and
  /// they are copied.
  virtual bool adopt(size_t /*index*/, Span<const int64_t> /*shape*/, const uint8_t * /*data*/) {
    return false;
  }
};

/// One direction of a signature: the codec of its inputs or of its outputs. Thread-safe.
class Codec {
public:
  virtual ~Codec() = default;

  /// The place of each tensor in a message of fixed size, so that a message can be written and read
  /// in place.
  struct Layout {
    std::vector<size_t> offsets; ///< multiples of 8
    size_t size = 0;
  };
  /// Null if this serdes has none or some tensor is Dynamic or String.
  virtual const Layout *layout() const { return nullptr; }
  /// For a message read in place: its size and what is in it besides lengths (a bool is 0 or 1).
  virtual Status check(Span<const uint8_t>) const { return Status(); }

  /// Appends the message. Errors: InvalidArgument (a string this format cannot carry),
  /// LimitExceeded.
  virtual Status encode(Span<const TensorView> tensors, Buffer &out) const = 0;
  /// Elements that belong into a message at an offset of its buffer, and are not copied there.
  struct ExternalSpan {
    size_t offset = 0;
    const void *data = nullptr;
    size_t bytes = 0;
  };
  /// The same with at most `most` large tensors left where they are. Ordered by offset; several may
  /// stand at one.
  virtual Status encodeAround(Span<const TensorView> tensors, Buffer &out, size_t /*most*/,
                              std::vector<ExternalSpan> &external) const {
    external.clear();
    return encode(tensors, out);
  }
  /// Hostile input: Protocol for anything that is not exactly one message for these specs. The
  /// message lies in a Buffer, so that 64 bytes after its end are readable.
  virtual Status decode(Span<const uint8_t> message, TensorSink &sink) const = 0;
  /// True if encodeAround leaves large tensors out, and decodeAround takes them from elsewhere.
  virtual bool goesAround() const { return false; }
  /// The same of a message whose external spans lie elsewhere; their offsets are those in
  /// `message`. They are offered to the sink and never looked at here. Gaps are numbers, none is
  /// empty.
  virtual Status decodeAround(Span<const uint8_t> message, Span<const ExternalSpan> external,
                              TensorSink &sink) const;
};

/// Checks what encode demands of its caller. Errors: InvalidArgument.
Status checkViews(std::string_view serdes, Span<const TensorSpec> specs,
                  Span<const TensorView> tensors);

/// The first byte that is neither 0 nor 1, or `count`.
size_t findNoBool(const uint8_t *bytes, size_t count);

/// A side of a signature, for a serdes whose messages differ.
enum class Side : uint8_t { Inputs, Outputs };

class SerDes {
public:
  virtual ~SerDes() = default;
  virtual Expected<std::unique_ptr<Codec>> newCodec(Span<const TensorSpec> specs) const = 0;
  virtual Expected<std::unique_ptr<Codec>> newCodec(Side, Span<const TensorSpec> specs) const {
    return newCodec(specs);
  }
  /// The same with the options of a URI; null if this serdes takes none.
  virtual std::unique_ptr<SerDes> withOptions(const Uri &) const { return nullptr; }
};

/// The one that is built in: the elements themselves, little-endian, each tensor at a multiple of 8
/// bytes from the start of the message. docs/protocol.md fixes the bytes.
const SerDes &bitstreamSerDes();

/// "bitstream" is built in; others are components libmlbridge-serdes-NAME.so. The result lives for
/// ever.
Expected<const SerDes *> serdesNamed(std::string_view name);

/// One over the complete table of a component, which must live as long as the result and its
/// codecs.
std::unique_ptr<SerDes> newComponentSerDes(std::string name, const mlb_serdes *table);

/// The serdes that a URI chooses.
struct ChosenSerDes {
  const SerDes *serdes = nullptr; ///< lives for ever
  std::string name;               ///< in a hello
  bool hasMessages = false;       ///< of the user's own
};
/// By the option `serdes` ("bitstream"), and `proto`, `request` and `reply`, which name messages of
/// the user's own: they make "protobuf:REQUEST/REPLY" of "protobuf". Errors: those of serdesNamed,
/// InvalidArgument.
Expected<ChosenSerDes> serdesOf(const Uri &uri);
/// True if an option of a URI is for serdesOf.
bool isSerDesOption(std::string_view key);

} // namespace mlbridge

#endif
