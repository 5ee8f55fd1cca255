// What layers take of a token itself: the product of its embedding, normed for each layer, plus the row of a table. A warp takes one layer of a column.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 8;

PACELINE_KERNEL add_token_norm(TokenInputs t) {
  begin_kernel();
  const int column = static_cast<int>(block_y()), layer = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index()), lane = static_cast<int>(lane_index());
  if (column >= *t.count || layer >= t.layers) return;
  SharedMemory memory;
  float* const row = memory.take<float>(static_cast<size_t>(kWarps) * t.size) + warp_index() * t.size;
  const size_t place = static_cast<size_t>(column) * t.stride + static_cast<size_t>(layer) * t.size;
  for (int i = lane; i < t.size; i += kWarp) row[i] = t.products[place + i];
  sync_warp();
  const float scale = inverse_rms(row, t.size, t.epsilon);
  for (int i = lane; i < t.size; i += kWarp) t.inputs[place + i] = row[i] * scale * t.weight[i] + t.inputs[place + i];
}

}  // namespace

void add_token_norms(const TokenInputs& t, int most, Stream stream) {
  launch("add_token_norms", add_token_norm, {static_cast<unsigned>((t.layers + kWarps - 1) / kWarps), static_cast<unsigned>(most), 1}, kWarps * kWarp,
         static_cast<size_t>(kWarps) * t.size * sizeof(float), stream, t);
}

}  // namespace paceline::cuda
