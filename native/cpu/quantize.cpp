// Activations for the products: int8 codes in blocks of 32 with an f32 scale (max|x| / 127), or f32 as they are.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

void quantize_block(const float* y, QuantizedBlock& out) {
  const Lanes low = load(y), high = load(y + kLanes);
  // x - x is NaN for an infinite or NaN input: the block's scale is NaN then, and its codes are zeros.
  const float nothing = fold_sum((low - low) + (high - high));
  const float peak = fold_larger(larger(magnitude(low), magnitude(high)));
  const bool tiny = !(peak > 1e-30f) || nothing != 0.0f;  // 127 / peak must stay finite
  const Lanes inverse = broadcast(tiny ? 0.0f : 127.0f / peak);
  const Bytes a = to_bytes(nearest(tiny ? zero() : low * inverse)), b = to_bytes(nearest(tiny ? zero() : high * inverse));
  store(out.codes, a);
  store(out.codes + kLanes, b);
  const int32_t low_sum = sum(a), all = low_sum + sum(b);
  out.scale = tiny ? nothing : peak / 127.0f;
  out.float_sum = static_cast<float>(all);
  out.sum = all;
  out.low_sum = low_sum;
}

}  // namespace

void quantize(const float* y, int first, int blocks, int column, int output_blocks, const Activations& output) {
  const size_t group = static_cast<size_t>(column / kGroup) * output_blocks;
  const int place = column % kGroup;
  for (int b = 0; b < blocks; ++b) {
    const size_t block = group + first + b;
    if (output.quantized) quantize_block(y + kBlock * b, output.quantized[block * kGroup + place]);
    if (!output.wide) continue;
    float* const wide = output.wide + output.wide_place(output_blocks, column, kBlock * (first + b));
    for (int i = 0; i < kBlock; ++i) wide[static_cast<size_t>(i) * output.wide_columns] = y[kBlock * b + i];
  }
}

}  // namespace paceline::PACELINE_ISA
