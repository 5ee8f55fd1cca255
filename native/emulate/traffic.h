// What a warp's accesses ask of a GPU's memory, instruction by instruction: the 32-byte sectors of a request to global memory, the passes of one to shared
// memory (NVIDIA's tools call them wavefronts; 32 banks of 4 bytes; a request of 8 or 16 bytes a lane is made by halves or quarters of a warp), and how few
// they could be. Only kernels translated from PTX tell their accesses (ptx.h). Which accesses were one request: a lane's n-th of an instruction goes with the
// n-th of the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::emulate {

// An instruction, by the line of source it was made from.
struct Site {
  const char* file;
  int line;
};
std::string text_of(const Site& site);  // for people

namespace detail {
inline bool measuring = false;
}

inline bool measuring() { return detail::measuring; }
void measure(bool on);  // forgets what was measured

// How an instruction uses memory. ReadOnly: a load that may come from a cache which knows nothing of the launch's own writes (ld.global.nc). Strong: one that does
// not come from L1 (ld.relaxed.gpu). Copy: the source of an asynchronous copy.
enum class Use { Load, ReadOnly, Strong, Store, Copy };

struct Traffic {
  std::string kernel, file;
  int line = 0;
  bool shared = false;
  Use use = Use::Load;
  uint64_t requests = 0, bytes = 0;   // of warps; the different bytes that they were for
  uint64_t transfers = 0, least = 0;  // sectors or passes; as few as could hold the bytes
};
std::vector<Traffic> measured();  // since measure(true)

void note_access(const Site& site, const void* p, size_t bytes, Use use);  // of the running thread
void end_accesses_of_block(const char* kernel);

}  // namespace paceline::emulate
