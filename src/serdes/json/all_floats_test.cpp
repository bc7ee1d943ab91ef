// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes and reads float32 bit patterns as JSON and compares the bits: all 2^32 of them, or every
// STRIDE-th from FIRST on.  Usage: serdes_json_all_floats [STRIDE [FIRST]]
#include "testing/tensors.h"

#include <cstdio>
#include <cstdlib>

using namespace mlbridge;

namespace {

constexpr size_t Block = 4096;

class InPlace : public TensorSink {
public:
  explicit InPlace(TensorView view) : view_(view) {}
  Expected<TensorView> prepare(size_t, Span<const int64_t>) override { return view_; }

private:
  TensorView view_;
};

int complain(const Status &status) {
  std::fprintf(stderr, "%s\n", status.toString().c_str());
  return 1;
}

int run(uint64_t stride, uint64_t first) {
  Expected<const SerDes *> json = serdesNamed("json");
  if (!json)
    return complain(json.status());
  TensorSpec spec = TensorSpec::of<float>("x", {Block});
  auto codec = (*json)->newCodec({&spec, 1});
  if (!codec)
    return complain(codec.status());
  Tensor from(spec), to(spec);
  TensorView view = from.view();
  InPlace sink(to.view());
  auto *sent = static_cast<uint32_t *>(view.data);
  const auto *came = static_cast<const uint32_t *>(to.view().data);
  Buffer message;
  uint64_t done = 0;
  for (uint64_t bits = first; bits <= UINT32_MAX;) {
    for (size_t k = 0; k < Block; ++k) {
      sent[k] = static_cast<uint32_t>(std::min<uint64_t>(bits, UINT32_MAX));
      bits += stride;
    }
    message.clear();
    if (Status s = (*codec)->encode({&view, 1}, message); !s)
      return complain(s);
    if (Status s = (*codec)->decode(message.span(), sink); !s)
      return complain(s);
    for (size_t k = 0; k < Block; ++k)
      if (sent[k] != came[k]) {
        std::fprintf(stderr, "float32 of the bits %08x came back as %08x\n", sent[k], came[k]);
        return 1;
      }
    done += Block;
  }
  std::printf("%llu float32 values kept all their bits\n",
              static_cast<unsigned long long>(std::min<uint64_t>(done, UINT64_C(1) << 32)));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  uint64_t stride = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (stride == 0 || argc > 3) {
    std::fprintf(stderr, "usage: %s [STRIDE [FIRST]]\n", argv[0]);
    return 2;
  }
  return run(stride, first);
}
