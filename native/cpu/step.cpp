// The ragged step: every operation over all columns of all rows, the threads in step at barriers.
//
// A column is one token of one row. A row of one token (decode), a chunk of a prompt and a drafted run differ in nothing
// but their number of columns. Whatever shares the step, a column's arithmetic is the same: products and norms never mix
// columns, attention reads keys through the row's own page table up to the column's own position, and a recurrent state
// is its row's own.
#include "step.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "repack.h"

namespace paceline {

void Core::list_columns(const std::vector<Row>& rows, Work& work) {
  work.row_of.clear();
  work.position_of.clear();
  work.first_column.clear();
  work.output_column.clear();
  work.output_row.clear();
  for (int r = 0; r < static_cast<int>(rows.size()); ++r) {
    const Row& row = rows[r];
    const int count = static_cast<int>(row.tokens.size());
    const int first = static_cast<int>(work.row_of.size());
    work.first_column.push_back(first);
    for (int i = 0; i < count; ++i) {
      work.row_of.push_back(r);
      work.position_of.push_back(row.position + i);
    }
    for (int i = count - row.outputs; i < count; ++i) {
      work.output_column.push_back(first + i);
      work.output_row.push_back(r);
    }
  }
  work.columns = static_cast<int>(work.row_of.size());
  const Heads all = shape_.heads_of(LayerKind::Attention), local = shape_.heads_that_slide();
  list_items(rows, all, work, work.attention_list);
  if (local.kv_heads != all.kv_heads || local.heads != all.heads) list_items(rows, local, work, work.local_list);
  if (work.next_item.empty()) work.next_item = std::vector<std::atomic<int>>(shape_.all_layers());
  for (auto& next : work.next_item) next.store(0, std::memory_order_relaxed);
}

// A few long histories would keep only a few threads busy, so their splits become items of their own, as long as there is room for the partial results: no
// item has much more than a third of a thread's share of the keys. So do parts of the heads that share a kv head, where these are many and columns are few.
void Core::list_items(const std::vector<Row>& rows, const Heads& heads, const Work& work, AttentionList& list) const {
  constexpr int kPieces = 3;
  constexpr size_t kMostStates = 16 << 20;  // floats
  constexpr int kFewestHeads = 4;  // to a part: each part reads the keys and values anew
  const int kv_heads = heads.kv_heads, group = heads.heads / kv_heads;
  int parts = (group + kQueryTile - 1) / kQueryTile;
  while (parts * kv_heads * work.columns < options_.threads && 2 * parts * kFewestHeads <= group) parts *= 2;
  const int tile = std::max(1, kQueryTile / ((group + parts - 1) / parts));
  const size_t state = split_state(cache_.most_values());
  std::vector<AttentionItem> tiles;  // of one kv head, whole
  const auto history = [&](const AttentionItem& item) { return rows[item.row].position + item.first + item.count; };
  int64_t keys = 0;
  for (int r = 0; r < static_cast<int>(rows.size()); ++r) {
    const int count = static_cast<int>(rows[r].tokens.size());
    for (int i = 0; i < count; i += tile) {
      AttentionItem item{r, i, std::min(tile, count - i), 0, 0, 0, 0, 0};
      item.end_split = (history(item) + kSplit - 1) / kSplit;
      keys += static_cast<int64_t>(history(item)) * kv_heads * parts;
      tiles.push_back(item);
    }
  }
  const int64_t most = std::max<int64_t>(kSplit, options_.threads == 1 ? keys : keys / (kPieces * options_.threads));
  list.items.clear();
  list.kept.assign(work.columns, {});
  list.state_floats = 0;
  for (const AttentionItem& whole : tiles) {
    const int splits = whole.end_split;
    const size_t floats = static_cast<size_t>(heads.heads) * splits * state;
    int pieces = static_cast<int>(std::min<int64_t>(splits, (history(whole) + most - 1) / most));
    if (list.state_floats + whole.count * floats > kMostStates) pieces = 1;
    for (int token = 0; pieces > 1 && token < whole.count; ++token) {
      list.kept[work.first_column[whole.row] + whole.first + token] = {list.state_floats, splits};
      list.state_floats += floats;
    }
    for (int unit = 0; unit < kv_heads * parts; ++unit)
      for (int piece = 0; piece < pieces; ++piece) {
        const int part = unit % parts;
        AttentionItem item = whole;
        item.kv_head = unit / parts;
        item.first_head = item.kv_head * group + group * part / parts;
        item.heads = item.kv_head * group + group * (part + 1) / parts - item.first_head;
        item.begin_split = splits * piece / pieces;
        item.end_split = splits * (piece + 1) / pieces;
        list.items.push_back(item);
      }
  }
  // The longest first, so that no thread is left with a long one at the end.
  std::stable_sort(list.items.begin(), list.items.end(), [&](const AttentionItem& a, const AttentionItem& b) { return a.keys(history(a)) > b.keys(history(b)); });
}

void Core::reserve(const std::vector<Row>& rows, Work& work) {
  const Shape& s = shape_;
  const int columns = work.columns, outputs = static_cast<int>(work.output_column.size()), joined = std::max({s.attention_outputs(), s.inner(), s.gated_convolution ? s.width : 0});
  const int attention = std::max(s.latent ? s.heads * s.latent : s.queries(), joined), groups = padded(columns, kGroup) / kGroup;
  bool integer = false, floating = false;
  struct { bool integer = false, floating = false; } of_heads;  // the matrices between latent values and heads, of which there are as many as heads
  int mixed = s.width;
  const auto note = [&](const Matrix& m) { (is_float(m.format) ? floating : integer) = true; };
  note(weights_.head());
  for (const Layer& layer : weights_.layers) {
    layer.each_matrix(note);
    if (s.latent) {
      for (const Matrix* m : {&layer.k_b[0], &layer.v_b[0]}) (is_float(m->format) ? of_heads.floating : of_heads.integer) = true;
    }
    const int tiles = layer.kind == LayerKind::Recurrent ? layer.mixed.tiles + layer.gate.tiles + layer.alpha.tiles + layer.beta.tiles : layer.q.tiles + 2 * layer.k.tiles + layer.gate.tiles;
    mixed = std::max({mixed, tiles * kTileRows, layer.token_gate.tiles * kTileRows});
  }
  if (s.token_inputs) note(weights_.token_product);
  const int joins = work.drafts ? 2 * s.width : 0;
  if (joins) note(weights_.drafter.join);
  work.stride_x = padded(s.width, kBlock);
  work.stride_mixed = padded(mixed, kBlock) + kTileRows;
  work.stride_attention = padded(attention, kBlock) + kBlock;  // whole lanes are loaded past a head's end and dropped: no other thread may own them
  work.stride_normed = floating ? padded(std::max({s.width, s.query_rank, joins}), kBlock) + (joins ? kBlock : 0) : 0;
  work.x.reserve(columns * work.stride_x);
  work.normed.reserve(std::max(columns, outputs) * work.stride_normed);
  work.mixed.reserve(columns * work.stride_mixed);
  work.attention.reserve(columns * work.stride_attention + kBlock);
  work.split_states.reserve(std::max(work.attention_list.state_floats, work.local_list.state_floats));
  work.stride_tokens = static_cast<size_t>(weights_.token_product.tiles) * kTileRows;
  work.token_inputs.reserve(columns * work.stride_tokens);
  work.logits.reserve(outputs * logits_stride());
  work.changed.reserve(outputs * logits_stride());
  work.tokens.resize(outputs);
  if (static_cast<int>(work.likeliest.size()) < outputs) work.likeliest.resize(outputs);
  for (int o = 0; o < outputs; ++o) work.likeliest[o].top.reserve(std::min(rows[work.output_row[o]].sampling.logprobs, s.vocab));
  if (s.post_norms || s.shared_ffn || s.token_inputs) work.branch.reserve(columns * work.stride_x);
  if (s.gated_attention || s.value_heads) work.gates.reserve(static_cast<size_t>(columns) * std::max(padded(s.queries(), kLanesWide), 2 * s.value_heads));
  if (s.value_heads) work.convolved.reserve(static_cast<size_t>(columns) * padded(s.channels(), kLanesWide) + kLanesWide);
  if (s.conv_kernel) work.zeros.reserve(padded(s.channels(), kLanesWide));
  const int together = std::min(columns, kGroup);
  work.width_input.reserve(groups, s.width, integer, floating, together);
  if (joins) work.join_input.reserve(groups, joins, integer, floating, together);
  if (s.latent) {
    work.stride_latent = padded(std::max(s.latent_queries(), s.heads * s.latent_values), kTileRows);
    work.stride_queries = static_cast<size_t>(s.heads) * s.head_size;
    work.latent_queries.reserve(columns * work.stride_latent);
    work.queries.reserve(columns * work.stride_queries);
    work.rank_input.reserve(groups, std::max(1, s.query_rank), integer, floating, together);
    work.key_input.reserve(s.heads * groups, s.latent_keys, of_heads.integer, of_heads.floating, together);
    work.value_input.reserve(s.heads * groups, s.latent, of_heads.integer, of_heads.floating, together);
  }
  work.ffn_input.reserve(groups, std::max({1, s.dense_ffn(), s.token_inputs}), integer, floating, together);
  work.head_input.reserve(groups, std::max(joined, s.width), integer, floating, together);

  int most_columns = std::max(columns, outputs);
  if (s.experts) {
    ExpertWork& experts = work.experts;
    const int choices = columns * s.experts_used, expert_groups = choices / kGroup + std::min(s.experts, choices);
    experts.choices.resize(choices);
    for (std::vector<int>* list : {&experts.count, &experts.first_group, &experts.active}) list->reserve(s.experts);
    experts.router.reserve(static_cast<size_t>(columns) * router_stride(s));
    experts.input.reserve(expert_groups, s.width, integer, floating);
    experts.ffn.reserve(expert_groups, s.expert_ffn, integer, floating);
    experts.out.reserve(static_cast<size_t>(expert_groups) * kGroup * work.stride_x);
  }
  work.own.resize(options_.threads);
  for (int index = 0; index < options_.threads; ++index) {
    Private& own = work.own[index];
    if (index < outputs) own.sampler.reserve(s.vocab);  // megabytes where the vocabulary is large
    own.norm.reserve(padded(std::max({s.width, s.head_size, s.query_rank, s.local_head_size, s.value_heads ? s.recurrent_norm_size() : 0, s.layers * s.token_inputs, s.whole_qk_norm ? s.queries() : 0, joins}), kBlock) + kBlock + kLanesWide);
    own.attention.reserve(attention_scratch(cache_.most_dimensions(), cache_.most_values()));
    own.scratch = {own.panel.reserve(kPanelBytes), own.sums.reserve(4 * static_cast<size_t>(padded(most_columns, kGroup)) * kTileRows), 0};
  }
}

Core::Step::Step(Core& owner, Work& own_work, const std::vector<Row>& step_rows, bool keep)
    : core(owner), work(own_work), rows(step_rows), kernels(owner.kernels_), s(owner.shape_), keep_logits(keep), columns(work.columns),
      outputs(static_cast<int>(work.output_column.size())), x(work.x.data()) {}

void Core::Step::run(Member& me) {
  Private& own = work.own[me.index];
  embed(me);
  if (s.token_inputs) read_token_inputs(me, own);
  for (int l = 0; l < s.layers; ++l) {
    const Layer& layer = core.weights_.layers[l];
    mix(me, own, layer);
    if (s.feeds_forward(layer.kind)) feed_forward(me, own, layer);
    if (s.token_inputs) add_token_inputs(me, own, layer);
  }
  if (outputs) predict(me, own, core.weights_.final_norm);
}

void Core::Step::mix(Member& me, Private& own, const Layer& layer) {
  if (layer.kind == LayerKind::FeedForward) return;
  if (layer.kind == LayerKind::Recurrent && s.gated_convolution) gated_convolution(me, own, layer);
  else if (layer.kind == LayerKind::Recurrent) recurrent(me, own, layer);
  else if (s.latent) latent_attention(me, own, layer);
  else attention(me, own, layer);
}

// No barrier: the next operation is divided by columns too.
void Core::Step::embed(Member& me) {
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* column = x + c * work.stride_x;
    read_row(core.weights_.embedding, token_of(c), column);
    if (s.embedding_scale != 1.0f)
      for (int i = 0; i < s.width; ++i) column[i] *= s.embedding_scale;
    if (const float* norm = core.weights_.embedding_norm) kernels.rms_norm(column, norm, s.norm_epsilon, s.width, column);
  }
}

