// RMSNorm: y = x / sqrt(mean(x^2) + epsilon) * weight, sixteen virtual lanes folded 8-4-2-1. A block takes a column: all threads fetch
// it, half a warp sums its squares, all warps write blocks of 32.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256;

// The column into shared memory, zeros up to a whole block -> 1 / rms, the same for all threads.
PACELINE_DEVICE float fetch_column(const Norm& norm, int column, float* row, float* shared_scale) {
  const int padded = (norm.size + kBlock - 1) / kBlock * kBlock;
  const float* const x = norm.x + static_cast<size_t>(norm.from ? norm.from[column] : column) * norm.stride;
  for (int i = static_cast<int>(thread_index()); i < padded; i += kThreads) row[i] = i < norm.size ? x[i] : 0.0f;
  sync_block();
  if (warp_index() == 0) {
    const float scale = inverse_rms(row, norm.size, norm.epsilon);
    if (lane_index() == 0) *shared_scale = scale;
  }
  sync_block();
  return *shared_scale;
}

PACELINE_KERNEL norm_column(Norm norm) {
  const int column = static_cast<int>(block_x());
  if (column >= *norm.count) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  const float scale = fetch_column(norm, column, row, shared_scale);
  for (int block = static_cast<int>(warp_index()); block < norm.out.blocks; block += kThreads / kWarp) {
    const int i = block * kBlock + static_cast<int>(lane_index());
    store_block(norm.out, column, block, i < norm.size ? row[i] * scale * norm.weight[i] : 0.0f);
  }
}

PACELINE_KERNEL add_normed_column(Norm norm, float* sum) {
  const int column = static_cast<int>(block_x());
  if (column >= *norm.count) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  const float scale = fetch_column(norm, column, row, shared_scale);
  float* const to = sum + static_cast<size_t>(column) * norm.stride;
  for (int i = static_cast<int>(thread_index()); i < norm.size; i += kThreads) to[i] = to[i] + row[i] * scale * norm.weight[i];
}

size_t shared_bytes(const Norm& norm) { return ((norm.size + kBlock - 1) / kBlock * kBlock + 4) * sizeof(float); }

}  // namespace

void rms_norm(const Norm& norm, int most, Stream stream) {
  launch("rms_norm", norm_column, {static_cast<unsigned>(most), 1, 1}, kThreads, shared_bytes(norm), stream, norm);
}

void add_norm(const Norm& branch, float* sum, int most, Stream stream) {
  launch("add_norm", add_normed_column, {static_cast<unsigned>(most), 1, 1}, kThreads, shared_bytes(branch), stream, branch, sum);
}

}  // namespace paceline::cuda
