// What each layer takes of a token itself (native/cpu/step_tokens.cpp).
#include "work.h"

namespace paceline::cuda {

void DeviceCore::read_token_inputs(const Pass& pass) {
  const Shape& s = shape();
  Work& work = *work_;
  const Matrix& table = weights_.token_table;
  read_stream(nullptr, pass);
  run_product_of(weights_.token_product, work.width_input, pass.columns, work.token_products, work.stride_tokens, false, pass.most, pass.stream);
  embed(table.format, {table.data, nullptr, table.scale, table.tiles}, table.blocks, table.columns, 1.0f, pass.input, work.tokens, work.token_inputs, work.stride_tokens, pass.most, pass.stream);
  add_token_norms({work.token_products, work.token_inputs, work.stride_tokens, s.layers, s.token_inputs, weights_.token_norm, s.norm_epsilon, pass.columns}, pass.most, pass.stream);
}

void DeviceCore::add_token_inputs(const Layer& layer, const Pass& pass) {
  const Shape& s = shape();
  Work& work = *work_;
  read_stream(nullptr, pass);
  run_product_of(layer.token_gate, work.width_input, pass.columns, work.mixed, work.stride_mixed, false, pass.most, pass.stream);
  Activations inputs = work.ffn_input;
  inputs.blocks = s.token_inputs / kBlock;
  gate({work.mixed, work.token_inputs + static_cast<size_t>(layer.number) * s.token_inputs, work.stride_mixed, work.stride_tokens, s.token_inputs, s.activation, pass.columns, nullptr, 1, inputs},
       pass.most, pass.stream);
  join(layer.token_output, inputs, layer.token_norm, layer.scale, pass);
}

}  // namespace paceline::cuda
