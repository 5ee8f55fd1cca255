// The table of kernels of one instruction set.
#include "operations.h"

#define PACELINE_TEXT2(x) #x
#define PACELINE_TEXT(x) PACELINE_TEXT2(x)

namespace paceline::PACELINE_ISA {

const Kernels& kernels() {
  static constexpr Kernels table = {PACELINE_TEXT(PACELINE_ISA), product, gated_product, rms_norm, center, quantize, rotate, write_cache, attend, merge_splits, largest,
                                    find_larger, weigh, add_weights, add_scaled, multiply_gate, multiply_heads, activate, soft_cap, convolve, divide_by_length, delta_gates, delta_rule, read_through, multiply_codes};
  return table;
}

}  // namespace paceline::PACELINE_ISA
