#include "grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "fiber.h"
#include "traffic.h"
#include "watch.h"

namespace paceline::emulate {
namespace {

constexpr int kLanes = 32;
constexpr size_t kStack = 128 << 10;
constexpr unsigned kMostThreads = 1024;
constexpr size_t kGuard = 256;  // bytes behind shared memory, to see writes past its end
constexpr unsigned char kPoison = 0xff;

Order lane_order = Order::Forward;
uint64_t order_seed = 0;
int planned_multiprocessors = 1;
std::atomic<uint64_t> loaded_weights{0};
std::atomic<uint32_t> launches{0};

struct Copy {
  void* target;
  const void* source;
  size_t bytes;
  int group;
  const Site* site;
};

enum class State { Ready, AtWarp, AtBlock, Done };

struct Thread {
  void* stack = nullptr;
  State state = State::Ready;
  size_t shared_taken = 0;
  bool waited = false;  // for the kernels before
  uint32_t meetings = 0;
  int groups = 0;       // of copies, committed so far
  std::vector<Copy> copies;
};

struct Warp {
  const char* operation = nullptr;
  const Site* site = nullptr;     // of the operation
  const Site* barrier = nullptr;  // at which its lanes wait, if any do
  int arrived = 0, waiting = 0;
  const void* ins[kLanes];
  void* outs[kLanes];
};

// What one host thread needs to run thread blocks: stacks and the state of a block.
class Worker {
 public:
  Worker() : stacks_(static_cast<char*>(mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (stacks_ == MAP_FAILED) throw std::bad_alloc();
  }
  Worker(const Worker&) = delete;
  ~Worker() { munmap(stacks_, kStack * kMostThreads); }

  void run_block(const char* kernel, Size block, unsigned count, size_t shared_bytes, const std::function<void()>& body);

  const char* kernel = nullptr;
  const std::function<void()>* body = nullptr;
  Place place{};
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<unsigned char> shared;
  size_t shared_bytes = 0;
  unsigned at_barrier = 0, done = 0;
  uint32_t launch = 0, block_number = 0, barriers = 0;
  std::string problem;
  void* scheduler = nullptr;

  void leave(State state) {
    Thread& me = threads[place.thread];
    me.state = state;
    paceline_switch_stack(&me.stack, scheduler);
  }
  bool on_a_stack(const void* p) const { return p >= stacks_ && p < stacks_ + kStack * kMostThreads; }
  unsigned char* shared_begin() { return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(shared.data()) + 127) & ~uintptr_t{127}); }

 private:
  void deadlock();

