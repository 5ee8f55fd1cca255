// Products of a panel: the formats share them, once their codes are bytes and their scales f32.
#include "integer_product.h"

namespace paceline::PACELINE_ISA {

void panel_columns(int bias, bool minimum, int scales, int columns, const uint8_t* panel, int blocks, const QuantizedBlock* x, float* sums,
                   const Ahead& ahead) {
  if (minimum && scales == 1) return integer_columns<Panel<0, true, 1>>(columns, panel, blocks, x, sums, ahead);
  if (minimum) return integer_columns<Panel<0, true, 2>>(columns, panel, blocks, x, sums, ahead);
  if (bias == 128) return integer_columns<Panel<128, false, 1>>(columns, panel, blocks, x, sums, ahead);
  if (scales == 1) return integer_columns<Panel<64, false, 1>>(columns, panel, blocks, x, sums, ahead);
  return integer_columns<Panel<64, false, 2>>(columns, panel, blocks, x, sums, ahead);
}

}  // namespace paceline::PACELINE_ISA
