// The step behind the one under way, begun before it is asked for: its rows are known before their tokens, which the device finds where that step leaves them.
#include <algorithm>
#include <utility>

#include "core.h"

namespace paceline::cuda {
namespace {

int position_behind(const Row& row) { return row.position + static_cast<int>(row.tokens.size()); }

int pages_of(const Row& row) { return (position_behind(row) + kPage - 1) / kPage; }

// What a grammar allows follows from the token.
bool may_begin(const Row& row, int context, int pages) {
  const int position = position_behind(row);
  if (row.outputs != 1 || row.ahead || row.allowed || position >= context || position >= row.table_size * kPage) return false;
  const int page = row.table[position / kPage];
  return page >= 0 && page < pages;
}

}  // namespace

std::optional<Sizes> DeviceCore::prepare_next(const std::vector<Row>& rows, const std::vector<int>& outputs) {
  next_ = {};
  if (shape().drafting) return std::nullopt;
  Next next;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].continues) continue;
    if (!may_begin(rows[r], shape().context, options_.pages)) return std::nullopt;
    Row row = rows[r];
    row.position = position_behind(row);
    row.tokens = {-1 - outputs[r]};
    next.pages.emplace_back(row.table, row.table + pages_of(row));
    next.rows.push_back(std::move(row));
  }
  if (next.rows.empty()) return std::nullopt;
  next.sizes = fill_input(next.rows, {}, true);
  if (!has_room(next.sizes)) return std::nullopt;
  for (const Row& row : next.rows) slots_.overtake(row.slot);
  next_ = std::move(next);
  return next_.sizes;
}

void DeviceCore::know_tokens(const int32_t* tokens) {
  for (Row& row : next_.rows) row.tokens[0] = tokens[-1 - row.tokens[0]];
}

void DeviceCore::drop_next(int slot, std::optional<int> position) {
  for (Row& row : next_.rows)
    if (row.slot == slot && row.position != position) row.tokens.clear();
}

std::optional<Begun> DeviceCore::take_next(const std::vector<Row>& rows) {
  const Next next = std::exchange(next_, {});
  if (next.rows.empty()) return std::nullopt;
  slots_.check_rows(rows, options_.pages);
  std::vector<int> place_of(options_.slots, -1);
  Begun begun;
  begun.sizes = next.sizes;
  for (const Row& row : next.rows) {
    place_of[row.slot] = begun.outputs++;
    begun.told.push_back(begun.told_bytes);
    if (const int count = likeliest_of(row)) begun.told_bytes += bytes_told(count);
  }
  for (const Row& row : rows) {
    const int place = place_of[row.slot];
    if (place < 0) return std::nullopt;
    const Row& own = next.rows[place];
    const std::vector<int>& pages = next.pages[place];
    const bool same = row.position == own.position && row.tokens == own.tokens && row.outputs == 1 && !row.ahead && !row.allowed && row.sampling == own.sampling &&
                      row.prompt_tokens == own.prompt_tokens && std::equal(pages.begin(), pages.end(), row.table);
    if (!same) return std::nullopt;
    begun.places.push_back(place);
  }
  for (const Row& row : rows) slots_.feed(row);
  return begun;
}

}  // namespace paceline::cuda
