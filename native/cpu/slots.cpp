#include "slots.h"

#include <algorithm>
#include <stdexcept>

namespace paceline {
namespace {

constexpr const char* kOvertaken = ": a step that was begun behind its last one has replaced its state";

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

}  // namespace

void check_page(int page, int pages) {
  if (page < 0 || page >= pages) refuse("page " + std::to_string(page) + " is not in the pool of " + std::to_string(pages));
}

SlotTable::SlotTable(const Shape& shape, int slots, int states, int replay)
    : context_(shape.context), vocab_(shape.vocab), replay_(replay), recurrent_(shape.recurrent_layers() > 0), drafts_(shape.drafting), slots_(slots), kept_(recurrent_ ? states : 0, kNothing) {
  for (Slot& slot : slots_) slot.ids.resize(context_);
}

void SlotTable::check_slot(int slot) const {
  if (slot < 0 || slot >= static_cast<int>(slots_.size())) refuse("slot " + std::to_string(slot) + " is not one of " + std::to_string(slots_.size()));
}

void SlotTable::check_state(int state) const {
  if (!recurrent_) refuse("the model has no recurrent layers, and so no states");
  if (state < 0 || state >= static_cast<int>(kept_.size())) refuse("state " + std::to_string(state) + " is not one of " + std::to_string(kept_.size()));
}

void SlotTable::check_rows(const std::vector<Row>& rows, int pages) const {
  std::vector<bool> taken(slots_.size());
  for (const Row& row : rows) {
    const std::string where = "row of slot " + std::to_string(row.slot) + ": ";
    const auto refuse = [&](const std::string& what) { paceline::refuse(where + what); };
    if (row.slot < 0 || row.slot >= static_cast<int>(slots_.size())) refuse("no such slot");
    if (taken[row.slot]) refuse("a slot has at most one row to a step");
    taken[row.slot] = true;
    const int count = static_cast<int>(row.tokens.size());
    if (count < 1) refuse("it has no tokens");
    if (slots_[row.slot].overtaken) paceline::refuse("row of slot " + std::to_string(row.slot) + kOvertaken);
    if (row.position != slots_[row.slot].position) refuse("it is at position " + std::to_string(row.position) + ", the slot stands at " + std::to_string(slots_[row.slot].position));
    if (count > context_ - row.position) refuse("it ends past the context of " + std::to_string(context_));
    if (row.prompt_tokens < 0) refuse("prompt_tokens is negative");
    if (row.sampling.logprobs < 0 || row.sampling.logprobs > kMostLogprobs)
      refuse("logprobs of " + std::to_string(row.sampling.logprobs) + ", expected 0 to " + std::to_string(kMostLogprobs));
    for (const auto& [id, bias] : row.sampling.bias)
      if (id < 0 || id >= vocab_) refuse("a bias for token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab_));
    if (row.outputs < 0 || row.outputs > count) refuse("outputs must be 0 to its number of tokens");
    if (row.ahead < 0 || (row.ahead && !row.outputs)) refuse(std::to_string(row.ahead) + " tokens to draft behind " + std::to_string(row.outputs) + " outputs");
    if (row.ahead && !drafts_) refuse(std::to_string(row.ahead) + " tokens to draft, and the model has no layer that drafts");
    if (row.following < -1 || row.following >= vocab_) refuse("the token that follows, " + std::to_string(row.following) + ", is outside the vocabulary of " + std::to_string(vocab_));
    if (row.allowed && row.allowed_words != row.outputs * words_of(vocab_))
      refuse("its allowed tokens are " + std::to_string(row.allowed_words) + " words, expected " + std::to_string(words_of(vocab_)) + " for each of its outputs");
    for (const int32_t id : row.tokens)
      if (id < 0 || id >= vocab_) refuse("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab_));
    if (static_cast<int64_t>(row.table_size) * kPage < row.position + count) refuse("its page table is too short");
    for (int i = 0; i * kPage < row.position + count; ++i)
      if (row.table[i] < 0 || row.table[i] >= pages) refuse("page " + std::to_string(row.table[i]) + " is not in the pool of " + std::to_string(pages));
  }
}

void SlotTable::feed(const Row& row) { std::copy(row.tokens.begin(), row.tokens.end(), slots_[row.slot].ids.begin() + row.position); }

void SlotTable::feed_behind(const Row& row) { std::copy(row.tokens.begin(), row.tokens.end(), slots_[row.slot].ids.begin() + row.position + 1); }

void SlotTable::reach(const std::vector<Row>& rows) {
  for (const Row& row : rows) slots_[row.slot].reached = row.position + static_cast<int>(row.tokens.size());
}

int SlotTable::check_commit(int slot, int position) const {
  check_slot(slot);
  const Slot& from = slots_[slot];
  if (position != 0 && position != from.position && (position < from.position || position > from.reached))
    refuse("slot " + std::to_string(slot) + " stands at " + std::to_string(from.position) + " and its last step reached " + std::to_string(from.reached) +
           ": it can't be committed to " + std::to_string(position));
  if (!recurrent_ || position <= from.position || position == from.reached) return 0;
  if (from.overtaken) refuse("slot " + std::to_string(slot) + kOvertaken);
  if (from.reached - from.position > replay_)
    refuse("slot " + std::to_string(slot) + ": where layers are recurrent, a row of more than " + std::to_string(replay_) + " tokens (replay) is committed whole");
  return position - from.position;
}

void SlotTable::commit(int slot, int position) {
  Slot& moved = slots_[slot];
  if (recurrent_ && position > moved.position) moved.state ^= 1;
  if (position > moved.position || position == 0) moved.overtaken = false;
  moved.position = moved.reached = position;
}

void SlotTable::check_seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state) const {
  check_slot(slot);
  if (ids.size() > static_cast<size_t>(context_)) refuse(std::to_string(ids.size()) + " ids are more than the context of " + std::to_string(context_));
  for (const int32_t id : ids)
    if (id < 0 || id >= vocab_) refuse("token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab_));
  const int position = static_cast<int>(ids.size());
  if (state) {
    const int kept = check_filled(*state);
    if (position == 0) refuse("a slot without ids begins with the zero state: expected no state");
    if (kept != position) refuse("state " + std::to_string(*state) + " is of position " + std::to_string(kept) + ", expected " + std::to_string(position));
  } else if (recurrent_ && position > 0) {
    refuse("the model has recurrent layers: " + std::to_string(position) + " ids need the state that they leave behind");
  }
}

void SlotTable::seat(int slot, const std::vector<int32_t>& ids) {
  Slot& seated = slots_[slot];
  std::copy(ids.begin(), ids.end(), seated.ids.begin());
  seated.position = seated.reached = static_cast<int>(ids.size());
  seated.overtaken = false;
}

void SlotTable::check_keep(int slot, int state) const {
  check_slot(slot);
  check_state(state);
  if (slots_[slot].overtaken) refuse("slot " + std::to_string(slot) + kOvertaken);
}

int SlotTable::check_filled(int state) const {
  check_state(state);
  if (kept_[state] == kNothing) refuse("state " + std::to_string(state) + " holds nothing yet");
  return kept_[state];
}

int SlotTable::check_fill(int state, int64_t position) const {
  check_state(state);
  if (position < 0 || position > context_) refuse("a state of position " + std::to_string(position) + " is past the context of " + std::to_string(context_));
  return static_cast<int>(position);
}

}  // namespace paceline
