// Blocks of weights as a GGUF file has them, taken apart.
#pragma once

#include "tile.h"

namespace paceline {

// 32 inputs of one row. What a format lacks stays zero.
struct FileBlock {
  uint8_t scale[2] = {}, minimum[2] = {};        // half d and half m, in the file's byte order; of a whole block of the file
  uint8_t scales[2] = {}, minimums[2] = {};      // of all inputs, or of each 16; the exponent byte of MXFP4
  uint8_t codes[kBlock] = {};
  uint8_t patterns[4] = {};                      // IQ2_XXS: of 8 inputs each; its codes are 1 where a weight is negative
};

// Block `block` (32 inputs) of a row in the file.
FileBlock read_file_block(Format format, const uint8_t* row, int block);

// A row that isn't there: codes that stand for zero, at a scale of zero.
FileBlock empty_block(Format format);

}  // namespace paceline
