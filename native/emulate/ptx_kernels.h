// The kernels of translated PTX files, by their mangled names, and how one is run.
#pragma once

#include <cstdint>
#include <string>

#include "grid.h"

namespace paceline::ptx {

// architecture: that the PTX is for, as 90.
struct Kernel {
  const char* name;
  int architecture;
  unsigned most_threads;
  int parameters;
  const unsigned* parameter_bytes;
  void (*run)(const uint8_t* const* parameters);
};

bool know(const Kernel& kernel);  // every file does when it is loaded
const Kernel* find_kernel(const std::string& name);

// Runs it, or records the run with the arguments as they are now (recording.h). early: it may be started while kernels before it run, and must wait for them.
void run_kernel(const Kernel& kernel, emulate::Size grid, unsigned threads, size_t shared_bytes, bool early, void* const* arguments);

}  // namespace paceline::ptx
