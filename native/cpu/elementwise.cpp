// Operations on one element at a time: gates, soft-caps, weighted sums. Sizes are rounded up to whole lanes.
#include "activated.h"
#include "operations.h"
#include "simd.h"
#include "softplus.h"

namespace paceline::PACELINE_ISA {
namespace {

Lanes sigmoid(Lanes x) { return broadcast(1.0f) / (broadcast(1.0f) + exponential_or_nan(zero() - x)); }

}  // namespace

void add_scaled(const float* y, float weight, int size, float* sum) {
  for (int i = 0; i < size; i += kLanes) store(sum + i, fma(broadcast(weight), load(y + i), load(sum + i)));
}

void multiply_gate(const float* gate, bool silu, int size, float* x) {
  for (int i = 0; i < size; i += kLanes) {
    const Lanes g = load(gate + i), open = sigmoid(g);
    const Lanes gated = load(x + i) * (silu ? g * open : open);
    store(x + i, keep(gated, size - i, load(x + i)));
  }
}

void multiply_heads(const float* gates, int heads, int size, float* x) {
  for (int h = 0; h < heads; ++h) {
    const float factor = softplus(gates[h]);
    for (int i = 0; i < size; ++i) x[h * size + i] *= factor;
  }
}

void activate(const float* gate, const float* up, Activation activation, int size, float* out) {
  for (int i = 0; i < size; i += kLanes) store(out + i, activated(activation, load(gate + i), load(up + i)));
}

void soft_cap(float cap, int size, float* x) {
  for (int i = 0; i < size; i += kLanes) store(x + i, broadcast(cap) * hyperbolic_tangent(load(x + i) / broadcast(cap)));
}

}  // namespace paceline::PACELINE_ISA
