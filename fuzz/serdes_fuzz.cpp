// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hostile messages for all serdes. The last two bytes of an input choose the serdes and the specs.
// A message is refused as Protocol, or it is read whole and means the same when written again.
//   serdes_fuzz -max_total_time=60 -max_len=4096 CORPUS
#include "serdes/serdes.h"
#include "testing/tensors.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using namespace mlbridge;
using namespace mlbridge::testing;

extern "C" const mlb_component *mlb_component_entry(uint32_t host);
extern "C" const mlb_component *mlb_protobuf_entry(uint32_t host);
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

namespace {

constexpr size_t Choice = 2;

void require(bool truth, const char *what, const Status &status = Status()) {
  if (truth)
    return;
  std::fprintf(stderr, "%s: %s\n", what, status.toString().c_str());
  std::abort();
}

struct Subject {
  bool hasOneForm = false;
  std::vector<TensorSpec> specs;
  std::unique_ptr<Codec> codec;
};

/// One of 3 * 256, made once.
Subject &chosen(const uint8_t *choice) {
  static auto json = newComponentSerDes("json", mlb_component_entry(MLB_COMPONENT_ABI)->serdes);
  static auto protobuf =
      newComponentSerDes("protobuf", mlb_protobuf_entry(MLB_COMPONENT_ABI)->serdes);
  const SerDes *all[] = {&bitstreamSerDes(), json.get(), protobuf.get()};
  static Subject(*subjects)[256] = new Subject[std::size(all)][256];
  const size_t which = choice[0] % std::size(all);
  Subject &subject = subjects[which][choice[1]];
  if (!subject.codec) {
    Random random(choice[1]);
    subject.hasOneForm = which == 0;
    subject.specs = randomSpecs(random);
    auto codec = all[which]->newCodec(subject.specs);
    require(codec.hasValue(), "newCodec", codec.status());
    subject.codec = std::move(*codec);
  }
  return subject;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < Choice)
    return 0;
  size -= Choice;
  Subject &subject = chosen(data + size);
  std::string message(reinterpret_cast<const char *>(data), size);
  Tensors read(subject.specs);
  Status s = decode(*subject.codec, message, read, data[size]);
  require(s || s.code() == Code::Protocol, "an unexpected code", s);
  require(read.largest <= size + 1, "more storage than the message has bytes", s);
  if (!s)
    return 0;

  Buffer written;
  s = subject.codec->encode(viewsOf(read.tensors), written);
  require(s.ok(), "what was read cannot be written", s);
  require(!subject.hasOneForm || textOf(written) == message, "bitstream messages have one form");
  Tensors again(subject.specs);
  s = subject.codec->decode(written.span(), again);
  require(s.ok(), "what was written cannot be read", s);
  for (size_t i = 0; i < subject.specs.size(); ++i)
    require(same(read.tensors[i], again.tensors[i]), "a tensor changed");
  return 0;
}

// Sometimes starts from a message that is right.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  if (size >= Choice && below(random, 8) == 0) {
    uint8_t choice[Choice] = {static_cast<uint8_t>(random()), static_cast<uint8_t>(random())};
    Subject &subject = chosen(choice);
    std::vector<Tensor> tensors;
    tensors.reserve(subject.specs.size());
    for (const TensorSpec &spec : subject.specs)
      tensors.push_back(randomTensor(random, spec));
    Buffer message;
    if (subject.codec->encode(viewsOf(tensors), message) && message.size() + Choice <= most) {
      std::copy(message.data(), message.data() + message.size(), data);
      std::memcpy(data + message.size(), choice, Choice);
      return message.size() + Choice;
    }
  }
  if (size <= Choice || below(random, 16) == 0)
    return LLVMFuzzerMutate(data, size, most);
  uint8_t choice[Choice];
  std::memcpy(choice, data + size - Choice, Choice);
  size = LLVMFuzzerMutate(data, size - Choice, most - Choice);
  std::memcpy(data + size, choice, Choice);
  return size + Choice;
}
