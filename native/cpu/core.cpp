// Construction, commit and the check of rows. Loading is in load.cpp, the step in step*.cpp.
#include "core.h"

#include <algorithm>
#include <stdexcept>

#include "work.h"

namespace paceline {

int Shape::layers_of(bool recurrent) const {
  return static_cast<int>(std::count_if(kinds.begin(), kinds.end(), [&](LayerKind kind) { return (kind == LayerKind::Recurrent) == recurrent; }));
}

Core::Core(const Shape& shape, const Options& options, Rotation rotation, Rotation local)
    : shape_((shape.check(), shape)), options_(options), kernels_(choose_kernels(options.isa.c_str())), cache_(cache_layout(shape, options.key_type, options.value_type)), layers_(shape.layers),
      rotation_(std::move(rotation)), local_(std::move(local)) {
  if (options.slots < 1 || options.pages < 1 || options.threads < 1) throw std::invalid_argument("slots, pages and threads must be at least 1");
  if (options.states < 0) throw std::invalid_argument("states must be at least 0");
  const size_t angles = static_cast<size_t>(shape.context) * (shape.rope_size / 2);
  for (const Rotation* table : {&rotation_, &local_})
    if (table->cosine.size() != table->sine.size() || (table->cosine.size() != angles && (table == &rotation_ || !table->cosine.empty())))
      throw std::invalid_argument("tables of rotation that are not [context, rope_size / 2]");
  int ordinal[2] = {};
  for (int l = 0; l < shape.layers; ++l) {
    layers_[l].kind = shape.kinds[l];
    layers_[l].ordinal = ordinal[shape.kinds[l] == LayerKind::Recurrent]++;
    layers_[l].experts.resize(shape.experts);
  }
  pool_ = Mapping(cache_.page_bytes() * options.pages);
  if (ordinal[1]) {
    RecurrentLayout layout = recurrent_layout(shape);
    layout.slots = options.slots;
    layout.kept = options.states;
    states_ = std::make_unique<RecurrentStates>(layout);
    kept_.assign(options.states, kNothing);
  }
  slots_.resize(options.slots);
  for (Slot& slot : slots_) slot.ids.resize(shape.context);
  work_ = std::make_unique<Work>();
}

Core::~Core() = default;

CacheLayout Core::cache_layout(const Shape& shape, CacheType key_type, CacheType value_type) {
  const CacheLayout layout = {shape.layers_of(false), shape.kv_heads, shape.head_size, key_type, value_type};
  layout.check();
  return layout;
}

RecurrentLayout Core::recurrent_layout(const Shape& shape) {
  return {.layers = shape.layers_of(true),
          .kernel = shape.conv_kernel,
          .channel_stride = (shape.channels() + 15) / 16 * 16,
          .value_heads = shape.value_heads,
          .key_size = shape.key_size,
          .value_stride = (shape.value_size + 15) / 16 * 16,
          .replay = kReplay};
}

size_t Core::logits_stride() const { return static_cast<size_t>(head().tiles) * kTileRows; }

uint64_t Core::weight_bytes() const {
  uint64_t sum = head().bytes();
  for (const Layer& layer : layers_) layer.each_matrix([&](const Matrix& m) { sum += m.bytes(); });
  return sum;
}

void Core::commit(int slot, int position) {
  check_slot(slot);
  Slot& state = slots_[slot];
  if (position != 0 && position != state.position && (position < state.position || position > state.reached))
    throw std::invalid_argument("slot " + std::to_string(slot) + " stands at " + std::to_string(state.position) + " and its last step reached " +
                                std::to_string(state.reached) + ": it can't be committed to " + std::to_string(position));
  if (states_ && position > state.position) {
    const int count = position - state.position;
    if (position < state.reached && state.reached - state.position > kReplay)
      throw std::invalid_argument("slot " + std::to_string(slot) + ": a row of more than " + std::to_string(kReplay) + " tokens is committed whole where layers are recurrent");
    if (position < state.reached) replay(slot, count);
    state.state ^= 1;
  }
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
    for (const auto& [id, bias] : row.sampling.bias)
      if (id < 0 || id >= shape_.vocab) refuse("a bias for token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape_.vocab));
    if (row.outputs < 0 || row.outputs > count) refuse("outputs must be 0 to its number of tokens");
    for (const int32_t id : row.tokens)
      if (id < 0 || id >= shape_.vocab) refuse("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape_.vocab));
    if (static_cast<int64_t>(row.table_size) * kPage < row.position + count) refuse("its page table is too short");
    for (int i = 0; i * kPage < row.position + count; ++i)
      if (row.table[i] < 0 || row.table[i] >= options_.pages) refuse("page " + std::to_string(row.table[i]) + " is not in the pool of " + std::to_string(options_.pages));
  }
}

}  // namespace paceline
