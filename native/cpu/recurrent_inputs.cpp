// What recurrent layers make of a token before their states see it (delta_rule.cpp). The convolution: fma over its taps, oldest first, from the bias on; SiLU, but
// of gated convolutions; lanes are channels. Queries and keys of the delta rule are divided by their length: 16 lanes folded 8-4-2-1.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

// ln x for normal x > 0: x = 2^n * m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s) by its series, s = (m - 1) / (m + 1).
float logarithm(float x) {
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
float softplus(float x) {
  if (x > 20.0f) return x;
  const float e = exponential_or_nan(x), u = 1.0f + e;
  return u == 1.0f ? e : logarithm(u) * (e / (u - 1.0f));
}

}  // namespace

void delta_gates(const float* alpha, const float* b, const float* a, const float* time_bias, int heads, float* decay, float* beta) {
  for (int h = 0; h < heads; ++h) {
    const float step = softplus(alpha[h] + time_bias[h]);
    decay[h] = exponential_or_nan(a[h] * step);
    beta[h] = b ? 1.0f / (1.0f + exponential_or_nan(-b[h])) : step;
  }
}

void convolve(const float* const* inputs, const float* weights, const float* bias, int kernel, size_t stride, int channels, bool activated, float* out) {
  for (int c = 0; c < channels; c += kLanes) {
    Lanes sum = bias ? load(bias + c) : zero();
    for (int tap = 0; tap < kernel; ++tap) sum = fma(load(weights + tap * stride + c), load(inputs[tap] + c), sum);
    store(out + c, activated ? sum / (broadcast(1.0f) + exponential(zero() - sum)) : sum);
  }
}

void divide_by_length(float epsilon, float scale, int size, float* x) {
  Lanes squares = zero();
  for (int i = 0; i < size; i += kLanes) {
    const Lanes v = keep(load(x + i), size - i, zero());
    squares = fma(v, v, squares);
  }
  const Lanes factor = broadcast(scale / __builtin_sqrtf(fold_sum(squares) + epsilon));
  int i = 0;
  for (; i + kLanes <= size; i += kLanes) store(x + i, load(x + i) * factor);
  if (i == size) return;
  float tail[kLanes];
  store(tail, load(x + i) * factor);
  for (int j = 0; i + j < size; ++j) x[i + j] = tail[j];  // what follows may be another thread's
}

}  // namespace paceline::PACELINE_ISA
