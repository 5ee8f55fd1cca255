// Products of the formats whose blocks are parts of 256 inputs with a header, but for those with a grid.
#include "integer_product.h"

namespace paceline::PACELINE_ISA {

void integer_tile_256(Format format, const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch) {
  switch (format) {
    case Format::Q6_K: return integer_tile<Format::Q6_K>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q5_K: return integer_tile<Format::Q5_K>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q4_K: return integer_tile<Format::Q4_K>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ4_XS: return integer_tile<Format::IQ4_XS>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q3_K: return integer_tile<Format::Q3_K>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q2_K: return integer_tile<Format::Q2_K>(tiles, blocks, x, columns, sums, scratch);
    default: return;
  }
}

}  // namespace paceline::PACELINE_ISA
