// RMSNorm: y = x / sqrt(mean(x^2) + epsilon) * weight. The sum of squares runs over 64 lanes (index mod 64), folded 32-16-8-4-2-1: a GPU's warp has two of them each.
// Where that sum is infinite or NaN, every y is NaN: a column that has broken down must not end in finite logits, as zeros would.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {

void rms_norm(const float* x, const float* weight, float epsilon, int size, float* y) {
  constexpr int kParts = 4;
  Lanes squares[kParts] = {zero(), zero(), zero(), zero()};
  for (int first = 0; first < size; first += kParts * kLanes)
    PACELINE_UNROLL
    for (int j = 0; j < kParts; ++j) {
      const int i = first + j * kLanes;
      if (i >= size) break;
      const Lanes v = keep(load(x + i), size - i, zero());
      squares[j] = fma(v, v, squares[j]);
    }
  const Lanes all = (squares[0] + squares[2]) + (squares[1] + squares[3]);
  const float inverse = 1.0f / __builtin_sqrtf(fold_sum(all) / static_cast<float>(size) + epsilon);
  const float scale = inverse > 0.0f ? inverse : __builtin_nanf("");
  const int padded = (size + kBlock - 1) / kBlock * kBlock;
  for (int i = 0; i < padded; i += kLanes) store(y + i, keep(load(x + i) * broadcast(scale) * load(weight + i), size - i, zero()));
}

}  // namespace paceline::PACELINE_ISA
