// Passes over a row of logits. Buffers are padded to 16; lanes past the end never count.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {

int largest(const float* x, int size) {
  const Lanes lowest = broadcast(-__builtin_inff());
  Lanes peaks = lowest;
  for (int i = 0; i < size; i += kLanes) peaks = larger(keep(load(x + i), size - i, lowest), peaks);
  const float peak = fold_larger(peaks);
  for (int i = 0; i < size; ++i)
    if (x[i] == peak) return i;
  return 0;  // nothing but NaN
}

void weigh(const float* x, float peak, float factor, int size, float* y) {
  for (int i = 0; i < size; i += kLanes) store(y + i, keep(exponential((load(x + i) - broadcast(peak)) * broadcast(factor)), size - i, zero()));
}

}  // namespace paceline::PACELINE_ISA
