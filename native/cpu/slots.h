// Slots and rows: where each request stands, and the checks that a step, a commit and a seat begin with. Any core's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache.h"
#include "model.h"
#include "sampling.h"

namespace paceline {

struct Row {
  int slot;
  std::vector<int32_t> tokens;    // [n], ids fed at position, position + 1, ...
  int position;                   // where the slot stands
  int outputs;                    // predictions wanted, for the last `outputs` tokens
  int prompt_tokens;              // ids of the history that are the prompt's
  const int32_t* table;           // [pages of the slot], pool page of positions 64i .. 64i+63
  int table_size;
  Sampling sampling;
};

struct Slot {
  int position = 0;    // committed
  int reached = 0;     // end of the last step's row
  int state = 0;       // which of its two recurrent states is the committed one
  std::vector<int32_t> ids;  // [context]: ids fed, by position
};

// All throw std::invalid_argument, saying what is wrong.
void check_slot(const std::vector<Slot>& slots, int slot);
void check_rows(const Shape& shape, int pages, const std::vector<Slot>& slots, const std::vector<Row>& rows);
void check_commit(const std::vector<Slot>& slots, int slot, int position);
void check_ids(const Shape& shape, const std::vector<int32_t>& ids);  // of a seat
void check_page(int page, int pages);

}  // namespace paceline
