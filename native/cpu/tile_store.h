// Tensors in this process's memory: matrices in the tiles of the CPU's products.
#pragma once

#include <algorithm>
#include <cstring>

#include "memory.h"
#include "model.h"
#include "repack.h"

namespace paceline {

class TileStore final : public Store {
 public:
  TileStore(Arena& arena, int threads) : arena_(arena), threads_(threads) {}

  const uint8_t* matrix(const Matrix& m, const Source& source) override {
    uint8_t* tiles = static_cast<uint8_t*>(arena_.allocate(m.bytes()));
    const size_t read_bytes = source_row_bytes(m.format, m.columns) * kTileRows;  // of a row tile
    const int piece = static_cast<int>(kPieceBytes / read_bytes) + 1;
    for (int first = 0; first < m.tiles; first += piece) {
      const int end = std::min(first + piece, m.tiles);
#pragma omp parallel for num_threads(threads_) schedule(static)
      for (int t = first; t < end; ++t) repack_row_tile(m, source.data, t, tiles + t * m.row_tile_bytes());
      const size_t begin = first * read_bytes;
      if (source.mapped && begin < source.size) forget(source.data + begin, std::min(end * read_bytes, source.size) - begin);
    }
    return tiles;
  }

  const float* vector(const float* values, size_t count) override {
    float* copy = static_cast<float*>(arena_.allocate((count + kBlock) * sizeof(float)));  // zeros past the end, for whole lanes
    std::memcpy(copy, values, count * sizeof(float));
    return copy;
  }

 private:
  static constexpr size_t kPieceBytes = size_t{16} << 20;  // of a file, in memory at once

  Arena& arena_;
  const int threads_;
};

}  // namespace paceline
