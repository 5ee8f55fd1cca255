// Construction, loading, commit. The step itself is in step.cpp.
#include "core.h"

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "repack.h"
#include "work.h"

namespace paceline {
namespace {

std::string words(int rows, int columns) { return std::to_string(rows) + " x " + std::to_string(columns); }

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

Core::Core(const Shape& shape, const Options& options, const float* cosine, const float* sine)
    : shape_(shape), options_(options), kernels_(choose_kernels(options.isa.c_str())), cache_(cache_layout(shape, options.key_type, options.value_type)), layers_(shape.layers) {
  if (options.slots < 1 || options.pages < 1 || options.threads < 1) throw std::invalid_argument("slots, pages and threads must be at least 1");
  const size_t table = static_cast<size_t>(shape.context) * (shape.rope_size / 2);
  cosine_.assign(cosine, cosine + table);
  sine_.assign(sine, sine + table);
  pool_ = Mapping(cache_.page_bytes() * options.pages);
  slots_.resize(options.slots);
  for (Slot& slot : slots_) slot.ids.resize(shape.context);
  work_ = std::make_unique<Work>();
}

Core::~Core() = default;

CacheLayout Core::cache_layout(const Shape& shape, CacheType key_type, CacheType value_type) {
  const CacheLayout layout = {shape.layers, shape.kv_heads, shape.head_size, key_type, value_type};
  layout.check();
  return layout;
}

size_t Core::logits_stride() const { return static_cast<size_t>(head().tiles) * kTileRows; }

uint64_t Core::weight_bytes() const {
  uint64_t sum = head().bytes();
  for (const Layer& layer : layers_)
    for (const Matrix* m : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) sum += m->bytes();
  return sum;
}

void Core::load_matrix(Matrix& matrix, const std::string& name, const std::string& type, int rows, int columns, bool paired, const uint8_t* data,
                       size_t size) {
  Matrix m;
  m.format = format_named(name, type);
  m.rows = rows;
  m.columns = columns;
  m.blocks = (columns + kBlock - 1) / kBlock;
  m.tiles = (rows + kTileRows - 1) / kTileRows;
  if (paired) m.tiles = (m.tiles + 1) / 2 * 2;
  check_columns(name, m.format, type, columns);
  if (size != source_row_bytes(m.format, columns) * rows)
    throw std::invalid_argument("tensor '" + name + "' has " + std::to_string(size) + " bytes, expected " + std::to_string(source_row_bytes(m.format, columns) * rows));
  uint8_t* tiles = static_cast<uint8_t*>(arena_.allocate(m.bytes()));
  m.data = tiles;
#pragma omp parallel for num_threads(options_.threads) schedule(static)
  for (int t = 0; t < m.tiles; ++t) repack_row_tile(m, data, t, tiles + t * m.row_tile_bytes());
  matrix = m;
}

const float* Core::load_vector(const std::string& name, const std::string& type, int rows, int columns, const uint8_t* data, size_t size) {
  if (type != "F32" || rows != 1 || size != static_cast<size_t>(columns) * 4)
    throw std::invalid_argument("tensor '" + name + "' is " + type + " " + words(rows, columns) + ", expected a vector of F32");
  float* vector = static_cast<float*>(arena_.allocate(static_cast<size_t>(columns + kBlock) * 4));  // zeros past the end, for whole lanes
  std::memcpy(vector, data, size);
  return vector;
}

void Core::load(const std::string& name, const std::string& type, int rows, int columns, const uint8_t* data, size_t size) {
  const int q = shape_.heads * shape_.head_size, kv = shape_.kv_heads * shape_.head_size;
  const auto expect = [&](int wanted_rows, int wanted_columns) {
    if (rows != wanted_rows || columns != wanted_columns)
      throw std::invalid_argument("tensor '" + name + "' is " + words(rows, columns) + ", expected " + words(wanted_rows, wanted_columns));
  };
  const auto matrix = [&](Matrix& into, int wanted_rows, int wanted_columns, bool paired = false) {
    expect(wanted_rows, wanted_columns);
    load_matrix(into, name, type, rows, columns, paired, data, size);
  };
  const auto vector = [&](const float*& into, int length) {
    expect(1, length);
    into = load_vector(name, type, rows, columns, data, size);
  };
  if (name == "token_embd.weight") return matrix(embedding_, shape_.vocab, shape_.width);
  if (name == "output.weight") return matrix(head_, shape_.vocab, shape_.width);
  if (name == "output_norm.weight") return vector(final_norm_, shape_.width);
  int number = -1, end = 0;
  if (std::sscanf(name.c_str(), "blk.%d.%n", &number, &end) != 1 || end == 0 || number < 0 || number >= shape_.layers)
    throw std::invalid_argument("tensor '" + name + "' belongs to no layer of this model (" + std::to_string(shape_.layers) + " layers)");
  Layer& layer = layers_[number];
  const std::string part = name.substr(end);
  if (part == "attn_norm.weight") return vector(layer.attention_norm, shape_.width);
  if (part == "ffn_norm.weight") return vector(layer.ffn_norm, shape_.width);
  if (part == "attn_q.bias" && shape_.qkv_bias) return vector(layer.q_bias, q);
  if (part == "attn_k.bias" && shape_.qkv_bias) return vector(layer.k_bias, kv);
  if (part == "attn_v.bias" && shape_.qkv_bias) return vector(layer.v_bias, kv);
  if (part == "attn_q_norm.weight" && shape_.qk_norm) return vector(layer.q_norm, shape_.head_size);
  if (part == "attn_k_norm.weight" && shape_.qk_norm) return vector(layer.k_norm, shape_.head_size);
  if (part == "attn_q.weight") return matrix(layer.q, q, shape_.width);
  if (part == "attn_k.weight") return matrix(layer.k, kv, shape_.width);
  if (part == "attn_v.weight") return matrix(layer.v, kv, shape_.width);
  if (part == "attn_output.weight") return matrix(layer.output, shape_.width, q);
  if (part == "ffn_gate.weight") return matrix(layer.gate, shape_.ffn, shape_.width, true);
  if (part == "ffn_up.weight") return matrix(layer.up, shape_.ffn, shape_.width, true);
  if (part == "ffn_down.weight") return matrix(layer.down, shape_.width, shape_.ffn);
  throw std::invalid_argument("tensor '" + name + "' is not part of a model of this shape");
}

void Core::commit(int slot, int position) {
  if (slot < 0 || slot >= options_.slots) throw std::invalid_argument("slot " + std::to_string(slot) + " is not one of " + std::to_string(options_.slots));
  Slot& state = slots_[slot];
  if (position != 0 && position != state.position && (position < state.position || position > state.reached))
    throw std::invalid_argument("slot " + std::to_string(slot) + " stands at " + std::to_string(state.position) + " and its last step reached " +
                                std::to_string(state.reached) + ": it can't be committed to " + std::to_string(position));
  state.position = position;
  state.reached = position;
}

void Core::check(const std::vector<Row>& rows) const {
  std::vector<bool> taken(options_.slots);
  for (const Row& row : rows) {
    const std::string where = "row of slot " + std::to_string(row.slot) + ": ";
    const auto refuse = [&](const std::string& what) { throw std::invalid_argument(where + what); };
    if (row.slot < 0 || row.slot >= options_.slots) refuse("no such slot");
    if (taken[row.slot]) refuse("a slot has at most one row to a step");
    taken[row.slot] = true;
    const int count = static_cast<int>(row.tokens.size());
    if (count < 1) refuse("it has no tokens");
    if (row.position != slots_[row.slot].position) refuse("it is at position " + std::to_string(row.position) + ", the slot stands at " + std::to_string(slots_[row.slot].position));
    if (count > shape_.context - row.position) refuse("it ends past the context of " + std::to_string(shape_.context));
    if (row.prompt_tokens < 0) refuse("prompt_tokens is negative");
    if (row.outputs < 0 || row.outputs > count) refuse("outputs must be 0 to its number of tokens");
    for (const int32_t id : row.tokens)
      if (id < 0 || id >= shape_.vocab) refuse("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape_.vocab));
    if (static_cast<int64_t>(row.table_size) * kPage < row.position + count) refuse("its page table is too short");
    for (int i = 0; i * kPage < row.position + count; ++i)
      if (row.table[i] < 0 || row.table[i] >= options_.pages) refuse("page " + std::to_string(row.table[i]) + " is not in the pool of " + std::to_string(options_.pages));
  }
}

}  // namespace paceline
