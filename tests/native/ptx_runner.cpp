// For test_ptx.py: runs the kernels of a translated file by name. A fault is returned as text, null where there is none.
#include <string>

#include "native/emulate/grid.h"
#include "native/emulate/ptx_kernels.h"
#include "native/emulate/traffic.h"
#include "native/emulate/watch.h"

namespace emulate = paceline::emulate;

extern "C" {

[[gnu::visibility("default")]] const char* run(const char* name, unsigned blocks, unsigned threads, size_t shared_bytes, int early, void* const* arguments) {
  static std::string fault;
  const paceline::ptx::Kernel* const kernel = paceline::ptx::find_kernel(name);
  if (!kernel) return "no such kernel";
  try {
    paceline::ptx::run_kernel(*kernel, {blocks, 1, 1}, threads, shared_bytes, early, arguments);
  } catch (const emulate::Fault& problem) {
    fault = problem.what();
    return fault.c_str();
  }
  return nullptr;
}

[[gnu::visibility("default")]] void watch(int on) { emulate::watch(on); }
[[gnu::visibility("default")]] void note_host_write(const void* p, size_t bytes) { emulate::note_host_write(p, bytes); }
[[gnu::visibility("default")]] void measure(int on) { emulate::measure(on); }

// Of what was measured on `line`: requests, bytes, transfers, least.
[[gnu::visibility("default")]] void measured(int line, uint64_t* found) {
  for (const emulate::Traffic& one : emulate::measured())
    if (one.line == line) found[0] = one.requests, found[1] = one.bytes, found[2] = one.transfers, found[3] = one.least;
}

}  // extern "C"
