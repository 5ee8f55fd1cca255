// Core: rows come as Python objects with the attributes of a plan's Row, are copied, and computed without the GIL.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string_view>

#include "core.h"
#include "register.h"
#include "rows.h"

namespace py = pybind11;
using paceline::Core;
using paceline_bindings::FloatTable;
using paceline_bindings::tables;
using paceline_bindings::Rows;
using paceline_bindings::results_of;

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

constexpr std::pair<const char*, paceline::LayerKind> kKinds[] = {
    {"attention", paceline::LayerKind::Attention}, {"sliding", paceline::LayerKind::Sliding}, {"recurrent", paceline::LayerKind::Recurrent},
    {"feed_forward", paceline::LayerKind::FeedForward}};

paceline::LayerKind layer_kind(const std::string& word) {
  for (const auto& [name, kind] : kKinds)
    if (word == name) return kind;
  throw std::invalid_argument("layer kind '" + word + "': expected attention, sliding, recurrent or feed_forward");
}

constexpr std::pair<const char*, paceline::Activation> kActivations[] = {
    {"silu", paceline::Activation::Silu}, {"gelu", paceline::Activation::Gelu}, {"clamped", paceline::Activation::Clamped}, {"relu2", paceline::Activation::SquaredRelu},
    {"xielu", paceline::Activation::Xielu}};

paceline::Activation activation(const std::string& word) {
  for (const auto& [name, activation] : kActivations)
    if (word == name) return activation;
  throw std::invalid_argument("activation '" + word + "': expected silu, gelu, clamped, relu2 or xielu");
}

py::tuple step(Core& core, const py::sequence& sources) {
  const Rows rows(sources);
  paceline::StepResult result;
  {
    py::gil_scoped_release release;
    result = core.step(rows.rows, rows.any_logits);
  }
  return results_of(rows, result, core.shape().vocab, core.logits_stride());
}

// Bytes of a known size, filled in place: pages and states may be large.
template <class Fill>
py::bytes filled(size_t size, Fill fill) {
  py::bytes data(nullptr, size);
  uint8_t* const out = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(data.ptr()));
  {
    py::gil_scoped_release release;
    fill(out);
  }
  return data;
}

template <class Read>
void unlocked(const py::bytes& data, Read read) {
  const std::string_view view = data;
  py::gil_scoped_release release;
  read(reinterpret_cast<const uint8_t*>(view.data()), view.size());
}

}  // namespace

