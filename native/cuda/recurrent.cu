// Gated DeltaNet and state spaces, token by token, as in native/cpu/delta_rule.cpp: a warp convolves the channels of a head; in the delta rule, a lane has one
// value dimension.
#include "../cpu/kernels.h"
#include "operations.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr float kLengthEpsilon = 1e-6f;

PACELINE_DEVICE float logarithm(float x) {
  const uint32_t shifted = float_to_bits(x) - 0x3f3504f3u;  // sqrt(1/2)
  const int n = static_cast<int32_t>(shifted) >> 23;
  const float m = bits_to_float(float_to_bits(x) - (static_cast<uint32_t>(n) << 23));
  const float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float p = 2.0f / 11.0f;
  p = fma(p, z, 2.0f / 9.0f);
  p = fma(p, z, 2.0f / 7.0f);
  p = fma(p, z, 2.0f / 5.0f);
  p = fma(p, z, 2.0f / 3.0f);
  p = fma(p, z, 2.0f);
  const float whole = static_cast<float>(n);
  return fma(whole, 0.693359375f, fma(whole, -2.12194440e-4f, s * p));
}

PACELINE_DEVICE float softplus(float x) {
  if (x > 20.0f) return x;
  const float e = exponential_or_nan(x), u = 1.0f + e;
  return u == 1.0f ? e : logarithm(u) * (e / (u - 1.0f));
}

// A warp computes a unit of a column: a head's queries, keys or values, or, last, all heads' decays and betas. It also writes what the row leaves behind: the
// last inputs of the convolution and, for short rows, the inputs of all their updates, for a replay.
PACELINE_KERNEL convolve_unit(Recurrent r, const RowInput* rows, const Column* columns, const int* count) {
  let_next_begin();
  const int column = static_cast<int>(block_y()), lane = static_cast<int>(lane_index());
  const int unit = static_cast<int>(block_x()) * kWarps + static_cast<int>(warp_index()), heads = 2 * r.key_heads;
  if (column >= *count || unit > heads + r.value_heads) return wait_for_earlier();
  const RowInput row = rows[columns ? columns[column].row : 0];
  const int index = column - row.first_column;  // in the row
  const RecurrentState& state = r.state;
  const bool keeps = r.mixed && row.count > 1 && row.count <= state.replay;
  float* const update = keeps ? state.update(row.slot, index) : nullptr;
  const float* const mixed = r.mixed ? r.mixed + static_cast<size_t>(row.first_column) * r.stride : state.update(row.slot, 0);
  const size_t stride = r.mixed ? r.stride : state.update_size;
  const bool is_gates = unit == heads + r.value_heads, is_value = unit >= heads;
  const int begin = is_value             ? r.value_channel + (unit - heads) * r.value_size
                    : unit < r.key_heads ? r.query_channel + unit * r.key_size
                                         : r.key_channel + (unit - r.key_heads) * r.key_size;
  const int size = is_value ? r.value_size : r.key_size;
  const int kept = r.taps - 1, channels = heads * r.key_size + r.value_heads * r.value_size;
  const float* const past = state.conv(row.slot, row.state);
  if (!is_gates) {
    for (int tap = 0; tap < r.taps; ++tap) fetch_floats(r.taps_weights + static_cast<size_t>(tap) * state.channel_stride + begin, size);
    for (int i = index; i < kept && row.position > 0; ++i) fetch_floats(past + static_cast<size_t>(i) * state.channel_stride + begin, size);
  }
  wait_for_earlier();
  if (is_gates) {
    if (!r.mixed) return;
    float* const gates = r.gates + static_cast<size_t>(column) * 2 * r.value_heads;
    const float* const own = mixed + index * stride;
    for (int h = lane; h < r.value_heads; h += kWarp) {
      const float step = softplus(own[r.alpha_offset + h] + r.time_bias[h]);
      const float decay = exponential_or_nan(r.decay[h] * step);
      const float beta = r.skip ? step : 1.0f / (1.0f + exponential_or_nan(-own[r.beta_offset + h]));
      gates[h] = decay;
      gates[r.value_heads + h] = beta;
      if (!keeps) continue;
      update[state.channel_stride + h] = decay;
      update[state.channel_stride + r.value_heads + h] = beta;
    }
    return;
  }
  float* const next = state.conv(row.slot, row.state ^ 1);
  float* const out = r.convolved + static_cast<size_t>(column) * state.channel_stride;
  const auto input = [&](int token, int channel) {  // from the row, or the kept inputs before it
    if (token >= 0) return mixed[token * stride + channel];
    return row.position == 0 ? 0.0f : past[static_cast<size_t>(token + kept) * state.channel_stride + channel];
  };
  // The padding behind the last channel is zeros.
  const int end = begin + size == channels ? state.channel_stride : begin + size;
  float squares = 0.0f;
  for (int first = begin; first < end; first += kWarp) {
    const int channel = first + lane;
    float y = 0.0f;
    if (channel < begin + size) {
      float sum = r.taps_bias ? r.taps_bias[channel] : 0.0f;
      for (int tap = 0; tap < r.taps; ++tap)
        sum = fma(r.taps_weights[static_cast<size_t>(tap) * state.channel_stride + channel], input(index - kept + tap, channel), sum);
      y = sum / (1.0f + exponential(0.0f - sum));
      out[channel] = y;
      if (keeps) update[channel] = input(index, channel);
    }
    if (channel < end)
      for (int i = 0; i < kept; ++i) {
        const int token = row.count - kept + i;
        if (token == index || (token < 0 && index == 0))
          next[static_cast<size_t>(i) * state.channel_stride + channel] = channel < begin + size ? input(token, channel) : 0.0f;
      }
    // Sixteen virtual lanes: index mod 16, ascending.
    const float upper = shuffle(y, lane + kVirtual);
    if (channel < begin + size) squares = fma(y, y, squares);
    if (lane < kVirtual && channel + kVirtual < begin + size) squares = fma(upper, upper, squares);
  }
  if (is_value || r.skip) return;
  const float factor = (unit < r.key_heads ? r.query_scale : 1.0f) / square_root(fold_sum(squares) + kLengthEpsilon);
  for (int channel = begin + lane; channel < begin + size; channel += kWarp) out[channel] = out[channel] * factor;
}

