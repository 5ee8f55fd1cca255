// Tensors by their GGUF names into the matrices and vectors of layers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "model.h"
#include "repack.h"

namespace paceline {
namespace {

std::string words(int rows, int columns) { return std::to_string(rows) + " x " + std::to_string(columns); }

void expect(const Source& source, int rows, int columns) {
  if (source.rows != rows || source.columns != columns)
    throw std::invalid_argument("tensor '" + source.name + "' is " + words(source.rows, source.columns) + ", expected " + words(rows, columns));
}

}  // namespace

Weights::Weights(const Shape& of) : shape(of), layers(of.all_layers()) {
  int kept = 0, recurrent = 0, others = 0;
  for (int l = 0; l < shape.all_layers(); ++l) {
    Layer& layer = layers[l];
    const int keeper = shape.keeper_of(l);
    layer.kind = shape.kinds[l];
    layer.number = l;
    layer.keeps = keeper == l;
    layer.heads = shape.heads_of(layer.kind);
    int& ordinal = Shape::attends(layer.kind) ? kept : layer.kind == LayerKind::Recurrent ? recurrent : others;
    layer.ordinal = layer.keeps ? ordinal++ : layers[keeper].ordinal;
    layer.experts.resize(l < shape.dense_layers || !shape.feeds_forward(layer.kind) ? 0 : shape.experts);
  }
}

Format format_named(const std::string& tensor, const std::string& type) {
  static const std::pair<const char*, Format> formats[] = {
      {"F32", Format::F32}, {"F16", Format::F16}, {"BF16", Format::BF16}, {"Q8_0", Format::Q8_0}, {"Q5_1", Format::Q5_1},
      {"Q5_0", Format::Q5_0}, {"Q4_1", Format::Q4_1}, {"Q4_0", Format::Q4_0}, {"IQ4_NL", Format::IQ4_NL}, {"MXFP4", Format::MXFP4},
      {"NVFP4", Format::NVFP4}, {"Q6_K", Format::Q6_K}, {"Q5_K", Format::Q5_K}, {"Q4_K", Format::Q4_K}, {"IQ4_XS", Format::IQ4_XS},
      {"Q3_K", Format::Q3_K}, {"Q2_K", Format::Q2_K}, {"IQ3_S", Format::IQ3_S}, {"IQ3_XXS", Format::IQ3_XXS}, {"IQ2_S", Format::IQ2_S}, {"IQ2_XS", Format::IQ2_XS},
      {"IQ2_XXS", Format::IQ2_XXS}, {"IQ1_M", Format::IQ1_M}, {"IQ1_S", Format::IQ1_S}};
  std::string known;
  for (const auto& [word, format] : formats) {
    if (type == word) return format;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  throw std::invalid_argument("tensor '" + tensor + "' has type " + type + ", supported: " + known);
}

void check_columns(const std::string& tensor, Format format, const std::string& type, int columns) {
  const int unit = layout(format).file_inputs;
  if (columns % unit)
    throw std::invalid_argument("tensor '" + tensor + "' has " + std::to_string(columns) + " columns, expected a multiple of " + std::to_string(unit) + " for " + type);
}

void Weights::load_matrix(Matrix& matrix, const Source& source, Store& store, int rows, int columns, bool paired) {
  expect(source, rows, columns);
  Matrix m;
  m.format = format_named(source.name, source.type);
  m.rows = rows;
  m.columns = columns;
  m.blocks = (columns + kBlock - 1) / kBlock;
  m.tiles = (rows + kTileRows - 1) / kTileRows;
  if (paired) m.tiles = (m.tiles + 1) / 2 * 2;
  if (source.scales.size() > 1) throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.scales.size()) + " scales, expected one");
  if (!source.scales.empty()) m.scale = source.scales[0];
  m.bias = matrix.bias;
  check_columns(source.name, m.format, source.type, columns);
  const size_t size = source_row_bytes(m.format, columns) * rows;
  if (source.size != size) throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.size) + " bytes, expected " + std::to_string(size));
  m.data = store.matrix(m, source);
  matrix = m;
}

// source: [experts * rows, columns]
void Weights::load_experts(Layer& layer, Matrix FeedForward::*part, const Source& source, Store& store, int rows, int columns, bool paired) {
  const int experts = shape.experts;
  expect(source, experts * rows, columns);
  if (source.size % experts) throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.size) + " bytes, expected a multiple of " + std::to_string(experts));
  const size_t size = source.size / experts;
  if (source.scales.size() > 1 && source.scales.size() != static_cast<size_t>(experts))
    throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.scales.size()) + " scales, expected one for each of " + std::to_string(experts) + " experts");
  for (int e = 0; e < experts; ++e) {
    Source one = {source.name, source.type, rows, columns, source.data + size * e, size, source.scales, source.mapped};
    if (source.scales.size() > 1) one.scales = {source.scales[e]};
    load_matrix(layer.experts[e].*part, one, store, rows, columns, paired);
  }
}

