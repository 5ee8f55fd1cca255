// Blocks of weights as a GGUF file has them, taken apart. Inline, so that repacking is compiled once per format.
#pragma once

#include <cstring>

#include "tile.h"

namespace paceline {

// 32 inputs of one row. What a format lacks stays zero.
struct FileBlock {
  uint8_t scale[2] = {}, minimum[2] = {};        // half d and half m, in the file's byte order; of a whole block of the file
  uint8_t scales[2] = {}, minimums[2] = {};      // of all inputs, or of each 16; the exponent byte of MXFP4
  uint8_t codes[kBlock] = {};
  uint16_t patterns[8] = {};                     // formats with a grid: their numbers (grid_patterns.h); the codes are 1 where a weight is negative
};

inline uint32_t word_at(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, 4);
  return word;
}

// Byte i holds weight i below and weight i + 16 above. Bit i of the fifth bits is that of weight i.
inline void read_small(Format f, const uint8_t* p, FileBlock& out) {
  if (f == Format::MXFP4) {
    out.scales[0] = *p++;
  } else {
    std::memcpy(out.scale, p, 2);
    p += 2;
  }
  if (layout(f).minimum) {
    std::memcpy(out.minimum, p, 2);
    p += 2;
  }
  if (f == Format::Q8_0) {
    for (int i = 0; i < kBlock; ++i) out.codes[i] = p[i] ^ 0x80;
    return;
  }
  uint32_t fifth = 0;
  if (layout(f).high_bits) {
    fifth = word_at(p);
    p += 4;
  }
  for (int i = 0; i < kBlock; ++i) out.codes[i] = static_cast<uint8_t>((i < 16 ? p[i] & 15 : p[i - 16] >> 4) | (fifth >> i & 1) << 4);
}

// Scales of 16 inputs: byte j of eight holds inputs j below and j + 8 above. Bytes 0 and 0x7f both mean zero, bit 7 nothing.
inline void read_nvfp4(const uint8_t* p, int b, FileBlock& out) {
  for (int h = 0; h < 2; ++h) {
    const uint8_t scale = p[2 * b + h];
    out.scales[h] = scale == 0x7f ? 0 : scale & 0x7f;
    for (int i = 0; i < 16; ++i) out.codes[16 * h + i] = p[4 + 8 * (2 * b + h) + i % 8] >> 4 * (i / 8) & 15;
  }
}

// half d, half m, 12 bytes of 6-bit scales and minimums, [32 bytes of fifth bits,] nibbles
inline void read_q4_k(Format f, const uint8_t* p, int b, FileBlock& out) {
  std::memcpy(out.scale, p, 2);
  std::memcpy(out.minimum, p + 2, 2);
  const uint8_t* six = p + 4;
  const uint8_t* fifth = p + 16;
  const uint8_t* nibbles = fifth + (f == Format::Q5_K ? 32 : 0) + b / 2 * 32;
  out.scales[0] = static_cast<uint8_t>(b < 4 ? six[b] & 63 : (six[b + 4] & 15) | six[b - 4] >> 6 << 4);
  out.minimums[0] = static_cast<uint8_t>(b < 4 ? six[b + 4] & 63 : six[b + 4] >> 4 | six[b] >> 6 << 4);
  for (int i = 0; i < kBlock; ++i) {
    out.codes[i] = nibbles[i] >> 4 * (b % 2) & 15;
    if (f == Format::Q5_K) out.codes[i] |= (fifth[i] >> b & 1) << 4;
  }
}

// 128 bytes of nibbles, 64 of 5th and 6th bits, 16 scales, half d; four blocks of 32 in each half of them
inline void read_q6_k(const uint8_t* p, int b, FileBlock& out) {
  const uint8_t* nibbles = p + 64 * (b / 4) + 32 * (b % 2);
  const uint8_t* pairs = p + 128 + 32 * (b / 4);
  std::memcpy(out.scales, p + 192 + 2 * b, 2);
  std::memcpy(out.scale, p + 208, 2);
  for (int i = 0; i < kBlock; ++i) out.codes[i] = static_cast<uint8_t>((nibbles[i] >> 4 * (b / 2 % 2) & 15) | (pairs[i] >> 2 * (b % 4) & 3) << 4);
}

