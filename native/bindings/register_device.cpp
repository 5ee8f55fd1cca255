// The CUDA core and its probes, on a device or in the emulator. Memory is a Python object's (native/device_memory.py).
#include <cstring>

#include "../cuda/core.h"
#include "../cuda/probe.h"
#include "prepared.h"
#include "register.h"

namespace py = pybind11;
namespace cuda = paceline::cuda;
using paceline_bindings::Chosen;
using paceline_bindings::FloatTable;
using paceline_bindings::Logits;
using paceline_bindings::Prepared;
using paceline_bindings::Rows;
using paceline_bindings::sizes_of;
using paceline_bindings::SizeTuple;
using paceline_bindings::Told;
using paceline_bindings::Tokens;
using paceline_bindings::tuple_of;

namespace {

uintptr_t number_of(const void* place) { return reinterpret_cast<uintptr_t>(place); }
uint8_t* place_of(uintptr_t number) { return reinterpret_cast<uint8_t*>(number); }

// Calls back into Python, so it takes the GIL.
class PythonMemory final : public cuda::Memory {
 public:
  explicit PythonMemory(py::object memory) : memory_(std::move(memory)) {}

  uint8_t* allocate(size_t bytes) override {
    const py::gil_scoped_acquire hold;
    return place_of(memory_.attr("allocate")(bytes).cast<uintptr_t>());
  }
  void release(uint8_t* place) override {
    const py::gil_scoped_acquire hold;
    try {
      memory_.attr("release")(number_of(place));
    } catch (py::error_already_set& error) {  // called by destructors, when the interpreter ends even behind its own modules
      error.discard_as_unraisable("release");
    }
  }
  void upload(uint8_t* to, const void* from, size_t bytes) override {
    const py::gil_scoped_acquire hold;
    memory_.attr("upload")(number_of(to), py::memoryview::from_memory(from, static_cast<py::ssize_t>(bytes)));
  }
  void copy(const uint8_t* from, uint8_t* to, size_t bytes) override {
    const py::gil_scoped_acquire hold;
    memory_.attr("copy")(number_of(from), number_of(to), bytes);
  }

 private:
  py::object memory_;
};

std::pair<uintptr_t, uintptr_t> places_of(const cuda::Copy& copy) { return {number_of(copy.from), number_of(copy.to)}; }

class DeviceCore {
 public:
  DeviceCore(const paceline::Shape& shape, const FloatTable& cosine, const FloatTable& sine, const FloatTable& local_cosine, const FloatTable& local_sine,
             const FloatTable& temperatures, py::object memory, int slots, int pages, int states, int replay, const std::string& cache_type_k, const std::string& cache_type_v)
      : memory_(std::move(memory)) {
    core_ = std::make_unique<cuda::DeviceCore>(shape, cuda::DeviceOptions{slots, pages, states, replay, paceline::cache_type_named(cache_type_k), paceline::cache_type_named(cache_type_v)},
                                               paceline_bindings::tables(cosine, sine, local_cosine, local_sine, temperatures), memory_);
  }

  std::unique_ptr<Prepared> prepare(const py::sequence& sources) {
    auto prepared = std::unique_ptr<Prepared>(new Prepared{Rows(sources), {}});
    if ((prepared->begun = core_->take_next(prepared->rows.rows))) {
      prepared->sizes = tuple_of(prepared->begun->sizes);
      prepared->outputs = prepared->begun->outputs;
      prepared->told_bytes = prepared->begun->told_bytes;
      return prepared;
    }
    prepared->sizes = tuple_of(core_->prepare(prepared->rows.rows));
    prepared->told_bytes = core_->told_bytes(prepared->rows.rows);
    for (const paceline::Row& row : prepared->rows.rows) prepared->outputs += row.outputs;
    return prepared;
  }

