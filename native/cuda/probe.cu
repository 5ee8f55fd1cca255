#include "probe.h"

#include <stdexcept>

#include "../cpu/repack.h"
#include "layout.h"
#include "operations.h"

namespace paceline::cuda {

struct ProductProbe::Room {
  Activations activations;
  int* count = nullptr;
};

ProductProbe::ProductProbe(const std::string& type, int rows, int columns, const uint8_t* data, size_t size, float scale, int most_columns, int copies, Memory& memory)
    : memory_(memory), most_(most_columns), room_(std::make_unique<Room>()) {
  matrix_.format = format_named("probe", type);
  check_columns("probe", matrix_.format, type, columns);
  matrix_.rows = rows;
  matrix_.columns = columns;
  matrix_.scale = scale;
  matrix_.blocks = (columns + kBlock - 1) / kBlock;
  matrix_.tiles = (rows + kTileRows - 1) / kTileRows;
  if (size != source_row_bytes(matrix_.format, columns) * rows) throw std::invalid_argument("data has not the size of this matrix");
  if (most_columns < 1) throw std::invalid_argument("most_columns must be at least 1");
  if (copies < 1) throw std::invalid_argument("copies must be at least 1");
  const auto place = [&](size_t bytes) {
    places_.push_back(memory_.allocate(bytes));
    return places_.back();
  };
  const size_t row_tile = device_row_tile_bytes(matrix_.format, matrix_.blocks);
  bytes_ = row_tile * matrix_.tiles;
  std::vector<uint8_t> tiles(matrix_.row_tile_bytes()), packed(bytes_);
  for (int t = 0; t < matrix_.tiles; ++t) {
    repack_row_tile(matrix_, data, t, tiles.data());
    pack_row_tile(matrix_.format, matrix_.blocks, tiles.data(), packed.data() + t * row_tile);
  }
  uint8_t* const weights = place(bytes_);
  memory_.upload(weights, packed.data(), bytes_);
  matrix_.data = weights;
  copies_.push_back(weights);
  while (static_cast<int>(copies_.size()) < copies) {
    uint8_t* const again = place(bytes_);
    memory_.copy(weights, again, bytes_);
    copies_.push_back(again);
  }
  Activations& a = room_->activations;
  a.blocks = matrix_.blocks;
  const size_t places = static_cast<size_t>((most_columns + kColumns - 1) / kColumns) * kColumns * a.blocks;
  if (by_brains(matrix_.format)) {
    const size_t spare = static_cast<size_t>(kSpareColumns) * a.blocks;
    a.brains = reinterpret_cast<uint32_t*>(place((places + spare) * kBlock * sizeof(uint32_t)));
  } else if (is_float(matrix_.format)) {
    a.wide = reinterpret_cast<float*>(place(places * kBlock * sizeof(float)));
  } else {
    if (by_halves(matrix_.format)) a.halves = reinterpret_cast<uint32_t*>(place(places * 2 * kBlock));
    else a.codes = reinterpret_cast<uint32_t*>(place(places * kBlock));
    a.about = reinterpret_cast<ColumnPair*>(place(places / 2 * sizeof(ColumnPair)));
  }
  room_->count = reinterpret_cast<int*>(place(sizeof(int)));
}

ProductProbe::~ProductProbe() {
  for (uint8_t* place : places_) memory_.release(place);
}

void ProductProbe::quantize(const uint8_t* x, int columns, Stream stream) {
  if (columns < 1 || columns > most_) throw std::invalid_argument(std::to_string(columns) + " columns, expected 1 to " + std::to_string(most_));
  memory_.upload(reinterpret_cast<uint8_t*>(room_->count), &columns, sizeof columns);
  cuda::quantize(reinterpret_cast<const float*>(x), matrix_.columns, matrix_.columns, nullptr, 0, room_->count, room_->activations, columns, stream);
}

void ProductProbe::multiply(int columns, uint8_t* out, Stream stream, int multiprocessors, int copy) {
  Product product;
  product.items[0] = {copies_.at(copy), reinterpret_cast<float*>(out), matrix_.scale, matrix_.tiles};
  product.count = 1;
  product.blocks = matrix_.blocks;
  product.input = room_->activations;
  product.columns = room_->count;
  product.stride = out_stride();
  product.multiprocessors = multiprocessors;
  run_product(matrix_.format, product, columns, stream);
}

void ProductProbe::read_rows(const uint8_t* input, int columns, uint8_t* out, Stream stream) {
  embed(matrix_.format, {matrix_.data, nullptr, matrix_.scale, matrix_.tiles}, matrix_.blocks, matrix_.columns, 1.0f, input_at(input, {columns, false}), nullptr, reinterpret_cast<float*>(out),
        in_stride(), columns, stream);
}

}  // namespace paceline::cuda
