// What recurrent layers make of a token before their states see it (delta_rule.cpp). The convolution: fma over its taps, oldest first, from the bias on; SiLU, but
// of gated convolutions; lanes are channels. Queries and keys of the delta rule are divided by their length: 16 lanes folded 8-4-2-1.
#include "operations.h"
#include "simd.h"
#include "softplus.h"

namespace paceline::PACELINE_ISA {

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
