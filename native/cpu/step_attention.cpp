// An attention layer: queries, keys and values; keys and values into the cache; attention; its output back to the stream.
#include <algorithm>
#include <cstring>

#include "step.h"

namespace paceline {

CacheView Core::Step::cache(const Layer& layer, int kv_head) const {
  CacheView view = core.cache_.view(static_cast<uint8_t*>(core.pool_.data()), layer.ordinal, kv_head);
  view.window = layer.kind == LayerKind::Sliding ? s.window : 0;
  view.softcap = s.attention_softcap;
  return view;
}

void Core::Step::attention(Member& me, Private& own, const Layer& layer) {
  norm_columns(me, own, layer.attention_norm);
  const Matrix* const matrices[] = {&layer.q, &layer.k, &layer.v, &layer.gate};
  const size_t k = static_cast<size_t>(layer.q.tiles) * kTileRows, v = k + static_cast<size_t>(layer.k.tiles) * kTileRows;
  const size_t offsets[] = {0, k, v, gate_offset(layer)};
  products(me, own, matrices, offsets, s.head_gates ? 4 : layer.v.data ? 3 : layer.keeps ? 2 : 1);
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) place_keys(own, layer, c);
  me.barrier.wait();
  attend(me, own, layer);
  merge_splits(me, own, layer);
  if (s.head_gates) gate_heads(me, layer);
  quantize_attention(me, layer.heads.queries(), s.gated_attention);
  add_product(me, own, layer.output, work.head_input.views, layer.attention_post_norm);
}

// Norms and rotation of one column's queries and keys; its key and value into the cache. No barrier.
void Core::Step::place_keys(Private& own, const Layer& layer, int c) {
  const auto [all_heads, kv_heads, head_size, rope_size, value_size] = layer.heads;
  float* const q = mixed(c);
  float* const k = q + static_cast<size_t>(layer.q.tiles) * kTileRows;
  float* const v = k + static_cast<size_t>(layer.k.tiles) * kTileRows;
  const auto norm_heads = [&](float* vectors, const float* weight, int heads, bool whole) {
    const int size = whole ? heads * head_size : head_size;
    for (int h = 0; weight && h < (whole ? 1 : heads); ++h) {
      kernels.rms_norm(vectors + h * size, weight, s.norm_epsilon, size, own.norm.data());
      std::memcpy(vectors + h * size, own.norm.data(), sizeof(float) * size);
    }
  };
  if (s.gated_attention) {  // [query | gate] of each head: the gates go apart, the queries together
    float* gates = work.gates.data() + static_cast<size_t>(c) * padded(all_heads * head_size, kLanesWide);
    for (int h = 0; h < all_heads; ++h) {
      std::memcpy(gates + h * head_size, q + (2 * h + 1) * head_size, sizeof(float) * head_size);
      std::memmove(q + h * head_size, q + 2 * h * head_size, sizeof(float) * head_size);
    }
  }
  const int position = work.position_of[c];
  const Rotation& rotation = layer.kind == LayerKind::Sliding && !core.tables_.local.cosine.empty() ? core.tables_.local : core.tables_.rotation;
  const float* cosine = rotation.cosine.data() + static_cast<size_t>(position) * (rope_size / 2);
  const float* sine = rotation.sine.data() + static_cast<size_t>(position) * (rope_size / 2);
  const auto norm_and_turn = [&](float* vectors, const float* weight, int heads) {
    if (!s.rotates_first) norm_heads(vectors, weight, heads, s.whole_qk_norm);
    kernels.rotate(vectors, heads, head_size, rope_size, s.rope_pairs, cosine, sine);
    if (s.rotates_first) norm_heads(vectors, weight, heads, s.whole_qk_norm);
  };
  norm_and_turn(q, layer.q_norm, all_heads);
  const float scale = s.query_scale * temperature(position);
  for (int i = 0; i < all_heads * head_size; ++i) q[i] *= scale;
  if (!layer.keeps) return;
  if (!layer.v.data) std::memcpy(v, k, sizeof(float) * kv_heads * head_size);
  norm_and_turn(k, layer.k_norm, kv_heads);
  norm_heads(v, layer.v_norm, kv_heads, false);
  const int page = rows[work.row_of[c]].table[position / kPage];
  for (int h = 0; h < kv_heads; ++h) kernels.write_cache(cache(layer, h), page, position, k + h * head_size, v + h * head_size);
}

