// The host's part: loading weights, room for steps, and a step's input, checked and filled in.
#include "core.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "../cpu/repack.h"
#include "layout.h"

namespace paceline::cuda {
namespace {

constexpr size_t kPieceBytes = size_t{16} << 20;  // packed and sent at once

void check_columns_of_step(const Shape& shape, int columns) {
  const int most = most_columns_of_step(shape);
  if (columns > most) throw std::invalid_argument("a step of " + std::to_string(columns) + " tokens is more than the " + std::to_string(most) + " of a GPU's");
}

int power_of_two(int n) { return n ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(n))) : 0; }

int splits_of(int positions) { return power_of_two((positions + kSplit - 1) / kSplit); }

}  // namespace

// Makes the CPU's tiles, packs them for the device and uploads them piece by piece.
class DeviceCore::PackStore final : public Store {
 public:
  explicit PackStore(DeviceCore& core) : core_(core) {}

  const uint8_t* matrix(const Matrix& m, const Source& source) override {
    const size_t row_tile = device_row_tile_bytes(m.format, m.blocks);
    uint8_t* const place = core_.allocate(row_tile * m.tiles);
    core_.loaded_bytes_ += row_tile * m.tiles;
    if (core_.one_piece && sent_ >= kPieceBytes) {  // of experts; all have one size
      core_.memory_.copy(first_, place, row_tile * m.tiles);
      return place;
    }
    if (!first_) first_ = place;
    const int piece = static_cast<int>(kPieceBytes / row_tile) + 1;
    std::vector<uint8_t> packed(row_tile * std::min(piece, m.tiles));
    for (int first = 0; first < m.tiles; first += piece) {
      const int end = std::min(first + piece, m.tiles);
      if (core_.one_piece && first > 0) {
        core_.memory_.copy(place, place + first * row_tile, (end - first) * row_tile);
        continue;
      }
#pragma omp parallel
      {
        std::vector<uint8_t> tiles(m.row_tile_bytes());
#pragma omp for schedule(static)
        for (int t = first; t < end; ++t) {
          repack_row_tile(m, source.data, t, tiles.data());
          pack_row_tile(m.format, m.blocks, tiles.data(), packed.data() + (t - first) * row_tile);
        }
      }
      core_.memory_.upload(place + first * row_tile, packed.data(), (end - first) * row_tile);
      sent_ += (end - first) * row_tile;
      const size_t read = source_row_bytes(m.format, m.columns) * kTileRows, begin = first * read;
      if (source.mapped && begin < source.size) forget(source.data + begin, std::min(end * read, source.size) - begin);
    }
    return place;
  }

  const float* vector(const float* values, size_t count) override {
    std::vector<float> padded(values, values + count);
    padded.resize(count + kBlock);
    return core_.upload_table(padded);
  }

 private:
  DeviceCore& core_;
  uint8_t* first_ = nullptr;  // of the tensor's matrices, the first
  size_t sent_ = 0;
};

uint8_t* DeviceCore::allocate(size_t bytes) {
  places_.push_back(memory_.allocate(bytes));
  return places_.back();
}

float* DeviceCore::upload_table(const std::vector<float>& table) {
  if (table.empty()) return nullptr;
  uint8_t* const place = allocate(table.size() * sizeof(float));
  memory_.upload(place, table.data(), table.size() * sizeof(float));
  return reinterpret_cast<float*>(place);
}

void DeviceCore::load(const Source& source) {
  PackStore store(*this);
  weights_.load(source, store);
}

void DeviceCore::take_pages(int pages) {
  if (options_.pages) throw std::invalid_argument("the pages are there");
  if (pages < 1) throw std::invalid_argument(std::to_string(pages) + " pages, expected at least 1");
  pool_ = allocate(cache_.page_bytes() * pages);
  options_.pages = pages;
}

void DeviceCore::make_room(int columns, int outputs) {
  weights_.check_loaded();
  check_columns_of_step(shape(), std::max(columns, outputs));
  reserve({power_of_two(columns), power_of_two(outputs), splits_of(shape().context), 1, 1});
}

int DeviceCore::tokens_of(LayerKind kind) const {
  const Heads heads = shape().heads_of(kind);
  return tokens_together(heads.head_size, heads.heads / heads.kv_heads);
}

InputLayout DeviceCore::layout_of(int columns, bool sampled) const {
  return {columns, sampled, tokens_of(LayerKind::Attention) != tokens_of(LayerKind::Sliding), shape().drafting > 0};
}

