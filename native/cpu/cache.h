// The cache of keys and values: a pool of pages of 64 positions. A page holds, for every layer that keeps any and every kv head,
// K [head_size][64 keys] and V [64 keys][value_stride], so that neither product of attention needs a horizontal sum.
//
// Quantized types have blocks of 32 dimensions of one token and head, codes first, then a half for each block:
//   K q8_0  int8 [head_size][64]      q4_0  bytes [head_size / 2][64], dimension 2i below, 2i + 1 above
//     scales [head_size / 32][64]
//   V q8_0  int8 [64][head_size]      q4_0  bytes [64][head_size / 2], of a block dimension i below, i + 16 above
//     scales [64][head_size / 32]
// No byte is shared by two tokens: threads write tokens side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline {

constexpr int kPage = 64;        // positions to a page, keys to an attention block
constexpr int kSplit = 512;      // positions to a split
constexpr int kCacheBlock = 32;  // dimensions to a scale

enum class CacheType { F32, F16, BF16, Q8_0, Q4_0 };

// "f32", "f16", "bf16", "q8_0" or "q4_0"; throws std::invalid_argument naming them.
CacheType cache_type_named(const std::string& name);

constexpr bool is_quantized(CacheType type) { return type == CacheType::Q8_0 || type == CacheType::Q4_0; }

// Bytes of `values` values without their scales.
constexpr size_t code_bytes(CacheType type, size_t values) {
  switch (type) {
    case CacheType::F32: return values * 4;
    case CacheType::F16:
    case CacheType::BF16: return values * 2;
    case CacheType::Q8_0: return values;
    case CacheType::Q4_0: return values / 2;
  }
  return 0;
}

constexpr size_t cache_bytes(CacheType type, size_t values) {
  return code_bytes(type, values) + (is_quantized(type) ? values / kCacheBlock * 2 : 0);
}

// Keys and values of one layer and kv head, as an attention work item sees them. Offsets and strides in bytes.
struct CacheView {
  uint8_t* pool;            // page p begins at pool + p * page_stride
  size_t page_stride;
  size_t key_offset;        // of this layer and head within a page
  size_t value_offset;
  CacheType key_type, value_type;
  int head_size, value_size;  // of a key and of its value
  int value_stride;         // values to a key: value_size rounded up to 16
  int window = 0;           // a query sees its last `window` positions, its own included; 0: all
  float softcap = 0.0f;     // scores become softcap * tanh(score / softcap); 0: as they are
};

struct CachedHeads {
  int kv_heads, head_size, value_size;
};

// What lies where in a page, of which `layers` are the layers that keep keys and values.
class CacheLayout {
 public:
  // Throws std::invalid_argument for a head size that has no blocks of 32 where a type needs them.
  CacheLayout(std::vector<CachedHeads> layers, CacheType key_type, CacheType value_type);

  size_t page_bytes() const { return page_bytes_; }
  size_t head_bytes(int layer) const { return key_bytes(layers_[layer]) + value_bytes(layers_[layer]); }  // of one kv head
  int most_values() const { return most_values_; }  // to a key
  int most_dimensions() const { return most_dimensions_; }  // of a key

  CacheView view(uint8_t* pool, int layer, int kv_head) const {
    const CachedHeads& heads = layers_[layer];
    const size_t begin = begins_[layer] + kv_head * head_bytes(layer);
    return {pool, page_bytes_, begin, begin + key_bytes(heads), key_type_, value_type_, heads.head_size, heads.value_size, value_stride(heads)};
  }

 private:
  static int value_stride(const CachedHeads& heads) { return (heads.value_size + 15) / 16 * 16; }
  size_t key_bytes(const CachedHeads& heads) const { return cache_bytes(key_type_, static_cast<size_t>(kPage) * heads.head_size); }
  size_t value_bytes(const CachedHeads& heads) const { return cache_bytes(value_type_, static_cast<size_t>(kPage) * value_stride(heads)); }

  std::vector<CachedHeads> layers_;
  CacheType key_type_, value_type_;
  std::vector<size_t> begins_;  // [layers], of each in a page
  size_t page_bytes_ = 0;
  int most_values_ = 0, most_dimensions_ = 0;
};

}  // namespace paceline
