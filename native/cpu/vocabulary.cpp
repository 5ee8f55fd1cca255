// Passes over a row of logits. Buffers are padded to 16; lanes past the end never count.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {
constexpr int kStretch = 64;

// The largest of x[first .. first + kStretch), or of what there is of them.
float peak_of(const float* x, int first, int size) {
  const Lanes lowest = broadcast(-__builtin_inff());
  Lanes peaks = lowest;
  const int end = size - first < kStretch ? size : first + kStretch;
  for (int i = first; i < end; i += kLanes) peaks = larger(keep(load(x + i), size - i, lowest), peaks);
  return fold_larger(peaks);
}
}  // namespace

int largest(const float* x, int size) {
  float peak = -__builtin_inff();
  int stretch = 0;
  for (int first = 0; first < size; first += kStretch)
    if (const float own = peak_of(x, first, size); own > peak) peak = own, stretch = first;
  for (int i = stretch; i < size; ++i)
    if (x[i] == peak) return i;
  return 0;  // nothing but NaN
}

int find_larger(const float* x, float least, int size, int32_t* ids) {
  int count = 0;
  for (int first = 0; first < size; first += kStretch) {
    if (!(peak_of(x, first, size) >= least)) continue;
    const int end = size - first < kStretch ? size : first + kStretch;
    for (int i = first; i < end; ++i) {
      ids[count] = i;
      count += x[i] >= least;
    }
  }
  return count;
}

uint64_t add_weights(const float* weights, float least, int size) {
  uint64_t sum = 0;
  for (int i = 0; i < size; ++i) sum += weights[i] >= least ? whole(weights[i]) : 0;
  return sum;
}

void weigh(const float* x, float peak, float factor, int size, float* y) {
  for (int i = 0; i < size; i += kLanes) store(y + i, keep(exponential((load(x + i) - broadcast(peak)) * broadcast(factor)), size - i, zero()));
}

}  // namespace paceline::PACELINE_ISA
