// Operations on one element at a time: gates, soft-caps, weighted sums. Sizes are rounded up to whole lanes.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

Lanes sigmoid(Lanes x) { return broadcast(1.0f) / (broadcast(1.0f) + exponential(zero() - x)); }

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

// cap * tanh(x / cap), with tanh(y) = 1 - 2 / (e^2y + 1)
void soft_cap(float cap, int size, float* x) {
  for (int i = 0; i < size; i += kLanes) {
    const Lanes e = exponential(load(x + i) * broadcast(2.0f / cap));
    store(x + i, broadcast(cap) * (broadcast(1.0f) - broadcast(2.0f) / (e + broadcast(1.0f))));
  }
}

}  // namespace paceline::PACELINE_ISA
