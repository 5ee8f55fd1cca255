// Parts of a recurrent layer, token by token, as in native/cpu/recurrent_inputs.cpp and delta_rule.cpp.
#pragma once

#include "../cpu/bounds.h"
#include "operations.h"

namespace paceline::cuda {

constexpr float kLengthEpsilon = 1e-6f;

// How a head's state decays at a token, and how much of it is replaced.
struct DeltaGates {
  float decay, beta;
};
// mixed: of the token's column.
PACELINE_DEVICE DeltaGates gates_of(const Recurrent& r, const float* mixed, int head) {
  const float step = softplus(mixed[r.alpha_offset + head] + r.time_bias[head]);
  return {exponential_or_nan(r.decay[head] * step), r.skip ? step : 1.0f / (1.0f + exponential_or_nan(-mixed[r.beta_offset + head]))};
}

// Channels that are convolved, and normed, together: a head's queries, keys or values. Queries come first, then keys.
struct Channels {
  int begin, size;
};
PACELINE_DEVICE Channels channels_of(const Recurrent& r, int unit) {
  const int heads = 2 * r.key_heads;
  if (unit >= heads) return {r.value_channel + (unit - heads) * r.value_size, r.value_size};
  return {unit < r.key_heads ? r.query_channel + unit * r.key_size : r.key_channel + (unit - r.key_heads) * r.key_size, r.key_size};
}
// Where channels that end here end with the padding behind the last of all, which is zeros.
PACELINE_DEVICE int padded_end(const Recurrent& r, int end) {
  return end == 2 * r.key_heads * r.key_size + r.value_heads * r.value_size ? r.state.channel_stride : end;
}
// Whose queries and keys a head has.
PACELINE_DEVICE int key_head_of(const Recurrent& r, int head) { return r.grouped_heads ? head / (r.value_heads / r.key_heads) : head % r.key_heads; }
constexpr int kChannelsTogether = 4 * kWarp;  // whose inputs are all on their way before the first is used

// The convolution of one token of a row.
struct Convolution {
  const Recurrent& r;
  const float* mixed;  // of the row's tokens
  size_t stride;
  const float* past;   // the inputs that the row before it has left
  int index, position; // of the token in the row; of the row

  PACELINE_DEVICE float input(int token, int channel) const {
    if (token >= 0) return mixed[token * stride + channel];
    return position == 0 ? 0.0f : past[static_cast<size_t>(token + r.taps - 1) * r.state.channel_stride + channel];
  }
  // Channels first + lane, a warp's width apart, up to `end` -> y, 0 past it
  template <int together>
  PACELINE_DEVICE void outputs(int first, int end, float (&y)[together]) const {
    if (r.taps <= kFewTaps) return few_taps(first, end, y);
    PACELINE_UNROLL
    for (int j = 0; j < together; ++j) {
      const int channel = first + j * kWarp + static_cast<int>(lane_index());
      float sum = 0.0f;
      if (channel < end) {
        if (r.taps_bias) sum = r.taps_bias[channel];
        PACELINE_UNROLL_BY(1)
        for (int tap = 0; tap < r.taps; ++tap) sum = fma(weight(tap, channel), input(index - (r.taps - 1) + tap, channel), sum);
      }
      y[j] = gated(sum);
    }
  }
  // Prefetches all but the token itself, which the kernel before may still write.
  PACELINE_DEVICE void fetch(const Channels& channels) const {
    for (int tap = 0; tap < r.taps; ++tap) fetch_floats(r.taps_weights + static_cast<size_t>(tap) * r.state.channel_stride + channels.begin, channels.size);
    for (int i = index; i < r.taps - 1 && position > 0; ++i) fetch_floats(past + static_cast<size_t>(i) * r.state.channel_stride + channels.begin, channels.size);
  }

 private:
  static constexpr int kFewTaps = 4;

