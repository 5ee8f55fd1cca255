// The buffers of a step and the lists that say which column is what. They grow to the largest step seen and stay.
#pragma once

#include <atomic>
#include <vector>

#include "core.h"

namespace paceline {

constexpr int kLanesWide = 16;

// Queries of one row and kv head, few enough that an attention work item is short.
struct AttentionItem {
  int row, first, count, kv_head;  // tokens first .. first+count-1 of the row
};

// One thread's own.
struct Private {
  Buffer<uint8_t> panel;
  Buffer<float> sums, norm, attention;
  Sampler sampler;
  Scratch scratch{};
};

struct Core::Work {
  int columns = 0;                 // tokens of all rows
  std::vector<int> row_of, position_of;      // [columns]
  std::vector<int> first_column;             // [rows]
  std::vector<int> output_column, output_row;  // [outputs]
  std::vector<AttentionItem> items;
  std::vector<std::atomic<int>> next_item;   // [layers]
  std::vector<Private> own;                  // [threads]

  size_t stride_x = 0, stride_qkv = 0, stride_attention = 0, offset_k = 0, offset_v = 0;
  Buffer<float> x;          // [columns][stride_x] residual stream
  Buffer<float> qkv;        // [columns][stride_qkv]
  Buffer<float> attention;  // [columns][stride_attention]
  Buffer<float> logits;     // [outputs][logits_stride]
  Buffer<float> changed;    // [outputs][logits_stride] where penalties apply
  Buffer<QuantizedBlock> quantized_width, quantized_ffn, quantized_head;
  Buffer<float> wide_width, wide_ffn, wide_head;
  Activations width_input, ffn_input, head_input;  // of q/k/v and gate/up; of down; of attention output and the vocabulary
  std::vector<int32_t> tokens;  // [outputs]
};

}  // namespace paceline
