// What the layer that drafts is given behind a step. Any core's.
//
// From a token and what the model made of the token before it, that layer predicts the token after. Entry i of its cache is of the model's stream at
// position i and the token at i + 1: behind a step, those of all its columns are computed, the last one's with the token that was predicted or that the row
// says will follow.
#pragma once

#include <cstdint>
#include <vector>

#include "slots.h"

namespace paceline {

struct DraftRow {
  int index;  // of the step's row; its columns are that row's first ones
  Row row;    // tokens: each is the one behind its entry
};

// The rows of the layer behind a step with these predictions.
std::vector<DraftRow> list_drafts(const std::vector<Row>& rows, const std::vector<int32_t>& predicted, int context);

// How many of a row's predictions count: the first, and each one behind drafted tokens that were all right.
int right_outputs(const Row& row, const int32_t* predicted);

// Whether the layer can go on behind `row` with an entry more.
bool may_go_on(const Row& row, int context);

}  // namespace paceline