Sizes DeviceCore::prepare(const std::vector<Row>& rows) {
  weights_.check_loaded();
  slots_.check_rows(rows, options_.pages);
  for (const Row& row : rows) slots_.feed(row);
  const Sizes sizes = fill_input(rows, {});
  reserve(room_for(rows, sizes));
  return sizes;
}

// The layer that drafts finds the streams of the step in the room of the step, which must do for all of its passes.
Sizes DeviceCore::room_for(const std::vector<Row>& rows, Sizes sizes) const {
  int longest = 0, most_ahead = 0;
  for (const Row& row : rows) {
    longest = std::max(longest, row.position + static_cast<int>(row.tokens.size()));
    most_ahead = std::max(most_ahead, row.ahead);
  }
  sizes.splits = splits_of(std::min(longest + most_ahead, shape().context));
  return sizes;
}

Sizes DeviceCore::fill_input(const std::vector<Row>& rows, const std::vector<int>& streams, bool behind) {
  Counts counts{};
  Sizes sizes;
  size_t pages = 0;
  int longest = 0, most_tokens = 1;
  for (const Row& row : rows) {
    const int count = static_cast<int>(row.tokens.size());
    counts.columns += count;
    counts.outputs += row.outputs;
    longest = std::max(longest, row.position + count);
    most_tokens = std::max(most_tokens, count);
    pages += (row.position + count + kPage - 1) / kPage;
  }
  counts.rows = static_cast<int>(rows.size());
  if (counts.columns == 0) throw std::invalid_argument("a step without rows");
  check_columns_of_step(shape(), counts.columns);
  sizes.columns = power_of_two(counts.columns);
  sizes.outputs = power_of_two(counts.outputs);
  sizes.splits = splits_of(longest);
  const int together = tokens_of(LayerKind::Attention), local_together = tokens_of(LayerKind::Sliding);
  sizes.tokens = most_tokens == 1 ? 1 : std::max({together, local_together, 2});
  sizes.sampled = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.outputs && (row.sampling.temperature >= kColdest || row.sampling.changes() || row.sampling.logprobs > 0 || row.allowed);
  });
  const InputLayout layout = layout_of(sizes.columns, sizes.sampled != 0);
  input_.assign(layout.page_begin() + pages * sizeof(int), 0);
  Column* column = reinterpret_cast<Column*>(input_.data() + layout.column_begin());
  Item* item = reinterpret_cast<Item*>(input_.data() + layout.item_begin());
  Item* local_item = reinterpret_cast<Item*>(input_.data() + layout.local_item_begin());
  int* output = reinterpret_cast<int*>(input_.data() + layout.output_begin());
  RowInput* row_input = reinterpret_cast<RowInput*>(input_.data() + layout.row_begin());
  int* page = reinterpret_cast<int*>(input_.data() + layout.page_begin());
  int first_column = 0, table = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const int count = static_cast<int>(row.tokens.size()), own_pages = (row.position + count + kPage - 1) / kPage;
    for (int i = 0; i < count; ++i) *column++ = {row.tokens[i], row.position + i, table, static_cast<int>(r)};
    *row_input++ = {row.slot, slots_[row.slot].state ^ static_cast<int>(behind), first_column, count, row.position};
    const auto list = [&](Item*& items, int most, int& listed) {
      for (int i = 0; i < count; i += most, ++listed) *items++ = {first_column + i, std::min(most, count - i), table, row.position + i};
    };
    list(item, together, counts.items);
    if (layout.local_items) list(local_item, local_together, counts.local_items);
    for (int i = count - row.outputs; i < count; ++i) *output++ = first_column + i;
    std::copy(row.table, row.table + own_pages, page + table);
    table += own_pages;
    first_column += count;
  }
  if (!streams.empty()) std::memcpy(input_.data() + layout.stream_begin(), streams.data(), streams.size() * sizeof(int));
  if (!layout.local_items) counts.local_items = counts.items;
  std::memcpy(input_.data(), &counts, sizeof counts);
  if (sizes.sampled) list_samples(rows, sizes, streams.empty() ? 0 : 1);
  return sizes;
}

uint8_t* DeviceCore::page(int index) const {
  check_page(index, options_.pages);
  return pool_ + page_bytes() * index;
}

}  // namespace paceline::cuda
