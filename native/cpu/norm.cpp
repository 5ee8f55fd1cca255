// RMSNorm: y = x / sqrt(mean(x^2) + epsilon) * weight. The sum of squares runs over 64 lanes (index mod 64), folded 32-16-8-4-2-1: a GPU's warp has two of them each.
// LayerNorm is that of x - mean(x).
// Where that sum is infinite or NaN, every y is NaN: a column that has broken down must not end in finite logits, as zeros would.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {

namespace {

int padded(int size) { return (size + kBlock - 1) / kBlock * kBlock; }

// add(sum, value) -> the mean of what it adds up.
template <class Add>
float mean(const float* x, int size, Add add) {
  constexpr int kParts = 4;
  Lanes sums[kParts] = {zero(), zero(), zero(), zero()};
  for (int first = 0; first < size; first += kParts * kLanes)
    PACELINE_UNROLL
    for (int j = 0; j < kParts; ++j) {
      const int i = first + j * kLanes;
      if (i >= size) break;
      sums[j] = add(sums[j], keep(load(x + i), size - i, zero()));
    }
  return fold_sum((sums[0] + sums[2]) + (sums[1] + sums[3])) / static_cast<float>(size);
}

}  // namespace

void rms_norm(const float* x, const float* weight, float epsilon, int size, float* y) {
  const float inverse = 1.0f / __builtin_sqrtf(mean(x, size, [](Lanes sum, Lanes v) { return fma(v, v, sum); }) + epsilon);
  const float scale = inverse > 0.0f ? inverse : __builtin_nanf("");
  for (int i = 0; i < padded(size); i += kLanes) store(y + i, keep(load(x + i) * broadcast(scale) * load(weight + i), size - i, zero()));
}

void center(const float* x, int size, float* y) {
  const Lanes middle = broadcast(mean(x, size, [](Lanes sum, Lanes v) { return sum + v; }));
  for (int i = 0; i < padded(size); i += kLanes) store(y + i, keep(load(x + i) - middle, size - i, zero()));
}

}  // namespace paceline::PACELINE_ISA
