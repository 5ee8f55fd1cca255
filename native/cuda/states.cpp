// Slots moved: committed, seated on what was computed before, their recurrent states kept. What is copied on the device is the caller's to copy.
// Everything is checked before anything is changed, in the CPU core's words (native/cpu/seats.cpp).
#include <algorithm>
#include <stdexcept>

#include "core.h"

namespace paceline::cuda {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what); }

}  // namespace

int DeviceCore::commit(int slot, int position) {
  check_commit(slots_, slot, position);
  Slot& state = slots_[slot];
  int replayed = 0;
  if (states_ && position > state.position) {
    if (position < state.reached) {
      if (state.reached - state.position > Core::kReplay)
        refuse("slot " + std::to_string(slot) + ": a row of more than " + std::to_string(Core::kReplay) +
               " tokens is committed whole where layers are recurrent");
      replayed = position - state.position;
      replay_input_ = {{slot, state.state, 0, replayed, state.position}, 1};
    }
    state.state ^= 1;
  }
  state.position = state.reached = position;
  return replayed;
}

void DeviceCore::check_state(int state) const {
  if (!states_) refuse("the model has no recurrent layers, and so no states");
  if (state < 0 || state >= options_.states) refuse("state " + std::to_string(state) + " is not one of " + std::to_string(options_.states));
}

uint8_t* DeviceCore::filled_state(int state) const {
  check_state(state);
  if (kept_[state] == kNothing) refuse("state " + std::to_string(state) + " holds nothing yet");
  return kept_place(state);
}

uint8_t* DeviceCore::kept_place(int state) const {
  check_state(state);
  return reinterpret_cast<uint8_t*>(states_) + state_bytes() * (2 * static_cast<size_t>(options_.slots) + state);
}

uint8_t* DeviceCore::committed_place(int slot) const {
  return reinterpret_cast<uint8_t*>(states_) + state_bytes() * (2 * static_cast<size_t>(slot) + slots_[slot].state);
}

Copy DeviceCore::seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state) {
  check_slot(slots_, slot);
  check_ids(shape(), ids);
  const int position = static_cast<int>(ids.size());
  Copy copy;
  if (state) {
    copy = {filled_state(*state), committed_place(slot)};
    if (position == 0) refuse("a slot without ids begins with the zero state: expected no state");
    if (kept_[*state] != position)
      refuse("state " + std::to_string(*state) + " is of position " + std::to_string(kept_[*state]) + ", expected " + std::to_string(position));
  } else if (states_ && position > 0) {
    refuse("the model has recurrent layers: " + std::to_string(position) + " ids need the state that they leave behind");
  }
  std::copy(ids.begin(), ids.end(), slots_[slot].ids.begin());
  slots_[slot].position = slots_[slot].reached = position;
  return copy;
}

Copy DeviceCore::keep(int slot, int state) {
  check_slot(slots_, slot);
  const Copy copy = {slots_[slot].position == 0 ? nullptr : committed_place(slot), kept_place(state)};
  kept_[state] = slots_[slot].position;
  return copy;
}

int DeviceCore::kept_position(int state) const {
  filled_state(state);
  return kept_[state];
}

void DeviceCore::fill_state(int state, int64_t position) {
  check_state(state);
  if (position < 0 || position > shape().context)
    refuse("a state of position " + std::to_string(position) + " is past the context of " + std::to_string(shape().context));
  kept_[state] = static_cast<int>(position);
}

}  // namespace paceline::cuda
