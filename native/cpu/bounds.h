// Bounds of a model's sizes that the kernels of all devices share, and the unit of their exact sums.
#pragma once

#include <cstdint>

namespace paceline {

constexpr int kDeltaPart = 32;   // values of a recurrent head to a part: a unit of work
constexpr int kDeltaKeys = 256;  // most to a recurrent head
constexpr int kMostGroups = 32;  // of experts
constexpr int kMostTaps = 16;    // of a convolution

// A weight, at most 1, as a whole number: sums of them are exact, and so the same in any order.
constexpr float kWholeWeight = 0x1p40f;
constexpr uint64_t whole(float weight) { return static_cast<uint64_t>(static_cast<int64_t>(weight * kWholeWeight)); }

}  // namespace paceline
