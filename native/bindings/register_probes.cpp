// Parts of the core exposed for its tests: conversions, products and draws whose results are known independently.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core.h"
#include "half.h"
#include "register.h"
#include "repack.h"
#include "roofs.h"
#include "sampling.h"
#include "team.h"

namespace py = pybind11;

namespace {

// One matrix alone: data as in a file, inputs [n, columns] -> [n, rows], by the products of an instruction set.
class ProductProbe {
 public:
  ProductProbe(const std::string& type, int rows, int columns, const py::buffer& data, float scale) {
    const py::buffer_info info = data.request();
    matrix_.format = paceline::format_named("probe", type);
    paceline::check_columns("probe", matrix_.format, type, columns);
    matrix_.rows = rows;
    matrix_.columns = columns;
    matrix_.scale = scale;
    matrix_.blocks = (columns + paceline::kBlock - 1) / paceline::kBlock;
    matrix_.tiles = (rows + paceline::kTileRows - 1) / paceline::kTileRows;
    if (static_cast<size_t>(info.size * info.itemsize) != paceline::source_row_bytes(matrix_.format, columns) * rows)
      throw std::invalid_argument("data has not the size of this matrix");
    uint8_t* tiles = tiles_.reserve(matrix_.bytes());
    matrix_.data = tiles;
    for (int t = 0; t < matrix_.tiles; ++t)
      paceline::repack_row_tile(matrix_, static_cast<const uint8_t*>(info.ptr), t, tiles + t * matrix_.row_tile_bytes());
  }

  py::array_t<float> rows() const {
    py::array_t<float> out({matrix_.rows, matrix_.columns});
    for (int row = 0; row < matrix_.rows; ++row) paceline::read_row(matrix_, row, out.mutable_data(row, 0));
    return out;
  }

  py::array_t<float> product(const py::array_t<float, py::array::c_style | py::array::forcecast>& inputs, const std::string& isa) const {
    const paceline::Kernels& kernels = paceline::choose_kernels(isa.c_str());
    if (inputs.shape(1) != matrix_.columns) {
      throw py::value_error("inputs of " + std::to_string(inputs.shape(1)) + " columns, expected " + std::to_string(matrix_.columns));
    }
    const int columns = static_cast<int>(inputs.shape(0)), blocks = matrix_.blocks;
    const size_t places = static_cast<size_t>((columns + paceline::kGroup - 1) / paceline::kGroup) * blocks * paceline::kGroup;
    paceline::Buffer<paceline::QuantizedBlock> quantized;
    paceline::Buffer<float> wide, sums;
    paceline::Buffer<uint8_t> panel;
    const paceline::Activations activations = {quantized.reserve(places), wide.reserve(places * paceline::kBlock)};
    paceline::Scratch scratch = {panel.reserve(paceline::kPanelBytes), sums.reserve(static_cast<size_t>(columns) * paceline::kTileRows), 0};
    std::vector<float> padded(static_cast<size_t>(blocks) * paceline::kBlock);
    for (int c = 0; c < columns; ++c) {
      std::copy(inputs.data(c, 0), inputs.data(c, 0) + matrix_.columns, padded.begin());
      kernels.quantize(padded.data(), 0, blocks, c, blocks, activations);
    }
    const size_t stride = static_cast<size_t>(matrix_.tiles) * paceline::kTileRows;
    std::vector<float> out(stride * columns);
    for (int t = 0; t < matrix_.tiles; ++t) kernels.product(matrix_, t, activations, columns, paceline::Epilogue::Store, out.data(), stride, scratch);
    py::array_t<float> result({columns, matrix_.rows});
    for (int c = 0; c < columns; ++c) std::copy(out.data() + c * stride, out.data() + c * stride + matrix_.rows, result.mutable_data(c, 0));
    return result;
  }

