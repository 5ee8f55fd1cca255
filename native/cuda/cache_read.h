// Reads the KV cache as float32, specialized by cache type, two adjacent values per thread. A quantized value is code * scale, exact in float32.
#pragma once

#include "../cpu/cache.h"
#include "arithmetic.h"

namespace paceline::cuda {

struct Two {
  float low, high;
};

// Two values of 16 bits each.
template <CacheType type>
PACELINE_DEVICE Two two_of(uint32_t w) {
  const uint16_t low = static_cast<uint16_t>(w), high = static_cast<uint16_t>(w >> 16);
  if constexpr (type == CacheType::F16) return {half_to_float(low), half_to_float(high)};
  else return {brain_to_float(low), brain_to_float(high)};
}
PACELINE_DEVICE Two codes_of(uint32_t w) { return {static_cast<float>(static_cast<int8_t>(w & 0xff)), static_cast<float>(static_cast<int8_t>(w >> 8 & 0xff))}; }
PACELINE_DEVICE Two nibbles_of(uint32_t w, int shift) {
  return {static_cast<float>(static_cast<int>(w >> shift & 15) - 8), static_cast<float>(static_cast<int>(w >> (8 + shift) & 15) - 8)};
}

// Values `at` and at + 1 (at even) of a run of floats of some type.
template <CacheType type>
PACELINE_DEVICE Two two_floats(const uint8_t* base, size_t at) {
  if constexpr (type == CacheType::F32) {
    const Word2 w = *reinterpret_cast<const Word2*>(base + 4 * at);
    return {bits_to_float(w.v[0]), bits_to_float(w.v[1])};
  } else {
    return two_of<type>(*reinterpret_cast<const uint32_t*>(base + 2 * at));
  }
}

PACELINE_DEVICE Two two_codes(const uint8_t* p) { return codes_of(*reinterpret_cast<const uint16_t*>(p)); }
PACELINE_DEVICE Two two_nibbles(const uint8_t* p, int shift) { return nibbles_of(*reinterpret_cast<const uint16_t*>(p), shift); }

// Dimension d of keys `key` and key + 1 of a page.
template <CacheType type>
PACELINE_DEVICE Two two_keys(const uint8_t* k, int head_size, int d, int key) {
  if constexpr (!is_quantized(type)) {
    return two_floats<type>(k, static_cast<size_t>(d) * kPage + key);
  } else {
    const Two scale = two_floats<CacheType::F16>(k + code_bytes(type, static_cast<size_t>(kPage) * head_size), static_cast<size_t>(d / kCacheBlock) * kPage + key);
    const Two code = type == CacheType::Q8_0 ? two_codes(k + d * kPage + key) : two_nibbles(k + d / 2 * kPage + key, d % 2 * 4);
    return {code.low * scale.low, code.high * scale.high};
  }
}

// Some dimensions of keys `key` and key + 1, in their stored type: loaded well before they are needed, and widened only then.
// dims: how many; at most 32 of a quantized type, whose scales are one for so many.
template <CacheType type, int dims>
struct KeysAhead {
  static constexpr int kDims = dims;
  static constexpr int kWords = type == CacheType::F32 ? 2 * kDims : type == CacheType::Q4_0 ? kDims / 2 : kDims;
  const uint8_t* k;  // of the page
  int head_size, key;
  uint32_t words[kWords], scales;