// source: [heads * rows, columns], one matrix below the other
void Weights::load_heads(std::vector<Matrix>& heads, const Source& source, Store& store, int rows, int columns) {
  expect(source, shape.heads * rows, columns);
  if (source.size % shape.heads) throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.size) + " bytes, expected a multiple of " + std::to_string(shape.heads));
  const size_t size = source.size / shape.heads;
  std::vector<Matrix> loaded(shape.heads);
  for (int h = 0; h < shape.heads; ++h) load_matrix(loaded[h], {source.name, source.type, rows, columns, source.data + size * h, size, source.scales, source.mapped}, store, rows, columns);
  heads = std::move(loaded);
}

void Weights::load_vector(const float*& vector, const Source& source, Store& store, int size) {
  expect(source, 1, size);
  if (source.type != "F32" || source.size != static_cast<size_t>(size) * 4) throw std::invalid_argument("tensor '" + source.name + "' is " + source.type + ", expected a vector of F32");
  std::vector<float> values(size);
  std::memcpy(values.data(), source.data, source.size);
  vector = store.vector(values.data(), values.size());
}

// source: [experts, size]
void Weights::load_expert_biases(Layer& layer, Matrix FeedForward::*part, const Source& source, Store& store, int size) {
  expect(source, shape.experts, size);
  for (int e = 0; e < shape.experts; ++e) {
    const Source one = {source.name, source.type, 1, size, source.data + source.size / shape.experts * e, source.size / shape.experts, {}};
    load_vector((layer.experts[e].*part).bias, one, store, size);
  }
}

void Weights::load_choice_bias(Layer& layer, const Source& source, Store& store) {
  load_vector(layer.choice_bias, source, store, shape.experts);
  for (int e = 0; e < shape.experts; ++e) {
    float bias;
    std::memcpy(&bias, source.data + 4 * e, 4);
    if (!std::isfinite(bias)) throw std::invalid_argument("tensor '" + source.name + "' holds a bias that is no finite number");  // experts could not be compared
  }
}

// [channels, kernel] in the file, turned around for lanes over channels.
void Weights::load_convolution(Layer& layer, const Source& source, Store& store) {
  const int channels = shape.channels(), kernel = shape.conv_kernel, stride = (channels + kTileRows - 1) / kTileRows * kTileRows;
  expect(source, channels, kernel);
  if (source.type != "F32" || source.size != static_cast<size_t>(channels) * kernel * 4) throw std::invalid_argument("tensor '" + source.name + "' is " + source.type + ", expected F32");
  std::vector<float> turned(static_cast<size_t>(kernel) * stride);
  for (int c = 0; c < channels; ++c)
    for (int tap = 0; tap < kernel; ++tap) std::memcpy(turned.data() + static_cast<size_t>(tap) * stride + c, source.data + (static_cast<size_t>(c) * kernel + tap) * 4, 4);
  layer.convolution = store.vector(turned.data(), turned.size());
}

void Weights::load(const Source& source, Store& store) {
  const std::string& name = source.name;
  if (name == "token_embd.weight") return load_matrix(embedding, source, store, shape.vocab, shape.width);
  if (name == "output.weight") return load_matrix(own_head, source, store, shape.vocab, shape.width);
  if (name == "token_embd_norm.weight" && shape.embedding_norm) return load_vector(embedding_norm, source, store, shape.width);
  if (name == "output_norm.weight") return load_vector(final_norm, source, store, shape.width);
  if (const int inputs = shape.layers * shape.token_inputs) {
    if (name == "per_layer_token_embd.weight") return load_matrix(token_table, source, store, shape.vocab, inputs);
    if (name == "per_layer_model_proj.weight") return load_matrix(token_product, source, store, inputs, shape.width);
    if (name == "per_layer_proj_norm.weight") return load_vector(token_norm, source, store, shape.token_inputs);
  }
  int number = -1, end = 0;
  if (std::sscanf(name.c_str(), "blk.%d.%n", &number, &end) != 1 || end == 0 || number < 0 || number >= shape.all_layers())
    throw std::invalid_argument("tensor '" + name + "' belongs to no layer of this model (" + std::to_string(shape.all_layers()) + " layers)");
  load_layer(layers[number], name.substr(end), source, store);
}

