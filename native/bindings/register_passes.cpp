// A step's matrices without the rest of the step, for scripts/bench_formats.py: what a pass over them takes, by the format
// of the weights, the number of columns and whether a tile is unpacked once or again for every column.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <chrono>

#include "core.h"
#include "kernels.h"
#include "register.h"
#include "repack.h"
#include "team.h"

namespace py = pybind11;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

// The index of a matrix, and the number of its columns of inputs.
using Item = std::pair<int, int>;

class PassProbe {
 public:
  explicit PassProbe(int threads) : threads_(threads) {}

  int add(const std::string& type, int rows, int columns, const py::buffer& data) {
    const py::buffer_info info = data.request();
    paceline::Matrix matrix;
    matrix.format = paceline::format_named("probe", type);
    paceline::check_columns("probe", matrix.format, type, columns);
    if (paceline::is_float(matrix.format)) throw std::invalid_argument("type '" + type + "': expected one with integer weights");
    matrix.rows = rows;
    matrix.columns = columns;
    matrix.blocks = columns / paceline::kBlock;
    matrix.tiles = (rows + paceline::kTileRows - 1) / paceline::kTileRows;
    if (static_cast<size_t>(info.size * info.itemsize) != paceline::source_row_bytes(matrix.format, columns) * rows)
      throw std::invalid_argument("data has not the size of this matrix");
    uint8_t* tiles = static_cast<uint8_t*>(arena_.allocate(matrix.bytes()));
    matrix.data = tiles;
    const py::gil_scoped_release release;
    paceline::run_team(threads_, [&](paceline::Member& me) {
      me.divide(matrix.tiles, [&](int t) { paceline::repack_row_tile(matrix, static_cast<const uint8_t*>(info.ptr), t, tiles + t * matrix.row_tile_bytes()); });
    });
    matrices_.push_back(matrix);
    return static_cast<int>(matrices_.size()) - 1;
  }

  // Seconds to read `bytes` of other memory with all threads: measures bandwidth, and evicts all weights from the caches.
  double sweep(size_t bytes) {
    const py::gil_scoped_release release;
    const size_t words = bytes / sizeof(uint64_t);
    uint64_t* other = other_.reserve(words);
    if (other[0] == 0) std::fill(other, other + words, 1);  // pages that were never written all map to one zero page
    double seconds = 0;
    std::atomic<uint64_t> all{0};
    paceline::run_team(threads_, [&](paceline::Member& me) {
      me.barrier.wait();
      const Clock::time_point begun = Clock::now();
      const size_t begin = words / me.count * me.index, end = words / me.count * (me.index + 1);
      uint64_t sum = 0;
      for (size_t i = begin; i < end; ++i) sum += other[i];
      all += sum;
      me.barrier.wait();
      if (me.index == 0) seconds = seconds_since(begun);
    });
    return seconds;
  }

  // Runs the phases one after another, the row tiles of each divided among the threads -> seconds, and the weight bytes unpacked.
  std::pair<double, uint64_t> pass(const std::vector<std::vector<Item>>& phases, bool per_column, const std::string& isa) {
    const paceline::Kernels& kernels = paceline::choose_kernels(isa.c_str());
    for (const auto& phase : phases)
      for (const auto& [index, columns] : phase) {
        if (index < 0 || index >= static_cast<int>(matrices_.size())) throw std::invalid_argument("no matrix " + std::to_string(index));
        if (columns < 1 || columns > paceline::kGroup) throw std::invalid_argument(std::to_string(columns) + " columns, expected 1 to 16");
      }
    const py::gil_scoped_release release;
    int blocks = 0, tiles = 0;
    for (const paceline::Matrix& matrix : matrices_) {
      blocks = std::max(blocks, matrix.blocks);
      tiles = std::max(tiles, matrix.tiles);
    }
    fill(kernels, blocks);
    struct Own {
      paceline::Buffer<uint8_t> panel;
      paceline::Buffer<float> sums, out;
      paceline::Scratch scratch{};
    };
    std::vector<Own> all(threads_);
    double seconds = 0;
    paceline::run_team(threads_, [&](paceline::Member& me) {
      Own& own = all[me.index];
      const size_t stride = static_cast<size_t>(tiles) * paceline::kTileRows;
      own.scratch = {own.panel.reserve(paceline::kPanelBytes), own.sums.reserve(paceline::kGroup * paceline::kTileRows), 0};
      own.out.reserve(stride * paceline::kGroup);
      me.barrier.wait();
      const Clock::time_point begun = Clock::now();
      for (const auto& phase : phases) run_phase(kernels, phase, per_column, me, own.out.data(), stride, own.scratch);
      if (me.index == 0) seconds = seconds_since(begun);
    });
    uint64_t bytes = 0;
    for (const Own& own : all) bytes += own.scratch.weight_bytes;
    return {seconds, bytes};
  }

 private:
  // out: a member's own
  void run_phase(const paceline::Kernels& kernels, const std::vector<Item>& phase, bool per_column, paceline::Member& me, float* out, size_t stride,
                 paceline::Scratch& scratch) const {
    std::vector<int> ends;  // [items of the phase] tiles of this one and those before it
    for (const auto& [index, columns] : phase) ends.push_back((ends.empty() ? 0 : ends.back()) + matrices_[index].tiles);
    me.divide(ends.empty() ? 0 : ends.back(), [&](int tile) {
      const auto i = std::upper_bound(ends.begin(), ends.end(), tile) - ends.begin();
      if (i) tile -= ends[i - 1];
      const paceline::Matrix& matrix = matrices_[phase[i].first];
      const int columns = phase[i].second;
      if (!per_column) return kernels.product(matrix, tile, {quantized_.data(), nullptr}, columns, paceline::Epilogue::Store, out, stride, scratch);
      for (int c = 0; c < columns; ++c)  // the row tile stays in cache meanwhile
        kernels.product(matrix, tile, {quantized_.data() + c, nullptr}, 1, paceline::Epilogue::Store, out + c * stride, stride, scratch);
    });
  }

  // Quantizes a group of columns with as many blocks as the widest matrix; narrower ones use the first of them.
  void fill(const paceline::Kernels& kernels, int blocks) {
    if (blocks == filled_) return;
    quantized_.reserve(static_cast<size_t>(blocks) * paceline::kGroup);
    std::vector<float> values(static_cast<size_t>(blocks) * paceline::kBlock);
    uint32_t state = 1;
    for (int c = 0; c < paceline::kGroup; ++c) {
      for (float& value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
      }
      kernels.quantize(values.data(), 0, blocks, c, blocks, {quantized_.data(), nullptr});
    }
    filled_ = blocks;
  }

  const int threads_;
  int filled_ = 0;
  std::vector<paceline::Matrix> matrices_;
  paceline::Arena arena_;
  paceline::Buffer<paceline::QuantizedBlock> quantized_;
  paceline::Buffer<uint64_t> other_;
};

}  // namespace

void register_passes(py::module_& m) {
  py::class_<PassProbe>(m, "PassProbe")
      .def(py::init<int>(), py::arg("threads"))
      .def("add", &PassProbe::add, py::arg("type"), py::arg("rows"), py::arg("columns"), py::arg("data"))
      .def("sweep", &PassProbe::sweep, py::arg("bytes"))
      .def("pass_over", &PassProbe::pass, py::arg("phases"), py::kw_only(), py::arg("per_column"), py::arg("isa"));
}
