// Gated DeltaNet and state spaces, token by token, as in native/cpu/delta_rule.cpp: a warp convolves the channels of a head; in the delta rule, a lane has one
// value dimension.
#include "recurrent.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 4;

// A warp computes a unit of a column: a head's queries, keys or values, or, last, all heads' decays and betas. It also writes what the row leaves behind: the
// last inputs of the convolution and, for short rows, the inputs of all their updates, for a replay.
PACELINE_KERNEL convolve_unit(Recurrent r, const RowInput* rows, const Column* columns, const int* count) {
  let_next_begin();
  const int column = static_cast<int>(block_y()), lane = static_cast<int>(lane_index());
  const int unit = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index()), heads = 2 * r.key_heads;
  if (column >= load_early(count) || unit > heads + r.value_heads) return wait_for_earlier();
  const RowInput row = load_early(rows + (columns ? load_early(&columns[column].row) : 0));
  const int index = column - row.first_column;  // in the row
  const RecurrentState& state = r.state;
  const bool keeps = r.mixed && row.count > 1 && row.count <= state.replay;
  float* const update = keeps ? state.update(row.slot, index) : nullptr;
  const float* const mixed = r.mixed ? r.mixed + static_cast<size_t>(row.first_column) * r.stride : state.update(row.slot, 0);
  const size_t stride = r.mixed ? r.stride : state.update_size;
  const bool is_gates = unit == heads + r.value_heads, is_value = unit >= heads;
  const Channels own = channels_of(r, unit);
  const int kept = r.taps - 1, own_end = own.begin + own.size, end = padded_end(r, own_end);
  const Convolution convolution = {r, mixed, stride, state.conv(row.slot, row.state), index, row.position};
  if (!is_gates) convolution.fetch(own);
  wait_for_earlier();
  if (is_gates) {
    if (!r.mixed) return;
    float* const gates = r.gates + static_cast<size_t>(column) * 2 * r.value_heads;
    for (int h = lane; h < r.value_heads; h += kWarp) {
      const DeltaGates both = gates_of(r, mixed + index * stride, h);
      gates[h] = both.decay;
      gates[r.value_heads + h] = both.beta;
      if (!keeps) continue;
      update[state.channel_stride + h] = both.decay;
      update[state.channel_stride + r.value_heads + h] = both.beta;
    }
    return;
  }
  float* const next = state.conv(row.slot, row.state ^ 1);
  float* const out = r.convolved + static_cast<size_t>(column) * state.channel_stride;
  float squares = 0.0f;
  for (int first = own.begin; first < end; first += kChannelsTogether) {
    float y[kChannelsTogether / kWarp];
    convolution.outputs(first, own_end, y);
    PACELINE_UNROLL
    for (int j = 0; j < kChannelsTogether / kWarp; ++j) {
      const int channel = first + j * kWarp + lane;
      if (channel < own_end) {
        out[channel] = y[j];
        if (keeps) update[channel] = convolution.input(index, channel);
      }
      if (channel < end)
        for (int i = 0; i < kept; ++i) {
          const int token = row.count - kept + i;
          if (token == index || (token < 0 && index == 0))
            next[static_cast<size_t>(i) * state.channel_stride + channel] = channel < own_end ? convolution.input(token, channel) : 0.0f;
        }
      squares = add_squares(squares, y[j], channel, own_end);
    }
  }
  if (is_value || r.skip) return;
  const float factor = length_factor(r, unit < r.key_heads, squares);
  for (int channel = own.begin + lane; channel < own_end; channel += kWarp) out[channel] = out[channel] * factor;
}

