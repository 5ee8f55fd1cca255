// A warp's weights for few columns, unit after unit: those of its segments of a row tile, then those of the next row tile that its block takes, and so on to its
// last. Asynchronous copies bring them into shared memory some units ahead, without a gap between segments or row tiles, so that memory is busy whatever the warp
// waits for. The copies need no registers: a unit is in them only while it is computed.
#pragma once

#include "product.h"

namespace paceline::cuda {

// How many blocks take the row tiles of a product, all of them at once, to a multiprocessor: more would begin when others end. Measured on an H100: with three, the
// inputs do not stay in L1, which shares its memory with the weights on their way.
constexpr int kStreamBlocks = 2;
constexpr int kStreamBytes = 7 << 10;  // of a warp, about
constexpr int kMostUnits = 6;

// Units of a warp that shared memory has room for: one that is computed, the others on their way.
constexpr int units_of_stream(Format f) {
  const int fit = kStreamBytes / static_cast<int>(device_unit_bytes(f));
  return fit < 2 ? 2 : fit > kMostUnits ? kMostUnits : fit;
}
template <Format f>
constexpr size_t kStreamRoom = static_cast<size_t>(kProductWarps) * units_of_stream(f) * device_unit_bytes(f);  // of a block

// A block's warps divide a place, which is `tiles` row tiles; weights_of(place) is where the warp's own one begins, null where the last place has none for it.
template <Format f>
class WeightStream {
 public:
  static constexpr int kUnits = units_of_stream(f), kBytes = static_cast<int>(device_unit_bytes(f));

  // Places first, first + step, ... below `end`.
  PACELINE_DEVICE WeightStream(SharedMemory& memory, int blocks, int tiles, int first, int end, int step)
      : blocks_(blocks), place_(first), end_(end), step_(step), begun_(static_cast<int>(warp_index()) / tiles), apart_(kProductWarps / tiles) {
    room_ = memory.take<uint8_t>(kStreamRoom<f>) + warp_index() * (kUnits * kBytes);
    segment_ = begun_;
  }

  template <class WeightsOf>
  PACELINE_DEVICE void begin(WeightsOf weights_of) {
    open(weights_of);
    if (from_) fetch_segment<f, kUnits - 1>(weights_of(place_), blocks_, segment_);
    PACELINE_UNROLL
    for (int i = 0; i + 1 < kUnits; ++i) copy(weights_of);
  }

  // The next unit, in shared memory, until the next call.
  template <class WeightsOf>
  PACELINE_DEVICE const uint8_t* next(WeightsOf weights_of) {
    wait_copies<kUnits - 2>();
    sync_warp();  // all lanes' copies are there, and all have read the unit before, whose room is free now
    copy(weights_of);
    const uint8_t* const unit = room_ + given_ * kBytes;
    given_ = given_ + 1 == kUnits ? 0 : given_ + 1;
    return unit;
  }

 private:
  template <class WeightsOf>
  PACELINE_DEVICE void open(WeightsOf weights_of) {
    from_ = nullptr;
    if (place_ >= end_ || segment_ >= segments_of(blocks_)) return;
    constexpr int kWhole = kSegmentBlocks / unit_tiles(f);
    const uint8_t* const weights = weights_of(place_);
    if (!weights) return;
    const int left = static_cast<int>(device_units(f, blocks_)) - kWhole * segment_;
    left_ = left < kWhole ? left : kWhole;
    from_ = segment_of<f>(weights, segment_);
  }

  template <class WeightsOf>
  PACELINE_DEVICE void copy(WeightsOf weights_of) {
    if (from_) {
      if (lane_index() == 0) count_weights(kBytes);
      uint8_t* const to = room_ + taken_ * kBytes;
      const int own = static_cast<int>(lane_index()) * 16;
      PACELINE_UNROLL
      for (int at = 0; at < kBytes; at += kWarp * 16)
        if (at + kWarp * 16 <= kBytes || at + own < kBytes) copy_async_16(to + at + own, from_ + at + own);
      from_ += kBytes;
      if (--left_ == 0) {
        segment_ += apart_;
        if (segment_ >= segments_of(blocks_)) {
          segment_ = begun_;
          place_ += step_;
        }
        open(weights_of);
      }
    }
    commit_copies();  // also of nothing: copies are waited for by number
    taken_ = taken_ + 1 == kUnits ? 0 : taken_ + 1;
  }

  uint8_t* room_;
  const uint8_t* from_ = nullptr;  // the next unit to copy; null: there is none
  int blocks_, place_, end_, step_;
  int begun_, apart_, segment_, left_ = 0;  // the warp's first segment of a place, and how far its segments are apart; that of the next unit, and its units left
  int taken_ = 0, given_ = 0;  // rooms of the next unit to copy and to give
};

// How many blocks take the row tiles of a product of so many groups of columns: as many as there is room for at once.
inline int blocks_for(const Product& product, int places, int groups, size_t shared_bytes) {
  const int room = resident_blocks(shared_bytes), together = room < 1 ? 1 : room > kStreamBlocks ? kStreamBlocks : room;
  const int most = together * (product.multiprocessors ? product.multiprocessors : multiprocessors()), each = most / groups > 0 ? most / groups : 1;
  return product.lists || places < each ? places : each;
}

}  // namespace paceline::cuda
