// The two roofs under which a step works: bytes a second from memory, multiplications of 8-bit codes a second.
#pragma once

#include <cstddef>

#include "kernels.h"

namespace paceline {

// Bytes a second that `threads` threads read together from `bytes` of memory in huge pages, the best of `rounds` times through
// it. `bytes` should be many times what caches hold.
double read_roof(const Kernels& kernels, int threads, size_t bytes, int rounds);

// Products of an 8-bit code and an 8-bit activation a second, summed in registers, the best of `rounds` tenths of a second or so.
double multiply_roof(const Kernels& kernels, int threads, int rounds);

}  // namespace paceline
