// What a shape must be before memory is laid out by it, and what must be loaded before a step.
#include <algorithm>
#include <stdexcept>

#include "bounds.h"
#include "core.h"

namespace paceline {
namespace {

constexpr int64_t kMost = INT32_MAX - 64;  // rounding up stays within an int

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument("a shape with " + what); }

void within(const char* name, int64_t size, int64_t least, int64_t most = kMost) {
  if (size < least || size > most) refuse(std::string(name) + " " + std::to_string(size) + ", expected " + std::to_string(least) + " to " + std::to_string(most));
}

void multiple(const char* name, int size, const char* of, int unit) {
  if (size % unit) refuse(std::string(name) + " " + std::to_string(size) + ", no multiple of " + of + " " + std::to_string(unit));
}

}  // namespace

void Shape::check() const {
  within("layers", layers, 1);
  within("drafting", drafting, 0, 1);
  if (kinds.size() != static_cast<size_t>(all_layers())) refuse(std::to_string(kinds.size()) + " kinds of " + std::to_string(all_layers()) + " layers");
  if (drafting && (kinds.back() != LayerKind::Attention || one_branch || token_inputs || layer_scale || borrowing_layers || value_norm))
    refuse("a layer that drafts beside another kind, expected one of full attention and a feed-forward part");
  const std::pair<const char*, int> positive[] = {{"width", width}, {"heads", heads}, {"kv_heads", kv_heads}, {"head_size", head_size}, {"vocab", vocab}, {"context", context}};
  for (const auto& [name, size] : positive) within(name, size, 1);
  const std::pair<const char*, int> optional[] = {{"ffn", ffn}, {"window", window}, {"experts", experts}, {"expert_ffn", expert_ffn}, {"shared_ffn", shared_ffn}, {"dense_layers", dense_layers}, {"key_heads", key_heads}, {"value_heads", value_heads}, {"value_size", value_size},
      {"local_heads", local_heads}, {"local_kv_heads", local_kv_heads}, {"local_head_size", local_head_size}, {"local_rope_size", local_rope_size}, {"borrowing_ffn", borrowing_ffn}, {"token_inputs", token_inputs},
      {"latent", latent}, {"query_rank", query_rank}, {"latent_keys", latent_keys}, {"latent_values", latent_values}};
  for (const auto& [name, size] : optional) within(name, size, 0);
  for (const LayerKind kind : {LayerKind::Attention, LayerKind::Sliding}) {
    const Heads own = heads_of(kind);
    within("heads * head_size", int64_t{2} * own.heads * own.head_size, 1);
    multiple("heads", own.heads, "kv_heads", own.kv_heads);
    within("rope_size", own.rope_size, 0, own.head_size);
    multiple("rope_size", own.rope_size, "two", 2);
  }
  if (latent) {
    // Their activations are quantized block by block, head by head.
    multiple("latent", latent, "a block of", kBlock);
    multiple("latent_keys", latent_keys, "a block of", kBlock);
    multiple("latent_values", latent_values, "a block of", kBlock);
    within("latent + rope_size", int64_t{latent} + rope_size, head_size, head_size);
    within("latent_keys", latent_keys, 1);
    within("latent_values", latent_values, 1);
    within("heads * (latent_keys + rope_size)", int64_t{heads} * (int64_t{latent_keys} + rope_size), 1);
    within("heads * latent_values", int64_t{heads} * latent_values, 1);
    if (kv_heads != 1) refuse("latent keys of " + std::to_string(kv_heads) + " heads, expected one");
    if (gated_attention || qkv_bias || output_bias || sinks || qk_norm || value_norm || keys_as_values || borrowing_layers || one_branch || recurrent_layers()) refuse("latent attention beside another kind, expected it alone");
  }
  const bool feeds = std::count(kinds.begin(), kinds.end(), LayerKind::FeedForward);
  if (feeds && !one_branch) refuse("layers of one branch beside others, expected all of one branch");
  if (one_branch && (post_norms || !pre_norms || token_inputs || layer_scale || borrowing_layers || dense_layers)) refuse("layers of one branch beside another kind, expected them alone");
  if (!gated() && (expert_bias || token_inputs)) refuse("feed-forward parts without a gate beside what needs one, expected neither biases of experts nor inputs of tokens");
  if (activation == Activation::Xielu && (experts || one_branch)) refuse("xIELU beside experts or layers of one branch, expected dense feed-forward parts");
  within("borrowing_layers", borrowing_layers, 0, layers - 1);
  for (int l = 0; l < layers; ++l)
    if (keeper_of(l) < 0) refuse("no keys and values for layer " + std::to_string(l) + " to borrow");
  within("layers * token_inputs", int64_t{layers} * token_inputs, 0);
  multiple("token_inputs", token_inputs, "a block of", kBlock);
  if (borrowing_layers && recurrent_layers()) refuse("recurrent layers, expected none where layers borrow keys and values");
  if (expert_norms && !post_norms) refuse("norms of the experts, expected norms after each branch too");
  if (post_norms && recurrent_layers()) refuse("norms after each branch beside recurrent layers, expected none");
  if (layer_scale && !post_norms && !token_inputs) refuse("scales of layers, expected norms after each branch too");
  if (expert_norms) within("shared_ffn", shared_ffn, 1);
  if (!pre_norms && (!post_norms || expert_norms || latent || recurrent_layers())) refuse("a stream that is not normed before it is read, expected norms after each branch, of one kind");
  if (layer_norm && (!pre_norms || post_norms || token_inputs || drafting)) refuse("norms that subtract the mean beside others, expected one before each branch and a last one");
  if (parallel && (!pre_norms || post_norms || token_inputs || drafting || one_branch || experts || latent || recurrent_layers()))
    refuse("branches side by side beside another kind, expected attention and a dense feed-forward part");
  if (layer_norm != parallel) refuse("either norms that subtract the mean or branches side by side, expected both or neither");
  if (embedding_norm && (layer_norm || token_inputs || drafting)) refuse("a norm of embeddings beside what reads them without, expected neither inputs of tokens nor a layer that drafts");
  if (post_norm_epsilon != 0.0f && (!(post_norm_epsilon > 0.0f) || !post_norms || expert_norms)) refuse("an epsilon of norms after each branch, expected such norms, of one kind");
  if (head_gates && (gated_attention || latent || keys_as_values || borrowing_layers || drafting || recurrent_layers()))
    refuse("gates of heads beside another kind of attention, expected queries, keys and values in each layer");
  if (local_heads && (gated_attention || latent || drafting)) refuse("another number of heads where layers slide, expected neither gates of all outputs nor latent attention nor a layer that drafts");
  if (whole_qk_norm && (!qk_norm || gated_attention || borrowing_layers || local_heads || local_head_size || local_kv_heads))
    refuse("norms of all heads as one beside another kind of head, expected queries and keys of one kind");
  if (rotates_first && (!qk_norm || whole_qk_norm)) refuse("norms after the rotation, expected norms of each head of queries and keys");
  within("experts_used", experts_used, experts ? 1 : 0, experts);
  within("expert_groups", expert_groups, 1, kMostGroups);
  within("groups_used", groups_used, 1, expert_groups);
  multiple("experts", experts, "expert_groups", expert_groups);
  within("experts_used", experts_used, 0, experts / expert_groups * groups_used);
  within("experts * expert_ffn", int64_t{experts} * expert_ffn, experts ? 1 : 0);
  within("experts * width", int64_t{experts} * width, 0);
  within("dense_layers", dense_layers, 0, experts ? layers - 1 : 0);
  if (!experts || dense_layers) within("ffn", ffn, 1);
  if (state_space && gated_convolution) refuse("state spaces that are convolutions, expected one of both");
  if (state_space && (!key_heads || !value_heads)) refuse("state spaces without heads, expected some");
  const int recurrent = recurrent_layers() ? 1 : 0, with_heads = recurrent && !gated_convolution ? 1 : 0;
  within("key_heads", key_heads, with_heads);
  within("key_size", key_size, with_heads, kDeltaKeys);
  within("conv_kernel", conv_kernel, gated_convolution ? 2 : recurrent, kMostTaps);
  if (gated_convolution) within("3 * width", int64_t{3} * width, 1);
  within("value_heads * value_size", int64_t{value_heads} * value_size, with_heads);
  if (gated_convolution && (key_heads || value_heads)) refuse("heads of recurrent layers that are convolutions, expected none");
  within("channels", int64_t{2} * key_heads * key_size + int64_t{value_heads} * value_size, 0);
  if (key_heads) multiple("value_heads", value_heads, "key_heads", key_heads);
}

