// The ragged step: every operation over all columns of all rows, the threads in step at barriers.
//
// A column is one token of one row. A row of one token (decode), a chunk of a prompt and a drafted run differ in nothing
// but their number of columns. Whatever shares the step, a column's arithmetic is the same: products and norms never mix
// columns, attention reads keys through the row's own page table up to the column's own position.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "core.h"
#include "repack.h"
#include "team.h"
#include "work.h"

namespace paceline {
namespace {

int padded(int n, int unit) { return (n + unit - 1) / unit * unit; }
int blocks_of(int n) { return (n + kBlock - 1) / kBlock; }
int groups_of(int columns) { return (columns + kGroup - 1) / kGroup; }

Activations room(Buffer<QuantizedBlock>& quantized, Buffer<float>& wide, int columns, int blocks, bool integer, bool floating) {
  const size_t places = static_cast<size_t>(groups_of(columns)) * blocks * kGroup;
  Activations a;
  if (integer) a.quantized = quantized.reserve(places);
  if (floating) a.wide = wide.reserve(places * kBlock);
  return a;
}

}  // namespace

void Core::prepare(const std::vector<Row>& rows, Work& work) {
  work.row_of.clear();
  work.position_of.clear();
  work.first_column.clear();
  work.output_column.clear();
  work.output_row.clear();
  work.items.clear();
  const int group = shape_.heads / shape_.kv_heads;
  const int tile = std::max(1, kQueryTile / group);
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
    for (int i = 0; i < count; i += tile)
      for (int h = 0; h < shape_.kv_heads; ++h) work.items.push_back({r, i, std::min(tile, count - i), h});
    Slot& slot = slots_[row.slot];
    std::copy(row.tokens.begin(), row.tokens.end(), slot.ids.begin() + row.position);
  }
  work.columns = static_cast<int>(work.row_of.size());
  // The longest histories first, so that no thread is left with a long one at the end.
  std::stable_sort(work.items.begin(), work.items.end(), [&](const AttentionItem& a, const AttentionItem& b) {
    return rows[a.row].position + a.first + a.count > rows[b.row].position + b.first + b.count;
  });
  if (work.next_item.empty()) work.next_item = std::vector<std::atomic<int>>(shape_.layers);
  for (auto& next : work.next_item) next.store(0, std::memory_order_relaxed);

  const int q = shape_.heads * shape_.head_size, kv = shape_.kv_heads * shape_.head_size;
  const int outputs = static_cast<int>(work.output_column.size());
  work.stride_x = padded(shape_.width, kBlock);
  work.offset_k = padded(q, kTileRows);
  work.offset_v = work.offset_k + padded(kv, kTileRows);
  work.stride_qkv = work.offset_v + padded(kv, kTileRows) + kTileRows;
  work.stride_attention = padded(q, kBlock);
  work.x.reserve(work.columns * work.stride_x);
  work.qkv.reserve(work.columns * work.stride_qkv);
  work.attention.reserve(work.columns * work.stride_attention);
  work.logits.reserve(outputs * logits_stride());
  work.changed.reserve(outputs * logits_stride());
  work.tokens.resize(outputs);

  bool integer = !is_float(head().format), floating = !integer;
  for (const Layer& layer : layers_)
    for (const Matrix* m : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down})
      (is_float(m->format) ? floating : integer) = true;
  work.width_input = room(work.quantized_width, work.wide_width, work.columns, blocks_of(shape_.width), integer, floating);
  work.ffn_input = room(work.quantized_ffn, work.wide_ffn, work.columns, blocks_of(shape_.ffn), integer, floating);
  work.head_input = room(work.quantized_head, work.wide_head, work.columns, std::max(blocks_of(q), blocks_of(shape_.width)), integer, floating);

  work.own.resize(options_.threads);
  const int widest = std::max({blocks_of(shape_.width), blocks_of(shape_.ffn), blocks_of(q)});
  for (Private& own : work.own) {
    own.sampler.reserve(shape_.vocab);
    own.norm.reserve(padded(std::max(shape_.width, shape_.head_size), kBlock) + kLanesWide);
    own.attention.reserve(kQueryTile * attention_scratch(cache_.value_stride()));
    own.scratch = {own.panel.reserve(widest * sizeof(FloatPanelTile)), own.sums.reserve(4 * static_cast<size_t>(std::max(work.columns, outputs)) * kTileRows), 0};
  }
}

