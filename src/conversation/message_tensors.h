// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef MLBRIDGE_CONVERSATION_MESSAGE_TENSORS_H
#define MLBRIDGE_CONVERSATION_MESSAGE_TENSORS_H

#include "conversation/frame.h"
#include "core/message.h"
#include "serdes/serdes.h"
#include "transport/transport.h"

#include <algorithm>
#include <cstring>

namespace mlbridge {

/// The tensors of one direction: views into a message where it has a fixed layout, own storage
/// elsewhere. Large ones may lie in an arena instead.
class MessageTensors final : public TensorSink {
public:
  Status prepareFor(const std::vector<TensorSpec> &specs, const SerDes &serdes, Side side,
                    const std::shared_ptr<Arena> &arena = nullptr) {
    specs_ = &specs;
    Expected<std::unique_ptr<Codec>> codec = serdes.newCodec(side, specs);
    if (!codec)
      return codec.status();
    codec_ = std::move(*codec);
    layout_ = codec_->layout();
    useArena(arena);
    if (arena_ && std::any_of(specs.begin(), specs.end(), isLarge))
      layout_ = nullptr;
    if (layout_)
      return Status();
    slots_.resize(specs.size());
    shapes_.resize(specs.size());
    for (const TensorSpec &spec : specs) {
      if (arena_ && isLarge(spec) && takeSlot(own_.size(), spec.shape)) {
        std::memset(slots_[own_.size()]->data, 0, slots_[own_.size()]->capacity);
        own_.emplace_back();
        continue;
      }
      if (spec.isDynamic()) {
        own_.emplace_back();
        continue;
      }
      Expected<Tensor> tensor = Tensor::make(spec, spec.shape);
      if (!tensor)
        return tensor.status();
      own_.push_back(std::move(*tensor));
    }
    return Status();
  }
  const Codec &codec() const { return *codec_; }
  const Codec::Layout *layout() const { return layout_; }
  /// The view, if the payload of its message lies there.
  TensorView view(size_t index, uint8_t *payload) {
    const TensorSpec &spec = (*specs_)[index];
    if (layout_)
      return {spec.type, payload + layout_->offsets[index], *spec.count(), spec.shape};
    return own(index);
  }
  /// Room for the header of a message and, where it has a fixed layout, for its payload.
  Status makeRoom(Buffer &message) const {
    if (Status s = message.resize(FrameHeaderSize + (layout_ ? layout_->size : 0)); !s)
      return s;
    std::memset(message.data(), 0, message.size());
    return Status();
  }
  /// Errors: Protocol (`what` is not one message for these tensors).
  Status decode(Span<const uint8_t> payload, const char *what) {
    if (!layout_)
      return codec_->decode(payload, *this);
    if (payload.size() != layout_->size)
      return makeError(Code::Protocol, what, " has ", payload.size(), " bytes, ", layout_->size,
                       " were expected");
    return codec_->check(payload);
  }
  /// The arena for tensors that become large; tensors that lie elsewhere stay there.
  void useArena(std::shared_ptr<Arena> arena) {
    arena_ = codec_->goesAround() ? std::move(arena) : nullptr;
  }
  /// The part of the arena that begins there; null if there is none.
  const ArenaSlot *slotAt(const void *data) const {
    for (const std::shared_ptr<const ArenaSlot> &slot : slots_)
      if (slot && slot->data == data && slot->arena == arena_.get())
        return slot.get();
    return nullptr;
  }
  TensorView own(size_t index) {
    const std::shared_ptr<const ArenaSlot> &slot = slots_[index];
    if (!slot)
      return own_[index].view();
    const Shape &shape = shapes_[index];
    return {(*specs_)[index].type, slot->data, *elementCount(shape), shape};
  }
  Expected<TensorView> prepare(size_t index, Span<const int64_t> shape) override {
    const TensorSpec &spec = (*specs_)[index];
    if (arena_ && isSlottable(spec)) {
      if (Status s = checkShape(spec, shape); !s)
        return s;
      if (takeSlot(index, shape))
        return own(index);
    }
    slots_[index].reset();
    if (Status s = own_[index].reshape(spec, shape); !s)
      return s;
    return own_[index].view();
  }
  Status encode(Buffer &out) { return codec_->encode(ownViews(), out); }
  Status encode(Buffer &out, std::vector<Codec::ExternalSpan> &external) {
    return codec_->encodeAround(ownViews(), out, MaxExternal, external);
  }
  static constexpr size_t MaxExternal = 4;

private:
  static constexpr size_t Large = 16 * 1024;
  /// A bool must be looked at, and what the peer can change is no longer what was looked at.
  static bool isSlottable(const TensorSpec &spec) {
    return spec.type != ElementType::String && spec.type != ElementType::Bool;
  }
  static bool isLarge(const TensorSpec &spec) {
    const std::optional<size_t> count = spec.isDynamic() ? std::nullopt : spec.count();
    return isSlottable(spec) && count && *count >= Large / sizeOf(spec.type);
  }
  bool takeSlot(size_t index, Span<const int64_t> shape) {
    const size_t size = sizeOf((*specs_)[index].type);
    const std::optional<size_t> count = elementCount(shape);
    if (!count || *count > SIZE_MAX / size)
      return false;
    std::shared_ptr<const ArenaSlot> &slot = slots_[index];
    if (!slot || slot->arena != arena_.get() || slot->capacity < *count * size) {
      if (*count < Large / size)
        return false;
      slot.reset(); // its room may be needed
      slot = arena_->take(*count * size);
    }
    if (slot)
      shapes_[index].assign(shape.begin(), shape.end());
    return slot != nullptr;
  }

  Span<const TensorView> ownViews() {
    views_.clear();
    for (size_t i = 0; i < own_.size(); ++i)
      views_.push_back(own(i));
    return views_;
  }

  const std::vector<TensorSpec> *specs_ = nullptr;
  std::unique_ptr<Codec> codec_;
  const Codec::Layout *layout_ = nullptr;
  std::vector<Tensor> own_;
  std::shared_ptr<Arena> arena_;
  std::vector<std::shared_ptr<const ArenaSlot>> slots_; ///< in place of own_, where there is one
  std::vector<Shape> shapes_;                           ///< of the slots
  std::vector<TensorView> views_;
};

} // namespace mlbridge

#endif
