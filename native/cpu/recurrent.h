// The states of recurrent layers: two to a slot and layer. A step reads the committed one and writes the other; a commit to
// the step's end swaps them. For a commit to less, a step keeps what its updates were made of, and they are made again.
//
// A state is the last conv_kernel - 1 inputs of the convolution [kernel - 1][channel_stride], oldest first, and the matrix
// S [value_heads][key_size][value_stride]. At position 0 it is all zeros, whatever memory holds.
//
// Behind those of the slots are the kept ones: copies of committed states that belong to no slot.
#pragma once

#include <cstddef>

#include "memory.h"

namespace paceline {

struct RecurrentLayout {
  int layers = 0, slots = 0, kept = 0, kernel = 0, channel_stride = 0, value_heads = 0, key_size = 0, value_stride = 0, replay = 0;

  size_t conv_size() const { return static_cast<size_t>(kernel - 1) * channel_stride; }
  size_t matrix_size() const { return static_cast<size_t>(key_size) * value_stride; }  // of one value head
  size_t state_size() const { return conv_size() + matrix_size() * value_heads; }
  size_t state_bytes() const { return sizeof(float) * state_size() * layers; }  // of all layers
  size_t update_size() const { return static_cast<size_t>(channel_stride) + 2 * value_heads; }  // conv input, decay, beta
  size_t update_bytes() const { return sizeof(float) * update_size() * layers; }                 // of a token, of all layers
};

class RecurrentStates {
 public:
  explicit RecurrentStates(const RecurrentLayout& layout)
      : layout_(layout),
        states_(layout.state_bytes() * (2 * static_cast<size_t>(layout.slots) + layout.kept)),
        updates_(layout.update_bytes() * layout.replay * layout.slots) {}

  const RecurrentLayout& layout() const { return layout_; }
  float* conv(int slot, int which, int layer) { return state(slot, which, layer); }
  float* matrix(int slot, int which, int layer, int head) { return state(slot, which, layer) + layout_.conv_size() + layout_.matrix_size() * head; }

  // All layers of a state, one behind the other: state_bytes().
  float* whole(int slot, int which) { return state(slot, which, 0); }
  float* kept(int index) { return state(layout_.slots, index, 0); }

  // The parts of one token's update: the input of the convolution, then decay and beta [value_heads] each.
  float* update(int slot, int layer, int token) {
    return static_cast<float*>(updates_.data()) + ((static_cast<size_t>(slot) * layout_.layers + layer) * layout_.replay + token) * layout_.update_size();
  }

 private:
  float* state(int slot, int which, int layer) {
    return static_cast<float*>(states_.data()) + ((static_cast<size_t>(slot) * 2 + which) * layout_.layers + layer) * layout_.state_size();
  }

  RecurrentLayout layout_;
  Mapping states_, updates_;  // resident where touched
};

}  // namespace paceline
