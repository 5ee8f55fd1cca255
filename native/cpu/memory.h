// Memory in 2 MiB pages where the system has them: weights are read front to back every step, and page walks would show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// Anonymous zeroed memory, resident only where touched. Throws std::bad_alloc.
class Mapping {
 public:
  Mapping() = default;
  explicit Mapping(size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// Hands out 64-byte aligned pieces that live as long as it does.
class Arena {
 public:
  void* allocate(size_t bytes);
  size_t bytes() const { return total_; }  // handed out

 private:
  std::vector<Mapping> chunks_;
  size_t used_ = 0;  // of the last chunk
  size_t total_ = 0;
};

// Takes a part of a file that is mapped for reading out of this process's memory; touched again, it is there again.
void forget(const void* data, size_t bytes);

// A growing buffer of T whose contents need not outlive a growth; 64-byte aligned, zero when grown.
template <class T>
class Buffer {
 public:
  T* reserve(size_t count) {
    if (count * sizeof(T) > mapping_.bytes()) mapping_ = Mapping(count * sizeof(T) + count * sizeof(T) / 4);
    return data();
  }
  T* data() const { return static_cast<T*>(mapping_.data()); }

 private:
  Mapping mapping_;
};

}  // namespace paceline
