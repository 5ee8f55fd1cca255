// A recurrent layer of rows of one token in one kernel: what convolve, delta_rule and, where heads are normed apart, join_recurrent do in three. A thread block has a
// head of a row: each warp 32 of its values, and one or two of them its queries and keys, which heads that share these compute each for itself.
#include "recurrent.h"

namespace paceline::cuda {
namespace {

size_t shared_bytes(const Recurrent& r) {
  const size_t vector = (static_cast<size_t>(r.key_size) * 4 + 15) / 16 * 16;
  return static_cast<size_t>(parts_of(r)) * r.key_size * kDeltaPart * 4 + 2 * vector + static_cast<size_t>(r.value_size) * 4;
}

// Of the convolution's inputs, those of a row of one token that the next one needs, for channels first + lane < end; zeros from `own_end` on.
PACELINE_DEVICE void keep_inputs(const Convolution& convolution, float* next, int first, int own_end, int end) {
  const int channel = first + static_cast<int>(lane_index()), kept = convolution.r.taps - 1;
  if (channel >= end) return;
  for (int i = 0; i < kept; ++i)
    next[static_cast<size_t>(i) * convolution.r.state.channel_stride + channel] = channel < own_end ? convolution.input(i + 1 - kept, channel) : 0.0f;
}

PACELINE_KERNEL pass_head(Recurrent r, RecurrentJoin join, const RowInput* rows, const int* count) {
  let_next_begin();
  const int head = static_cast<int>(block_x()), index = static_cast<int>(block_y()), lane = static_cast<int>(lane_index()), warp = static_cast<int>(warp_index());
  if (index >= load_early(count)) return wait_for_earlier();
  const RowInput row = load_early(rows + index);
  const int warps = parts_of(r), value = warp * kDeltaPart + lane, key_head = key_head_of(r, head);
  const bool keeps_keys = r.grouped_heads ? head % (r.value_heads / r.key_heads) == 0 : head < r.key_heads;  // for all heads that share them
  const float* const mixed = r.mixed + static_cast<size_t>(row.first_column) * r.stride;
  const Convolution convolution = {r, mixed, static_cast<size_t>(r.stride), r.state.conv(row.slot, row.state), 0, row.position};
  const StatePart part(r, row, head, warp);
  if (row.position > 0) part.fetch(r);
  for (int unit = warp; unit < 2; unit += warps) convolution.fetch(channels_of(r, key_head + unit * r.key_heads));
  if (warp == 0) convolution.fetch(channels_of(r, 2 * r.key_heads + head));
  const float weight = join.weight && value < r.value_size ? join.weight[value] : 0.0f, skip = r.skip ? r.skip[head] : 0.0f;
  wait_for_earlier();

  SharedMemory memory;
  float* const s = memory.take<float>(static_cast<size_t>(warps) * r.key_size * kDeltaPart) + warp * r.key_size * kDeltaPart;  // [key_size][32], the warp's own
  float* const query = memory.take<float>(r.key_size);
  float* const key = memory.take<float>(r.key_size);
  float* const outputs = memory.take<float>(r.value_size);
  part.copy(r, row.position == 0, s);
  const float gate = join.weight && value < r.value_size ? join.gates[static_cast<size_t>(row.first_column) * join.gate_stride + head * r.value_size + value] : 0.0f;
  const DeltaGates gates = gates_of(r, mixed, head);
  float* const next = r.state.conv(row.slot, row.state ^ 1);
  for (int unit = warp; unit < 2; unit += warps) {
    const Channels own = channels_of(r, key_head + unit * r.key_heads);
    const int end = own.begin + own.size, padded = padded_end(r, end);
    float* const vector = unit == 0 ? query : key;
    float squares = 0.0f;
    for (int first = own.begin; first < padded; first += kChannelsTogether) {
      float y[kChannelsTogether / kWarp];
      convolution.outputs(first, end, y);
      PACELINE_UNROLL
      for (int j = 0; j < kChannelsTogether / kWarp; ++j) {
        const int channel = first + j * kWarp + lane;
        if (channel < end) vector[channel - own.begin] = y[j];
        squares = add_squares(squares, y[j], channel, end);
        if (keeps_keys) keep_inputs(convolution, next, first + j * kWarp, end, padded);
      }
    }
    if (r.skip) continue;
    const float factor = length_factor(r, unit == 0, squares);
    for (int k = lane; k < r.key_size; k += kWarp) vector[k] = vector[k] * factor;
  }
  const Channels values = channels_of(r, 2 * r.key_heads + head);
  const int first = values.begin + warp * kDeltaPart, values_end = values.begin + values.size;
  float own_value[1];
  convolution.outputs(first, values_end, own_value);
  const int kept_end = warp + 1 < warps ? first + kDeltaPart : padded_end(r, values_end);
  for (int at = first; at < kept_end; at += kWarp) keep_inputs(convolution, next, at, values_end, kept_end);
  wait_copies<0>();
  sync_block();
  float out = 0.0f;
  if (lane < part.width) out = pass_token(r, s + lane, key, query, gates, own_value[0], value < r.value_size, skip);
  if (!join.weight) {
    if (value < r.value_size) r.out[static_cast<size_t>(row.first_column) * r.out_stride + head * r.value_size + value] = out;
  } else {
    if (value < r.value_size) outputs[value] = out;
    sync_block();
    const float scale = inverse_rms(outputs, r.value_size, join.epsilon);
    store_block(join.out, row.first_column, (head * r.value_size + warp * kDeltaPart) / kBlock, out * scale * weight * (gate * sigmoid(gate)));
  }
  part.store(r, s);
}

}  // namespace

bool fits_recurrent_token(const Recurrent& r) { return r.state.value_stride <= 8 * kDeltaPart && shared_bytes(r) <= kMostShared; }

bool joins_heads(const Recurrent& r, const RecurrentJoin& join) { return !join.gates_first && join.size == r.value_size && r.value_size % kBlock == 0; }

void recurrent_token(const Recurrent& r, const RecurrentJoin& join, const RowInput* rows, const int* count, int most_rows, Stream stream) {
  launch("recurrent_token", pass_head, {static_cast<unsigned>(r.value_heads), static_cast<unsigned>(most_rows), 1}, parts_of(r) * kWarp, shared_bytes(r), stream, r, join, rows, count);
}

}  // namespace paceline::cuda
