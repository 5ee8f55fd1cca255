// A step in progress. The member functions are called by every thread of the team, which share the work and meet at barriers;
// each ends at one unless it says otherwise. A column belongs to the same thread in every operation that goes by columns.
#pragma once

#include "core.h"
#include "team.h"
#include "work.h"

namespace paceline {

inline int padded(int n, int unit) { return (n + unit - 1) / unit * unit; }

class Core::Step {
 public:
  Step(Core& core, const std::vector<Row>& rows, bool keep_logits);
  void run(const Member& me);

 private:
  // step.cpp
  void embed(const Member& me);
  void norm_columns(const Member& me, Private& own, const float* weight);
  void products(const Member& me, Private& own, const Matrix* const* matrices, const size_t* offsets, int count);  // of width_input, into mixed
  void add_product(const Member& me, Private& own, const Matrix& weights, const Activations& input, const float* post_norm);
  void predict(const Member& me, Private& own);

  // step_attention.cpp
  void attention(const Member& me, Private& own, const Layer& layer);
  void place_keys(Private& own, const Layer& layer, int column);
  const uint8_t* first_keys(const Layer& layer, const AttentionItem& item) const;
  void attend(const Member& me, Private& own, const Layer& layer);
  void quantize_attention(const Member& me, int size, bool gated);

  // step_recurrent.cpp
  void recurrent(const Member& me, Private& own, const Layer& layer);
  void convolve_column(const Layer& layer, int column);
  void update_states(const Member& me, const Layer& layer);

  // step_feed_forward.cpp
  void feed_forward(const Member& me, Private& own, const Layer& layer);
  void dense(const Member& me, Private& own, const FeedForward& ffn);
  void choose_experts(const Member& me, Private& own, const Layer& layer);
  void run_experts(const Member& me, Private& own, const Layer& layer);
  void group_choices();
  void gather(const Member& me);
  void combine(const Member& me, const Layer& layer);

  CacheView cache(const Layer& layer, int kv_head) const;
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
