// Tensors by their GGUF names into tiles and vectors.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "core.h"
#include "repack.h"

namespace paceline {
namespace {

constexpr size_t kPieceBytes = size_t{16} << 20;  // of a file, in memory at once

std::string words(int rows, int columns) { return std::to_string(rows) + " x " + std::to_string(columns); }

void expect(const Source& source, int rows, int columns) {
  if (source.rows != rows || source.columns != columns)
    throw std::invalid_argument("tensor '" + source.name + "' is " + words(source.rows, source.columns) + ", expected " + words(rows, columns));
}

}  // namespace

Format format_named(const std::string& tensor, const std::string& type) {
  static const std::pair<const char*, Format> formats[] = {
      {"F32", Format::F32}, {"F16", Format::F16}, {"BF16", Format::BF16}, {"Q8_0", Format::Q8_0}, {"Q5_1", Format::Q5_1},
      {"Q5_0", Format::Q5_0}, {"Q4_1", Format::Q4_1}, {"Q4_0", Format::Q4_0}, {"IQ4_NL", Format::IQ4_NL}, {"MXFP4", Format::MXFP4},
      {"NVFP4", Format::NVFP4}, {"Q6_K", Format::Q6_K}, {"Q5_K", Format::Q5_K}, {"Q4_K", Format::Q4_K}, {"IQ4_XS", Format::IQ4_XS},
      {"Q3_K", Format::Q3_K}, {"Q2_K", Format::Q2_K}, {"IQ2_XXS", Format::IQ2_XXS}};
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

void Core::load_matrix(Matrix& matrix, const Source& source, int rows, int columns, bool paired) {
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
  check_columns(source.name, m.format, source.type, columns);
  const size_t size = source_row_bytes(m.format, columns) * rows;
  if (source.size != size) throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.size) + " bytes, expected " + std::to_string(size));
  uint8_t* tiles = static_cast<uint8_t*>(arena_.allocate(m.bytes()));
  m.data = tiles;
  const size_t read_bytes = source_row_bytes(m.format, columns) * kTileRows;  // of a row tile
  const int piece = static_cast<int>(kPieceBytes / read_bytes) + 1;
  for (int first = 0; first < m.tiles; first += piece) {
    const int end = std::min(first + piece, m.tiles);
#pragma omp parallel for num_threads(options_.threads) schedule(static)
    for (int t = first; t < end; ++t) repack_row_tile(m, source.data, t, tiles + t * m.row_tile_bytes());
    const size_t begin = first * read_bytes;
    if (source.mapped && begin < size) forget(source.data + begin, std::min(end * read_bytes, size) - begin);
  }
  matrix = m;
}

// source: [experts * rows, columns]
void Core::load_experts(Layer& layer, Matrix FeedForward::*part, const Source& source, int rows, int columns, bool paired) {
  const int experts = shape_.experts;
  expect(source, experts * rows, columns);
  if (source.size % experts) throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.size) + " bytes, expected a multiple of " + std::to_string(experts));
  const size_t size = source.size / experts;
  if (source.scales.size() > 1 && source.scales.size() != static_cast<size_t>(experts))
    throw std::invalid_argument("tensor '" + source.name + "' has " + std::to_string(source.scales.size()) + " scales, expected one for each of " + std::to_string(experts) + " experts");
  for (int e = 0; e < experts; ++e) {
    Source one = {source.name, source.type, rows, columns, source.data + size * e, size, source.scales, source.mapped};
    if (source.scales.size() > 1) one.scales = {source.scales[e]};
    load_matrix(layer.experts[e].*part, one, rows, columns, paired);
  }
}

void Core::load_vector(const float*& vector, const Source& source, int size) {
  expect(source, 1, size);
  if (source.type != "F32" || source.size != static_cast<size_t>(size) * 4) throw std::invalid_argument("tensor '" + source.name + "' is " + source.type + ", expected a vector of F32");
  float* copy = static_cast<float*>(arena_.allocate(static_cast<size_t>(size + kBlock) * 4));  // zeros past the end, for whole lanes
  std::memcpy(copy, source.data, source.size);
  vector = copy;
}

// [channels, kernel] in the file, turned around for lanes over channels.
void Core::load_convolution(Layer& layer, const Source& source) {
  const int channels = shape_.channels(), kernel = shape_.conv_kernel, stride = (channels + kTileRows - 1) / kTileRows * kTileRows;
  expect(source, channels, kernel);
  if (source.type != "F32" || source.size != static_cast<size_t>(channels) * kernel * 4) throw std::invalid_argument("tensor '" + source.name + "' is " + source.type + ", expected F32");
  float* turned = static_cast<float*>(arena_.allocate(static_cast<size_t>(kernel) * stride * 4));
  for (int c = 0; c < channels; ++c)
    for (int tap = 0; tap < kernel; ++tap) std::memcpy(turned + static_cast<size_t>(tap) * stride + c, source.data + (static_cast<size_t>(c) * kernel + tap) * 4, 4);
  layer.convolution = turned;
}

