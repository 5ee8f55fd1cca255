#include "ptx_kernels.h"

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "recording.h"

namespace paceline::ptx {
namespace {

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

// The arguments of a launch, copied: a graph keeps those of its capture.
class Arguments {
 public:
  Arguments(const Kernel& kernel, void* const* given) {
    for (int i = 0; i < kernel.parameters; ++i) {
      data_.push_back(std::make_shared<std::vector<uint64_t>>((kernel.parameter_bytes[i] + 7) / 8));  // aligned to 8
      std::memcpy(data_.back()->data(), given[i], kernel.parameter_bytes[i]);
      places_.push_back(reinterpret_cast<const uint8_t*>(data_.back()->data()));
    }
  }
  const uint8_t* const* places() const { return places_.data(); }

 private:
  std::vector<std::shared_ptr<std::vector<uint64_t>>> data_;
  std::vector<const uint8_t*> places_;
};

// For people: the last of the names that a mangled one is made of.
std::string short_name(const char* mangled) {
  std::string name = mangled;
  const char* p = std::strncmp(mangled, "_ZN", 3) == 0 ? mangled + 3 : mangled;
  while (*p >= '0' && *p <= '9') {
    size_t length = 0;
    while (*p >= '0' && *p <= '9') length = 10 * length + static_cast<size_t>(*p++ - '0');
    name.assign(p, length);
    p += length;
  }
  return name;
}

}  // namespace

bool know(const Kernel& kernel) { return kernels().emplace(kernel.name, kernel).second; }

const Kernel* find_kernel(const std::string& name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : &found->second;
}

void run_kernel(const Kernel& kernel, emulate::Size grid, unsigned threads, size_t shared_bytes, bool early, void* const* arguments) {
  emulate::run_or_record([&kernel, grid, threads, shared_bytes, early, given = Arguments(kernel, arguments)] {
    emulate::run_grid(short_name(kernel.name).c_str(), grid, threads, shared_bytes, [&] {
      if (!early) emulate::note_wait();
      kernel.run(given.places());
    });
  });
}

}  // namespace paceline::ptx
