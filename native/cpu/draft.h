// What the layer that drafts is given behind a step, and what is kept of each slot for the next one. Any core's.
//
// From a token and what the model made of the token before it, that layer predicts the token after. Entry i of its cache is of the model's stream at
// position i and the token at i + 1; it is computed as soon as both are known, mostly in the step that predicts the token.
#pragma once

#include <cstdint>
#include <vector>

#include "slots.h"

namespace paceline {

// Where a slot's last row ended without the next token: the entry of its last column waits for that, and its stream is kept.
struct Draft {
  static constexpr int kNone = -1;
  int position = kNone;  // behind that column; none: no entry waits

  void keep_if_at(int at) {
    if (position != at) position = kNone;
  }
};

struct DraftRow {
  int index;    // of the step's row
  bool kept;    // the first column reads the stream that was kept of the slot; all others those of the step's row, from its first column on
  Row row;      // position: of its first entry; tokens: each is the one behind its entry
};

// The rows of the layer behind a step with these predictions, and into `drafts`, [slots], where each slot stands behind it.
std::vector<DraftRow> list_drafts(const std::vector<Row>& rows, const std::vector<int32_t>& predicted, int context, std::vector<Draft>& drafts);

// How many of a row's predictions count: the first, and each one behind drafted tokens that were all right.
int right_outputs(const Row& row, const int32_t* predicted);

// Whether the layer can go on behind `row` with an entry more.
bool may_go_on(const Row& row, int context);

}  // namespace paceline
