// Single kernels, without the rest of a step, for tests and benchmarks.
#pragma once

#include <string>
#include <vector>

#include "core.h"

namespace paceline::cuda {

// The products of a single matrix. x, input and out are device memory.
class ProductProbe {
 public:
  // data: the matrix's bytes as in a file. copies: how many copies of it to keep in memory, so that used in turn none is cached when it is used again.
  ProductProbe(const std::string& type, int rows, int columns, const uint8_t* data, size_t size, float scale, int most_columns, int copies, Memory& memory);
  ~ProductProbe();

  // x [columns][inputs] floats -> activations
  void quantize(const uint8_t* x, int columns, Stream stream);
  // activations -> out [columns][out_stride()]
  void multiply(int columns, uint8_t* out, Stream stream, int multiprocessors, int copy);  // multiprocessors 0: the device's own
  // rows of the matrix, looked up as in an embedding by the tokens of `input`, a step's buffer of `columns` columns -> out [columns][in_stride()]
  void read_rows(const uint8_t* input, int columns, uint8_t* out, Stream stream);

  int out_stride() const { return matrix_.tiles * kTileRows; }
  int in_stride() const { return matrix_.blocks * kBlock; }
  uint64_t bytes() const { return bytes_; }  // of the weights, once

 private:
  struct Room;

  Matrix matrix_;
  Memory& memory_;
  std::vector<uint8_t*> places_;
  std::vector<const uint8_t*> copies_;  // the weights
  uint64_t bytes_ = 0;
  int most_;
  std::unique_ptr<Room> room_;
};

}  // namespace paceline::cuda
