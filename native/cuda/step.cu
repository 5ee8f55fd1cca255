// The order of a step's kernels, and their working memory. Nothing here waits for the device.
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "work.h"

namespace paceline::cuda {
namespace {

size_t padded(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

constexpr int kApartBelow = 512;  // blocks: with fewer, each split of attention gets its own block
constexpr int kApartColumns = 64;
constexpr int kTokenSplits = 2;  // a block of rows of one token takes so many in turn before another kernel, to merge them, has begun
constexpr size_t kChangesFromTheStart = 16 << 20;
constexpr int kMostBlocks = 65'535;  // of a grid, in y and z
constexpr int kMostColumns = 1 << 15;

}  // namespace

void choose_device(int number) { use_device(number); }

// Many kernels have a block per column, latent attention one per list of a head's columns; sizes are powers of two.
int most_columns_of_step(const Shape& shape) {
  const int of_heads = shape.latent ? kMostBlocks / shape.heads * experts_together(kMostColumns) : kMostColumns;
  return std::min(kMostColumns, static_cast<int>(std::bit_floor(static_cast<unsigned>(of_heads))));
}

bool DeviceCore::Work::splits_apart(const Sizes& sizes, int blocks, int together) const {
  return sizes.splits > together && sizes.columns <= kApartColumns && sizes.columns * blocks < kApartBelow;
}

DeviceCore::DeviceCore(const Shape& shape, const DeviceOptions& options, const Tables& tables, Memory& memory)
    : options_(options),
      cache_((shape.check(), Core::cache_layout(shape, options.key_type, options.value_type))),
      memory_(memory),
      weights_(shape),
      work_(std::make_unique<Work>()) {
  if (options.slots < 1 || options.pages < 0) throw std::invalid_argument("slots must be at least 1, and pages no less than 0");
  if (options.states < 0 || options.replay < 0) throw std::invalid_argument("states and replay must be at least 0");
  const int head_size = std::max(shape.head_size, shape.local_head_size), value_size = shape.latent ? shape.latent : head_size;
  if (value_size > kMostValueSize) throw std::invalid_argument("a head with " + std::to_string(value_size) + " values is more than " + std::to_string(kMostValueSize));
  if (head_size > kMostHeadSize) throw std::invalid_argument("a head size of " + std::to_string(head_size) + " is more than " + std::to_string(kMostHeadSize));
  const int normed = shape.state_space ? shape.recurrent_norm_size() : 0, together = normed % kBlock ? shape.inner() : normed;
  if (together > kMostNormed) throw std::invalid_argument("a state space that norms " + std::to_string(together) + " outputs together is more than " + std::to_string(kMostNormed));
  if (shape.token_inputs > kMostTokenInputs)
    throw std::invalid_argument(std::to_string(shape.token_inputs) + " inputs of a token to a layer are more than " + std::to_string(kMostTokenInputs));
  check_tables(shape, tables);
  cosine_ = upload_table(tables.rotation.cosine);
  sine_ = upload_table(tables.rotation.sine);
  local_cosine_ = upload_table(tables.local.cosine);
  local_sine_ = upload_table(tables.local.sine);
  temperatures_ = upload_table(tables.temperatures);
  if (options.pages) pool_ = allocate(cache_.page_bytes() * options.pages);
  make_states();
  slots_ = SlotTable(shape, options.slots, options.states, options.replay);
}

DeviceCore::~DeviceCore() {
  if (work_->place) memory_.release(work_->place);
  if (input_place_) memory_.release(input_place_);
  for (uint8_t* place : places_) memory_.release(place);
}

const uint8_t* DeviceCore::tokens_place() const { return reinterpret_cast<const uint8_t*>(work_->tokens); }
const uint8_t* DeviceCore::told_place() const { return work_->told; }
const uint8_t* DeviceCore::logits_place() const { return reinterpret_cast<const uint8_t*>(work_->logits); }

bool DeviceCore::has_room(const Sizes& sizes) const {
  const Sizes& room = work_->room;
  return input_.size() <= input_room_ && sizes.columns <= room.columns && sizes.outputs <= room.outputs && sizes.splits <= room.splits && sizes.sampled <= room.sampled;
}

void DeviceCore::reserve(const Sizes& sizes) {
  Work& work = *work_;
  const Shape& s = shape();
  Sizes room = {std::max(work.room.columns, sizes.columns), std::max({work.room.outputs, sizes.outputs, 1}), std::max(work.room.splits, sizes.splits), 0,
                std::max(work.room.sampled, sizes.sampled)};
  // Reserved from the start: room for the page tables of all slots, for the ids that each output may be, and for changes of logits, of which each output may
  // have as many as its history has tokens. Later the pages of the cache take all the rest of the memory.
  if (input_.size() > input_room_ || input_room_ == 0) {
    const size_t pages = static_cast<size_t>(options_.slots) * ((s.context + kPage - 1) / kPage) * sizeof(int);
    const size_t outputs = std::max(options_.slots, room.outputs);
    const size_t changes = std::min<size_t>(outputs * s.context * sizeof(Change), kChangesFromTheStart);
    const size_t allowed = outputs * words_of(s.vocab) * sizeof(uint32_t);
    const size_t input_room = std::max(2 * input_.size(), layout_of(room.columns, true).page_begin() + pages + changes + allowed);
    uint8_t* const input = memory_.allocate(input_room);
    if (input_place_) memory_.release(input_place_);
    input_place_ = input;
    input_room_ = input_room;
    ++generation_;
    next_ = {};
  }
  if (room == work.room) return;
  list_experts();
  const auto note = [&](const Matrix& m) { (m.format == Format::F32 ? work.floating : by_brains(m.format) ? work.brains : by_halves(m.format) ? work.halves : work.integer) = true; };
  note(weights_.head());
  int mixed = 0, router = 0, expert = 0;  // tiles
  for (const Layer& layer : weights_.layers) {
    layer.each_matrix(note);
    const int recurrent = layer.mixed.tiles + layer.gate.tiles + layer.alpha.tiles + layer.beta.tiles;
    mixed = std::max({mixed, layer.q.tiles + layer.k.tiles + layer.v.tiles + layer.gate.tiles, recurrent, layer.ffn.gate.tiles + layer.ffn.up.tiles, layer.token_gate.tiles});
    router = std::max(router, layer.router.tiles + layer.shared_gate.tiles);
    if (!layer.experts.empty()) expert = std::max(expert, layer.experts[0].gate.tiles + layer.experts[0].up.tiles);
  }
  if (s.token_inputs) note(weights_.token_product);
  if (s.drafting) note(weights_.drafter.join);
  work.stride_latent = static_cast<int>(padded(s.latent ? s.latent_queries() : 0, kTileRows));
  work.stride_tokens = weights_.token_product.tiles * kTileRows;
  work.stride_x = static_cast<int>(padded(s.width, kBlock));
  work.stride_joined = static_cast<int>(padded(s.drafting ? 2 * s.width : 0, kBlock));
  work.stride_mixed = mixed * kTileRows;
  work.stride_router = router * kTileRows;
  work.stride_expert = expert * kTileRows;
  work.attention = std::max(s.queries(), s.inner());

  // Laid out once with a null base, for the total size, then again in the memory allocated.
  uint8_t* base = nullptr;
  size_t at = 0;
  const auto take = [&]<class T>(T*& piece, size_t count) {
    piece = reinterpret_cast<T*>(base + at);
    at += padded(count * sizeof(T), 256);
  };
  const auto take_activations = [&](Activations& a, size_t columns, int size) {
    a.blocks = (size + kBlock - 1) / kBlock;
    const size_t places = padded(columns, kColumns) * a.blocks;
    a.codes = a.halves = a.brains = nullptr;
    a.about = nullptr;
    a.wide = nullptr;
    if (work.integer) take(a.codes, places * 8);
    if (work.halves) take(a.halves, places * 16);
    if (work.integer || work.halves) take(a.about, places / 2);
    if (work.brains) take(a.brains, (padded(columns, kColumns) + kSpareColumns) * a.blocks * kBlock);
    if (work.floating) take(a.wide, places * kBlock);
  };
  const size_t columns = room.columns, outputs = room.outputs;
  const Heads all = s.heads_of(LayerKind::Attention), local = s.heads_that_slide();
  const int fewest_blocks = std::min(blocks_of_heads(all.head_size, all.heads, all.kv_heads), blocks_of_heads(local.head_size, local.heads, local.kv_heads));
  const auto lay_out = [&] {
    at = 0;
    take(work.x, columns * work.stride_x);
    take(work.earlier_x, s.drafting ? columns * work.stride_x : 0);
    take(work.joined, columns * work.stride_joined);
    take(work.branch, s.post_norms || s.shared_ffn || s.token_inputs ? columns * work.stride_x : 0);
    take(work.token_products, columns * work.stride_tokens);
    take(work.token_inputs, columns * work.stride_tokens);
    take(work.mixed, columns * work.stride_mixed);
    take(work.queries, columns * s.queries());
    take(work.gates, s.gated_attention ? columns * s.queries() : 0);
    take(work.attended, s.latent ? 0 : columns * work.attention);
    take(work.partial, std::min<size_t>({columns, kApartColumns, static_cast<size_t>((kApartBelow - 1) / fewest_blocks)}) * s.most_heads() * room.splits * (cache_.most_values() + 2));
    take(work.logits, outputs * logits_stride());
    take(work.parts, outputs * kVocabularyParts);
    take(work.tokens, outputs);
    take(work.candidates, room.sampled ? outputs * kMostCandidates : 0);
    take(work.told, room.sampled ? outputs * bytes_told(kMostLogprobs) : 0);
    take_activations(work.width_input, columns, s.width);
    if (s.drafting) take_activations(work.join_input, columns, 2 * s.width);
    take_activations(work.attention_input, columns, s.attention_outputs());
    if (s.latent) {
      const size_t places = static_cast<size_t>(s.heads) * padded_columns(room.columns);
      take(work.latent_queries, s.query_rank ? columns * work.stride_latent : 0);
      take(work.head_outputs, places * std::max(s.latent, s.latent_values));
      take(work.head_lists, places / kColumns);
      take(work.head_list_count, 1);
      take_activations(work.rank_input, columns, std::max(1, s.query_rank));
      take_activations(work.key_input, places, s.latent_keys);
      take_activations(work.value_input, places, s.latent);
    }
    take_activations(work.ffn_input, columns, std::max(s.dense_ffn(), s.token_inputs));
    take_activations(work.head_input, outputs, s.width);
    if (states_) {
      take(work.convolved, s.gated_convolution ? 0 : columns * recurrent_.channel_stride);
      take(work.delta_gates, columns * 2 * s.value_heads);
      take_activations(work.recurrent_input, columns, s.gated_convolution ? s.width : s.inner());
    }
    if (!s.experts) return;
    // Steps with fewer columns may use shorter lists, and so more of them per column.
    const int choices = room.columns * s.experts_used;
    const size_t places = static_cast<size_t>(most_groups(s.experts, choices, kColumns)) * kColumns;
    take(work.router, columns * work.stride_router);
    take(work.choices, choices);
    take(work.lists, most_groups(s.experts, choices, kColumns));
    take(work.list_count, 1);
    take(work.expert_mixed, places * work.stride_expert);
    take(work.answers, places * work.stride_x);
    take(work.combined, s.post_norms ? columns * work.stride_x : 0);
    take_activations(work.expert_input, places, s.width);
    take_activations(work.expert_ffn, places, s.expert_ffn);
  };
  const Work before = work;
  lay_out();
  uint8_t* place = nullptr;
  try {
    place = memory_.allocate(at);
  } catch (...) {  // this step fails, and others go on in the old room
    work = before;
    throw;
  }
  if (work.place) memory_.release(work.place);
  base = work.place = place;
  work.bytes = at;
  lay_out();
  work.room = room;
  ++generation_;
  next_ = {};
}

void run_products(Product product, const Matrix* const* matrices, const ExpertWeights* const* experts, int count, float* out, int most, Stream stream) {
  bool done[kMostItems] = {};
  product.blocks = matrices[0]->blocks;
  for (int i = 0; i < count; ++i) {
    if (done[i]) continue;
    product.count = 0;
    int offset = 0;
    for (int j = 0; j < count; ++j) {
      if (j >= i && !done[j] && matrices[j]->format == matrices[i]->format) {
        product.items[product.count++] = {matrices[j]->data, out + offset, matrices[j]->scale, matrices[j]->tiles, experts ? experts[j] : nullptr, matrices[j]->bias};
        done[j] = true;
      }
      offset += matrices[j]->tiles * kTileRows;
    }
    run_product(matrices[i]->format, product, most, stream);
  }
}

void run_product_of(const Matrix& m, const Activations& input, const int* columns, float* out, int stride, bool add, int most, Stream stream) {
  Product product = product_of(input, columns, stride);
  product.add = add;
  const Matrix* const one[] = {&m};
  run_products(product, one, nullptr, 1, out, most, stream);
}

void DeviceCore::enqueue(const Sizes& sizes, Stream stream) {
  const Shape& s = shape();
  const StepInput input = input_at(input_place_, layout_of(sizes.columns, sizes.sampled != 0));
  const Pass pass = {sizes, input, stream, sizes.columns, &input.counts->columns};
  embed_tokens(pass);
  if (s.token_inputs) read_token_inputs(pass);
  if (s.latent) list_heads(pass);
  for (int l = 0; l < s.layers; ++l) {
    const Layer& layer = weights_.layers[l];
    mix(layer, pass);
    if (s.feeds_forward(layer.kind)) feed_forward(layer, pass);
    if (s.token_inputs) add_token_inputs(layer, pass);
  }
  if (sizes.outputs) predict(weights_.final_norm, pass);
}

void DeviceCore::mix(const Layer& layer, const Pass& pass) {
  if (layer.kind == LayerKind::FeedForward) return;
  if (layer.kind == LayerKind::Recurrent && shape().gated_convolution) gated_convolution(layer, pass);
  else if (layer.kind == LayerKind::Recurrent) recurrent(layer, pass);
  else if (shape().latent) latent_attention(layer, pass);
  else attention(layer, pass);
}

void DeviceCore::embed_tokens(const Pass& pass) {
  const Matrix& table = weights_.embedding;
  const ProductItem rows = {table.data, nullptr, table.scale, table.tiles};
  embed(table.format, rows, table.blocks, shape().width, shape().embedding_scale, pass.input, work_->tokens, work_->x, work_->stride_x, pass.most, pass.stream);
  if (const float* norm = weights_.embedding_norm)
    norm_in_place({work_->x, work_->stride_x, shape().width, norm, shape().norm_epsilon, pass.columns, nullptr, {}}, work_->x, pass.most, pass.stream);
}

void DeviceCore::predict(const float* norm, const Pass& pass) {
  const auto& [sizes, input, stream, most, columns] = pass;
  const Shape& s = shape();
  Work& work = *work_;
  const int* const outputs = &input.counts->outputs;
  const int stride = static_cast<int>(logits_stride());
  rms_norm({work.x, work.stride_x, s.width, norm, s.norm_epsilon, outputs, input.output_columns, work.head_input, s.layer_norm}, sizes.outputs, stream);
  run_product_of(weights_.head(), work.head_input, outputs, work.logits, stride, false, sizes.outputs, stream);
  if (s.final_softcap > 0.0f) soft_cap(s.final_softcap, work.logits, stride, s.vocab, outputs, sizes.outputs, stream);
  choose_largest(work.logits, stride, s.vocab, outputs, work.parts, work.tokens, sizes.outputs, stream);
  if (!sizes.sampled) return;
  const int id_bits = std::bit_width(static_cast<unsigned>(s.vocab - 1));
  sample_tokens({work.logits, stride, s.vocab, id_bits, work.candidates, work.tokens, work.told}, input, sizes.outputs, stream);
}

// x as the input of the next products, normed where there is a weight.
void DeviceCore::read_stream(const float* weight, const Pass& pass) {
  Work& work = *work_;
  const Shape& s = shape();
  if (!weight) return quantize(work.x, work.stride_x, s.width, nullptr, 0, pass.columns, work.width_input, pass.most, pass.stream);
  rms_norm({work.x, work.stride_x, s.width, weight, s.norm_epsilon, pass.columns, nullptr, work.width_input, s.layer_norm}, pass.most, pass.stream);
}

// The stream, normed, as the input of these matrices and nothing else: by their own kernels where it is one column, and all take it so. (Of parallel branches the
// feed-forward part reads it too.)
Product DeviceCore::product_of_stream(const float* weight, std::initializer_list<const Matrix*> matrices, const Pass& pass) {
  Work& work = *work_;
  const Shape& s = shape();
  Product product = product_of(work.width_input, pass.columns, work.stride_mixed);
  const bool inside = std::all_of(matrices.begin(), matrices.end(), [](const Matrix* m) { return !m->data || (!is_float(m->format) && m->blocks <= kAloneBlocks); });
  if (weight && pass.most == 1 && inside && !s.layer_norm && !s.parallel) product.norm = {work.x, weight, s.norm_epsilon, s.width};
  else read_stream(weight, pass);
  return product;
}

// x += weights * inputs, or the norm of that product; times the layer's scale where that is its last part
void DeviceCore::join(const Matrix& weights, const Activations& inputs, const float* post_norm, const float* scale, const Pass& pass) {
  Work& work = *work_;
  const Shape& s = shape();
  run_product_of(weights, inputs, pass.columns, post_norm ? work.branch : work.x, work.stride_x, !post_norm, pass.most, pass.stream);
  if (post_norm) add_norm({work.branch, work.stride_x, s.width, post_norm, s.post_epsilon(), pass.columns, nullptr, {}}, scale, work.x, pass.most, pass.stream);
}

void DeviceCore::attention(const Layer& layer, const Pass& pass) {
  const auto& [sizes, input, stream, most, columns] = pass;
  const Shape& s = shape();
  Work& work = *work_;
  const Matrix* const matrices[] = {&layer.q, &layer.k, &layer.v, &layer.gate};
  run_products(product_of_stream(layer.attention_norm, {&layer.q, &layer.k, &layer.v, &layer.gate}, pass), matrices, nullptr,
               s.head_gates ? 4 : layer.v.data ? 3 : layer.keeps ? 2 : 1, work.mixed, most, stream);

  const auto [heads, kv_heads, head_size, rope_size, value_size] = layer.heads;
  const int queries = layer.heads.queries();
  CacheView view = cache_.view(pool_, layer.ordinal, 0);
  view.window = layer.kind == LayerKind::Sliding ? s.window : 0;
  view.softcap = s.attention_softcap;
  const size_t head_stride = cache_.head_bytes(layer.ordinal);
  const bool local = layer.kind == LayerKind::Sliding && local_cosine_;
  Place place{};
  place.mixed = work.mixed;
  place.stride = work.stride_mixed;
  place.key_offset = layer.q.tiles * kTileRows;
  place.value_offset = place.key_offset + (layer.v.data ? layer.k.tiles * kTileRows : 0);
  place.queries = work.queries;
  place.gates = s.gated_attention ? work.gates : nullptr;
  place.q_norm = layer.q_norm;
  place.k_norm = layer.k_norm;
  place.v_norm = layer.v_norm;
  place.whole_norms = s.whole_qk_norm;
  place.rotates_first = s.rotates_first;
  place.epsilon = s.norm_epsilon;
  place.query_scale = s.query_scale;
  place.cosine = local ? local_cosine_ : cosine_;
  place.sine = local ? local_sine_ : sine_;
  place.temperatures = temperatures_;
  place.heads = heads;
  place.kv_heads = layer.keeps ? kv_heads : 0;
  place.head_size = head_size;
  place.rope_size = rope_size;
  place.pairs = s.rope_pairs;
  place.cache = view;
  place.head_stride = head_stride;
  place_keys(place, input, most, stream);

  Activations joined = work.attention_input;
  joined.blocks = layer.output.blocks;
  Attention attention{work.queries, heads, kv_heads, view, head_stride, layer.kind == LayerKind::Sliding, sizes.splits, nullptr, work.attended, queries, place.gates, layer.sinks, joined};
  if (s.head_gates) attention.head_gates = {work.mixed + place.value_offset + layer.v.tiles * kTileRows, work.stride_mixed, value_size};
  const int tokens = std::min(sizes.tokens, tokens_of(layer.kind)), together = tokens == 1 && fits_token(attention) ? kTokenSplits : 1;
  if (work.splits_apart(sizes, blocks_of_heads(head_size, heads, kv_heads), together)) attention.partial = work.partial;
  attend(attention, input, tokens, most, stream);
  if (!attention.ends_with_blocks() && s.head_gates) quantize_gated_heads(work.attended, queries, queries, attention.head_gates, columns, joined, most, stream);
  else if (!attention.ends_with_blocks()) quantize(work.attended, queries, queries, place.gates, queries, columns, joined, most, stream);
  join(layer.output, joined, layer.attention_post_norm, nullptr, pass);
}

// For experts an upper bound: as if the choices fell on as many experts as possible.
uint64_t DeviceCore::weight_bytes(const Sizes& sizes, bool drafts) const {
  const Shape& s = shape();
  const int lists_of_head = (sizes.columns + experts_together(sizes.columns) - 1) / experts_together(sizes.columns);
  const auto bytes = [](const Matrix& m, int columns) {
    const int together = columns_together(m.format, columns);
    return static_cast<uint64_t>(m.tiles) * device_row_tile_bytes(m.format, m.blocks) * ((columns + together - 1) / together);
  };
  uint64_t sum = bytes(weights_.head(), sizes.outputs);
  if (s.token_inputs) sum += bytes(weights_.token_product, sizes.columns);
  if (drafts) sum += bytes(weights_.drafter.join, sizes.columns);
  for (int l = drafts ? s.layers : 0; l < (drafts ? s.all_layers() : s.layers); ++l) {
    const Layer& layer = weights_.layers[l];
    layer.each_dense_matrix([&](const Matrix& m) { sum += bytes(m, sizes.columns); });
    for (const std::vector<Matrix>* heads : {&layer.k_b, &layer.v_b})
      for (const Matrix& m : *heads) sum += bytes(m, 1) * lists_of_head;
    if (layer.experts.empty()) continue;
    const int lists = most_groups(s.experts, sizes.columns * s.experts_used, experts_together(sizes.columns));
    const FeedForward& any = layer.experts[0];
    for (const Matrix* m : {&any.gate, &any.up, &any.down})
      if (m->data) sum += bytes(*m, 1) * lists;
  }
  return sum;
}

}  // namespace paceline::cuda
