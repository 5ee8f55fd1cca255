// How the processor rounds, of which every thread has its own setting.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace paceline {

// While it lives: to nearest, denormals kept, no traps, whatever the host program has set for this thread.
class StandardFloats {
 public:
  StandardFloats() : before_(read()) { write(kStandard); }
  ~StandardFloats() { write(before_); }
  StandardFloats(const StandardFloats&) = delete;
  StandardFloats& operator=(const StandardFloats&) = delete;

 private:
#if defined(__x86_64__)
  using Control = unsigned;
  static constexpr Control kStandard = 0x1f80;
  static Control read() { return _mm_getcsr(); }
  static void write(Control control) { _mm_setcsr(control); }
#elif defined(__aarch64__)
  using Control = uint64_t;
  static constexpr Control kStandard = 0;
  static Control read() {
    Control control;
    asm volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void write(Control control) { asm volatile("msr fpcr, %0" ::"r"(control) : "memory"); }
#else
  using Control = int;
  static constexpr Control kStandard = 0;
  static Control read() { return 0; }
  static void write(Control) {}
#endif

  const Control before_;
};

}  // namespace paceline
