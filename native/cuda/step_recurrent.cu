// A recurrent layer (recurrent.cu), the states of all recurrent layers, and the replay of their updates.
#include <algorithm>

#include "work.h"

namespace paceline::cuda {

RecurrentState DeviceCore::state_of(const Layer& layer) const {
  const RecurrentLayout& l = recurrent_;
  return {states_, updates_, l.layers, layer.ordinal, l.channel_stride, l.value_stride, l.replay, l.conv_size(), l.matrix_size(), l.state_size(),
          l.update_size()};
}

Recurrent DeviceCore::recurrent_of(const Layer& layer) const {
  const Shape& s = shape();
  Recurrent r{};
  r.state = state_of(layer);
  r.taps_weights = layer.convolution;
  r.taps_bias = layer.convolution_bias;
  r.decay = layer.decay;
  r.time_bias = layer.time_bias;
  r.skip = layer.skip;
  r.taps = s.conv_kernel;
  r.key_heads = s.key_heads;
  r.value_heads = s.value_heads;
  r.key_size = s.key_size;
  r.value_size = s.value_size;
  r.query_channel = s.query_channel();
  r.key_channel = s.key_channel();
  r.value_channel = s.value_channel();
  r.grouped_heads = s.grouped_heads;
  r.query_scale = 1.0f / __builtin_sqrtf(static_cast<float>(s.key_size));
  return r;
}

void DeviceCore::recurrent(const Layer& layer, const Pass& pass) {
  const auto& [sizes, input, stream, most, columns] = pass;
  const Shape& s = shape();
  Work& work = *work_;
  const Matrix* const inputs[] = {&layer.mixed, &layer.gate, &layer.alpha, &layer.beta};
  run_products(product_of_stream(layer.attention_norm, {&layer.mixed, &layer.gate, &layer.alpha, &layer.beta}, pass), inputs, nullptr, s.state_space ? 3 : 4, work.mixed, most, stream);
  const int gate_offset = layer.mixed.tiles * kTileRows;
  Recurrent r = recurrent_of(layer);
  r.mixed = work.mixed;
  r.stride = work.stride_mixed;
  r.alpha_offset = gate_offset + layer.gate.tiles * kTileRows;
  r.beta_offset = r.alpha_offset + layer.alpha.tiles * kTileRows;
  r.convolved = work.convolved;
  r.gates = work.delta_gates;
  r.out = work.attended;
  r.out_stride = work.attention;
  const float* const gates = work.mixed + gate_offset;
  const int normed = s.recurrent_norm_size(), most_rows = std::min(most, options_.slots);
  const RecurrentJoin outputs = {work.attended, work.attention, gates, work.stride_mixed, layer.recurrent_norm, s.inner() / normed, normed, s.state_space, s.norm_epsilon, columns,
                               work.recurrent_input};
  const bool together = sizes.tokens == 1 && fits_recurrent_token(r), joins = together && joins_heads(r, outputs);
  if (together) {
    recurrent_token(r, joins ? outputs : RecurrentJoin{}, input.rows, &input.counts->rows, most_rows, stream);
  } else {
    convolve(r, input.rows, input.columns, columns, most, stream);
    delta_rule(r, input.rows, &input.counts->rows, most_rows, stream);
  }
  if (!joins) join_recurrent(outputs, most, stream);
  join(layer.output, work.recurrent_input, nullptr, nullptr, pass);
}

GatedConvolution DeviceCore::convolution_of(const Layer& layer) const {
  GatedConvolution g{};
  g.state = state_of(layer);
  g.taps_weights = layer.convolution;
  g.taps = shape().conv_kernel;
  g.width = shape().width;
  return g;
}

void DeviceCore::gated_convolution(const Layer& layer, const Pass& pass) {
  Work& work = *work_;
  const Matrix* const input[] = {&layer.mixed};
  run_products(product_of_stream(layer.attention_norm, {&layer.mixed}, pass), input, nullptr, 1, work.mixed, pass.most, pass.stream);
  GatedConvolution g = convolution_of(layer);
  g.mixed = work.mixed;
  g.stride = work.stride_mixed;
  g.out = work.recurrent_input;
  convolve_gated(g, pass.input.rows, pass.input.columns, pass.columns, pass.most, pass.stream);
  join(layer.output, work.recurrent_input, nullptr, nullptr, pass);
}

void DeviceCore::make_states() {
  if (!shape().recurrent_layers()) return;
  recurrent_ = Core::recurrent_layout(shape());
  recurrent_.slots = options_.slots;
  recurrent_.kept = options_.states;
  recurrent_.replay = options_.replay;
  states_ = reinterpret_cast<float*>(allocate(recurrent_.state_bytes() * (2 * static_cast<size_t>(options_.slots) + options_.states)));
  if (!options_.replay) return;
  updates_ = reinterpret_cast<float*>(allocate(recurrent_.update_bytes() * options_.replay * options_.slots));
  replay_place_ = allocate(sizeof(ReplayInput));
  if (!shape().gated_convolution) replayed_ = reinterpret_cast<float*>(allocate(sizeof(float) * recurrent_.replay * recurrent_.channel_stride));
}

// Recomputes the slot's other state from its committed one and the first updates of its last step.
void DeviceCore::replay(int most, Stream stream) {
  const ReplayInput* const input = reinterpret_cast<const ReplayInput*>(replay_place_);
  for (const Layer& layer : weights_.layers) {
    if (layer.kind != LayerKind::Recurrent) continue;
    if (shape().gated_convolution) {
      convolve_gated(convolution_of(layer), &input->row, nullptr, &input->row.count, most, stream);
      continue;
    }
    Recurrent r = recurrent_of(layer);
    r.convolved = replayed_;
    convolve(r, &input->row, nullptr, &input->row.count, most, stream);
    delta_rule(r, &input->row, &input->rows, 1, stream);
  }
}

}  // namespace paceline::cuda
