// Products of the formats whose weights are chosen from a grid of patterns.
#include "integer_product.h"

namespace paceline::PACELINE_ISA {

void integer_tile_grid(Format format, const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch) {
  switch (format) {
    case Format::IQ3_S: return integer_tile<Format::IQ3_S>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ3_XXS: return integer_tile<Format::IQ3_XXS>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ2_S: return integer_tile<Format::IQ2_S>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ2_XS: return integer_tile<Format::IQ2_XS>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ2_XXS: return integer_tile<Format::IQ2_XXS>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ1_M: return integer_tile<Format::IQ1_M>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ1_S: return integer_tile<Format::IQ1_S>(tiles, blocks, x, columns, sums, scratch);
    default: return;
  }
}

}  // namespace paceline::PACELINE_ISA
