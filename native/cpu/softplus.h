// The softplus of one number, by our own logarithm.
#pragma once

#include <cstring>

#include "simd.h"

namespace paceline::PACELINE_ISA {

// ln x for normal x > 0: x = 2^n * m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s) by its series, s = (m - 1) / (m + 1).
inline float logarithm(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const uint32_t shifted = bits - 0x3f3504f3u;  // sqrt(1/2)
  const int n = static_cast<int32_t>(shifted) >> 23;
  bits -= static_cast<uint32_t>(n) << 23;
  float m;
  std::memcpy(&m, &bits, 4);
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float p = 2.0f / 11.0f;
  p = __builtin_fmaf(p, z, 2.0f / 9.0f);
  p = __builtin_fmaf(p, z, 2.0f / 7.0f);
  p = __builtin_fmaf(p, z, 2.0f / 5.0f);
  p = __builtin_fmaf(p, z, 2.0f / 3.0f);
  p = __builtin_fmaf(p, z, 2.0f);
  const float nf = static_cast<float>(n);
  return __builtin_fmaf(nf, 0.693359375f, __builtin_fmaf(nf, -2.12194440e-4f, s * p));
}

// ln(1 + e^x). Rounding 1 + e is made good by e / ((1 + e) - 1).
inline float softplus(float x) {
  if (x > 20.0f) return x;
  const float e = exponential_or_nan(x), u = 1.0f + e;
  return u == 1.0f ? e : logarithm(u) * (e / (u - 1.0f));
}

}  // namespace paceline::PACELINE_ISA
