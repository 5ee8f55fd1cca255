// Recurrent layers. A gated DeltaNet layer or a state space (recurrent_inputs.cpp, delta_rule.cpp): convolution by columns, then each value head's state over the tokens of its row. A
// gated short convolution has no more than the first.
// The committed state is only read; the other one gets what the row leaves behind.
#include <algorithm>
#include <cstring>
#include <vector>

#include "step.h"

namespace paceline {
namespace {

constexpr float kLengthEpsilon = 1e-6f;

// Convolution and unit lengths of one token: inputs [kernel] -> out [channels]. Queries and keys of a state space keep their length.
void convolve_token(const Kernels& kernels, const Shape& s, const Layer& layer, const float* const* inputs, float* out) {
  kernels.convolve(inputs, layer.convolution, layer.convolution_bias, s.conv_kernel, padded(s.channels(), kLanesWide), s.channels(), true, out);
  if (s.state_space) return;
  const float query_scale = 1.0f / __builtin_sqrtf(static_cast<float>(s.key_size));
  for (int h = 0; h < s.key_heads; ++h) {
    kernels.divide_by_length(kLengthEpsilon, query_scale, s.key_size, out + h * s.key_size);
    kernels.divide_by_length(kLengthEpsilon, 1.0f, s.key_size, out + (s.key_heads + h) * s.key_size);
  }
}

// What the delta rule reads of `tokens` tokens; the state's parts are the caller's.
DeltaRule delta_of(const Shape& s, const Layer& layer, int head, int tokens, const float* convolved, size_t stride, const float* gates, size_t gate_stride) {
  DeltaRule rule{};
  rule.tokens = tokens;
  rule.key_size = s.key_size;
  rule.value_size = s.value_size;
  rule.value_stride = padded(s.value_size, kLanesWide);
  rule.queries = convolved + s.query_channel() + s.key_head(head) * s.key_size;
  rule.keys = convolved + s.key_channel() + s.key_head(head) * s.key_size;
  rule.values = convolved + s.value_channel() + head * s.value_size;
  rule.stride = stride;
  rule.decay = gates + head;
  rule.beta = gates + s.value_heads + head;
  rule.gate_stride = gate_stride;
  rule.skip = s.state_space ? layer.skip + head : nullptr;
  return rule;
}

int delta_parts(const Shape& s) { return (s.value_size + kDeltaPart - 1) / kDeltaPart; }

}  // namespace

void Core::Step::recurrent(Member& me, Private& own, const Layer& layer) {
  norm_columns(me, own, layer.attention_norm);
  const Matrix* const matrices[] = {&layer.mixed, &layer.gate, &layer.alpha, &layer.beta};
  size_t offsets[4] = {};
  for (int i = 0; i < 3; ++i) offsets[i + 1] = offsets[i] + static_cast<size_t>(matrices[i]->tiles) * kTileRows;
  products(me, own, matrices, offsets, s.state_space ? 3 : 4);
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    convolve_column(layer, c);
    float* gates = work.gates.data() + static_cast<size_t>(c) * 2 * s.value_heads;
    const float* const beta = s.state_space ? nullptr : mixed(c) + offsets[3];
    kernels.delta_gates(mixed(c) + offsets[2], beta, layer.decay, layer.time_bias, s.value_heads, gates, gates + s.value_heads);
  }
  me.barrier.wait();
  update_states(me, layer);
  for (int c = begin; c < end; ++c) {
    float* out = work.attention.data() + c * work.stride_attention;
    if (s.state_space) kernels.multiply_gate(mixed(c) + offsets[1], true, s.inner(), out);
    // Each head, or each group of a state space's gated heads, which has weights of its own.
    const int size = s.recurrent_norm_size();
    for (int first = 0; first < s.inner(); first += size) {
      kernels.rms_norm(out + first, layer.recurrent_norm + (s.state_space ? first : 0), s.norm_epsilon, size, own.norm.data());
      std::memcpy(out + first, own.norm.data(), sizeof(float) * size);
    }
    if (!s.state_space) kernels.multiply_gate(mixed(c) + offsets[1], true, s.inner(), out);
  }
  quantize_attention(me, s.inner(), false);
  add_product(me, own, layer.output, work.head_input.views, nullptr);
}

// What a column's convolution reads: the row's own columns up to this one, and beyond its first the committed state. inputs: [conv_kernel].
void Core::Step::list_inputs(const Layer& layer, int c, const float** inputs) {
  const int r = work.row_of[c], index = c - work.first_column[r], slot = rows[r].slot;
  const Slot& state = core.slots_[slot];
  const size_t stride = core.states_->layout().channel_stride;
  const float* past = core.states_->conv(slot, state.state, layer.ordinal);
  for (int tap = 0; tap < s.conv_kernel; ++tap) {
    const int back = s.conv_kernel - 1 - tap;  // tokens before this one
    if (back <= index) inputs[tap] = mixed(c - back);
    else inputs[tap] = rows[r].position == 0 ? work.zeros.data() : past + (index + tap) * stride;
  }
}

// No barrier.
void Core::Step::convolve_column(const Layer& layer, int c) {
  const float* inputs[kMostTaps];
  list_inputs(layer, c, inputs);
  convolve_token(kernels, s, layer, inputs, work.convolved.data() + c * core.states_->layout().channel_stride);
}