  char* stacks_;
};

[[gnu::tls_model("initial-exec")]] thread_local Worker* worker = nullptr;

// Not inlined, so that the compiler cannot keep the address of a thread_local across a switch of stacks, although fibers stay on their host thread.
[[gnu::noinline]] Worker& mine() { return *worker; }

void enter() {
  try {
    (*mine().body)();
    if (!mine().threads[mine().place.thread].waited) fault("a thread that ends without wait_for_earlier()");
  } catch (const Fault& problem) {
    if (mine().problem.empty()) mine().problem = problem.what();
  } catch (const std::exception& problem) {
    if (mine().problem.empty()) mine().problem = problem.what();
  }
  ++mine().done;
  mine().leave(State::Done);
}

void Worker::deadlock() {
  const char* operation = nullptr;
  int lanes = 0;
  for (const Warp& warp : warps)
    if (warp.arrived) operation = warp.operation, lanes = warp.arrived;
  if (operation) problem = std::string(operation) + ": only " + std::to_string(lanes) + " lanes of a warp meet in it";
  else problem = "a barrier that only " + std::to_string(at_barrier) + " of " + std::to_string(place.threads) + " threads reach";
}

void Worker::run_block(const char* name, Size block, unsigned count, size_t bytes, const std::function<void()>& work) {
  kernel = name;
  body = &work;
  place = {0, count, block};
  threads.resize(std::max<size_t>(threads.size(), count));
  warps.assign((count + kLanes - 1) / kLanes, Warp());
  shared_bytes = bytes;
  shared.assign(bytes + kGuard + 128, kPoison);
  at_barrier = done = 0;
  barriers = 0;
  problem.clear();
  for (unsigned t = 0; t < count; ++t) {
    Thread& thread = threads[t];
    thread.stack = new_stack(stacks_ + kStack * t, kStack, enter);
    thread.state = State::Ready;
    thread.shared_taken = 0;
    thread.waited = false;
    thread.meetings = 0;
    thread.groups = 0;
    thread.copies.clear();
  }
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (lane_order == Order::Reversed) std::reverse(order.begin(), order.end());
  std::mt19937_64 random(order_seed + 1000003 * (block.x + 4099 * block.y));
  while (done < count && problem.empty()) {
    if (lane_order == Order::Shuffled) std::shuffle(order.begin(), order.end(), random);
    bool moved = false;
    for (unsigned t : order) {
      if (threads[t].state != State::Ready) continue;
      moved = true;
      place.thread = t;
      paceline_switch_stack(&scheduler, threads[t].stack);
      if (!problem.empty()) break;
    }
    if (problem.empty() && at_barrier == count) {
      at_barrier = 0;
      ++barriers;
      for (Warp& warp : warps) warp.waiting = 0;
      for (unsigned t = 0; t < count; ++t) threads[t].state = State::Ready;
    } else if (!moved && problem.empty() && done < count) {
      deadlock();
    }
  }
  end_accesses_of_block(kernel);
  const unsigned char* guard = shared_begin() + shared_bytes;
  if (problem.empty() && std::any_of(guard, guard + kGuard - 128, [](unsigned char c) { return c != kPoison; })) problem = "a write past the end of shared memory";
  if (!problem.empty()) {
    // The other fibers are abandoned; all they hold is on their stacks.
    throw Fault("kernel " + std::string(name) + ", block (" + std::to_string(block.x) + ", " + std::to_string(block.y) + ", " + std::to_string(block.z) + "), thread " +
                std::to_string(place.thread) + ": " + problem);
  }
}

void* take(Worker& w, size_t bytes, size_t alignment) {
  Thread& me = w.threads[w.place.thread];
  const size_t begin = (me.shared_taken + alignment - 1) / alignment * alignment;
  me.shared_taken = begin + bytes;
  if (me.shared_taken > w.shared_bytes) fault(std::to_string(me.shared_taken) + " bytes of shared memory taken, the launch asked for " + std::to_string(w.shared_bytes));
  return w.shared_begin() + begin;
}

// Workers are kept, for their stacks.
std::mutex rooms_lock;
std::vector<std::unique_ptr<Worker>> rooms;

std::unique_ptr<Worker> borrow() {
  const std::lock_guard<std::mutex> hold(rooms_lock);
  if (rooms.empty()) return std::make_unique<Worker>();
  std::unique_ptr<Worker> room = std::move(rooms.back());
  rooms.pop_back();
  return room;
}

void give_back(std::unique_ptr<Worker> room) {
  const std::lock_guard<std::mutex> hold(rooms_lock);
  rooms.push_back(std::move(room));
}

}  // namespace

void set_order(Order order, uint64_t seed) {
  lane_order = order;
  order_seed = seed;
}

void set_multiprocessors(int count) { planned_multiprocessors = count; }
int multiprocessors() { return planned_multiprocessors; }

void count_weights(size_t bytes) { loaded_weights.fetch_add(bytes, std::memory_order_relaxed); }
uint64_t counted_weights() { return loaded_weights.exchange(0); }

const Place& place() { return mine().place; }

void fault(const std::string& what) { throw Fault(what); }

void* take_shared(size_t bytes, size_t alignment) { return take(mine(), bytes, alignment); }

SharedRoom shared_room() { return {mine().shared_begin(), mine().shared_bytes}; }

Moment now(const void* p) {
  Worker& w = mine();
  const Thread& me = w.threads[w.place.thread];
  const unsigned char *at = static_cast<const unsigned char*>(p), *shared = w.shared_begin();
  const Memory where = at >= shared && at < shared + w.shared_bytes ? Memory::Shared : w.on_a_stack(p) ? Memory::Own : Memory::Global;
  return {w.launch, w.block_number, w.place.thread, w.barriers, w.barriers + me.meetings, me.waited, where};
}
void note_meeting() { ++mine().threads[mine().place.thread].meetings; }

