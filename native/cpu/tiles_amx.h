// The registers of AMX: eight, of up to 16 rows of 64 bytes, whose sizes are set before they are used.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <initializer_list>

namespace paceline::PACELINE_ISA {

// As LDTILECFG reads them. To be a constant: GCC 12 is not told that more than the first eight bytes are read, and takes stores to the others for dead.
struct alignas(64) TileSizes {
  uint8_t palette = 1, start = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr void resize(int number, int its_rows, int bytes) {
    rows[number] = static_cast<uint8_t>(its_rows);
    row_bytes[number] = static_cast<uint16_t>(bytes);
  }
};
static_assert(sizeof(TileSizes) == 64);

// All of 16 rows of 64 bytes.
constexpr TileSizes full_tiles() {
  TileSizes sizes;
  for (int number = 0; number < 8; ++number) sizes.resize(number, 16, 64);
  return sizes;
}

// Dot products in 0 and 1: [16 columns][16 rows]. Inputs in 2 and 3: [16 columns][32 bytes]. Codes in 4 and 5: [8][16 rows x 4 bytes].
constexpr TileSizes block_tiles() {
  TileSizes sizes = full_tiles();
  for (const int number : {2, 3}) sizes.resize(number, 16, 32);
  for (const int number : {4, 5}) sizes.resize(number, 8, 64);
  return sizes;
}

// The registers, for as long as this lives. Afterwards they need not be saved where threads change.
class TileRegisters {
 public:
  explicit TileRegisters(const TileSizes& sizes) { _tile_loadconfig(&sizes); }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

}  // namespace paceline::PACELINE_ISA
