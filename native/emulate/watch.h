// Watches memory while kernels run, byte by byte, for what their results need not show. Faults:
//
//   - two threads of a launch access a byte, one of them writes, and nothing orders them: no barrier of the block, between lanes of a warp no sync_warp
//     (a shuffle orders no memory), and between blocks nothing ever does
//   - a load through the read-only path of what the same launch writes
//   - a kernel that may have been started early writes global memory before it has waited for the kernels before, or reads there what a kernel once wrote, or,
//     through L1, what the host has written since a kernel read it
//
// A copy to shared memory reads and writes when it is asked for, and again when it has been waited for. Of the readers of a byte four are known: the last, the
// last of another lane of that warp, of another warp of that block, and of another block. Only kernels translated from PTX tell their accesses (ptx.h); one host
// thread runs them.
#pragma once

#include <cstddef>

#include "traffic.h"

namespace paceline::emulate {

namespace detail {
inline bool watching = false;
}

inline bool watching() { return detail::watching; }
void watch(bool on);  // forgets all accesses
void watch_access(const Site& site, const void* p, size_t bytes, Use use);  // of the running thread
void forget_accesses(const void* p, size_t bytes);  // of memory that is new
void note_host_write(const void* p, size_t bytes);

}  // namespace paceline::emulate
