// A slot put where something was computed before: its history, kept copies of recurrent states, pages of the pool.
// Everything is checked before anything is changed.
#include <bit>
#include <cstring>
#include <stdexcept>

#include "core.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "pages and states go to files as they lie in memory");

void check_size(const char* what, size_t found, size_t expected) {
  if (found != expected) throw std::invalid_argument(std::to_string(found) + " bytes are no " + what + ", expected " + std::to_string(expected));
}

}  // namespace

uint8_t* Core::page(int index) const {
  check_page(index, options_.pages);
  return static_cast<uint8_t*>(pool_.data()) + page_bytes() * index;
}

void Core::seat(int slot, const std::vector<int32_t>& ids, std::optional<int> state) {
  slots_.check_seat(slot, ids, state);
  if (state) std::memcpy(states_->whole(slot, slots_[slot].state), states_->kept(*state), state_bytes());
  slots_.seat(slot, ids);
}

void Core::keep(int slot, int state) {
  slots_.check_keep(slot, state);
  const Slot& from = slots_[slot];
  if (from.position == 0) std::memset(states_->kept(state), 0, state_bytes());
  else std::memcpy(states_->kept(state), states_->whole(slot, from.state), state_bytes());
  slots_.keep(slot, state);
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
  const int64_t position = slots_.check_filled(state);
  std::memcpy(out, &position, sizeof position);
  std::memcpy(out + sizeof position, states_->kept(state), state_bytes());
}

void Core::write_state(int state, const uint8_t* data, size_t size) {
  slots_.check_state(state);
  check_size("state of this model and its position", size, state_file_bytes());
  int64_t position;
  std::memcpy(&position, data, sizeof position);
  const int of = slots_.check_fill(state, position);
  std::memcpy(states_->kept(state), data + sizeof position, state_bytes());
  slots_.fill(state, of);
}

}  // namespace paceline
