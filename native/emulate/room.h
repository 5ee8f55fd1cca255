// Memory of the emulated device: each piece in pages of its own, between pages without access, and its end, rounded up to 256
// bytes, at the end of a page, so that an access past that crashes at once. Filled with 0xff: nothing is zero by luck.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace paceline::emulate {

class Room {
 public:
  static constexpr size_t kAlignment = 256;  // as cudaMalloc's

  explicit Room(size_t bytes) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), used = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    pages_ = (used + page - 1) / page * page;
    base_ = static_cast<uint8_t*>(mmap(nullptr, pages_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    guard_ = page;
    if (pages_ && mprotect(base_ + page, pages_, PROT_READ | PROT_WRITE) != 0) {
      munmap(base_, pages_ + 2 * page);
      throw std::bad_alloc();
    }
    data_ = base_ + page + pages_ - used;
    std::memset(data_, 0xff, used);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() { munmap(base_, pages_ + 2 * guard_); }

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, pages_ = 0, guard_ = 0;
  uint8_t *base_ = nullptr, *data_ = nullptr;
};

}  // namespace paceline::emulate
