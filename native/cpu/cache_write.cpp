// A token's keys and values into its page, in the type of the cache (cache.h has the layouts).
#include "operations.h"
#include "simd.h"

namespace paceline::PACELINE_ISA {
namespace {

// x [32] as codes; the scale as a half. d is the scale that reading will use, rounded already.
//   q8_0: d = max |x| / 127, code = x / d to the nearest, ties to even
//   q4_0: d = x of the largest magnitude / -8, code = floor(x / d + 8.5), 0 to 15, for the value d * (code - 8)
uint16_t quantize_block(CacheType type, const float* x, uint8_t* codes) {
  float extreme = 0.0f;
  for (int i = 0; i < kCacheBlock; ++i)
    if (__builtin_fabsf(x[i]) > __builtin_fabsf(extreme)) extreme = x[i];
  const uint16_t scale = float_to_half(type == CacheType::Q8_0 ? __builtin_fabsf(extreme) / 127.0f : extreme / -8.0f);
  const float d = half_to_float(scale);
  for (int i = 0; i < kCacheBlock; ++i) {
    const float ratio = d != 0.0f ? x[i] / d : 0.0f;
    if (type == CacheType::Q8_0) {
      const float bounded = ratio < 127.0f ? (ratio > -127.0f ? ratio : -127.0f) : 127.0f;
      const float shifted = bounded + 12582912.0f;  // 1.5 * 2^23: the sum has no place for fractions
      codes[i] = static_cast<uint8_t>(static_cast<int8_t>(shifted - 12582912.0f));
    } else {
      const float raised = ratio + 8.5f;
      codes[i] = static_cast<uint8_t>(raised < 15.0f ? (raised > 0.0f ? raised : 0.0f) : 15.0f);
    }
  }
  return scale;
}

// 16 values from x, zeros from `count` on, as they lie in a cache of a float type.
void narrow(CacheType type, const float* x, int count, uint8_t* out) {
  float values[kLanes];
  const Lanes lanes = keep(load(x), count, zero());
  store(values, lanes);
  if (type == CacheType::F16) {
    store_half(reinterpret_cast<uint16_t*>(out), lanes);
  } else if (type == CacheType::F32) {
    std::memcpy(out, values, sizeof values);
  } else {
    uint16_t halves[kLanes];
    for (int i = 0; i < kLanes; ++i) halves[i] = float_to_brain(values[i]);
    std::memcpy(out, halves, sizeof halves);
  }
}

void write_key(CacheType type, uint8_t* k, int head_size, int key, const float* x) {
  if (is_quantized(type)) {
    uint16_t* scales = reinterpret_cast<uint16_t*>(k + code_bytes(type, static_cast<size_t>(kPage) * head_size));
    for (int d = 0; d < head_size; d += kCacheBlock) {
      uint8_t codes[kCacheBlock];
      scales[d / kCacheBlock * kPage + key] = quantize_block(type, x + d, codes);
      if (type == CacheType::Q8_0)
        for (int i = 0; i < kCacheBlock; ++i) k[(d + i) * kPage + key] = codes[i];
      else
        for (int i = 0; i < kCacheBlock; i += 2) k[(d + i) / 2 * kPage + key] = static_cast<uint8_t>(codes[i] | codes[i + 1] << 4);
    }
    return;
  }
  const size_t size = code_bytes(type, 1);
  for (int d = 0; d < head_size; d += kLanes) {
    alignas(64) uint8_t values[kLanes * sizeof(float)];
    narrow(type, x + d, head_size - d, values);
    for (int i = 0; i < kLanes && d + i < head_size; ++i) {
      uint8_t* place = k + (static_cast<size_t>(d + i) * kPage + key) * size;
      if (size == 2) std::memcpy(place, values + 2 * i, 2);
      else std::memcpy(place, values + 4 * i, 4);
    }
  }
}

void write_value(CacheType type, uint8_t* v, int stride, int size, int key, const float* x) {
  uint8_t* row = v + code_bytes(type, static_cast<size_t>(key) * stride);
  if (is_quantized(type)) {
    uint16_t* scales = reinterpret_cast<uint16_t*>(v + code_bytes(type, static_cast<size_t>(kPage) * stride)) + key * (stride / kCacheBlock);
    for (int d = 0; d < size; d += kCacheBlock) {
      uint8_t codes[kCacheBlock];
      scales[d / kCacheBlock] = quantize_block(type, x + d, codes);
      if (type == CacheType::Q8_0) std::memcpy(row + d, codes, sizeof codes);
      else
        for (int i = 0; i < kLanes; ++i) row[d / 2 + i] = static_cast<uint8_t>(codes[i] | codes[i + kLanes] << 4);
    }
    return;
  }
  for (int d = 0; d < size; d += kLanes) narrow(type, x + d, size - d, row + code_bytes(type, d));
}

}  // namespace

void write_cache(const CacheView& cache, int page, int position, const float* k, const float* v) {
  uint8_t* base = cache.pool + static_cast<size_t>(page) * cache.page_stride;
  write_key(cache.key_type, base + cache.key_offset, cache.head_size, position % kPage, k);
  write_value(cache.value_type, base + cache.value_offset, cache.value_stride, cache.value_size, position % kPage, v);
}

}  // namespace paceline::PACELINE_ISA