  PACELINE_DEVICE float weight(int tap, int channel) const { return r.taps_weights[static_cast<size_t>(tap) * r.state.channel_stride + channel]; }
  PACELINE_DEVICE static float gated(float sum) { return sum / (1.0f + exponential(0.0f - sum)); }
  template <int together>
  PACELINE_DEVICE void few_taps(int first, int end, float (&y)[together]) const {
    float weights[together][kFewTaps], inputs[together][kFewTaps], sums[together];
    PACELINE_UNROLL
    for (int j = 0; j < together; ++j) {
      const int channel = first + j * kWarp + static_cast<int>(lane_index());
      const bool present = channel < end;
      sums[j] = present && r.taps_bias ? r.taps_bias[channel] : 0.0f;
      for (int tap = 0; tap < kFewTaps; ++tap) {
        const bool taken = present && tap < r.taps;
        weights[j][tap] = taken ? weight(tap, channel) : 0.0f;
        inputs[j][tap] = taken ? input(index - (r.taps - 1) + tap, channel) : 0.0f;
      }
    }
    PACELINE_UNROLL
    for (int j = 0; j < together; ++j) {
      for (int tap = 0; tap < kFewTaps; ++tap)
        if (tap < r.taps) sums[j] = fma(weights[j][tap], inputs[j][tap], sums[j]);
      y[j] = gated(sums[j]);
    }
  }
};

// What a lane adds to its virtual lane's sum of squares, index mod 16, ascending; y: of the next channel of each lane.
PACELINE_DEVICE float add_squares(float squares, float y, int channel, int end) {
  const int lane = static_cast<int>(lane_index());
  const float upper = shuffle(y, lane + kVirtual);
  if (channel < end) squares = fma(y, y, squares);
  if (lane < kVirtual && channel + kVirtual < end) squares = fma(upper, upper, squares);
  return squares;
}
PACELINE_DEVICE float length_factor(const Recurrent& r, bool is_query, float squares) {
  return (is_query ? r.query_scale : 1.0f) / square_root(fold_sum(squares) + kLengthEpsilon);
}

// A lane's value of a head's state, all keys: s [key_size][32] in shared memory.
constexpr int kKeysTogether = 16;  // loaded before the first is used, since a store in between might alias any of them
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
// One token: updates the lane's column of the state -> what the query reads of it. has_value: of a lane that has none the state stays as it decays.
PACELINE_DEVICE float pass_token(const Recurrent& r, float* column, const float* key, const float* query, const DeltaGates& gates, float value, bool has_value, float skip) {
  float seen = 0.0f, out = 0.0f;
  const int whole = r.key_size / kKeysTogether * kKeysTogether, sought = r.skip ? 0 : whole;
  for (int k = 0; k < sought; k += kKeysTogether) {
    const KeysOf own = load_keys(column + k * kDeltaPart, key + k);
    PACELINE_UNROLL
    for (int i = 0; i < kKeysTogether; ++i) seen = fma(own.state[i] * gates.decay, own.vector[i], seen);
  }
  for (int k = whole; !r.skip && k < r.key_size; ++k) seen = fma(column[k * kDeltaPart] * gates.decay, key[k], seen);
  const float delta = has_value ? gates.beta * (r.skip ? value : value - seen) : 0.0f;
  for (int k = 0; k < whole; k += kKeysTogether) {
    KeysOf own = load_keys(column + k * kDeltaPart, key + k);
    float asked[kKeysTogether];
    PACELINE_UNROLL
    for (int i = 0; i < kKeysTogether; ++i) asked[i] = query[k + i];
    PACELINE_UNROLL
    for (int i = 0; i < kKeysTogether; ++i) {
      own.state[i] = fma(own.vector[i], delta, own.state[i] * gates.decay);
      out = fma(own.state[i], asked[i], out);
    }
    PACELINE_UNROLL
    for (int i = 0; i < kKeysTogether; ++i) column[(k + i) * kDeltaPart] = own.state[i];
  }
  for (int k = whole; k < r.key_size; ++k) {
    const float updated = fma(key[k], delta, column[k * kDeltaPart] * gates.decay);
    column[k * kDeltaPart] = updated;
    out = fma(updated, query[k], out);
  }
  return r.skip ? fma(skip, value, out) : out;
}

// A head's state in parts, one for a warp: kDeltaPart values each, or the last ones.
PACELINE_HOST_DEVICE int parts_of(const Recurrent& r) { return (r.state.value_stride + kDeltaPart - 1) / kDeltaPart; }
struct StatePart {
  const float* from;
  float* to;
  int width;

  PACELINE_DEVICE StatePart(const Recurrent& r, const RowInput& row, int head, int part) {
    const int first = part * kDeltaPart, left = r.state.value_stride - first;
    width = left < kDeltaPart ? left : kDeltaPart;
    from = r.state.matrix(row.slot, row.state, head) + first;
    to = r.state.matrix(row.slot, row.state ^ 1, head) + first;
  }
  PACELINE_DEVICE void fetch(const Recurrent& r) const {  // a key's 32 values are one cache line
    for (int k = static_cast<int>(lane_index()); k < r.key_size; k += kWarp) fetch_ahead(from + static_cast<size_t>(k) * r.state.value_stride);
  }
  // The committed state, or zeros -> s [key_size][32], by asynchronous copies that are the warp's last group.
  PACELINE_DEVICE void copy(const Recurrent& r, bool begins, float* s) const {
    const int lane = static_cast<int>(lane_index());
    if (begins) {
      for (int k = 0; k < r.key_size; ++k) s[k * kDeltaPart + lane] = 0.0f;
      return;
    }
    constexpr int kPieces = kDeltaPart / 4;  // of 16 bytes
    if (lane % kPieces * 4 < width)
      for (int k = lane / kPieces; k < r.key_size; k += kWarp / kPieces)
        copy_async_16(s + k * kDeltaPart + lane % kPieces * 4, from + static_cast<size_t>(k) * r.state.value_stride + lane % kPieces * 4);
    commit_copies();
  }
  PACELINE_DEVICE void store(const Recurrent& r, const float* s) const {
    const int lane = static_cast<int>(lane_index());
    for (int k = 0; lane < width && k < r.key_size; ++k) to[static_cast<size_t>(k) * r.state.value_stride + lane] = s[k * kDeltaPart + lane];
  }
};

}  // namespace paceline::cuda
