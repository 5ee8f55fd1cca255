// Small float formats in plain C++. binary16: the same bits as the F16C instructions (nearest even, quiet NaN payloads kept).
#pragma once

#include <cstdint>
#include <cstring>

namespace paceline {

static inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  uint32_t mantissa = h & 0x3ffu;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112u) << 23) | (mantissa << 13);
  } else if (mantissa == 0) {
    bits = sign;
  } else {
    uint32_t shifted = 0;
    while (!(mantissa & 0x400u)) { mantissa <<= 1; ++shifted; }
    bits = sign | ((113u - shifted) << 23) | ((mantissa & 0x3ffu) << 13);
  }
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

static inline uint16_t float_to_half(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return sign | 0x7e00u | static_cast<uint16_t>((rest >> 13) & 0x3ffu);
  if (rest >= 0x477ff000u) return sign | 0x7c00u;  // rounds past 65504, infinity included
  if (rest >= 0x38800000u) {                        // normal
    const uint32_t rounded = rest + 0xfffu + ((rest >> 13) & 1u);
    return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
  }
  if (rest < 0x33000000u) return sign;  // below half of the least subnormal
  const uint32_t shift = 126u - (rest >> 23);
  const uint32_t mantissa = (rest & 0x7fffffu) | 0x800000u;
  const uint32_t kept = mantissa >> shift;
  const uint32_t lost = mantissa & ((1u << shift) - 1u);
  const uint32_t halfway = 1u << (shift - 1u);
  return sign | static_cast<uint16_t>(kept + ((lost > halfway || (lost == halfway && (kept & 1u))) ? 1u : 0u));
}

// bfloat16: the upper half of a float.
static inline float brain_to_float(uint16_t h) {
  const uint32_t bits = static_cast<uint32_t>(h) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

static inline uint16_t float_to_brain(float f) {  // nearest even
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// 2^(e - 128): half of an E8M0 scale, for codes that are doubled. Subnormal for e below 2.
static inline float power_scale(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x200000u << e : static_cast<uint32_t>(e - 1) << 23;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
constexpr uint8_t kLargestPower = 230;  // larger ones are taken for it: times 12582912 they would be no number (integer_product.h)

// Half of a UE4M3 scale (4 bits of exponent with bias 7, 3 of mantissa), for codes that are doubled: 2^7 times the
// binary16 of the same fields. Bit 7 must be 0.
static inline float small_float(uint8_t b) { return half_to_float(static_cast<uint16_t>(b << 7)) * 128.0f; }

}  // namespace paceline
