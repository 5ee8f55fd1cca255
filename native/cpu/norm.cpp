// RMSNorm: y = x / sqrt(mean(x^2) + epsilon) * weight. The sum of squares runs over 16 lanes (index mod 16), folded 8-4-2-1.
// Where that sum is infinite or NaN, every y is NaN: a column that has broken down must not end in finite logits, as zeros would.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {

void rms_norm(const float* x, const float* weight, float epsilon, int size, float* y) {
  Lanes squares = zero();
  for (int i = 0; i < size; i += kLanes) {
    const Lanes v = keep(load(x + i), size - i, zero());
    squares = fma(v, v, squares);
  }
  const float inverse = 1.0f / __builtin_sqrtf(fold_sum(squares) / static_cast<float>(size) + epsilon);
  const float scale = inverse > 0.0f ? inverse : __builtin_nanf("");
  const int padded = (size + kBlock - 1) / kBlock * kBlock;
  for (int i = 0; i < padded; i += kLanes) store(y + i, keep(load(x + i) * broadcast(scale) * load(weight + i), size - i, zero()));
}

}  // namespace paceline::PACELINE_ISA
