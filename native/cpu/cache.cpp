// The names of the cache types, and which head sizes they take.
#include "cache.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace paceline {
namespace {

constexpr std::pair<const char*, CacheType> kTypes[] = {
    {"f32", CacheType::F32}, {"f16", CacheType::F16}, {"bf16", CacheType::BF16}, {"q8_0", CacheType::Q8_0}, {"q4_0", CacheType::Q4_0}};

}  // namespace

CacheType cache_type_named(const std::string& name) {
  for (const auto& [word, type] : kTypes)
    if (name == word) return type;
  throw std::invalid_argument("cache type '" + name + "': expected f32, f16, bf16, q8_0 or q4_0");
}

CacheLayout::CacheLayout(std::vector<CachedHeads> layers, CacheType key_type, CacheType value_type)
    : layers_(std::move(layers)), key_type_(key_type), value_type_(value_type) {
  const auto check = [](CacheType used, int head_size) {
    for (const auto& [word, type] : kTypes)
      if (is_quantized(type) && type == used && head_size % kCacheBlock)
        throw std::invalid_argument(std::string("a cache of type ") + word + " needs a head size that is a multiple of " + std::to_string(kCacheBlock) +
                                    ", and this model's is " + std::to_string(head_size));
  };
  for (const CachedHeads& heads : layers_) {
    check(key_type, heads.head_size);
    check(value_type, heads.value_size);
    begins_.push_back(page_bytes_);
    page_bytes_ += (key_bytes(heads) + value_bytes(heads)) * heads.kv_heads;
    most_values_ = std::max(most_values_, value_stride(heads));
    most_dimensions_ = std::max(most_dimensions_, heads.head_size);
  }
}

}  // namespace paceline
