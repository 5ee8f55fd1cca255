#include "watch.h"

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "grid.h"

namespace paceline::emulate {
namespace {

struct Event {
  uint32_t launch = 0, block = 0;  // launches count from 1
  uint32_t thread = 0, barriers = 0, meetings = 0;
  const Site* site = nullptr;
  bool read_only = false;

  unsigned warp() const { return thread / 32; }
};

struct Byte {
  Event write, read, same_warp, other_warp, other_block;
  bool rewritten = false;  // by the host, after a kernel's access: what L1 has may be older
};

constexpr size_t kStretch = 256;
using Stretch = std::array<Byte, kStretch>;
std::unordered_map<uintptr_t, std::unique_ptr<Stretch>> stretches;

Byte& byte_at(uintptr_t address) {
  static uintptr_t known = ~uintptr_t{0};
  static Stretch* stretch = nullptr;
  if (stretches.empty() || address / kStretch != known) {
    std::unique_ptr<Stretch>& place = stretches[address / kStretch];
    if (!place) place = std::make_unique<Stretch>();
    known = address / kStretch;
    stretch = place.get();
  }
  return (*stretch)[address % kStretch];
}

bool in_order(const Event& a, const Event& b) {
  if (a.launch != b.launch) return true;
  if (a.block != b.block) return false;
  if (a.thread == b.thread || a.barriers != b.barriers) return true;
  return a.warp() == b.warp() && a.meetings != b.meetings;
}

void check(const Event& before, const Event& now, const char* verb, const char* participle) {
  if (in_order(before, now)) return;
  const bool block = before.block == now.block, warp = block && before.warp() == now.warp();
  fault(text_of(*now.site) + ": a race: it " + verb + " what thread " + std::to_string(before.thread) + (block ? "" : " of block number " + std::to_string(before.block)) + " " + participle +
        " at " + text_of(*before.site) + ", and " + (warp ? "no sync_warp() is" : block ? "no barrier is" : "nothing orders blocks") + (block ? " in between" : ""));
}

void keep_read(Byte& byte, const Event& now) {
  if (byte.read.launch == now.launch && byte.read.block != now.block) byte.other_block = byte.read;
  else if (byte.read.warp() != now.warp()) byte.other_warp = byte.read;
  else if (byte.read.thread != now.thread) byte.same_warp = byte.read;
  byte.read = now;
}

template <class Use>
void each_known_byte(const void* p, size_t bytes, Use use) {
  if (!detail::watching) return;
  const auto first = reinterpret_cast<uintptr_t>(p);
  for (uintptr_t at = first / kStretch * kStretch; at < first + bytes; at += kStretch) {
    const auto found = stretches.find(at / kStretch);
    if (found == stretches.end()) continue;
    for (size_t i = 0; i < kStretch; ++i)
      if (at + i >= first && at + i < first + bytes) use((*found->second)[i]);
  }
}

}  // namespace

void watch(bool on) {
  stretches.clear();
  detail::watching = on;
}

void forget_accesses(const void* p, size_t bytes) {
  each_known_byte(p, bytes, [](Byte& byte) { byte = Byte(); });
}

void note_host_write(const void* p, size_t bytes) {
  each_known_byte(p, bytes, [](Byte& byte) {
    const bool rewritten = byte.rewritten || byte.read.launch || byte.write.launch;
    byte = Byte();
    byte.rewritten = rewritten;
  });
}

void watch_access(const Site& site, const void* p, size_t bytes, Use use) {
  const Moment moment = now(p);
  if (moment.where == Memory::Own) return;
  const bool shared = moment.where == Memory::Shared, writes = use == Use::Store;
  const Event event = {moment.launch, moment.block, moment.thread, moment.barriers, moment.meetings, &site, use == Use::ReadOnly};
  if (!shared && !moment.waited && writes) fault(text_of(site) + ": a write to global memory before wait_for_earlier()");
  for (size_t i = 0; i < bytes; ++i) {
    Byte& byte = byte_at(reinterpret_cast<uintptr_t>(p) + i);
    // A block's shared memory is new: what others did where it is now is nothing to it.
    if (shared && (byte.write.launch != event.launch || byte.write.block != event.block)) byte.write = Event();
    if (shared && (byte.read.launch != event.launch || byte.read.block != event.block)) byte.read = byte.same_warp = byte.other_warp = byte.other_block = Event();
    if (!shared && !moment.waited && byte.write.launch) fault(text_of(site) + ": a read before wait_for_earlier() of what a kernel wrote at " + text_of(*byte.write.site));
    if (!shared && !moment.waited && byte.rewritten && (use == Use::Load || use == Use::ReadOnly)) fault(text_of(site) + ": a read through L1, before wait_for_earlier(), of what the host has rewritten");
    check(byte.write, event, writes ? "writes" : "reads", "wrote");
    if (event.read_only && byte.write.launch == event.launch) fault(text_of(site) + ": a read-only load of what this launch wrote at " + text_of(*byte.write.site));
    if (writes) {
      for (const Event* reader : {&byte.read, &byte.same_warp, &byte.other_warp, &byte.other_block}) {
        check(*reader, event, "writes", "read");
        if (reader->read_only && reader->launch == event.launch) fault(text_of(site) + ": a write of what this launch read by a read-only load at " + text_of(*reader->site));
      }
      byte.write = event;
    } else {
      keep_read(byte, event);
    }
  }
}

}  // namespace paceline::emulate
