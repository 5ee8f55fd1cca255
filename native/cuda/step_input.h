// The input of a step: one buffer that the host fills and uploads in one copy. Kernels read counts and tables from it, so that one captured graph
// serves every step of its sizes. They write two things to it: tokens that the host did not know, and logits before a change.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::cuda {

struct Counts {
  int columns, outputs, items, rows;
  int local_items;
  int none[3];  // parts begin at multiples of 16 bytes
};

struct Column {  // a token of a row
  int token;     // below 0: the step before has predicted it, -1 its first output; the embedding puts it here, or 0 if it is none
  int position;
  int table;     // where the row's page table begins in `pages`
  int row;
};

struct Item {    // tokens of one row that attend together
  int first_column, count;
  int table;
  int position;  // of the first
};
// Queries of an item that one thread block handles together: query heads of a GQA group times tokens of a row.
constexpr int queries_together(int head_size) { return head_size <= 128 ? 16 : head_size <= 256 ? 8 : 4; }
constexpr int blocks_of_heads(int head_size, int heads, int kv_heads) { return kv_heads * ((heads / kv_heads + queries_together(head_size) - 1) / queries_together(head_size)); }
constexpr int tokens_together(int head_size, int group) { return group >= queries_together(head_size) ? 1 : queries_together(head_size) / group; }

struct RowInput {  // for recurrent layers
  int slot, state;   // state: which of the slot's two is the committed one
  int first_column, count;
  int position;
};

struct Change {      // of a logit
  int id;            // -1: of the token that the output follows, which the host did not know; the last one, and moot if another is that token's, which counts it
  float bias;
  int count;         // appearances in the output
  float before;      // written by the device: the logit before the change
};

struct SampleInput { // of an output
  int draws;         // 0: the largest is taken
  float factor;      // 1 / temperature
  int top_k;
  float top_p, min_p, repetition, frequency, presence;
  uint32_t draw;
  int biases, penalties;  // how many changes of each kind, the biases first
  int first_change;  // byte offset in this buffer
  int allowed;       // byte offset in this buffer of a bit for each id that it may be; 0: all
  int told;          // how many of the likeliest ids to report; 0: no Told
  int first_told;    // byte offset of its Told in Sample::told
};

// What the device reports of an output's unmodified logits (native/cpu/sampling.h); SampleInput::told Likely follow it, likeliest first.
struct Told {
  uint64_t sum;
  float peak, chosen;
};
struct Likely {
  int id;
  float logit;
};
constexpr size_t bytes_told(int count) { return sizeof(Told) + count * sizeof(Likely); }

// Offsets of the buffer's parts, for at most `columns` columns; changes and allowed ids come last. All offsets are multiples of 16 bytes.
struct InputLayout {
  int columns = 0;  // items, outputs and rows are at most as many
  bool sampled = false;
  bool local_items = false;  // sliding layers have a list of their own
  bool streams = false;      // a layer drafts: what each of its columns reads
  size_t column_begin() const { return sizeof(Counts); }
  size_t item_begin() const { return column_begin() + sizeof(Column) * columns; }
  size_t local_item_begin() const { return item_begin() + (local_items ? sizeof(Item) * columns : 0); }
  size_t output_begin() const { return local_item_begin() + sizeof(Item) * columns; }
  size_t row_begin() const { return output_begin() + rounded(sizeof(int) * columns); }
  size_t stream_begin() const { return row_begin() + rounded(sizeof(RowInput) * columns); }
  size_t sample_begin() const { return stream_begin() + (streams ? rounded(sizeof(int) * columns) : 0); }
  size_t page_begin() const { return sample_begin() + (sampled ? rounded(sizeof(SampleInput) * columns) : 0); }
  static constexpr size_t rounded(size_t bytes) { return (bytes + 15) / 16 * 16; }
};

// The parts of a buffer on the device.
struct StepInput {
  const Counts* counts;
  const Column* columns;
  const Item *items, *local_items;
  const int* output_columns;
  const RowInput* rows;
  const int* streams;  // [columns], of the layer that drafts: columns of the pass before
  const SampleInput* samples;
  const int* pages;
};

inline StepInput input_at(const uint8_t* buffer, const InputLayout& layout) {
  return {reinterpret_cast<const Counts*>(buffer),
          reinterpret_cast<const Column*>(buffer + layout.column_begin()),
          reinterpret_cast<const Item*>(buffer + layout.item_begin()),
          reinterpret_cast<const Item*>(buffer + layout.local_item_begin()),
          reinterpret_cast<const int*>(buffer + layout.output_begin()),
          reinterpret_cast<const RowInput*>(buffer + layout.row_begin()),
          reinterpret_cast<const int*>(buffer + layout.stream_begin()),
          reinterpret_cast<const SampleInput*>(buffer + layout.sample_begin()),
          reinterpret_cast<const int*>(buffer + layout.page_begin())};
}

}  // namespace paceline::cuda