// Some elements of a lane's column of the state, and of the key vector: all loaded before the first is used, since a store in between might alias any of them.
constexpr int kKeysTogether = 16;
struct KeysOf {
  float state[kKeysTogether], vector[kKeysTogether];
};
PACELINE_DEVICE KeysOf load_keys(const float* column, const float* vector) {
  KeysOf keys;
  PACELINE_UNROLL
  for (int i = 0; i < kKeysTogether; ++i) {
    keys.state[i] = column[i * kDeltaPart];
    keys.vector[i] = vector[i];
  }
  return keys;
}

// 32 value dimensions of a head, over all tokens of a row, by one warp. The state stays in shared memory.
PACELINE_KERNEL delta_part(Recurrent r, const RowInput* rows, const int* count) {
  let_next_begin();
  const int index = static_cast<int>(block_z()), head = static_cast<int>(block_y()), lane = static_cast<int>(lane_index());
  if (index >= *count) return wait_for_earlier();
  const RowInput row = rows[index];
  const RecurrentState& state = r.state;
  const int first = static_cast<int>(block_x()) * kDeltaPart, left = state.value_stride - first, width = left < kDeltaPart ? left : kDeltaPart;
  SharedMemory memory;
  float* const s = memory.take<float>(static_cast<size_t>(r.key_size) * kDeltaPart);  // [key_size][32]
  float* const key = memory.take<float>(r.key_size);
  float* const query = memory.take<float>(r.key_size);
  const float* const from = state.matrix(row.slot, row.state, head) + first;
  float* const to = state.matrix(row.slot, row.state ^ 1, head) + first;
  if (row.position > 0)  // a key's 32 values are one cache line
    for (int k = lane; k < r.key_size; k += kWarp) fetch_ahead(from + static_cast<size_t>(k) * state.value_stride);
  wait_for_earlier();
  if (row.position == 0) {
    for (int k = 0; k < r.key_size; ++k) s[k * kDeltaPart + lane] = 0.0f;
  } else {
    constexpr int kPieces = kDeltaPart / 4;  // of 16 bytes
    if (lane % kPieces * 4 < width)
      for (int k = lane / kPieces; k < r.key_size; k += kWarp / kPieces)
        copy_async_16(s + k * kDeltaPart + lane % kPieces * 4, from + static_cast<size_t>(k) * state.value_stride + lane % kPieces * 4);
    commit_copies();
  }
  const int key_head = r.grouped_heads ? head / (r.value_heads / r.key_heads) : head % r.key_heads, value = first + lane;
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
    if (lane >= width) continue;
    float seen = 0.0f, out = 0.0f;
    float* const column = s + lane;
    const int whole = r.key_size / kKeysTogether * kKeysTogether, sought = r.skip ? 0 : whole;
    for (int k = 0; k < sought; k += kKeysTogether) {
      const KeysOf own = load_keys(column + k * kDeltaPart, key + k);
      PACELINE_UNROLL
      for (int i = 0; i < kKeysTogether; ++i) seen = fma(own.state[i] * decay, own.vector[i], seen);
    }
    for (int k = whole; !r.skip && k < r.key_size; ++k) seen = fma(column[k * kDeltaPart] * decay, key[k], seen);
    const float delta = value < r.value_size ? beta * (r.skip ? own_value : own_value - seen) : 0.0f;
    for (int k = 0; k < whole; k += kKeysTogether) {
      KeysOf own = load_keys(column + k * kDeltaPart, key + k);
      float asked[kKeysTogether];
      PACELINE_UNROLL
      for (int i = 0; i < kKeysTogether; ++i) asked[i] = query[k + i];
      PACELINE_UNROLL
      for (int i = 0; i < kKeysTogether; ++i) {
        own.state[i] = fma(own.vector[i], delta, own.state[i] * decay);
        out = fma(own.state[i], asked[i], out);
      }
      PACELINE_UNROLL
      for (int i = 0; i < kKeysTogether; ++i) column[(k + i) * kDeltaPart] = own.state[i];
    }
    for (int k = whole; k < r.key_size; ++k) {
      const float updated = fma(key[k], delta, column[k * kDeltaPart] * decay);
      column[k * kDeltaPart] = updated;
      out = fma(updated, query[k], out);
    }
    if (r.skip) out = fma(skip, own_value, out);
    if (r.out && value < r.value_size) r.out[static_cast<size_t>(row.first_column + token) * r.out_stride + head * r.value_size + value] = out;
  }
  if (lane >= width) return;
  for (int k = 0; k < r.key_size; ++k) to[static_cast<size_t>(k) * state.value_stride + lane] = s[k * kDeltaPart + lane];
}

}  // namespace

void convolve(const Recurrent& r, const RowInput* rows, const Column* columns, const int* count, int most, Stream stream) {
  const unsigned units = static_cast<unsigned>(2 * r.key_heads + r.value_heads + 1);
  launch("convolve", convolve_unit, {(units + kWarps - 1) / kWarps, static_cast<unsigned>(most), 1}, kWarps * kWarp, 0, stream, r, rows, columns, count);
}

void delta_rule(const Recurrent& r, const RowInput* rows, const int* count, int most_rows, Stream stream) {
  const unsigned parts = static_cast<unsigned>((r.state.value_stride + kDeltaPart - 1) / kDeltaPart);
  const size_t vector = (static_cast<size_t>(r.key_size) * 4 + 15) / 16 * 16, shared = static_cast<size_t>(r.key_size) * kDeltaPart * 4 + 2 * vector;
  launch("delta_rule", delta_part, {parts, static_cast<unsigned>(r.value_heads), static_cast<unsigned>(most_rows)}, kWarp, shared, stream, r, rows, count);
}

}  // namespace paceline::cuda
