// Latent attention: of a token only a few hundred values are kept (`latent`), and what turns of its key. Each head's keys and values follow from these by a
// matrix, which is applied to the queries before and to the results after, so that all heads read one key and one value: the latent ones (https://arxiv.org/abs/2405.04434).
#include <algorithm>
#include <cstring>

#include "step.h"

namespace paceline {

void Core::Step::latent_attention(Member& me, Private& own, const Layer& layer) {
  norm_columns(me, own, layer.attention_norm);
  const Matrix* const matrices[] = {&layer.q, &layer.k};
  const size_t offsets[] = {0, static_cast<size_t>(layer.q.tiles) * kTileRows};
  products(me, own, matrices, offsets, 2);
  if (s.query_rank) expand_queries(me, own, layer);
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) place_latents(own, layer, c);
  me.barrier.wait();
  const int turning = s.latent_keys + s.rope_size, groups = padded(columns, kGroup) / kGroup;
  interleave_heads(me, s.query_rank ? work.latent_queries.data() : work.mixed.data(), s.query_rank ? work.stride_latent : work.stride_mixed, turning, work.key_input);
  head_products(me, own, layer.k_b, work.key_input, work.queries.data(), work.stride_queries, s.head_size);
  attend(me, own, layer);
  merge_splits(me, own, layer);
  const int blocks = s.latent / kBlock;
  for (int c = begin; c < end; ++c)
    for (int h = 0; h < s.heads; ++h)
      quantize_column(work.attention.data() + c * work.stride_attention + h * s.latent, blocks, c, columns, work.value_input.from(h * groups));
  me.barrier.wait();
  interleave_heads(me, work.attention.data(), work.stride_attention, s.latent, work.value_input);
  head_products(me, own, layer.v_b, work.value_input, work.latent_queries.data(), work.stride_latent, s.latent_values);
  const int outputs_blocks = s.heads * s.latent_values / kBlock;
  for (int c = begin; c < end; ++c) quantize_column(work.latent_queries.data() + c * work.stride_latent, outputs_blocks, c, columns, work.head_input.views);
  me.barrier.wait();
  interleave(me, work.latent_queries.data(), work.stride_latent, outputs_blocks, columns, work.head_input.views);
  add_product(me, own, layer.output, work.head_input.views, layer.attention_post_norm);
}

void Core::Step::expand_queries(Member& me, Private& own, const Layer& layer) {
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* const inputs = normed(own, c, columns);
    kernels.rms_norm(mixed(c), layer.q_norm, s.norm_epsilon, s.query_rank, inputs);
    quantize_column(inputs, work.rank_input.blocks, c, columns, work.rank_input.views);
  }
  me.barrier.wait();
  interleave(me, work.normed.data(), work.stride_normed, work.rank_input.blocks, columns, work.rank_input.views);
  me.divide(layer.q_b.tiles, [&](int t) {
    kernels.product(layer.q_b, t, work.rank_input.views, columns, Epilogue::Store, work.latent_queries.data(), work.stride_latent, own.scratch);
  });
}

// The turning part of one column's queries into their places, the rest as inputs of the heads' products; its key and value into the cache. No barrier.
void Core::Step::place_latents(Private& own, const Layer& layer, int c) {
  const int groups = padded(columns, kGroup) / kGroup, position = work.position_of[c];
  float* const from = s.query_rank ? work.latent_queries.data() + c * work.stride_latent : mixed(c);
  const float* const cosine = core.tables_.rotation.cosine.data() + static_cast<size_t>(position) * (s.rope_size / 2);
  const float* const sine = core.tables_.rotation.sine.data() + static_cast<size_t>(position) * (s.rope_size / 2);
  if (!core.tables_.temperatures.empty()) {
    const float scale = temperature(position);
    for (int i = 0; i < s.latent_queries(); ++i) from[i] *= scale;
  }
  for (int h = 0; h < s.heads; ++h) {
    const float* const head = from + h * (s.latent_keys + s.rope_size);
    float* const turning = queries(c) + h * s.head_size + s.latent;
    std::memcpy(turning, head + s.latent_keys, sizeof(float) * s.rope_size);
    kernels.rotate(turning, 1, s.rope_size, s.rope_size, s.rope_pairs, cosine, sine);
    for (int i = 0; i < s.rope_size; ++i) turning[i] *= s.query_scale;
    quantize_column(head, s.latent_keys / kBlock, c, columns, work.key_input.from(h * groups));
  }
  float* const key = mixed(c) + static_cast<size_t>(layer.q.tiles) * kTileRows;
  kernels.rms_norm(key, layer.k_norm, s.norm_epsilon, s.latent, own.norm.data());
  std::memcpy(key, own.norm.data(), sizeof(float) * s.latent);
  kernels.rotate(key + s.latent, 1, s.rope_size, s.rope_size, s.rope_pairs, cosine, sine);
  kernels.write_cache(cache(layer, 0), rows[work.row_of[c]].table[position / kPage], position, key, key);
}

// out [column][head_stride * head] = each head's matrix times its own inputs
void Core::Step::head_products(Member& me, Private& own, const std::vector<Matrix>& heads, const ActivationRoom& input, float* out, size_t stride, int head_stride) {
  const int groups = padded(columns, kGroup) / kGroup, tiles = heads[0].tiles;
  me.divide(s.heads * tiles, [&](int unit) {
    const int h = unit / tiles;
    kernels.product(heads[h], unit % tiles, input.from(h * groups), columns, Epilogue::Store, out + static_cast<size_t>(h) * head_stride, stride, own.scratch);
  });
}

// As interleave(), of inputs [columns][head_stride * head].
void Core::Step::interleave_heads(Member& me, const float* inputs, size_t stride, int head_stride, const ActivationRoom& output) {
  if (!output.views.wide || columns == 1) return;
  const int groups = padded(columns, kGroup) / kGroup;
  const auto [begin, end] = me.share(s.heads * output.blocks);
  for (int i = begin; i < end; ++i) {
    const int h = i / output.blocks, block = i % output.blocks;
    interleave_blocks(inputs + static_cast<size_t>(h) * head_stride, stride, output.blocks, {block, block + 1}, columns, output.from(h * groups));
  }
  me.barrier.wait();
}

}  // namespace paceline
