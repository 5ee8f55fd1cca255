// Slots and rows: where each request stands, and the checks that all moves begin with. Any core's.
#pragma once

#include <cstdint>
#include <optional>
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
  const uint32_t* allowed = nullptr;  // [outputs][words_of(vocab)], the ids that each output may be; null: all
  int allowed_words = 0;              // of all outputs
  int ahead = 0;                      // tokens to draft behind the last right output
  int32_t following = -1;             // without outputs: the token that will come behind the last, if that is known
  bool continues = false;             // the next step will feed it its prediction, unless that ends it, and nothing else: a device may begin
};

struct Slot {
  int position = 0;    // committed
  int reached = 0;     // end of the last step's row
  int state = 0;       // which of its two recurrent states is the committed one
  bool overtaken = false;  // the committed one is lost: the step behind the last one was begun, and has replaced it
  std::vector<int32_t> ids;  // [context]: ids fed, by position
};

void check_page(int page, int pages);  // throws std::invalid_argument

// Where each slot stands, and what position each kept recurrent state is of. A core asks whether a move may be made, copies or computes what it means,
// and then tells it. What is asked throws std::invalid_argument, saying what is wrong; what is told was asked before.
class SlotTable {
 public:
  SlotTable() = default;
  // replay: where layers are recurrent, a row of more tokens is committed whole.
  SlotTable(const Shape& shape, int slots, int states, int replay);

  const Slot& operator[](int slot) const { return slots_[slot]; }

  void check_rows(const std::vector<Row>& rows, int pages) const;
  void feed(const Row& row);                       // its ids, into the slot's
  void feed_behind(const Row& row);                // of the layer that drafts: each is behind its entry
  void reach(const std::vector<Row>& rows);        // the step has been made
  void overtake(int slot) { slots_[slot].overtaken = recurrent_ && slots_[slot].position > 0; }  // until it is committed forward or seated anew; at 0 nothing is lost

  int check_commit(int slot, int position) const;  // how many updates are to be made again for it, mostly 0
  void commit(int slot, int position);

  void check_seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state) const;
  void seat(int slot, const std::vector<int32_t>& ids);

  void check_keep(int slot, int state) const;
  void keep(int slot, int state) { kept_[state] = slots_[slot].position; }
  void check_state(int state) const;               // that there is such a one
  int check_filled(int state) const;               // the position that it is of
  int check_fill(int state, int64_t position) const;
  void fill(int state, int position) { kept_[state] = position; }

 private:
  static constexpr int kNothing = -1;

  void check_slot(int slot) const;

  int context_ = 0, vocab_ = 0, replay_ = 0;
  bool recurrent_ = false, drafts_ = false;
  std::vector<Slot> slots_;
  std::vector<int> kept_;  // of each kept state its position, or kNothing
};

}  // namespace paceline
