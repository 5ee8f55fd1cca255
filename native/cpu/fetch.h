// Bytes on their way from memory before they are read.
#pragma once

#include "simd.h"

namespace paceline::PACELINE_ISA {

// Into the second cache, which may have many lines on their way. The first may have few (24 in a core of Zen 4, which in the time that memory takes is half of what
// memory can give).
PACELINE_INLINE void fetch_far(const uint8_t* p, size_t bytes) {
  for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(p + line, 0, 2);
}

// Of a stream that is being read at `p`: what comes much later into the second cache, and what comes soon from there into the first.
PACELINE_INLINE void fetch_stream(const uint8_t* p, size_t bytes) {
  constexpr size_t kFar = 16384, kNear = 3072;
  for (size_t line = 0; line < bytes; line += 64) {
    __builtin_prefetch(p + kFar + line, 0, 2);
    __builtin_prefetch(p + kNear + line);
  }
}

}  // namespace paceline::PACELINE_ISA
