// The instruction sets of this processor, asked once.
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif PACELINE_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace paceline {

namespace {

struct Set {
  const char* name;
  bool here;  // this machine has all of it
  const Kernels& (*kernels)();
};

#if PACELINE_AMX
// The processor has the instructions, and Linux (from 5.16 on) lets this process keep state in their registers, which it has to be asked for.
bool asked_for_amx() {
  constexpr unsigned long kAskPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of arch_prctl(2), and the state's number
  constexpr unsigned kTiles = 1u << 24, kBytes = 1u << 25;
  unsigned a, b, c, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kTiles) && (d & kBytes) && syscall(SYS_arch_prctl, kAskPermission, kTileData) == 0;
}
#endif

// The fastest first.
std::vector<Set> sets() {
  std::vector<Set> found;
#if defined(__x86_64__)
  [[maybe_unused]] const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#if PACELINE_AVX512 || PACELINE_AMX
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#endif
#if PACELINE_AMX
  static const bool amx = avx512 && asked_for_amx();
  found.push_back({"amx", amx, amx::kernels});
#endif
#if PACELINE_AVX512
  found.push_back({"avx512", avx512, avx512::kernels});
#endif
#if PACELINE_AVXVNNI
  found.push_back({"avxvnni", avx2 && __builtin_cpu_supports("avxvnni"), avxvnni::kernels});
#endif
#if PACELINE_AVX2
  found.push_back({"avx2", avx2, avx2::kernels});
#endif
#elif defined(__aarch64__)
  found.push_back({"dotprod", (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0, dotprod::kernels});
  found.push_back({"neon", true, neon::kernels});
#endif
  found.push_back({"plain", true, plain::kernels});
  return found;
}

}  // namespace

std::vector<const char*> instruction_sets() {
  std::vector<const char*> names;
  for (const Set& set : sets())
    if (set.here) names.insert(names.begin(), set.name);
  return names;
}

const Kernels& choose_kernels(const char* name) {
  const std::string wanted = name;
  for (const Set& set : sets()) {
    if (wanted != "auto" && wanted != set.name) continue;
    if (set.here) return set.kernels();
    if (wanted == set.name) throw std::invalid_argument("isa '" + wanted + "': this machine has not all of its instructions");
  }
  for (const char* known : {"amx", "avx512", "avxvnni", "avx2", "dotprod", "neon"})
    if (wanted == known) throw std::invalid_argument("isa '" + wanted + "': this build of Paceline does not have it");
  throw std::invalid_argument("isa '" + wanted + "': expected auto, plain, avx2, avxvnni, avx512 or amx, or on ARM neon or dotprod");
}

}  // namespace paceline
