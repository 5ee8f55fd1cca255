// What each layer takes of a token itself, whatever came before it: a row of a table, and a product of the token's embedding that is normed layer by layer.
// At its end a layer adds the norm of output * (gelu(gate * x) * inputs), where x is the residual stream as it stands.
#include <algorithm>
#include <cstring>

#include "step.h"
#include "repack.h"

namespace paceline {

// x as it is, as the input of the next product; of models that norm only what a branch adds, of every one.
void Core::Step::quantize_stream(Member& me, Private& own) {
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* const inputs = normed(own, c, columns);
    std::memcpy(inputs, x + c * work.stride_x, sizeof(float) * s.width);
    std::fill(inputs + s.width, inputs + padded(s.width, kBlock), 0.0f);
    quantize_column(inputs, work.width_input.blocks, c, columns, work.width_input.views);
  }
  me.barrier.wait();
  interleave(me, work.normed.data(), work.stride_normed, work.width_input.blocks, columns, work.width_input.views);
}

void Core::Step::read_token_inputs(Member& me, Private& own) {
  const Weights& weights = core.weights_;
  quantize_stream(me, own);
  me.divide(weights.token_product.tiles, [&](int t) {
    kernels.product(weights.token_product, t, work.width_input.views, columns, Epilogue::Store, work.token_inputs.data(), work.stride_tokens, own.scratch);
  });
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* const inputs = work.token_inputs.data() + c * work.stride_tokens;
    for (int l = 0; l < s.layers; ++l) kernels.rms_norm(inputs + l * s.token_inputs, weights.token_norm, s.norm_epsilon, s.token_inputs, inputs + l * s.token_inputs);
    read_row(weights.token_table, token_of(c), own.norm.data());
    kernels.add_scaled(own.norm.data(), 1.0f, s.layers * s.token_inputs, inputs);
  }
}

void Core::Step::add_token_inputs(Member& me, Private& own, const Layer& layer) {
  quantize_stream(me, own);
  me.divide(layer.token_gate.tiles, [&](int t) {
    kernels.product(layer.token_gate, t, work.width_input.views, columns, Epilogue::Store, work.mixed.data(), work.stride_mixed, own.scratch);
  });
  const int blocks = s.token_inputs / kBlock;
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    kernels.activate(mixed(c), work.token_inputs.data() + c * work.stride_tokens + layer.number * s.token_inputs, s.activation, s.token_inputs, mixed(c));
    quantize_column(mixed(c), blocks, c, columns, work.ffn_input.views);
  }
  me.barrier.wait();
  interleave(me, work.mixed.data(), work.stride_mixed, blocks, columns, work.ffn_input.views);
  add_product(me, own, layer.token_output, work.ffn_input.views, layer.token_norm, layer.scale);
}

}  // namespace paceline
