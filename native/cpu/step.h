// A step in progress. The member functions are called by every thread of the team, which share the work and meet at barriers;
// each ends at one unless it says otherwise. A column belongs to the same thread in every operation that goes by columns.
#pragma once

#include "core.h"
#include "kernels.h"
#include "team.h"
#include "work.h"

namespace paceline {

inline int padded(int n, int unit) { return (n + unit - 1) / unit * unit; }

// Logits of the experts, then that of the shared gate, then what the experts are chosen by.
inline size_t router_stride(const Shape& s) { return 2 * static_cast<size_t>(padded(s.experts, kTileRows)) + kTileRows; }

class Core::Step {
 public:
  Step(Core& core, Work& work, const std::vector<Row>& rows, bool keep_logits);
  void run(Member& me);
  // Of the layer that drafts alone. streams[column], [width]: what the model made of the token before, or that layer; stream_norm: its last norm.
  void run_draft(Member& me, const float* const* streams, const float* stream_norm);

 private:
  // step.cpp
  void embed(Member& me);
  void norm_columns(Member& me, Private& own, const float* weight);  // null: as they are
  void norm_stream(const float* column, const float* weight, float* inputs);
  float* normed(Private& own, int column, int count) { return count > 1 && work.stride_normed ? work.normed.data() + column * work.stride_normed : own.norm.data(); }
  void quantize_column(const float* inputs, int blocks, int column, int count, Activations output);  // no barrier
  void interleave(Member& me, const float* inputs, size_t stride, int blocks, int count, const Activations& output);
  static void interleave_blocks(const float* inputs, size_t stride, int blocks, Range share, int count, const Activations& output);
  void products(Member& me, Private& own, const Matrix* const* matrices, const size_t* offsets, int count);  // of width_input, into mixed
  void add_product(Member& me, Private& own, const Matrix& weights, const Activations& input, const float* post_norm, const float* scale = nullptr);
  void add_normed(Private& own, const float* branch, const float* norm, const float* scale, int column);  // to x; no barrier
  void mix(Member& me, Private& own, const Layer& layer);  // what the layer has before its feed-forward part
  void predict(Member& me, Private& own, const float* norm);

  // step_attention.cpp
  void attention(Member& me, Private& own, const Layer& layer);
  void place_keys(Private& own, const Layer& layer, int column);
  float* queries(int column) { return s.latent ? work.queries.data() + column * work.stride_queries : mixed(column); }
  const uint8_t* first_keys(const Layer& layer, const AttentionItem& item) const;
  void attend(Member& me, Private& own, const Layer& layer);
  void merge_splits(Member& me, Private& own, const Layer& layer);
  const AttentionList& list_of(const Layer& layer) const { return layer.heads.kv_heads == s.kv_heads && layer.heads.heads == s.heads ? work.attention_list : work.local_list; }
  size_t gate_offset(const Layer& layer) const;
  void gate_heads(Member& me, const Layer& layer);
  void quantize_attention(Member& me, int size, bool gated);

  // step_latent.cpp
  void latent_attention(Member& me, Private& own, const Layer& layer);
  void expand_queries(Member& me, Private& own, const Layer& layer);
  void place_latents(Private& own, const Layer& layer, int column);
  void head_products(Member& me, Private& own, const std::vector<Matrix>& heads, const ActivationRoom& input, float* out, size_t stride, int head_stride);
  void interleave_heads(Member& me, const float* inputs, size_t stride, int head_stride, const ActivationRoom& output);

  // step_recurrent.cpp
  void recurrent(Member& me, Private& own, const Layer& layer);
  void gated_convolution(Member& me, Private& own, const Layer& layer);
  void list_inputs(const Layer& layer, int column, const float** inputs);
  void convolve_column(const Layer& layer, int column);
  void update_states(Member& me, const Layer& layer);
  void keep_inputs(const Layer& layer, int row);

  // step_feed_forward.cpp
  void feed_forward(Member& me, Private& own, const Layer& layer);
  void dense(Member& me, Private& own, const FeedForward& ffn);
  void shared_expert(Member& me, Private& own, const Layer& layer);
  void choose_experts(Member& me, Private& own, const Layer& layer);
  void weigh_experts(float* weights, float* spare);
  void keep_groups(float* keys);
  void run_experts(Member& me, Private& own, const Layer& layer);
  void group_choices();
  void gather(Member& me);
  void combine(Member& me, Private& own, const Layer& layer);
  const float* last_scale(const Layer& layer) const { return s.token_inputs ? nullptr : layer.scale; }  // of the feed-forward part, where it is the last

  // step_draft.cpp
  void join(Member& me, Private& own, const float* const* streams, const float* stream_norm);

  // step_tokens.cpp
  void quantize_stream(Member& me, Private& own);
  void read_token_inputs(Member& me, Private& own);
  void add_token_inputs(Member& me, Private& own, const Layer& layer);

  float temperature(int position) const { return core.tables_.temperatures.empty() ? 1.0f : core.tables_.temperatures[position]; }
  CacheView cache(const Layer& layer, int kv_head) const;
  float sink(const Layer& layer, int head) const { return layer.sinks ? layer.sinks[head] : kNoSink; }
  float* split_states(const KeptSplits& kept, int head) {
    return work.split_states.data() + kept.begin + static_cast<size_t>(head) * kept.splits * split_state(core.cache_.most_values());
  }
  int token_of(int column) const { return rows[work.row_of[column]].tokens[column - work.first_column[work.row_of[column]]]; }
  float* mixed(int column) { return work.mixed.data() + column * work.stride_mixed; }

  Core& core;
  Work& work;
  const std::vector<Row>& rows;
  const Kernels& kernels;
  const Shape& s;
  const bool keep_logits;
  const int columns, outputs;
  float* const x;
};

}  // namespace paceline