// 32 bytes of third bits, 64 of pairs, 12 of 6-bit scales (four bits of 16, then two of 16), half d
inline void read_q3_k(const uint8_t* p, int b, FileBlock& out) {
  const uint8_t* pairs = p + 32 + 32 * (b / 4);
  const uint8_t* six = p + 96;
  std::memcpy(out.scale, p + 108, 2);
  for (int h = 0; h < 2; ++h) {
    const int k = 2 * b + h;
    out.scales[h] = static_cast<uint8_t>(((six[k % 8] >> 4 * (k / 8) & 15) | (six[8 + k % 4] >> 2 * (k / 4) & 3) << 4) - 32);
  }
  for (int i = 0; i < kBlock; ++i) out.codes[i] = static_cast<uint8_t>((pairs[i] >> 2 * (b % 4) & 3) | (p[i] >> b & 1) << 2);
}

// 16 bytes of scale below minimum, 64 of pairs, half d, half m
inline void read_q2_k(const uint8_t* p, int b, FileBlock& out) {
  const uint8_t* pairs = p + 16 + 32 * (b / 4);
  std::memcpy(out.scale, p + 80, 2);
  std::memcpy(out.minimum, p + 82, 2);
  for (int h = 0; h < 2; ++h) {
    out.scales[h] = p[2 * b + h] & 15;
    out.minimums[h] = p[2 * b + h] >> 4;
  }
  for (int i = 0; i < kBlock; ++i) out.codes[i] = pairs[i] >> 2 * (b % 4) & 3;
}

// half d, two bytes of the scales' upper two bits, four of their lower four, nibbles
inline void read_iq4_xs(const uint8_t* p, int b, FileBlock& out) {
  std::memcpy(out.scale, p, 2);
  const int upper = p[2 + b / 4] >> 2 * (b % 4) & 3, lower = p[4 + b / 2] >> 4 * (b % 2) & 15;
  out.scales[0] = static_cast<uint8_t>((lower | upper << 4) - 32);
  for (int i = 0; i < kBlock; ++i) out.codes[i] = p[8 + 16 * b + i % 16] >> 4 * (i / 16) & 15;
}

// Signs of eight weights in seven bits: the eighth makes the number of minus signs even.
inline void read_seven_signs(uint32_t seven, uint8_t* codes) {
  int minuses = 0;
  for (int i = 0; i < 7; ++i) minuses += codes[i] = seven >> i & 1;
  codes[7] = minuses % 2;
}
inline void read_eight_signs(const uint8_t* eights, uint8_t* codes) {
  for (int i = 0; i < kBlock; ++i) codes[i] = eights[i / 8] >> i % 8 & 1;
}

// half d[, of IQ3_XXS all numbers]; for each block [of IQ2_XXS four numbers and] a word of four times seven signs and a scale
inline void read_iq_xxs(Format f, const uint8_t* p, int b, FileBlock& out) {
  const int count = f == Format::IQ3_XXS ? 8 : 4;
  const uint8_t* numbers = p + 2 + (f == Format::IQ3_XXS ? count : 8) * b;
  const uint32_t word = word_at(f == Format::IQ3_XXS ? p + 2 + 64 + 4 * b : numbers + 4);
  std::memcpy(out.scale, p, 2);
  for (int i = 0; i < count; ++i) out.patterns[i] = numbers[i];
  for (int group = 0; group < 4; ++group) read_seven_signs(word >> 7 * group, out.codes + 8 * group);
  out.scales[0] = static_cast<uint8_t>(word >> 28);
}

// half d, for each pattern 9 bits of its number and seven signs, for each block a byte of two scales
inline void read_iq2_xs(const uint8_t* p, int b, FileBlock& out) {
  std::memcpy(out.scale, p, 2);
  for (int group = 0; group < 4; ++group) {
    const uint8_t* own = p + 2 + 8 * b + 2 * group;
    const uint32_t both = own[0] | own[1] << 8;
    out.patterns[group] = both & 511;
    read_seven_signs(both >> 9, out.codes + 8 * group);
  }
  for (int h = 0; h < 2; ++h) out.scales[h] = p[66 + b] >> 4 * h & 15;
}

