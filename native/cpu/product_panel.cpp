// Products of a panel: the formats share them, once their codes are bytes and their scales f32.
#include "integer_product.h"

namespace paceline::PACELINE_ISA {

void panel_columns(int bias, bool minimum, int scales, int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, bool begins, float* sums,
                   const Ahead& ahead) {
  const auto run = [&]<class F>() { integer_columns<F>(columns, panel, blocks, x, begins, sums, ahead); };
  if (minimum && scales == 1) return run.template operator()<Panel<0, true, 1>>();
  if (minimum) return run.template operator()<Panel<0, true, 2>>();
  if (bias == 128) return run.template operator()<Panel<128, false, 1>>();
  if (bias == 64 && scales == 1) return run.template operator()<Panel<64, false, 1>>();
  if (bias == 64) return run.template operator()<Panel<64, false, 2>>();
  if (bias == 32) return run.template operator()<Panel<32, false, 2>>();
  if (scales == 1) return run.template operator()<Panel<16, false, 1>>();
  return run.template operator()<Panel<16, false, 2>>();
}

}  // namespace paceline::PACELINE_ISA
