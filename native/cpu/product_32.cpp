// Products of the formats whose blocks have scales of their own.
#include "integer_product.h"

namespace paceline::PACELINE_ISA {

void integer_tile_32(Format format, const uint8_t* tiles, int blocks, const QuantizedBlock* x, int columns, float* sums, Scratch& scratch) {
  switch (format) {
    case Format::Q8_0: return integer_tile<Format::Q8_0>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q5_1: return integer_tile<Format::Q5_1>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q5_0: return integer_tile<Format::Q5_0>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q4_1: return integer_tile<Format::Q4_1>(tiles, blocks, x, columns, sums, scratch);
    case Format::Q4_0: return integer_tile<Format::Q4_0>(tiles, blocks, x, columns, sums, scratch);
    case Format::IQ4_NL: return integer_tile<Format::IQ4_NL>(tiles, blocks, x, columns, sums, scratch);
    case Format::MXFP4: return integer_tile<Format::MXFP4>(tiles, blocks, x, columns, sums, scratch);
    case Format::NVFP4: return integer_tile<Format::NVFP4>(tiles, blocks, x, columns, sums, scratch);
    default: return;
  }
}

}  // namespace paceline::PACELINE_ISA
