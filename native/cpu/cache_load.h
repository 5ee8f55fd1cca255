// The cache read as float32, one type of it at a time: whatever the type, attention is the same arithmetic on these values.
// A quantized value is code * scale, exact in float32 (at most 8 by 11 bits).
#pragma once

#include "cache.h"
#include "fetch.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {

// Whoever reads some bytes of a page fetches bytes as far from `ahead` as those are from its beginning: the same bytes of the next page, which lies elsewhere
// in memory, where the hardware prefetcher cannot predict it; or those of this page that are read a little later.
constexpr int kRowsAhead = 8;  // how much later that is: dimensions of keys, or keys whose values are read

// The scales behind the codes of a page's keys or values.
template <CacheType type>
inline void fetch_scales(const uint8_t* page, size_t values) {
  fetch_far(page + code_bytes(type, values), cache_bytes(type, values) - code_bytes(type, values));
}

template <CacheType type>
inline Lanes load_float(const uint8_t* p) {
  if constexpr (type == CacheType::F32) return load(reinterpret_cast<const float*>(p));
  if constexpr (type == CacheType::F16) return load_half(reinterpret_cast<const uint16_t*>(p));
  if constexpr (type == CacheType::BF16) return load_brain(reinterpret_cast<const uint16_t*>(p));
}

// Dimensions first .. first+31 of `wide` * 16 keys, from key `key`: k [head_size][64].
template <CacheType type, int wide>
class KeyBlock {
 public:
  KeyBlock(const uint8_t* k, const uint8_t* ahead, int head_size, int first, int key) : k_(k), ahead_(ahead), key_(key) {
    if constexpr (is_quantized(type)) {
      const size_t scales = code_bytes(type, static_cast<size_t>(kPage) * head_size) + (first / kCacheBlock * kPage + key) * sizeof(uint16_t);
      for (int j = 0; j < wide; ++j) scales_[j] = load_half(reinterpret_cast<const uint16_t*>(k + scales) + kLanes * j);
    }
  }

  void fetch_dimension(int d) const { fetch_far(ahead_ + offset(d, 0), code_bytes(type, wide * kLanes)); }

  Lanes load(int d, int j) const {
    const uint8_t* p = k_ + offset(d, j);
    if constexpr (type == CacheType::Q8_0) return load_codes(reinterpret_cast<const int8_t*>(p)) * scales_[j];
    else if constexpr (type == CacheType::Q4_0) return load_nibbles(p, d % 2 * 4) * scales_[j];
    else return load_float<type>(p);
  }

 private:
  size_t offset(int d, int j) const {
    const int key = key_ + kLanes * j;
    if constexpr (type == CacheType::Q4_0) return static_cast<size_t>(d / 2) * kPage + key;
    else return code_bytes(type, static_cast<size_t>(d) * kPage + key);
  }

  const uint8_t *k_, *ahead_;
  int key_;
  Lanes scales_[wide];
};

// `wide` * 16 dimensions of each key, from dimension `d`: v [64][stride].
template <CacheType type, int wide>
class ValueColumns {
 public:
  ValueColumns(const uint8_t* v, const uint8_t* ahead, int stride, int d) : v_(v), ahead_(ahead), stride_(stride), d_(d) {
    if constexpr (is_quantized(type)) scales_ = reinterpret_cast<const uint16_t*>(v + code_bytes(type, static_cast<size_t>(kPage) * stride)) + d / kCacheBlock;
  }

  void fetch_key(int key) const { fetch_far(ahead_ + offset(key), code_bytes(type, wide * kLanes)); }

  Lanes load(int key, int j) const {
    const uint8_t* p = v_ + offset(key);
    if constexpr (is_quantized(type)) {
      const int half = d_ / kLanes % 2 + j;  // of blocks
      const Lanes scale = broadcast_half(scales_ + key * (stride_ / kCacheBlock) + half / 2);
      if constexpr (type == CacheType::Q8_0) return load_codes(reinterpret_cast<const int8_t*>(p) + kLanes * half) * scale;
      else return load_nibbles(p + half / 2 * kLanes, half % 2 * 4) * scale;
    } else {
      return load_float<type>(p + code_bytes(type, kLanes) * j);
    }
  }

 private:
  // Of the first dimension, or of its block.
  size_t offset(int key) const { return code_bytes(type, static_cast<size_t>(key) * stride_ + (is_quantized(type) ? d_ / kCacheBlock * kCacheBlock : d_)); }

  const uint8_t *v_, *ahead_;
  int stride_, d_;
  const uint16_t* scales_ = nullptr;
};

}  // namespace paceline::PACELINE_ISA