void Core::Step::norm_columns(Member& me, Private& own, const float* weight) {
  if (!weight) return quantize_stream(me, own);
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) {
    float* const inputs = normed(own, c, columns);
    norm_stream(x + c * work.stride_x, weight, inputs);
    quantize_column(inputs, work.width_input.blocks, c, columns, work.width_input.views);
  }
  me.barrier.wait();
  interleave(me, work.normed.data(), work.stride_normed, work.width_input.blocks, columns, work.width_input.views);
}

void Core::Step::norm_stream(const float* column, const float* weight, float* inputs) {
  if (s.layer_norm) kernels.center(column, s.width, inputs);
  kernels.rms_norm(s.layer_norm ? inputs : column, weight, s.norm_epsilon, s.width, inputs);
}

// Of one column alone both forms; of several the wide one is interleave()'s.
void Core::Step::quantize_column(const float* inputs, int blocks, int column, int count, Activations output) {
  if (count > 1) output.wide = nullptr;
  kernels.quantize(inputs, 0, blocks, column, blocks, output);
}

// The wide form of `count` columns, inputs [count][stride]. Its cache lines hold an input of each column, so that members share the inputs: sharing the
// columns, each line would travel between their cores with every store. Where there is nothing to do, no barrier.
void Core::Step::interleave(Member& me, const float* inputs, size_t stride, int blocks, int count, const Activations& output) {
  if (!output.wide || count == 1) return;
  interleave_blocks(inputs, stride, blocks, me.share(blocks), count, output);
  me.barrier.wait();
}