// A gated short convolution: [gate | gate of the output | inputs] of a column; gate * inputs is convolved over the last tokens, and the result times its gate.
void Core::Step::gated_convolution(Member& me, Private& own, const Layer& layer) {
  norm_columns(me, own, layer.attention_norm);
  const Matrix* const matrices[] = {&layer.mixed};
  const size_t offsets[] = {0};
  products(me, own, matrices, offsets, 1);
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c)
    for (int i = 0; i < s.width; ++i) mixed(c)[i] *= mixed(c)[2 * s.width + i];
  me.barrier.wait();
  for (int c = begin; c < end; ++c) {
    const float* inputs[kMostTaps];
    list_inputs(layer, c, inputs);
    float* const out = work.attention.data() + c * work.stride_attention;
    kernels.convolve(inputs, layer.convolution, nullptr, s.conv_kernel, core.states_->layout().channel_stride, s.width, false, out);
    for (int i = 0; i < s.width; ++i) out[i] *= mixed(c)[s.width + i];
  }
  const auto [first, last] = me.share(static_cast<int>(rows.size()));
  for (int r = first; r < last; ++r) keep_inputs(layer, r);
  quantize_attention(me, s.width, false);
  add_product(me, own, layer.output, work.head_input.views, nullptr);
}

void Core::Step::update_states(Member& me, const Layer& layer) {
  RecurrentStates& states = *core.states_;
  const size_t stride = states.layout().channel_stride;
  const int count = static_cast<int>(rows.size()), parts = delta_parts(s), per_row = s.value_heads * parts;
  const auto [begin, end] = me.share(count);
  for (int r = begin; r < end; ++r) keep_inputs(layer, r);
  // Items: a row, a value head, a part of its values.
  me.divide(count * per_row, [&](int item) {
    const int r = item / per_row, head = item % per_row / parts, part = item % parts, first = work.first_column[r];
    const Slot& slot = core.slots_[rows[r].slot];
    DeltaRule rule = delta_of(s, layer, head, static_cast<int>(rows[r].tokens.size()), work.convolved.data() + first * stride, stride,
                              work.gates.data() + static_cast<size_t>(first) * 2 * s.value_heads, 2 * static_cast<size_t>(s.value_heads));
    rule.state = rows[r].position == 0 ? nullptr : states.matrix(rows[r].slot, slot.state, layer.ordinal, head);
    rule.updated = states.matrix(rows[r].slot, slot.state ^ 1, layer.ordinal, head);
    rule.out = work.attention.data() + first * work.stride_attention + head * s.value_size;
    rule.out_stride = work.stride_attention;
    kernels.delta_rule(rule, part);
  });
}

// Of a row: the last inputs of the convolution, and the updates for a commit to less than all of it. No barrier.
void Core::Step::keep_inputs(const Layer& layer, int r) {
  RecurrentStates& states = *core.states_;
  const size_t stride = states.layout().channel_stride;
  const int slot = rows[r].slot, count = static_cast<int>(rows[r].tokens.size()), first = work.first_column[r], kept = s.conv_kernel - 1;
  const float* past = states.conv(slot, core.slots_[slot].state, layer.ordinal);
  float* next = states.conv(slot, core.slots_[slot].state ^ 1, layer.ordinal);
  for (int i = 0; i < kept; ++i) {
    const int token = count - kept + i;  // of the row; before it, of the past
    if (token >= 0) std::memcpy(next + i * stride, mixed(first + token), sizeof(float) * s.channels());
    else if (rows[r].position == 0) std::fill(next + i * stride, next + (i + 1) * stride, 0.0f);
    else std::memcpy(next + i * stride, past + (token + kept) * stride, sizeof(float) * stride);
  }
  for (int t = 0; count > 1 && count <= states.layout().replay && t < count; ++t) {
    float* update = states.update(slot, layer.ordinal, t);
    std::memcpy(update, mixed(first + t), sizeof(float) * s.channels());
    if (s.value_heads) std::memcpy(update + stride, work.gates.data() + static_cast<size_t>(first + t) * 2 * s.value_heads, sizeof(float) * 2 * s.value_heads);
  }
}

// The slot's other state again, from its committed one and the first `count` updates of its last step.
void Core::replay(int slot, int count) {
  const StandardFloats floats;
  RecurrentStates& states = *states_;
  const size_t stride = states.layout().channel_stride, update_size = states.layout().update_size();
  const int kept = shape_.conv_kernel - 1, from = slots_[slot].state;
  const bool fresh = slots_[slot].position == 0;
  std::vector<float> convolved(shape_.gated_convolution ? 0 : stride * count + kLanesWide), zeros(stride);
  const float* inputs[kMostTaps];
  for (const Layer& layer : weights_.layers) {
    if (layer.kind != LayerKind::Recurrent) continue;
    const float* past = states.conv(slot, from, layer.ordinal);
    float* next = states.conv(slot, from ^ 1, layer.ordinal);
    const auto input = [&](int token) -> const float* {
      return token >= 0 ? states.update(slot, layer.ordinal, token) : fresh ? zeros.data() : past + (token + kept) * stride;
    };
    for (int t = 0; t < count && !shape_.gated_convolution; ++t) {
      for (int tap = 0; tap < shape_.conv_kernel; ++tap) inputs[tap] = input(t - kept + tap);
      convolve_token(kernels_, shape_, layer, inputs, convolved.data() + t * stride);
    }
    for (int i = 0; i < kept; ++i) std::memcpy(next + i * stride, input(count - kept + i), sizeof(float) * shape_.channels());
    for (int head = 0; head < shape_.value_heads; ++head) {
      DeltaRule rule = delta_of(shape_, layer, head, count, convolved.data(), stride, states.update(slot, layer.ordinal, 0) + stride, update_size);
      rule.state = fresh ? nullptr : states.matrix(slot, from, layer.ordinal, head);
      rule.updated = states.matrix(slot, from ^ 1, layer.ordinal, head);
      for (int part = 0; part < delta_parts(shape_); ++part) kernels_.delta_rule(rule, part);
    }
  }
}

}  // namespace paceline