  // Loads dimension d into place i, replacing d - kDims.
  PACELINE_DEVICE void load(int d, int i) {
    if constexpr (type == CacheType::F32) {
      const Word2 two = *reinterpret_cast<const Word2*>(k + 4 * (d * kPage + key));
      words[2 * i] = two.v[0];
      words[2 * i + 1] = two.v[1];
    } else if constexpr (type == CacheType::Q8_0) {
      words[i] = *reinterpret_cast<const uint16_t*>(k + d * kPage + key);
    } else if constexpr (type == CacheType::Q4_0) {
      if (i % 2 == 1) words[i / 2] = *reinterpret_cast<const uint16_t*>(k + d / 2 * kPage + key);
    } else {
      words[i] = *reinterpret_cast<const uint32_t*>(k + 2 * (d * kPage + key));
    }
  }
  // Loads the scales of the 32 dimensions from d on.
  PACELINE_DEVICE void load_scales(int d) {
    if constexpr (is_quantized(type))
      scales = *reinterpret_cast<const uint32_t*>(k + code_bytes(type, static_cast<size_t>(kPage) * head_size) + 2 * (d / kCacheBlock * kPage + key));
  }
  PACELINE_DEVICE Two scale() const {
    if constexpr (is_quantized(type)) return two_of<CacheType::F16>(scales);
    else return {1.0f, 1.0f};
  }
  PACELINE_DEVICE Two at(int i, const Two& scale) const {
    if constexpr (type == CacheType::F32) return {bits_to_float(words[2 * i]), bits_to_float(words[2 * i + 1])};
    else if constexpr (!is_quantized(type)) return two_of<type>(words[i]);
    else {
      const Two code = type == CacheType::Q8_0 ? codes_of(words[i]) : nibbles_of(words[i / 2], i % 2 * 4);
      return {code.low * scale.low, code.high * scale.high};
    }
  }
};

// Dimensions d and d + 1 (d even) of a key of a page.
template <CacheType type>
PACELINE_DEVICE Two two_values(const uint8_t* v, int stride, int key, int d) {
  if constexpr (!is_quantized(type)) {
    return two_floats<type>(v, static_cast<size_t>(key) * stride + d);
  } else {
    const uint16_t* const scales = reinterpret_cast<const uint16_t*>(v + code_bytes(type, static_cast<size_t>(kPage) * stride));
    const float scale = half_to_float(scales[key * (stride / kCacheBlock) + d / kCacheBlock]);
    const uint8_t* const row = v + code_bytes(type, static_cast<size_t>(key) * stride);
    const int within = d % kCacheBlock;
    const Two code = type == CacheType::Q8_0 ? two_codes(row + d) : two_nibbles(row + d / kCacheBlock * 16 + within % 16, within / 16 * 4);
    return {code.low * scale, code.high * scale};
  }
}

// The same `width` dimensions of one key after the other, from dimension d on, a multiple of `width`. Loaded in their stored type, so that many can be on their way
// at once, and widened when they are needed.
template <CacheType type, int width>
struct StoredValues {
  static constexpr int kWords = is_quantized(type) ? 1 : type == CacheType::F32 ? width : width / 2;
  uint32_t words[kWords];
  uint16_t scale;  // of quantized ones
};
template <CacheType type, int width>
class ValueRows {
 public:
  using Stored = StoredValues<type, width>;
  PACELINE_DEVICE ValueRows(const uint8_t* v, int stride, int key, int d) {
    if constexpr (!kQuantized) {
      constexpr int kBytes = type == CacheType::F32 ? 4 : 2;
      next_ = v + (key * stride + d) * kBytes;
      step_ = stride * kBytes;
    } else {
      const int within = d % kCacheBlock;
      step_ = static_cast<int>(code_bytes(type, static_cast<size_t>(stride)));
      next_ = v + key * step_ + (type == CacheType::Q8_0 ? d : d / kCacheBlock * 16 + within % 16);
      shift_ = type == CacheType::Q4_0 ? within / 16 * 4 : 0;
      scale_step_ = stride / kCacheBlock;
      scales_ = reinterpret_cast<const uint16_t*>(v + code_bytes(type, static_cast<size_t>(kPage) * stride)) + key * scale_step_ + d / kCacheBlock;
    }
  }
  PACELINE_DEVICE void load_next(Stored& to) {
    if constexpr (Stored::kWords == 4) {
      const Word4 w = *reinterpret_cast<const Word4*>(next_);
      for (int i = 0; i < 4; ++i) to.words[i] = w.v[i];
    } else if constexpr (Stored::kWords == 2) {
      const Word2 w = *reinterpret_cast<const Word2*>(next_);
      for (int i = 0; i < 2; ++i) to.words[i] = w.v[i];
    } else if constexpr (kQuantized && width == 2) {
      to.words[0] = *reinterpret_cast<const uint16_t*>(next_);
    } else {
      to.words[0] = *reinterpret_cast<const uint32_t*>(next_);
    }
    next_ += step_;
    if constexpr (kQuantized) {
      to.scale = *scales_;
      scales_ += scale_step_;
    }
  }
  PACELINE_DEVICE void widen(const Stored& from, float (&x)[width]) const {
    PACELINE_UNROLL
    for (int i = 0; i < width; i += 2) {
      Two two;
      if constexpr (type == CacheType::F32) two = {bits_to_float(from.words[i]), bits_to_float(from.words[i + 1])};
      else if constexpr (!kQuantized) two = two_of<type>(from.words[i / 2]);
      else if constexpr (type == CacheType::Q8_0) two = codes_of(from.words[0] >> 8 * i);
      else two = nibbles_of(from.words[0] >> 8 * i, shift_);
      x[i] = kQuantized ? two.low * half_to_float(from.scale) : two.low;
      x[i + 1] = kQuantized ? two.high * half_to_float(from.scale) : two.high;
    }
  }

 private:
  static constexpr bool kQuantized = is_quantized(type);
  const uint8_t* next_;
  const uint16_t* scales_ = nullptr;
  int step_, scale_step_ = 0, shift_ = 0;
};

}  // namespace paceline::cuda