void Core::Step::interleave_blocks(const float* inputs, size_t stride, int blocks, Range share, int count, const Activations& output) {
  for (int first = 0; first < count; first += kGroup) {
    const int together = std::min(kGroup, count - first);
    for (int i = share.begin * kBlock; i < share.end * kBlock; ++i) {
      float* const wide = output.wide + output.wide_place(blocks, first, i);
      for (int c = 0; c < together; ++c) wide[c] = inputs[(first + c) * stride + i];
    }
  }
}

// The tiles of all `count` matrices as one list, shared out.
void Core::Step::products(Member& me, Private& own, const Matrix* const* matrices, const size_t* offsets, int count) {
  int tiles = 0;
  for (int i = 0; i < count; ++i) tiles += matrices[i]->tiles;
  me.divide(tiles, [&](int tile) {
    int i = 0;
    while (tile >= matrices[i]->tiles) tile -= matrices[i++]->tiles;
    kernels.product(*matrices[i], tile, work.width_input.views, columns, Epilogue::Store, work.mixed.data() + offsets[i], work.stride_mixed, own.scratch);
  });
}

// x += weights * input, or the norm of it; times the layer's scale where that is its last part.
void Core::Step::add_product(Member& me, Private& own, const Matrix& weights, const Activations& input, const float* post_norm, const float* scale) {
  float* const out = post_norm ? work.branch.data() : x;
  me.divide(weights.tiles, [&](int t) { kernels.product(weights, t, input, columns, post_norm ? Epilogue::Store : Epilogue::Add, out, work.stride_x, own.scratch); });
  if (!post_norm) return;
  const auto [first, last] = me.share(columns);
  for (int c = first; c < last; ++c) add_normed(own, out + c * work.stride_x, post_norm, scale, c);
  me.barrier.wait();
}

