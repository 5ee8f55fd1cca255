// A warp's weights for few columns, unit after unit: those of its segments of a row tile, then those of the next row tile that its block takes, and so on to its
// last. Asynchronous copies bring them into shared memory some units ahead, without a gap between segments or row tiles, so that memory is busy whatever the warp
// waits for. The copies need no registers: a unit is in them only while it is computed.
#pragma once

#include "product.h"

namespace paceline::cuda {

// How many blocks take the row tiles of a product, all of them at once, to a multiprocessor: more would begin when others end. Measured on an H100: with three, the
// inputs do not stay in L1, which shares its memory with the weights on their way.
constexpr int kStreamBlocks = 2;
constexpr int kStreamBytes = 5 << 10;  // of a warp, about
constexpr int kMostStages = 5;

// A stage of a warp's stream is a unit of each of its `rows` row tiles. Those that are computed are in registers, so what shared memory has room for is on its way.
template <Format f, int rows>
constexpr int kStageBytes = rows * static_cast<int>(device_unit_bytes(f));
template <Format f, int rows>
constexpr int stages_of_stream() {
  const int fit = (kStreamBytes + kStageBytes<f, rows> / 2) / kStageBytes<f, rows>;  // to the nearest
  return fit < 1 ? 1 : fit > kMostStages ? kMostStages : fit;
}
template <Format f, int rows>
constexpr size_t kStreamRoom = static_cast<size_t>(kProductWarps) * stages_of_stream<f, rows>() * kStageBytes<f, rows>;  // of a block

// A block's warps divide a place, which is `tiles` row tiles; weights_of(place, weights) says where the warp's own ones begin, null where the last place has none for it.
template <Format f, int rows>
class WeightStream {
 public:
  static constexpr int kStages = stages_of_stream<f, rows>(), kBytes = static_cast<int>(device_unit_bytes(f));

  // Places first, first + step, ... below `end`.
  PACELINE_DEVICE WeightStream(SharedMemory& memory, int blocks, int tiles, int first, int end, int step)
      : blocks_(blocks), place_(first), end_(end), step_(step), begun_(static_cast<int>(warp_index()) / (tiles / rows)), apart_(kProductWarps / (tiles / rows)) {
    room_ = memory.take<uint8_t>(kStreamRoom<f, rows>) + warp_index() * (kStages * kStageBytes<f, rows>);
    segment_ = begun_;
  }

  template <class WeightsOf>
  PACELINE_DEVICE void begin(WeightsOf weights_of) {
    open(weights_of);
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r)
      if (from_[r]) fetch_segment<f, kStages>(from_[r] - static_cast<size_t>(segment_) * kSegmentBytes<f>, blocks_, segment_);
    PACELINE_UNROLL
    for (int i = 0; i < kStages; ++i) copy(weights_of);
  }

  // load(r, unit): of the next stage's units, in shared memory, before their room is for another. That of a row tile that there is not is garbage.
  template <class WeightsOf, class Load>
  PACELINE_DEVICE void take(WeightsOf weights_of, Load load) {
    wait_copies<kStages - 1>();
    sync_warp();  // all lanes' copies are there
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r) load(r, room_ + stage_ * kStageBytes<f, rows> + r * kBytes);
    sync_warp();  // and all have read them
    copy(weights_of);
  }

 private:
  template <class WeightsOf>
  PACELINE_DEVICE void open(WeightsOf weights_of) {
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r) from_[r] = nullptr;
    if (place_ >= end_ || segment_ >= segments_of(blocks_)) return;
    constexpr int kWhole = kSegmentBlocks / unit_tiles(f);
    const int left = static_cast<int>(device_units(f, blocks_)) - kWhole * segment_;
    left_ = left < kWhole ? left : kWhole;
    weights_of(place_, from_);
    PACELINE_UNROLL
    for (int r = 0; r < rows; ++r)
      if (from_[r]) from_[r] = segment_of<f>(from_[r], segment_);
  }

  template <class WeightsOf>
  PACELINE_DEVICE void copy(WeightsOf weights_of) {
    if (from_[0]) {
      const int own = static_cast<int>(lane_index()) * 16;
      PACELINE_UNROLL
      for (int r = 0; r < rows; ++r) {
        if (r > 0 && !from_[r]) continue;
        if (lane_index() == 0) count_weights(kBytes);
        uint8_t* const to = room_ + stage_ * kStageBytes<f, rows> + r * kBytes;
        PACELINE_UNROLL
        for (int at = 0; at < kBytes; at += kWarp * 16)
          if (at + kWarp * 16 <= kBytes || at + own < kBytes) copy_async_16(to + at + own, from_[r] + at + own);
        from_[r] += kBytes;
      }
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
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
  }

  uint8_t* room_;
  const uint8_t* from_[rows];  // the next units to copy; null: there is none
  int blocks_, place_, end_, step_;
  int begun_, apart_, segment_, left_ = 0;  // the warp's first segment of a place, and how far its segments are apart; that of the next stage, and its stages left
  int stage_ = 0;  // the next to take, and then to copy to
};

// How many blocks take the row tiles of a product of so many groups of columns: as many as there is room for at once.
inline int blocks_for(const Product& product, int places, int groups, size_t shared_bytes) {
  const int room = resident_blocks(shared_bytes), together = room < 1 ? 1 : room > kStreamBlocks ? kStreamBlocks : room;
  const int most = together * (product.multiprocessors ? product.multiprocessors : multiprocessors()), each = most / groups > 0 ? most / groups : 1;
  return product.lists || places < each ? places : each;
}

}  // namespace paceline::cuda
