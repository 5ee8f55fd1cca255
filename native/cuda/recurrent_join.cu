// What a recurrent layer gives: the norms and gates of its heads, as activations.
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;

// RMSNorm of each head's outputs, times silu(gate), as activations. A thread block takes heads of a column that begin and end with a block of 32 inputs.
PACELINE_KERNEL join_heads(RecurrentJoin j, int heads) {
  begin_kernel();
  const int column = static_cast<int>(block_x()), first_head = static_cast<int>(block_y()) * heads, lane = static_cast<int>(lane_index());
  if (column >= *j.count) return;
  const int end_head = first_head + heads < j.parts ? first_head + heads : j.parts;
  SharedMemory memory;
  float* const row = memory.take<float>(static_cast<size_t>(heads) * j.size);
  const int begin = first_head * j.size, size = (end_head - first_head) * j.size;
  for (int h = first_head + static_cast<int>(warp_index()); h < end_head; h += kWarps) {
    const float* const x = j.x + static_cast<size_t>(column) * j.stride + h * j.size;
    const float* const gate = j.gates + static_cast<size_t>(column) * j.gate_stride + h * j.size;
    const float scale = inverse_rms(x, j.size, j.epsilon);
    for (int i = lane; i < j.size; i += kWarp) row[(h - first_head) * j.size + i] = x[i] * scale * j.weight[i] * (gate[i] * sigmoid(gate[i]));
  }
  sync_block();
  const int blocks = (size + kBlock - 1) / kBlock;
  for (int block = static_cast<int>(warp_index()); block < blocks; block += kWarps) {
    const int i = block * kBlock + lane;
    store_block(j.out, column, begin / kBlock + block, i < size ? row[i] : 0.0f);
  }
}

// Outputs times silu(gate), then the RMSNorm of each group of them, as activations. Groups are long: all threads gate one, a warp sums its squares, and all warps
// write it. A thread block takes groups of a column that begin and end with a block of 32 inputs.
PACELINE_KERNEL join_groups(RecurrentJoin j, int groups) {
  begin_kernel();
  const int column = static_cast<int>(block_x()), first_group = static_cast<int>(block_y()) * groups;
  if (column >= *j.count) return;
  const int end_group = first_group + groups < j.parts ? first_group + groups : j.parts, begin = first_group * j.size, size = (end_group - first_group) * j.size;
  SharedMemory memory;
  float* const row = memory.take<float>(static_cast<size_t>(groups) * j.size);
  float* const scales = memory.take<float>(groups);
  const float* const x = j.x + static_cast<size_t>(column) * j.stride + begin;
  const float* const gates = j.gates + static_cast<size_t>(column) * j.gate_stride + begin;
  for (int i = static_cast<int>(thread_index()); i < size; i += kThreads) row[i] = x[i] * (gates[i] * sigmoid(gates[i]));
  sync_block();
  for (int g = static_cast<int>(warp_index()); g < end_group - first_group; g += kWarps) {
    const float scale = inverse_rms(row + g * j.size, j.size, j.epsilon);
    if (lane_index() == 0) scales[g] = scale;
  }
  sync_block();
  const int blocks = (size + kBlock - 1) / kBlock;
  for (int block = static_cast<int>(warp_index()); block < blocks; block += kWarps) {
    const int i = block * kBlock + static_cast<int>(lane_index());
    store_block(j.out, column, begin / kBlock + block, i < size ? row[i] * scales[i / j.size] * j.weight[begin + i] : 0.0f);
  }
}

}  // namespace

void join_recurrent(const RecurrentJoin& j, int most, Stream stream) {
  if (j.gates_first) {
    const int groups = j.size % kBlock == 0 ? 1 : j.parts;
    const size_t row = (static_cast<size_t>(groups) * j.size * sizeof(float) + 15) / 16 * 16;
    launch("join_recurrent", join_groups, {static_cast<unsigned>(most), static_cast<unsigned>((j.parts + groups - 1) / groups), 1}, kThreads, row + groups * sizeof(float),
           stream, j, groups);
    return;
  }
  const int heads = j.size % kBlock == 0 && j.parts > kWarps ? kWarps : j.parts;
  launch("join_recurrent", join_heads, {static_cast<unsigned>(most), static_cast<unsigned>((j.parts + heads - 1) / heads), 1}, kThreads,
         static_cast<size_t>(heads) * j.size * sizeof(float), stream, j, heads);
}

}  // namespace paceline::cuda