void note_wait() { mine().threads[mine().place.thread].waited = true; }

void meet_block(const Site* site) {
  Worker& w = mine();
  Warp& warp = w.warps[w.place.thread / kLanes];
  if (warp.waiting++ && warp.barrier != site) fault("lanes of a warp meet in two barriers");
  warp.barrier = site;
  ++w.at_barrier;
  w.leave(State::AtBlock);
}

void meet_warp(const char* operation, const void* in, void* out, WarpWork work, const Site* site) {
  Worker& w = mine();
  const unsigned lane = w.place.thread % kLanes, first = w.place.thread - lane;
  Warp& warp = w.warps[w.place.thread / kLanes];
  if (warp.arrived && warp.operation != operation && std::strcmp(warp.operation, operation) != 0) fault(std::string("lanes of a warp meet in ") + warp.operation + " and in " + operation);
  if (warp.arrived && warp.site != site) fault(std::string("lanes of a warp meet in two places in ") + operation);
  warp.operation = operation;
  warp.site = site;
  warp.ins[lane] = in;
  warp.outs[lane] = out;
  if (++warp.arrived < kLanes) return w.leave(State::AtWarp);
  warp.arrived = 0;
  work(warp.ins, warp.outs);
  for (unsigned l = 0; l < kLanes; ++l)
    if (l != lane) w.threads[first + l].state = State::Ready;
}

void copy_later(void* target, const void* source, size_t bytes, const Site* site) {
  check_aligned(static_cast<const char*>(target), bytes);
  check_aligned(static_cast<const char*>(source), bytes);
  Worker& w = mine();
  Thread& me = w.threads[w.place.thread];
  std::memset(target, kPoison, bytes);
  me.copies.push_back({target, source, bytes, me.groups, site});
}

void commit_copies() {
  Worker& w = mine();
  ++w.threads[w.place.thread].groups;
}

void wait_copies(int newest_left) {
  Worker& w = mine();
  Thread& me = w.threads[w.place.thread];
  const auto waits = [&](const Copy& copy) { return copy.group < me.groups - newest_left; };
  for (const Copy& copy : me.copies) {
    if (!waits(copy)) continue;
    if (watching() && copy.site) {
      watch_access(*copy.site, copy.source, copy.bytes, Use::Load);
      watch_access(*copy.site, copy.target, copy.bytes, Use::Store);
    }
    std::memcpy(copy.target, copy.source, copy.bytes);
  }
  std::erase_if(me.copies, waits);
}

void run_grid(const char* kernel, Size grid, unsigned threads, size_t shared_bytes, const std::function<void()>& body) {
  if (threads == 0 || threads > kMostThreads || threads % kLanes) throw Fault(std::string("kernel ") + kernel + ": " + std::to_string(threads) + " threads to a block, expected whole warps, at most 1024");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) throw Fault(std::string("kernel ") + kernel + ": a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z));
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::mutex lock;
  std::string problem;
  const uint32_t launch = ++launches;
  const auto work = [&] {
    std::unique_ptr<Worker> room = borrow();
    worker = room.get();
    room->launch = launch;
    try {
      for (uint64_t b = next++; b < blocks && !stop; b = next++) {
        const uint64_t own = lane_order == Order::Reversed ? blocks - 1 - b : b;
        const Size block = {static_cast<unsigned>(own % grid.x), static_cast<unsigned>(own / grid.x % grid.y), static_cast<unsigned>(own / grid.x / grid.y)};
        room->block_number = static_cast<uint32_t>(own);
        room->run_block(kernel, block, threads, shared_bytes, body);
      }
    } catch (const Fault& fault) {
      const std::lock_guard<std::mutex> hold(lock);
      if (problem.empty()) problem = fault.what();
      stop = true;
    }
    worker = nullptr;
    give_back(std::move(room));
  };
  const int processors = watching() ? 1 : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int helpers = static_cast<int>(std::min<uint64_t>(processors, blocks / 4 + 1)) - 1;
  std::vector<std::thread> others;
  for (int i = 0; i < helpers; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  if (!problem.empty()) throw Fault(problem);
}

}  // namespace paceline::emulate
