// Launches recorded instead of run, as by stream capture: arguments are those at capture time, whatever has become of the memory
// that they point to since.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace paceline::emulate {

class Recording {
 public:
  void add(std::function<void()> launch) { launches_.push_back(std::move(launch)); }
  void launch() const {
    for (const auto& each : launches_) each();
  }
  size_t launches() const { return launches_.size(); }

 private:
  std::vector<std::function<void()>> launches_;
};

inline std::shared_ptr<Recording>& capturing() {  // null: launches run at once
  static std::shared_ptr<Recording> now;
  return now;
}

inline void begin_capture() {
  if (capturing()) throw std::logic_error("a capture has begun before");
  capturing() = std::make_shared<Recording>();
}

inline std::shared_ptr<Recording> end_capture() {
  if (!capturing()) throw std::logic_error("no capture has begun");
  return std::exchange(capturing(), nullptr);
}

inline void run_or_record(std::function<void()> launch) {
  if (capturing()) capturing()->add(std::move(launch));
  else launch();
}

}  // namespace paceline::emulate
