// Construction and commit. Loading is in load.cpp, the step in step*.cpp.
#include "core.h"

#include <algorithm>
#include <stdexcept>

#include "kernels.h"
#include "tile_store.h"
#include "work.h"

namespace paceline {

int Shape::recurrent_layers() const { return static_cast<int>(std::count(kinds.begin(), kinds.end(), LayerKind::Recurrent)); }

int Shape::keeper_of(int layer) const {
  if (layer < layers - borrowing_layers || layer >= layers) return layer;
  for (int earlier = layers - borrowing_layers - 1; earlier >= 0; --earlier)
    if (kinds[earlier] == kinds[layer]) return earlier;
  return -1;
}

void check_tables(const Shape& shape, const Tables& tables) {
  const auto check = [&](const Rotation& table, const Heads& heads) {
    const size_t size = static_cast<size_t>(shape.context) * (heads.rope_size / 2);
    if (table.cosine.size() != size || table.sine.size() != size) throw std::invalid_argument("tables of rotation that are not [context, rope_size / 2]");
  };
  check(tables.rotation, shape.heads_of(LayerKind::Attention));
  const Rotation& local = tables.local;
  const bool slides = std::count(shape.kinds.begin(), shape.kinds.end(), LayerKind::Sliding);
  if (!local.cosine.empty() || !local.sine.empty() || (slides && shape.local_rope_size)) check(local, shape.heads_that_slide());
  if (!tables.temperatures.empty() && tables.temperatures.size() != static_cast<size_t>(shape.context)) throw std::invalid_argument("temperatures that are not [context]");
}

Core::Core(const Shape& shape, const Options& options, Tables tables)
    : shape_((shape.check(), shape)), options_(options), kernels_(choose_kernels(options.isa.c_str())), cache_(cache_layout(shape, options.key_type, options.value_type)), weights_(shape),
      tables_(std::move(tables)) {
  if (options.slots < 1 || options.pages < 1 || options.threads < 1) throw std::invalid_argument("slots, pages and threads must be at least 1");
  if (options.states < 0 || options.replay < 0) throw std::invalid_argument("states and replay must be at least 0");
  check_tables(shape, tables_);
  pool_ = Mapping(cache_.page_bytes() * options.pages);
  if (shape.recurrent_layers()) {
    RecurrentLayout layout = recurrent_layout(shape);
    layout.slots = options.slots;
    layout.kept = options.states;
    layout.replay = options.replay;
    states_ = std::make_unique<RecurrentStates>(layout);
  }
  slots_ = SlotTable(shape, options.slots, options.states, options.replay);
  work_ = std::make_unique<Work>();
  if (shape.drafting) {
    draft_work_ = std::make_unique<Work>();
    draft_work_->drafts = true;
  }
}

Core::~Core() = default;

const char* Core::isa() const { return kernels_.name; }

CacheLayout Core::cache_layout(const Shape& shape, CacheType key_type, CacheType value_type) {
  std::vector<CachedHeads> layers;
  for (int l = 0; l < static_cast<int>(shape.kinds.size()); ++l) {
    const Heads heads = shape.heads_of(shape.kinds[l]);
    if (Shape::attends(shape.kinds[l]) && shape.keeper_of(l) == l) layers.push_back({heads.kv_heads, heads.head_size, heads.value_size});
  }
  return {std::move(layers), key_type, value_type};
}

RecurrentLayout Core::recurrent_layout(const Shape& shape) {
  return {.layers = shape.recurrent_layers(),
          .kernel = shape.conv_kernel,
          .channel_stride = (shape.channels() + 15) / 16 * 16,
          .value_heads = shape.value_heads,
          .key_size = shape.key_size,
          .value_stride = (shape.value_size + 15) / 16 * 16};
}

void Core::load(const Source& source) {
  TileStore store(arena_, options_.threads);
  weights_.load(source, store);
}

uint64_t Core::weight_bytes() const {
  uint64_t sum = weights_.head().bytes() + weights_.token_product.bytes() + weights_.drafter.join.bytes();
  for (const Layer& layer : weights_.layers) layer.each_matrix([&](const Matrix& m) { sum += m.bytes(); });
  return sum;
}

void Core::commit(int slot, int position) {
  if (const int updates = slots_.check_commit(slot, position)) replay(slot, updates);
  slots_.commit(slot, position);
}

}  // namespace paceline