void Core::load(const Source& source) {
  const std::string& name = source.name;
  if (name == "token_embd.weight") return load_matrix(embedding_, source, shape_.vocab, shape_.width);
  if (name == "output.weight") return load_matrix(head_, source, shape_.vocab, shape_.width);
  if (name == "output_norm.weight") return load_vector(final_norm_, source, shape_.width);
  int number = -1, end = 0;
  if (std::sscanf(name.c_str(), "blk.%d.%n", &number, &end) != 1 || end == 0 || number < 0 || number >= shape_.layers)
    throw std::invalid_argument("tensor '" + name + "' belongs to no layer of this model (" + std::to_string(shape_.layers) + " layers)");
  load_layer(layers_[number], name.substr(end), source);
}

void Core::load_layer(Layer& layer, const std::string& part, const Source& source) {
  const Shape& s = shape_;
  const int width = s.width, ffn = s.experts ? s.shared_ffn : s.ffn;
  if (part == "attn_norm.weight") return load_vector(layer.attention_norm, source, width);
  if (part == "ffn_norm.weight") return load_vector(layer.ffn_norm, source, width);
  if (part == "post_attention_norm.weight") return load_vector(s.post_norms ? layer.attention_post_norm : layer.ffn_norm, source, width);
  if (part == "post_ffw_norm.weight" && s.post_norms) return load_vector(layer.ffn_post_norm, source, width);
  if (layer.kind == LayerKind::Recurrent) {
    if (part == "attn_qkv.weight") return load_matrix(layer.mixed, source, s.channels(), width);
    if (part == "attn_gate.weight") return load_matrix(layer.gate, source, s.inner(), width);
    if (part == "ssm_alpha.weight") return load_matrix(layer.alpha, source, s.value_heads, width);
    if (part == "ssm_beta.weight") return load_matrix(layer.beta, source, s.value_heads, width);
    if (part == "ssm_out.weight") return load_matrix(layer.output, source, width, s.inner());
    if (part == "ssm_conv1d.weight") return load_convolution(layer, source);
    if (part == "ssm_a") return load_vector(layer.decay, source, s.value_heads);
    if (part == "ssm_dt.bias") return load_vector(layer.time_bias, source, s.value_heads);
    if (part == "ssm_norm.weight") return load_vector(layer.recurrent_norm, source, s.value_size);
  } else {
    if (part == "attn_q.bias" && s.qkv_bias) return load_vector(layer.q_bias, source, s.queries());
    if (part == "attn_k.bias" && s.qkv_bias) return load_vector(layer.k_bias, source, s.keys());
    if (part == "attn_v.bias" && s.qkv_bias) return load_vector(layer.v_bias, source, s.keys());
    if (part == "attn_q_norm.weight" && s.qk_norm) return load_vector(layer.q_norm, source, s.head_size);
    if (part == "attn_k_norm.weight" && s.qk_norm) return load_vector(layer.k_norm, source, s.head_size);
    if (part == "attn_q.weight") return load_matrix(layer.q, source, (s.gated_attention ? 2 : 1) * s.queries(), width);
    if (part == "attn_k.weight") return load_matrix(layer.k, source, s.keys(), width);
    if (part == "attn_v.weight") return load_matrix(layer.v, source, s.keys(), width);
    if (part == "attn_output.weight") return load_matrix(layer.output, source, width, s.queries());
  }
  if (s.experts) {
    if (part == "ffn_gate_inp.weight") return load_matrix(layer.router, source, s.experts, width);
    if (part == "ffn_gate_exps.weight") return load_experts(layer, &FeedForward::gate, source, s.expert_ffn, width, true);
    if (part == "ffn_up_exps.weight") return load_experts(layer, &FeedForward::up, source, s.expert_ffn, width, true);
    if (part == "ffn_down_exps.weight") return load_experts(layer, &FeedForward::down, source, width, s.expert_ffn);
    if (part == "ffn_gate_inp_shexp.weight" && s.shared_ffn) return load_matrix(layer.shared_gate, source, 1, width);
  }
  const std::string ending = s.experts ? "_shexp.weight" : ".weight";
  if (ffn && part == "ffn_gate" + ending) return load_matrix(layer.ffn.gate, source, ffn, width, true);
  if (ffn && part == "ffn_up" + ending) return load_matrix(layer.ffn.up, source, ffn, width, true);
  if (ffn && part == "ffn_down" + ending) return load_matrix(layer.ffn.down, source, width, ffn);
  throw std::invalid_argument("tensor '" + source.name + "' is not part of a model of this shape");
}

}  // namespace paceline
