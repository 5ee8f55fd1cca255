// The fixed summation order of row reductions, and scalar functions: the same operations in the same order as native/cpu/simd.h.
#pragma once

#include "../cpu/tile.h"
#include "compat.h"

namespace paceline::cuda {

constexpr int kWarp = 32;
constexpr int kVirtual = 16;  // lanes of a row reduction: index mod 16

PACELINE_DEVICE unsigned lane_index() { return thread_index() % kWarp; }
PACELINE_DEVICE unsigned warp_index() { return thread_index() / kWarp; }

// Prefetches floats into L2, by one warp, so that they arrive from memory while the previous kernel still runs.
PACELINE_DEVICE void fetch_floats(const float* from, int count) {
  constexpr int kLine = 32;  // floats
  for (int i = static_cast<int>(lane_index()) * kLine; i < count; i += kWarp * kLine) fetch_ahead(from + i);
}

// They return the second operand where either is NaN, as everywhere in the cores.
PACELINE_DEVICE float larger(float a, float b) { return a > b ? a : b; }
PACELINE_DEVICE float smaller(float a, float b) { return a < b ? a : b; }

// Lanes 0 .. 15 hold the virtual ones: i with i + 8, then i + 4, i + 2, i + 1. All lanes get the result.
PACELINE_DEVICE float fold_sum(float v) {
  const int lane = static_cast<int>(lane_index());
  for (int width = 8; width > 0; width /= 2) v = v + shuffle(v, lane + width);
  return shuffle(v, 0);
}
PACELINE_DEVICE float fold_larger(float v) {
  const int lane = static_cast<int>(lane_index());
  for (int width = 8; width > 0; width /= 2) v = larger(v, shuffle(v, lane + width));
  return shuffle(v, 0);
}

// Splits each of two floats into its nearest bfloat16 and that of the remainder: their sum has a relative error of at most 2^-17. The remainder of an infinity
// is NaN, so its products are NaN where the CPU's may be infinite.
struct TwoBrains {
  uint32_t first, rest;
};
PACELINE_DEVICE TwoBrains split_two(float low, float high) {
  const uint32_t first = two_brains(low, high);
  const float low_rest = low - bits_to_float(first << 16), high_rest = high - bits_to_float(first & 0xffff0000u);
  return {first, two_brains(low_rest, high_rest)};
}

// Where weights are multiplied as halves, codes of activations are 2^8 times as large, as those weights are as small: whole numbers below 2^15.
constexpr int kHalvesFactor = 256;
PACELINE_DEVICE uint16_t half_code(int code) { return float_to_half(static_cast<float>(kHalvesFactor * code)); }

PACELINE_DEVICE int nearest(float x) { return static_cast<int>((x + 12582912.0f) - 12582912.0f); }  // |x| < 2^22, ties to even

// As in native/cpu/simd.h: e^x = 2^n (1 + r p).
struct PowerOfE {
  float scale, r, p;
};
PACELINE_DEVICE PowerOfE series_of_e(float x) {
  const int n = nearest(x * 1.44269504f);
  const float whole = static_cast<float>(n);
  float r = fma(whole, -0.693359375f, x);
  r = fma(whole, 2.12194440e-4f, r);
  float p = 1.0f / 5040.0f;
  p = fma(p, r, 1.0f / 720.0f);
  p = fma(p, r, 1.0f / 120.0f);
  p = fma(p, r, 1.0f / 24.0f);
  p = fma(p, r, 1.0f / 6.0f);
  p = fma(p, r, 0.5f);
  return {bits_to_float(static_cast<uint32_t>(n + 127) << 23), r, fma(p, r, 1.0f)};
}
PACELINE_DEVICE float power_of_e(float x) {
  const PowerOfE e = series_of_e(x);
  return fma(e.p, e.r, 1.0f) * e.scale;
}
PACELINE_DEVICE float power_of_e_less_one(float x) {
  const PowerOfE e = series_of_e(x);
  return fma(e.scale, e.p * e.r, e.scale - 1.0f);
}

PACELINE_DEVICE float exponential(float x) { return power_of_e(smaller(larger(x, -87.0f), 88.0f)); }
PACELINE_DEVICE float exponential_or_nan(float x) { return power_of_e(smaller(88.0f, larger(-87.0f, x))); }

PACELINE_DEVICE float hyperbolic_tangent(float x) {
  const float e = exponential_or_nan(x + x);
  return (e - 1.0f) / (e + 1.0f);
}
PACELINE_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exponential_or_nan(0.0f - x)); }