// 32 value dimensions of a head, over all tokens of a row, by one warp. The state stays in shared memory.
PACELINE_KERNEL delta_part(Recurrent r, const RowInput* rows, const int* count) {
  let_next_begin();
  const int index = static_cast<int>(block_z()), head = static_cast<int>(block_y()), lane = static_cast<int>(lane_index());
  if (index >= load_early(count)) return wait_for_earlier();
  const RowInput row = load_early(rows + index);
  const RecurrentState& state = r.state;
  const int first = static_cast<int>(block_x()) * kDeltaPart;
  const StatePart part(r, row, head, static_cast<int>(block_x()));
  SharedMemory memory;
  float* const s = memory.take<float>(static_cast<size_t>(r.key_size) * kDeltaPart);  // [key_size][32]
  float* const key = memory.take<float>(r.key_size);
  float* const query = memory.take<float>(r.key_size);
  if (row.position > 0) part.fetch(r);
  wait_for_earlier();
  part.copy(r, row.position == 0, s);
  const int key_head = key_head_of(r, head), value = first + lane;
  const float* const convolved = r.convolved + static_cast<size_t>(row.first_column) * state.channel_stride;
  const float* const queries = convolved + r.query_channel + key_head * r.key_size;
  const float* const keys = convolved + r.key_channel + key_head * r.key_size;
  const float* const values = convolved + r.value_channel + head * r.value_size;
  const float* const gates = r.mixed ? r.gates + static_cast<size_t>(row.first_column) * 2 * r.value_heads : state.update(row.slot, 0) + state.channel_stride;
  const size_t gate_stride = r.mixed ? 2 * static_cast<size_t>(r.value_heads) : state.update_size;
  constexpr int kOwn = kDeltaKeys / kWarp;
  float next_key[kOwn], next_query[kOwn], next_decay = 0.0f, next_beta = 0.0f, next_value = 0.0f;
  const auto fetch = [&](int token) {
    PACELINE_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int k = i * kWarp + lane;
      if (k >= r.key_size) continue;
      next_key[i] = keys[static_cast<size_t>(token) * state.channel_stride + k];
      next_query[i] = queries[static_cast<size_t>(token) * state.channel_stride + k];
    }
    next_decay = gates[token * gate_stride + head];
    next_beta = gates[token * gate_stride + r.value_heads + head];
    if (value < r.value_size) next_value = values[static_cast<size_t>(token) * state.channel_stride + value];
  };
  const float skip = r.skip ? r.skip[head] : 0.0f;
  fetch(0);
  wait_copies<0>();
  for (int token = 0; token < row.count; ++token) {
    sync_warp();  // the state has arrived; no lane still reads the previous token's key and query
    PACELINE_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int k = i * kWarp + lane;
      if (k >= r.key_size) continue;
      key[k] = next_key[i];
      query[k] = next_query[i];
    }
    const float decay = next_decay, beta = next_beta, own_value = next_value;
    sync_warp();
    if (token + 1 < row.count) fetch(token + 1);
    if (lane >= part.width) continue;
    const float out = pass_token(r, s + lane, key, query, {decay, beta}, own_value, value < r.value_size, skip);
    if (r.out && value < r.value_size) r.out[static_cast<size_t>(row.first_column + token) * r.out_stride + head * r.value_size + value] = out;
  }
  part.store(r, s);
}

}  // namespace

void convolve(const Recurrent& r, const RowInput* rows, const Column* columns, const int* count, int most, Stream stream) {
  const unsigned units = static_cast<unsigned>(2 * r.key_heads + r.value_heads + 1);
  launch("convolve", convolve_unit, {(units + kWarps - 1) / kWarps, static_cast<unsigned>(most), 1}, kWarps * kWarp, 0, stream, r, rows, columns, count);
}

void delta_rule(const Recurrent& r, const RowInput* rows, const int* count, int most_rows, Stream stream) {
  const size_t vector = (static_cast<size_t>(r.key_size) * 4 + 15) / 16 * 16, shared = static_cast<size_t>(r.key_size) * kDeltaPart * 4 + 2 * vector;
  launch("delta_rule", delta_part, {static_cast<unsigned>(parts_of(r)), static_cast<unsigned>(r.value_heads), static_cast<unsigned>(most_rows)}, kWarp, shared, stream, r, rows, count);
}

}  // namespace paceline::cuda
