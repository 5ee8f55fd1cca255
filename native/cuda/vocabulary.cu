// Passes over rows of logits. The largest is found by two kernels: a thread block for each part of a row, then a warp for each row.
#include "../cpu/sampling.h"
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp, kNobody = 0x7fffffff;

PACELINE_DEVICE Largest better(const Largest& a, const Largest& b) { return a.value > b.value || (a.value == b.value && a.id < b.id) ? a : b; }

PACELINE_DEVICE Largest best_of_warp(Largest best) {
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const int other = static_cast<int>(lane_index()) ^ width;
    best = better(best, {shuffle(best.value, other), shuffle(best.id, other)});
  }
  return best;
}

// NaN is never the largest.
PACELINE_KERNEL largest_of_part(const float* logits, int stride, int size, const int* count, Largest* parts) {
  begin_kernel();
  const int output = static_cast<int>(block_y());
  if (output >= *count) return;
  SharedMemory memory;
  Largest* const found = memory.take<Largest>(kWarps);
  const float* const row = logits + static_cast<size_t>(output) * stride;
  Largest best = {-__builtin_huge_valf(), kNobody};
  for (int i = static_cast<int>(block_x()) * kThreads + static_cast<int>(thread_index()); i < size; i += kVocabularyParts * kThreads)
    if (row[i] == row[i]) best = better(best, {row[i], i});
  best = best_of_warp(best);
  if (lane_index() == 0) found[warp_index()] = best;
  sync_block();
  if (thread_index() != 0) return;
  for (int w = 1; w < kWarps; ++w) best = better(best, found[w]);
  parts[output * kVocabularyParts + block_x()] = best;
}

PACELINE_KERNEL largest_of_parts(const int* count, const Largest* parts, int* tokens) {
  begin_kernel();
  const int output = static_cast<int>(block_x());
  if (output >= *count) return;
  const Largest best = best_of_warp(parts[output * kVocabularyParts + lane_index()]);
  if (lane_index() == 0) tokens[output] = best.id == kNobody ? kNoToken : best.id;
}

PACELINE_KERNEL cap_logits(float cap, float* logits, int stride, int size, const int* count) {
  begin_kernel();
  const int output = static_cast<int>(block_y()), i = static_cast<int>(block_x() * block_threads() + thread_index());
  if (output >= *count || i >= size) return;
  float& x = logits[static_cast<size_t>(output) * stride + i];
  x = cap * hyperbolic_tangent(x / cap);
}

}  // namespace

static_assert(kVocabularyParts == kWarp);

void choose_largest(const float* logits, int stride, int size, const int* count, Largest* parts, int* tokens, int most, Stream stream) {
  launch("largest_of_part", largest_of_part, {kVocabularyParts, static_cast<unsigned>(most), 1}, kThreads, kWarps * sizeof(Largest), stream, logits, stride, size, count, parts);
  launch("largest_of_parts", largest_of_parts, {static_cast<unsigned>(most), 1, 1}, kWarp, 0, stream, count, parts, tokens);
}

void soft_cap(float cap, float* logits, int stride, int size, const int* count, int most, Stream stream) {
  launch("soft_cap", cap_logits, {static_cast<unsigned>((size + kThreads - 1) / kThreads), static_cast<unsigned>(most), 1}, kThreads, 0, stream, cap, logits, stride, size, count);
}

}  // namespace paceline::cuda