// By the series and the rounding of native/cpu/softplus.h.
PACELINE_DEVICE float logarithm(float x) {
  const uint32_t shifted = float_to_bits(x) - 0x3f3504f3u;  // sqrt(1/2)
  const int n = static_cast<int32_t>(shifted) >> 23;
  const float m = bits_to_float(float_to_bits(x) - (static_cast<uint32_t>(n) << 23));
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float p = 2.0f / 11.0f;
  p = fma(p, z, 2.0f / 9.0f);
  p = fma(p, z, 2.0f / 7.0f);
  p = fma(p, z, 2.0f / 5.0f);
  p = fma(p, z, 2.0f / 3.0f);
  p = fma(p, z, 2.0f);
  const float whole = static_cast<float>(n);
  return fma(whole, 0.693359375f, fma(whole, -2.12194440e-4f, s * p));
}

PACELINE_DEVICE float softplus(float x) {
  if (x > 20.0f) return x;
  const float e = exponential_or_nan(x), u = 1.0f + e;
  return u == 1.0f ? e : logarithm(u) * (e / (u - 1.0f));
}

// Gate times sigmoid(slope) times up. gelu(x) = x * sigmoid(slope) in the tanh form: slope = 2 sqrt(2 / pi) (x + 0.044715 x^3)
// Without a gate, `gate` is up.
PACELINE_DEVICE float activated(Activation activation, float gate, float up) {
  if (activation == Activation::SquaredRelu) {
    const float positive = larger(0.0f, gate);
    return positive * positive;
  }
  if (activation == Activation::Clamped) {
    gate = smaller(kClampedMost, gate);
    up = larger(-kClampedMost, smaller(kClampedMost, up)) + 1.0f;
  }
  float slope = gate;
  if (activation == Activation::Gelu) slope = gate * fma(gate * gate, 0.0713548163f, 1.59576912f);
  if (activation == Activation::Clamped) slope = gate * kClampedSlope;
  return gate / (1.0f + exponential(0.0f - slope)) * up;
}

// As in native/cpu/activated.h.
PACELINE_DEVICE float xielu(const float* curve, float x) {
  const float above = larger(0.0f, x), below = smaller(0.0f, x);
  const float line = fma(curve[1], power_of_e_less_one(larger(-87.0f, below)) - below, curve[2] * x);
  return fma(curve[0] * above, above, line);
}

// add(sum, value) -> the mean of what it adds up of row [size], by one warp; all lanes get it.
template <class Add>
PACELINE_DEVICE float mean(const float* row, int size, Add add) {
  constexpr int kTogether = 16;  // loads in flight at once; zeros past the end change no sum
  const int lane = static_cast<int>(lane_index());
  float sums[2] = {0.0f, 0.0f};  // of virtual lanes `lane` and lane + 32
  for (int first = lane; first < size; first += kTogether * kWarp) {
    float x[kTogether];
    PACELINE_UNROLL
    for (int j = 0; j < kTogether; ++j) x[j] = first + j * kWarp < size ? row[first + j * kWarp] : 0.0f;
    PACELINE_UNROLL
    for (int j = 0; j < kTogether; ++j) sums[j % 2] = add(sums[j % 2], x[j]);
  }
  const float both = sums[0] + sums[1], all = both + shuffle(both, lane + kVirtual);
  return fold_sum(all) / static_cast<float>(size);
}

// 1 / rms of row [size], by one warp; all lanes get it. NaN where the sum of squares is infinite or NaN.
PACELINE_DEVICE float inverse_rms(const float* row, int size, float epsilon) {
  const float inverse = 1.0f / square_root(mean(row, size, [](float sum, float x) { return fma(x, x, sum); }) + epsilon);
  return inverse > 0.0f ? inverse : __builtin_nanf("");
}

}  // namespace paceline::cuda