// half d, 32 bytes of numbers, 32 of signs, for each block a byte of the numbers' upper two bits, then a byte of two scales
inline void read_iq2_s(const uint8_t* p, int b, FileBlock& out) {
  std::memcpy(out.scale, p, 2);
  for (int i = 0; i < 4; ++i) out.patterns[i] = static_cast<uint16_t>(p[2 + 4 * b + i] | (p[66 + b] >> 2 * i & 3) << 8);
  read_eight_signs(p + 34 + 4 * b, out.codes);
  for (int h = 0; h < 2; ++h) out.scales[h] = p[74 + b] >> 4 * h & 15;
}

// half d, 64 bytes of numbers, for each block a byte of their ninth bits, 32 bytes of signs, a nibble of scale for each block
inline void read_iq3_s(const uint8_t* p, int b, FileBlock& out) {
  std::memcpy(out.scale, p, 2);
  for (int i = 0; i < 8; ++i) out.patterns[i] = static_cast<uint16_t>(p[2 + 8 * b + i] | (p[66 + b] >> i & 1) << 8);
  read_eight_signs(p + 74 + 4 * b, out.codes);
  out.scales[0] = p[106 + b / 2] >> 4 * (b % 2) & 15;
}

// half d, 32 bytes of numbers, for each block 16 bits: the upper three of each number, three of scale, whether its weights are 1/8 less or 1/8 more
inline void read_iq1_s(const uint8_t* p, int b, FileBlock& out) {
  const uint32_t upper = p[34 + 2 * b] | p[35 + 2 * b] << 8;
  std::memcpy(out.scale, p, 2);
  for (int i = 0; i < 4; ++i) out.patterns[i] = static_cast<uint16_t>(p[2 + 4 * b + i] | (upper >> 3 * i & 7) << 8 | upper >> 15 << 11);
  out.scales[0] = upper >> 12 & 7;
}

// 32 bytes of numbers, a nibble for each of the upper three bits and whether its weights are 1/8 less or 1/8 more, four words of 16 bits: four scales and a
// nibble of half d
inline void read_iq1_m(const uint8_t* p, int b, FileBlock& out) {
  for (int i = 0; i < 4; ++i) out.patterns[i] = static_cast<uint16_t>(p[4 * b + i] | (p[32 + 2 * b + i / 2] >> 4 * (i % 2) & 15) << 8);
  const uint8_t* words = p + 48;
  for (int i = 0; i < 4; ++i) out.scale[i / 2] |= static_cast<uint8_t>(words[2 * i + 1] >> 4 << 4 * (i % 2));
  const uint32_t own = words[b / 2 * 2] | words[b / 2 * 2 + 1] << 8;
  for (int h = 0; h < 2; ++h) out.scales[h] = own >> 3 * (2 * (b % 2) + h) & 7;
}

// Block `block` (32 inputs) of a row in the file.
inline FileBlock read_file_block(Format format, const uint8_t* row, int block) {
  const Layout shape = layout(format);
  const int blocks = shape.file_inputs / kBlock, b = block % blocks;
  const uint8_t* p = row + static_cast<size_t>(block / blocks) * shape.file_bytes;
  FileBlock out;
  switch (format) {
    case Format::NVFP4: read_nvfp4(p, b, out); break;
    case Format::Q4_K: case Format::Q5_K: read_q4_k(format, p, b, out); break;
    case Format::Q6_K: read_q6_k(p, b, out); break;
    case Format::Q3_K: read_q3_k(p, b, out); break;
    case Format::Q2_K: read_q2_k(p, b, out); break;
    case Format::IQ4_XS: read_iq4_xs(p, b, out); break;
    case Format::IQ3_S: read_iq3_s(p, b, out); break;
    case Format::IQ3_XXS: case Format::IQ2_XXS: read_iq_xxs(format, p, b, out); break;
    case Format::IQ2_S: read_iq2_s(p, b, out); break;
    case Format::IQ2_XS: read_iq2_xs(p, b, out); break;
    case Format::IQ1_M: read_iq1_m(p, b, out); break;
    case Format::IQ1_S: read_iq1_s(p, b, out); break;
    default: read_small(format, p, out);
  }
  return out;
}

// A row that isn't there: codes that stand for zero, at a scale of zero.
inline FileBlock empty_block(Format format) {
  FileBlock block;
  for (uint8_t& code : block.codes) code = format == Format::Q8_0 ? 128 : 0;
  return block;
}

}  // namespace paceline
