#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <utility>

namespace paceline {
namespace {
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunk = 16 * kHugePage;
size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
}  // namespace

Mapping::Mapping(size_t bytes) {
  if (bytes == 0) return;
  // One huge page more than asked for, so that a 2 MiB boundary lies inside; the ends are given back.
  const size_t size = rounded(bytes, kHugePage);
  char* whole = static_cast<char*>(mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (whole == MAP_FAILED) throw std::bad_alloc();
  const size_t before = rounded(reinterpret_cast<uintptr_t>(whole), kHugePage) - reinterpret_cast<uintptr_t>(whole);
  if (before) munmap(whole, before);
  if (kHugePage - before) munmap(whole + before + size, kHugePage - before);
  data_ = whole + before;
  bytes_ = size;
  madvise(data_, bytes_, MADV_HUGEPAGE);  // advice: without it everything works, slower
}

Mapping::Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_) munmap(data_, bytes_);
}

void* Arena::allocate(size_t bytes) {
  bytes = rounded(bytes, 64);
  if (chunks_.empty() || used_ + bytes > chunks_.back().bytes()) {
    chunks_.emplace_back(bytes > kChunk ? bytes : kChunk);
    used_ = 0;
  }
  void* piece = static_cast<char*>(chunks_.back().data()) + used_;
  used_ += bytes;
  total_ += bytes;
  return piece;
}

void forget(const void* data, size_t bytes) {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = at / page * page;
  madvise(reinterpret_cast<void*>(begin), at + bytes - begin, MADV_DONTNEED);
}

}  // namespace paceline