void register_core(py::module_& m) {
  using paceline::Shape;
  py::class_<Shape>(m, "Shape")
      .def(py::init<>())
#define FIELD(name) .def_readwrite(#name, &Shape::name)
      FIELD(layers) FIELD(drafting) FIELD(width) FIELD(heads) FIELD(kv_heads) FIELD(head_size) FIELD(ffn) FIELD(vocab) FIELD(context)
      FIELD(rope_size) FIELD(rope_pairs) FIELD(norm_epsilon) FIELD(post_norm_epsilon) FIELD(embedding_norm) FIELD(tied) FIELD(qkv_bias) FIELD(output_bias) FIELD(expert_bias) FIELD(qk_norm)
      FIELD(value_norm) FIELD(keys_as_values) FIELD(local_heads) FIELD(local_kv_heads) FIELD(local_head_size) FIELD(local_rope_size)
      FIELD(borrowing_layers) FIELD(borrowing_ffn) FIELD(layer_scale) FIELD(token_inputs) FIELD(expert_norms) FIELD(expert_groups) FIELD(groups_used)
      FIELD(latent) FIELD(query_rank) FIELD(latent_keys) FIELD(latent_values)
      FIELD(sinks) FIELD(gated_attention) FIELD(head_gates) FIELD(pre_norms) FIELD(post_norms) FIELD(whole_qk_norm)
      FIELD(window) FIELD(embedding_scale) FIELD(query_scale) FIELD(attention_softcap) FIELD(final_softcap)
      FIELD(experts) FIELD(experts_used) FIELD(expert_ffn) FIELD(shared_ffn)
      FIELD(dense_layers) FIELD(sigmoid_routing) FIELD(choice_bias) FIELD(normalize_experts) FIELD(shared_gated)
      FIELD(conv_kernel) FIELD(key_heads) FIELD(value_heads) FIELD(key_size) FIELD(value_size) FIELD(grouped_heads) FIELD(gated_convolution) FIELD(state_space) FIELD(one_branch) FIELD(rotates_first) FIELD(layer_norm) FIELD(parallel)
#undef FIELD
      .def_property(
          "kinds",
          [](const Shape& shape) {
            std::vector<std::string> names;
            for (const paceline::LayerKind kind : shape.kinds) names.push_back(kKinds[static_cast<int>(kind)].first);
            return names;
          },
          [](Shape& shape, const std::vector<std::string>& kinds) {
            shape.kinds.clear();
            for (const std::string& kind : kinds) shape.kinds.push_back(layer_kind(kind));
          })
      .def_property(
          "activation", [](const Shape& shape) { return kActivations[static_cast<int>(shape.activation)].first; },
          [](Shape& shape, const std::string& word) { shape.activation = activation(word); })
      .def(
          "page_bytes",
          [](const Shape& shape, const std::string& cache_type_k, const std::string& cache_type_v) {
            return Core::cache_layout(shape, paceline::cache_type_named(cache_type_k), paceline::cache_type_named(cache_type_v)).page_bytes();
          },
          py::arg("cache_type_k"), py::arg("cache_type_v"))
      .def_property_readonly("state_bytes", [](const Shape& shape) { return Core::recurrent_layout(shape).state_bytes(); })
      .def_property_readonly("update_bytes", [](const Shape& shape) { return Core::recurrent_layout(shape).update_bytes(); });

  py::class_<Core>(m, "Core")
      .def(py::init([](const Shape& shape, const FloatTable& cosine, const FloatTable& sine, const FloatTable& local_cosine, const FloatTable& local_sine,
                       const FloatTable& temperatures, int slots, int pages, int threads, int states, int replay, const std::string& isa, const std::string& cache_type_k, const std::string& cache_type_v) {
             const paceline::Options options = {slots, pages, threads, states, replay, isa, paceline::cache_type_named(cache_type_k), paceline::cache_type_named(cache_type_v)};
             return std::make_unique<Core>(shape, options, tables(cosine, sine, local_cosine, local_sine, temperatures));
           }),
           py::arg("shape"), py::arg("cosine"), py::arg("sine"), py::arg("local_cosine"), py::arg("local_sine"), py::arg("temperatures"), py::kw_only(), py::arg("slots"),
           py::arg("pages"), py::arg("threads"), py::arg("states") = 0, py::arg("replay") = 0, py::arg("isa"), py::arg("cache_type_k") = "f16", py::arg("cache_type_v") = "f16")
      .def("load",
           [](Core& core, const std::string& name, const std::string& type, int rows, int columns, const py::buffer& data, const std::vector<float>& scales, bool mapped) {
             const py::buffer_info info = data.request();
             if (!PyBuffer_IsContiguous(info.view(), 'C')) throw std::invalid_argument("tensor '" + name + "': its bytes must lie one after the other");
             py::gil_scoped_release release;
             core.load({name, type, rows, columns, static_cast<const uint8_t*>(info.ptr), static_cast<size_t>(info.size * info.itemsize), scales, mapped});
           },
           py::arg("name"), py::arg("type"), py::arg("rows"), py::arg("columns"), py::arg("data"), py::arg("scales") = std::vector<float>(),
           py::arg("mapped") = false)
      .def("step", &step, py::arg("rows"))
      .def("commit", &Core::commit, py::arg("slot"), py::arg("position"))
      .def("seat", &Core::seat, py::arg("slot"), py::arg("ids"), py::arg("state"), Unlocked())
      .def("keep", &Core::keep, py::arg("slot"), py::arg("state"), Unlocked())
      .def("copy_page", &Core::copy_page, py::arg("source"), py::arg("target"), Unlocked())
      .def(
          "read_page", [](const Core& core, int page) { return filled(core.page_bytes(), [&](uint8_t* out) { core.read_page(page, out); }); }, py::arg("page"))
      .def(
          "write_page", [](Core& core, int page, const py::bytes& data) { unlocked(data, [&](const uint8_t* p, size_t size) { core.write_page(page, p, size); }); }, py::arg("page"), py::arg("data"))
      .def(
          "read_state", [](const Core& core, int state) { return filled(core.state_file_bytes(), [&](uint8_t* out) { core.read_state(state, out); }); }, py::arg("state"))
      .def(
          "write_state", [](Core& core, int state, const py::bytes& data) { unlocked(data, [&](const uint8_t* p, size_t size) { core.write_state(state, p, size); }); }, py::arg("state"), py::arg("data"))
      .def_property_readonly("state_bytes", &Core::state_bytes)
      .def_property_readonly("isa", &Core::isa)
      .def_property_readonly("weight_bytes", &Core::weight_bytes)
      .def_property_readonly("head_bytes", &Core::head_bytes)
      .def_property_readonly("draft_bytes", &Core::draft_bytes)
      .def_property_readonly("token_bytes", &Core::token_bytes)
      .def_property_readonly("loaded_bytes", &Core::loaded_bytes);
}
