// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the tensors of one side of a signature lie in a message of the user's.
#ifndef MLBRIDGE_SERDES_PROTOBUF_PLAN_H
#define MLBRIDGE_SERDES_PROTOBUF_PLAN_H

#include "serdes/protobuf/codec.h"

namespace mlbridge::protobuf {

/// A field that is used: one with a tensor, or a message on the way to some.
struct Field {
  std::string path; ///< "profiles.weight"
  int number = 0;
  WireFormatLite::FieldType type = WireFormatLite::TYPE_MESSAGE;
  bool repeated = false;
  bool packed = false;   ///< written so; both are read
  bool presence = false; ///< absent is not the same as zero
  bool utf8 = false;
  size_t id = 0; ///< of what is known of it while a message is written or read

  /// Of a message: ordered by number, each with a tensor somewhere in it.
  std::vector<Field> fields;

  /// Of any other.
  size_t tensor = 0;
  /// The tensor of the lengths of rows that differ in length, or none.
  std::optional<size_t> lengths;
  /// The repeated messages that it is in, from the outermost: the first dimensions of its tensor.
  std::vector<size_t> around;
  /// The product of the fixed dimensions of a row, and whether another one is not.
  size_t unit = 1;
  bool rowsVary = false;

  bool isMessage() const { return type == WireFormatLite::TYPE_MESSAGE; }
  uint32_t tag(WireFormatLite::WireType wire) const {
    return static_cast<uint32_t>(number) << 3 | static_cast<uint32_t>(wire);
  }
  WireFormatLite::WireType wire() const { return WireFormatLite::WireTypeForFieldType(type); }
};

struct Plan {
  std::vector<TensorSpec> specs;
  Field root;
  size_t fields = 0; ///< ids are below
};

/// Errors: see newMessageCodec.
Expected<Plan> makePlan(std::vector<TensorSpec> specs, const std::string &side,
                        const std::string &proto, const std::string &name,
                        const std::string &method);

} // namespace mlbridge::protobuf

#endif
