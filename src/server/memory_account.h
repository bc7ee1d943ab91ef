// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much memory a server keeps for each connection.
#ifndef MLBRIDGE_SERVER_MEMORY_ACCOUNT_H
#define MLBRIDGE_SERVER_MEMORY_ACCOUNT_H

#include <mlbridge/tensor.h>

#include <atomic>
#include <memory>

namespace mlbridge {

/// The bytes that are kept for one connection, and those for all. Thread-safe.
class MemoryAccount {
public:
  explicit MemoryAccount(std::shared_ptr<std::atomic<uint64_t>> all) : all_(std::move(all)) {}
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t allBytes() const { return all_->load(std::memory_order_relaxed); }
  void change(uint64_t from, uint64_t to) {
    bytes_.fetch_add(to - from, std::memory_order_relaxed); // wraps for what becomes less
    all_->fetch_add(to - from, std::memory_order_relaxed);
  }

private:
  std::atomic<uint64_t> bytes_{0};
  const std::shared_ptr<std::atomic<uint64_t>> all_;
};

/// A part of an account, for as long as it lives.
class Charge {
public:
  Charge() = default;
  Charge(Charge &&other) noexcept { swap(other); }
  Charge &operator=(Charge &&other) noexcept {
    Charge fresh(std::move(other));
    swap(fresh);
    return *this;
  }
  ~Charge() { set(0); }

  void set(const std::shared_ptr<MemoryAccount> &account, uint64_t bytes) {
    if (account_ != account) {
      set(0);
      account_ = account;
    }
    set(bytes);
  }
  void set(uint64_t bytes) {
    if (account_ && bytes != bytes_)
      account_->change(bytes_, bytes);
    bytes_ = account_ ? bytes : 0;
  }
  uint64_t bytes() const { return bytes_; }

private:
  void swap(Charge &other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<MemoryAccount> account_;
  uint64_t bytes_ = 0;
};

/// The bytes that a decoded string takes besides its bytes, here and as an object of Python.
inline constexpr uint64_t CostOfString = 96;

/// The bytes that so many elements take when they are decoded.
inline uint64_t costOf(ElementType type, uint64_t count) {
  return count * (type == ElementType::String ? CostOfString : sizeOf(type));
}

/// The bytes that a stream with this signature takes.
uint64_t costOf(const Signature &signature);

} // namespace mlbridge

#endif
