// Moves of slots: commit, seat on what was computed before, keep a recurrent state. Copies on the device are left to the caller.
#include "core.h"

namespace paceline::cuda {

int DeviceCore::commit(int slot, int position) {
  const int updates = slots_.check_commit(slot, position);
  if (updates) replay_input_ = {{slot, slots_[slot].state, 0, updates, slots_[slot].position}, 1};
  slots_.commit(slot, position);
  drop_next(slot, position);
  return updates;
}

uint8_t* DeviceCore::kept_place(int state) const {
  return reinterpret_cast<uint8_t*>(states_) + state_bytes() * (2 * static_cast<size_t>(options_.slots) + state);
}

uint8_t* DeviceCore::committed_place(int slot) const {
  return reinterpret_cast<uint8_t*>(states_) + state_bytes() * (2 * static_cast<size_t>(slot) + slots_[slot].state);
}

Copy DeviceCore::seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state) {
  slots_.check_seat(slot, ids, state);
  const Copy copy = state ? Copy{kept_place(*state), committed_place(slot)} : Copy{};
  slots_.seat(slot, ids);
  drop_next(slot, std::nullopt);
  return copy;
}

Copy DeviceCore::keep(int slot, int state) {
  slots_.check_keep(slot, state);
  slots_.keep(slot, state);
  return {slots_[slot].position == 0 ? nullptr : committed_place(slot), kept_place(state)};
}

uint8_t* DeviceCore::filled_state(int state) const {
  slots_.check_filled(state);
  return kept_place(state);
}

uint8_t* DeviceCore::fill_state(int state, int64_t position) {
  slots_.fill(state, slots_.check_fill(state, position));
  return kept_place(state);
}

}  // namespace paceline::cuda
