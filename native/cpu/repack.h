// From the blocks of a GGUF file to tiles (tile.h).
#pragma once

#include "tile.h"

namespace paceline {

// source [rows][columns] in blocks of ggml's layout (or plain floats) -> row tile `tile` of `matrix`, at `out`.
void repack_row_tile(const Matrix& matrix, const uint8_t* source, int tile, uint8_t* out);

// Bytes of one row in the file. columns must be a multiple of the format's file_inputs.
size_t source_row_bytes(Format format, int columns);

// Row `row` as f32 -> out [columns]: the embedding of a token.
void read_row(const Matrix& matrix, int row, float* out);

}  // namespace paceline
