// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "telemetry.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

namespace mlbridge::onnx {
namespace {

char entry[] = "ORT_DISABLE_TELEMETRY=1";

/// Arrays that other threads may still read. Never destroyed.
std::vector<std::vector<char *>> &arrays() {
  static auto *const all = new std::vector<std::vector<char *>>;
  return *all;
}

} // namespace

NoTelemetry::NoTelemetry() {
  if (std::getenv("ORT_DISABLE_TELEMETRY") || !environ)
    return;
  for (char **each = environ; *each; ++each)
    entries_.push_back(*each);
  std::vector<char *> array = entries_;
  array.push_back(entry);
  array.push_back(nullptr);
  arrays().push_back(std::move(array));
  during_ = arrays().back().data();
  before_ = environ;
  __atomic_store_n(&environ, during_, __ATOMIC_RELEASE);
}

NoTelemetry::~NoTelemetry() {
  // If another thread has changed the environment meanwhile, its change is worth more than
  // tidiness.
  if (before_ && environ == during_ && std::equal(entries_.begin(), entries_.end(), during_) &&
      during_[entries_.size()] == entry)
    __atomic_store_n(&environ, before_, __ATOMIC_RELEASE);
}

} // namespace mlbridge::onnx
