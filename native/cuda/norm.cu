// RMSNorm: y = x / sqrt(mean(x^2) + epsilon) * weight, 64 virtual lanes folded 32-16-8-4-2-1; LayerNorm is that of x - mean(x). All threads fetch the column, one warp sums its squares,
// all warps write blocks of 32. With few columns, several thread blocks share a column: all of them sum its squares, each writes a part. Quantization is a long
// dependency chain, and would take a single thread block most of its time.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kEnoughBlocks = 256;  // for a GPU to be busy

// find(): of the row that all threads have written, by one warp, for all of them.
template <class Find>
PACELINE_DEVICE float by_one_warp(float* shared, Find find) {
  sync_block();
  if (warp_index() == 0) {
    const float found = find();
    if (lane_index() == 0) *shared = found;
  }
  sync_block();
  return *shared;
}

// 1 / rms of the row.
PACELINE_DEVICE float scale_of(const Norm& norm, const float* row, float* shared_scale) {
  return by_one_warp(shared_scale, [&] { return inverse_rms(row, norm.size, norm.epsilon); });
}

PACELINE_DEVICE void center(const Norm& norm, float* row, float* shared_mean) {
  const float middle = by_one_warp(shared_mean, [&] { return mean(row, norm.size, [](float sum, float x) { return sum + x; }); });
  for (int i = static_cast<int>(thread_index()); i < norm.size; i += kThreads) row[i] = row[i] - middle;
}

// Loads the column into shared memory, zero-padded to whole blocks of 32 -> 1 / rms, for all threads.
PACELINE_DEVICE float fetch_column(const Norm& norm, const float* from, int column, float* row, float* shared_scale) {
  const int padded = (norm.size + kBlock - 1) / kBlock * kBlock;
  const float* const x = from + static_cast<size_t>(norm.from ? norm.from[column] : column) * norm.stride;
  PACELINE_UNROLL_BY(4)
  for (int i = 4 * static_cast<int>(thread_index()); i < padded; i += 4 * kThreads) {  // a column's stride is a multiple of 32
    Word4 four = *reinterpret_cast<const Word4*>(x + i);
    for (int j = 0; j < 4; ++j)
      if (i + j >= norm.size) four.v[j] = 0;
    *reinterpret_cast<Word4*>(row + i) = four;
  }
  if (norm.centers) center(norm, row, shared_scale + 1);
  return scale_of(norm, row, shared_scale);
}

PACELINE_KERNEL norm_column(Norm norm, int parts) {
  let_next_begin();
  const int first_block = static_cast<int>(block_y() * kWarps + warp_index());
  const auto weight = [&](int block) {
    const int i = block * kBlock + static_cast<int>(lane_index());
    return i < norm.size ? norm.weight[i] : 0.0f;
  };
  float next_weight = weight(first_block);  // loaded early: it comes from memory, while the column is still in L2
  const int column = static_cast<int>(block_x());
  const bool present = column < load_early(norm.count);
  wait_for_earlier();
  if (!present) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  const float scale = fetch_column(norm, norm.x, column, row, shared_scale);
  for (int block = first_block; block < norm.out.blocks; block += parts * kWarps) {
    const int i = block * kBlock + static_cast<int>(lane_index());
    const float own_weight = next_weight;
    next_weight = weight(block + parts * kWarps);
    store_block(norm.out, column, block, i < norm.size ? row[i] * scale * own_weight : 0.0f);
  }
}

PACELINE_KERNEL norm_own_column(Norm norm, float* x) {
  begin_kernel();
  const int column = static_cast<int>(block_x());
  if (column >= *norm.count) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  const float scale = fetch_column(norm, norm.x, column, row, shared_scale);
  float* const to = x + static_cast<size_t>(column) * norm.stride;
  for (int i = static_cast<int>(thread_index()); i < norm.size; i += kThreads) to[i] = row[i] * scale * norm.weight[i];
}

// (x + y) * *scale, or x + y
PACELINE_DEVICE float joined(float x, float y, const float* scale) { return scale ? (x + y) * *scale : x + y; }

