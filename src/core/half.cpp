// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// IEEE 754 binary16 from and to float, in integer arithmetic so that every machine agrees.
#include <mlbridge/tensor.h>

#include <cstring>

namespace mlbridge {

float toFloat(Half half) {
  const uint32_t sign = uint32_t(half.bits & 0x8000u) << 16;
  uint32_t exponent = (half.bits >> 10) & 0x1fu;
  uint32_t mantissa = half.bits & 0x3ffu;
  uint32_t bits;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa == 0) {
    bits = sign;
  } else {
    exponent = 113;
    while (!(mantissa & 0x400u)) {
      mantissa <<= 1;
      --exponent;
    }
    bits = sign | (exponent << 23) | ((mantissa & 0x3ffu) << 13);
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

Half toHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    const uint32_t payload = (magnitude >> 13) & 0x3ffu;
    return {static_cast<uint16_t>(sign | 0x7c00u | (payload ? payload : 0x200u))};
  }
  // 65520 is the least value that rounds to infinity, 2^-25 the greatest that rounds to zero.
  if (magnitude >= 0x477ff000u)
    return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude <= 0x33000000u)
    return {static_cast<uint16_t>(sign)};
  uint32_t mantissa = magnitude;
  uint32_t shift = 13;
  if (magnitude < 0x38800000u) { // subnormal as a half
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126 - (magnitude >> 23);
  } else {
    mantissa -= 112u << 23;
  }
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  uint32_t result = mantissa >> shift;
  if (rest > half || (rest == half && (result & 1)))
    ++result; // a carry into the exponent is right
  return {static_cast<uint16_t>(sign | result)};
}

} // namespace mlbridge
