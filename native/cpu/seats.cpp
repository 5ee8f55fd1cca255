// A slot put where something was computed before: its history, kept copies of recurrent states, pages of the pool.
// Everything is checked before anything is changed.
#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "core.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "pages and states go to files as they lie in memory");

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

void check_size(const char* what, size_t found, size_t expected) {
  if (found != expected) refuse(std::to_string(found) + " bytes are no " + what + ", expected " + std::to_string(expected));
}

}  // namespace

uint8_t* Core::page(int index) const {
  check_page(index, options_.pages);
  return static_cast<uint8_t*>(pool_.data()) + page_bytes() * index;
}

void Core::check_state(int state) const {
  if (!states_) refuse("the model has no recurrent layers, and so no states");
  if (state < 0 || state >= options_.states) refuse("state " + std::to_string(state) + " is not one of " + std::to_string(options_.states));
}

void Core::check_filled(int state) const {
  check_state(state);
  if (kept_[state] == kNothing) refuse("state " + std::to_string(state) + " holds nothing yet");
}

void Core::seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state) {
  check_slot(slots_, slot);
  check_ids(shape_, ids);
  const int position = static_cast<int>(ids.size());
  if (state) {
    check_filled(*state);
    if (position == 0) refuse("a slot without ids begins with the zero state: expected no state");
    if (kept_[*state] != position) refuse("state " + std::to_string(*state) + " is of position " + std::to_string(kept_[*state]) + ", expected " + std::to_string(position));
  } else if (states_ && position > 0) {
    refuse("the model has recurrent layers: " + std::to_string(position) + " ids need the state that they leave behind");
  }

  Slot& seated = slots_[slot];
  if (state) std::memcpy(states_->whole(slot, seated.state), states_->kept(*state), state_bytes());
  std::copy(ids.begin(), ids.end(), seated.ids.begin());
  seated.position = seated.reached = position;
}

void Core::keep(int slot, int state) {
  check_slot(slots_, slot);
  check_state(state);
  const Slot& from = slots_[slot];
  if (from.position == 0) std::memset(states_->kept(state), 0, state_bytes());
  else std::memcpy(states_->kept(state), states_->whole(slot, from.state), state_bytes());
  kept_[state] = from.position;
}

void Core::copy_page(int source, int target) {
  const uint8_t* const from = page(source);
  uint8_t* const to = page(target);
  if (from != to) std::memcpy(to, from, page_bytes());
}

void Core::read_page(int index, uint8_t* out) const { std::memcpy(out, page(index), page_bytes()); }

void Core::write_page(int index, const uint8_t* data, size_t size) {
  uint8_t* const to = page(index);
  check_size("page of this model and these cache types", size, page_bytes());
  std::memcpy(to, data, size);
}

void Core::read_state(int state, uint8_t* out) const {
  check_filled(state);
  const int64_t position = kept_[state];
  std::memcpy(out, &position, sizeof position);
  std::memcpy(out + sizeof position, states_->kept(state), state_bytes());
}

void Core::write_state(int state, const uint8_t* data, size_t size) {
  check_state(state);
  check_size("state of this model and its position", size, state_file_bytes());
  int64_t position;
  std::memcpy(&position, data, sizeof position);
  if (position < 0 || position > shape_.context) refuse("a state of position " + std::to_string(position) + " is past the context of " + std::to_string(shape_.context));
  std::memcpy(states_->kept(state), data + sizeof position, state_bytes());
  kept_[state] = static_cast<int>(position);
}

}  // namespace paceline
