// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CONVERSATION_MESSAGE_TENSORS_H
#define MLBRIDGE_CONVERSATION_MESSAGE_TENSORS_H

#include "serdes/serdes.h"

namespace mlbridge {

/// The tensors of one direction: views into a message where it has a fixed layout, own storage
/// elsewhere.
class MessageTensors final : public TensorSink {
public:
  Status prepareFor(const std::vector<TensorSpec> &specs, const SerDes &serdes, Side side) {
    specs_ = &specs;
    Expected<std::unique_ptr<Codec>> codec = serdes.newCodec(side, specs);
    if (!codec)
      return codec.status();
    codec_ = std::move(*codec);
    layout_ = codec_->layout();
    if (layout_)
      return Status::ok();
    for (const TensorSpec &spec : specs) {
      if (spec.isDynamic()) {
        own_.emplace_back();
        continue;
      }
      Expected<Tensor> tensor = Tensor::make(spec, spec.shape);
      if (!tensor)
        return tensor.status();
      own_.push_back(std::move(*tensor));
    }
    return Status::ok();
  }
  const Codec &codec() const { return *codec_; }
  const Codec::Layout *layout() const { return layout_; }
  TensorView inMessage(size_t index, uint8_t *message) const {
    const TensorSpec &spec = (*specs_)[index];
    return {spec.type, message + layout_->offsets[index], *spec.count(), spec.shape};
  }
  TensorView own(size_t index) { return own_[index].view(); }
  Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) override {
    if (Status s = own_[index].reshape((*specs_)[index], shape); !s)
      return s;
    return own_[index].view();
  }
  Status encode(Buffer &out) { return codec_->encode(ownViews(), out); }
  Status encode(Buffer &out, std::vector<Codec::Gap> &gaps) {
    return codec_->encodeAround(ownViews(), out, MaxGaps, gaps);
  }
  static constexpr size_t MaxGaps = 4;

private:
  Span<const TensorView> ownViews() {
    views_.clear();
    for (Tensor &t : own_)
      views_.push_back(t.view());
    return views_;
  }

  const std::vector<TensorSpec> *specs_ = nullptr;
  std::unique_ptr<Codec> codec_;
  const Codec::Layout *layout_ = nullptr;
  std::vector<Tensor> own_;
  std::vector<TensorView> views_;
};

} // namespace mlbridge

#endif
