// Kernels that break the rules, to test that the emulator reports it.
#pragma once

#include <string>

namespace paceline::emulate {

// Runs one of: "half a warp", "two operations", "half a barrier", "too much shared memory", "more than a GPU has", "past shared memory",
// "misaligned", "half waits", "rounded sum", which throw Fault; or "no barrier", "no wait", which return a number that shows what was read.
int misuse(const std::string& name);

}  // namespace paceline::emulate