StepResult Core::step(const std::vector<Row>& rows, bool keep_logits) {
  if (!final_norm_ || !head().data) throw std::invalid_argument("the weights are not all loaded");
  check(rows);
  Work& work = *work_;
  prepare(rows, work);
  const Kernels& kernels = kernels_;
  const Shape& s = shape_;
  const int columns = work.columns, outputs = static_cast<int>(work.output_column.size());
  const int q = s.heads * s.head_size, group = s.heads / s.kv_heads, rope = s.rope_size / 2;
  const int width_blocks = blocks_of(s.width), ffn_blocks = blocks_of(s.ffn), q_blocks = blocks_of(q);
  const float query_scale = 1.0f / __builtin_sqrtf(static_cast<float>(s.head_size));
  float* const x = work.x.data();
  float* const qkv = work.qkv.data();
  float* const attention = work.attention.data();
  float* const logits = work.logits.data();

  const auto cache = [&](int layer, int kv_head) { return cache_.view(static_cast<uint8_t*>(pool_.data()), layer, kv_head); };

  const auto norm_columns = [&](const Member& me, Private& own, const float* weight) {
    const auto [begin, end] = me.share(columns);
    for (int c = begin; c < end; ++c) {
      kernels.rms_norm(x + c * work.stride_x, weight, s.norm_epsilon, s.width, own.norm.data());
      kernels.quantize(own.norm.data(), 0, width_blocks, c, width_blocks, work.width_input);
    }
    me.barrier.wait();
  };

  const auto queries_keys_values = [&](const Member& me, Private& own, const Layer& layer) {
    const int tq = layer.q.tiles, tk = layer.k.tiles, tv = layer.v.tiles;
    const auto [begin, end] = me.share(tq + tk + tv);
    for (int t = begin; t < end; ++t) {
      const Matrix& m = t < tq ? layer.q : t < tq + tk ? layer.k : layer.v;
      const int tile = t < tq ? t : t < tq + tk ? t - tq : t - tq - tk;
      const size_t offset = t < tq ? 0 : t < tq + tk ? work.offset_k : work.offset_v;
      kernels.product(m, tile, work.width_input, columns, Epilogue::Store, qkv + offset, work.stride_qkv, own.scratch);
    }
    me.barrier.wait();
  };

  const auto add_bias = [](float* x, const float* bias, int size) {
    for (int i = 0; i < size; ++i) x[i] += bias[i];
  };
  const auto norm_heads = [&](Private& own, float* x, const float* weight, int heads) {
    for (int h = 0; h < heads; ++h) {
      kernels.rms_norm(x + h * s.head_size, weight, s.norm_epsilon, s.head_size, own.norm.data());
      std::memcpy(x + h * s.head_size, own.norm.data(), sizeof(float) * s.head_size);
    }
  };

  const auto rotate_and_write = [&](const Member& me, Private& own, int layer) {
    const Layer& weights = layers_[layer];
    const auto [begin, end] = me.share(columns);
    for (int c = begin; c < end; ++c) {
      float* row = qkv + c * work.stride_qkv;
      const int position = work.position_of[c];
      const float* cosine = cosine_.data() + static_cast<size_t>(position) * rope;
      const float* sine = sine_.data() + static_cast<size_t>(position) * rope;
      if (s.qkv_bias) {
        add_bias(row, weights.q_bias, q);
        add_bias(row + work.offset_k, weights.k_bias, s.kv_heads * s.head_size);
        add_bias(row + work.offset_v, weights.v_bias, s.kv_heads * s.head_size);
      }
      if (s.qk_norm) {
        norm_heads(own, row, weights.q_norm, s.heads);
        norm_heads(own, row + work.offset_k, weights.k_norm, s.kv_heads);
      }
      kernels.rotate(row, s.heads, s.head_size, s.rope_size, s.rope_pairs, cosine, sine);
      kernels.rotate(row + work.offset_k, s.kv_heads, s.head_size, s.rope_size, s.rope_pairs, cosine, sine);
      for (int i = 0; i < q; ++i) row[i] *= query_scale;
      const int page = rows[work.row_of[c]].table[position / kPage];
      for (int h = 0; h < s.kv_heads; ++h)
        kernels.write_cache(cache(layer, h), page, position, row + work.offset_k + h * s.head_size, row + work.offset_v + h * s.head_size);
    }
    me.barrier.wait();
  };

  const auto attend = [&](const Member& me, Private& own, int layer) {
    const int items = static_cast<int>(work.items.size());
    for (int i = work.next_item[layer].fetch_add(1, std::memory_order_relaxed); i < items; i = work.next_item[layer].fetch_add(1, std::memory_order_relaxed)) {
      const AttentionItem& item = work.items[i];
      const float* queries[kQueryTile];
      float* out[kQueryTile];
      int positions[kQueryTile], count = 0;
      const auto flush = [&] {
        kernels.attend(cache(layer, item.kv_head), rows[item.row].table, count, queries, positions, out, own.attention.data());
        count = 0;
      };
      for (int token = 0; token < item.count; ++token) {
        const int c = work.first_column[item.row] + item.first + token;
        for (int g = 0; g < group; ++g) {
          const int head = item.kv_head * group + g;
          queries[count] = qkv + c * work.stride_qkv + head * s.head_size;
          out[count] = attention + c * work.stride_attention + head * s.head_size;
          positions[count] = work.position_of[c];
          if (++count == kQueryTile) flush();
        }
      }
      if (count) flush();
    }
    me.barrier.wait();
  };

  const auto quantize_attention = [&](const Member& me) {
    const auto [begin, end] = me.share(columns);
    for (int c = begin; c < end; ++c) {
      float* row = attention + c * work.stride_attention;
      std::fill(row + q, row + work.stride_attention, 0.0f);
      kernels.quantize(row, 0, q_blocks, c, q_blocks, work.head_input);
    }
    me.barrier.wait();
  };

  // x += weights * input
  const auto add_product = [&](const Member& me, Private& own, const Matrix& weights, const Activations& input) {
    const auto [begin, end] = me.share(weights.tiles);
    for (int t = begin; t < end; ++t) kernels.product(weights, t, input, columns, Epilogue::Add, x, work.stride_x, own.scratch);
    me.barrier.wait();
  };

  const auto gated_products = [&](const Member& me, Private& own, const Layer& layer) {
    const auto [begin, end] = me.share(layer.gate.tiles / 2);
    for (int pair = begin; pair < end; ++pair)
      kernels.gated_product(layer.gate, layer.up, pair, work.width_input, columns, work.ffn_input, ffn_blocks, own.scratch);
    me.barrier.wait();
  };

  const auto predict = [&](const Member& me, Private& own) {
    const auto [first, last] = me.share(outputs);
    for (int o = first; o < last; ++o) {
      kernels.rms_norm(x + work.output_column[o] * work.stride_x, final_norm_, s.norm_epsilon, s.width, own.norm.data());
      kernels.quantize(own.norm.data(), 0, width_blocks, o, width_blocks, work.head_input);
    }
    me.barrier.wait();
    const auto [begin, end] = me.share(head().tiles);
    for (int t = begin; t < end; ++t) kernels.product(head(), t, work.head_input, outputs, Epilogue::Store, logits, logits_stride(), own.scratch);
    me.barrier.wait();
    for (int o = first; o < last; ++o) {
      const Row& row = rows[work.output_row[o]];
      const int position = work.position_of[work.output_column[o]];
      float* own_logits = logits + o * logits_stride();
      if (keep_logits && row.sampling.penalizes()) {
        float* changed = work.changed.data() + o * logits_stride();
        std::memcpy(changed, own_logits, sizeof(float) * logits_stride());
        own_logits = changed;
      }
      work.tokens[o] = own.sampler.sample(kernels, row.sampling, own_logits, s.vocab, slots_[row.slot].ids.data(), position + 1, row.prompt_tokens);
    }
  };

  run_team(options_.threads, [&](const Member& me) {
    Private& own = work.own[me.index];
    const auto [begin, end] = me.share(columns);
    for (int c = begin; c < end; ++c) {
      const Row& row = rows[work.row_of[c]];
      read_row(embedding_, row.tokens[c - work.first_column[work.row_of[c]]], x + c * work.stride_x);
    }
    for (int l = 0; l < s.layers; ++l) {
      const Layer& layer = layers_[l];
      norm_columns(me, own, layer.attention_norm);
      queries_keys_values(me, own, layer);
      rotate_and_write(me, own, l);
      attend(me, own, l);
      quantize_attention(me);
      add_product(me, own, layer.output, work.head_input);
      norm_columns(me, own, layer.ffn_norm);
      gated_products(me, own, layer);
      add_product(me, own, layer.down, work.ffn_input);
    }
    if (outputs) predict(me, own);
  });

  StepResult result;
  result.tokens = work.tokens;
  result.logits = logits;
  for (const Private& own : work.own) result.weight_bytes += own.scratch.weight_bytes;
  for (const Row& row : rows) slots_[row.slot].reached = row.position + static_cast<int>(row.tokens.size());
  return result;
}

}  // namespace paceline
