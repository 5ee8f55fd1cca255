// A window into attention for its tests: one layer and one kv head of cache, written and read by a chosen instruction set.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "kernels.h"
#include "memory.h"
#include "register.h"

namespace py = pybind11;

namespace {

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;
using Ints = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;

// The pages are in reverse order in the pool, which starts as NaN: what nobody wrote must not be read.
class AttentionProbe {
 public:
  AttentionProbe(int head_size, int pages, const std::string& key_type, const std::string& value_type, int window, float softcap)
      : head_size_(head_size), layout_({{1, head_size, head_size}}, paceline::cache_type_named(key_type), paceline::cache_type_named(value_type)),
        pool_(pages * layout_.page_bytes(), 0xff), table_(pages) {
    for (int i = 0; i < pages; ++i) table_[i] = pages - 1 - i;
    view_ = layout_.view(pool_.data(), 0, 0);
    view_.window = window;
    view_.softcap = softcap;
  }

  void write(const Floats& keys, const Floats& values, int position, const std::string& isa) {
    const paceline::Kernels& kernels = paceline::choose_kernels(isa.c_str());
    const int count = static_cast<int>(keys.shape(0)), size = head_size_;
    if (keys.ndim() != 2 || values.ndim() != 2 || values.shape(0) != count || keys.shape(1) != size || values.shape(1) != size || position < 0 ||
        position + count > room())
      throw std::invalid_argument("keys and values must be [n, head_size] and fit the pages");
    std::vector<float> k(size + 16), v(size + 16);
    for (int i = 0; i < count; ++i) {
      std::copy(keys.data(i, 0), keys.data(i, 0) + size, k.begin());
      std::copy(values.data(i, 0), values.data(i, 0) + size, v.begin());
      kernels.write_cache(view_, table_[(position + i) / paceline::kPage], position + i, k.data(), v.data());
    }
  }

  // split_by_split: each split by itself, the last one first, merged at the end
  Floats attend(const Floats& queries, const Ints& positions, const std::string& isa, bool split_by_split, const std::vector<float>& given_sinks) const {
    const paceline::Kernels& kernels = paceline::choose_kernels(isa.c_str());
    const int count = static_cast<int>(queries.shape(0)), size = head_size_;
    if (queries.ndim() != 2 || queries.shape(1) != size || positions.size() != count || count > paceline::kQueryTile)
      throw std::invalid_argument("queries must be [n, head_size] and positions [n], n at most " + std::to_string(paceline::kQueryTile));
    std::vector<float> sinks = given_sinks;
    if (sinks.empty()) sinks.assign(count, paceline::kNoSink);
    if (static_cast<int>(sinks.size()) != count) throw std::invalid_argument("sinks must be [n]");
    Floats out({count, size});
    const float* q[paceline::kQueryTile];
    float* o[paceline::kQueryTile];
    for (int i = 0; i < count; ++i) {
      if (positions.at(i) < 0 || positions.at(i) >= room()) throw std::invalid_argument("a position is outside the pages");
      q[i] = queries.data(i, 0);
      o[i] = out.mutable_data(i, 0);
    }
    paceline::Buffer<float> scratch, states;
    scratch.reserve(paceline::attention_scratch(view_.head_size, view_.value_stride));
    if (!split_by_split) {
      kernels.attend(view_, table_.data(), count, q, positions.data(), sinks.data(), o, nullptr, nullptr, scratch.data());
      return out;
    }
    const int splits = (room() + paceline::kSplit - 1) / paceline::kSplit;
    const size_t size_of_states = splits * paceline::split_state(view_.value_stride);
    states.reserve(paceline::kQueryTile * size_of_states);
    float* of[paceline::kQueryTile];
    for (int i = 0; i < count; ++i) of[i] = states.data() + i * size_of_states;
    for (int split = splits - 1; split >= 0; --split) {
      const paceline::SplitPart part{split, split + 1, of};
      kernels.attend(view_, table_.data(), count, q, positions.data(), sinks.data(), o, &part, nullptr, scratch.data());
    }
    for (int i = 0; i < count; ++i) kernels.merge_splits(view_, positions.at(i), sinks[i], of[i], o[i], scratch.data());
    return out;
  }

  py::bytes pool() const { return {reinterpret_cast<const char*>(pool_.data()), pool_.size()}; }

 private:
  int room() const { return static_cast<int>(table_.size()) * paceline::kPage; }

  int head_size_;
  paceline::CacheLayout layout_;
  std::vector<uint8_t> pool_;
  std::vector<int32_t> table_;
  paceline::CacheView view_{};
};

}  // namespace

void register_attention(py::module_& m) {
  py::class_<AttentionProbe>(m, "AttentionProbe")
      .def(py::init<int, int, const std::string&, const std::string&, int, float>(), py::kw_only(), py::arg("head_size"), py::arg("pages"), py::arg("key_type") = "f16",
           py::arg("value_type") = "f16", py::arg("window") = 0, py::arg("softcap") = 0.0f)
      .def("write", &AttentionProbe::write, py::arg("keys"), py::arg("values"), py::arg("position"), py::arg("isa"))
      .def("attend", &AttentionProbe::attend, py::arg("queries"), py::arg("positions"), py::arg("isa"), py::kw_only(), py::arg("split_by_split") = false,
           py::arg("sinks") = std::vector<float>())
      .def("pool", &AttentionProbe::pool);
}
