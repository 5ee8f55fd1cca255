// The buffers of a step and the lists that say which column is what. They grow to the largest step seen and stay.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "core.h"

namespace paceline {

constexpr int kLanesWide = 16;

// Queries of one row and kv head, few enough that an attention work item is short, and all splits of their history or some.
struct AttentionItem {
  int row, first, count;           // tokens first .. first+count-1 of the row
  int kv_head, first_head, heads;  // query heads first_head .. first_head+heads-1, which read that kv head
  int begin_split, end_split;

  int keys(int history) const { return std::min(history, end_split * kSplit) - begin_split * kSplit; }
};

// Where split_states has the partial results of a column whose splits are several items.
struct KeptSplits {
  size_t begin = 0;
  int splits = 0;  // 0: they are not
};

// The work of all attention layers with as many kv heads.
struct AttentionList {
  std::vector<AttentionItem> items;
  std::vector<KeptSplits> kept;  // [columns]
  size_t state_floats = 0;
};

// One thread's own.
struct Private {
  Buffer<uint8_t> panel;
  Buffer<float> sums, norm, attention;
  Sampler sampler;
  Scratch scratch{};
};

// Activations of some width for some number of columns, in the forms that the weights' formats ask for.
struct ActivationRoom {
  Buffer<QuantizedBlock> quantized;
  Buffer<float> wide;
  Activations views;
  int blocks = 0;

  void reserve(int groups, int size, bool integer, bool floating, int wide_columns = kGroup) {
    blocks = (size + kBlock - 1) / kBlock;
    const size_t places = static_cast<size_t>(groups) * blocks * kGroup;
    views = {};
    views.wide_columns = wide_columns;
    if (integer) views.quantized = quantized.reserve(places);
    if (floating) views.wide = wide.reserve(places * kBlock);
  }
  // The same with `group` as its first.
  Activations from(int group) const {
    Activations a = views;
    const size_t places = static_cast<size_t>(group) * blocks * kGroup;
    if (a.quantized) a.quantized += places;
    if (a.wide) a.wide += places * kBlock;
    return a;
  }
};

// The choice of a column: an expert, its weight, and where among the experts' columns it stands.
struct Choice {
  int expert;
  float weight;
  int place;
};

// Which columns each expert works for. An expert's columns stand together, from the beginning of a group.
struct ExpertWork {
  std::vector<Choice> choices;        // [columns][experts_used], each column's by ascending expert
  std::vector<int> active;            // experts that somebody chose, ascending
  std::vector<int> count, first_group;  // [experts]
  ActivationRoom input, ffn;
  Buffer<float> router;               // [columns][router_stride]
  Buffer<float> out;                  // [places][stride_x]
};

struct Core::Work {
  bool drafts = false;             // it is that of the layer that drafts: its columns are of the tokens before the ones that it is given
  int columns = 0;                 // tokens of all rows
  std::vector<int> row_of, position_of;      // [columns]
  std::vector<int> first_column;             // [rows]
  std::vector<int> output_column, output_row;  // [outputs]
  AttentionList attention_list, local_list;  // local: of sliding layers, where they have other numbers of heads
  std::vector<std::atomic<int>> next_item;   // [layers]
  std::vector<Private> own;                  // [threads]

  size_t stride_x = 0, stride_mixed = 0, stride_attention = 0, stride_normed = 0, stride_tokens = 0;
  Buffer<float> x;          // [columns][stride_x] residual stream
  Buffer<float> normed;     // [columns or outputs][stride_normed] where several are multiplied by float weights
  Buffer<float> branch;     // [columns][stride_x] where a branch is normed before it joins, and of shared experts
  Buffer<float> mixed;      // [columns][stride_mixed] queries, keys, values; of recurrent layers their inputs
  Buffer<float> convolved;  // [columns][channels padded]
  Buffer<float> zeros;      // [channels padded] the inputs of the convolution before the first token
  Buffer<float> gates;      // [columns][queries padded] of gated attention; decay and beta [2 * value_heads] of recurrent layers
  Buffer<float> attention;  // [columns][stride_attention]
  Buffer<float> split_states;  // [kept columns][heads][splits][split_state]
  size_t stride_latent = 0, stride_queries = 0;
  Buffer<float> latent_queries;  // [columns][stride_latent] queries as they come, later each head's values
  Buffer<float> queries;         // [columns][stride_queries] of latent attention, [heads][head_size]
  ActivationRoom rank_input, key_input, value_input;  // of the queries' product; of each head's, group by group of one head after the other
  Buffer<float> token_inputs;  // [columns][stride_tokens], of which each layer takes its own
  Buffer<float> logits;     // [outputs][logits_stride]
  Buffer<float> changed;    // [outputs][logits_stride] where bias, penalties or allowed ids apply
  ActivationRoom width_input, ffn_input, head_input;  // of a layer's first products; of down; of attention's output and the vocabulary
  ActivationRoom join_input;  // of the layer that drafts: a token's embedding and a stream
  ExpertWork experts;
  std::vector<int32_t> tokens;       // [outputs]
  std::vector<Likeliest> likeliest;  // [outputs at least], where logprobs are asked for

  uint64_t weight_bytes() const {
    uint64_t sum = 0;
    for (const Private& one : own) sum += one.scratch.weight_bytes;
    return sum;
  }
};

}  // namespace paceline
