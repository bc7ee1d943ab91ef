// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mlbridge/server.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace mlbridge {

void LatencyHistogram::add(Duration latency) {
  const double microseconds = std::max<double>(static_cast<double>(latency.count()) / 1e3, 1);
  const size_t bucket = static_cast<size_t>(std::log2(microseconds) * BucketsOfOctave);
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
  ++count_;
}

Duration LatencyHistogram::quantile(double fraction) const {
  const double wanted = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(count_);
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen && static_cast<double>(seen) >= wanted)
      return Duration(int64_t(1e3 * std::exp2(static_cast<double>(bucket + 1) / BucketsOfOctave)));
  }
  return Duration::zero();
}

Metadata ServerStatistics::toMetadata() const {
  Metadata values = {{"connections", std::to_string(connections)},
                     {"streams", std::to_string(streams)},
                     {"requests", std::to_string(requests)},
                     {"replies", std::to_string(replies)},
                     {"errors", std::to_string(errors)},
                     {"dropped", std::to_string(dropped)},
                     {"refused", std::to_string(refused)},
                     {"bytes-in", std::to_string(bytesIn)},
                     {"bytes-out", std::to_string(bytesOut)},
                     {"over-limit", std::to_string(overLimit)},
                     {"events-dropped", std::to_string(eventsDropped)},
                     {"bytes-kept", std::to_string(bytesKept)}};
  if (batches) {
    char mean[32];
    std::snprintf(mean, sizeof mean, "%.2f",
                  static_cast<double>(batchedRequests) / static_cast<double>(batches));
    values["batches"] = std::to_string(batches);
    values["batch-mean"] = mean;
    values["batch-max"] = std::to_string(largestBatch);
  }
  constexpr std::pair<const char *, double> Quantiles[] = {{"latency-p50-us", 0.5},
                                                           {"latency-p90-us", 0.9},
                                                           {"latency-p99-us", 0.99},
                                                           {"latency-max-us", 1.0}};
  for (const auto &[name, fraction] : Quantiles)
    values[name] = std::to_string(latency.quantile(fraction).count() / 1000);
  return values;
}

} // namespace mlbridge