  // The sizes of the step behind the one that was prepared, whose input is ready; or None.
  std::optional<SizeTuple> prepare_next(const Prepared& prepared) {
    std::vector<int> outputs;
    int output = 0;
    for (size_t r = 0; r < prepared.rows.rows.size(); ++r) {
      outputs.push_back(prepared.begun ? prepared.begun->places[r] : output);
      output += prepared.rows.rows[r].outputs;
    }
    const std::optional<cuda::Sizes> sizes = core_->prepare_next(prepared.rows.rows, outputs);
    return sizes ? std::optional(tuple_of(*sizes)) : std::nullopt;
  }

  py::tuple finish(const Prepared& prepared, const Tokens& tokens, const Told& told, const Logits& logits) {
    if (static_cast<size_t>(tokens.size()) < prepared.outputs) throw std::invalid_argument("fewer tokens than outputs");
    if (static_cast<size_t>(told.size()) != prepared.told_bytes) throw std::invalid_argument("told_bytes are what is told");
    if (logits && static_cast<size_t>(logits->size()) < prepared.outputs * core_->logits_stride()) throw std::invalid_argument("fewer logits than outputs");
    core_->know_tokens(tokens.data());
    const std::vector<paceline::Row>& rows = prepared.rows.rows;
    const float* const own_logits = logits ? logits->data() : nullptr;
    std::optional<Chosen> chosen;
    if (prepared.begun) chosen.emplace(*prepared.begun, tokens.data(), told.data(), own_logits, core_->logits_stride());
    paceline::StepResult result = chosen ? core_->finish(rows, chosen->tokens.data(), chosen->told.data(), chosen->logits.data())
                                         : core_->finish(rows, tokens.data(), told.data(), own_logits);
    result.weight_bytes += core_->weight_bytes(sizes_of(prepared.sizes));
    return paceline_bindings::results_of(prepared.rows, result, core_->shape().vocab, core_->logits_stride());
  }

  void begin_drafts(const Prepared& prepared, const Tokens& tokens) {
    if (static_cast<size_t>(tokens.size()) < prepared.outputs) throw std::invalid_argument("fewer tokens than outputs");
    core_->begin_drafts(prepared.rows.rows, tokens.data());
  }

  // The sizes of the next pass of the layer that drafts, and its kind; or None.
  py::object prepare_draft() {
    const std::optional<cuda::Sizes> sizes = core_->prepare_draft();
    if (!sizes) return py::none();
    drafts_ = sizes->outputs;
    return py::make_tuple(tuple_of(*sizes), core_->draft_pass_kind());
  }

  void take_drafts(const Tokens& tokens) {
    if (tokens.size() < drafts_) throw std::invalid_argument("fewer tokens than outputs");
    core_->take_drafts(tokens.data());
  }

  cuda::DeviceCore& core() { return *core_; }

 private:
  PythonMemory memory_;
  std::unique_ptr<cuda::DeviceCore> core_;
  int drafts_ = 0;  // outputs of the pass that was prepared last, at least
};

class ProductProbe {
 public:
  ProductProbe(const std::string& type, int rows, int columns, const py::buffer& data, py::object memory, float scale, int most_columns, int copies)
      : memory_(std::move(memory)) {
    const py::buffer_info info = data.request();
    probe_ = std::make_unique<cuda::ProductProbe>(type, rows, columns, static_cast<const uint8_t*>(info.ptr), static_cast<size_t>(info.size * info.itemsize), scale, most_columns,
                                                    copies, memory_);
  }
  cuda::ProductProbe& probe() { return *probe_; }

 private:
  PythonMemory memory_;
  std::unique_ptr<cuda::ProductProbe> probe_;
};

}  // namespace