 private:
  paceline::Matrix matrix_;
  paceline::Buffer<uint8_t> tiles_;
};

// A team divides operations of so many items, one after another -> for each, how often every item was called. late: at its first item of an operation the first
// member waits until all items but half a share are done, for at most `seconds`; false if it waited in vain.
std::pair<std::vector<std::vector<int>>, bool> divide(int threads, const std::vector<int>& operations, bool late, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto limit = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::vector<std::atomic<int>>> calls;
  for (const int items : operations) calls.emplace_back(items);
  std::vector<std::atomic<int>> done(operations.size());
  std::atomic<bool> came{true};
  paceline::run_team(threads, [&](paceline::Member& me) {
    for (size_t o = 0; o < operations.size(); ++o) {
      const int share = (operations[o] + me.count - 1) / me.count, taken = (share + 1) / 2;  // at once, and at most
      bool waits = late && me.index == 0;
      me.divide(operations[o], [&](int i) {
        const Clock::time_point end = Clock::now() + limit;
        while (waits && done[o].load() < operations[o] - taken) {
          if (Clock::now() > end) came = waits = false;
          std::this_thread::yield();
        }
        waits = false;
        ++calls[o][i];
        ++done[o];
      });
    }
  });
  std::vector<std::vector<int>> counts;
  for (const auto& of : calls) counts.emplace_back(of.begin(), of.end());
  return {counts, came};
}

}  // namespace

void register_probes(py::module_& m) {
  py::class_<ProductProbe>(m, "ProductProbe")
      .def(py::init<const std::string&, int, int, const py::buffer&, float>(), py::arg("type"), py::arg("rows"), py::arg("columns"), py::arg("data"), py::arg("scale") = 1.0f)
      .def("rows", &ProductProbe::rows)
      .def("product", &ProductProbe::product, py::arg("inputs"), py::arg("isa"));
  m.def("instruction_sets", [] {
    py::list names;
    for (const char* name : paceline::instruction_sets()) names.append(name);
    return names;
  });
  m.def(
      "read_roof",
      [](int threads, int mebibytes, int rounds, const std::string& isa) {
        return paceline::read_roof(paceline::choose_kernels(isa.c_str()), threads, static_cast<size_t>(mebibytes) << 20, rounds);
      },
      py::arg("threads"), py::kw_only(), py::arg("mebibytes") = 1024, py::arg("rounds") = 5, py::arg("isa") = "auto", py::call_guard<py::gil_scoped_release>());
  m.def(
      "multiply_roof", [](int threads, int rounds, const std::string& isa) { return paceline::multiply_roof(paceline::choose_kernels(isa.c_str()), threads, rounds); },
      py::arg("threads"), py::kw_only(), py::arg("rounds") = 5, py::arg("isa") = "auto", py::call_guard<py::gil_scoped_release>());
  m.def("divide", &divide, py::arg("threads"), py::arg("operations"), py::kw_only(), py::arg("late"), py::arg("seconds"), py::call_guard<py::gil_scoped_release>());
  m.def("half_to_float", [](uint16_t h) { return paceline::half_to_float(h); }, py::arg("bits"));
  m.def("float_to_half", [](float f) { return paceline::float_to_half(f); }, py::arg("value"));
  m.def("uniform", &paceline::uniform, py::arg("seed"), py::arg("position"));
  m.def(
      "sample",
      [](const py::array_t<float, py::array::c_style | py::array::forcecast>& logits, const std::vector<int32_t>& history, int prompt, float temp, int top_k, float top_p,
         float min_p, float rep_penalty, float freq_penalty, float pres_penalty, uint64_t seed, const std::vector<uint32_t>& allowed, const std::string& isa) {
        const int size = static_cast<int>(logits.size());
        std::vector<float> padded((size + 15) / 16 * 16);
        std::copy(logits.data(), logits.data() + size, padded.begin());
        for (const int32_t id : history)
          if (id < 0 || id >= size) throw std::invalid_argument("history holds an id outside the vocabulary");
        if (!allowed.empty() && static_cast<int>(allowed.size()) != paceline::words_of(size)) throw std::invalid_argument("allowed must have a bit for each id");
        const paceline::Sampling sampling{temp, top_k, top_p, min_p, rep_penalty, freq_penalty, pres_penalty, seed, {}, 0};
        paceline::Sampler sampler;
        sampler.reserve(size);
        return sampler.sample(paceline::choose_kernels(isa.c_str()), sampling, allowed.empty() ? nullptr : allowed.data(), padded.data(), size, history.data(), static_cast<int>(history.size()), prompt);
      },
      py::arg("logits"), py::arg("history"), py::arg("prompt"), py::kw_only(), py::arg("temp"), py::arg("top_k") = 0, py::arg("top_p") = 1.0f, py::arg("min_p") = 0.0f,
      py::arg("rep_penalty") = 1.0f, py::arg("freq_penalty") = 0.0f, py::arg("pres_penalty") = 0.0f, py::arg("seed") = 0, py::arg("allowed") = std::vector<uint32_t>(), py::arg("isa") = "auto");
}
