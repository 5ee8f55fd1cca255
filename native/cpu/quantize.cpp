// Activations for the products: int8 codes in blocks of 32 with an f32 scale (max|x| / 127), or f32 as they are.
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

void quantize_block(const float* y, QuantizedBlock& out) {
  const Lanes low = load(y), high = load(y + kLanes);
  const float peak = fold_larger(larger(magnitude(low), magnitude(high)));
  const bool tiny = !(peak > 1e-30f);  // 127 / peak must stay finite
  const Lanes inverse = broadcast(tiny ? 0.0f : 127.0f / peak);
  const IntLanes a = nearest(low * inverse), b = nearest(high * inverse);
  store_bytes(out.codes, a);
  store_bytes(out.codes + kLanes, b);
  const int32_t low_sum = static_cast<int32_t>(fold_sum(to_float(a)));  // whole numbers below 2^24: exact
  const int32_t sum = static_cast<int32_t>(fold_sum(to_float(a) + to_float(b)));
  out.scale = tiny ? 0.0f : peak / 127.0f;
  out.scaled_sum = out.scale * static_cast<float>(sum);
  out.sum = sum;
  out.low_sum = low_sum;
}

}  // namespace

void quantize(const float* y, int first, int blocks, int column, int output_blocks, const Activations& output) {
  const size_t group = static_cast<size_t>(column / kGroup) * output_blocks;
  const int place = column % kGroup;
  for (int b = 0; b < blocks; ++b) {
    const size_t block = group + first + b;
    if (output.quantized) quantize_block(y + kBlock * b, output.quantized[block * kGroup + place]);
    if (output.wide)
      for (int i = 0; i < kBlock; ++i) output.wide[(block * kBlock + i) * kGroup + place] = y[kBlock * b + i];
  }
}

}  // namespace paceline::PACELINE_ISA