void Weights::check_loaded() {
  if (loaded_) return;
  const auto need = [](const void* data, const char* name, int layer) {
    if (!data) throw std::invalid_argument("the weights are not all loaded: the " + std::string(name) + (layer < 0 ? "" : " of layer " + std::to_string(layer)) + " is missing");
  };
  need(embedding.data, "embedding", -1);
  need(head().data, "head", -1);
  need(final_norm, "final norm", -1);
  if (shape.embedding_norm) need(embedding_norm, "norm of embeddings", -1);
  if (shape.token_inputs) need(token_table.data, "table of token inputs", -1), need(token_product.data, "matrix of token inputs", -1), need(token_norm, "norm of token inputs", -1);
  if (shape.drafting) need(drafter.join.data, "matrix that joins", shape.layers), need(drafter.token_norm, "norm of a token", shape.layers), need(drafter.stream_norm, "norm of the stream", shape.layers);
  for (int l = 0; l < shape.all_layers(); ++l) {
    const Layer& layer = layers[l];
    const bool mixes = layer.kind != LayerKind::FeedForward, feeds = shape.feeds_forward(layer.kind);
    if (shape.pre_norms && mixes) need(layer.attention_norm, "attention norm", l);
    if (shape.pre_norms && feeds && !shape.parallel) need(layer.ffn_norm, "feed-forward norm", l);
    if (mixes) need(layer.output.data, "attention output", l);
    if (shape.post_norms) need(layer.attention_post_norm, "norm after attention", l), need(layer.ffn_post_norm, "norm after the feed-forward", l);
    if (layer.kind == LayerKind::Recurrent && shape.gated_convolution) {
      need(layer.mixed.data, "recurrent input", l), need(layer.convolution, "convolution", l);
    } else if (layer.kind == LayerKind::Recurrent) {
      for (const Matrix* matrix : {&layer.mixed, &layer.gate, &layer.alpha}) need(matrix->data, "recurrent input", l);
      for (const float* vector : {layer.convolution, layer.decay, layer.time_bias, layer.recurrent_norm}) need(vector, "recurrent vector", l);
      if (!shape.state_space) need(layer.beta.data, "recurrent input", l);
      if (shape.state_space) need(layer.convolution_bias, "bias of the convolution", l), need(layer.skip, "recurrent vector", l);
    } else if (!mixes) {
      // It has nothing else.
    } else if (shape.latent) {
      for (const Matrix* matrix : {&layer.q, &layer.k}) need(matrix->data, "query or key matrix", l);
      if (shape.query_rank) need(layer.q_b.data, "query matrix", l), need(layer.q_norm, "query norm", l);
      need(layer.k_norm, "norm of latent values", l);
      need(layer.k_b.empty() ? nullptr : layer.k_b[0].data, "key matrix of the heads", l);
      need(layer.v_b.empty() ? nullptr : layer.v_b[0].data, "value matrix of the heads", l);
    } else {
      need(layer.q.data, "query matrix", l);
      if (layer.keeps) need(layer.k.data, "key matrix", l);
      if (layer.keeps && shape.has_values(layer.kind)) need(layer.v.data, "value matrix", l);
      if (shape.qkv_bias) for (const Matrix* matrix : {&layer.q, &layer.k, &layer.v}) need(matrix->bias, "query, key or value bias", l);
      if (shape.output_bias) need(layer.output.bias, "bias of attention's output", l);
      if (shape.head_gates) need(layer.gate.data, "gate of attention", l);
      if (shape.sinks) need(layer.sinks, "sinks", l);
      if (shape.qk_norm) need(layer.q_norm, "query norm", l);
      if (shape.qk_norm && layer.keeps) need(layer.k_norm, "key norm", l);
      if (shape.value_norm && layer.keeps) need(layer.v_norm, "value norm", l);
    }
    const auto need_parts = [&](const FeedForward& part) {
      if (shape.gated()) need(part.gate.data, "feed-forward", l);
      for (const Matrix* matrix : {&part.up, &part.down}) need(matrix->data, "feed-forward", l);
    };
    const bool routes = !layer.experts.empty();
    if (feeds && (!routes || shape.shared_ffn)) need_parts(layer.ffn);
    if (shape.activation == Activation::Xielu) need(layer.ffn.curve, "constants of xIELU", l);
    if (routes) need(layer.router.data, "router", l);
    if (routes && shape.choice_bias) need(layer.choice_bias, "bias of the choice of experts", l);
    if (routes && shape.shared_gated) need(layer.shared_gate.data, "gate of the shared expert", l);
    for (const FeedForward& expert : layer.experts) {
      need_parts(expert);
      if (shape.expert_bias) for (const Matrix* matrix : {&expert.gate, &expert.up, &expert.down}) need(matrix->bias, "bias of an expert", l);
    }
    if (routes && shape.expert_bias) need(layer.router.bias, "router's bias", l);
    if (routes && shape.expert_norms)
      for (const float* norm : {layer.router_norm, layer.expert_norm, layer.expert_post_norm, layer.shared_post_norm}) need(norm, "norm of the experts", l);
    if (shape.layer_scale) need(layer.scale, "scale", l);
    if (shape.token_inputs) need(layer.token_gate.data, "gate of token inputs", l), need(layer.token_output.data, "output of token inputs", l), need(layer.token_norm, "norm after token inputs", l);
  }
  loaded_ = true;
}

}  // namespace paceline