PACELINE_KERNEL add_normed_column(Norm norm, const float* layer_scale, float* sum) {
  begin_kernel();
  const int column = static_cast<int>(block_x());
  if (column >= *norm.count) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  const float scale = fetch_column(norm, norm.x, column, row, shared_scale);
  float* const to = sum + static_cast<size_t>(column) * norm.stride;
  for (int i = static_cast<int>(thread_index()); i < norm.size; i += kThreads) to[i] = joined(to[i], row[i] * scale * norm.weight[i], layer_scale);
}

PACELINE_KERNEL add_normed_pair(NormedPair pair, const float* layer_scale, float* sum) {
  begin_kernel();
  const Norm& norm = pair.branch;
  const int column = static_cast<int>(block_x()), first_input = static_cast<int>(thread_index());
  if (column >= *norm.count) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  float* const second = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  const float scale = fetch_column(norm, norm.x, column, row, shared_scale);
  const float second_scale = fetch_column(norm, pair.second, column, second, shared_scale);
  for (int i = first_input; i < norm.size; i += kThreads) row[i] = second[i] * second_scale * pair.second_weight[i] + row[i] * scale * pair.first_weight[i];
  const float whole = scale_of(norm, row, shared_scale);
  float* const to = sum + static_cast<size_t>(column) * norm.stride;
  for (int i = first_input; i < norm.size; i += kThreads) to[i] = joined(to[i], row[i] * whole * norm.weight[i], layer_scale);
}

PACELINE_KERNEL norm_both(NormedStreams both) {
  begin_kernel();
  const int column = static_cast<int>(block_x()), first_input = static_cast<int>(thread_index());
  Norm norm = both.token;
  if (column >= *norm.count) return;
  SharedMemory memory;
  float* const shared_scale = memory.take<float>(4);
  float* const row = memory.take<float>((norm.size + kBlock - 1) / kBlock * kBlock);
  float* const out = both.out + static_cast<size_t>(column) * both.out_stride;
  const float scale = fetch_column(norm, norm.x, column, row, shared_scale);
  for (int i = first_input; i < norm.size; i += kThreads) out[i] = row[i] * scale * norm.weight[i];
  sync_block();  // all have read the row
  const float last_scale = fetch_column(norm, both.streams, both.from[column], row, shared_scale);
  for (int i = first_input; i < norm.size; i += kThreads) row[i] = row[i] * last_scale * both.last_weight[i];
  const float whole = scale_of(norm, row, shared_scale);
  for (int i = first_input; i < norm.size; i += kThreads) out[norm.size + i] = row[i] * whole * both.stream_weight[i];
}

size_t shared_bytes(const Norm& norm, int rows = 1) { return (static_cast<size_t>(rows) * ((norm.size + kBlock - 1) / kBlock * kBlock) + 4) * sizeof(float); }

}  // namespace

void rms_norm(const Norm& norm, int most, Stream stream) {
  const int useful = (norm.out.blocks + kWarps - 1) / kWarps, parts = most * useful <= kEnoughBlocks ? useful : most < kEnoughBlocks ? kEnoughBlocks / most : 1;
  launch("rms_norm", norm_column, {static_cast<unsigned>(most), static_cast<unsigned>(parts), 1}, kThreads, shared_bytes(norm), stream, norm, parts);
}

void norm_in_place(const Norm& norm, float* x, int most, Stream stream) {
  launch("norm_in_place", norm_own_column, {static_cast<unsigned>(most), 1, 1}, kThreads, shared_bytes(norm), stream, norm, x);
}

void add_norm(const Norm& branch, const float* scale, float* sum, int most, Stream stream) {
  launch("add_norm", add_normed_column, {static_cast<unsigned>(most), 1, 1}, kThreads, shared_bytes(branch), stream, branch, scale, sum);
}

void norm_streams(const NormedStreams& both, int most, Stream stream) {
  launch("norm_streams", norm_both, {static_cast<unsigned>(most), 1, 1}, kThreads, shared_bytes(both.token), stream, both);
}

void add_norm_of_pair(const NormedPair& pair, const float* scale, float* sum, int most, Stream stream) {
  launch("add_norm_of_pair", add_normed_pair, {static_cast<unsigned>(most), 1, 1}, kThreads, shared_bytes(pair.branch, 2), stream, pair, scale, sum);
}

}  // namespace paceline::cuda