void register_device(py::module_& m) {
  // Both modules may be in one process, each with types of its own by the same names.
  py::class_<Prepared>(m, "Prepared", py::module_local())
      .def_readonly("sizes", &Prepared::sizes)
      .def_property_readonly("needs_logits", [](const Prepared& prepared) { return prepared.rows.any_logits && prepared.outputs > 0; })
      .def_readonly("told_bytes", &Prepared::told_bytes)
      .def_property_readonly("begun", [](const Prepared& prepared) { return prepared.begun.has_value(); })
      .def_readonly("outputs", &Prepared::outputs);

  py::class_<DeviceCore>(m, "Core", py::module_local())
      .def(py::init<const paceline::Shape&, const FloatTable&, const FloatTable&, const FloatTable&, const FloatTable&, const FloatTable&, py::object, int, int, int, int,
                    const std::string&, const std::string&>(),
           py::arg("shape"), py::arg("cosine"), py::arg("sine"), py::arg("local_cosine"), py::arg("local_sine"), py::arg("temperatures"), py::arg("memory"), py::kw_only(),
           py::arg("slots"), py::arg("pages"), py::arg("states") = 0, py::arg("replay") = 0, py::arg("cache_type_k") = "f16", py::arg("cache_type_v") = "f16")
      .def("load",
           [](DeviceCore& core, const std::string& name, const std::string& type, int rows, int columns, const py::buffer& data, const std::vector<float>& scales, bool mapped) {
             const py::buffer_info info = data.request();
             if (!PyBuffer_IsContiguous(info.view(), 'C')) throw std::invalid_argument("tensor '" + name + "': its bytes must lie one after the other");
             py::gil_scoped_release release;
             core.core().load({name, type, rows, columns, static_cast<const uint8_t*>(info.ptr), static_cast<size_t>(info.size * info.itemsize), scales, mapped});
           },
           py::arg("name"), py::arg("type"), py::arg("rows"), py::arg("columns"), py::arg("data"), py::arg("scales") = std::vector<float>(), py::arg("mapped") = false)
      .def("take_pages", [](DeviceCore& core, int pages) { core.core().take_pages(pages); }, py::arg("pages"))
      .def("make_room", [](DeviceCore& core, int columns, int outputs) { core.core().make_room(columns, outputs); }, py::arg("columns"), py::arg("outputs"))
      .def_property("one_piece", [](DeviceCore& core) { return core.core().one_piece; }, [](DeviceCore& core, bool on) { core.core().one_piece = on; })
      .def("prepare", &DeviceCore::prepare, py::arg("rows"))
      .def("prepare_next", &DeviceCore::prepare_next, py::arg("prepared"))
      .def("forget_next", [](DeviceCore& core) { core.core().forget_next(); })
      .def_property_readonly("input",
                             [](DeviceCore& core) {
                               const std::vector<uint8_t>& input = core.core().input();
                               return py::memoryview::from_memory(static_cast<const void*>(input.data()), static_cast<py::ssize_t>(input.size()));
                             })
      .def_property_readonly("input_place", [](DeviceCore& core) { return number_of(core.core().input_place()); })
      .def_property_readonly("tokens_place", [](DeviceCore& core) { return number_of(core.core().tokens_place()); })
      .def_property_readonly("told_place", [](DeviceCore& core) { return number_of(core.core().told_place()); })
      .def_property_readonly("logits_place", [](DeviceCore& core) { return number_of(core.core().logits_place()); })
      .def_property_readonly("logits_stride", [](DeviceCore& core) { return core.core().logits_stride(); })
      .def_property_readonly("generation", [](DeviceCore& core) { return core.core().generation(); })
      .def(
          "enqueue",
          [](DeviceCore& core, const SizeTuple& sizes, uintptr_t stream) {
            py::gil_scoped_release release;
            core.core().enqueue(sizes_of(sizes), place_of(stream));
          },
          py::arg("sizes"), py::arg("stream"))
      .def("begin_drafts", &DeviceCore::begin_drafts, py::arg("prepared"), py::arg("tokens"))
      .def("prepare_draft", &DeviceCore::prepare_draft)
      .def(
          "enqueue_draft",
          [](DeviceCore& core, const SizeTuple& sizes, int pass, uintptr_t stream) {
            py::gil_scoped_release release;
            core.core().enqueue_draft(sizes_of(sizes), pass, place_of(stream));
          },
          py::arg("sizes"), py::arg("pass_kind"), py::arg("stream"))
      .def("take_drafts", &DeviceCore::take_drafts, py::arg("tokens"))
      .def("finish", &DeviceCore::finish, py::arg("prepared"), py::arg("tokens"), py::arg("told"), py::arg("logits"))
      .def("commit", [](DeviceCore& core, int slot, int position) { return core.core().commit(slot, position); }, py::arg("slot"), py::arg("position"))
      .def("seat", [](DeviceCore& core, int slot, const std::vector<int32_t>& ids, std::optional<int> state) { return places_of(core.core().seat(slot, ids, state)); },
           py::arg("slot"), py::arg("ids"), py::arg("state"))
      .def("keep", [](DeviceCore& core, int slot, int state) { return places_of(core.core().keep(slot, state)); }, py::arg("slot"), py::arg("state"))
      .def("filled_state", [](DeviceCore& core, int state) { return number_of(core.core().filled_state(state)); }, py::arg("state"))
      .def("check_state", [](DeviceCore& core, int state) { core.core().check_state(state); }, py::arg("state"))
      .def("kept_position", [](DeviceCore& core, int state) { return core.core().kept_position(state); }, py::arg("state"))
      .def("fill_state", [](DeviceCore& core, int state, int64_t position) { return number_of(core.core().fill_state(state, position)); }, py::arg("state"), py::arg("position"))
      .def_property_readonly("state_bytes", [](DeviceCore& core) { return core.core().state_bytes(); })
      .def_property_readonly("replay_input", [](DeviceCore& core) { return py::bytes(reinterpret_cast<const char*>(&core.core().replay_input()), sizeof(cuda::ReplayInput)); })
      .def_property_readonly("replay_place", [](DeviceCore& core) { return number_of(core.core().replay_place()); })
      .def(
          "replay",
          [](DeviceCore& core, int most, uintptr_t stream) {
            py::gil_scoped_release release;
            core.core().replay(most, place_of(stream));
          },
          py::arg("most"), py::arg("stream"))
      .def("page", [](DeviceCore& core, int page) { return number_of(core.core().page(page)); }, py::arg("page"))
      .def_property_readonly("page_bytes", [](DeviceCore& core) { return core.core().page_bytes(); })
      .def_property_readonly("token_bytes", [](DeviceCore& core) { return core.core().token_bytes(); })
      .def_property_readonly("draft_bytes", [](DeviceCore& core) { return core.core().draft_bytes(); })
      .def_property_readonly("loaded_bytes", [](DeviceCore& core) { return core.core().loaded_bytes(); });

  m.def("use_device", &cuda::choose_device, py::arg("number"));

  py::class_<ProductProbe>(m, "ProductProbe", py::module_local())
      .def(py::init<const std::string&, int, int, const py::buffer&, py::object, float, int, int>(), py::arg("type"), py::arg("rows"), py::arg("columns"), py::arg("data"),
           py::arg("memory"), py::kw_only(), py::arg("scale") = 1.0f, py::arg("most_columns") = 64, py::arg("copies") = 1)
      .def(
          "quantize", [](ProductProbe& p, uintptr_t x, int columns, uintptr_t stream) { p.probe().quantize(place_of(x), columns, place_of(stream)); }, py::arg("x"),
          py::arg("columns"), py::arg("stream"))
      .def(
          "multiply",
          [](ProductProbe& p, int columns, uintptr_t out, uintptr_t stream, int multiprocessors, int copy) {
            py::gil_scoped_release release;
            p.probe().multiply(columns, place_of(out), place_of(stream), multiprocessors, copy);
          },
          py::arg("columns"), py::arg("out"), py::arg("stream"), py::kw_only(), py::arg("multiprocessors") = 0, py::arg("copy") = 0)
      .def(
          "read_rows",
          [](ProductProbe& p, uintptr_t input, int columns, uintptr_t out, uintptr_t stream) { p.probe().read_rows(place_of(input), columns, place_of(out), place_of(stream)); },
          py::arg("input"), py::arg("columns"), py::arg("out"), py::arg("stream"))
      .def_property_readonly("in_stride", [](ProductProbe& p) { return p.probe().in_stride(); })
      .def_property_readonly("out_stride", [](ProductProbe& p) { return p.probe().out_stride(); })
      .def_property_readonly("bytes", [](ProductProbe& p) { return p.probe().bytes(); });
}
