// Writes one token's key or value of one head into its KV cache page, in the cache's type (layouts: native/cpu/cache.h), by one warp.
// The codes are those of native/cpu/cache_write.cpp, to the bit.
#pragma once

#include "../cpu/cache.h"
#include "arithmetic.h"

namespace paceline::cuda {

// Quantizes x [32] into codes; returns the scale as a half. By one lane.
PACELINE_DEVICE uint16_t quantize_cache_block(CacheType type, const float* x, uint8_t* codes) {
  float extreme = 0.0f;
  for (int i = 0; i < kCacheBlock; ++i)
    if (magnitude(x[i]) > magnitude(extreme)) extreme = x[i];
  const uint16_t scale = float_to_half(type == CacheType::Q8_0 ? magnitude(extreme) / 127.0f : extreme / -8.0f);
  const float d = half_to_float(scale);
  for (int i = 0; i < kCacheBlock; ++i) {
    const float ratio = d != 0.0f ? x[i] / d : 0.0f;
    if (type == CacheType::Q8_0) {
      const float bounded = ratio < 127.0f ? (ratio > -127.0f ? ratio : -127.0f) : 127.0f;
      codes[i] = static_cast<uint8_t>(static_cast<int8_t>(nearest(bounded)));
    } else {
      const float raised = ratio + 8.5f;
      codes[i] = static_cast<uint8_t>(raised < 15.0f ? (raised > 0.0f ? raised : 0.0f) : 15.0f);
    }
  }
  return scale;
}

PACELINE_DEVICE void store_float(CacheType type, uint8_t* base, size_t at, float x) {
  if (type == CacheType::F32) reinterpret_cast<float*>(base)[at] = x;
  else reinterpret_cast<uint16_t*>(base)[at] = type == CacheType::F16 ? float_to_half(x) : float_to_brain(x);
}

PACELINE_DEVICE void write_key(CacheType type, uint8_t* k, int head_size, int key, const float* x) {
  const int lane = static_cast<int>(lane_index());
  if (!is_quantized(type)) {
    for (int d = lane; d < head_size; d += kWarp) store_float(type, k, static_cast<size_t>(d) * kPage + key, x[d]);
    return;
  }
  uint16_t* const scales = reinterpret_cast<uint16_t*>(k + code_bytes(type, static_cast<size_t>(kPage) * head_size));
  for (int block = lane; block < head_size / kCacheBlock; block += kWarp) {
    uint8_t codes[kCacheBlock];
    const int d = block * kCacheBlock;
    scales[block * kPage + key] = quantize_cache_block(type, x + d, codes);
    for (int i = 0; i < kCacheBlock; ++i) {
      if (type == CacheType::Q8_0) k[(d + i) * kPage + key] = codes[i];
      else if (i % 2 == 0) k[(d + i) / 2 * kPage + key] = static_cast<uint8_t>(codes[i] | codes[i + 1] << 4);
    }
  }
}

PACELINE_DEVICE void write_value(CacheType type, uint8_t* v, int stride, int head_size, int key, const float* x) {
  const int lane = static_cast<int>(lane_index());
  if (!is_quantized(type)) {
    for (int d = lane; d < stride; d += kWarp) store_float(type, v, static_cast<size_t>(key) * stride + d, d < head_size ? x[d] : 0.0f);
    return;
  }
  uint8_t* const row = v + code_bytes(type, static_cast<size_t>(key) * stride);
  uint16_t* const scales = reinterpret_cast<uint16_t*>(v + code_bytes(type, static_cast<size_t>(kPage) * stride)) + key * (stride / kCacheBlock);
  for (int block = lane; block < head_size / kCacheBlock; block += kWarp) {
    uint8_t codes[kCacheBlock];
    const int d = block * kCacheBlock;
    scales[block] = quantize_cache_block(type, x + d, codes);
    for (int i = 0; i < kCacheBlock; ++i) {
      if (type == CacheType::Q8_0) row[d + i] = codes[i];
      else if (i < 16) row[d / 2 + i] = static_cast<uint8_t>(codes[i] | codes[i + 16] << 4);
    }
  }
}

}  // namespace paceline::cuda
