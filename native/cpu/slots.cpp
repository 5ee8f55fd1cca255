#include "slots.h"

#include <stdexcept>

namespace paceline {

void check_slot(const std::vector<Slot>& slots, int slot) {
  if (slot < 0 || slot >= static_cast<int>(slots.size())) throw std::invalid_argument("slot " + std::to_string(slot) + " is not one of " + std::to_string(slots.size()));
}

void check_page(int page, int pages) {
  if (page < 0 || page >= pages) throw std::invalid_argument("page " + std::to_string(page) + " is not in the pool of " + std::to_string(pages));
}

void check_commit(const std::vector<Slot>& slots, int slot, int position) {
  check_slot(slots, slot);
  const Slot& state = slots[slot];
  if (position != 0 && position != state.position && (position < state.position || position > state.reached))
    throw std::invalid_argument("slot " + std::to_string(slot) + " stands at " + std::to_string(state.position) + " and its last step reached " +
                                std::to_string(state.reached) + ": it can't be committed to " + std::to_string(position));
}

void check_ids(const Shape& shape, const std::vector<int32_t>& ids) {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument(what); };
  if (ids.size() > static_cast<size_t>(shape.context)) refuse(std::to_string(ids.size()) + " ids are more than the context of " + std::to_string(shape.context));
  for (const int32_t id : ids)
    if (id < 0 || id >= shape.vocab) refuse("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape.vocab));
}

void check_rows(const Shape& shape, int pages, const std::vector<Slot>& slots, const std::vector<Row>& rows) {
  std::vector<bool> taken(slots.size());
  for (const Row& row : rows) {
    const std::string where = "row of slot " + std::to_string(row.slot) + ": ";
    const auto refuse = [&](const std::string& what) { throw std::invalid_argument(where + what); };
    if (row.slot < 0 || row.slot >= static_cast<int>(slots.size())) refuse("no such slot");
    if (taken[row.slot]) refuse("a slot has at most one row to a step");
    taken[row.slot] = true;
    const int count = static_cast<int>(row.tokens.size());
    if (count < 1) refuse("it has no tokens");
    if (row.position != slots[row.slot].position) refuse("it is at position " + std::to_string(row.position) + ", the slot stands at " + std::to_string(slots[row.slot].position));
    if (count > shape.context - row.position) refuse("it ends past the context of " + std::to_string(shape.context));
    if (row.prompt_tokens < 0) refuse("prompt_tokens is negative");
    if (row.sampling.logprobs < 0 || row.sampling.logprobs > kMostLogprobs)
      refuse("logprobs of " + std::to_string(row.sampling.logprobs) + ", expected 0 to " + std::to_string(kMostLogprobs));
    for (const auto& [id, bias] : row.sampling.bias)
      if (id < 0 || id >= shape.vocab) refuse("a bias for token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape.vocab));
    if (row.outputs < 0 || row.outputs > count) refuse("outputs must be 0 to its number of tokens");
    for (const int32_t id : row.tokens)
      if (id < 0 || id >= shape.vocab) refuse("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(shape.vocab));
    if (static_cast<int64_t>(row.table_size) * kPage < row.position + count) refuse("its page table is too short");
    for (int i = 0; i * kPage < row.position + count; ++i)
      if (row.table[i] < 0 || row.table[i] >= pages) refuse("page " + std::to_string(row.table[i]) + " is not in the pool of " + std::to_string(pages));
  }
}

}  // namespace paceline
