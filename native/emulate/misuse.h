// Kernels that do what they may not, to see that the emulator tells.
#pragma once

#include <string>

namespace paceline::emulate {

// Runs one of: "half a warp", "two operations", "half a barrier", "too much shared memory", "past shared memory", "misaligned",
// which throw Fault; or "no barrier", "no wait", which give a number that shows what was read.
int misuse(const std::string& name);

}  // namespace paceline::emulate
