// A layer of latent attention (native/cpu/step_latent.cpp). The heads' products run as those of experts do: a head's columns lie together.
#include <algorithm>

#include "work.h"

namespace paceline::cuda {

int DeviceCore::padded_columns(int most) { return (most + kColumns - 1) / kColumns * kColumns; }

void DeviceCore::list_heads(const Pass& pass) {
  Work& work = *work_;
  list_head_columns({work.head_lists, work.head_list_count, padded_columns(pass.most)}, shape().heads, experts_together(pass.most), pass.input, pass.stream);
}

// out [places][stride] = each head's matrix times the inputs at its places
void DeviceCore::head_products(const std::vector<Matrix>& heads, const ExpertWeights* weights, const Activations& input, float* out, int stride, const Pass& pass) {
  Work& work = *work_;
  const int together = experts_together(pass.most);
  Product product = product_of(input, work.head_list_count, stride);
  product.lists = work.head_lists;
  product.most_lists = shape().heads * ((pass.most + together - 1) / together);
  const Matrix* const any[] = {&heads[0]};
  run_products(product, any, &weights, 1, out, pass.most, pass.stream);
}

void DeviceCore::latent_attention(const Layer& layer, const Pass& pass) {
  const auto& [sizes, input, stream, most, columns] = pass;
  const Shape& s = shape();
  Work& work = *work_;
  const HeadTables& tables = work.heads[layer.number];
  const int padded = padded_columns(most), turning = s.latent_keys + s.rope_size;
  read_stream(layer.attention_norm, pass);
  const Matrix* const first[] = {&layer.q, &layer.k};
  run_products(product_of(work.width_input, columns, work.stride_mixed), first, nullptr, 2, work.mixed, most, stream);
  const float* queries = work.mixed;
  int query_stride = work.stride_mixed;
  if (s.query_rank) {
    rms_norm({work.mixed, work.stride_mixed, s.query_rank, layer.q_norm, s.norm_epsilon, columns, nullptr, work.rank_input}, most, stream);
    run_product_of(layer.q_b, work.rank_input, columns, work.latent_queries, work.stride_latent, false, most, stream);
    queries = work.latent_queries;
    query_stride = work.stride_latent;
  }
  quantize_of_heads({queries, query_stride, turning, s.latent_keys, s.heads, padded, false, temperatures_, work.key_input}, input, most, stream);
  head_products(layer.k_b, tables.keys, work.key_input, work.head_outputs, s.latent, pass);

  CacheView view = cache_.view(pool_, layer.ordinal, 0);
  view.softcap = s.attention_softcap;
  LatentPlace place{};
  place.queries_from = queries;
  place.query_stride = query_stride;
  place.absorbed = work.head_outputs;
  place.absorbed_stride = s.latent;
  place.padded = padded;
  place.keys_from = work.mixed + layer.q.tiles * kTileRows;
  place.key_stride = work.stride_mixed;
  place.norm = layer.k_norm;
  place.epsilon = s.norm_epsilon;
  place.query_scale = s.query_scale;
  place.cosine = cosine_;
  place.sine = sine_;
  place.temperatures = temperatures_;
  place.heads = s.heads;
  place.latent = s.latent;
  place.head_keys = s.latent_keys;
  place.rope_size = s.rope_size;
  place.pairs = s.rope_pairs;
  place.queries = work.queries;
  place.cache = view;
  place_latents(place, input, most, stream);

  Attention attention{work.queries, s.heads, 1, view, cache_.head_bytes(layer.ordinal), false, sizes.splits, nullptr, nullptr, 0, nullptr, nullptr, work.value_input, padded};
  if (work.splits_apart(sizes, blocks_of_heads(s.head_size, s.heads, 1), 1)) attention.partial = work.partial;
  attend(attention, input, std::min(sizes.tokens, tokens_of(layer.kind)), most, stream);
  head_products(layer.v_b, tables.values, work.value_input, work.head_outputs, s.latent_values, pass);
  Activations joined = work.attention_input;
  joined.blocks = layer.output.blocks;
  quantize_of_heads({work.head_outputs, s.latent_values, 0, s.latent_values, s.heads, padded, true, nullptr, joined}, input, most, stream);
  join(layer.output, joined, layer.attention_post_norm, nullptr, pass);
}

}  // namespace paceline::cuda