void Core::Step::add_normed(Private& own, const float* branch, const float* norm, const float* scale, int c) {
  float* const column = x + c * work.stride_x;
  kernels.rms_norm(branch, norm, s.post_epsilon(), s.width, own.norm.data());
  kernels.add_scaled(own.norm.data(), 1.0f, s.width, column);
  for (int i = 0; scale && i < s.width; ++i) column[i] *= *scale;
}

void Core::Step::predict(Member& me, Private& own, const float* norm) {
  // By the first `outputs` members: the others have no sampler.
  const auto [first, last] = me.index < outputs ? share_of(me.index, std::min(me.count, outputs), outputs) : Range{0, 0};
  for (int o = first; o < last; ++o) {
    float* const inputs = normed(own, o, outputs);
    norm_stream(x + work.output_column[o] * work.stride_x, norm, inputs);
    quantize_column(inputs, work.width_input.blocks, o, outputs, work.head_input.views);
  }
  me.barrier.wait();
  interleave(me, work.normed.data(), work.stride_normed, work.width_input.blocks, outputs, work.head_input.views);
  const Matrix& head = core.weights_.head();
  const size_t stride = core.logits_stride();
  float* const logits = work.logits.data();
  me.divide(head.tiles, [&](int t) { kernels.product(head, t, work.head_input.views, outputs, Epilogue::Store, logits, stride, own.scratch); });
  for (int o = first; o < last; ++o) {
    const Row& row = rows[work.output_row[o]];
    const int position = work.position_of[work.output_column[o]];
    float* own_logits = logits + o * stride;
    if (s.final_softcap > 0.0f) kernels.soft_cap(s.final_softcap, s.vocab, own_logits);
    const bool told = row.sampling.logprobs > 0;
    const float* unchanged = own_logits;
    if (told) own.sampler.describe(kernels, own_logits, s.vocab, row.sampling.logprobs, work.likeliest[o]);
    if ((keep_logits || told) && (row.sampling.changes() || row.allowed)) {
      float* changed = work.changed.data() + o * stride;
      std::memcpy(changed, own_logits, sizeof(float) * stride);
      own_logits = changed;
    }
    const int output = position - row.position - static_cast<int>(row.tokens.size()) + row.outputs;  // of the row's
    const uint32_t* const allowed = row.allowed ? row.allowed + output * words_of(s.vocab) : nullptr;
    work.tokens[o] = own.sampler.sample(kernels, row.sampling, allowed, own_logits, s.vocab, core.slots_[row.slot].ids.data(), position + 1 + work.drafts, row.prompt_tokens);
    if (told) work.likeliest[o].chosen = unchanged[std::max(work.tokens[o], 0)];
  }
}

StepResult Core::step(const std::vector<Row>& rows, bool keep_logits) {
  weights_.check_loaded();
  slots_.check_rows(rows, options_.pages);
  Work& work = *work_;
  for (const Row& row : rows) slots_.feed(row);
  list_columns(rows, work);
  reserve(rows, work);
  Step step(*this, work, rows, keep_logits);
  run_team(options_.threads, [&](Member& me) { step.run(me); });

  StepResult result;
  result.tokens = work.tokens;
  result.logits = work.logits.data();
  result.likeliest = work.likeliest.data();
  result.weight_bytes = work.weight_bytes();
  if (shape_.drafting) draft(rows, result);
  slots_.reach(rows);
  return result;
}

}  // namespace paceline