// The first keys that an item reads, 64 to a page.
const uint8_t* Core::Step::first_keys(const Layer& layer, const AttentionItem& item) const {
  const CacheView view = cache(layer, item.kv_head);
  const int position = rows[item.row].position + item.first, lowest = view.window > 0 ? std::max(position - view.window + 1, 0) : 0;
  return view.pool + static_cast<size_t>(rows[item.row].table[std::max(lowest, item.begin_split * kSplit) / kPage]) * view.page_stride + view.key_offset;
}

void Core::Step::attend(Member& me, Private& own, const Layer& layer) {
  const AttentionList& list = list_of(layer);
  const int items = static_cast<int>(list.items.size()), head_size = layer.heads.head_size, value_size = layer.heads.value_size;
  std::atomic<int>& next = work.next_item[layer.number];
  for (int i = next.fetch_add(1, std::memory_order_relaxed); i < items; i = next.fetch_add(1, std::memory_order_relaxed)) {
    const AttentionItem& item = list.items[i];
    const CacheView view = cache(layer, item.kv_head);
    // Each item begins with a page that the hardware prefetcher cannot predict. If the members advance evenly, this is the member's next item.
    const uint8_t* const then = i + me.count < items ? first_keys(layer, list.items[i + me.count]) : nullptr;
    const float* of[kQueryTile];
    float *out[kQueryTile], *states[kQueryTile];
    int positions[kQueryTile], count = 0;
    float sinks[kQueryTile];
    const SplitPart part{item.begin_split, item.end_split, states};
    const bool whole = !list.kept[work.first_column[item.row] + item.first].splits;
    const auto flush = [&] {
      kernels.attend(view, rows[item.row].table, count, of, positions, sinks, out, whole ? nullptr : &part, then, own.attention.data());
      count = 0;
    };
    for (int token = 0; token < item.count; ++token) {
      const int c = work.first_column[item.row] + item.first + token;
      for (int head = item.first_head; head < item.first_head + item.heads; ++head) {
        of[count] = queries(c) + head * head_size;
        out[count] = work.attention.data() + c * work.stride_attention + head * value_size;
        if (!whole) states[count] = split_states(list.kept[c], head);
        positions[count] = work.position_of[c];
        sinks[count] = sink(layer, head);
        if (++count == kQueryTile) flush();
      }
    }
    if (count) flush();
  }
  me.barrier.wait();
}

// Of the columns whose splits were several items. No barrier where there are none.
void Core::Step::merge_splits(Member& me, Private& own, const Layer& layer) {
  const AttentionList& list = list_of(layer);
  if (!list.state_floats) return;
  const CacheView view = cache(layer, 0);
  me.divide(columns * layer.heads.heads, [&](int i) {
    const int c = i / layer.heads.heads, head = i % layer.heads.heads;
    if (!list.kept[c].splits) return;
    float* const out = work.attention.data() + c * work.stride_attention + head * layer.heads.value_size;
    kernels.merge_splits(view, work.position_of[c], sink(layer, head), split_states(list.kept[c], head), out, own.attention.data());
  });
}

// Where a column's gates of heads lie, behind its values.
size_t Core::Step::gate_offset(const Layer& layer) const { return static_cast<size_t>(layer.q.tiles + layer.k.tiles + layer.v.tiles) * kTileRows; }

// Each head's outputs times the softplus of its gate. No barrier: the next operation is divided by columns too.
void Core::Step::gate_heads(Member& me, const Layer& layer) {
  const auto [begin, end] = me.share(columns);
  for (int c = begin; c < end; ++c) kernels.multiply_heads(mixed(c) + gate_offset(layer), layer.heads.heads, layer.heads.value_size, work.attention.data() + c * work.stride_attention);
}

// attention [columns][size], gated where it is, as the input of the output product
void Core::Step::quantize_attention(Member& me, int size, bool gated) {
  const auto [begin, end] = me.share(columns);
  const int blocks = (size + kBlock - 1) / kBlock;
  for (int c = begin; c < end; ++c) {
    float* row = work.attention.data() + c * work.stride_attention;
    std::fill(row + size, row + blocks * kBlock, 0.0f);
    if (gated) kernels.multiply_gate(work.gates.data() + static_cast<size_t>(c) * padded(size, kLanesWide), false, size, row);
    quantize_column(row, blocks, c, columns, work.head_input.views);
  }
  me.barrier.wait();
  interleave(me, work.attention.data(), work.stride_attention, blocks, columns, work.head_input.views);
}

}  // namespace paceline
