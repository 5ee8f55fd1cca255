// The cache of keys and values: a pool of pages of 64 positions. A page holds, for every attention layer and kv head,
// K [head_size][64 keys] and V [64 keys][value_stride], so that neither product of attention needs a horizontal sum.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline {

constexpr int kPage = 64;        // positions to a page, keys to an attention block
constexpr int kSplit = 512;      // positions to a split

enum class CacheType { F16 };

// Keys and values of one layer and kv head, as an attention work item sees them. Offsets and strides in bytes.
struct CacheView {
  uint8_t* pool;            // page p begins at pool + p * page_stride
  size_t page_stride;
  size_t key_offset;        // of this layer and head within a page
  size_t value_offset;
  CacheType key_type, value_type;
  int head_size;
  int value_stride;         // values to a key: head_size rounded up to 16
  int window = 0;           // a query sees its last `window` positions, its own included; 0: all
  float softcap = 0.0f;     // scores become softcap * tanh(score / softcap); 0: as they are
};

// What lies where in a page.
struct CacheLayout {
  int layers, kv_heads, head_size;  // layers: those that have attention
  CacheType key_type = CacheType::F16, value_type = CacheType::F16;

  int value_stride() const { return (head_size + 15) / 16 * 16; }
  size_t key_bytes() const { return static_cast<size_t>(kPage) * head_size * 2; }         // of one layer and head
  size_t value_bytes() const { return static_cast<size_t>(kPage) * value_stride() * 2; }
  size_t page_bytes() const { return (key_bytes() + value_bytes()) * layers * kv_heads; }

  // layer: counted among those that have attention
  CacheView view(uint8_t* pool, int layer, int kv_head) const {
    const size_t begin = (static_cast<size_t>(layer) * kv_heads + kv_head) * (key_bytes() + value_bytes());
    return {pool, page_bytes(), begin, begin + key_bytes(), key_type, value_type, head_size, value_stride()};
  }
};

}  // namespace paceline
