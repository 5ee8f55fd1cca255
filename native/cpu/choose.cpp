// The instruction sets of this processor, asked once.
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels.h"

namespace paceline {
namespace {

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#endif

}  // namespace

const Kernels& choose_kernels(const char* name) {
  const std::string wanted = name;
#if defined(__x86_64__)
  const bool any = wanted == "auto";
  if ((any || wanted == "avx512") && has_avx512()) return avx512::kernels();
  if ((any || wanted == "avx2") && has_avx2()) return avx2::kernels();
  if (wanted == "avx512" || wanted == "avx2") throw std::invalid_argument("isa '" + wanted + "': this processor has not all of its instructions");
#endif
  if (wanted == "auto" || wanted == "plain") return plain::kernels();
  throw std::invalid_argument("isa '" + wanted + "': expected auto, plain, avx2 or avx512");
}

}  // namespace paceline
