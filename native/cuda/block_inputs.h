// The inputs of a block's few columns: read by its warps where they lie, or, of one column, in shared memory, normed or not.
#pragma once

#include "integer_tile.h"

namespace paceline::cuda {

// In place of a number of groups of columns: a column that is alone.
constexpr int kAlone = 0;
constexpr int groups_of(int n) { return n == kAlone ? 1 : n; }

// A block's inputs: groups of eight columns in global memory, which the warps read from L1 in the layout of the mma.
template <Format f, int n>
struct BlockInputs {
  using Lane = LaneInputs;
  static constexpr size_t bytes(int) { return 0; }  // of shared memory
  PACELINE_DEVICE BlockInputs(SharedMemory&, int) {}
  PACELINE_DEVICE void take(const Product&, const OwnColumns&) {}
  PACELINE_DEVICE void begin(const Product& product, const OwnColumns& own, int segment, Lane (&inputs)[n]) const {
    begin_inputs<f, n>(product.input, own.first, own.end - own.first, segment * kSegmentBlocks, inputs);
  }
};

// One column, in shared memory: all of it is on its way at once, where warps that read a segment after the other would wait for L2 at each; and in the layout for
// eight columns it would take as many lines of L1 as eight do.
template <Format f>
struct BlockInputs<f, kAlone> {
  using Lane = OneInput<f>;
  static constexpr int kWords = 4 * input_words(f);  // of a block's codes
  static constexpr size_t bytes(int blocks) { return 16 + (static_cast<size_t>(blocks) * (kWords * sizeof(uint32_t) + sizeof(AboutOne<f>)) + 15) / 16 * 16; }
  PACELINE_DEVICE BlockInputs(SharedMemory& memory, int blocks)
      : codes(memory.take<uint32_t>(static_cast<size_t>(blocks) * kWords)), about(memory.take<AboutOne<f>>(blocks)), scale(memory.take<float>(1)) {}

  // By all threads of the block, which must meet before they read.
  PACELINE_DEVICE void take(const Product& product, const OwnColumns& own) {
    if (product.norm.x) return take_normed(product.norm, product.blocks);
    const Activations& input = product.input;
    const size_t first = product.one_input ? 0 : static_cast<size_t>(own.first / kColumns) * input.blocks;
    const uint32_t* const from = (by_halves(f) ? input.halves : input.codes) + first * kColumns * kWords;
    PACELINE_UNROLL_BY(4)
    for (int i = static_cast<int>(thread_index()); i < product.blocks * (kWords / 4); i += kProductWarps * kWarp)
      reinterpret_cast<Word4*>(codes)[i] = *reinterpret_cast<const Word4*>(from + i / (kWords / 4) * kColumns * kWords + i % (kWords / 4) * 4);
    PACELINE_UNROLL_BY(2)
    for (int i = static_cast<int>(thread_index()); i < product.blocks; i += kProductWarps * kWarp) {
      const ColumnPair* const pair = input.about + (first + i) * (kColumns / 2);
      const Word4 scales = *reinterpret_cast<const Word4*>(pair->scale);
      if constexpr (kNeedsSums<f>) {
        const Word4 sums = *reinterpret_cast<const Word4*>(pair->sum);
        reinterpret_cast<Word4*>(about)[i] = {scales.v[0], scales.v[2], sums.v[0], sums.v[2]};
      } else {
        reinterpret_cast<Word2*>(about)[i] = {scales.v[0], scales.v[2]};
      }
    }
  }
  PACELINE_DEVICE void begin(const Product&, const OwnColumns&, int segment, Lane (&inputs)[1]) const {
    const int first = segment * kSegmentBlocks;
    inputs[0] = {codes + first * kWords + static_cast<int>(lane_index()) % 4 * input_words(f), about + first};
  }

  uint32_t* codes;          // [blocks][kWords]
  AboutOne<f>* about;       // [blocks]
  float* scale;             // of a norm

 private:
  // The norm as norm.cu has it, and its quantization (activations.h), four lanes to a block of 32: lane t has inputs 4t .. 4t + 3 of both halves.
  PACELINE_DEVICE void take_normed(const InputNorm& norm, int blocks) {
    constexpr int kTogether = kProductWarps * kWarp / 4, kMost = kAloneBlocks / kTogether;
    const int thread = static_cast<int>(thread_index()), t = thread % 4;
    Word4 x[kMost][2], weights[kMost][2];
    PACELINE_UNROLL
    for (int i = 0; i < kMost; ++i)
      for (int half = 0; half < 2; ++half) {
        const int at = (thread / 4 + i * kTogether) * kBlock + 16 * half + 4 * t;
        x[i][half] = load_four(norm.x, at, norm.size);
        weights[i][half] = load_four(norm.weight, at, norm.size);
      }
    if (warp_index() == 0) {  // waits for the same loads, and finds the column in L1
      const float inverse = inverse_rms(norm.x, norm.size, norm.epsilon);
      if (lane_index() == 0) *scale = inverse;
    }
    sync_block();
    const float inverse = *scale;
    PACELINE_UNROLL
    for (int i = 0; i < kMost; ++i) {
      const int block = thread / 4 + i * kTogether;
      if (i * kTogether >= blocks) break;
      float y[8];
      for (int j = 0; j < 8; ++j) y[j] = bits_to_float(x[i][j / 4].v[j % 4]) * inverse * bits_to_float(weights[i][j / 4].v[j % 4]);
      const LaneBlock own = quantize_lane(y);
      if (block >= blocks) continue;
      store_codes(block, t, own.codes);
      if (t == 0) {
        const int32_t sum = own.low_sum + own.high_sum;
        if constexpr (kNeedsSums<f>) about[block] = {{own.scale}, {static_cast<float>(sum)}, {sum}, {own.low_sum}};
        else about[block] = {own.scale, static_cast<float>(sum)};
      }
    }
  }
  PACELINE_DEVICE static Word4 load_four(const float* from, int at, int size) {
    Word4 four = {};
    if (at + 4 <= size) return *reinterpret_cast<const Word4*>(from + at);
    for (int j = 0; j < 4; ++j)
      if (at + j < size) four.v[j] = float_to_bits(from[at + j]);
    return four;
  }
  PACELINE_DEVICE void store_codes(int block, int t, const int (&c)[8]) const {
    uint32_t* const to = codes + block * kWords + t * input_words(f);
    if constexpr (by_halves(f)) {
      Word4 words;
      for (int w = 0; w < 4; ++w)
        words.v[w] = static_cast<uint32_t>(half_code(c[2 * w])) | static_cast<uint32_t>(half_code(c[2 * w + 1])) << 16;
      *reinterpret_cast<Word4*>(to) = words;
    } else {
      Word2 words = {};
      for (int j = 0; j < 8; ++j) words.v[j / 4] |= static_cast<uint32_t>(c[j] & 0xff) << 8 * (j % 4);
      *reinterpret_cast<Word2*>(to) = words;
    }
  }
};

}  // namespace paceline::cuda