void Weights::load_layer(Layer& layer, const std::string& part, const Source& source, Store& store) {
  const Shape& s = shape;
  if (layer.number == s.layers) {  // the one that drafts
    if (part == "nextn.eh_proj.weight") return load_matrix(drafter.join, source, store, s.width, 2 * s.width);
    if (part == "nextn.enorm.weight") return load_vector(drafter.token_norm, source, store, s.width);
    if (part == "nextn.hnorm.weight") return load_vector(drafter.stream_norm, source, store, s.width);
    if (part == "nextn.shared_head_norm.weight") return load_vector(drafter.final_norm, source, store, s.width);
  }
  const bool routes = !layer.experts.empty();
  const int width = s.width, ffn = !s.feeds_forward(layer.kind) ? 0 : routes ? s.shared_ffn : s.ffn_of(layer.number), queries = layer.heads.queries(), keys = layer.heads.kv_heads * layer.heads.head_size;
  const int q_norm = s.whole_qk_norm ? queries : layer.heads.head_size, k_norm = s.whole_qk_norm ? keys : layer.heads.head_size;
  if (part == "attn_norm.weight" && s.pre_norms) return load_vector(layer.kind == LayerKind::FeedForward ? layer.ffn_norm : layer.attention_norm, source, store, width);
  if (part == "ffn_norm.weight" && s.pre_norms && !s.parallel) return load_vector(layer.ffn_norm, source, store, width);
  if (part == "post_attention_norm.weight" && !s.parallel) return load_vector(s.post_norms ? layer.attention_post_norm : layer.ffn_norm, source, store, width);
  if (part == "post_ffw_norm.weight" && s.post_norms) return load_vector(layer.ffn_post_norm, source, store, width);
  if (part == "layer_output_scale.weight" && s.layer_scale) return load_vector(layer.scale, source, store, 1);
  if (s.token_inputs) {
    if (part == "inp_gate.weight") return load_matrix(layer.token_gate, source, store, s.token_inputs, width);
    if (part == "proj.weight") return load_matrix(layer.token_output, source, store, width, s.token_inputs);
    if (part == "post_norm.weight") return load_vector(layer.token_norm, source, store, width);
  }
  if (layer.kind == LayerKind::Recurrent && s.gated_convolution) {
    if (part == "shortconv.in_proj.weight") return load_matrix(layer.mixed, source, store, 3 * width, width);
    if (part == "shortconv.conv.weight") return load_convolution(layer, source, store);
    if (part == "shortconv.out_proj.weight") return load_matrix(layer.output, source, store, width, width);
  } else if (layer.kind == LayerKind::Recurrent) {
    if (part == "attn_qkv.weight") return load_matrix(layer.mixed, source, store, s.channels(), width);
    if (part == "attn_gate.weight") return load_matrix(layer.gate, source, store, s.inner(), width);
    if (part == "ssm_alpha.weight") return load_matrix(layer.alpha, source, store, s.value_heads, width);
    if (part == "ssm_beta.weight" && !s.state_space) return load_matrix(layer.beta, source, store, s.value_heads, width);
    if (part == "ssm_out.weight") return load_matrix(layer.output, source, store, width, s.inner());
    if (part == "ssm_conv1d.weight") return load_convolution(layer, source, store);
    if (part == "ssm_a") return load_vector(layer.decay, source, store, s.value_heads);
    if (part == "ssm_dt.bias") return load_vector(layer.time_bias, source, store, s.value_heads);
    if (part == "ssm_norm.weight") return load_vector(layer.recurrent_norm, source, store, s.state_space ? s.inner() : s.value_size);
    if (part == "ssm_conv1d.bias" && s.state_space) return load_vector(layer.convolution_bias, source, store, s.channels());
    if (part == "ssm_d" && s.state_space) return load_vector(layer.skip, source, store, s.value_heads);
  } else if (layer.kind == LayerKind::FeedForward) {
    // It has nothing else.
  } else if (s.latent) {
    if (part == "attn_q_a.weight" && s.query_rank) return load_matrix(layer.q, source, store, s.query_rank, width);
    if (part == "attn_q_a_norm.weight" && s.query_rank) return load_vector(layer.q_norm, source, store, s.query_rank);
    if (part == "attn_q_b.weight" && s.query_rank) return load_matrix(layer.q_b, source, store, s.latent_queries(), s.query_rank);
    if (part == "attn_q.weight" && !s.query_rank) return load_matrix(layer.q, source, store, s.latent_queries(), width);
    if (part == "attn_kv_a_mqa.weight") return load_matrix(layer.k, source, store, s.head_size, width);
    if (part == "attn_kv_a_norm.weight") return load_vector(layer.k_norm, source, store, s.latent);
    if (part == "attn_k_b.weight") return load_heads(layer.k_b, source, store, s.latent, s.latent_keys);
    if (part == "attn_v_b.weight") return load_heads(layer.v_b, source, store, s.latent_values, s.latent);
    if (part == "attn_output.weight") return load_matrix(layer.output, source, store, width, s.heads * s.latent_values);
  } else {
    if (part == "attn_q.bias" && s.qkv_bias) return load_vector(layer.q.bias, source, store, queries);
    if (part == "attn_k.bias" && s.qkv_bias) return load_vector(layer.k.bias, source, store, keys);
    if (part == "attn_v.bias" && s.qkv_bias) return load_vector(layer.v.bias, source, store, keys);
    if (part == "attn_output.bias" && s.output_bias) return load_vector(layer.output.bias, source, store, width);
    if (part == "attn_sinks.weight" && s.sinks) return load_vector(layer.sinks, source, store, layer.heads.heads);
    if (part == "attn_q_norm.weight" && s.qk_norm) return load_vector(layer.q_norm, source, store, q_norm);
    if (part == "attn_q.weight") return load_matrix(layer.q, source, store, (s.gated_attention ? 2 : 1) * queries, width);
    if (part == "attn_gate.weight" && s.head_gates) return load_matrix(layer.gate, source, store, layer.heads.heads, width);
    if (part == "attn_output.weight") return load_matrix(layer.output, source, store, width, queries);
    if (layer.keeps) {
      if (part == "attn_k_norm.weight" && s.qk_norm) return load_vector(layer.k_norm, source, store, k_norm);
      if (part == "attn_v_norm.weight" && s.value_norm) return load_vector(layer.v_norm, source, store, layer.heads.head_size);
      if (part == "attn_k.weight") return load_matrix(layer.k, source, store, keys, width);
      if (part == "attn_v.weight" && s.has_values(layer.kind)) return load_matrix(layer.v, source, store, keys, width);
    }
  }
  if (routes) {
    if (part == "ffn_gate_inp.weight") return load_matrix(layer.router, source, store, s.experts, width);
    if (part == "ffn_gate_exps.weight" && s.gated()) return load_experts(layer, &FeedForward::gate, source, store, s.expert_ffn, width, true);
    if (part == "ffn_up_exps.weight") return load_experts(layer, &FeedForward::up, source, store, s.expert_ffn, width, true);
    if (part == "ffn_down_exps.weight") return load_experts(layer, &FeedForward::down, source, store, width, s.expert_ffn);
    if (part == "ffn_gate_inp.bias" && s.expert_bias) return load_vector(layer.router.bias, source, store, s.experts);
    if (part == "ffn_gate_exps.bias" && s.expert_bias) return load_expert_biases(layer, &FeedForward::gate, source, store, s.expert_ffn);
    if (part == "ffn_up_exps.bias" && s.expert_bias) return load_expert_biases(layer, &FeedForward::up, source, store, s.expert_ffn);
    if (part == "ffn_down_exps.bias" && s.expert_bias) return load_expert_biases(layer, &FeedForward::down, source, store, width);
    if (part == "exp_probs_b.bias" && s.choice_bias) return load_choice_bias(layer, source, store);
    if (part == "ffn_gate_inp_shexp.weight" && s.shared_gated) return load_matrix(layer.shared_gate, source, store, 1, width);
    if (s.expert_norms) {
      if (part == "ffn_gate_inp_norm.weight") return load_vector(layer.router_norm, source, store, width);
      if (part == "pre_ffw_norm_2.weight") return load_vector(layer.expert_norm, source, store, width);
      if (part == "post_ffw_norm_1.weight") return load_vector(layer.shared_post_norm, source, store, width);
      if (part == "post_ffw_norm_2.weight") return load_vector(layer.expert_post_norm, source, store, width);
    }
  }
  const std::string ending = routes ? "_shexp.weight" : ".weight";
  if (ffn && s.gated() && part == "ffn_gate" + ending) return load_matrix(layer.ffn.gate, source, store, ffn, width, true);
  if (s.activation == Activation::Xielu && part == "ffn_xielu.weight") return load_vector(layer.ffn.curve, source, store, 3);
  if (ffn && part == "ffn_up" + ending) return load_matrix(layer.ffn.up, source, store, ffn, width, true);
  if (ffn && part == "ffn_down" + ending) return load_matrix(layer.ffn.down, source, store, width, ffn);
  throw std::invalid_argument("tensor '" + source.name + "' is not part of a model of this shape");
}

uint64_t Weights::layer_bytes(const Layer& layer) const {
  uint64_t all = 0, routed = 0;
  layer.each_matrix([&](const Matrix& m) { all += m.bytes(); });
  for (const FeedForward& expert : layer.experts) routed += expert.gate.bytes() + expert.up.bytes() + expert.down.bytes();
  return all - (routed ? routed / shape.experts * (shape.experts - shape.experts_used) : 0);
}

uint64_t Weights::token_bytes() const {
  uint64_t sum = head().bytes() + token_product.bytes();
  for (int l = 0; l < shape.layers; ++l) sum += layer_bytes(layers[l]);
  return sum;
}

uint64_t Weights::draft_bytes() const { return shape.drafting ? head().bytes() + drafter.join.bytes() + layer_bytes(layers.back()) : 0; }

}  // namespace paceline
