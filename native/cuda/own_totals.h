// Where blocks are many, a warp has all segments of its row tiles, and adds them itself.
#pragma once

#include "product.h"

namespace paceline::cuda {

// A thread's totals of `tiles` row tiles and 64 columns, as an mma has them. In registers they would leave too few to load inputs ahead.
template <int tiles>
class OwnTotals {
  static constexpr int kGroups = 64 / kColumns, kThreads = kProductWarps * kWarp;

 public:
  static constexpr size_t kBytes = static_cast<size_t>(tiles) * kGroups * 4 * kThreads * sizeof(float);  // of a block

  PACELINE_DEVICE explicit OwnTotals(float* of_block) : own_(of_block + thread_index()) {}
  PACELINE_DEVICE explicit OwnTotals(SharedMemory& memory) : OwnTotals(memory.take<float>(kBytes / sizeof(float))) {}

  PACELINE_DEVICE float get(int t, int i, int j) const { return own_[((t * kGroups + i) * 4 + j) * kThreads]; }
  // Adds the sums of the next segment.
  PACELINE_DEVICE void add(const float (&sums)[tiles][kGroups][4], bool first) {
    PACELINE_UNROLL
    for (int t = 0; t < tiles; ++t)
      for (int i = 0; i < kGroups; ++i)
        for (int j = 0; j < 4; ++j) own_[((t * kGroups + i) * 4 + j) * kThreads] = (first ? 0.0f : get(t, i, j)) + sums[t][i][j];
  }

 private:
  float* own_;
};

}  // namespace paceline::cuda
