// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arg-max and sampling, with the same result on every machine: an exponential of its own, and no
// contraction of its operations (see CMakeLists.txt).
#include "core/message.h"
#include <mlbridge/sampler.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace mlbridge {
namespace {

constexpr double Infinity = std::numeric_limits<double>::infinity();

double number(float x) { return x; }
double number(double x) { return x; }
double number(Half x) { return toFloat(x); }

/// exp(x) for x <= 0, within a few units in the last place.
double exponential(double x) {
  if (!(x > -700))
    return 0;
  constexpr double LogOf2High = 0x1.62e42feep-1, LogOf2Low = 0x1.a39ef35793c76p-33;
  const double k = std::floor(x * 0x1.71547652b82fep0 + 0.5);
  const double r = (x - k * LogOf2High) - k * LogOf2Low; // |r| <= ln(2) / 2
  double sum = 1;
  for (int i = 13; i >= 1; --i)
    sum = 1 + sum * r / i;
  return std::ldexp(sum, static_cast<int>(k));
}

template <typename T> Expected<int64_t> largest(Span<const T> logits) {
  if (logits.empty())
    return makeError(Code::PolicyFailed, "there is nothing to choose from");
  double best = -Infinity;
  int64_t at = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = number(logits[i]);
    if (x != x)
      return makeError(Code::PolicyFailed, "element ", i, " of ", logits.size(),
                       " to choose from is NaN");
    if (x > best) {
      best = x;
      at = static_cast<int64_t>(i);
    }
  }
  if (at < 0)
    return makeError(Code::PolicyFailed, "each of the ", logits.size(),
                     " elements to choose from is -inf");
  return at;
}

/// `uniform`: in [0, 1).
template <typename T>
Expected<int64_t> draw(Span<const T> logits, double inverseTemperature, double uniform) {
  Expected<int64_t> best = largest(logits);
  if (!best)
    return best;
  const double top = number(logits[static_cast<size_t>(*best)]);
  if (top == Infinity)
    return best;
  const auto weight = [&](T x) { return exponential((number(x) - top) * inverseTemperature); };
  double total = 0;
  for (const T x : logits)
    total += weight(x);
  const double wanted = uniform * total;
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sum += weight(logits[i]);
    if (sum > wanted)
      return static_cast<int64_t>(i);
  }
  return best; // not reached: wanted < total
}

uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

uint64_t withText(uint64_t hash, std::string_view text) {
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return mixed(hash + text.size());
}

/// The next number in [0, 1) of 53 random bits (SplitMix64).
double uniform(uint64_t &state) {
  state += 0x9e3779b97f4a7c15U;
  return static_cast<double>(mixed(state) >> 11) * 0x1p-53;
}

} // namespace

Expected<int64_t> argMax(Span<const float> logits) { return largest(logits); }
Expected<int64_t> argMax(Span<const double> logits) { return largest(logits); }
Expected<int64_t> argMax(Span<const Half> logits) { return largest(logits); }

Sampler::Sampler(uint64_t seed, double temperature)
    : seed_(seed), inverseTemperature_(1 / temperature) {
  restart();
}

void Sampler::restart(std::string_view episode, std::string_view unit) {
  state_ = withText(withText(mixed(seed_ + 1), episode), unit);
}

Expected<int64_t> Sampler::sample(Span<const float> logits) {
  return draw(logits, inverseTemperature_, uniform(state_));
}
Expected<int64_t> Sampler::sample(Span<const double> logits) {
  return draw(logits, inverseTemperature_, uniform(state_));
}
Expected<int64_t> Sampler::sample(Span<const Half> logits) {
  return draw(logits, inverseTemperature_, uniform(state_));
}

} // namespace mlbridge
