#include "traffic.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_map>

#include "grid.h"

namespace paceline::emulate {
namespace {

constexpr unsigned kWarp = 32, kSector = 32, kBanks = 32, kWord = 4;

struct Entry {
  const Site* site;
  uint32_t warp, occurrence;
  uint64_t address;
  uint8_t lane, bytes;
  Use use;
  bool shared;

  bool same_request(const Entry& other) const { return site == other.site && warp == other.warp && occurrence == other.occurrence; }
};

// Of the block that this host thread runs.
thread_local std::vector<Entry> entries;
thread_local std::unordered_map<uint64_t, uint32_t> occurrences;  // by site and thread

std::mutex lock;
std::map<std::tuple<std::string, const Site*, Use>, Traffic> totals;  // a copy reads and writes

using Entries = std::vector<Entry>::const_iterator;

// How many different multiples of `unit` the entries touch.
size_t touched(Entries begin, Entries end, unsigned unit) {
  std::vector<uint64_t> units;
  for (auto e = begin; e != end; ++e)
    for (uint64_t u = e->address / unit; u <= (e->address + e->bytes - 1) / unit; ++u) units.push_back(u);
  std::sort(units.begin(), units.end());
  return static_cast<size_t>(std::unique(units.begin(), units.end()) - units.begin());
}

size_t rounded_up(size_t n, size_t unit) { return (n + unit - 1) / unit; }

// Passes over the banks: as many as the fullest bank has different words.
size_t passes(Entries begin, Entries end) {
  std::vector<uint64_t> words;
  for (auto e = begin; e != end; ++e)
    for (uint64_t w = e->address / kWord; w <= (e->address + e->bytes - 1) / kWord; ++w) words.push_back(w);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  size_t of_bank[kBanks] = {};
  for (uint64_t w : words) ++of_bank[w % kBanks];
  return *std::max_element(of_bank, of_bank + kBanks);
}

void add_request(Traffic& total, Entries begin, Entries end) {
  const size_t bytes = touched(begin, end, 1);
  ++total.requests;
  total.bytes += bytes;
  if (!begin->shared) {
    total.transfers += touched(begin, end, kSector);
    total.least += rounded_up(bytes, kSector);
    return;
  }
  const unsigned lanes = kWarp * kWord / std::max<unsigned>(kWord, begin->bytes);  // at once
  for (auto e = begin; e != end;) {
    const auto next = std::find_if(e, end, [&](const Entry& other) { return other.lane / lanes != e->lane / lanes; });
    total.transfers += passes(e, next);
    total.least += rounded_up(touched(e, next, 1), kBanks * kWord);
    e = next;
  }
}

}  // namespace

void measure(bool on) {
  const std::lock_guard<std::mutex> hold(lock);
  totals.clear();
  detail::measuring = on;
}

std::vector<Traffic> measured() {
  const std::lock_guard<std::mutex> hold(lock);
  std::vector<Traffic> all;
  for (const auto& [key, total] : totals) all.push_back(total);
  return all;
}

std::string text_of(const Site& site) { return std::string(site.file) + ":" + std::to_string(site.line); }

void note_access(const Site& site, const void* p, size_t bytes, Use use) {
  const Memory where = now(p).where;
  if (where == Memory::Own) return;
  const unsigned thread = place().thread;
  const uint32_t occurrence = occurrences[reinterpret_cast<uint64_t>(&site) << 10 | thread]++;
  entries.push_back({&site, thread / kWarp, occurrence, reinterpret_cast<uint64_t>(p), static_cast<uint8_t>(thread % kWarp), static_cast<uint8_t>(bytes), use, where == Memory::Shared});
}

void end_accesses_of_block(const char* kernel) {
  if (entries.empty()) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.site, a.warp, a.occurrence, a.lane) < std::tie(b.site, b.warp, b.occurrence, b.lane);
  });
  const std::lock_guard<std::mutex> hold(lock);
  for (Entries begin = entries.begin(); begin != entries.end();) {
    const Entries end = std::find_if(begin, entries.cend(), [&](const Entry& other) { return !other.same_request(*begin); });
    Traffic& total = totals[{kernel, begin->site, begin->use}];
    total.kernel = kernel;
    total.file = begin->site->file;
    total.line = begin->site->line;
    total.shared = begin->shared;
    total.use = begin->use;
    add_request(total, begin, end);
    begin = end;
  }
  entries.clear();
  occurrences.clear();
}

}  // namespace paceline::emulate
